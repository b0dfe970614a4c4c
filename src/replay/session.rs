//! What a session is asked for, and what it brings.

use super::program::{CompileError, Program, Synchronise};
use super::threshold::ReplayThreshold;
use super::touch::Touched;
use crate::cuda;
use crate::measure::Failure;
use crate::strategy::StrategyKind;
use serde::Serialize;
use thiserror::Error;

/// A way to serve the trace.
#[derive(Clone, Copy, Debug)]
pub struct Combination {
    /// How memory is got.
    pub strategy: &'static StrategyKind,
    /// The pool's threshold; `None` without a pool.
    pub threshold: Option<ReplayThreshold>,
}

/// What is replayed, and how often.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The strategies.
    pub strategies: Vec<&'static StrategyKind>,
    /// The thresholds of those that have a pool.
    pub thresholds: Vec<ReplayThreshold>,
    /// Whether the strategies were asked for by name: then a slow one is replayed all the same.
    pub named: bool,
    /// A combination that is replayed in any case.
    pub present: Combination,
    /// Timed replays of each combination.
    pub repeats: u32,
    /// Factor of every size.
    pub scale: f64,
    /// Where the host waits.
    pub synchronise: Synchronise,
    /// Whether each combination is also replayed with its blocks written and verified.
    pub touch: bool,
}

/// The slowest driver call of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SlowestCall {
    /// What was called.
    pub function: &'static str,
    /// Host time until it returned.
    pub time_ns: u64,
}

/// What one combination brought.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The combination.
    pub combination: Combination,
    /// `[repeats]`: time of one replay that follows another, in the order of the rounds.
    pub times_ns: Vec<f64>,
    /// `[repeats]`: time of a replay that finds nothing in the pool.
    pub first_times_ns: Vec<f64>,
    /// The slowest call, from a replay of its own.
    pub slowest_call: Option<SlowestCall>,
    /// Driver calls of one replay.
    pub driver_calls: u64,
    /// The most that was held of the device's memory; `None` where the device does not say.
    pub peak_reserved_bytes: Option<u64>,
    /// What is held once all blocks are freed and the device has synchronised.
    pub held_bytes: Option<u64>,
    /// Allocations of one replay that found no memory, the most of all replays.
    pub out_of_memory: u64,
    /// What was written and verified; `None` where that was not asked for.
    pub touched: Option<Touched>,
}

/// A combination that was not replayed.
#[derive(Clone, Debug)]
pub struct Skipped {
    /// The combination.
    pub combination: Combination,
    /// Why not.
    pub reason: String,
}

/// Why nothing is replayed. One line each.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The trace cannot be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The trace is larger than the device.
    #[error(
        "has {peak_bytes} bytes live at its peak, the device has {free_bytes} bytes free (of {total_bytes}): replay it with smaller blocks, --scale {scale}"
    )]
    LargerThanDevice {
        /// The trace's peak.
        peak_bytes: u64,
        /// What is free.
        free_bytes: u64,
        /// What there is.
        total_bytes: u64,
        /// A factor that fits.
        scale: f64,
    },
    /// A combination failed.
    #[error("{combination}: {failure}")]
    Combination {
        /// Which.
        combination: String,
        /// Why.
        failure: Failure,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] Failure),
}

impl From<cuda::Error> for SessionError {
    fn from(error: cuda::Error) -> SessionError {
        SessionError::Device(error.into())
    }
}

impl std::fmt::Display for Combination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.strategy.name)?;
        match self.threshold {
            Some(threshold) => write!(f, "@{threshold}"),
            None => Ok(()),
        }
    }
}

/// What a whole session brought.
#[derive(Debug)]
pub struct Replayed {
    /// The program of the strategies that the driver serves.
    pub program: Program,
    /// What was replayed, in the order of strategies and thresholds.
    pub measured: Vec<Measured>,
    /// What was not.
    pub skipped: Vec<Skipped>,
}
