//! A baseline's launches, with a manifest of the ids in the first.

#![no_main]

use libfuzzer_sys::fuzz_target;
use poolbench_fuzz::comparison::{check_baseline, manifest_of};
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let first = data.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let first: Value = serde_json::from_slice(first).unwrap_or_default();
    let ids = first["samples"]
        .as_object()
        .map(|samples| samples.keys().cloned().collect());
    let manifest = manifest_of(ids.unwrap_or_else(|| vec![String::from("g/f/v")]));
    check_baseline(manifest.to_string().as_bytes(), data);
});
