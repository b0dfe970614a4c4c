//! What `critcmp --export` writes, with and without the name asked for.

#![no_main]

use libfuzzer_sys::fuzz_target;
use poolbench_fuzz::comparison::{check_named, put};

fuzz_target!(|data: &[u8]| {
    let path = put("export.json", data).display().to_string();
    check_named(&path);
    check_named(&format!("{path}@n"));
});
