//! Why a recording stops. One line each, with the remedy where there is one.

use crate::baseline::{BaselineError, InvalidName};
use crate::command_line::CommandLine;
use crate::counted::{agreeing, counted};
use std::path::PathBuf;
use thiserror::Error;

/// Why a recording stops.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// Flags that do not go together, or a flag's value.
    #[error("{0}")]
    Usage(String),
    /// The name is none.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// A baseline cannot be read or written, or is in the way.
    #[error(transparent)]
    Baseline(#[from] BaselineError),
    /// The operating system refuses a file.
    #[error("{}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Its words.
        error: std::io::Error,
    },
    /// A program does not start.
    #[error("{} does not start: {error}", program.display())]
    Start {
        /// Which.
        program: PathBuf,
        /// The operating system's words.
        error: std::io::Error,
    },
    /// The bench executables cannot be had.
    #[error("{0}")]
    Executables(String),
    /// A bench executable failed.
    #[error("{bench}: {reason}")]
    Process {
        /// The executable's name.
        bench: String,
        /// Its own line, or how it ended.
        reason: String,
        /// All that it printed.
        output: String,
    },
    /// A process hangs where not even a kill ends it.
    #[error("{}: process {process} hangs and cannot be killed, so the driver holds it: restart the machine, then --resume", program.display())]
    Unkillable {
        /// Which program.
        program: PathBuf,
        /// Its process id.
        process: u32,
    },
    /// A recording of this name is not finished.
    #[error(
        "{}: holds an unfinished recording ({done} of {}): go on with `{go_on}`{remedy}",
        folder.display(),
        counted(total, "launch")
    )]
    Unfinished {
        /// Where it is.
        folder: PathBuf,
        /// Launches that are finished.
        done: u64,
        /// Launches in all.
        total: u64,
        /// What goes on with it.
        go_on: CommandLine,
        /// What throws it away.
        remedy: String,
    },
    /// Another baseline of the name has come since the recording began.
    #[error("{}: a baseline of this name came after the recording began, and is kept; move it away first", folder.display())]
    Came {
        /// Where.
        folder: PathBuf,
    },
    /// The baseline that a recording goes on with has gone since it began.
    #[error("{}: the baseline that this is another session of is gone; put it back first", folder.display())]
    Gone {
        /// Where it was.
        folder: PathBuf,
    },
    /// There is nothing to resume.
    #[error("{}: holds no unfinished recording to --resume", folder.display())]
    NothingToResume {
        /// Where it would be.
        folder: PathBuf,
    },
    /// The state of a recording cannot be read.
    #[error("{}: {reason}: the recording was edited or comes from another poolbench; throw the recording away by removing its folder", path.display())]
    State {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Another process records under this name.
    #[error("{}: process {process} is recording under this name; wait for it, or use another --name", lock.display())]
    Locked {
        /// The lock.
        lock: PathBuf,
        /// Whose it is.
        process: String,
    },
    /// What must be the same is not.
    #[error("{what}: {}", differences.join("; "))]
    Differs {
        /// What cannot be done, and the remedy.
        what: String,
        /// What differs.
        differences: Vec<String>,
    },
    /// Nothing was measured.
    #[error("{0}")]
    Nothing(String),
    /// It stopped after some launches.
    #[error(
        "{error}; {done} of {} {} kept: go on with `{go_on}`",
        counted(total, "launch"),
        agreeing(*done, "is", "are")
    )]
    Stopped {
        /// Why.
        error: Box<RecordingError>,
        /// Launches that are finished.
        done: u64,
        /// Launches in all.
        total: u64,
        /// What goes on with it.
        go_on: CommandLine,
    },
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl RecordingError {
    /// The exit code that tells a script.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            RecordingError::Usage(_) => 2,
            RecordingError::Stopped { error, .. } => error.exit_code(),
            // As shells report a program that Ctrl-C ended.
            RecordingError::Interrupted => 130,
            _ => 3,
        }
    }

    /// All that a bench executable printed before it failed.
    #[must_use]
    pub fn output(&self) -> Option<&str> {
        match self {
            RecordingError::Process { output, .. } => Some(output.as_str()).filter(|output| !output.is_empty()),
            RecordingError::Stopped { error, .. } => error.output(),
            _ => None,
        }
    }

    pub(super) fn file(path: &std::path::Path, error: std::io::Error) -> RecordingError {
        RecordingError::File {
            path: path.to_owned(),
            error,
        }
    }
}
