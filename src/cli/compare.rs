//! `poolbench compare`: what changed between two recordings.

use super::output::{failed, print, write_file, wrong_usage};
use super::report::comparison_page;
use super::request::{RequestArguments, read, spare_sides};
use clap::ValueEnum;
use poolbench::report::{Compared, comparison_json, comparison_markdown, comparison_text};
use poolbench::stats::Options;
use std::path::PathBuf;
use std::process::ExitCode;

/// How the comparison is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Markdown,
    Json,
    Html,
}

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// What was before: a baseline in criterion-baselines, the folder of one, criterion-home@baseline-name, or a
    /// file of `critcmp --export`.
    base: String,
    /// What is now, likewise.
    new: String,
    /// How to print it.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Show every benchmark, not only those that changed (text).
    #[arg(long)]
    all: bool,
    /// Write the result into a file, whole or not at all, and only its first sentence to standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    request: RequestArguments,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let options = match arguments.request.options() {
        Ok(options) => options,
        Err(message) => return wrong_usage(&message),
    };
    if let Some(out) = &arguments.out
        && let Err(message) = spare_sides(out, [&arguments.base, &arguments.new])
    {
        return wrong_usage(&message);
    }
    let compared = match compared(arguments, options) {
        Ok(compared) => compared,
        Err(message) => return failed(&message),
    };
    let text = match arguments.format {
        Format::Text => comparison_text(&compared, arguments.all),
        Format::Markdown => comparison_markdown(&compared),
        Format::Json => match comparison_json(&compared) {
            Ok(json) => json + "\n",
            Err(error) => return failed(&error),
        },
        Format::Html => comparison_page(&compared, (&arguments.base, &arguments.new), &arguments.request),
    };
    let written = match &arguments.out {
        Some(path) => write_file(path, &text).and_then(|()| print(&(compared.headline() + "\n"))),
        None => print(&text),
    };
    match written {
        Ok(()) => ExitCode::from(compared.exit_code()),
        Err(message) => failed(&message),
    }
}

fn compared(arguments: &Arguments, options: Options) -> Result<Compared, String> {
    let (base, new) = (read(&arguments.base)?, read(&arguments.new)?);
    arguments.request.compare(base, new, options)
}
