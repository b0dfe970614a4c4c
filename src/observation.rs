//! What a case shows beside its time. Plain data, which baselines carry.

use serde::{Deserialize, Serialize};

/// What was seen beside the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// What the case's pool held; `None` without a pool.
    pub reserved: Option<Reserved>,
    /// How often a block freed in another stream came back; `None` where that was not the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<Reuse>,
    /// What the pool gave back in one iteration: at its synchronise, or in the call that is measured;
    /// `None` where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned_bytes: Option<u64>,
    /// The single calls of the samples; `None` where loops are timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_times: Option<CallTimes>,
    /// What a graph took; `None` where nothing was captured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<Replay>,
}

/// How long single calls of the driver took over all samples of a case, in nanoseconds of the host's
/// clock. Percentiles are nearest ranks, up to 0.8 % above the exact ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTimes {
    /// How many calls there were.
    pub calls: u64,
    /// The median.
    pub p50_ns: u64,
    /// What 99 % of the calls do not exceed.
    pub p99_ns: u64,
    /// The slowest call.
    pub max_ns: u64,
    /// What the clock reads around nothing: a part of every time here, which is not subtracted.
    pub clock_ns: u64,
}

/// How often an allocation got the block that another stream had just freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reuse {
    /// Allocations after such a free.
    pub asked: u64,
    /// Allocations that got the block.
    pub reused: u64,
}

/// What it takes to get a loop into a graph, and what the graph takes then. Times are host wall-clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// Nodes of the graph: one loop.
    pub nodes: usize,
    /// Capture of one loop, in nanoseconds.
    pub capture_ns: u64,
    /// Making the graph executable, in nanoseconds.
    pub instantiate_ns: u64,
    /// First launch with its synchronise, in nanoseconds: the graph gets its memory here.
    pub first_launch_ns: u64,
    /// Median of a few launches with their synchronise afterwards, in nanoseconds.
    pub steady_launch_ns: u64,
    /// Graph memory that the device holds from the first launch on, in bytes.
    pub reserved_bytes: u64,
    /// What of it is left after a graph trim, in bytes.
    pub reserved_after_trim_bytes: u64,
}

/// What a pool holds of the operating system's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// After the last synchronise, in bytes.
    pub after_synchronize_bytes: u64,
    /// At most, in bytes.
    pub high_bytes: u64,
    /// What was allocated from it at most, in bytes.
    pub used_high_bytes: u64,
}
