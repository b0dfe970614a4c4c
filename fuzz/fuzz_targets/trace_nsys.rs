//! Nsight Systems exports: a database file behind its magic, on disk.

#![no_main]

use libfuzzer_sys::fuzz_target;

use std::io::Write as _;

use poolbench::trace;

fuzz_target!(|data: &[u8]| {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(b"SQLite format 3\0")
        .and_then(|()| file.write_all(data))
        .expect("room for a small file");
    poolbench_fuzz::check(trace::read_with(file.path(), &poolbench_fuzz::limits()));
});
