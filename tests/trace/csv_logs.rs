//! RMM's CSV logs.

use poolbench::trace::{EventKind, Format, Place, Stream, WarningKind};

use super::support::{gzip, message, trace, warnings};

const HEADER: &str = "Thread,Time,Action,Pointer,Size,Stream\n";

fn log(rows: &str) -> String {
    format!("{HEADER}{rows}")
}

#[test]
fn a_row_becomes_an_event() {
    let trace = trace(log("24740,16:33:00.198861,allocate,0x7f613be00000,720984,0x2\n\
                           24741,16:33:00.198999,free,0x7f613be00000,720984,0\n"));
    assert_eq!(trace.format(), Format::RmmCsv);
    assert_eq!(trace.threads(), [24_740, 24_741]);
    let stream = |id| Stream {
        process: 0,
        device: 0,
        id,
    };
    assert_eq!(trace.streams(), [stream(2), stream(0)]);
    let [alloc, free] = trace.events() else {
        panic!("{:?}", trace.events());
    };
    assert_eq!((alloc.kind, alloc.time_ns), (EventKind::Alloc, 0));
    assert_eq!((free.kind, free.time_ns), (EventKind::Free, 138_000));
    assert_eq!((free.allocation, free.thread, free.stream), (0, 1, 1));
    assert_eq!(trace.allocations()[0].size_bytes, 720_984);
    assert_eq!(trace.allocations()[0].free_event, 1);
}

#[test]
fn gzip_byte_order_mark_and_crlf_change_nothing() {
    let text = log("1,16:33:00.1,allocate,0x10,8,0\n1,16:33:00.2,free,0x10,8,0\n");
    let plain = trace(&text);
    assert_eq!(trace(gzip(text.as_bytes())), plain);
    assert_eq!(trace(format!("\u{feff}{text}")), plain);
    assert_eq!(trace(text.replace('\n', "\r\n")), plain);
    assert_eq!(trace(text.replace('\n', "\n\n")), plain);
    // Two gzip members, as `cat a.gz b.gz` leaves them.
    let (first, second) = text.split_at(60);
    let members = [gzip(first.as_bytes()), gzip(second.as_bytes())].concat();
    assert_eq!(trace(members), plain);
}

#[test]
fn columns_are_found_by_name() {
    let reordered = "Stream,Size,Note,Pointer,Action,Time,Thread\n0x3,8,a,0x10,allocate,16:33:00.1,7\n";
    let trace = trace(reordered);
    assert_eq!(trace.threads(), [7]);
    assert_eq!(trace.streams()[0].id, 3);
    assert_eq!(trace.allocations()[0].size_bytes, 8);
}

#[test]
fn columns_that_may_be_missing_are_noted() {
    let trace = trace("Action,Pointer,Size\nallocate,0x10,8\nfree,0x10,8\n");
    assert_eq!(trace.events().len(), 2);
    assert!(!trace.times_known());
    assert_eq!(
        warnings(&trace),
        [
            (WarningKind::NoThreads, 1),
            (WarningKind::NoStreams, 1),
            (WarningKind::NoTimes, 1)
        ]
    );
}

#[test]
fn midnight_is_passed_once() {
    let trace = trace(log("1,23:59:59.999999,allocate,0x10,8,0\n\
                           2,00:00:00.000001,allocate,0x20,8,0\n\
                           1,23:59:59.999998,free,0x10,8,0\n\
                           2,00:00:00.000003,free,0x20,8,0\n"));
    let times: Vec<u64> = trace.events().iter().map(|event| event.time_ns).collect();
    // The third row is 3 us late, and is put at the time of the second.
    assert_eq!(times, [0, 2_000, 2_000, 4_000]);
    assert_eq!(
        warnings(&trace),
        [(WarningKind::Midnight, 1), (WarningKind::TimeStep, 1)]
    );
    assert_eq!(trace.warnings()[1].first, Some(Place::Row(4)));
}

/// The end of summer time, a clock that is corrected, and a thread that waits 2 s for the logger's lock.
#[test]
fn a_clock_that_is_set_back_is_counted() {
    let trace = trace(log("1,02:59:59.900000,allocate,0x10,8,0\n\
                           1,02:00:00.100000,free,0x10,8,0\n\
                           2,02:59:59.500000,allocate,0x20,8,0\n\
                           2,03:00:00.000000,free,0x20,8,0\n"));
    let times: Vec<u64> = trace.events().iter().map(|event| event.time_ns).collect();
    assert_eq!(times, [0, 0, 0, 100_000_000]);
    assert_eq!(
        warnings(&trace),
        [(WarningKind::TimeFall, 1), (WarningKind::TimeStep, 1)]
    );
    assert_eq!(trace.warnings()[0].first, Some(Place::Row(3)));
}

/// As a spreadsheet saves it.
#[test]
fn quoted_fields_are_read() {
    let text = log("1,16:33:00.1,allocate,0x10,8,0\n1,16:33:00.2,free,0x10,8,0\n");
    let quoted: Vec<String> = text
        .lines()
        .map(|line| format!("\"{}\"\n", line.replace(',', "\",\"")))
        .collect();
    assert_eq!(trace(quoted.concat()), trace(&text));
}

#[test]
fn the_event_log_frees_without_sizes_and_moves_blocks() {
    let header =
        "Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total Memory,Current Allocs,Start,End,Elapsed\n";
    let rows = "Alloc,1,0x10,0,100,0,0,1,41.7014,41.7016,0.0002\n\
                Realloc,1,0x10,0,200,0,0,1,41.7015,41.7016,0.0001\n\
                Free,1,0x10,0,0,0,0,0,41.7016,41.7016,1e-05\n";
    let trace = trace(format!("{header}{rows}"));
    assert_eq!(trace.format(), Format::RmmEventLog);
    let sizes: Vec<u64> = trace.allocations().iter().map(|b| b.size_bytes).collect();
    assert_eq!(sizes, [100, 200]);
    assert_eq!(trace.events().len(), 4);
    assert_eq!(trace.events()[3].time_ns, 200_000);
    assert_eq!(trace.devices(), [(0, 1)]);
    assert_eq!(warnings(&trace), [(WarningKind::NoThreads, 1)]);
    // To another address, the row does not say which block moved.
    let moved = rows.replace("Realloc,1,0x10", "Realloc,1,0x30");
    assert_eq!(
        message(format!("{header}{moved}")),
        "t: row 3: moves 0x30 without saying from where (Realloc): record with RMM 0.13 or later"
    );
}

#[test]
fn a_crash_loses_the_tail_of_the_log() {
    let text = log("1,16:33:00.1,allocate,0x10,8,0\n1,16:33:00.2,allocate,0x20,4096,0\n");
    // Cut in the second row, from its thread to its size.
    for cut in text.len() - 32..text.len() - 2 {
        let trace = trace(&text[..cut]);
        assert_eq!(trace.events().len(), 1, "{cut}");
        assert_eq!(warnings(&trace), [(WarningKind::CutRow, 1)], "{cut}");
        assert_eq!(trace.warnings()[0].first, Some(Place::Row(3)));
    }
    let trace = trace(&text[..text.len() - 1]);
    assert_eq!(trace.events().len(), 2);
    assert_eq!(warnings(&trace), [(WarningKind::NoFinalLineFeed, 1)]);
}

/// A cut number may still be a number, so that the row is only refused by what it asks for.
#[test]
fn a_cut_row_changes_nothing() {
    let start = "Event Type,Device ID,Address,Stream,Size (bytes),Start\nAlloc,0,0x10,0,8,41.5\n";
    for (row, what) in [
        ("Free,0,0x10,0,0,4", "time falls by 37.5 s"),
        ("Alloc,0,0x20,0,64,4", "time falls by 37.5 s"),
        ("Realloc,0,0x10,0,64,4", "time falls by 37.5 s"),
        ("Realloc,0,0x10,0,144115188075855872,41.5", "2^57 bytes"),
        ("Free,0,0x1", "no such block, and too few fields"),
    ] {
        let trace = trace(format!("{start}{row}"));
        assert_eq!(
            warnings(&trace),
            [(WarningKind::NoThreads, 1), (WarningKind::CutRow, 1)],
            "{what}"
        );
        assert_eq!(trace.events().len(), 1, "{what}");
        assert!(trace.allocations()[0].live_at_end(), "{what}");
        let summary = trace.summary();
        assert_eq!(
            (summary.live_at_end.blocks, summary.live_at_end.bytes),
            (1, 8),
            "{what}"
        );
    }
}

#[test]
fn sizes_of_frees_and_of_nothing() {
    let trace = trace(log("1,16:33:00.1,allocate,0x10,8,0\n\
                           1,16:33:00.2,free,0x10,16,0\n\
                           1,16:33:00.3,allocate,0x20,0,0\n\
                           1,16:33:00.4,free,0x0,16,0\n"));
    assert_eq!(trace.allocations()[0].size_bytes, 8);
    assert_eq!(
        warnings(&trace),
        [
            (WarningKind::SizeMismatch, 1),
            (WarningKind::ZeroSize, 1),
            (WarningKind::NullPointer, 1)
        ]
    );
}
