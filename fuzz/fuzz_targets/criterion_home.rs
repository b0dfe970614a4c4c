//! A Criterion home: three lines are the files of one benchmark's baseline.

#![no_main]

use libfuzzer_sys::fuzz_target;
use poolbench_fuzz::comparison::{check_named, folder, put};
use std::fs;

const FILES: [&str; 3] = ["sample.json", "estimates.json", "benchmark.json"];
const BENCHMARKS_MAX: usize = 4;

fuzz_target!(|data: &[u8]| {
    let home = folder().join("home");
    // Nothing of the input before.
    let _ = fs::remove_dir_all(&home);
    let lines: Vec<&[u8]> = data.split(|&byte| byte == b'\n').collect();
    for (benchmark, files) in lines.chunks(FILES.len()).take(BENCHMARKS_MAX).enumerate() {
        for (name, line) in FILES.iter().zip(files).filter(|(_, line)| !line.is_empty()) {
            put(format!("home/g/f{benchmark}/n/{name}"), line);
        }
    }
    check_named(&format!("{}@n", home.display()));
});
