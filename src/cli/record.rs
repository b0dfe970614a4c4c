//! `poolbench record`: measures the whole suite in fresh processes, and writes a baseline.

use super::output::say;
use clap::Args;
use poolbench::command_line::CommandLine;
use poolbench::counted::counted;
use poolbench::recording::{
    self, Intent, Interrupt, LAUNCHES, Options, PROFILE, Progress, RecordingError, Source, Summary, Treatment,
};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// What to record, and how.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The baseline's name; by default GPU, driver and CUDA version.
    #[arg(long)]
    name: Option<String>,
    /// Launches, each of every bench executable once; 24 by default. Many short ones beat few long ones.
    #[arg(long)]
    launches: Option<u64>,
    /// Only the benchmarks whose id this regular expression matches.
    #[arg(long, value_name = "RE")]
    filter: Option<String>,
    /// Adds another session to a baseline of the same machine, driver and build.
    #[arg(long, conflicts_with_all = ["replace", "resume"])]
    append: bool,
    /// Replaces a baseline, and throws away an unfinished recording of the name.
    #[arg(long, conflicts_with = "resume")]
    replace: bool,
    /// Goes on with a recording that was interrupted.
    #[arg(long)]
    resume: bool,
    /// Takes the bench executables from this folder, which `poolbench bundle` made, instead of building them.
    #[arg(long, value_name = "DIR")]
    executables: Option<PathBuf>,
    /// Given twice: measures two drivers in alternating launches, and writes the baselines NAME-LABEL.
    #[arg(long, value_name = "LABEL=PATH", value_parser = labelled, conflicts_with = "sides")]
    libcuda: Vec<(String, String)>,
    /// Criterion's warm-up of each benchmark, in seconds; 0.002 by default.
    #[arg(long, value_name = "S")]
    warm_up_time: Option<f64>,
    /// Criterion's measurement of each benchmark, in seconds; 0.01 by default.
    #[arg(long, value_name = "S")]
    measurement_time: Option<f64>,
    /// Samples of each benchmark in each launch, fewer of a long loop whose pace the device sets; 10 by default, and at
    /// least.
    #[arg(long, value_name = "N")]
    sample_size: Option<u64>,
    /// Turns in which a benchmark's samples are taken at most, others in between; 10 by default, one a sample.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    turns: Option<u32>,
    /// What one loop may take, in seconds; 0.07 by default. Slower cases are skipped.
    #[arg(long, value_name = "S")]
    loop_time_max: Option<f64>,
    /// What a bench executable may say nothing for, in seconds, before it is killed; by default 600 and
    /// twice what the longest case may take. The recording then goes on with `--resume`.
    #[arg(long, value_name = "S")]
    silence_max: Option<f64>,
    /// Pins the submitting thread, and what it starts, to this processor.
    #[arg(long, value_name = "CPU", hide = true)]
    pin: Option<usize>,
    /// Does not measure the host's speed beside each sample.
    #[arg(long, hide = true)]
    no_probes: bool,
    /// Given twice: as `--libcuda`, with the usual driver on both sides.
    #[arg(long = "side", value_name = "LABEL", hide = true)]
    sides: Vec<String>,
    /// Injects a fault into one side (feature `fault-injection`); where there is one, `POOLBENCH_FAULT` does.
    #[arg(long, value_name = "LABEL=PLAN", value_parser = labelled, hide = true)]
    fault: Vec<(String, String)>,
    /// The profile that cargo builds the benches in.
    #[arg(long, default_value = PROFILE, hide = true)]
    profile: String,
}

fn labelled(text: &str) -> Result<(String, String), String> {
    let (label, value) = text.split_once('=').ok_or("write LABEL=VALUE")?;
    if value.is_empty() {
        return Err(String::from("nothing follows the ="));
    }
    Ok((label.to_owned(), value.to_owned()))
}

impl Arguments {
    fn options(&self) -> Result<Options, RecordingError> {
        let intent = match (self.append, self.replace, self.resume) {
            (true, _, _) => Intent::Append,
            (_, true, _) => Intent::Replace,
            (_, _, true) => Intent::Resume,
            _ => Intent::New,
        };
        let source = match &self.executables {
            Some(folder) => Source::Bundle(folder.clone()),
            None => Source::Cargo {
                profile: self.profile.clone(),
            },
        };
        Ok(Options {
            name: self.name.clone(),
            intent,
            launches: self.launches,
            filter: self.filter.clone(),
            warm_up_time_s: self.warm_up_time,
            measurement_time_s: self.measurement_time,
            sample_size: self.sample_size,
            turns: self.turns,
            loop_time_max_s: self.loop_time_max,
            pinned_processor: self.pin,
            probes: self.no_probes.then_some(false),
            silence_max_s: self.silence_max,
            source,
            sides: self.treatments()?,
        })
    }

    fn treatments(&self) -> Result<Vec<Treatment>, RecordingError> {
        let plain = self.sides.iter().map(|label| (label, None));
        let named = self.libcuda.iter().map(|(label, path)| (label, Some(library(path))));
        let mut treatments: Vec<Treatment> = plain
            .chain(named)
            .map(|(label, libcuda)| Treatment {
                label: Some(label.clone()),
                libcuda,
                fault: None,
            })
            .collect();
        for (label, plan) in &self.fault {
            let side = treatments
                .iter_mut()
                .find(|treatment| treatment.label.as_ref() == Some(label))
                .ok_or_else(|| {
                    RecordingError::Usage(format!("--fault {label}=: no --libcuda or --side has this label"))
                })?;
            side.fault = Some(plan.clone());
        }
        Ok(treatments)
    }
}

/// A path stays right from another folder; a bare name is the dynamic linker's to find.
fn library(path: &str) -> PathBuf {
    if path.contains('/') {
        std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path))
    } else {
        PathBuf::from(path)
    }
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    match record(arguments) {
        Ok((options, summary)) => {
            // A reader that went away has lost its text, and nobody else anything.
            let _ = std::io::stdout().write_all(text(&options, &summary).as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error),
    }
}

/// Says why it failed, the executable's own words first.
pub(super) fn failed(error: &RecordingError) -> ExitCode {
    let output = error.output().unwrap_or_default();
    let _ = write!(std::io::stderr(), "{output}");
    say(error);
    ExitCode::from(error.exit_code())
}

/// Ctrl-C from here on stops what runs, and leaves nothing half done.
pub(super) fn interrupt() -> Result<Interrupt, RecordingError> {
    Interrupt::on_signals().map_err(|error| RecordingError::Nothing(format!("cannot listen to Ctrl-C: {error}")))
}

fn record(arguments: &Arguments) -> Result<(Options, Summary), RecordingError> {
    let options = arguments.options()?;
    let summary = recording::record(&options, &interrupt()?, &mut Progress::to_stderr())?;
    Ok((options, summary))
}

/// What came of it, and what to do next.
fn text(options: &Options, summary: &Summary) -> String {
    let mut text = String::new();
    for written in &summary.written {
        let manifest = &written.baseline.manifest;
        let mut sessions: Vec<&str> = written
            .baseline
            .launches
            .iter()
            .map(|launch| launch.session.as_str())
            .collect();
        sessions.sort_unstable();
        sessions.dedup();
        let marked = written
            .baseline
            .launches
            .iter()
            .flat_map(|launch| launch.samples.values())
            .filter(|samples| !samples.flags.is_empty())
            .count();
        let _ = writeln!(
            text,
            "{}: {} ({} bound by the host), {} in {}, {} skipped, {} repeated, {} marked as disturbed",
            written.folder.display(),
            counted(manifest.benchmarks.len(), "benchmark"),
            manifest.host_bound.len(),
            counted(manifest.launches, "launch"),
            counted(sessions.len(), "session"),
            manifest.skipped.len(),
            manifest.settings.repeated,
            marked,
        );
    }
    let _ = writeln!(
        text,
        "measured {} in {}",
        counted(summary.launches, "launch"),
        recording::spoken(summary.elapsed)
    );
    let names: Vec<&str> = summary.written.iter().map(|written| written.name.as_str()).collect();
    let _ = match names.as_slice() {
        [base, new] => {
            let compare = CommandLine::as_started("compare").operand(base).operand(new);
            writeln!(text, "next: {compare}")
        }
        [name, ..] => writeln!(
            text,
            "next, an hour or more from now, since two sessions prove what one cannot: {}",
            options.to_append(name, summary.planned)
        ),
        [] => Ok(()),
    };
    text
}

const _: () = assert!(LAUNCHES == 24, "the help says so");
