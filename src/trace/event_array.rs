//! The events of a profiler trace, read one by one, around those that PyTorch wrote as broken JSON.
//!
//! Kineto does not escape what it writes into an event's name: quotes and line feeds of Python code, backslashes of
//! paths, control characters. It also writes `N/A` and `nan` where a number stands. The memory events beside such
//! an event are whole. What is left out is searched for their name, so none of them is lost unnoticed.

use std::io::Read;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::error::{Fault, Place, Problem, brief};
use super::input::uncarry;
use super::lookahead::Lookahead;

/// The name of memory events, as it stands in the file.
const MEMORY: &[u8] = b"[memory]";

/// The keys with which Kineto begins an event.
const FIRST_KEYS: [&[u8]; 2] = [b"\"ph\"", b"\"name\""];

/// The longest event that is read. They take less than 10 KiB, with the longest names and shapes too.
const EVENT_BYTES_MAX: usize = 16 << 20;

/// The most that is kept of what is passed over, and what is kept at least: an event's first brace and key with the
/// space around them.
const PASSED_BYTES_MAX: usize = 1 << 20;
const OVERLAP_BYTES: usize = 256;

/// How the file goes on behind the array of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Around {
    /// The file is the array.
    Nothing,
    /// An object holds the array.
    Object,
}

/// What was left out.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    pub events: u64,
    /// Where the first begins.
    pub first: Option<Place>,
    /// What the parser said of it.
    pub fault: Option<Fault>,
}

/// Reads an array of events behind its bracket, and the rest of the file. `each` gets nothing for an event that is
/// left out.
pub(crate) fn read<T: DeserializeOwned, R: Read>(
    next: &mut Lookahead<R>,
    around: Around,
    mut each: impl FnMut(Option<T>) -> Result<(), Fault>,
) -> Result<LeftOut, Fault> {
    let mut left_out = LeftOut::default();
    let mut is_whole = true;
    loop {
        let Some((gap, first)) = next_byte(next, 0, |byte| byte.is_ascii_whitespace() || byte == b',')? else {
            return Err(cut(next));
        };
        next.advance(gap);
        if first == b']' {
            next.advance(1);
            end(next, around)?;
            return Ok(left_out);
        }
        let fault = match whole_event(next, is_whole)? {
            Ok((event, length)) if is_followed(next, around, length, is_whole)? => {
                each(Some(event))?;
                next.advance(length);
                is_whole = true;
                continue;
            }
            Ok((_, length)) => {
                let what = "expected `,` or `]` behind an event".to_owned();
                Fault::at(next.position().plus(1, length), Problem::Malformed(what))
            }
            Err(fault) => fault,
        };
        is_whole = false;
        left_out.events += 1;
        left_out.first.get_or_insert(next.place());
        left_out.fault.get_or_insert(fault);
        each(None)?;
        if !pass_over(next, around)? {
            return Ok(left_out);
        }
    }
}

/// The file ends too early.
fn cut<R: Read>(next: &mut Lookahead<R>) -> Fault {
    next.advance(next.ahead().len());
    Fault::at(next.place_behind(), Problem::Cut)
}

/// What stopped the parser.
pub(crate) fn fault(place: Place, error: serde_json::Error) -> Fault {
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

/// The first byte from `from` on that is none of those passed over, and its place.
fn next_byte<R: Read>(
    next: &mut Lookahead<R>,
    mut from: usize,
    passed: impl Fn(u8) -> bool,
) -> Result<Option<(usize, u8)>, Fault> {
    loop {
        let ahead = next.ahead();
        match ahead.iter().skip(from).position(|&byte| !passed(byte)) {
            Some(at) => return Ok(Some((from + at, ahead[from + at]))),
            None => from = ahead.len(),
        }
        if !next.more()? {
            return Ok(None);
        }
    }
}

/// The event that stands ahead and its length, or why it cannot be read.
///
/// What is JSON and no event is refused, unless it stands in the text of a broken one.
fn whole_event<T: DeserializeOwned, R: Read>(
    next: &mut Lookahead<R>,
    must_be_event: bool,
) -> Result<Result<(T, usize), Fault>, Fault> {
    loop {
        let ahead = next.ahead();
        let mut events = serde_json::Deserializer::from_slice(ahead).into_iter::<T>();
        let error = match events.next() {
            Some(Ok(event)) => return Ok(Ok((event, events.byte_offset()))),
            Some(Err(error)) => error,
            None => return Ok(Err(cut(next))),
        };
        let may_go_on = ahead.len() < EVENT_BYTES_MAX && is_at_end(&error, ahead);
        if may_go_on && next.more()? {
            continue;
        }
        let is_data = error.is_data();
        let fault = fault(next.position().plus(error.line(), error.column()), error);
        return if is_data && must_be_event {
            Err(fault)
        } else {
            Ok(Err(fault))
        };
    }
}

/// Whether what stopped the parser may be that the bytes end. A number that ends in a point is an error of its own.
fn is_at_end(error: &serde_json::Error, bytes: &[u8]) -> bool {
    let lines = bytes.iter().filter(|&&byte| byte == b'\n').count();
    let last_line = bytes.iter().rev().take_while(|&&byte| byte != b'\n').count();
    error.is_eof() || (error.line() == lines + 1 && error.column() + 1 >= last_line)
}

/// Whether the array goes on or ends behind an event of this length. Behind a broken event, what reads as one may be
/// a part of its text, so the end must look like the file's.
fn is_followed<R: Read>(
    next: &mut Lookahead<R>,
    around: Around,
    length: usize,
    behind_whole: bool,
) -> Result<bool, Fault> {
    let space = |byte: u8| byte.is_ascii_whitespace();
    let bracket = match next_byte(next, length, space)? {
        Some((_, b',')) => return Ok(true),
        Some((_, b']')) if behind_whole => return Ok(true),
        Some((at, b']')) => at,
        // The file is cut, which the next look says.
        None => return Ok(true),
        _ => return Ok(false),
    };
    let behind = next_byte(next, bracket + 1, space)?;
    Ok(match (around, behind) {
        (_, None) => true,
        (Around::Object, Some((at, b'}'))) => next_byte(next, at + 1, space)?.is_none(),
        (Around::Object, Some((at, b','))) => matches!(next_byte(next, at + 1, space)?, Some((_, b'"'))),
        _ => false,
    })
}

/// Passes over the broken event ahead; whether another one follows.
fn pass_over<R: Read>(next: &mut Lookahead<R>, around: Around) -> Result<bool, Fault> {
    let place = next.place();
    let mut from = 1;
    loop {
        if let Some(at) = next_start(next.ahead(), from) {
            refuse_memory(&next.ahead()[..at], place)?;
            next.advance(at);
            return Ok(true);
        }
        let length = next.ahead().len();
        // The array's end is looked for in the last of what is kept.
        if length > PASSED_BYTES_MAX {
            refuse_memory(next.ahead(), place)?;
            next.advance(length - OVERLAP_BYTES);
        }
        from = next.ahead().len().saturating_sub(OVERLAP_BYTES).max(1);
        if !next.more()? {
            if !ends(next.ahead(), around) {
                return Err(cut(next));
            }
            refuse_memory(next.ahead(), place)?;
            return Ok(false);
        }
    }
}

fn refuse_memory(bytes: &[u8], place: Place) -> Result<(), Fault> {
    if bytes.windows(MEMORY.len()).any(|window| window == MEMORY) {
        return Err(Fault::at(place, Problem::BrokenMemoryEvent));
    }
    Ok(())
}

/// Where the next event starts: `}`, `,` and `{` with one of the first keys.
fn next_start(bytes: &[u8], from: usize) -> Option<usize> {
    let braces = bytes.iter().enumerate().skip(from).filter(|(_, byte)| **byte == b'{');
    braces.map(|(at, _)| at).find(|&at| {
        let inside = bytes[at + 1..].trim_ascii_start();
        let before = bytes[..at].trim_ascii_end();
        let is_first = |key: &&[u8]| {
            inside
                .strip_prefix(*key)
                .is_some_and(|behind| behind.trim_ascii_start().starts_with(b":"))
        };
        FIRST_KEYS.iter().any(is_first)
            && before
                .strip_suffix(b",")
                .is_some_and(|before| before.trim_ascii_end().ends_with(b"}"))
    })
}

/// Whether the bytes hold the end of a last event, of the array, and of the file.
fn ends(bytes: &[u8], around: Around) -> bool {
    // A bracket that is opened within the event does not end the array.
    let mut open = 0u64;
    bytes.iter().enumerate().any(|(at, &byte)| {
        if byte == b'[' {
            open += 1;
        }
        if byte != b']' {
            return false;
        }
        if open > 0 {
            open -= 1;
            return false;
        }
        let behind = bytes[at + 1..].trim_ascii();
        bytes[..at].trim_ascii_end().ends_with(b"}")
            && match around {
                Around::Nothing => behind.is_empty(),
                Around::Object => behind == b"}" || (behind.starts_with(b",") && behind.ends_with(b"}")),
            }
    })
}

/// What holds the array, once.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Object {
    #[serde(rename = "traceEvents")]
    _events: IgnoredAny,
}

/// Reads on behind the array, to the end of the file.
fn end<R: Read>(next: &mut Lookahead<R>, around: Around) -> Result<(), Fault> {
    if around == Around::Nothing {
        let Some((at, _)) = next_byte(next, 0, |byte| byte.is_ascii_whitespace())? else {
            return Ok(());
        };
        next.advance(at);
        let what = "trailing characters".to_owned();
        return Err(Fault::at(next.place(), Problem::Malformed(what)));
    }
    // The object, with something short in the place of what is read already.
    const BEGINNING: &[u8] = b"{\"traceEvents\":0";
    let start = next.position();
    let mut json = serde_json::Deserializer::from_reader(BEGINNING.chain(&mut *next));
    let rest = Object::deserialize(&mut json).and_then(|_| json.end());
    rest.map_err(|error| {
        let column = match error.line() {
            1 => error.column().saturating_sub(BEGINNING.len()),
            _ => error.column(),
        };
        fault(start.plus(error.line(), column), error)
    })
}
