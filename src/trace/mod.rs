//! Allocation traces: what a program asked of its allocator, in order.
//!
//! [`read`](fn@read) takes a file in any of four formats, told apart by content, and gives one in-memory form, [`Trace`]:
//! RMM's CSV logs, PyTorch memory snapshots, PyTorch profiler JSON, and Nsight Systems SQLite exports.
//! [`Synthetic`] makes traces of the same shape from a seed. [`Summary`] says what a trace holds.
//!
//! Nothing here touches a GPU, and no input makes it panic: a file is read, read with counted [`Warning`]s
//! about rows that its format makes normal, or refused with a [`TraceError`] of one line.
//!
//! ```
//! use poolbench::trace::{Limits, read_bytes};
//!
//! let log = "Thread,Time,Action,Pointer,Size,Stream\n\
//!            1,10:00:00.000000,allocate,0x7f0000000000,4096,0\n\
//!            1,10:00:00.000250,free,0x7f0000000000,4096,0\n";
//! let trace = read_bytes(log.as_bytes(), "log.csv", &Limits::default())?;
//! assert_eq!(trace.peak_live_bytes(), 4096);
//! assert_eq!(trace.events()[1].time_ns, 250_000);
//!
//! let cut = &log[..log.len() - 20];
//! let trace = read_bytes(cut.as_bytes(), "log.csv", &Limits::default())?;
//! assert_eq!(
//!     trace.warnings()[0].to_string(),
//!     "rows cut at the end of the file, left out: 1 (first: row 3)"
//! );
//! # Ok::<(), poolbench::trace::TraceError>(())
//! ```

mod builder;
mod clock;
mod error;
mod event_array;
mod input;
mod instant;
mod intern;
mod lenient;
mod lookahead;
mod nsys;
mod nsys_file;
mod nsys_rows;
mod pickle_guard;
mod profiler_event;
mod read;
pub(crate) mod render;
mod rmm_csv;
mod rmm_layout;
mod summary;
mod synthetic;
mod torch_profiler;
mod torch_segments;
mod torch_snapshot;
mod transform;
mod warning;

use std::collections::BTreeMap;

use serde::Serialize;

pub use error::{Place, Problem, SqlTable, TraceError};
pub use read::{Limits, read, read_bytes, read_with};
pub use render::text;
pub use rmm_csv::write_rmm_csv;
pub use summary::{
    Lifetimes, LiveAtEnd, LiveBefore, Peak, Quantiles, SizeBucket, StreamSummary, Summary, ThreadSummary,
};
pub use synthetic::{Synthetic, Workload};
pub use warning::{Warning, WarningKind};

/// What a trace was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// A log of RMM's C API, 2018 to 2020.
    RmmEventLog,
    /// A log of RMM's logging adaptor, 2020 to now.
    RmmCsv,
    /// A pickled `torch.cuda.memory._snapshot()`.
    TorchSnapshot,
    /// `[memory]` events of a PyTorch profiler trace.
    TorchProfiler,
    /// The memory usage table of an Nsight Systems export.
    NsysMemory,
    /// The runtime API table of an Nsight Systems export: calls without sizes.
    NsysCalls,
    /// Generated from a seed.
    Synthetic,
}

impl Format {
    /// The name shown to users.
    pub fn name(self) -> &'static str {
        match self {
            Format::RmmEventLog => "RMM event log (2018-2020)",
            Format::RmmCsv => "RMM CSV log",
            Format::TorchSnapshot => "PyTorch memory snapshot",
            Format::TorchProfiler => "PyTorch profiler trace",
            Format::NsysMemory => "Nsight Systems export",
            Format::NsysCalls => "Nsight Systems export (API calls only)",
            Format::Synthetic => "synthetic",
        }
    }
}

/// What an event does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// Asks for a block.
    Alloc,
    /// Gives a block back.
    Free,
    /// Waits for a stream, or for the whole device.
    Sync,
}

/// One call, in trace order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Host time since the first event, never smaller than the event before. 0 where the trace has no times.
    pub time_ns: u64,
    /// Index into [`Trace::allocations`], or [`Event::NONE`] for a sync and for the frees of a calls-only trace.
    pub allocation: u32,
    /// Index into [`Trace::threads`].
    pub thread: u32,
    /// Index into [`Trace::streams`], or [`Event::NONE`] for a sync that waits for the whole device.
    pub stream: u32,
    /// What is done.
    pub kind: EventKind,
}

impl Event {
    /// Stands for "no index".
    pub const NONE: u32 = u32::MAX;
}

/// One block, from its allocation to its free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Size as logged. 0 only where the trace logged 0 or logs no sizes ([`Trace::sizes_known`]).
    pub size_bytes: u64,
    /// Index of the allocating event.
    pub alloc_event: u32,
    /// Index of the freeing event, or [`Event::NONE`] where the block is still live at the end.
    pub free_event: u32,
}

impl Allocation {
    /// Whether the trace ends before the block is freed.
    pub fn live_at_end(&self) -> bool {
        self.free_event == Event::NONE
    }
}

/// A stream as the trace names it. Streams of different processes or devices are different streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Stream {
    /// Process id, 0 where the format does not say.
    pub process: u32,
    /// Device ordinal, 0 where the format does not say.
    pub device: u32,
    /// 0 is the default stream; else a handle or a number, as the format has it.
    pub id: u64,
}

/// An allocation trace: 24 bytes an event and 16 a block.
///
/// Every [`Event::allocation`], `thread` and `stream` is [`Event::NONE`] or a valid index; a block is freed at
/// most once, after its allocation; frees whose allocation the trace does not hold are only counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    pub(crate) format: Format,
    pub(crate) events: Vec<Event>,
    pub(crate) allocations: Vec<Allocation>,
    pub(crate) threads: Vec<u64>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) orphan_frees: u64,
    /// By process and device.
    pub(crate) live_before: BTreeMap<(u32, u32), LiveBefore>,
    pub(crate) times_known: bool,
    pub(crate) warnings: Vec<Warning>,
}

impl Trace {
    /// What the trace was read from.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The events, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The blocks, by order of allocation.
    pub fn allocations(&self) -> &[Allocation] {
        &self.allocations
    }

    /// The threads' numbers as logged, by first use; a single 0 where the format does not say.
    pub fn threads(&self) -> &[u64] {
        &self.threads
    }

    /// The streams, by first use.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Frees of blocks whose allocation is not recorded: made before the trace began, or by a thread that was not
    /// traced. They are not among the events.
    pub fn orphan_frees(&self) -> u64 {
        self.orphan_frees
    }

    /// Blocks that were live before the trace began, as far as the file tells: those that it frees, and those that a
    /// snapshot shows live at its end. They are not among the blocks, so [`Trace::peak`] leaves them out.
    pub fn live_before(&self) -> LiveBefore {
        let each = self.live_before.values();
        each.fold(LiveBefore::default(), |sum, before| LiveBefore {
            blocks: sum.blocks + before.blocks,
            bytes: sum.bytes.saturating_add(before.bytes),
        })
    }

    /// Whether the events have times.
    pub fn times_known(&self) -> bool {
        self.times_known
    }

    /// Whether the blocks have sizes, and frees name their block. Without, the trace cannot be replayed.
    pub fn sizes_known(&self) -> bool {
        self.format != Format::NsysCalls
    }

    /// Rows that the format makes normal, yet a reader should know of; counted by kind.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The block that an event allocates or frees.
    pub fn allocation(&self, event: &Event) -> Option<&Allocation> {
        self.allocations.get(event.allocation as usize)
    }

    /// The size of the block that an event allocates or frees, 0 for a sync.
    pub fn size_bytes(&self, event: &Event) -> u64 {
        self.allocation(event).map_or(0, |block| block.size_bytes)
    }

    /// The (process, device) pairs whose memory the trace describes, ascending.
    pub fn devices(&self) -> Vec<(u32, u32)> {
        let mut devices: Vec<_> = self
            .streams
            .iter()
            .map(|stream| (stream.process, stream.device))
            .collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    /// The most bytes live at once, without those of [`Trace::live_before`].
    pub fn peak_live_bytes(&self) -> u64 {
        self.peak().bytes
    }

    /// Why this trace cannot be replayed, or nothing.
    pub fn replay_obstacle(&self) -> Option<Problem> {
        if !self.sizes_known() {
            return Some(Problem::Missing {
                what: "sizes and addresses (only API calls were recorded)",
                remedy: "record with `nsys profile --cuda-memory-usage=true`",
            });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_proportional_to_the_events() {
        assert_eq!(size_of::<Event>(), 24);
        assert_eq!(size_of::<Allocation>(), 16);
    }
}
