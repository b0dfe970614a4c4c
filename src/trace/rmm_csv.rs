//! RMM's CSV logs: read in every layout since 2018, written in the present one.

use std::io::{self, Read, Write};

use csv::{ByteRecord, ReaderBuilder};

use super::builder::{Builder, Call, Window};
use super::clock::{DayClock, float_ns, time_of_day_ns};
use super::error::{Fault, Place, Problem, quoted};
use super::input::{RunLimit, uncarry};
use super::read::Limits;
use super::rmm_layout::{
    ACTIONS, Action, Layout, Logger, action_of, decimal, invalid, optional, pointer, row_of, size, stream,
};
use super::warning::WarningKind;
use super::{EventKind, Format, Stream, Trace};

/// Whether a file that begins with this line is an RMM log, readable or not.
pub(crate) fn looks_like_log(line: &[u8]) -> bool {
    line.split(|&byte| byte == b',')
        .map(<[u8]>::trim_ascii)
        .any(|field| names_actions(field) || action_of(field).is_some())
}

/// Whether a field is the header of the column of actions.
fn names_actions(field: &[u8]) -> bool {
    field.eq_ignore_ascii_case(b"Action") || field.eq_ignore_ascii_case(b"Event Type")
}

/// Reads a log. Its rows are in the order of the calls: the logger holds a lock while it writes.
pub(crate) fn read(input: impl Read, limits: &Limits) -> Result<Trace, Fault> {
    // No logger quotes. With quoting, one stray mark would swallow the rest of the file.
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .quoting(false)
        .buffer_capacity(64 << 10)
        .from_reader(RunLimit::new(input, b'\n', limits.line_bytes));
    let (mut record, mut upcoming) = (ByteRecord::new(), ByteRecord::new());
    if !next(&mut reader, &mut record, Place::Row(1))? {
        return Err(Fault::from(Problem::Empty));
    }
    let layout = Layout::of(&record)?;
    let mut rows = Rows::new(layout, limits);
    let mut last = Place::Row(1);
    let mut is_there = next(&mut reader, &mut record, last)?;
    while is_there {
        last = row_of(&record);
        let follows = next(&mut reader, &mut upcoming, last);
        let may_be_cut = matches!(follows, Ok(false)) && reader.get_ref().last() != Some(b'\n');
        rows.builder.refuse_falls(may_be_cut);
        match rows.add(&record, last) {
            Ok(()) => {}
            // The loggers buffer: a crash loses the tail, in the middle of a row.
            Err(_) if may_be_cut => {
                rows.builder.warn(WarningKind::CutRow, Some(last));
                return rows.builder.finish();
            }
            Err(fault) => return Err(fault),
        }
        is_there = follows?;
        std::mem::swap(&mut record, &mut upcoming);
    }
    if reader.get_ref().last() != Some(b'\n') {
        rows.builder.warn(WarningKind::NoFinalLineFeed, Some(last));
    }
    rows.builder.finish()
}

/// Reads the next record. An error stands in the row behind `last`.
fn next<R: Read>(reader: &mut csv::Reader<R>, record: &mut ByteRecord, last: Place) -> Result<bool, Fault> {
    reader.read_byte_record(record).map_err(|error| {
        let place = match last {
            Place::Row(row) => Place::Row(row + 1),
            other => other,
        };
        match error.into_kind() {
            csv::ErrorKind::Io(error) => Fault::at(place, uncarry(error)),
            other => Fault::at(place, Problem::Malformed(format!("{other:?}"))),
        }
    })
}

struct Rows {
    layout: Layout,
    builder: Builder,
    day: DayClock,
}

impl Rows {
    fn new(layout: Layout, limits: &Limits) -> Rows {
        let format = match layout.logger {
            Logger::EventLog => Format::RmmEventLog,
            Logger::Adaptor => Format::RmmCsv,
        };
        let mut builder = Builder::new(format, Window::Whole, limits.events);
        if layout.thread.is_none() {
            builder.warn(WarningKind::NoThreads, None);
        }
        if layout.stream.is_none() {
            builder.warn(WarningKind::NoStreams, None);
        }
        if layout.time.is_none() {
            builder.without_times();
        }
        Rows {
            layout,
            builder,
            day: DayClock::default(),
        }
    }

    fn add(&mut self, record: &ByteRecord, place: Place) -> Result<(), Fault> {
        self.add_fields(record, place).map_err(|fault| {
            let is_unreadable = matches!(fault.problem, Problem::Invalid { .. } | Problem::UnknownAction { .. });
            let has_spaces = record.iter().any(|field| field != field.trim_ascii());
            Fault {
                place: fault.place.or(Some(place)),
                problem: if is_unreadable && has_spaces {
                    Problem::Spaces
                } else {
                    fault.problem
                },
            }
        })
    }

    fn add_fields(&mut self, record: &ByteRecord, place: Place) -> Result<(), Fault> {
        let layout = self.layout;
        // The event log's last column is a source location, which may hold commas.
        let enough = match layout.logger {
            Logger::EventLog => record.len() >= layout.columns,
            Logger::Adaptor => record.len() == layout.columns,
        };
        if !enough {
            return Err(Fault::from(Problem::FieldCount {
                expected: layout.columns,
                found: record.len(),
            }));
        }
        let field = |column: usize| record.get(column).unwrap_or_default();
        let name = field(layout.action);
        let action = action_of(name).ok_or_else(|| {
            if names_actions(name) {
                Problem::SecondHeader
            } else {
                Problem::UnknownAction {
                    text: quoted(name),
                    expected: ACTIONS,
                }
            }
        })?;
        if action == Action::AllocateFailure {
            self.builder.warn(WarningKind::AllocationFailure, Some(place));
            return Ok(());
        }
        let text = field(layout.pointer);
        let address = pointer(text).ok_or_else(|| invalid("pointer", text, "a hexadecimal address or (nil)"))?;
        let size_bytes = size(field(layout.size))?;
        let call = self.call(record, place)?;
        match action {
            Action::Allocate => self.builder.alloc(call, address, size_bytes),
            Action::Free => {
                // The event log writes 0 for the size of a free.
                let said = (layout.logger == Logger::Adaptor).then_some(size_bytes);
                self.builder.free(call, address, said)
            }
            // The row names only the new address. If that is live, it is the old one too.
            Action::Realloc => self.builder.realloc(call, address, size_bytes),
            Action::AllocateFailure => Ok(()),
        }
    }

    fn call(&mut self, record: &ByteRecord, place: Place) -> Result<Call, Problem> {
        let layout = self.layout;
        let thread = optional(record, layout.thread, 0, decimal, "thread", "a number")?;
        let handle = "a number or a hexadecimal handle";
        let id = optional(record, layout.stream, 0, stream, "stream", handle)?;
        let ordinal = |text: &[u8]| decimal(text).and_then(|device| u32::try_from(device).ok());
        let device = optional(record, layout.device, 0, ordinal, "device", "a device's number")?;
        let time_ns = match layout.logger {
            Logger::EventLog => {
                let seconds = |text: &[u8]| {
                    let text = std::str::from_utf8(text).ok()?;
                    float_ns(text.trim().parse::<f64>().ok()? * 1e9)
                };
                optional(record, layout.time, 0, seconds, "start", "a time in seconds")?
            }
            Logger::Adaptor => {
                let expected = "a time of day (HH:MM:SS.ffffff)";
                let time = optional(record, layout.time, 0, time_of_day_ns, "time", expected)?;
                self.day.unwrap_day(time, place, &mut self.builder.warnings)
            }
        };
        Ok(Call {
            place,
            time_ns,
            thread,
            stream: Stream { process: 0, device, id },
        })
    }
}

/// Writes a trace in the layout of RMM 24.12 and later, for RMM's own replay or a spreadsheet.
///
/// Every block gets an address of its own. Syncs, devices and processes have no place in the layout and are left
/// out; times keep microseconds and wrap at midnight.
///
/// # Errors
/// Those of `output`.
pub fn write_rmm_csv(trace: &Trace, mut output: impl Write) -> io::Result<()> {
    output.write_all(b"Thread,Time,Action,Pointer,Size,Stream\n")?;
    for event in trace.events() {
        let Some(block) = trace.allocation(event) else {
            continue;
        };
        let action = match event.kind {
            EventKind::Alloc => "allocate",
            EventKind::Free => "free",
            EventKind::Sync => continue,
        };
        let thread = trace.threads().get(event.thread as usize).unwrap_or(&0);
        let stream = trace.streams().get(event.stream as usize);
        let time_us = event.time_ns / 1_000;
        let (seconds, us) = (time_us / 1_000_000, time_us % 1_000_000);
        write!(
            output,
            "{thread},{:02}:{:02}:{:02}.{us:06},{action},{:#x},{},",
            seconds / 3_600 % 24,
            seconds / 60 % 60,
            seconds % 60,
            0x7f00_0000_0000 + u64::from(event.allocation) * 512,
            block.size_bytes,
        )?;
        match stream.map_or(0, |stream| stream.id) {
            0 => output.write_all(b"0\n")?,
            id => writeln!(output, "{id:#x}")?,
        }
    }
    Ok(())
}
