//! A trace compiled into a flat array of operations, so that the timed loop looks nothing up and
//! allocates nothing.

use super::operation::{Operation, OperationKind};
use super::stream_order::StreamOrder;
use crate::strategy::{Plan, Request};
use crate::trace::{Event, EventKind, Trace};
use serde::Serialize;
use std::collections::BTreeMap;
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
    operations: Vec<Operation>,
    leaked: Vec<Operation>,
    n_slots: usize,
    n_streams: usize,
    counts: Counts,
    peak_live_bytes: u64,
    peak_operation: usize,
    allocated_bytes: u64,
}

/// No GPU's address space is larger.
const SIZE_BYTES_MAX: u64 = 1 << 56;

impl Program {
    /// Compiles a trace of one device, whose sizes are known.
    ///
    /// The order is the log's, whichever thread made a call: one thread submits all, so that each replay makes
    /// the same calls in the same order. Each logged stream becomes a stream of its own, the default stream too,
    /// without its implicit waits. A free in another stream than the allocation's waits for that stream by an
    /// event, unless an earlier wait of the program has already put it behind.
    ///
    /// # Errors
    ///
    /// See [`CompileError`].
    pub fn compile(trace: &Trace, options: &CompileOptions) -> Result<Program, CompileError> {
        let mut compiler = Compiler::new(trace, options)?;
        let mut before_ns = 0;
        for event in trace.events() {
            if let Synchronise::AtGaps(gap) = options.synchronise
                && u128::from(event.time_ns - before_ns) >= gap.as_nanos()
            {
                compiler.synchronise_device();
            }
            before_ns = event.time_ns;
            match event.kind {
                EventKind::Alloc => compiler.alloc(event)?,
                EventKind::Free => compiler.free(event),
                EventKind::Sync => compiler.synchronise_as_traced(event),
            }
        }
        compiler.finish()
    }

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

/// Where a live block is.
#[derive(Clone, Copy)]
struct Placed {
    slot: u32,
    home: u8,
    /// When it was allocated.
    position: u32,
    size_bytes: u64,
}

struct Compiler<'a> {
    trace: &'a Trace,
    options: &'a CompileOptions,
    /// From the trace's streams to the program's.
    streams: Vec<Option<u8>>,
    order: StreamOrder,
    live: BTreeMap<u32, Placed>,
    free_slots: Vec<u32>,
    live_bytes: u64,
    since_synchronise: u64,
    program: Program,
}

impl<'a> Compiler<'a> {
    fn new(trace: &'a Trace, options: &'a CompileOptions) -> Result<Compiler<'a>, CompileError> {
        if matches!(options.synchronise, Synchronise::AtGaps(_)) && !trace.times_known() {
            return Err(CompileError::NoTimes);
        }
        // Only streams that are used: a trace of several devices names those of all.
        let mut used = vec![false; trace.streams().len()];
        for event in trace.events() {
            if let Some(used) = used.get_mut(event.stream as usize) {
                *used = true;
            }
        }
        let n_streams = used.iter().filter(|used| **used).count();
        if n_streams > STREAMS_MAX {
            return Err(CompileError::TooManyStreams { streams: n_streams });
        }
        let mut next = 0..=u8::MAX;
        let streams = used.iter().map(|used| if *used { next.next() } else { None }).collect();
        let n_streams = n_streams.max(1);
        Ok(Compiler {
            trace,
            options,
            streams,
            order: StreamOrder::new(n_streams),
            live: BTreeMap::new(),
            free_slots: Vec::new(),
            live_bytes: 0,
            since_synchronise: 0,
            program: Program {
                operations: Vec::with_capacity(trace.events().len()),
                leaked: Vec::new(),
                n_slots: 0,
                n_streams,
                counts: Counts::default(),
                peak_live_bytes: 0,
                peak_operation: 0,
                allocated_bytes: 0,
            },
        })
    }

    /// The program's stream; a call that names none is made in the first.
    fn stream(&self, event: &Event) -> u8 {
        let found = self.streams.get(event.stream as usize).copied().flatten();
        found.unwrap_or(0)
    }

    /// Adds an operation and returns its position, from 1.
    fn push(&mut self, operation: Operation) -> u32 {
        self.program.operations.push(operation);
        // Events have 32-bit numbers; with added waits a program saturates here, and then only waits too often.
        u32::try_from(self.program.operations.len()).unwrap_or(u32::MAX)
    }

    fn size_bytes(&self, event: &Event) -> Result<u64, CompileError> {
        let size_bytes = self.trace.size_bytes(event);
        if size_bytes == 0 {
            return Ok(0);
        }
        let scaled = (size_bytes as f64 * self.options.scale).round().max(1.0);
        if self.live_bytes as f64 + scaled > SIZE_BYTES_MAX as f64 {
            return Err(CompileError::ScaledTooLarge {
                scale: self.options.scale,
            });
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 2^56")]
        Ok(scaled as u64)
    }

    fn alloc(&mut self, event: &Event) -> Result<(), CompileError> {
        let size_bytes = self.size_bytes(event)?;
        if size_bytes == 0 {
            self.program.counts.zero_size_blocks += 1;
            return Ok(());
        }
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.program.n_slots += 1;
            (self.program.n_slots - 1) as u32
        });
        let stream = self.stream(event);
        let position = self.push(Operation {
            size_bytes,
            slot,
            stream,
            home: stream,
            kind: OperationKind::Alloc,
        });
        let placed = Placed {
            slot,
            home: stream,
            position,
            size_bytes,
        };
        self.live.insert(event.allocation, placed);
        self.live_bytes += size_bytes;
        self.program.allocated_bytes = self.program.allocated_bytes.saturating_add(size_bytes);
        if self.live_bytes > self.program.peak_live_bytes {
            self.program.peak_live_bytes = self.live_bytes;
            self.program.peak_operation = position as usize - 1;
        }
        self.program.counts.allocations += 1;
        self.after_call();
        Ok(())
    }

    /// The frees of blocks of 0 bytes find nothing here.
    fn free(&mut self, event: &Event) {
        let Some(placed) = self.live.remove(&event.allocation) else {
            return;
        };
        let stream = self.stream(event);
        let (to, home) = (usize::from(stream), usize::from(placed.home));
        if to != home {
            self.program.counts.cross_stream_frees += 1;
        }
        if !self.order.is_behind(to, home, placed.position) {
            self.wait(stream, placed.home);
        }
        self.push(placed.free(stream));
        if to != home && self.options.reuse == Reuse::Host {
            self.wait(placed.home, stream);
        }
        self.live_bytes -= placed.size_bytes;
        self.free_slots.push(placed.slot);
        self.program.counts.frees += 1;
        self.after_call();
    }

    /// Makes one stream wait for another.
    fn wait(&mut self, stream: u8, home: u8) {
        let position = self.push(Operation::without_block(OperationKind::Order, stream, home));
        self.order.wait(usize::from(stream), usize::from(home), position);
        self.program.counts.added_waits += 1;
    }

    fn after_call(&mut self) {
        self.since_synchronise += 1;
        if matches!(self.options.synchronise, Synchronise::Every(n) if self.since_synchronise >= n) {
            self.synchronise_device();
        }
    }

    fn synchronise_as_traced(&mut self, event: &Event) {
        if self.options.synchronise != Synchronise::AsTraced {
            return;
        }
        // A wait for a stream that the trace does not name is one for the device.
        match self.streams.get(event.stream as usize).copied().flatten() {
            Some(stream) => {
                let operation = Operation::without_block(OperationKind::SynchronizeStream, stream, stream);
                let position = self.push(operation);
                self.order.synchronize(usize::from(stream), position);
                self.program.counts.synchronises += 1;
            }
            None => self.synchronise_device(),
        }
    }

    fn synchronise_device(&mut self) {
        self.since_synchronise = 0;
        let position = self.push(Operation::without_block(OperationKind::SynchronizeDevice, 0, 0));
        self.order.synchronize_all(position);
        self.program.counts.synchronises += 1;
    }

    fn finish(mut self) -> Result<Program, CompileError> {
        if self.program.counts.allocations == 0 {
            return Err(CompileError::Empty);
        }
        let leaked = self.live.values().map(|placed| placed.free(placed.home)).collect();
        self.program.leaked = leaked;
        let counts = &mut self.program.counts;
        counts.live_at_end = self.live.len() as u64;
        counts.events = counts.allocations + counts.frees + counts.synchronises;
        Ok(self.program)
    }
}

impl Placed {
    fn free(&self, stream: u8) -> Operation {
        Operation {
            size_bytes: self.size_bytes,
            slot: self.slot,
            stream,
            home: self.home,
            kind: OperationKind::Free,
        }
    }
}
