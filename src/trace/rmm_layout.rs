//! The columns of RMM's CSV logs since 2018, and how to read their fields.

use csv::ByteRecord;

use super::error::{Place, Problem, quoted};

/// Which logger wrote the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logger {
    /// The C API's `csv_log()`, to 0.14: `Event Type,Device ID,Address,Stream,Size (bytes),...,Start,...`.
    EventLog,
    /// `logging_resource_adaptor`, from 0.13: `Thread,Time,Action,Pointer,Size,Stream`; 0.14.0 has no Thread.
    Adaptor,
}

/// Where each column stands. Columns are found by name, so unknown ones do no harm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub logger: Logger,
    pub columns: usize,
    pub action: usize,
    pub pointer: usize,
    pub size: usize,
    pub stream: Option<usize>,
    pub thread: Option<usize>,
    pub time: Option<usize>,
    pub device: Option<usize>,
}

/// Says which column is missing of a header that is otherwise RMM's.
fn missing(what: &'static str) -> Problem {
    let remedy = match what {
        "column Pointer" => "frees cannot be matched with allocations; record with RMM 0.13 or later",
        _ => "give the whole file, with the header that RMM wrote",
    };
    Problem::Missing { what, remedy }
}

impl Layout {
    /// Reads a header.
    pub fn of(header: &ByteRecord) -> Result<Layout, Problem> {
        let column = |name: &str| {
            header
                .iter()
                .position(|field| field.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
        };
        let columns = header.len();
        if let Some(action) = column("Event Type") {
            return Ok(Layout {
                logger: Logger::EventLog,
                columns,
                action,
                pointer: column("Address").ok_or(missing("column Address"))?,
                size: column("Size (bytes)").ok_or(missing("column Size (bytes)"))?,
                stream: column("Stream"),
                thread: None,
                time: column("Start"),
                device: column("Device ID"),
            });
        }
        let Some(action) = column("Action") else {
            return Err(if header.iter().any(|field| action_of(field).is_some()) {
                missing("header line (Thread,Time,Action,Pointer,Size,Stream)")
            } else {
                missing("column Action")
            });
        };
        Ok(Layout {
            logger: Logger::Adaptor,
            columns,
            action,
            pointer: column("Pointer").ok_or(missing("column Pointer"))?,
            size: column("Size").ok_or(missing("column Size"))?,
            stream: column("Stream"),
            thread: column("Thread"),
            time: column("Time"),
            device: None,
        })
    }
}

/// What a row records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Allocate,
    Free,
    AllocateFailure,
    Realloc,
}

/// The action by its name, in any of the loggers' spellings.
pub(crate) fn action_of(name: &[u8]) -> Option<Action> {
    match name {
        b"allocate" | b"Alloc" => Some(Action::Allocate),
        b"free" | b"Free" => Some(Action::Free),
        b"allocate failure" => Some(Action::AllocateFailure),
        b"Realloc" => Some(Action::Realloc),
        _ => None,
    }
}

/// The names that [`action_of`] knows.
pub(crate) const ACTIONS: &str = "allocate, free, allocate failure (or Alloc, Free, Realloc in logs to 2020)";

/// A field that is not what its column holds.
pub(crate) fn invalid(field: &'static str, text: &[u8], expected: &'static str) -> Problem {
    Problem::Invalid {
        field,
        text: quoted(text),
        expected,
    }
}

/// Reads decimal digits.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 16 {
        return None;
    }
    text.iter().try_fold(0u64, |value, &byte| {
        let digit = char::from(byte).to_digit(16)?;
        Some(value << 4 | u64::from(digit))
    })
}

fn without_0x(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X"))
}

/// Reads a pointer: hexadecimal, with or without `0x`, or `(nil)`, as C's `%p` prints null.
pub(crate) fn pointer(text: &[u8]) -> Option<u64> {
    if text == b"(nil)" {
        return Some(0);
    }
    hexadecimal(without_0x(text).unwrap_or(text))
}

/// Reads a stream: hexadecimal after `0x`, else decimal, since loggers have written both.
///
/// RMM's own replay reads all of them as decimal, and so every `0x...` as 0.
pub(crate) fn stream(text: &[u8]) -> Option<u64> {
    match without_0x(text) {
        Some(digits) => hexadecimal(digits),
        None if text == b"(nil)" => Some(0),
        None => decimal(text),
    }
}

/// Reads a size, and says what is wrong with it.
pub(crate) fn size(text: &[u8]) -> Result<u64, Problem> {
    decimal(text).ok_or_else(|| {
        let digits = text.strip_prefix(b"-").unwrap_or(text);
        let expected = if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            "a number of bytes"
        } else if digits.len() < text.len() {
            "a size: it is negative"
        } else {
            "a size: it is 2^64 or more"
        };
        invalid("size", text, expected)
    })
}

/// The field of a column that the layout may lack.
pub(crate) fn optional<T>(
    record: &ByteRecord,
    column: Option<usize>,
    absent: T,
    read: impl Fn(&[u8]) -> Option<T>,
    field: &'static str,
    expected: &'static str,
) -> Result<T, Problem> {
    match column {
        None => Ok(absent),
        Some(column) => {
            let text = record.get(column).unwrap_or_default();
            read(text).ok_or_else(|| invalid(field, text, expected))
        }
    }
}

/// The row's place in the file.
pub(crate) fn row_of(record: &ByteRecord) -> Place {
    Place::Row(record.position().map_or(0, csv::Position::line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_and_streams_in_every_spelling() {
        assert_eq!(pointer(b"0x7f613be00000"), Some(0x7f61_3be0_0000));
        assert_eq!(pointer(b"7f613be00000"), Some(0x7f61_3be0_0000));
        assert_eq!(pointer(b"(nil)"), Some(0));
        assert_eq!(pointer(b"0x0"), Some(0));
        assert_eq!(pointer(b"0xffffffffffffffff"), Some(u64::MAX));
        for text in [&b""[..], b"0x", b"0x10000000000000000", b"nil", b"-1", b"0x1g"] {
            assert_eq!(pointer(text), None, "{}", text.escape_ascii());
        }
        assert_eq!(stream(b"0x2"), Some(2));
        assert_eq!(stream(b"0x7f8a38001020"), Some(0x7f8a_3800_1020));
        assert_eq!(stream(b"140239161790496"), Some(140_239_161_790_496));
        assert_eq!(stream(b"(nil)"), Some(0));
        assert_eq!(stream(b"7f"), None);
    }

    #[test]
    fn sizes_say_what_is_wrong() {
        assert_eq!(size(b"18446744073709551615").ok(), Some(u64::MAX));
        for (text, expected) in [
            (&b"18446744073709551616"[..], "2^64"),
            (b"-1", "negative"),
            (b"1e6", "a number of bytes"),
            (b"", "a number of bytes"),
        ] {
            let message = size(text).err().map(|problem| problem.to_string());
            assert!(message.as_ref().is_some_and(|m| m.contains(expected)), "{message:?}");
        }
    }
}
