//! Why a trace is refused: one line that names the file, the place, what is wrong, and the remedy.

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::Serialize;

use crate::counted::counted;

/// A table of an Nsight Systems export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SqlTable {
    /// `CUDA_GPU_MEMORY_USAGE_EVENTS`
    MemoryUsage,
    /// `CUPTI_ACTIVITY_KIND_RUNTIME`
    Runtime,
}

impl SqlTable {
    /// The name in the database.
    pub fn name(self) -> &'static str {
        match self {
            SqlTable::MemoryUsage => "CUDA_GPU_MEMORY_USAGE_EVENTS",
            SqlTable::Runtime => "CUPTI_ACTIVITY_KIND_RUNTIME",
        }
    }
}

/// Where in a file something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// A line of a CSV file; the header is row 1.
    Row(u64),
    /// An offset into the (decompressed) file, from 0.
    Byte(u64),
    /// An entry of one device's trace in a snapshot, both from 0.
    Entry {
        /// Device ordinal.
        device: u32,
        /// Index into `device_traces[device]`.
        index: u64,
    },
    /// An element of `traceEvents`, from 0.
    TraceEvent(u64),
    /// A place in a text file, both from 1.
    Text {
        /// Line.
        line: u32,
        /// Byte within the line.
        column: u64,
    },
    /// A row of a table, by its rowid.
    SqlRow(SqlTable, i64),
    /// An event of the trace in memory, from 0.
    Event(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Row(row) => write!(f, "row {row}"),
            Place::Byte(byte) => write!(f, "byte {byte}"),
            Place::Entry { device, index } => write!(f, "device {device}, entry {index}"),
            Place::TraceEvent(index) => write!(f, "traceEvents[{index}]"),
            Place::Text { line, column } => write!(f, "line {line}, column {column}"),
            Place::SqlRow(table, rowid) => write!(f, "{} row {rowid}", table.name()),
            Place::Event(index) => write!(f, "event {index}"),
        }
    }
}

/// What is wrong with a trace. Each message ends with the remedy where there is one.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each variant and field means")]
pub enum Problem {
    #[error("cannot be read: {0}")]
    Io(io::Error),
    #[error("is empty; if a logger is writing it, call its flush() or let the program end, since loggers buffer")]
    Empty,
    #[error(
        "is no allocation trace (it begins with {found}); expected an RMM CSV log, a PyTorch memory \
         snapshot (pickle), a PyTorch profiler trace (JSON) or an Nsight Systems export (SQLite)"
    )]
    UnknownFormat { found: String },
    #[error("is {what}; {remedy}")]
    WrongContainer { what: &'static str, remedy: &'static str },
    #[error("has no {what}: {remedy}")]
    Missing { what: &'static str, remedy: &'static str },
    #[error("ends in the middle of the data: the file was cut short; copy or record it again")]
    Cut,
    #[error("the gzip stream is damaged ({0}); copy the file again")]
    Gzip(String),
    #[error("the line is longer than {limit_bytes} bytes, which no trace needs; is this the right file?")]
    LineTooLong { limit_bytes: u64 },
    #[error("a text of more than {limit_bytes} bytes, which no trace needs; is this the right file?")]
    TextTooLong { limit_bytes: u64 },
    #[error("is larger than {limit_bytes} bytes, the most that is read of this format: {remedy}")]
    TooLarge { limit_bytes: u64, remedy: &'static str },
    #[error(
        "decompresses to more than {limit_bytes} bytes from {compressed_bytes}: no trace compresses so \
         well; if it is a real one, decompress it first"
    )]
    Inflates { compressed_bytes: u64, limit_bytes: u64 },
    #[error("has {} where the header has {expected}", counted(found, "field"))]
    FieldCount { expected: usize, found: usize },
    #[error("{field} {text} is not {expected}")]
    Invalid {
        field: &'static str,
        text: String,
        expected: &'static str,
    },
    #[error("size {size_bytes} is larger than any GPU's address space (2^56): the log is damaged")]
    SizeTooLarge { size_bytes: u64 },
    #[error("the live blocks add up to more than 2^64 bytes: a size is wrong, or frees are missing")]
    LiveTooLarge,
    #[error(
        "allocates {} at the null address: a failed call logged as done",
        counted(size_bytes, "byte")
    )]
    NullAllocation { size_bytes: u64 },
    #[error("has spaces around its fields; separate them by commas alone, as RMM writes them")]
    Spaces,
    #[error("is a second header: two logs in one file; split it there")]
    SecondHeader,
    #[error("action {text} is none of {expected}")]
    UnknownAction { text: String, expected: &'static str },
    #[error("allocates {address:#x}, which is live since {earlier}: a free is missing, or two runs share this file")]
    AllocatedTwice { address: u64, earlier: Place },
    #[error("frees {address:#x} a second time (first at {earlier}): a bug of the program, or rows are missing")]
    DoubleFree { address: u64, earlier: Place },
    #[error("frees {address:#x}, which was never allocated: start the log before the program's first allocation")]
    UnknownFree { address: u64 },
    #[error("moves {address:#x} without saying from where (Realloc): record with RMM 0.13 or later")]
    Realloc { address: u64 },
    #[error("time runs backwards by {by_ns} ns")]
    TimeBackwards { by_ns: u64 },
    #[error("more events than {limit}, the most a trace can hold: record a shorter run")]
    TooManyEvents { limit: u64 },
    #[error(
        "asks to call or to build something ({opcode}): no memory snapshot needs that, and nothing was \
         executed; do not open this file in Python"
    )]
    Call { opcode: &'static str },
    #[error("nests deeper than {limit} levels: no memory snapshot does")]
    TooDeep { limit: u32 },
    #[error("is damaged: {0}")]
    Malformed(String),
    #[error(
        "an event is broken and may be a [memory] event: PyTorch did not escape its names; record it \
         again with with_stack=False"
    )]
    BrokenMemoryEvent,
    #[error("cannot be read as a database ({0}): export it again with `nsys export --type sqlite`")]
    Database(String),
}

/// A problem and its place, without the file's name.
#[derive(Debug)]
pub(crate) struct Fault {
    pub place: Option<Place>,
    pub problem: Problem,
}

impl Fault {
    /// A problem at a place.
    pub fn at(place: Place, problem: Problem) -> Fault {
        Fault {
            place: Some(place),
            problem,
        }
    }

    /// Adds the file's name.
    pub fn in_file(self, path: impl Into<PathBuf>) -> TraceError {
        TraceError {
            path: path.into(),
            place: self.place,
            problem: self.problem,
        }
    }
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Fault {
        Fault { place: None, problem }
    }
}

/// Why a trace file is refused. Displays as one line; poolbench exits with 3.
#[derive(Debug)]
pub struct TraceError {
    path: PathBuf,
    place: Option<Place>,
    problem: Problem,
}

impl TraceError {
    /// The file.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Where in the file, if it is one place.
    pub fn place(&self) -> Option<Place> {
        self.place
    }

    /// What is wrong.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// What is wrong, without the file's name.
    pub fn into_problem(self) -> Problem {
        self.problem
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A path may hold a line feed; the message may not.
        write!(f, "{}: ", one_line(&self.path.to_string_lossy()))?;
        if let Some(place) = self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&one_line(&self.problem.to_string()))
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// The text with control characters escaped.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

/// Bytes of a file as a short quoted text for a message.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 40;
    let shown = bytes.get(..SHOWN_BYTES).unwrap_or(bytes);
    let dots = if bytes.len() > shown.len() { "..." } else { "" };
    format!("`{}{dots}`", shown.escape_ascii())
}

/// The message of a library, which may quote the file at length.
pub(crate) fn brief(message: &impl fmt::Display) -> String {
    const SHOWN_CHARS: usize = 120;
    let message = one_line(&message.to_string());
    match message.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}...", &message[..end]),
        None => message,
    }
}
