//! Opens an Nsight Systems export: nothing is written beside it, and no query outlasts its bytes.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::error::{Fault, Problem};
use super::nsys_rows::database;

/// A row takes at least a 2-byte pointer and a 4-byte cell in its page.
const ROW_BYTES_MIN: u64 = 6;

/// Steps of SQLite's virtual machine between two looks at the budget.
const STEPS_PER_LOOK: i32 = 10_000;

/// Steps that any file may take; past them, so many a byte. The densest table that can be read takes fewer than 3.
const STEPS_ALWAYS_ALLOWED: u64 = 1_000_000;
const STEPS_PER_BYTE: u64 = 16;

/// An export that is open for reading.
pub(crate) struct ExportFile {
    pub connection: Connection,
    /// The most rows that its bytes can hold. More of them would come from pages that are used many times.
    pub rows_max: u64,
}

/// Opens a database that no one writes.
///
/// `immutable` keeps SQLite from making files of its own beside it, which it does for reading in WAL mode too, and
/// from looking for changes there; so where there are some, the file is refused.
pub(crate) fn open(path: &Path) -> Result<ExportFile, Fault> {
    // Such changes stand beside the file that a link leads to.
    let path = fs::canonicalize(path).map_err(Problem::Io)?;
    for suffix in ["-wal", "-journal"] {
        let mut beside = path.clone().into_os_string();
        beside.push(suffix);
        if fs::metadata(&beside).is_ok_and(|metadata| metadata.len() > 0) {
            return Err(Fault::from(Problem::WrongContainer {
                what: "a database with unfinished changes in a -wal or -journal file beside it",
                remedy: "close the program that writes it, or export it again with `nsys export --type sqlite`",
            }));
        }
    }
    let file_bytes = fs::metadata(&path).map_err(Problem::Io)?.len();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let mut connection = Connection::open_with_flags(immutable_uri(&path), flags).map_err(database)?;
    bound_steps(&mut connection, file_bytes).map_err(database)?;
    // A schema can hold expressions and views; none of those of a stranger's file are to run.
    connection
        .execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;")
        .map_err(database)?;
    Ok(ExportFile {
        connection,
        rows_max: file_bytes / ROW_BYTES_MIN,
    })
}

/// Interrupts what takes more steps than the file's rows can.
///
/// SQLite follows page numbers wherever they lead: twenty pages that each name the next one sixty times stand for
/// more rows than anyone waits for.
fn bound_steps(connection: &mut Connection, file_bytes: u64) -> rusqlite::Result<()> {
    let mut steps_left = file_bytes
        .saturating_mul(STEPS_PER_BYTE)
        .saturating_add(STEPS_ALWAYS_ALLOWED);
    let is_spent = move || {
        steps_left = steps_left.saturating_sub(u64::from(STEPS_PER_LOOK.unsigned_abs()));
        steps_left == 0
    };
    connection.progress_handler(STEPS_PER_LOOK, Some(is_spent))
}

fn immutable_uri(path: &Path) -> String {
    let mut uri = "file://".to_owned();
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => uri.push(char::from(byte)),
            // Writing to a String does not fail.
            _ => write!(uri, "%{byte:02X}").unwrap_or_default(),
        }
    }
    uri + "?immutable=1"
}
