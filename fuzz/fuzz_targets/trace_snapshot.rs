//! PyTorch memory snapshots: the opcodes behind the protocol.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| poolbench_fuzz::read_behind(b"\x80\x04", data));
