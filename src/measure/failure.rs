//! What can go wrong with a case.

use super::HOST_LOOP_SIZE_MAX;
use crate::counted::counted;
use crate::cuda;
use std::time::Duration;
use thiserror::Error;

/// Why a case has no number.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum Failure {
    /// A driver call failed.
    #[error(transparent)]
    Call(#[from] cuda::Error),
    /// The device has not enough memory for the size.
    #[error("needs {needed_bytes} bytes of device memory, {free_bytes} are free")]
    TooLarge {
        /// What the case would allocate.
        needed_bytes: usize,
        /// What there is.
        free_bytes: usize,
    },
    /// The strategy had no memory for some blocks of a trace.
    #[error(
        "{} of the trace found no memory, so the loop would do less than under the other strategies",
        counted(missed, "allocation")
    )]
    MissedAllocations {
        /// How many allocations in one replay.
        missed: u64,
    },
    /// One loop takes so long that the case cannot be measured in its time.
    #[error(
        "one loop of {} would take {loop_time:.1?}, more than the {limit:.1?} that a loop may take",
        counted(iterations, "iteration")
    )]
    TooSlow {
        /// Iterations of the loop.
        iterations: u64,
        /// Estimated from one iteration.
        loop_time: Duration,
        /// What it may take.
        limit: Duration,
    },
    /// One loop goes through more memory than the host device can in the case's time.
    #[error(
        "one loop goes through {loop_bytes} bytes, more than the {HOST_LOOP_SIZE_MAX} that a loop may on the host device"
    )]
    TooSlowOnHost {
        /// Size times iterations.
        loop_bytes: u64,
    },
    /// The output is not what the CPU computes.
    #[error("wrong result: element {index} of the output is {actual}, not {expected}")]
    WrongResult {
        /// Index of the first wrong element.
        index: usize,
        /// What the CPU computes.
        expected: f64,
        /// What the device holds.
        actual: f64,
    },
    /// A block lies over another that is live.
    #[error(
        "wrong reuse: block {block} ({size_bytes} bytes at {address:#x}) lies over block {other}, which is still live"
    )]
    Overlap {
        /// Number of the block, from 0 in the order of allocation.
        block: u64,
        /// Number of the block that it lies over.
        other: u64,
        /// Where the block begins.
        address: u64,
        /// Its size.
        size_bytes: u64,
    },
    /// Blocks did not hold at their free what was written after their allocation.
    #[error(
        "wrong reuse: blocks freed in stream {stream} do not hold what was written to them: element {index} of their sum is {actual}, not {expected}"
    )]
    WrongContent {
        /// Index of the stream.
        stream: usize,
        /// Index of the first wrong element.
        index: usize,
        /// What the CPU computes.
        expected: f64,
        /// What the device holds.
        actual: f64,
    },
    /// The pool counts memory as used that was freed.
    #[error("the pool's used bytes are {after} after the loop, {before} before it: memory was not given back")]
    UsedBytes {
        /// Before the first iteration.
        before: u64,
        /// After the last synchronise.
        after: u64,
    },
    /// A case that the device cannot do cannot be closed either, and would be in the way of the next.
    #[error("{failure}, while the case was closed that the device cannot do ({reason})")]
    NotClosed {
        /// What was not given back.
        failure: Box<Failure>,
        /// Why the case was to be skipped.
        reason: Box<Failure>,
    },
    /// Capture refuses what the loop does.
    #[error("the loop cannot be captured: {0}")]
    NotCapturable(cuda::Error),
    /// Launches of a graph take more and more memory.
    #[error("graphs hold {after} bytes after a launch, {first} after the first: a launch leaks")]
    GraphMemory {
        /// After the first launch.
        first: u64,
        /// After a later one.
        after: u64,
    },
    /// A trim leaves memory with graphs that are at rest.
    #[error("graphs hold {after} bytes after a graph trim, {before} before the case: memory was not given back")]
    GraphTrim {
        /// Before the case.
        before: u64,
        /// After the trim.
        after: u64,
    },
    /// The pool holds more than its threshold after a synchronise.
    #[error("the pool holds {reserved} bytes after a synchronise, more than its release threshold of {threshold}")]
    ReservedBytes {
        /// What it holds.
        reserved: u64,
        /// What it may keep.
        threshold: u64,
    },
    /// The pool's memory does not change as the case says, so that something else would be measured.
    #[error("the pool holds {reserved} bytes {when}, not {}", bounds(*at_least, *at_most))]
    PoolHolds {
        /// At which point of the iteration.
        when: &'static str,
        /// What it holds.
        reserved: u64,
        /// What it should hold at least.
        at_least: u64,
        /// What it should hold at most.
        at_most: u64,
    },
}

impl Failure {
    /// Whether a case that fails so while it is set up is skipped: the device cannot do it.
    #[must_use]
    pub fn is_skip(&self) -> bool {
        match self {
            Failure::Call(error) => error.is_skip(),
            Failure::TooLarge { .. }
            | Failure::MissedAllocations { .. }
            | Failure::TooSlow { .. }
            | Failure::TooSlowOnHost { .. }
            | Failure::NotCapturable(_) => true,
            Failure::NotClosed { .. }
            | Failure::WrongResult { .. }
            | Failure::Overlap { .. }
            | Failure::WrongContent { .. }
            | Failure::UsedBytes { .. }
            | Failure::GraphMemory { .. }
            | Failure::GraphTrim { .. }
            | Failure::ReservedBytes { .. }
            | Failure::PoolHolds { .. } => false,
        }
    }
}

fn bounds(at_least: u64, at_most: u64) -> String {
    match (at_least, at_most) {
        (0, at_most) => format!("at most {at_most}"),
        (at_least, u64::MAX) => format!("at least {at_least}"),
        (at_least, at_most) => format!("{at_least} to {at_most}"),
    }
}
