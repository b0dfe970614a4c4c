//! Replaying traces: the compiled program, the engine on the device, and whole sessions.

#[path = "../common/mod.rs"]
mod common;

mod engine;
mod plans;
mod program;
mod report;
mod sessions;

use poolbench::trace::{Limits, Trace, read_bytes};

/// A trace from rows `thread,action,pointer,size,stream`, a millisecond apart.
fn trace(rows: &[&str]) -> Trace {
    let mut log = String::from("Thread,Time,Action,Pointer,Size,Stream\n");
    for (index, row) in rows.iter().enumerate() {
        let (thread, rest) = row.split_once(',').expect("a thread");
        log.push_str(&format!("{thread},10:00:00.{:06},{rest}\n", index * 1000));
    }
    match read_bytes(log.as_bytes(), "rows", &Limits::default()) {
        Ok(trace) => trace,
        Err(error) => panic!("{error}"),
    }
}
