//! A trace compiled into a flat array of operations, so that the timed loop looks nothing up and
//! allocates nothing.

use super::operation::{Operation, OperationKind};
use crate::strategy::{Plan, Request};
use serde::Serialize;
use std::time::Duration;
use thiserror::Error;

/// Where the host waits for the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Synchronise {
    /// Where the trace waits.
    AsTraced,
    /// After every so many allocations and frees; the trace's own waits are left out.
    Every(u64),
    /// Before an event that comes at least so long after the one before it; the trace's own waits are
    /// left out.
    AtGaps(Duration),
}

/// Who knows that freed memory is handed out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// The driver, which keeps streams apart.
    Driver,
    /// A strategy that serves one stream: after a free in another stream, its own waits for that one.
    Host,
}

/// How a trace becomes a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompileOptions {
    /// Factor of every size.
    pub scale: f64,
    /// Where the host waits.
    pub synchronise: Synchronise,
    /// Whether frees in other streams are followed by a wait.
    pub reuse: Reuse,
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions {
            scale: 1.0,
            synchronise: Synchronise::AsTraced,
            reuse: Reuse::Driver,
        }
    }
}

/// The most streams of a replay.
pub const STREAMS_MAX: usize = 256;

/// Why a trace cannot be compiled. One line each, without the file's name.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum CompileError {
    /// Nothing is allocated.
    #[error("allocates nothing that could be replayed")]
    Empty,
    /// Gaps need times.
    #[error("has no times, so there are no gaps to synchronise at: use --sync-every N")]
    NoTimes,
    /// More streams than a replay makes.
    #[error("uses {streams} streams, more than the {STREAMS_MAX} of a replay: spread it over fewer with --streams N")]
    TooManyStreams {
        /// Streams of the trace.
        streams: usize,
    },
    /// Scaled sizes that are no sizes.
    #[error("scaled by {scale}, its blocks add up to more than 2^56 bytes: use a smaller --scale")]
    ScaledTooLarge {
        /// The factor.
        scale: f64,
    },
}

/// What of a trace is replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Allocations, frees and waits: what time per event is per.
    pub events: u64,
    /// Allocations.
    pub allocations: u64,
    /// Frees.
    pub frees: u64,
    /// Waits of the host.
    pub synchronises: u64,
    /// Frees in another stream than the allocation's.
    pub cross_stream_frees: u64,
    /// Waits between streams that were added so that such frees follow what they free.
    pub added_waits: u64,
    /// Blocks of 0 bytes: no call is made for them.
    pub zero_size_blocks: u64,
    /// Blocks that the trace does not free: freed after the clock has stopped.
    pub live_at_end: u64,
}

/// A compiled trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub(super) operations: Vec<Operation>,
    pub(super) leaked: Vec<Operation>,
    pub(super) n_slots: usize,
    pub(super) n_streams: usize,
    pub(super) counts: Counts,
    pub(super) peak_live_bytes: u64,
    pub(super) peak_operation: usize,
    pub(super) allocated_bytes: u64,
}

impl Program {
    /// The operations, without the last synchronise.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Frees of the blocks that the trace does not free.
    #[must_use]
    pub fn leaked(&self) -> &[Operation] {
        &self.leaked
    }

    /// How many blocks are live at once at most.
    #[must_use]
    pub fn n_slots(&self) -> usize {
        self.n_slots
    }

    /// How many streams are submitted to, at least 1.
    #[must_use]
    pub fn n_streams(&self) -> usize {
        self.n_streams
    }

    /// What is replayed.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The most bytes live at once.
    #[must_use]
    pub fn peak_live_bytes(&self) -> u64 {
        self.peak_live_bytes
    }

    /// Index of the operation that reaches the peak.
    #[must_use]
    pub fn peak_operation(&self) -> usize {
        self.peak_operation
    }

    /// Bytes of all blocks together.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        self.allocated_bytes
    }

    /// The places of each stream's blocks in a buffer of its own, for strategies that plan ahead. Blocks that
    /// the trace does not free are freed at its end.
    #[must_use]
    pub fn plans(&self) -> Vec<Plan> {
        let mut requests: Vec<Vec<Request>> = vec![Vec::new(); self.n_streams];
        for operation in self.operations.iter().chain(&self.leaked) {
            let Operation { slot, size_bytes, .. } = *operation;
            let request = match operation.kind {
                OperationKind::Alloc => Request::Alloc { slot, size_bytes },
                OperationKind::Free => Request::Free { slot },
                _ => continue,
            };
            requests[usize::from(operation.home)].push(request);
        }
        requests.into_iter().map(Plan::of).collect()
    }
}
