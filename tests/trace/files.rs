//! The real traces beside the project: what their README says of them.

use std::path::PathBuf;

use poolbench::trace::{self, EventKind, Format, Trace, WarningKind};

use super::support::{one_line, warnings};

/// The folder of real traces, or a visible note that the test did nothing.
fn traces(test: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/traces");
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped {test}: there is no {}", folder.display());
    None
}

fn read(path: PathBuf) -> Trace {
    match trace::read(&path) {
        Ok(trace) => trace,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn hta_training_step() {
    let Some(folder) = traces("hta_training_step") else {
        return;
    };
    let trace = read(folder.join("hta_v100_ddp_rank1.csv"));
    let summary = trace.summary();
    assert_eq!(summary.source, Format::RmmCsv);
    assert_eq!((summary.allocations, summary.frees), (13_385, 13_385));
    assert_eq!((summary.orphan_frees, summary.live_at_end.blocks), (0, 0));
    assert_eq!(summary.threads.len(), 2);
    assert_eq!(summary.cross_thread_frees, 1_580);
    assert_eq!(summary.peak.blocks, 725);
    assert_eq!(summary.peak.bytes, 2_532_893_696);
    assert!(trace.allocations().iter().all(|block| block.size_bytes % 512 == 0));
    let streams: Vec<u64> = trace.streams().iter().map(|stream| stream.id).collect();
    assert_eq!(streams, [0]);
    assert_eq!(trace.warnings(), []);
}

#[test]
fn fastpitch_csv_and_pickle_are_the_same_run() {
    let Some(folder) = traces("fastpitch_csv_and_pickle_are_the_same_run") else {
        return;
    };
    let csv = read(folder.join("torch_fastpitch_hifigan.csv"));
    let pickle = read(folder.join("torch_fastpitch_hifigan.pickle"));
    assert_eq!(csv.format(), Format::RmmCsv);
    assert_eq!(pickle.format(), Format::TorchSnapshot);
    for trace in [&csv, &pickle] {
        let summary = trace.summary();
        assert_eq!((summary.allocations, summary.frees), (330, 330));
        assert_eq!(summary.distinct_sizes, 37);
        let sizes = trace.allocations().iter().map(|block| block.size_bytes);
        assert_eq!(sizes.clone().min(), Some(1));
        // "12 MB".
        assert_eq!(sizes.max().map(|size| size / 1_000_000), Some(12));
    }
    assert_eq!(csv.events(), pickle.events());
    assert_eq!(csv.allocations(), pickle.allocations());
    assert_eq!(csv.streams(), pickle.streams());
    assert_eq!((csv.orphan_frees(), pickle.orphan_frees()), (0, 5));
    assert_eq!(pickle.devices(), [(0, 0)]);
    assert_eq!(csv.warnings(), []);
    assert_eq!(
        warnings(&pickle),
        [(WarningKind::NoThreads, 1), (WarningKind::OrphanFree, 5)]
    );
}

/// Layout by layout: events, then what is noticed; or what is missing.
#[test]
fn every_layout_reads_or_says_what_is_missing() {
    let Some(folder) = traces("every_layout_reads_or_says_what_is_missing") else {
        return;
    };
    let folder = folder.join("formats");
    let no_threads = (WarningKind::NoThreads, 1);
    for (file, allocs, frees, noticed) in [
        ("legacy_2018-2020_event_log_issue75_rows", 8, 0, vec![no_threads]),
        ("v2_0.14.0_no_thread", 1, 1, vec![no_threads]),
        ("v3_0.14.1-0.16_decimal_stream", 2, 2, vec![]),
        ("v4_0.17-0.19_hex_stream_colon_us", 1, 1, vec![]),
        (
            "v5_21.06-24.10_dot_us_alloc_failure",
            1,
            1,
            vec![(WarningKind::AllocationFailure, 1)],
        ),
        (
            "v6_24.12-26.06_printf_nil",
            1,
            1,
            vec![(WarningKind::AllocationFailure, 1), (WarningKind::NullPointer, 2)],
        ),
    ] {
        let trace = read(folder.join(format!("rmm_{file}.csv")));
        let count = |kind| trace.events().iter().filter(|e| e.kind == kind).count();
        assert_eq!(count(EventKind::Alloc), allocs, "{file}");
        assert_eq!(count(EventKind::Free), frees, "{file}");
        assert_eq!(warnings(&trace), noticed, "{file}");
    }
    let refused = trace::read(&folder.join("rmm_v1_2020-02_no_thread_no_pointer.csv"));
    let message = refused.err().map(|error| one_line(&error));
    assert!(
        message.as_ref().is_some_and(|m| m.contains(
            ": has no column Pointer: frees cannot be matched with allocations; record with RMM 0.13 or later"
        )),
        "{message:?}"
    );
    let read = std::fs::read_dir(folder).expect("it was read above").count();
    assert_eq!(read, 7, "a layout that this test does not know");
}
