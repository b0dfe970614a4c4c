//! A baseline's manifest, with launches of the ids that it names.

#![no_main]

use libfuzzer_sys::fuzz_target;
use poolbench_fuzz::comparison::{check_baseline, launches_of};

fuzz_target!(|data: &[u8]| check_baseline(data, &launches_of(data)));
