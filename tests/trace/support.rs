//! A model of a trace, and writers of every format.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use poolbench::trace::{EventKind, Limits, Place, Problem, Trace, TraceError, WarningKind};
use proptest::prelude::*;
use rusqlite::{Connection, params};
use serde::Serialize;

/// One call, as every format can express it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub kind: EventKind,
    /// Numbered by allocation.
    pub block: u32,
    pub address: u64,
    pub size_bytes: u64,
    pub thread: u64,
    pub stream: u64,
    pub time_us: u64,
}

/// Steps in which each free follows its allocation. Addresses are reused once free.
pub fn steps(max: usize) -> impl Strategy<Value = Vec<Step>> {
    let call = (any::<u16>(), 0..1u64 << 40, 0..3u64, 0..3u64, 1..1_000_000u64);
    prop::collection::vec(call, 1..max).prop_map(|calls| {
        let mut live: Vec<Step> = Vec::new();
        let mut free_addresses: Vec<u64> = Vec::new();
        let (mut time_us, mut blocks) = (0, 0);
        let mut steps = Vec::new();
        for (choice, size_bytes, thread, stream, gap_us) in calls {
            time_us += gap_us;
            let mut step = if choice % 2 == 0 || live.is_empty() {
                let address = free_addresses
                    .pop()
                    .unwrap_or(0x7f00_0000_0000 + u64::from(blocks) * 512);
                blocks += 1;
                let step = Step {
                    kind: EventKind::Alloc,
                    block: blocks - 1,
                    address,
                    size_bytes: size_bytes.max(1),
                    thread,
                    stream,
                    time_us,
                };
                live.push(step);
                step
            } else {
                let block = live.swap_remove(usize::from(choice / 2) % live.len());
                free_addresses.push(block.address);
                Step {
                    kind: EventKind::Free,
                    thread,
                    stream,
                    ..block
                }
            };
            step.time_us = time_us;
            steps.push(step);
        }
        steps
    })
}

/// What a format keeps of a step.
#[derive(Clone, Copy, Debug)]
pub struct Keeps {
    pub threads: bool,
    pub streams: bool,
    pub times: bool,
}

pub const ALL: Keeps = Keeps {
    threads: true,
    streams: true,
    times: true,
};

/// The trace's events as steps, with times since the first one and without addresses.
pub fn steps_of(trace: &Trace) -> Vec<Step> {
    trace
        .events()
        .iter()
        .map(|event| Step {
            kind: event.kind,
            block: event.allocation,
            address: 0,
            size_bytes: trace.size_bytes(event),
            thread: trace.threads()[event.thread as usize],
            stream: trace.streams()[event.stream as usize].id,
            time_us: event.time_ns / 1_000,
        })
        .collect()
}

/// The steps as a format gives them back.
pub fn expected(steps: &[Step], keeps: Keeps) -> Vec<Step> {
    let start_us = steps.first().map_or(0, |step| step.time_us);
    steps
        .iter()
        .map(|step| Step {
            address: 0,
            thread: if keeps.threads { step.thread } else { 0 },
            stream: if keeps.streams { step.stream } else { 0 },
            time_us: if keeps.times { step.time_us - start_us } else { 0 },
            ..*step
        })
        .collect()
}

fn action(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Alloc => "allocate",
        EventKind::Free | EventKind::Sync => "free",
    }
}

/// The layouts of RMM's loggers that can be read.
#[derive(Clone, Copy, Debug)]
pub enum CsvLayout {
    EventLog,
    NoThread,
    DecimalStream,
    HexStream,
    DotMicroseconds,
    PrintfNil,
}

impl CsvLayout {
    pub const ALL: [CsvLayout; 6] = [
        CsvLayout::EventLog,
        CsvLayout::NoThread,
        CsvLayout::DecimalStream,
        CsvLayout::HexStream,
        CsvLayout::DotMicroseconds,
        CsvLayout::PrintfNil,
    ];

    pub fn keeps(self) -> Keeps {
        Keeps {
            threads: !matches!(self, CsvLayout::EventLog | CsvLayout::NoThread),
            ..ALL
        }
    }
}

/// Writes a log as RMM's logger of that layout does. Times of day start at 23:59:50, and so pass midnight.
pub fn csv(steps: &[Step], layout: CsvLayout) -> String {
    let mut text = match layout {
        CsvLayout::EventLog => {
            "Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total Memory,Current Allocs,Start,End,Elapsed,Location\n"
        }
        CsvLayout::NoThread => "Time,Action,Pointer,Size,Stream\n",
        _ => "Thread,Time,Action,Pointer,Size,Stream\n",
    }
    .to_owned();
    for step in steps {
        let time_us = (24 * 3_600 - 10) * 1_000_000 + step.time_us;
        let (seconds, us) = (time_us / 1_000_000, time_us % 1_000_000);
        let time = format!(
            "{:02}:{:02}:{:02}",
            seconds / 3_600 % 24,
            seconds / 60 % 60,
            seconds % 60
        );
        let (thread, action, size) = (step.thread, action(step.kind), step.size_bytes);
        let (address, stream) = (step.address, step.stream);
        let line = match layout {
            CsvLayout::EventLog => {
                let (name, size) = match step.kind {
                    EventKind::Alloc => ("Alloc", size),
                    _ => ("Free", 0),
                };
                let start = step.time_us as f64 / 1e6;
                format!("{name},0,{address:#x},{stream},{size},0,0,1,{start},{start},1e-06,a,b.cu:85")
            }
            CsvLayout::NoThread => format!("{time}:{us:06},{action},{address:#x},{size},{stream}"),
            CsvLayout::DecimalStream => {
                format!("{thread},{time}:{us:06},{action},{address:#x},{size},{stream}")
            }
            CsvLayout::HexStream => {
                format!("{thread},{time}:{us:06},{action},{address:#x},{size},{stream:#x}")
            }
            CsvLayout::DotMicroseconds => {
                format!("{thread},{time}.{us:06},{action},{address:#x},{size},{stream:#x}")
            }
            CsvLayout::PrintfNil => {
                let stream = match stream {
                    0 => "0".to_owned(),
                    stream => format!("{stream:#x}"),
                };
                format!("{thread},{time}.{us:06},{action},{address:#x},{size},{stream}")
            }
        };
        writeln!(text, "{line}").expect("writing to a string does not fail");
    }
    text
}

/// A snapshot's entry.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    pub action: &'static str,
    pub addr: u64,
    pub size: i64,
    pub stream: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_us: Option<u64>,
    pub frames: Vec<(String, u32)>,
}

impl Entry {
    pub fn new(action: &'static str, addr: u64, size: i64, time_us: u64) -> Entry {
        Entry {
            action,
            addr,
            size,
            stream: 0,
            time_us: Some(time_us),
            frames: vec![("model.py".to_owned(), 1)],
        }
    }
}

#[derive(Serialize)]
struct Snapshot<'a> {
    segments: Vec<u8>,
    device_traces: &'a [Vec<Entry>],
}

/// Pickles a snapshot of several devices.
pub fn pickle(devices: &[Vec<Entry>]) -> Vec<u8> {
    let snapshot = Snapshot {
        segments: Vec::new(),
        device_traces: devices,
    };
    serde_pickle::to_vec(&snapshot, serde_pickle::SerOptions::new()).expect("plain data can be pickled")
}

/// The steps as one device's entries; each free also completes.
pub fn entries(steps: &[Step]) -> Vec<Entry> {
    let mut entries = Vec::new();
    for step in steps {
        let action = match step.kind {
            EventKind::Alloc => "alloc",
            _ => "free_requested",
        };
        let mut entry = Entry::new(action, step.address, step.size_bytes as i64, step.time_us);
        entry.stream = step.stream;
        entries.push(entry.clone());
        if step.kind == EventKind::Free {
            entry.action = "free_completed";
            entries.push(entry);
        }
    }
    entries
}

/// The steps as a profiler trace, newest first, among other events.
pub fn profiler_json(steps: &[Step]) -> String {
    let events: Vec<String> = steps
        .iter()
        .rev()
        .map(|step| {
            let bytes = match step.kind {
                EventKind::Alloc => step.size_bytes as i64,
                _ => -(step.size_bytes as i64),
            };
            format!(
                r#"{{"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":1,"tid":{},"ts":{}.0,"args":{{"Total Reserved":1,"Total Allocated":1,"Bytes":{bytes},"Addr":{},"Device Id":0,"Device Type":1,"Ev Idx":7}}}}"#,
                step.thread, step.time_us, step.address
            )
        })
        .collect();
    format!(
        r#"{{"schemaVersion":1,"deviceProperties":[{{"id":0}}],"traceEvents":[{{"ph":"X","name":"kernel","ts":1,"tid":"stream 7","args":{{"grid":[1,1,1],"Bytes":"x"}}}},{}]}}"#,
        events.join(",\n")
    )
}

/// The tables that an export of 2024 and later has, as far as they are read.
pub const NSYS_SCHEMA: &str = "
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
    start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
    correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (
    start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
    greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
    syncType INTEGER NOT NULL, eventId INTEGER NOT NULL);
CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (
    start INTEGER NOT NULL, globalPid INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
    address INTEGER NOT NULL, pc INTEGER NOT NULL, bytes INTEGER NOT NULL, memKind INTEGER NOT NULL,
    memoryOperationType INTEGER NOT NULL, name TEXT, correlationId INTEGER, streamId INTEGER,
    localMemoryPoolAddress INTEGER, localMemoryPoolReleaseThreshold INTEGER, localMemoryPoolSize INTEGER,
    localMemoryPoolUtilizedSize INTEGER, importedMemoryPoolAddress INTEGER, importedMemoryPoolProcessId INTEGER);
";

/// The process of the fixtures, as nsys serializes it.
pub const PROCESS: i64 = 4_242 << 24;

/// Writes the steps as an export, with an API call for each.
pub fn nsys_sqlite(path: &Path, steps: &[Step]) -> rusqlite::Result<()> {
    let mut connection = Connection::open(path)?;
    connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
    connection.execute_batch(NSYS_SCHEMA)?;
    let transaction = connection.transaction()?;
    transaction.execute("INSERT INTO StringIds VALUES (1, 'cudaMallocAsync_v11020')", [])?;
    transaction.execute("INSERT INTO StringIds VALUES (2, 'cudaFreeAsync_v11020')", [])?;
    for (correlation, step) in steps.iter().enumerate() {
        let operation = i64::from(step.kind == EventKind::Free);
        let start = step.time_us as i64 * 1_000;
        let correlation = correlation as i64;
        transaction.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?1, ?2, 0, ?3, ?4, ?5, 0, NULL)",
            params![
                start - 5,
                start + 5,
                PROCESS + step.thread as i64,
                correlation,
                operation + 1
            ],
        )?;
        transaction.execute(
            "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, contextId, address, pc, bytes, \
             memKind, memoryOperationType, correlationId, streamId) VALUES (?1, ?2, 0, 1, ?3, 0, ?4, 2, ?5, ?6, ?7)",
            params![
                start,
                PROCESS,
                step.address as i64,
                step.size_bytes as i64,
                operation,
                correlation,
                step.stream as i64
            ],
        )?;
    }
    transaction.commit()
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder
        .write_all(bytes)
        .and_then(|()| encoder.finish())
        .expect("writing to memory does not fail")
}

/// Reads bytes that are named `t`.
pub fn read(bytes: impl AsRef<[u8]>) -> Result<Trace, TraceError> {
    poolbench::trace::read_bytes(bytes.as_ref(), "t", &Limits::default())
}

/// Reads what is expected to be readable.
#[track_caller]
pub fn trace(bytes: impl AsRef<[u8]>) -> Trace {
    match read(bytes) {
        Ok(trace) => trace,
        Err(error) => panic!("{error}"),
    }
}

/// Reads what is expected to be refused; gives the message, checked to be one line.
#[track_caller]
pub fn message(bytes: impl AsRef<[u8]>) -> String {
    match read(bytes) {
        Ok(trace) => panic!("read {} events", trace.events().len()),
        Err(error) => one_line(&error),
    }
}

#[track_caller]
pub fn one_line(error: &TraceError) -> String {
    let message = error.to_string();
    assert!(!message.contains(['\n', '\r']), "{message:?}");
    assert!(message.len() < 400, "{message}");
    message
}

/// Where and how a reader refuses, for matching.
pub fn refusal(bytes: impl AsRef<[u8]>) -> Option<(Option<Place>, Problem)> {
    let error = read(bytes).err()?;
    let place = error.place();
    Some((place, error.into_problem()))
}

/// The kinds and counts of a trace's warnings.
pub fn warnings(trace: &Trace) -> Vec<(WarningKind, u64)> {
    trace
        .warnings()
        .iter()
        .map(|warning| (warning.kind, warning.count))
        .collect()
}
