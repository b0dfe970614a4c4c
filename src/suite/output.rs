//! What a bench executable says beside Criterion, and what it does where nobody reads it.
//!
//! Criterion prints with `println!`, which panics where that cannot be written. Of a reader that went away, as
//! `head`, nothing is said; what else fails is one line. Nothing here may panic: a panic inside the hook aborts.

use crate::report::OneLine;
use std::any::Any;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What the standard library panics with where a line cannot be printed begins so.
const UNPRINTED: &str = "failed printing to ";

/// Whether a line that could not be printed was reported.
static SAID: AtomicBool = AtomicBool::new(false);

/// Says something in one line on standard error. Where that cannot be written, the exit code must do.
pub(super) fn say(message: impl Display) {
    let _ = writeln!(io::stderr(), "poolbench: {}", OneLine(&message.to_string()));
}

/// Says something as it stands on standard error, likewise.
pub(super) fn say_plainly(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Panics that reach the hook are Criterion's way to say what is wrong; a backtrace would hide the line that says
/// so.
pub(super) fn quiet_panics() {
    panic::set_hook(Box::new(|info| {
        let message = text(info.payload());
        if is_of_nobody(message) {
            return;
        }
        if let Some((stream, reason)) = message.strip_prefix(UNPRINTED).and_then(|rest| rest.split_once(": ")) {
            // What was begun is ended, and every line of that fails likewise.
            if !SAID.swap(true, Relaxed) {
                say(format_args!("cannot write to {}: {reason}", spoken(stream)));
            }
            return;
        }
        let place = info
            .location()
            .map(|location| format!(" ({}:{})", short(location.file()), location.line()));
        say(format_args!("{}{}", message.trim_end(), place.unwrap_or_default()));
    }));
}

/// Whether a panic means that nobody reads what is printed.
pub(super) fn nobody_listens(payload: &(dyn Any + Send)) -> bool {
    is_of_nobody(text(payload))
}

fn is_of_nobody(message: &str) -> bool {
    // The operating system's words, which Rust takes without a translation.
    message.starts_with(UNPRINTED) && message.contains("Broken pipe")
}

fn text(payload: &(dyn Any + Send)) -> &str {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or(payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("unknown failure")
}

fn spoken(stream: &str) -> &str {
    match stream {
        "stdout" => "standard output",
        "stderr" => "standard error",
        other => other,
    }
}

/// The end of a source path: enough to report, without the machine's folders.
fn short(file: &str) -> &str {
    let mut parts = file.rmatch_indices('/');
    parts.nth(1).map_or(file, |(index, _)| &file[index + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reader_that_went_away_is_nobody() {
        let of = |text: &str| nobody_listens(&String::from(text));
        assert!(of("failed printing to stdout: Broken pipe (os error 32)"));
        assert!(of("failed printing to stderr: Broken pipe (os error 32)"));
        assert!(!of("failed printing to stdout: No space left on device (os error 28)"));
        assert!(!of("Broken pipe"));
        assert!(!nobody_listens(&7));
    }
}
