//! What is in a folder of baselines.

use super::read::MANIFEST;
use super::{Baseline, BaselineName};
use crate::environment::Environment;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

/// One entry of a folder of baselines. The name may hold anything.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The folder's name.
    pub name: String,
    /// Whether it is a symbolic link.
    pub is_link: bool,
    /// What it holds, or why it is no baseline.
    pub state: Result<Holdings, String>,
}

/// What a baseline holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Holdings {
    /// When it was recorded, as RFC 3339 in UTC.
    pub created: String,
    /// The machine, the driver, the program.
    pub environment: Environment,
    /// Launches.
    pub launches: usize,
    /// Sessions that they belong to.
    pub sessions: usize,
    /// Benchmarks.
    pub benchmarks: usize,
}

/// Returns the entries of a folder of baselines by name, each read whole. Hidden folders, files, and
/// links to anything but a baseline are none. A folder that is not there has no entries.
///
/// # Errors
///
/// A folder that cannot be read.
pub fn inventory(baselines: &Path) -> io::Result<Vec<Listed>> {
    let entries = match fs::read_dir(baselines) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut listed = Vec::new();
    for entry in entries {
        let entry = entry?;
        let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
        let is_link = path.is_symlink();
        let counts = if is_link {
            path.join(MANIFEST).is_file()
        } else {
            path.is_dir()
        };
        if counts && !name.starts_with('.') {
            let state = name
                .parse::<BaselineName>()
                .map_err(|error| error.to_string())
                .and_then(|_| Baseline::read(&path).map_err(|error| error.to_string()))
                .map(|baseline| Holdings::of(&baseline));
            listed.push(Listed { name, is_link, state });
        }
    }
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(listed)
}

impl Holdings {
    fn of(baseline: &Baseline) -> Holdings {
        let sessions: BTreeSet<&str> = baseline.launches.iter().map(|launch| launch.session.as_str()).collect();
        Holdings {
            created: baseline.manifest.created.clone(),
            environment: baseline.manifest.environment.clone(),
            launches: baseline.launches.len(),
            sessions: sessions.len(),
            benchmarks: baseline.manifest.benchmarks.len(),
        }
    }
}
