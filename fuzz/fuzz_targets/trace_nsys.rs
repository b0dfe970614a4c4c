//! Nsight Systems exports: a database file behind its magic, on disk.

#![no_main]

use libfuzzer_sys::fuzz_target;
use poolbench::trace;
use poolbench_fuzz::comparison::{folder, put};
use std::fs;

const MAGIC: &[u8] = b"SQLite format 3\0";

fuzz_target!(|data: &[u8]| {
    let path = put("export/export.sqlite", &[MAGIC, data].concat());
    poolbench_fuzz::check(trace::read_with(&path, &poolbench_fuzz::limits()));
    let left = fs::read_dir(folder().join("export"))
        .expect("the folder is there")
        .count();
    assert_eq!(left, 1, "reading leaves nothing beside the file");
});
