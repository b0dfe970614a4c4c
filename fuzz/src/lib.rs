//! What every fuzz target checks: here of a trace reader, in [`comparison`] of a comparison's inputs.

pub mod comparison;

use poolbench::trace::{self, Limits, Trace, TraceError};

/// Limits small enough for a fuzzer.
pub fn limits() -> Limits {
    Limits {
        events: 1 << 16,
        snapshot_bytes: 1 << 20,
        ..Limits::default()
    }
}

/// A trace keeps its promises and can be summed up; an error is one line.
pub fn check(result: Result<Trace, TraceError>) {
    match result {
        Ok(trace) => {
            assert!(trace.events().is_sorted_by_key(|event| event.time_ns));
            for event in trace.events() {
                assert!((event.thread as usize) < trace.threads().len());
                if let Some(block) = trace.allocation(event) {
                    assert!(block.live_at_end() || block.alloc_event < block.free_event);
                }
            }
            assert!(!trace::text(&trace.summary()).is_empty());
        }
        Err(error) => {
            let line = error.to_string();
            assert!(!line.contains(['\n', '\r']) && line.len() < 1_000, "{line}");
        }
    }
}

/// Reads bytes behind a start that names the format.
pub fn read_behind(start: &[u8], data: &[u8]) {
    let bytes = [start, data].concat();
    check(trace::read_bytes(&bytes, "fuzz", &limits()));
}
