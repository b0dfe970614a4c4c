//! Opens a trace, tells its format by content, and reads it within limits.

use std::io::{self, Cursor, Read};
use std::path::Path;

use super::error::{Fault, Problem, TraceError, quoted};
use super::input::{Gunzip, Without, uncarry};
use super::{Trace, nsys, rmm_csv, torch_profiler, torch_snapshot};
use crate::named_file;

/// How much a file may cost. The defaults refuse nothing that a profiler writes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest line of a CSV file, bytes.
    pub line_bytes: u64,
    /// Longest stretch of a JSON file without a quotation mark, bytes.
    pub text_bytes: u64,
    /// Largest snapshot after decompression, bytes. Snapshots are held in memory while they are read.
    pub snapshot_bytes: u64,
    /// Deepest nesting of a snapshot.
    pub nesting: u32,
    /// How many times its size a gzip file over 64 MiB may grow to.
    pub gzip_ratio: u64,
    /// Most events.
    pub events: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            line_bytes: 1 << 20,
            text_bytes: 16 << 20,
            snapshot_bytes: 4 << 30,
            nesting: 128,
            // Deflate cannot pass 1,032; a CSV log shrinks about tenfold.
            gzip_ratio: 500,
            // 24 bytes each: 12 GB.
            events: 500_000_000,
        }
    }
}

/// Reads a trace file, whatever its format.
///
/// # Errors
/// The file cannot be read, is of no known format, or holds what cannot be true: one line that names the place.
pub fn read(path: &Path) -> Result<Trace, TraceError> {
    read_with(path, &Limits::default())
}

/// [`read`], with other limits.
///
/// # Errors
/// As [`read`], and where a limit is passed.
pub fn read_with(path: &Path, limits: &Limits) -> Result<Trace, TraceError> {
    let open = || -> Result<Trace, Fault> {
        let (file, is_file) = named_file::open_or_pipe(path).map_err(Problem::Io)?;
        let length = file.metadata().map_err(Problem::Io)?.len();
        // What reads a database opens it again, which a pipe does not allow.
        read_stream(file, length, Some(path).filter(|_| is_file), limits)
    };
    open().map_err(|fault| fault.in_file(path))
}

/// Reads a trace from memory; `name` stands for the path in errors. SQLite exports need [`read`].
///
/// # Errors
/// As [`read_with`].
pub fn read_bytes(bytes: &[u8], name: &str, limits: &Limits) -> Result<Trace, TraceError> {
    read_stream(bytes, bytes.len() as u64, None, limits).map_err(|fault| fault.in_file(name))
}

/// Bytes at the start of a file from which its format is told.
const HEAD_BYTES: u64 = 4096;

/// Written before UTF-8 text by some editors.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

fn read_stream(mut input: impl Read, length: u64, path: Option<&Path>, limits: &Limits) -> Result<Trace, Fault> {
    let head = read_head(&mut input)?;
    let container = sniff(&head)?;
    let whole = Cursor::new(head).chain(input);
    match container {
        Container::Gzip => {
            let mut inflated = Gunzip::new(whole, length, limits.gzip_ratio);
            let head = read_head(&mut inflated)?;
            match sniff(&head)? {
                Container::Text(kind) => read_text(kind, Cursor::new(head).chain(inflated), limits),
                Container::Gzip => Err(Fault::from(wrong("gzip within gzip", "decompress it once"))),
                Container::Sqlite => Err(Fault::from(wrong(
                    "a gzip-compressed database",
                    "decompress it with gunzip first",
                ))),
            }
        }
        Container::Text(kind) => read_text(kind, whole, limits),
        Container::Sqlite => match path {
            Some(path) => nsys::read(path, limits),
            None => Err(Fault::from(wrong("a database", "read it from a file"))),
        },
    }
}

fn read_head(input: &mut impl Read) -> Result<Vec<u8>, Problem> {
    let mut head = Vec::new();
    match input.take(HEAD_BYTES).read_to_end(&mut head) {
        // Damage behind the first bytes is left to the reader, which meets it again and knows the format.
        Err(error) if head.is_empty() => Err(uncarry(error)),
        Ok(_) | Err(_) => {
            if head.starts_with(BYTE_ORDER_MARK) {
                head.drain(..BYTE_ORDER_MARK.len());
            }
            Ok(head)
        }
    }
}

fn read_text(kind: Text, input: impl Read, limits: &Limits) -> Result<Trace, Fault> {
    match kind {
        Text::Csv => rmm_csv::read(input, limits),
        Text::QuotedCsv => rmm_csv::read(Without::new(input, b'"'), limits),
        Text::Json => torch_profiler::read(input, limits),
        Text::Pickle => {
            let bytes = read_bounded(input, limits.snapshot_bytes)?;
            torch_snapshot::read(&bytes, limits)
        }
    }
}

fn read_bounded(input: impl Read, limit_bytes: u64) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    input.take(limit_bytes + 1).read_to_end(&mut bytes).map_err(uncarry)?;
    if bytes.len() as u64 > limit_bytes {
        return Err(Problem::TooLarge {
            limit_bytes,
            remedy: "record with a smaller max_entries, or with context=None",
        });
    }
    Ok(bytes)
}

/// What a file is at the outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    Gzip,
    Sqlite,
    Text(Text),
}

/// The formats that may be compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Csv,
    /// With every field in quotation marks, as spreadsheets save it.
    QuotedCsv,
    Json,
    Pickle,
}

fn wrong(what: &'static str, remedy: &'static str) -> Problem {
    Problem::WrongContainer { what, remedy }
}

/// Files that users are likely to hand over by mistake: magic bytes, what it is, what to do.
const MISTAKES: [(&[u8], &str, &str); 8] = [
    (b"\x28\xb5\x2f\xfd", "zstd-compressed", "decompress it first"),
    (b"\xfd7zXZ\0", "xz-compressed", "decompress it first"),
    (b"BZh", "bzip2-compressed", "decompress it first"),
    (
        b"PK\x03\x04",
        "a ZIP archive",
        "save the snapshot with torch.cuda.memory._dump_snapshot, not torch.save; unpack other archives",
    ),
    (b"\xff\xfe", "UTF-16 text", "save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text", "save it as UTF-8"),
    (
        b"NSYS",
        "an Nsight Systems report",
        "export it with `nsys export --type sqlite`",
    ),
    (
        b"\x89HDF",
        "an HDF5 file",
        "export the report with `nsys export --type sqlite`",
    ),
];

/// Tells the format from the first bytes.
fn sniff(head: &[u8]) -> Result<Container, Problem> {
    if head.is_empty() {
        return Err(Problem::Empty);
    }
    if head.starts_with(b"\x1f\x8b") {
        return Ok(Container::Gzip);
    }
    if head.starts_with(b"SQLite format 3\0") {
        return Ok(Container::Sqlite);
    }
    if let Some((_, what, remedy)) = MISTAKES.iter().find(|(magic, ..)| head.starts_with(magic)) {
        return Err(wrong(what, remedy));
    }
    if head.get(TAR_MAGIC_AT..).is_some_and(|head| head.starts_with(b"ustar")) {
        return Err(TAR);
    }
    let binary_pickle = matches!(head, [0x80, 0..=5, ..]);
    // Protocols 0 and 1 have no magic; a pickled dict or list begins like this.
    let text_pickle = [&b"(d"[..], b"(l", b"}q", b"]q", b"}.", b"]."]
        .iter()
        .any(|start| head.starts_with(start));
    if binary_pickle || text_pickle {
        return Ok(Container::Text(Text::Pickle));
    }
    let text = head.trim_ascii_start();
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or(text);
    if has_spdlog_prefix(line) {
        return Err(
            if line.windows(ACTION_COLUMN.len()).any(|window| window == ACTION_COLUMN) {
                wrong(
                    "an RMM log with a prefix of spdlog's",
                    "remove the brackets before its header",
                )
            } else {
                wrong(
                    "RMM's debug log, not its CSV log",
                    "record with rmm.reinitialize(logging=True) or a logging_resource_adaptor",
                )
            },
        );
    }
    if matches!(text.first(), Some(b'{' | b'[')) {
        return Ok(Container::Text(Text::Json));
    }
    sniff_log(line).unwrap_or_else(|| Err(Problem::UnknownFormat { found: quoted(head) }))
}

/// Where a tar archive says that it is one; what is before it is a file's name.
const TAR_MAGIC_AT: usize = 257;

const TAR: Problem = Problem::WrongContainer {
    what: "a tar archive",
    remedy: "unpack it",
};

const ACTION_COLUMN: &[u8] = b",Action,";

/// Whether a line begins as spdlog writes it, `[ 24740][16:33:00:198816][info  ]`, which no JSON does.
fn has_spdlog_prefix(line: &[u8]) -> bool {
    let Some((number, behind)) = line
        .strip_prefix(b"[")
        .and_then(|line| line.iter().position(|&byte| byte == b']').map(|at| line.split_at(at)))
    else {
        return false;
    };
    !number.is_empty()
        && number
            .iter()
            .all(|byte| byte.is_ascii_digit() || b" -:.".contains(byte))
        && behind[1..].trim_ascii_start().starts_with(b"[")
}

/// What a file is that begins with a line of an RMM log, if it does.
fn sniff_log(line: &[u8]) -> Option<Result<Container, Problem>> {
    if rmm_csv::looks_like_log(line) {
        // An archive without magic: its first file's name, padded, and then the log.
        return Some(if line.contains(&0) {
            Err(TAR)
        } else {
            Ok(Container::Text(Text::Csv))
        });
    }
    let with = |from: u8, to: &[u8]| -> bool {
        let replaced: Vec<u8> = line
            .iter()
            .flat_map(|byte| if *byte == from { to } else { std::slice::from_ref(byte) })
            .copied()
            .collect();
        rmm_csv::looks_like_log(&replaced)
    };
    if with(b'"', b"") {
        return Some(Ok(Container::Text(Text::QuotedCsv)));
    }
    let what = if with(b';', b",") {
        "an RMM log separated by semicolons"
    } else if with(b'\t', b",") {
        "an RMM log separated by tabs"
    } else {
        return None;
    };
    Some(Err(wrong(what, "separate its fields by commas, as RMM writes them")))
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::from(uncarry(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_content() {
        let pickle = Some(Container::Text(Text::Pickle));
        let json = Some(Container::Text(Text::Json));
        let csv = Some(Container::Text(Text::Csv));
        for (head, expected) in [
            (&b"\x1f\x8b\x08\x00"[..], Some(Container::Gzip)),
            (b"SQLite format 3\0\x10\x00", Some(Container::Sqlite)),
            (b"\x80\x04\x95", pickle),
            (b"(dp0\nS'segments'", pickle),
            (b"\n { \"traceEvents\": [", json),
            (b"[{\"ph\"", json),
            (b"Thread,Time,Action,Pointer,Size,Stream\n", csv),
            (b"Time,Action,Size,Stream\r\n", csv),
            (b"Event Type,Device ID,Address\n", csv),
            (
                b"\"Thread\",\"Action\",\"Pointer\"\n",
                Some(Container::Text(Text::QuotedCsv)),
            ),
            (b"[1]\n", json),
            (b"[[1],[2]]", json),
            (b"[ 24740][16:33:00:198816][info  ] -----", None),
            (b"a,b,c\n", None),
            (b"\x80\x06", None),
            (b"", None),
            (b"PK\x03\x04", None),
        ] {
            assert_eq!(sniff(head).ok(), expected, "{}", head.escape_ascii());
        }
    }
}
