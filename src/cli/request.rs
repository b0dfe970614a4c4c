//! What every comparison is asked for: the flags that `compare` and `report` share.

use super::output::spare_inputs;
use poolbench::baseline::{FOLDER, Input, known_spread};
use poolbench::command_line::CommandLine;
use poolbench::report::{CompareRequest, Compared};
use poolbench::stats::Options;
use std::path::Path;

#[derive(Debug, clap::Args)]
pub(super) struct RequestArguments {
    /// The smallest change that matters, as a share: 0.01 is one per cent.
    #[arg(long, value_name = "SHARE", default_value = "0.01", allow_hyphen_values = true)]
    min_effect: String,
    /// The share of false ones among the changes found, on average.
    #[arg(long, value_name = "SHARE", default_value = "0.05", allow_hyphen_values = true)]
    fdr: String,
    /// Exit with 1 also where something is suspected or missing.
    #[arg(long)]
    strict: bool,
    /// Compare sides that measured different things, and warn; never the host device with a GPU.
    #[arg(long)]
    allow_mismatch: bool,
}

impl RequestArguments {
    /// Returns what a comparison is asked for.
    ///
    /// # Errors
    ///
    /// Numbers outside their range, in a line.
    pub fn options(&self) -> Result<Options, String> {
        let number = |flag: &str, text: &str| {
            text.parse::<f64>()
                .map_err(|_| format!("{flag} {text}: is no number; write a share such as 0.01"))
        };
        let min_effect = number("--min-effect", &self.min_effect)?;
        let fdr = number("--fdr", &self.fdr)?;
        Options::new(min_effect, fdr).map_err(|error| error.to_string())
    }

    /// Compares two sides.
    ///
    /// # Errors
    ///
    /// Sides that do not compare, in a line.
    pub fn compare(&self, base: Input, new: Input, options: Options) -> Result<Compared, String> {
        let known_spread = known_spread(Path::new(FOLDER), &base, &new);
        let request = CompareRequest {
            options,
            strict: self.strict,
            allow_mismatch: self.allow_mismatch,
            known_spread,
        };
        Compared::new(base, new, request).map_err(|error| error.to_string())
    }

    /// Returns a command line with the flags that are not the defaults.
    pub fn with_flags(&self, mut line: CommandLine) -> CommandLine {
        if self.min_effect != "0.01" {
            line = line.option("--min-effect", &self.min_effect);
        }
        if self.fdr != "0.05" {
            line = line.option("--fdr", &self.fdr);
        }
        for (given, flag) in [(self.strict, "--strict"), (self.allow_mismatch, "--allow-mismatch")] {
            if given {
                line = line.flag(flag);
            }
        }
        line
    }
}

/// Reads a side: a baseline's name or folder, `criterion-home@baseline-name`, or a critcmp export.
///
/// # Errors
///
/// A side that cannot be read, in a line.
pub(super) fn read(text: &str) -> Result<Input, String> {
    Input::named(text, Path::new(FOLDER)).map_err(|error| error.to_string())
}

/// Refuses to write over what is read, as [`spare_inputs`], for sides as [`read`] takes them.
///
/// # Errors
///
/// Which side, in a line.
pub(super) fn spare_sides<'a>(out: &Path, sides: impl IntoIterator<Item = &'a String>) -> Result<(), String> {
    let paths = sides
        .into_iter()
        .filter_map(|side| Input::path_of(side, Path::new(FOLDER)));
    spare_inputs("--out", out, paths)
}
