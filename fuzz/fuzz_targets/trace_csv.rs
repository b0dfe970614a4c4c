//! RMM logs: the first byte chooses the header.

#![no_main]

use libfuzzer_sys::fuzz_target;

const HEADERS: [&[u8]; 4] = [
    b"Thread,Time,Action,Pointer,Size,Stream\n",
    b"Time,Action,Pointer,Size,Stream\n",
    b"Event Type,Device ID,Address,Stream,Size (bytes),Start\n",
    b"",
];

fuzz_target!(|data: &[u8]| {
    if let Some((&first, rows)) = data.split_first() {
        poolbench_fuzz::read_behind(HEADERS[usize::from(first) % HEADERS.len()], rows);
    }
});
