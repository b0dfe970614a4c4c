//! PyTorch profiler traces: what follows the bracket of the events.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| poolbench_fuzz::read_behind(b"{\"traceEvents\":[", data));
