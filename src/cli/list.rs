//! `poolbench list`: the baselines, a line each.

use super::output::{Format, conclude};
use poolbench::baseline::{FOLDER, inventory};
use poolbench::command_line::CommandLine;
use poolbench::report::{inventory_json, inventory_text};
use std::path::Path;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// How to print it.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    conclude(text(arguments.format))
}

fn text(format: Format) -> Result<String, String> {
    let listed = inventory(Path::new(FOLDER)).map_err(|error| format!("{FOLDER}: {error}"))?;
    match format {
        Format::Text if listed.is_empty() => Ok(format!(
            "no baselines in {FOLDER} under this folder; `{}` makes one\n",
            CommandLine::recording_as_started()
        )),
        Format::Text => Ok(inventory_text(&listed)),
        Format::Json => inventory_json(&listed)
            .map(|json| json + "\n")
            .map_err(|error| error.to_string()),
    }
}
