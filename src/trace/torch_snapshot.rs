//! PyTorch memory snapshots: the pickle that `torch.cuda.memory._snapshot()` gives.
//!
//! `device_traces` holds a ring of entries per device. `alloc` and `free_requested` carry the host time of the
//! call; `free_completed` follows later where another stream used the block, and the `segment_*` entries are
//! what PyTorch's own cache asked of CUDA. Sizes are the requested ones. `segments` says what is live in the end.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::builder::{Builder, Call, Window};
use super::error::{Fault, Place, Problem, brief};
use super::lenient::{Name, Number, Skip};
use super::read::Limits;
use super::torch_segments::{LiveBlock, Segments};
use super::warning::WarningKind;
use super::{Format, Stream, Trace, pickle_guard};

/// Reads a snapshot. Nothing in it is executed.
pub(crate) fn read(bytes: &[u8], limits: &Limits) -> Result<Trace, Fault> {
    pickle_guard::check(bytes, limits.nesting)?;
    let mut traces = Traces {
        // An entry takes at least 16 bytes, and a block at least 8. More of them would come from references to one.
        entries_left: bytes.len() / 16,
        blocks_left: bytes.len() / 8,
        ..Traces::default()
    };
    // Frames are shared objects: without the option, the second use of a shared string is an error.
    let options = serde_pickle::DeOptions::new()
        .decode_strings()
        .replace_recursive_structures();
    let mut deserializer = serde_pickle::Deserializer::new(bytes, options);
    let found = match Root(&mut traces).deserialize(&mut deserializer) {
        Ok(found) => found,
        Err(error) => {
            let place = traces.entry_place();
            let problem = traces
                .problem
                .take()
                .unwrap_or_else(|| Problem::Malformed(brief(&error)));
            return Err(Fault { place, problem });
        }
    };
    if !found {
        return Err(Fault::from(Problem::Missing {
            what: "device_traces",
            remedy: "save torch.cuda.memory._snapshot(), with _record_memory_history() called before",
        }));
    }
    build(traces, limits)
}

/// What an entry asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Alloc,
    FreeRequested,
    FreeCompleted,
    OutOfMemory,
    /// What the allocator does with its own cache.
    Internal,
    Unknown,
}

fn action_of(name: &str) -> Action {
    match name {
        "alloc" => Action::Alloc,
        "free_requested" | "free" => Action::FreeRequested,
        "free_completed" => Action::FreeCompleted,
        "oom" => Action::OutOfMemory,
        "segment_alloc" | "segment_free" | "segment_map" | "segment_unmap" | "snapshot" => Action::Internal,
        _ => Action::Unknown,
    }
}

/// What is made of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Alloc,
    Free,
    /// The end of a free whose request is not recorded; of one from before the trace, nothing is known.
    FreeIfLive,
}

/// One `alloc` or `free_requested`, or a `free_completed` without its request.
#[derive(Clone, Copy, Debug)]
struct Record {
    index: u64,
    step: Step,
    time_us: Option<u64>,
    address: u64,
    size_bytes: u64,
    stream: u64,
}

/// What is taken from the pickle.
#[derive(Debug, Default)]
struct Traces {
    devices: Vec<Vec<Record>>,
    /// Addresses on the last device whose free is requested and not complete.
    requested: HashSet<u64>,
    live_at_end: Vec<LiveBlock>,
    counted: Vec<(WarningKind, Place)>,
    /// The entry that is being read, for errors.
    entry: Option<u64>,
    problem: Option<Problem>,
    entries_left: usize,
    blocks_left: usize,
}

impl Traces {
    fn entry_place(&self) -> Option<Place> {
        let index = self.entry?;
        let device = self.devices.len().saturating_sub(1) as u32;
        Some(Place::Entry { device, index })
    }

    /// Keeps the problem, since serde's errors hold only text.
    fn refuse<E: serde::de::Error>(&mut self, problem: Problem) -> E {
        self.problem = Some(problem);
        E::custom("refused")
    }

    fn add(&mut self, entry: &Entry) -> Result<(), Problem> {
        let Some(index) = self.entry else {
            return Ok(());
        };
        let step = match entry.action {
            None => return Err(invalid("action", Number::Absent, "what every entry has")),
            Some(Action::Alloc) => Step::Alloc,
            Some(Action::FreeRequested) => {
                self.requested.extend(entry.address.unsigned());
                Step::Free
            }
            Some(Action::FreeCompleted) => {
                let address = entry.address.unsigned();
                if address.is_none_or(|address| self.requested.remove(&address)) {
                    return Ok(());
                }
                Step::FreeIfLive
            }
            Some(Action::Internal) => return Ok(()),
            Some(other) => {
                let kind = match other {
                    Action::OutOfMemory => WarningKind::OutOfMemory,
                    _ => WarningKind::UnknownAction,
                };
                if let Some(place) = self.entry_place() {
                    self.counted.push((kind, place));
                }
                return Ok(());
            }
        };
        let record = Record {
            index,
            step,
            time_us: match entry.time_us {
                Number::Absent => None,
                time => Some(unsigned(time, "time_us", "a time in microseconds")?),
            },
            address: unsigned(entry.address, "addr", "an address")?,
            size_bytes: unsigned(entry.size, "size", "a number of bytes")?,
            stream: match entry.stream {
                Number::Absent => 0,
                stream => unsigned(stream, "stream", "a stream's handle")?,
            },
        };
        if let Some(device) = self.devices.last_mut() {
            device.push(record);
        }
        Ok(())
    }
}

fn invalid(field: &'static str, number: Number, expected: &'static str) -> Problem {
    Problem::Invalid {
        field,
        text: number.to_string(),
        expected,
    }
}

fn unsigned(number: Number, field: &'static str, expected: &'static str) -> Result<u64, Problem> {
    number.unsigned().ok_or_else(|| invalid(field, number, expected))
}

/// Merges the devices' records by time and pairs them.
fn build(traces: Traces, limits: &Limits) -> Result<Trace, Fault> {
    let records: usize = traces.devices.iter().map(Vec::len).sum();
    if records == 0 {
        return Err(Fault::from(Problem::Missing {
            what: "alloc or free_requested entry",
            remedy: "call torch.cuda.memory._record_memory_history() before the program allocates",
        }));
    }
    let mut builder = Builder::new(Format::TorchSnapshot, Window::Part, limits.events);
    builder.warn(WarningKind::NoThreads, None);
    for &(kind, place) in &traces.counted {
        builder.warn(kind, Some(place));
    }
    let timed = traces.devices.iter().flatten().all(|r| r.time_us.is_some());
    if !timed {
        builder.without_times();
    }
    // Each device's entries keep their order; without times, one device follows the other.
    let mut order: Vec<(u64, u32, u32)> = Vec::with_capacity(records);
    for (device, records) in traces.devices.iter().enumerate() {
        let mut latest_us = 0;
        for (at, record) in records.iter().enumerate() {
            latest_us = record.time_us.filter(|_| timed).unwrap_or(0).max(latest_us);
            order.push((latest_us, device as u32, at as u32));
        }
    }
    order.sort_unstable();
    for (_, device, at) in order {
        let record = traces.devices[device as usize][at as usize];
        let place = Place::Entry {
            device,
            index: record.index,
        };
        let time_us = record.time_us.unwrap_or(0);
        let call = Call {
            place,
            time_ns: time_us.saturating_mul(1_000),
            thread: 0,
            stream: Stream {
                process: 0,
                device,
                id: record.stream,
            },
        };
        match record.step {
            Step::Alloc => builder.alloc(call, record.address, record.size_bytes)?,
            Step::FreeIfLive if !builder.is_live(call.stream, record.address) => {}
            Step::Free | Step::FreeIfLive => builder.free(call, record.address, Some(record.size_bytes))?,
        }
    }
    for block in &traces.live_at_end {
        let stream = Stream {
            process: 0,
            device: block.device,
            id: 0,
        };
        builder.live_at_end(stream, block.address, block.size_bytes);
    }
    builder.finish()
}

/// The whole snapshot; gives whether it has `device_traces`.
struct Root<'a>(&'a mut Traces);

impl<'de> DeserializeSeed<'de> for Root<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Root<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a snapshot: a dict with device_traces")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let mut has_traces = false;
        while let Some(Name(key)) = map.next_key()? {
            match key.as_str() {
                "device_traces" => {
                    map.next_value_seed(DeviceTraces(&mut *self.0))?;
                    has_traces = true;
                }
                "segments" => {
                    let traces = &mut *self.0;
                    map.next_value_seed(Segments::new(&mut traces.live_at_end, &mut traces.blocks_left))?;
                }
                _ => {
                    map.next_value::<Skip>()?;
                }
            }
        }
        Ok(has_traces)
    }

    /// `torch.cuda.memory_snapshot()` gives the list of segments alone.
    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<bool, A::Error> {
        Ok(false)
    }
}

/// The value of `device_traces`: a list per device.
struct DeviceTraces<'a>(&'a mut Traces);

/// One device's list of entries.
struct DeviceTrace<'a>(&'a mut Traces);

/// One entry.
struct EntrySeed<'a>(&'a mut Traces);

macro_rules! seed {
    ($seed:ident, $method:ident) => {
        impl<'de> DeserializeSeed<'de> for $seed<'_> {
            type Value = ();

            fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
                deserializer.$method(self)
            }
        }
    };
}

seed!(DeviceTraces, deserialize_seq);
seed!(DeviceTrace, deserialize_seq);
seed!(EntrySeed, deserialize_map);

impl<'de> Visitor<'de> for DeviceTraces<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("device_traces: a list with a list per device")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut devices: A) -> Result<(), A::Error> {
        loop {
            self.0.devices.push(Vec::new());
            self.0.requested.clear();
            self.0.entry = None;
            if devices.next_element_seed(DeviceTrace(self.0))?.is_none() {
                return Ok(());
            }
        }
    }
}

impl<'de> Visitor<'de> for DeviceTrace<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of a device's entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        loop {
            self.0.entry = Some(self.0.entry.map_or(0, |index| index + 1));
            if entries.next_element_seed(EntrySeed(self.0))?.is_none() {
                return Ok(());
            }
        }
    }
}

/// The parts of an entry that matter.
#[derive(Debug, Default)]
struct Entry {
    action: Option<Action>,
    address: Number,
    size: Number,
    stream: Number,
    time_us: Number,
}

impl<'de> Visitor<'de> for EntrySeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entry: a dict with action, addr and size")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut entry = Entry::default();
        while let Some(Name(key)) = map.next_key()? {
            match key.as_str() {
                "action" => entry.action = Some(action_of(&map.next_value::<Name>()?.0)),
                "addr" => entry.address = map.next_value()?,
                "size" => entry.size = map.next_value()?,
                "stream" => entry.stream = map.next_value()?,
                "time_us" => entry.time_us = map.next_value()?,
                _ => {
                    map.next_value::<Skip>()?;
                }
            }
        }
        if self.0.entries_left == 0 {
            let problem = Problem::Malformed("more entries than its bytes can hold".to_owned());
            return Err(self.0.refuse(problem));
        }
        self.0.entries_left -= 1;
        self.0.add(&entry).map_err(|problem| self.0.refuse(problem))
    }
}
