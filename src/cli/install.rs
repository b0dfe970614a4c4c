//! `poolbench install`: a baseline for `cargo bench -- --baseline NAME` and critcmp.

use super::output::conclude;
use poolbench::baseline::{Baseline, BaselineName, Existing, FOLDER, InputError, criterion_home, folder_of, names_in};
use poolbench::counted::counted;
use poolbench::slug::slug;
use std::path::Path;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A baseline in criterion-baselines. Criterion knows it by the same name.
    name: String,
    /// Write over a baseline of this name that Criterion recorded.
    #[arg(long)]
    replace: bool,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    conclude(install(arguments))
}

fn install(arguments: &Arguments) -> Result<String, String> {
    let name: BaselineName = arguments
        .name
        .parse()
        .map_err(|error: poolbench::baseline::InvalidName| error.to_string())?;
    let baselines = Path::new(FOLDER);
    let folder = folder_of(baselines, &name);
    if !folder.is_dir() {
        let error = InputError::NoSuchName {
            name: name.to_string(),
            baselines: baselines.to_owned(),
            there: names_in(baselines),
        };
        return Err(error.to_string());
    }
    let baseline = Baseline::read(&folder).map_err(|error| error.to_string())?;
    // Which of several cards `cargo bench` meets next, nobody knows.
    let homes = criterion_home::folders_of_model(&slug(&baseline.manifest.environment.device.name));
    let existing = if arguments.replace {
        Existing::Replace
    } else {
        Existing::Keep
    };
    // One that refuses it keeps it out of all.
    for home in &homes {
        baseline
            .check_home(home, &name, existing)
            .map_err(|error| error.to_string())?;
    }
    let mut count = 0;
    for home in &homes {
        count = baseline
            .install(home, &name, existing)
            .map_err(|error| error.to_string())?;
    }
    // Strict comparison ends at the first benchmark that the baseline lacks.
    let flag = if baseline.manifest.skipped.is_empty() && baseline.manifest.settings.filter.is_none() {
        "--baseline"
    } else {
        "--baseline-lenient"
    };
    Ok(format!(
        "{} of {} in {}; compare with cargo bench -- {flag} {name}\n",
        counted(count, "benchmark"),
        counted(baseline.launches.len(), "launch"),
        homes
            .iter()
            .map(|home| home.display().to_string())
            .collect::<Vec<_>>()
            .join(" and ")
    ))
}
