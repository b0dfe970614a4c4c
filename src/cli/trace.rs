//! `poolbench trace`: what an allocation trace holds.

use super::output::{failed, print};
use clap::ValueEnum;
use poolbench::report::ascii_json;
use poolbench::trace;
use std::path::PathBuf;
use std::process::ExitCode;

/// How the summary is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

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
    match text(arguments).and_then(|text| print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => failed(&message),
    }
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
