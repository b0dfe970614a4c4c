//! `poolbench trace`: what an allocation trace holds.

use super::output::{Format, conclude};
use poolbench::report::ascii_json;
use poolbench::trace;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// An RMM log (CSV), a PyTorch memory snapshot (pickle), an Nsight Systems export (SQLite) or a PyTorch profiler
    /// trace (JSON); all but SQLite may be gzipped. The format is told by the content.
    file: PathBuf,
    /// How to print it.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    conclude(text(arguments))
}

fn text(arguments: &Arguments) -> Result<String, String> {
    let trace = trace::read(&arguments.file).map_err(|error| error.to_string())?;
    let summary = trace.summary();
    match arguments.format {
        Format::Text => Ok(trace::text(&summary)),
        Format::Json => serde_json::to_string_pretty(&summary)
            .map(|json| ascii_json(&json) + "\n")
            .map_err(|error| error.to_string()),
    }
}
