//! `poolbench calibrate`: false alarms and detectable effects on a baseline's own noise.

use super::output::{Format, conclude};
use poolbench::baseline::{FOLDER, Input};
use poolbench::report::{CalibrationReport, calibration_json, calibration_text};
use poolbench::stats::{CalibrationPlan, Options};
use std::path::Path;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A baseline in criterion-baselines, or the folder of one.
    name: String,
    /// How often its launches are halved at random.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    splits: u32,
    /// The seed of the splits; the same seed gives the same splits.
    #[arg(long, default_value_t = CalibrationPlan::default().seed)]
    seed: u64,
    /// How to print it.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    conclude(text(arguments))
}

fn text(arguments: &Arguments) -> Result<String, String> {
    let input = Input::named(&arguments.name, Path::new(FOLDER)).map_err(|error| error.to_string())?;
    let plan = CalibrationPlan {
        splits: arguments.splits as usize,
        seed: arguments.seed,
    };
    let report = CalibrationReport::new(&input, &Options::default(), plan).map_err(|error| error.to_string())?;
    match arguments.format {
        Format::Text => Ok(calibration_text(&report)),
        Format::Json => calibration_json(&report)
            .map(|json| json + "\n")
            .map_err(|error| error.to_string()),
    }
}
