//! `poolbench compare`: what changed between two recordings.

use super::output::{failed, print, write_file, wrong_usage};
use clap::ValueEnum;
use poolbench::baseline::{FOLDER, Input, known_spread};
use poolbench::report::{CompareRequest, Compared, comparison_json, comparison_markdown, comparison_text};
use poolbench::stats::Options;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How the comparison is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Markdown,
    Json,
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
    /// The smallest change that matters, as a share: 0.01 is one per cent.
    #[arg(long, value_name = "SHARE", default_value = "0.01", allow_hyphen_values = true)]
    min_effect: String,
    /// The share of false ones among the changes found, on average.
    #[arg(long, value_name = "SHARE", default_value = "0.05", allow_hyphen_values = true)]
    fdr: String,
    /// Exit with 1 also where something is suspected or missing.
    #[arg(long)]
    strict: bool,
    /// Compare sides that measured different things, and warn.
    #[arg(long)]
    allow_mismatch: bool,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let options = match options(arguments) {
        Ok(options) => options,
        Err(message) => return wrong_usage(&message),
    };
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

fn options(arguments: &Arguments) -> Result<Options, String> {
    let number = |flag: &str, text: &str| {
        text.parse::<f64>()
            .map_err(|_| format!("{flag} {text}: is no number; write a share such as 0.01"))
    };
    let min_effect = number("--min-effect", &arguments.min_effect)?;
    let fdr = number("--fdr", &arguments.fdr)?;
    Options::new(min_effect, fdr).map_err(|error| error.to_string())
}

fn compared(arguments: &Arguments, options: Options) -> Result<Compared, String> {
    let baselines = Path::new(FOLDER);
    let read = |text: &str| Input::named(text, baselines).map_err(|error| error.to_string());
    let (base, new) = (read(&arguments.base)?, read(&arguments.new)?);
    let known_spread = known_spread(baselines, &base, &new);
    let request = CompareRequest {
        options,
        strict: arguments.strict,
        allow_mismatch: arguments.allow_mismatch,
        known_spread,
    };
    Compared::new(base, new, request).map_err(|error| error.to_string())
}
