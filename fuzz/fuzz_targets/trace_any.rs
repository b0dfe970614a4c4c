//! Any bytes as a file.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| poolbench_fuzz::read_behind(b"", data));
