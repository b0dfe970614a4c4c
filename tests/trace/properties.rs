//! What is written is read back, in every format.

use poolbench::trace::{self, Limits, Trace, write_rmm_csv};
use proptest::prelude::*;

use super::support::{
    ALL, CsvLayout, Keeps, csv, entries, expected, gzip, nsys_sqlite, pickle, profiler_json, read, steps, steps_of,
    trace,
};

/// What [`Trace`] promises of its indices.
fn check_invariants(trace: &Trace) {
    for (index, event) in trace.events().iter().enumerate() {
        assert!((event.thread as usize) < trace.threads().len());
        if let Some(block) = trace.allocation(event) {
            let index = index as u32;
            assert!(index == block.alloc_event || index == block.free_event);
        }
    }
    for block in trace.allocations() {
        assert!(block.live_at_end() || block.alloc_event < block.free_event);
    }
    assert!(trace.events().is_sorted_by_key(|event| event.time_ns));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn csv_logs_in_every_layout(steps in steps(60)) {
        for layout in CsvLayout::ALL {
            let read = trace(csv(&steps, layout));
            check_invariants(&read);
            prop_assert_eq!(steps_of(&read), expected(&steps, layout.keeps()));
        }
    }

    #[test]
    fn our_own_csv(steps in steps(60)) {
        let first = trace(csv(&steps, CsvLayout::PrintfNil));
        let mut written = Vec::new();
        write_rmm_csv(&first, &mut written).expect("writing to memory does not fail");
        let second = trace(&written);
        prop_assert_eq!(second.events(), first.events());
        prop_assert_eq!(second.allocations(), first.allocations());
        prop_assert_eq!(second.streams(), first.streams());
        prop_assert_eq!(trace(gzip(&written)), second);
    }

    #[test]
    fn snapshots(steps in steps(60)) {
        let read = trace(pickle(&[entries(&steps)]));
        check_invariants(&read);
        prop_assert_eq!(steps_of(&read), expected(&steps, Keeps { threads: false, ..ALL }));
    }

    #[test]
    fn snapshots_that_begin_late_lose_only_what_came_before(steps in steps(60), cut in 0usize..60) {
        let late = &steps[cut.min(steps.len() - 1)..];
        let allocs = late.iter().filter(|s| s.kind == trace::EventKind::Alloc).count();
        match read(pickle(&[entries(late)])) {
            Ok(read) => {
                check_invariants(&read);
                prop_assert_eq!(read.allocations().len(), allocs);
                prop_assert_eq!(read.events().len() as u64 + read.orphan_frees(), late.len() as u64);
            }
            // Orphans alone are no trace.
            Err(_) => prop_assert_eq!(allocs, 0),
        }
    }

    #[test]
    fn profiler_traces(steps in steps(60)) {
        let read = trace(profiler_json(&steps));
        check_invariants(&read);
        prop_assert_eq!(steps_of(&read), expected(&steps, Keeps { streams: false, ..ALL }));
    }

    #[test]
    fn arbitrary_bytes_are_refused_in_one_line(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        start in prop::sample::select(vec![
            &b""[..], b"\x80\x04", b"\x1f\x8b\x08\0", b"{\"traceEvents\":[", b"SQLite format 3\0",
            b"Thread,Time,Action,Pointer,Size,Stream\n", b"Event Type,Address,Size (bytes)\n",
        ]),
    ) {
        if let Err(error) = read([start, &bytes].concat()) {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }
}

proptest! {
    // Each case writes a database.
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn nsys_exports(steps in steps(40)) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("report.sqlite");
        nsys_sqlite(&path, &steps).expect("a fixture");
        let read = trace::read_with(&path, &Limits::default()).expect("it was written above");
        check_invariants(&read);
        prop_assert_eq!(steps_of(&read), expected(&steps, ALL));
    }
}
