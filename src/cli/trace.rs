//! `poolbench trace`: what an allocation trace holds.

use clap::ValueEnum;
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
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let summary = match trace::read(&arguments.file) {
        Ok(trace) => trace.summary(),
        Err(error) => {
            eprintln!("poolbench: {error}");
            return ExitCode::from(3);
        }
    };
    match arguments.format {
        Format::Text => print!("{}", trace::text(&summary)),
        Format::Json => match serde_json::to_string_pretty(&summary) {
            Ok(json) => println!("{json}"),
            Err(error) => {
                eprintln!("poolbench: {error}");
                return ExitCode::from(3);
            }
        },
    }
    ExitCode::SUCCESS
}
