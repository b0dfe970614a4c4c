//! What the user asks for.

use super::error::RecordingError;
use super::executables::{PROFILE, Source};
use super::plan::Treatment;
use crate::baseline::{BaselineName, LAUNCHES_MAX, Settings};
use crate::command_line::CommandLine;
use crate::criterion_arguments::{self, SAMPLE_SIZE_MAX, SAMPLE_SIZE_MIN, TIME_S_MAX, TIME_S_MIN};
use std::time::Duration;

/// Launches of a recording where the user says nothing else.
pub const LAUNCHES: u64 = 24;
/// Turns in which a benchmark's samples are taken where the user says nothing else: one for each sample.
const TURNS: u32 = 10;
/// How long a bench executable may print nothing, beside what its longest case may take: no driver call that
/// ends at all takes so long.
const SILENCE_MAX_S: f64 = 600.0;

/// The settings of a recording where the user says nothing else.
fn usual_settings() -> Settings {
    Settings {
        warm_up_time_s: 0.002,
        measurement_time_s: 0.01,
        turns: TURNS,
        sample_size: SAMPLE_SIZE_MIN,
        loop_time_max_s: 0.07,
        probes: true,
        ..Settings::default()
    }
}

/// Returns the line of `record` with the flags that make these settings, as far as they are not the usual
/// ones. Labels and injected faults are none of a single recording's.
#[must_use]
pub fn with_settings(line: CommandLine, settings: &Settings) -> CommandLine {
    let usual = usual_settings();
    let differs = |value: f64, usual: f64| (value != usual).then(|| value.to_string());
    let counted = |value: u64, usual: u64| (value != usual).then(|| value.to_string());
    let options = [
        ("--filter", settings.filter.clone()),
        ("--warm-up-time", differs(settings.warm_up_time_s, usual.warm_up_time_s)),
        (
            "--measurement-time",
            differs(settings.measurement_time_s, usual.measurement_time_s),
        ),
        ("--sample-size", counted(settings.sample_size, usual.sample_size)),
        // Zero counts as one.
        ("--turns", counted(settings.turns.max(1).into(), usual.turns.into())),
        (
            "--loop-time-max",
            differs(settings.loop_time_max_s, usual.loop_time_max_s),
        ),
        (
            "--pin",
            settings.pinned_processor.map(|processor| processor.to_string()),
        ),
    ];
    let given = options.into_iter().filter_map(|(flag, value)| Some((flag, value?)));
    let line = given.fold(line, |line, (flag, value)| line.option(flag, value));
    if settings.probes {
        line
    } else {
        line.flag("--no-probes")
    }
}

/// What the user asks for. `None` is the default, or with [`Intent::Resume`] and [`Intent::Append`] what was
/// recorded before.
#[derive(Clone, Debug)]
pub struct Options {
    /// The baseline's name.
    pub name: Option<String>,
    /// What to do with what has the name already.
    pub intent: Intent,
    /// Launches, of each side.
    pub launches: Option<u64>,
    /// A regular expression on the ids.
    pub filter: Option<String>,
    /// Criterion's warm-up of each benchmark in seconds.
    pub warm_up_time_s: Option<f64>,
    /// Criterion's measurement of each benchmark in seconds.
    pub measurement_time_s: Option<f64>,
    /// Samples of each benchmark in each launch; fewer of a long loop whose pace the device sets.
    pub sample_size: Option<u64>,
    /// In how many turns the samples of a benchmark are taken at most, others in between.
    pub turns: Option<u32>,
    /// What one loop may take at most, in seconds.
    pub loop_time_max_s: Option<f64>,
    /// The processor to pin the submitting thread to, and with it those that are started after the device was
    /// opened.
    pub pinned_processor: Option<usize>,
    /// Whether to measure the host's speed beside each sample.
    pub probes: Option<bool>,
    /// How long a bench executable may print nothing before it is killed, in seconds. It changes no
    /// measurement, so each run may say otherwise.
    pub silence_max_s: Option<f64>,
    /// Where the bench executables come from.
    pub source: Source,
    /// The sides that are recorded in alternating launches; empty or two.
    pub sides: Vec<Treatment>,
}

/// What to do with what has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// The name must be free.
    New,
    /// Another session for an existing baseline.
    Append,
    /// An existing baseline is replaced.
    Replace,
    /// An unfinished recording is finished.
    Resume,
}

impl Options {
    /// Checks what can be checked without looking at anything.
    pub(super) fn check(&self) -> Result<(), RecordingError> {
        let usage = |text: String| Err(RecordingError::Usage(text));
        if let Some(filter) = &self.filter
            && let Err(reason) = criterion_arguments::filter(filter)
        {
            return usage(format!("--filter {filter:?} is no regular expression: {reason}"));
        }
        if self.launches == Some(0) {
            return usage(String::from("--launches 0 would record nothing; give 1 or more"));
        }
        if let Some(launches) = self.launches.filter(|launches| *launches > LAUNCHES_MAX) {
            return usage(format!(
                "--launches {launches} are more than a baseline holds; give {LAUNCHES_MAX} or fewer"
            ));
        }
        let times = [
            ("--warm-up-time", self.warm_up_time_s),
            ("--measurement-time", self.measurement_time_s),
            ("--loop-time-max", self.loop_time_max_s),
            ("--silence-max", self.silence_max_s),
        ];
        for (flag, value) in times {
            if value.is_some_and(|value| !(TIME_S_MIN..=TIME_S_MAX).contains(&value)) {
                return usage(format!(
                    "{flag}: give seconds above 0 (a nanosecond at least), and at most {TIME_S_MAX}"
                ));
            }
        }
        if self.sample_size.is_some_and(|size| size < SAMPLE_SIZE_MIN) {
            return usage(format!(
                "--sample-size: Criterion takes {SAMPLE_SIZE_MIN} samples or more"
            ));
        }
        if self.sample_size.is_some_and(|size| size > SAMPLE_SIZE_MAX) {
            return usage(format!("--sample-size: give {SAMPLE_SIZE_MAX} samples or fewer"));
        }
        self.check_sides()
    }

    fn check_sides(&self) -> Result<(), RecordingError> {
        let usage = |text: &str| Err(RecordingError::Usage(text.to_owned()));
        for side in &self.sides {
            let label = side.label.as_deref().unwrap_or_default();
            if label.parse::<BaselineName>().is_err() {
                return usage(&format!(
                    "the label {label:?} must be fit for a file name, as old or new"
                ));
            }
            if side.fault.is_some() && !cfg!(feature = "fault-injection") {
                return usage("--fault needs a poolbench that is built with --features fault-injection");
            }
        }
        match self.sides.as_slice() {
            [] => Ok(()),
            [a, b] if a.label == b.label => {
                let label = a.label.as_deref().unwrap_or_default();
                usage(&format!("both sides are labelled {label:?}; give two labels"))
            }
            [_, _] => {
                let named = self.sides.iter().any(|side| side.libcuda.is_some());
                if named && std::env::var_os("POOLBENCH_DEVICE").is_some_and(|device| device == "host") {
                    return usage("--libcuda names drivers, but POOLBENCH_DEVICE=host measures none; unset it");
                }
                Ok(())
            }
            _ => usage("two sides are recorded in turn: give --libcuda LABEL=PATH exactly twice"),
        }
    }

    /// The settings of a recording that nothing recorded before binds.
    pub(super) fn settings(&self) -> Settings {
        let usual = usual_settings();
        Settings {
            warm_up_time_s: self.warm_up_time_s.unwrap_or(usual.warm_up_time_s),
            measurement_time_s: self.measurement_time_s.unwrap_or(usual.measurement_time_s),
            turns: self.turns.unwrap_or(usual.turns),
            sample_size: self.sample_size.unwrap_or(usual.sample_size),
            loop_time_max_s: self.loop_time_max_s.unwrap_or(usual.loop_time_max_s),
            filter: self.filter.clone(),
            pinned_processor: self.pinned_processor,
            probes: self.probes.unwrap_or(usual.probes),
            ..usual
        }
    }

    /// The command line that goes on with this recording, under its name. Its plan remembers all but where
    /// the executables are.
    pub(super) fn to_resume(&self, name: &str) -> CommandLine {
        self.to_record(name).flag("--resume")
    }

    /// The command line that adds another session, of so many launches, to the baseline of this recording, which
    /// remembers how it was measured.
    #[must_use]
    pub fn to_append(&self, name: &str, launches: u64) -> CommandLine {
        let line = self.to_record(name).flag("--append");
        if launches == LAUNCHES {
            line
        } else {
            line.option("--launches", launches.to_string())
        }
    }

    /// How long a bench executable may print nothing: Criterion says when it turns to a benchmark and at each
    /// step of it, so no longer than a case takes, with room for a busy machine.
    pub(super) fn silence_max(&self, settings: &Settings) -> Duration {
        // A case that takes all its samples in one turn says nothing in between.
        let loops = settings.sample_size as f64;
        let case_s = settings.warm_up_time_s + settings.measurement_time_s + loops * settings.loop_time_max_s;
        let seconds = self.silence_max_s.unwrap_or(SILENCE_MAX_S + 2.0 * case_s);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    fn to_record(&self, name: &str) -> CommandLine {
        let line = CommandLine::as_started("record")
            .with_variables()
            .option("--name", name);
        let line = match self.silence_max_s {
            Some(seconds) => line.option("--silence-max", seconds.to_string()),
            None => line,
        };
        match &self.source {
            Source::Bundle(folder) => line.option("--executables", folder),
            Source::Cargo { profile } if profile == PROFILE => line,
            Source::Cargo { profile } => line.option("--profile", profile),
        }
    }

    /// Where flags were given that say otherwise than what was recorded before.
    pub(super) fn differences_from(&self, recorded: &Settings) -> Vec<String> {
        fn differ<T: PartialEq + std::fmt::Debug>(
            flag: &str,
            asked: Option<&T>,
            recorded: Option<&T>,
        ) -> Option<String> {
            let asked = asked.filter(|asked| Some(*asked) != recorded)?;
            let recorded = recorded.map_or_else(|| String::from("none"), |recorded| format!("{recorded:?}"));
            Some(format!("{flag} {asked:?}, recorded with {recorded}"))
        }
        [
            differ(
                "--warm-up-time",
                self.warm_up_time_s.as_ref(),
                Some(&recorded.warm_up_time_s),
            ),
            differ(
                "--measurement-time",
                self.measurement_time_s.as_ref(),
                Some(&recorded.measurement_time_s),
            ),
            differ("--turns", self.turns.as_ref(), Some(&recorded.turns)),
            differ("--sample-size", self.sample_size.as_ref(), Some(&recorded.sample_size)),
            differ(
                "--loop-time-max",
                self.loop_time_max_s.as_ref(),
                Some(&recorded.loop_time_max_s),
            ),
            differ("--filter", self.filter.as_ref(), recorded.filter.as_ref()),
            differ(
                "--pin",
                self.pinned_processor.as_ref(),
                recorded.pinned_processor.as_ref(),
            ),
            differ("probes", self.probes.as_ref(), Some(&recorded.probes)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
