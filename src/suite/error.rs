//! Why a suite ends early.

use super::settings::{API_SUMMARY_VARIABLE, ORDER_SEED_VARIABLE};
use crate::case::BenchmarkId;
use crate::measure::Failure;
use std::path::PathBuf;
use thiserror::Error;

/// Why a suite ends early. One line each.
#[derive(Debug, Error)]
pub enum SuiteError {
    /// The device cannot be used.
    #[error(transparent)]
    Open(#[from] crate::cuda::OpenError),
    /// A value of the command line is wrong.
    #[error("{0}")]
    Usage(String),
    /// Criterion refused the command line, and has said why.
    #[error("Criterion refused the command line")]
    Refused,
    /// Nobody reads what is printed any more.
    #[error("nobody reads what is printed")]
    NobodyListens,
    /// Results cannot be kept.
    #[error("cannot keep results in {}: {error}; {remedy}", path.display())]
    Home {
        /// Criterion's output folder.
        path: PathBuf,
        /// The operating system's words.
        error: std::io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// Another run has the folder.
    #[error(
        "another run (process {process}) measures into {}: wait for its end, or point CRITERION_HOME at another folder",
        path.display()
    )]
    HomeInUse {
        /// Criterion's output folder.
        path: PathBuf,
        /// The other's number, as it wrote it.
        process: String,
    },
    /// A baseline to compare with is not there.
    #[error(
        "Baseline '{name}' must exist, and there is no {}; save it with --save-baseline {name}, or compare what it has with --baseline-lenient {name}",
        folder.display()
    )]
    NoSaved {
        /// Its name.
        name: String,
        /// Where its measurement of a case should be.
        folder: PathBuf,
    },
    /// A baseline to compare with is not whole.
    #[error("{}: {reason}; save the baseline again, or remove its folder", path.display())]
    Saved {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A case failed.
    #[error("{id}: {failure}")]
    Case {
        /// The case.
        id: BenchmarkId,
        /// What happened.
        failure: Failure,
    },
    /// The device's context cannot be given back.
    #[error("cannot release the device: {0}")]
    Release(crate::cuda::Error),
    /// Two cases share an id, or an id is not one that Criterion keeps.
    #[error("{0}")]
    Id(String),
    /// A variable of the environment is wrong.
    #[error("{ORDER_SEED_VARIABLE}={0} is not a whole number")]
    OrderSeed(String),
    /// A variable of the environment is wrong.
    #[error("{API_SUMMARY_VARIABLE}={0} is neither 0 nor 1")]
    ApiSummary(String),
    /// The kernels cannot be unloaded: something has failed on the device unseen.
    #[error("after the last case: {0}")]
    Unload(crate::cuda::Error),
    /// The request of `poolbench record` cannot be read.
    #[error("{}: is no request of `poolbench record`: {reason}", path.display())]
    RecordRequest {
        /// Where it should be.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The thread cannot be pinned.
    #[error("cannot pin to processor {processor}: {error}")]
    Pin {
        /// Which.
        processor: usize,
        /// The operating system's words.
        error: std::io::Error,
    },
    /// A thread cannot be started.
    #[error(
        "cannot start a thread for each case of the group: {0}; raise the limit of processes (ulimit -u), or use --filter"
    )]
    Thread(std::io::Error),
    /// The record of the run cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Record {
        /// Where to.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
}

impl SuiteError {
    /// The exit code: 2 for wrong usage, 0 where nobody is left to be told, otherwise 3.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            SuiteError::NobodyListens => 0,
            SuiteError::Usage(_) | SuiteError::Refused => 2,
            _ => 3,
        }
    }
}
