//! From what the user wrote to a side of a comparison.

use super::error::BaselineError;
use super::input::{Input, InputKind};
use super::read::MANIFEST;
use super::{Baseline, BaselineName, FOLDER, critcmp, criterion_samples, folder_of};
use crate::command_line::CommandLine;
use crate::counted::counted;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Names that are listed in a message before the rest is counted.
const NAMES_MAX: usize = 12;

/// Why a side of a comparison cannot be read. One line each.
#[derive(Debug, Error)]
pub enum InputError {
    /// A baseline that cannot be read.
    #[error(transparent)]
    Baseline(#[from] BaselineError),
    /// No baseline of this name.
    #[error("no baseline {name:?} in {}{}", baselines.display(), those(there, &format!("there are none; `{}` makes one", CommandLine::recording_as_started())))]
    NoSuchName {
        /// What was asked for.
        name: String,
        /// Where it was looked for.
        baselines: PathBuf,
        /// What is there.
        there: Vec<String>,
    },
    /// A name that is a baseline's, and a folder's under the current one.
    #[error("{0:?} is a baseline in {FOLDER} and a folder here: write {FOLDER}/{0} or ./{0}")]
    Ambiguous(String),
    /// Nothing is there.
    #[error("{}: no such file or folder", .0.display())]
    NoSuchPath(PathBuf),
    /// A folder that holds nothing that is known.
    #[error("{}: neither a baseline (no manifest.json) nor a Criterion home (no sample.json in it)", .0.display())]
    UnknownFolder(PathBuf),
    /// A Criterion home without the name of one of its baselines, or with one that it does not have.
    #[error("{}: a Criterion home{}; name one of its baselines as {}@NAME{}", home.display(), name.as_ref().map(|name| format!(" without a baseline {name:?}")).unwrap_or_default(), home.display(), those(there, "it has none"))]
    HomeBaseline {
        /// The Criterion home.
        home: PathBuf,
        /// What was asked for.
        name: Option<String>,
        /// What is there.
        there: Vec<String>,
    },
    /// No benchmark of it can be used.
    #[error("{input}: none of its {} can be used; {name}: {reason}", counted(count, "benchmark"))]
    NothingUsable {
        /// The input.
        input: String,
        /// How many there are.
        count: usize,
        /// The first.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file that is no export of critcmp.
    #[error("{}: no critcmp export: {reason}", path.display())]
    NoExport {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// An export of another name.
    #[error("{}: holds the baseline {found:?}, not {asked:?}", path.display())]
    ExportName {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        asked: String,
        /// What it holds.
        found: String,
    },
}

fn those(there: &[String], none: &str) -> String {
    if there.is_empty() {
        return format!("; {none}");
    }
    let shown = there[..there.len().min(NAMES_MAX)].join(", ");
    match there.len().saturating_sub(NAMES_MAX) {
        0 => format!("; there are {shown}"),
        more => format!("; there are {shown} and {more} more"),
    }
}

/// Where a text leads.
enum Place<'a> {
    /// The folder of a baseline that was given by its name.
    Baseline(PathBuf),
    /// A folder, of whatever kind.
    Folder(&'a Path),
    /// A Criterion home and one of its baselines.
    Home(&'a Path, &'a str),
    /// A file and the baseline that it must hold.
    File(&'a Path, Option<&'a str>),
}

impl<'a> Place<'a> {
    fn of(text: &'a str, baselines: &Path) -> Result<Place<'a>, InputError> {
        let path = Path::new(text);
        if !text.contains('/') {
            let in_baselines = text
                .parse::<BaselineName>()
                .ok()
                .map(|name| folder_of(baselines, &name))
                .filter(|folder| folder.is_dir());
            let is_here = path.join(MANIFEST).is_file();
            match (in_baselines, is_here) {
                (Some(_), true) => return Err(InputError::Ambiguous(text.to_owned())),
                (Some(folder), false) => return Ok(Place::Baseline(folder)),
                (None, _) => {}
            }
        }
        if path.is_dir() {
            return Ok(Place::Folder(path));
        }
        if path.exists() {
            return Ok(Place::File(path, None));
        }
        // Both paths and names may hold an @; the longest path that exists wins.
        let splits = text.rmatch_indices('@').map(|(at, _)| (&text[..at], &text[at + 1..]));
        for (container, name) in splits {
            let container = Path::new(container);
            if container.is_dir() {
                return Ok(Place::Home(container, name));
            }
            if container.is_file() {
                return Ok(Place::File(container, Some(name)));
            }
        }
        match text.rsplit_once('@') {
            Some((container, _)) if !container.is_empty() => Err(InputError::NoSuchPath(PathBuf::from(container))),
            _ if text.contains('/') => Err(InputError::NoSuchPath(path.to_owned())),
            _ => Err(InputError::NoSuchName {
                name: text.to_owned(),
                baselines: baselines.to_owned(),
                there: names_in(baselines),
            }),
        }
    }
}

impl Input {
    /// Reads what a text names: a baseline by its name or folder, `criterion-home@baseline-name`, or an
    /// export of critcmp with or without `@name`.
    ///
    /// # Errors
    ///
    /// A name or path that leads to nothing, to several things, or to something that cannot be read.
    pub fn named(text: &str, baselines: &Path) -> Result<Input, InputError> {
        match Place::of(text, baselines)? {
            Place::Baseline(folder) => Input::from_baseline(text, &folder),
            Place::Folder(folder) => Input::from_folder(text, folder),
            Place::Home(home, name) => criterion_samples::read(text, home, name),
            Place::File(path, name) => critcmp::read(text, path, name),
        }
    }

    /// The file or folder that [`Input::named`] would read from; `None` where that leads to nothing.
    #[must_use]
    pub fn path_of(text: &str, baselines: &Path) -> Option<PathBuf> {
        Some(match Place::of(text, baselines).ok()? {
            Place::Baseline(folder) => folder,
            Place::Folder(path) | Place::Home(path, _) | Place::File(path, _) => path.to_owned(),
        })
    }

    fn from_folder(text: &str, folder: &Path) -> Result<Input, InputError> {
        if folder.join(MANIFEST).exists() {
            return Input::from_baseline(text, folder);
        }
        let there = criterion_samples::baselines_in(folder);
        if there.is_empty() {
            return Err(InputError::UnknownFolder(folder.to_owned()));
        }
        Err(InputError::HomeBaseline {
            home: folder.to_owned(),
            name: None,
            there,
        })
    }

    fn from_baseline(text: &str, folder: &Path) -> Result<Input, InputError> {
        let baseline = Baseline::read(folder)?;
        Ok(Input {
            name: text.to_owned(),
            kind: InputKind::Baseline,
            side: baseline.side(),
            manifest: Some(baseline.manifest),
            process_times: BTreeMap::new(),
            left_out: Vec::new(),
            stale: 0,
        })
    }
}

/// Returns the names of the baselines in a folder, sorted: of folders that hold a manifest.
#[must_use]
pub fn names_in(baselines: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(baselines) else {
        return Vec::new();
    };
    let names: BTreeSet<String> = entries
        .flatten()
        .filter(|entry| entry.path().join(MANIFEST).exists())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.parse::<BaselineName>().is_ok())
        .collect();
    names.into_iter().collect()
}
