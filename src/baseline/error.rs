//! Why a baseline cannot be read or written. One line each, with the remedy where there is one.

use super::manifest::FORMAT;
use crate::command_line::CommandLine;
use std::path::PathBuf;
use thiserror::Error;

/// Why a baseline cannot be read or written.
#[derive(Debug, Error)]
pub enum BaselineError {
    /// No folder of this name.
    #[error("{}: no such baseline; `{}` shows what is there", folder.display(), CommandLine::as_started("list"))]
    Missing {
        /// Where it would be.
        folder: PathBuf,
    },
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// The operating system's words.
        error: std::io::Error,
    },
    /// A file is far larger than any recording.
    #[error("{}: {size_bytes} bytes, more than the {limit_bytes} that a recording may have", path.display())]
    TooLarge {
        /// Which.
        path: PathBuf,
        /// Its size.
        size_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// The format is of another version.
    #[error(
        "{}: format {found}, but this poolbench reads format {FORMAT}: use the poolbench that recorded it, or record anew", path.display()
    )]
    Format {
        /// The manifest.
        path: PathBuf,
        /// What it says.
        found: String,
    },
    /// The text is not what the format says.
    #[error("{}{}: {reason}: the file was cut short or edited; restore it or record anew", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1, in a file of lines.
        line: Option<usize>,
        /// What is wrong.
        reason: String,
    },
    /// The hash of a file is not the one that the manifest gives.
    #[error("{}: its SHA-256 is not the one in manifest.json: the file was cut short or edited; restore it or record anew", path.display())]
    Hash {
        /// Which file.
        path: PathBuf,
    },
    /// The recording was not finished.
    #[error("{}: the recording is not complete; finish it with `{}`", path.display(), CommandLine::recording_as_started().flag("--resume"))]
    Incomplete {
        /// The manifest.
        path: PathBuf,
    },
    /// There is one already.
    #[error("{}: there is a baseline of this name; use --append, --replace or another --name", folder.display())]
    Exists {
        /// Where it is.
        folder: PathBuf,
    },
    /// A link stands where a baseline would be written.
    #[error("{}: is a symbolic link, through which nothing is written; remove it or use another --name", folder.display())]
    Link {
        /// Where it is.
        folder: PathBuf,
    },
    /// It cannot be written.
    #[error("cannot write {}: {error}; nothing was changed", path.display())]
    Unwritable {
        /// Where.
        path: PathBuf,
        /// The operating system's words.
        error: std::io::Error,
    },
}
