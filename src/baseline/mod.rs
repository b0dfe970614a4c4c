//! Recorded results: baselines in `criterion-baselines/`, and Criterion's own files.
//!
//! A baseline is a folder of two files: `manifest.json` says what was measured and where, and
//! `launches.jsonl` holds the samples, a line a launch. It appears whole or not at all ([`Baseline::write`]),
//! and what is cut short, edited or of another format is refused ([`Baseline::read`]).

mod critcmp;
pub mod criterion_home;
mod criterion_samples;
mod difference;
mod error;
mod input;
mod install;
mod inventory;
mod launch;
mod manifest;
mod name;
mod process;
mod read;
mod resolve;
mod side;
mod spread;
mod unique;
mod write;

pub use difference::{
    Difference, DifferenceKind, Fact, environment_differences, environment_facts, settings_differences, settings_facts,
};
pub use error::BaselineError;
pub use input::{Input, InputKind, KnownSpread, LeftOut};
pub use install::InstallError;
pub use inventory::{Holdings, Listed, inventory};
pub use launch::{Launch, ProbeTimes, Samples};
pub use manifest::{FORMAT, Manifest, Settings, Skipped};
pub use name::{BaselineName, InvalidName};
pub use process::{ProcessRecord, RecordRequest};
pub use read::LAUNCHES_MAX;
pub use resolve::{InputError, names_in};
pub use spread::known_spread;
pub use write::{Existing, PARTIAL_PREFIX};
pub(crate) use write::{replace, restore_replaced, write_synced};

use std::path::Path;

/// Where baselines are kept, under the current folder.
pub const FOLDER: &str = "criterion-baselines";

/// A recorded baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    /// What was measured, where and how.
    pub manifest: Manifest,
    /// The launches in the order of the file. *Shape* `[n]`, n ≥ 1.
    pub launches: Vec<Launch>,
}

/// The folder of a baseline.
#[must_use]
pub fn folder_of(baselines: &Path, name: &BaselineName) -> std::path::PathBuf {
    baselines.join(name.as_str())
}

/// Bytes as hexadecimal digits.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
