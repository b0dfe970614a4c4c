//! The command line, which is Criterion's, as far as the suite must know it before a device is opened: whether
//! something is only listed, and values that Criterion would stop at with an assertion, or with lost results.

use super::SuiteError;
use super::output::nobody_listens;
use super::settings::defaults;
use crate::baseline::criterion_home;
use crate::case::BenchmarkId;
use crate::criterion_arguments::{self, SAMPLE_SIZE_MAX, SAMPLE_SIZE_MIN, TIME_S_MAX, TIME_S_MIN};
use clap::Parser;
use criterion::Criterion;
use regex::Regex;
use std::ops::Bound::{Excluded, Included};
use std::ops::RangeBounds as _;
use std::panic::{self, AssertUnwindSafe};

/// Criterion's estimates are of two or more.
const RESAMPLES_MIN: u64 = 2;
/// Criterion reserves memory for all of them, several times.
const RESAMPLES_MAX: u64 = 1_000_000;

/// Criterion's arguments, as it declares them (release 0.8). What is not used is here so that the others are found.
#[derive(Clone, Debug, Default, Parser)]
#[command(no_binary_name = true, disable_help_flag = true, disable_version_flag = true)]
#[allow(clippy::struct_excessive_bools, reason = "they are flags")]
struct Given {
    filter: Option<String>,
    #[arg(short = 'c', long, alias = "colour", value_parser = ["auto", "always", "never"])]
    color: Option<String>,
    #[arg(short, long)]
    verbose: bool,
    #[arg(long, conflicts_with = "verbose")]
    quiet: bool,
    #[arg(short, long)]
    noplot: bool,
    #[arg(short, long)]
    save_baseline: Option<String>,
    #[arg(long, conflicts_with_all = ["save_baseline", "baseline", "baseline_lenient"])]
    discard_baseline: bool,
    #[arg(short, long, conflicts_with_all = ["save_baseline", "baseline_lenient"])]
    baseline: Option<String>,
    #[arg(long, conflicts_with_all = ["save_baseline", "baseline"])]
    baseline_lenient: Option<String>,
    #[arg(long, conflicts_with_all = ["test", "profile_time"])]
    list: bool,
    #[arg(long, value_parser = ["pretty", "terse"])]
    format: Option<String>,
    #[arg(long)]
    ignored: bool,
    #[arg(long)]
    exact: bool,
    #[arg(long, conflicts_with_all = ["test", "list"])]
    profile_time: Option<f64>,
    #[arg(long, conflicts_with = "profile_time", requires = "baseline")]
    load_baseline: Option<String>,
    #[arg(long)]
    sample_size: Option<u64>,
    #[arg(long)]
    warm_up_time: Option<f64>,
    #[arg(long)]
    measurement_time: Option<f64>,
    #[arg(long)]
    nresamples: Option<u64>,
    #[arg(long)]
    noise_threshold: Option<f64>,
    #[arg(long)]
    confidence_level: Option<f64>,
    #[arg(long)]
    significance_level: Option<f64>,
    #[arg(long, conflicts_with = "sample_size")]
    quick: bool,
    #[arg(long)]
    test: bool,
    #[arg(long)]
    bench: bool,
    #[arg(long, value_parser = ["gnuplot", "plotters"])]
    plotting_backend: Option<String>,
    #[arg(long, value_parser = ["criterion", "bencher"])]
    output_format: Option<String>,
    #[arg(long)]
    nocapture: bool,
    #[arg(long)]
    show_output: bool,
    #[arg(long)]
    include_ignored: bool,
    #[arg(short = 'V', long)]
    version: bool,
}

/// What the command line says.
#[derive(Clone, Debug)]
pub(super) struct Arguments {
    given: Given,
    filter: Option<Regex>,
}

/// Has Criterion read the command line. What it then panics with, as a plotting backend that is not there, is wrong
/// usage, and the panic hook has said it.
///
/// # Errors
///
/// That it panicked.
pub(super) fn configured(criterion: Criterion) -> Result<Criterion, SuiteError> {
    panic::catch_unwind(AssertUnwindSafe(|| criterion.configure_from_args())).map_err(|payload| {
        if nobody_listens(payload.as_ref()) {
            SuiteError::NobodyListens
        } else {
            SuiteError::Refused
        }
    })
}

impl Arguments {
    /// Reads the command line. Where that is Criterion's to answer (`--help`, a flag that does not exist), it does,
    /// and ends the process.
    ///
    /// # Errors
    ///
    /// A value outside its range, with its flag.
    pub(super) fn of_process() -> Result<Arguments, SuiteError> {
        let given = match Given::try_parse_from(std::env::args_os().skip(1)) {
            Ok(given) => given,
            Err(error) => {
                // The defaults that the help gives are a GPU's, unless the host device was asked for: the device is
                // not opened yet.
                let on_host = std::env::var_os("POOLBENCH_DEVICE").is_some_and(|device| device == "host");
                configured(defaults(on_host))?;
                // Only a Criterion that declares something else gets here.
                let text = error.to_string();
                let reason = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
                return Err(SuiteError::Usage(format!(
                    "{reason}; Criterion knows it, but poolbench does not"
                )));
            }
        };
        Arguments::of(given)
    }

    fn of(given: Given) -> Result<Arguments, SuiteError> {
        given.check_names().map_err(SuiteError::Usage)?;
        given.check_numbers().map_err(SuiteError::Usage)?;
        let filter = given.filter().map_err(SuiteError::Usage)?;
        Ok(Arguments { given, filter })
    }

    /// Whether the ids are only listed.
    pub(super) fn lists(&self) -> bool {
        self.given.list
    }

    /// Whether Criterion measures and saves, rather than listing, trying or profiling.
    pub(super) fn measures(&self) -> bool {
        let given = &self.given;
        given.bench && !given.test && !given.list && given.profile_time.is_none()
    }

    /// Whether Criterion writes its HTML report.
    pub(super) fn makes_report(&self) -> bool {
        self.measures() && !self.given.noplot
    }

    /// Whether Criterion is to print without colours that nobody asked for on the command line.
    pub(super) fn leaves_color_to_environment(&self) -> bool {
        self.given.color.as_deref().is_none_or(|color| color == "auto")
    }

    /// Whether Criterion's filter lets a case through.
    pub(super) fn selects(&self, id: &BenchmarkId) -> bool {
        let id = id.to_string();
        match (&self.filter, &self.given.filter) {
            _ if self.given.ignored => false,
            (Some(filter), _) => filter.is_match(&id),
            (None, Some(exact)) => *exact == id,
            (None, None) => true,
        }
    }

    /// The saved baselines that a measurement needs, and whether each case must have one.
    pub(super) fn needed_baselines(&self) -> impl Iterator<Item = (&str, bool)> {
        let given = &self.given;
        let needed = [
            (&given.baseline, true),
            (&given.baseline_lenient, false),
            (&given.load_baseline, true),
        ];
        let measures = self.measures();
        let named = needed
            .into_iter()
            .filter_map(|(name, strict)| Some((name.as_deref()?, strict)));
        named.filter(move |_| measures)
    }
}

impl Given {
    fn check_names(&self) -> Result<(), String> {
        if let Some(name) = &self.save_baseline {
            criterion_home::check_new_name(name).map_err(|reason| format!("--save-baseline: {reason}"))?;
        }
        for (flag, name) in [
            ("--baseline", &self.baseline),
            ("--baseline-lenient", &self.baseline_lenient),
        ] {
            if let Some(name) = name {
                criterion_home::check_saved_name(name).map_err(|reason| format!("{flag}: {reason}"))?;
            }
        }
        match self.load_baseline.as_deref() {
            // The last measurement is one that can be loaded.
            None | Some("new") => Ok(()),
            Some(name) => criterion_home::check_saved_name(name).map_err(|reason| format!("--load-baseline: {reason}")),
        }
    }

    fn check_numbers(&self) -> Result<(), String> {
        let counts = [
            ("--sample-size", self.sample_size, SAMPLE_SIZE_MIN, SAMPLE_SIZE_MAX),
            ("--nresamples", self.nresamples, RESAMPLES_MIN, RESAMPLES_MAX),
        ];
        for (flag, value, least, most) in counts {
            if let Some(value) = value.filter(|value| !(least..=most).contains(value)) {
                return Err(format!("{flag} {value}: give a number from {least} to {most}"));
            }
        }
        let time = (
            Included(TIME_S_MIN),
            Included(TIME_S_MAX),
            "seconds above 0, and at most 3600",
        );
        let share = (Excluded(0.0), Excluded(1.0), "a number between 0 and 1, as 0.95");
        let ranges = [
            ("--warm-up-time", self.warm_up_time, time),
            ("--measurement-time", self.measurement_time, time),
            (
                "--profile-time",
                self.profile_time,
                (Included(1.0), Included(TIME_S_MAX), "seconds from 1 to 3600"),
            ),
            (
                "--noise-threshold",
                self.noise_threshold,
                (Excluded(0.0), Excluded(f64::INFINITY), "a share above 0, as 0.01"),
            ),
            ("--confidence-level", self.confidence_level, share),
            ("--significance-level", self.significance_level, share),
        ];
        for (flag, value, (least, most, range)) in ranges {
            // What is no number is inside no range.
            if let Some(value) = value.filter(|value| !(least, most).contains(value)) {
                return Err(format!("{flag} {value}: give {range}"));
            }
        }
        Ok(())
    }

    /// The filter as Criterion understands it, where it is a regular expression.
    fn filter(&self) -> Result<Option<Regex>, String> {
        let Some(filter) = self.filter.as_ref().filter(|_| !self.exact && !self.ignored) else {
            return Ok(None);
        };
        criterion_arguments::filter(filter).map(Some).map_err(|reason| {
            format!("the filter {filter:?} is no regular expression: {reason}; --exact takes it as it is")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Arguments, String> {
        let given = Given::try_parse_from(line.split_whitespace()).map_err(|error| error.to_string())?;
        Arguments::of(given).map_err(|error| error.to_string())
    }

    #[test]
    fn the_filter_is_criterions() {
        let id = |text: &str| {
            let parts: Vec<&str> = text.split('/').collect();
            BenchmarkId::new(parts[0], parts[1], parts[2]).expect("a valid id")
        };
        let selects = |line: &str| of(line).expect("right").selects(&id("g/sync/4KiB"));
        for line in [
            "",
            "--bench sync/",
            "-n 4KiB$",
            "--exact g/sync/4KiB",
            "--bench -- s.nc",
        ] {
            assert!(selects(line), "{line}");
        }
        for line in ["hoisted", "--exact sync", "--ignored", "--ignored sync"] {
            assert!(!selects(line), "{line}");
        }
    }

    #[test]
    fn what_measures_is_told_from_what_only_tries() {
        let measures = |line: &str| of(line).expect("right").measures();
        assert!(measures("--bench") && measures("--bench --noplot"));
        for line in [
            "",
            "--test",
            "--bench --test",
            "--bench --list",
            "--bench --profile-time 1",
        ] {
            assert!(!measures(line), "{line}");
        }
        let report = |line: &str| of(line).expect("right").makes_report();
        assert!(report("--bench") && !report("--bench -n") && !report("--test"));
    }

    #[test]
    fn values_at_the_ends_of_their_ranges_are_taken() {
        for line in [
            "--sample-size 10",
            "--nresamples 2",
            "--warm-up-time 3600",
            "--measurement-time 0.000000001",
            "--profile-time 1",
            "--confidence-level 0.999",
            "--save-baseline base",
            "--load-baseline new --baseline before",
        ] {
            assert!(of(line).is_ok(), "{line}");
        }
    }
}
