//! `poolbench list`: the baselines, a line each.

use super::output::{failed, print};
use clap::ValueEnum;
use poolbench::baseline::{FOLDER, inventory};
use poolbench::report::{inventory_json, inventory_text};
use std::path::Path;
use std::process::ExitCode;

/// How the list is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// How to print it.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    match text(arguments.format).and_then(|text| print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => failed(&message),
    }
}

fn text(format: Format) -> Result<String, String> {
    let listed = inventory(Path::new(FOLDER)).map_err(|error| format!("{FOLDER}: {error}"))?;
    match format {
        Format::Text if listed.is_empty() => Ok(format!(
            "no baselines in {FOLDER} under this folder; `poolbench record` makes one\n"
        )),
        Format::Text => Ok(inventory_text(&listed)),
        Format::Json => inventory_json(&listed)
            .map(|json| json + "\n")
            .map_err(|error| error.to_string()),
    }
}
