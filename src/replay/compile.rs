//! From a trace's events to operations: streams, slots, and waits where the order asks for them.

use super::operation::{Operation, OperationKind};
use super::program::{CompileError, CompileOptions, Counts, Program, Reuse, STREAMS_MAX, Synchronise};
use super::stream_order::StreamOrder;
use crate::trace::{Event, EventKind, Trace};
use std::collections::BTreeMap;

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
