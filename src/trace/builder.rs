//! Turns rows into a [`Trace`], pairing frees with allocations.

use std::collections::{BTreeMap, HashMap};

use super::clock::Monotonic;
use super::error::{Fault, Place, Problem};
use super::intern::Interner;
use super::warning::{self, Warning, WarningKind};
use super::{Allocation, Event, EventKind, Format, LiveBefore, Stream, Trace};

/// No GPU's address space is larger.
const SIZE_BYTES_MAX: u64 = 1 << 56;

/// Where and when a row stands, whatever it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub place: Place,
    pub time_ns: u64,
    pub thread: u64,
    pub stream: Stream,
}

/// The last thing seen of an address.
#[derive(Clone, Copy, Debug)]
struct Seen {
    allocation: u32,
    live: bool,
    place: Place,
}

/// Process, device and address: address spaces of different processes overlap.
type BlockKey = (u32, u32, u64);

/// What a format's records can leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    /// Records are complete: a free needs its allocation.
    Whole,
    /// Recording starts and stops at any time: frees and allocations may lack their other half.
    Part,
}

/// A trace in the making.
#[derive(Debug)]
pub(crate) struct Builder {
    format: Format,
    window: Window,
    events: Vec<Event>,
    allocations: Vec<Allocation>,
    threads: Interner<u64>,
    streams: Interner<Stream>,
    seen: HashMap<BlockKey, Seen>,
    live_bytes: u64,
    orphan_frees: u64,
    live_before: BTreeMap<(u32, u32), LiveBefore>,
    clock: Monotonic,
    times_known: bool,
    events_max: u64,
    pub warnings: Vec<Warning>,
}

impl Builder {
    pub fn new(format: Format, window: Window, events_max: u64) -> Builder {
        Builder {
            format,
            window,
            events: Vec::new(),
            allocations: Vec::new(),
            threads: Interner::new(),
            streams: Interner::new(),
            seen: HashMap::new(),
            live_bytes: 0,
            orphan_frees: 0,
            live_before: BTreeMap::new(),
            clock: Monotonic::default(),
            times_known: true,
            // The last index is `Event::NONE`.
            events_max: events_max.min(u64::from(u32::MAX - 1)),
            warnings: Vec::new(),
        }
    }

    /// Counts something that the format makes normal.
    pub fn warn(&mut self, kind: WarningKind, place: Option<Place>) {
        warning::count(&mut self.warnings, kind, place);
    }

    /// Says that the format has no times; every event is then at 0.
    pub fn without_times(&mut self) {
        self.times_known = false;
        self.warn(WarningKind::NoTimes, None);
    }

    /// Says whether the next time, where it falls, was cut.
    pub fn refuse_falls(&mut self, refuse: bool) {
        self.clock.refuses_falls = refuse;
    }

    /// Whether the address is live.
    pub fn is_live(&self, stream: Stream, address: u64) -> bool {
        self.live_block(stream, address).is_some()
    }

    fn live_block(&self, stream: Stream, address: u64) -> Option<Seen> {
        let seen = self.seen.get(&(stream.process, stream.device, address))?;
        seen.live.then_some(*seen)
    }

    /// Adds an allocation.
    pub fn alloc(&mut self, call: Call, address: u64, size_bytes: u64) -> Result<(), Fault> {
        let place = call.place;
        if size_bytes > SIZE_BYTES_MAX {
            return Err(Fault::at(place, Problem::SizeTooLarge { size_bytes }));
        }
        if address == 0 {
            if size_bytes > 0 {
                return Err(Fault::at(place, Problem::NullAllocation { size_bytes }));
            }
            self.warn(WarningKind::NullPointer, Some(place));
            return Ok(());
        }
        let before = self.live_block(call.stream, address);
        if let Some(before) = before
            && self.window == Window::Whole
        {
            let earlier = before.place;
            return Err(Fault::at(place, Problem::AllocatedTwice { address, earlier }));
        }
        self.start_block(call, address, size_bytes, before)?;
        if before.is_some() {
            self.warn(WarningKind::MissedFree, Some(place));
        }
        Ok(())
    }

    /// Adds the free of the block at an address and an allocation in its place; nothing where one cannot be added.
    pub fn realloc(&mut self, call: Call, address: u64, size_bytes: u64) -> Result<(), Fault> {
        let Some(before) = self.live_block(call.stream, address) else {
            return Err(Fault::at(call.place, Problem::Realloc { address }));
        };
        if size_bytes > SIZE_BYTES_MAX {
            return Err(Fault::at(call.place, Problem::SizeTooLarge { size_bytes }));
        }
        self.start_block(call, address, size_bytes, Some(before))
    }

    /// Adds an allocation, and before it the free of the block that it replaces.
    fn start_block(&mut self, call: Call, address: u64, size_bytes: u64, before: Option<Seen>) -> Result<(), Fault> {
        let place = call.place;
        let replaced_bytes = before.map_or(0, |before| self.allocations[before.allocation as usize].size_bytes);
        if (self.live_bytes - replaced_bytes).checked_add(size_bytes).is_none() {
            return Err(Fault::at(place, Problem::LiveTooLarge));
        }
        let time_ns = self.admit(call, 1 + u64::from(before.is_some()))?;
        if let Some(before) = before {
            self.end_block(call, time_ns, before.allocation);
        }
        if size_bytes == 0 {
            self.warn(WarningKind::ZeroSize, Some(place));
        }
        let allocation = self.allocations.len() as u32;
        let now = Seen {
            allocation,
            live: true,
            place,
        };
        self.seen
            .insert((call.stream.process, call.stream.device, address), now);
        self.live_bytes += size_bytes;
        self.allocations.push(Allocation {
            size_bytes,
            alloc_event: self.events.len() as u32,
            free_event: Event::NONE,
        });
        self.push(call, time_ns, EventKind::Alloc, allocation);
        Ok(())
    }

    /// Adds a free. `size_bytes` is what the row says, if it says anything.
    pub fn free(&mut self, call: Call, address: u64, size_bytes: Option<u64>) -> Result<(), Fault> {
        let place = call.place;
        if address == 0 {
            // Freeing nothing is allowed, and logged.
            self.warn(WarningKind::NullPointer, Some(place));
            return Ok(());
        }
        let key = (call.stream.process, call.stream.device, address);
        let seen = self.seen.get(&key).copied();
        let Some(seen) = seen.filter(|seen| seen.live) else {
            return self.free_unknown(call, key, seen, size_bytes);
        };
        let time_ns = self.admit(call, 1)?;
        let allocation = seen.allocation;
        self.seen.insert(
            key,
            Seen {
                allocation,
                live: false,
                place,
            },
        );
        let allocated_bytes = self.allocations[allocation as usize].size_bytes;
        if size_bytes.is_some_and(|size_bytes| size_bytes != allocated_bytes) {
            self.warn(WarningKind::SizeMismatch, Some(place));
        }
        self.end_block(call, time_ns, allocation);
        Ok(())
    }

    /// Adds the free of a block whose allocation is not recorded.
    fn free_unknown(
        &mut self,
        call: Call,
        key: BlockKey,
        seen: Option<Seen>,
        size_bytes: Option<u64>,
    ) -> Result<(), Fault> {
        let place = call.place;
        let (_, _, address) = key;
        if self.window == Window::Whole {
            return Err(Fault::at(
                place,
                match seen {
                    Some(Seen { place: earlier, .. }) => Problem::DoubleFree { address, earlier },
                    None => Problem::UnknownFree { address },
                },
            ));
        }
        self.orphan_frees += 1;
        self.warn(WarningKind::OrphanFree, Some(place));
        if seen.is_none() {
            // What was freed before and is freed again was allocated meanwhile, unrecorded: PyTorch's profiler
            // records the threads that it is told to, and CUPTI can lose records.
            let (process, device, _) = key;
            let before = self.live_before.entry((process, device)).or_default();
            before.add(size_bytes.unwrap_or(0));
            self.seen.insert(
                key,
                Seen {
                    allocation: Event::NONE,
                    live: false,
                    place,
                },
            );
        }
        Ok(())
    }

    /// Counts a block that is live at the end, unless the trace has seen its address: then it was live all the time.
    pub fn live_at_end(&mut self, stream: Stream, address: u64, size_bytes: u64) {
        if !self.seen.contains_key(&(stream.process, stream.device, address)) {
            let before = self.live_before.entry((stream.process, stream.device)).or_default();
            before.add(size_bytes);
        }
    }

    /// Adds the free of a block that is live.
    fn end_block(&mut self, call: Call, time_ns: u64, allocation: u32) {
        let block = &mut self.allocations[allocation as usize];
        block.free_event = self.events.len() as u32;
        self.live_bytes -= block.size_bytes;
        self.push(call, time_ns, EventKind::Free, allocation);
    }

    /// Adds a wait for the call's stream.
    pub fn sync_stream(&mut self, call: Call) -> Result<(), Fault> {
        let time_ns = self.admit(call, 1)?;
        self.push(call, time_ns, EventKind::Sync, Event::NONE);
        Ok(())
    }

    /// Adds a wait for the whole device.
    pub fn sync_device(&mut self, call: Call) -> Result<(), Fault> {
        let time_ns = self.admit(call, 1)?;
        self.push_on(call, time_ns, EventKind::Sync, Event::NONE, None);
        Ok(())
    }

    /// Adds a call of which neither block nor size is known.
    pub fn call_only(&mut self, call: Call, kind: EventKind) -> Result<(), Fault> {
        let time_ns = self.admit(call, 1)?;
        self.warn(WarningKind::NoSizes, Some(call.place));
        let mut allocation = Event::NONE;
        if kind == EventKind::Alloc {
            allocation = self.allocations.len() as u32;
            self.allocations.push(Allocation {
                size_bytes: 0,
                alloc_event: self.events.len() as u32,
                free_event: Event::NONE,
            });
        }
        self.push(call, time_ns, kind, allocation);
        Ok(())
    }

    /// The time of a call's events, where there is room for so many. All that can refuse a call comes before any
    /// change: a reader that leaves a cut row out goes on with what is here.
    fn admit(&mut self, call: Call, events: u64) -> Result<u64, Fault> {
        let limit = self.events_max;
        if self.events.len() as u64 + events > limit {
            return Err(Fault::at(call.place, Problem::TooManyEvents { limit }));
        }
        if self.times_known {
            self.clock.stamp(call.time_ns, call.place, &mut self.warnings)
        } else {
            Ok(0)
        }
    }

    fn push(&mut self, call: Call, time_ns: u64, kind: EventKind, allocation: u32) {
        self.push_on(call, time_ns, kind, allocation, Some(call.stream));
    }

    fn push_on(&mut self, call: Call, time_ns: u64, kind: EventKind, allocation: u32, stream: Option<Stream>) {
        self.events.push(Event {
            time_ns,
            allocation,
            thread: self.threads.index(call.thread),
            stream: stream.map_or(Event::NONE, |stream| self.streams.index(stream)),
            kind,
        });
    }

    /// The trace. Its times start at 0.
    pub fn finish(mut self) -> Result<Trace, Fault> {
        let Some(first) = self.events.first() else {
            return Err(Fault::from(Problem::Missing {
                what: if self.orphan_frees > 0 {
                    "allocation, and only frees of blocks whose allocation was not recorded"
                } else {
                    "allocation or free"
                },
                remedy: match self.format {
                    Format::RmmEventLog | Format::RmmCsv => {
                        "record while the program allocates; the logger buffers, so call its flush() or let the \
                         program end"
                    }
                    Format::TorchSnapshot => "record while the program allocates, without skip_actions",
                    _ => "record while the program allocates",
                },
            }));
        };
        let start_ns = first.time_ns;
        for event in &mut self.events {
            event.time_ns -= start_ns;
        }
        self.events.shrink_to_fit();
        self.allocations.shrink_to_fit();
        Ok(Trace {
            format: self.format,
            events: self.events,
            allocations: self.allocations,
            threads: self.threads.into_values(),
            streams: self.streams.into_values(),
            orphan_frees: self.orphan_frees,
            live_before: self.live_before,
            times_known: self.times_known,
            warnings: self.warnings,
        })
    }
}
