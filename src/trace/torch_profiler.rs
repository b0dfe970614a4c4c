//! PyTorch profiler traces: the `[memory]` events of a Chrome trace, recorded with `profile_memory=True`.
//!
//! An event's `args` hold `Addr`, `Bytes` (negative for a free), `Device Type` (1 is CUDA) and `Device Id`. The
//! events stand in no order and are sorted by `ts`. Sizes are the allocator's blocks; there are no streams.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io::{BufReader, Read};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::builder::{Builder, Call, Window};
use super::clock::float_ns;
use super::error::{Fault, Place, Problem, brief};
use super::input::{RunLimit, uncarry};
use super::lenient::{self, FromScalar, Number, Scalar};
use super::read::Limits;
use super::warning::WarningKind;
use super::{Format, Stream, Trace};

/// Reads a trace as a stream: only memory events are kept.
pub(crate) fn read(input: impl Read, limits: &Limits) -> Result<Trace, Fault> {
    let limited = RunLimit::new(input, b'"', limits.text_bytes);
    let mut json = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, limited));
    let mut found = Found {
        events_max: limits.events,
        ..Found::default()
    };
    let has_events = Root(&mut found)
        .deserialize(&mut json)
        .and_then(|has_events| json.end().map(|()| has_events));
    let has_events = has_events.map_err(|error| fault(error, &mut found))?;
    if !has_events || found.seen == 0 {
        return Err(Fault::from(Problem::Missing {
            what: "[memory] event",
            remedy: "record with torch.profiler.profile(profile_memory=True)",
        }));
    }
    if found.events.is_empty() {
        return Err(Fault::from(Problem::Missing {
            what: "[memory] event of a CUDA device (those in it are the CPU's)",
            remedy: "profile a program that uses the GPU",
        }));
    }
    build(found, limits)
}

/// Finds what stopped the parser: a reader's problem, our own, or the text's.
fn fault(error: serde_json::Error, found: &mut Found) -> Fault {
    if let Some(problem) = found.problem.take() {
        return Fault::at(Place::TraceEvent(found.index), problem);
    }
    let place = Place::Text {
        line: u32::try_from(error.line()).unwrap_or(u32::MAX),
        column: error.column() as u64,
    };
    let problem = match error.classify() {
        serde_json::error::Category::Eof => Problem::Cut,
        serde_json::error::Category::Io => uncarry(error.into()),
        _ => {
            // The place is said already.
            let message = error.to_string();
            let what = message.rsplit_once(" at line ").map_or(&*message, |(what, _)| what);
            Problem::Malformed(brief(&what))
        }
    };
    Fault::at(place, problem)
}

/// One memory event of a CUDA device.
#[derive(Clone, Copy, Debug)]
struct Memory {
    time_ns: u64,
    index: u64,
    address: u64,
    /// Negative for a free.
    bytes: i64,
    thread: u64,
    device: u32,
}

#[derive(Debug, Default)]
struct Found {
    events: Vec<Memory>,
    /// Memory events of any device.
    seen: u64,
    /// The element that is being read.
    index: u64,
    problem: Option<Problem>,
    events_max: u64,
}

impl Found {
    fn add(&mut self, event: &RawEvent) -> Result<(), Problem> {
        self.seen += 1;
        let args = &event.args.0;
        // Early files leave the type out; a CPU's id is -1.
        let device = args.device_id.integer().unwrap_or(0);
        let cuda = match args.device_type {
            Number::Absent => device >= 0,
            kind => kind.integer() == Some(1),
        };
        if !cuda {
            return Ok(());
        }
        if args.address == Number::Absent {
            return Err(Problem::Missing {
                what: "Addr in its [memory] events",
                remedy: "frees cannot be matched; record with PyTorch 1.12 or later",
            });
        }
        let limit = self.events_max;
        if self.events.len() as u64 >= limit {
            return Err(Problem::TooManyEvents { limit });
        }
        let invalid = |field, number: Number, expected| Problem::Invalid {
            field,
            text: number.to_string(),
            expected,
        };
        let bytes = args.bytes;
        let time = event.time;
        self.events.push(Memory {
            time_ns: micros_as_ns(time).ok_or_else(|| invalid("ts", time, "a time in microseconds"))?,
            index: self.index,
            address: args
                .address
                .unsigned()
                .ok_or_else(|| invalid("Addr", args.address, "an address"))?,
            // i64::MIN has no positive counterpart.
            bytes: bytes
                .integer()
                .filter(|&bytes| bytes != i64::MIN)
                .ok_or_else(|| invalid("Bytes", bytes, "a number of bytes below 2^63"))?,
            thread: event.thread.unsigned().unwrap_or(0),
            device: u32::try_from(device).map_err(|_| invalid("Device Id", args.device_id, "a device's number"))?,
        });
        Ok(())
    }
}

fn build(mut found: Found, limits: &Limits) -> Result<Trace, Fault> {
    let mut builder = Builder::new(Format::TorchProfiler, Window::Part, limits.events);
    builder.warn(WarningKind::NoStreams, None);
    found.events.sort_unstable_by_key(|event| (event.time_ns, event.index));
    for together in found.events.chunk_by(|a, b| a.time_ns == b.time_ns) {
        add_together(&mut builder, together)?;
    }
    builder.finish()
}

/// Adds events of one instant.
///
/// Their order in the file says nothing, so an event that does not fit yet (an allocation of a live block, a free
/// of one that is not) waits for one of the same block that makes it fit. What still waits at the end of the
/// instant is added as it stands.
fn add_together(builder: &mut Builder, together: &[Memory]) -> Result<(), Fault> {
    if let [event] = together {
        return add(builder, event);
    }
    let mut waiting: HashMap<(u32, u64), VecDeque<Memory>> = HashMap::new();
    for event in together {
        let block = (event.device, event.address);
        if !fits(builder, event) {
            waiting.entry(block).or_default().push_back(*event);
            continue;
        }
        add(builder, event)?;
        let Some(queue) = waiting.get_mut(&block) else {
            continue;
        };
        while let Some(next) = queue.front().filter(|next| fits(builder, next)).copied() {
            queue.pop_front();
            add(builder, &next)?;
        }
    }
    let mut left: Vec<Memory> = waiting.into_values().flatten().collect();
    left.sort_unstable_by_key(|event| event.index);
    left.iter().try_for_each(|event| add(builder, event))
}

fn fits(builder: &Builder, event: &Memory) -> bool {
    builder.is_live(stream_of(event), event.address) == (event.bytes < 0)
}

fn stream_of(event: &Memory) -> Stream {
    Stream {
        process: 0,
        device: event.device,
        id: 0,
    }
}

fn add(builder: &mut Builder, event: &Memory) -> Result<(), Fault> {
    let call = Call {
        place: Place::TraceEvent(event.index),
        time_ns: event.time_ns,
        thread: event.thread,
        stream: stream_of(event),
    };
    let size_bytes = event.bytes.unsigned_abs();
    if event.bytes < 0 {
        builder.free(call, event.address, Some(size_bytes))
    } else {
        builder.alloc(call, event.address, size_bytes)
    }
}

/// Microseconds as nanoseconds, if the time is one.
fn micros_as_ns(time: Number) -> Option<u64> {
    match time {
        // In parts: at times since 1970, nanoseconds take more digits than a float has.
        Number::Float(us) => {
            let whole_us = float_ns(us.trunc())?;
            let part_ns = float_ns(us.fract() * 1e3)?;
            whole_us.checked_mul(1_000)?.checked_add(part_ns)
        }
        _ => time.unsigned()?.checked_mul(1_000),
    }
}

/// Whether an event's name is the memory events'.
#[derive(Debug, Default)]
struct IsMemory(bool);

impl FromScalar for IsMemory {
    fn from_scalar(scalar: Scalar<'_>) -> IsMemory {
        IsMemory(matches!(scalar, Scalar::Text("[memory]")))
    }
}

impl<'de> Deserialize<'de> for IsMemory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IsMemory, D::Error> {
        lenient::scalar(deserializer)
    }
}

/// One element of `traceEvents`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawEvent {
    name: IsMemory,
    #[serde(rename = "ts")]
    time: Number,
    #[serde(rename = "tid")]
    thread: Number,
    args: Args,
}

/// The `args` of a memory event; those of other events have other keys, and may be no map.
#[derive(Debug, Default)]
struct Args(MemoryArgs);

#[derive(Debug, Default)]
struct MemoryArgs {
    address: Number,
    bytes: Number,
    device_type: Number,
    device_id: Number,
}

impl<'de> Deserialize<'de> for Args {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Args, D::Error> {
        struct ArgsVisitor;

        impl<'de> Visitor<'de> for ArgsVisitor {
            type Value = Args;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event's args")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Args, A::Error> {
                let mut args = MemoryArgs::default();
                while let Some(key) = map.next_key::<Key>()? {
                    match key {
                        Key::Address => args.address = map.next_value()?,
                        Key::Bytes => args.bytes = map.next_value()?,
                        Key::DeviceType => args.device_type = map.next_value()?,
                        Key::DeviceId => args.device_id = map.next_value()?,
                        Key::Other => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(Args(args))
            }

            fn visit_unit<E>(self) -> Result<Args, E> {
                Ok(Args::default())
            }

            fn visit_str<E>(self, _: &str) -> Result<Args, E> {
                Ok(Args::default())
            }
        }

        deserializer.deserialize_any(ArgsVisitor)
    }
}

#[derive(Deserialize)]
enum Key {
    #[serde(rename = "Addr")]
    Address,
    Bytes,
    #[serde(rename = "Device Type")]
    DeviceType,
    #[serde(rename = "Device Id")]
    DeviceId,
    #[serde(other)]
    Other,
}

/// The whole file: an object with `traceEvents`, or the array alone. Gives whether the events are there.
struct Root<'a>(&'a mut Found);

impl<'de> DeserializeSeed<'de> for Root<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Root<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a profiler trace: an object with traceEvents, or an array of events")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let mut has_events = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == "traceEvents" {
                has_events = true;
                map.next_value_seed(TraceEvents(self.0))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(has_events)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<bool, A::Error> {
        TraceEvents(self.0).visit_seq(seq)?;
        Ok(true)
    }
}

/// The array of events.
struct TraceEvents<'a>(&'a mut Found);

impl<'de> DeserializeSeed<'de> for TraceEvents<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for TraceEvents<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let found = self.0;
        while let Some(event) = seq.next_element::<RawEvent>()? {
            if event.name.0
                && let Err(problem) = found.add(&event)
            {
                found.problem = Some(problem);
                return Err(serde::de::Error::custom("refused"));
            }
            found.index += 1;
        }
        Ok(())
    }
}
