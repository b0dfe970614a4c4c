//! PyTorch profiler traces: the `[memory]` events of a Chrome trace, recorded with `profile_memory=True`.
//!
//! An event's `args` hold `Addr`, `Bytes` (negative for a free), `Device Type` (1 is CUDA) and `Device Id`. The
//! events stand in no order and are sorted by `ts`. Sizes are the allocator's blocks; there are no streams.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Read};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::builder::{Builder, Call, Window};
use super::clock::float_ns;
use super::error::{Fault, Place, Problem};
use super::event_array::{self, Around, LeftOut};
use super::input::RunLimit;
use super::instant::{BlockUse, add_together};
use super::lenient::Number;
use super::lookahead::{Lookahead, Position};
use super::profiler_event::RawEvent;
use super::read::Limits;
use super::warning::WarningKind;
use super::{Format, Stream, Trace};

/// Reads a trace as a stream: only memory events are kept.
pub(crate) fn read(input: impl Read, limits: &Limits) -> Result<Trace, Fault> {
    let mut next = Lookahead::new(RunLimit::new(input, b'"', limits.text_bytes));
    let mut found = Found {
        events_max: limits.events,
        ..Found::default()
    };
    let stop = Cell::new(false);
    let until_stop = UntilStop {
        inner: &mut next,
        stop: &stop,
    };
    let mut json = serde_json::Deserializer::from_reader(until_stop);
    let root = Root {
        found: &mut found,
        stop: &stop,
    };
    let head = root.deserialize(&mut json).and_then(|()| json.end());
    match found.around {
        Some(around) => read_events(&mut next, around, &mut found)?,
        None => head.map_err(|error| {
            let place = Position::default().plus(error.line(), error.column());
            event_array::fault(place, error)
        })?,
    }
    if found.around.is_none() && found.is_snapshot {
        return Err(Fault::from(Problem::WrongContainer {
            what: "a PyTorch memory snapshot saved as JSON",
            remedy: "save it with torch.cuda.memory._dump_snapshot, which pickles it",
        }));
    }
    if found.seen == 0 {
        return Err(Fault::from(Problem::Missing {
            what: "[memory] event",
            remedy: "record with torch.profiler.profile(profile_memory=True)",
        }));
    }
    if found.events.is_empty() {
        return Err(Fault::from(Problem::Missing {
            what: if found.has_other_devices {
                "[memory] event of a CUDA device (those in it are of devices of other kinds)"
            } else {
                "[memory] event of a CUDA device (those in it are the CPU's)"
            },
            remedy: "profile a program that uses a CUDA GPU",
        }));
    }
    build(found, limits)
}

/// Ends where the parser is told to stop, since it looks for the end of what it reads also behind an error.
struct UntilStop<'a, R> {
    inner: R,
    stop: &'a Cell<bool>,
}

impl<R: Read> Read for UntilStop<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.get() {
            return Ok(0);
        }
        self.inner.read(buffer)
    }
}

/// Reads the array of events.
fn read_events<R: Read>(next: &mut Lookahead<R>, around: Around, found: &mut Found) -> Result<(), Fault> {
    let mut left_out = event_array::read(next, around, |event: Option<RawEvent>| {
        if let Some(event) = event.filter(|event| event.name.0) {
            let place = Place::TraceEvent(found.index);
            found.add(&event).map_err(|problem| Fault::at(place, problem))?;
        }
        found.index += 1;
        Ok(())
    })?;
    // Of a file that is broken and has no memory events, the parser says more.
    if found.seen == 0
        && let Some(fault) = left_out.fault.take()
    {
        return Err(fault);
    }
    found.left_out = left_out;
    Ok(())
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
    has_other_devices: bool,
    /// Whether the file has what a memory snapshot has.
    is_snapshot: bool,
    /// The element that is being read.
    index: u64,
    events_max: u64,
    /// What is around the array of events, if there is one.
    around: Option<Around>,
    left_out: LeftOut,
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
            // 0 is the CPU.
            self.has_other_devices |= !matches!(args.device_type.integer(), Some(0)) && device >= 0;
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
    for _ in 0..found.left_out.events {
        builder.warn(WarningKind::BrokenEvent, found.left_out.first);
    }
    found.events.sort_unstable_by_key(|event| (event.time_ns, event.index));
    for together in found.events.chunk_by(|a, b| a.time_ns == b.time_ns) {
        let use_of = |event: &Memory| {
            Some(BlockUse {
                stream: stream_of(event),
                address: event.address,
                frees: event.bytes < 0,
            })
        };
        add_together(&mut builder, together, use_of, add)?;
    }
    builder.finish()
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

/// The file up to its array of events, where the parser stops: what follows may be broken.
struct Root<'a> {
    found: &'a mut Found,
    stop: &'a Cell<bool>,
}

impl<'de> DeserializeSeed<'de> for Root<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Root<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a profiler trace: an object with traceEvents, or an array of events")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "traceEvents" {
                map.next_value_seed(TraceEvents {
                    root: Root {
                        found: &mut *self.found,
                        stop: self.stop,
                    },
                    around: Around::Object,
                })?;
            } else {
                self.found.is_snapshot |= key == "device_traces";
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        let events = TraceEvents {
            root: self,
            around: Around::Nothing,
        };
        events.visit_seq(seq)
    }
}

/// The array of events: the parser stops behind its bracket.
struct TraceEvents<'a> {
    root: Root<'a>,
    around: Around,
}

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

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        self.root.found.around = Some(self.around);
        self.root.stop.set(true);
        Err(serde::de::Error::custom("the events are read one by one"))
    }
}
