//! What every fuzz target checks: here of a trace reader, in [`comparison`] of a comparison's inputs.

pub mod comparison;

use comparison::{harmless, is_ascii_json, one_line};
use poolbench::replay::{CompileOptions, Program, Reuse, Synchronise};
use poolbench::report::ascii_json;
use poolbench::strategy::Plan;
use poolbench::trace::{self, Limits, Trace, TraceError};
use std::time::Duration;

/// Devices whose part is compiled: each costs a pass over the whole trace.
const DEVICES_MAX: usize = 2;

/// Limits small enough for a fuzzer.
pub fn limits() -> Limits {
    Limits {
        events: 1 << 16,
        snapshot_bytes: 1 << 20,
        ..Limits::default()
    }
}

/// A trace keeps its promises, can be summed up, written and compiled; an error is one line.
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
            let summary = trace.summary();
            harmless(&trace::text(&summary));
            is_ascii_json(&serde_json::to_string_pretty(&summary).map(|json| ascii_json(&json)));
            check_written(&trace);
            for (process, device) in trace.devices().into_iter().take(DEVICES_MAX) {
                let part = trace.on_device(process, device);
                check_compiled(&part, Synchronise::AsTraced, 1.0);
                check_compiled(&part, Synchronise::AtGaps(Duration::from_micros(500)), 1e-3);
            }
            check_compiled(&trace.with_streams(3), Synchronise::Every(2), 1.5);
        }
        Err(error) => {
            let line = error.to_string();
            assert!(!line.contains(['\n', '\r']) && line.len() < 1_000, "{line}");
            one_line(&error);
        }
    }
}

/// What is written as a CSV log has the same blocks, where it can be read: a gap of half a day cannot.
fn check_written(trace: &Trace) {
    let mut log = Vec::new();
    trace::write_rmm_csv(trace, &mut log).expect("room in memory");
    if let Ok(again) = trace::read_bytes(&log, "again", &limits()) {
        let sizes_bytes =
            |trace: &Trace| -> Vec<u64> { trace.allocations().iter().map(|block| block.size_bytes).collect() };
        assert_eq!(sizes_bytes(&again), sizes_bytes(trace));
        assert_eq!(again.peak_live_bytes(), trace.peak_live_bytes());
    }
}

/// A trace becomes a program with a place for every block, or an error of one line.
fn check_compiled(trace: &Trace, synchronise: Synchronise, scale: f64) {
    let options = CompileOptions {
        scale,
        synchronise,
        reuse: Reuse::Host,
    };
    match Program::compile(trace, &options) {
        Ok(program) => {
            let planned_bytes: u64 = program.plans().iter().map(Plan::planned_bytes).sum();
            assert!(planned_bytes >= program.peak_live_bytes());
            let freed = program.counts().frees + program.leaked().len() as u64;
            assert_eq!(freed, program.counts().allocations);
        }
        Err(error) => one_line(&error),
    }
}

/// Reads bytes behind a start that names the format.
pub fn read_behind(start: &[u8], data: &[u8]) {
    let bytes = [start, data].concat();
    check(trace::read_bytes(&bytes, "fuzz", &limits()));
}
