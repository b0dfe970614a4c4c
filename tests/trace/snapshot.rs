//! PyTorch memory snapshots.

use poolbench::trace::{EventKind, WarningKind};

use super::support::{Entry, gzip, pickle, steps_of, trace, warnings};

/// The opcodes of protocols 0 to 5 for one alloc and its free, written by CPython 3.11's `pickle.dumps`.
#[test]
fn every_protocol_reads_the_same() {
    let plain = trace(pickle(&[vec![
        Entry::new("alloc", 0x7f00_0000_0000, 488, 1_700_000_000_000_000),
        Entry::new("free_requested", 0x7f00_0000_0000, 488, 1_700_000_000_000_007),
    ]]));
    assert_eq!(plain.events().len(), 2);
    assert_eq!(plain.events()[1].time_ns, 7_000);
    for protocol in PROTOCOLS {
        assert_eq!(trace(protocol), plain);
        assert_eq!(trace(gzip(protocol)), plain);
    }
}

include!("snapshot_protocols.rs");

#[test]
fn frees_count_when_requested() {
    // The block waits for another stream: its free completes after the next allocation.
    let trace = trace(pickle(&[vec![
        Entry::new("alloc", 16, 8, 1),
        Entry::new("free_requested", 16, 8, 2),
        Entry::new("alloc", 32, 8, 3),
        Entry::new("free_completed", 16, 8, 4),
        Entry::new("segment_alloc", 0, 1 << 20, 5),
        Entry::new("snapshot", 0, 0, 6),
        Entry::new("oom", 0, 1 << 40, 7),
        Entry::new("workspace_snapshot", 0, 0, 8),
    ]]));
    let kinds: Vec<EventKind> = trace.events().iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Alloc, EventKind::Free, EventKind::Alloc]);
    assert_eq!(
        warnings(&trace),
        [
            (WarningKind::NoThreads, 1),
            (WarningKind::OutOfMemory, 1),
            (WarningKind::UnknownAction, 1)
        ]
    );
}

#[test]
fn devices_are_merged_by_time_and_can_be_taken_apart() {
    // Both devices use the same addresses.
    let device = |offset: u64| {
        vec![
            Entry::new("alloc", 16, 8 + offset as i64, 10 + offset),
            Entry::new("free_requested", 16, 8 + offset as i64, 20 + offset),
        ]
    };
    let both = trace(pickle(&[device(0), device(5)]));
    assert_eq!(both.devices(), [(0, 0), (0, 1)]);
    let order: Vec<(u64, u32)> = both
        .events()
        .iter()
        .map(|event| (event.time_ns, both.streams()[event.stream as usize].device))
        .collect();
    assert_eq!(order, [(0, 0), (5_000, 1), (10_000, 0), (15_000, 1)]);

    let second = both.on_device(0, 1);
    let kinds: Vec<_> = second.events().iter().map(|e| (e.kind, e.allocation)).collect();
    assert_eq!(kinds, [(EventKind::Alloc, 0), (EventKind::Free, 0)]);
    assert_eq!(second.allocations().len(), 1);
    assert_eq!(second.allocations()[0].size_bytes, 13);
    assert_eq!(second.allocations()[0].free_event, 1);
}

#[test]
fn entries_without_times_keep_their_order() {
    let mut entries = vec![
        Entry::new("alloc", 16, 8, 0),
        Entry::new("free_requested", 16, 8, 0),
        Entry::new("alloc", 16, 9, 0),
    ];
    for entry in &mut entries {
        entry.time_us = None;
    }
    let trace = trace(pickle(&[entries]));
    assert!(!trace.times_known());
    let sizes: Vec<u64> = steps_of(&trace).iter().map(|step| step.size_bytes).collect();
    assert_eq!(sizes, [8, 8, 9]);
    assert_eq!(
        warnings(&trace),
        [(WarningKind::NoThreads, 1), (WarningKind::NoTimes, 1)]
    );
    assert_eq!(trace.summary().duration_ns, None);
}

#[test]
fn an_unrecorded_free_is_put_before_the_next_allocation() {
    let trace = trace(pickle(&[vec![
        Entry::new("alloc", 16, 8, 1),
        Entry::new("alloc", 16, 9, 2),
        Entry::new("free_requested", 16, 9, 3),
    ]]));
    let steps: Vec<_> = trace.events().iter().map(|e| (e.kind, e.allocation)).collect();
    use EventKind::{Alloc, Free};
    assert_eq!(steps, [(Alloc, 0), (Free, 0), (Alloc, 1), (Free, 1)]);
    assert_eq!(trace.warnings()[1].kind, WarningKind::MissedFree);
    assert_eq!(trace.peak_live_bytes(), 9);
}

/// Thirty lists, each holding the one before twice, under a key that is passed over: 2^30 lists if walked.
#[test]
fn shared_frames_are_not_walked() {
    let mut nested = b"\x80\x04]q\x00".to_vec();
    for id in 1..30u8 {
        nested.extend([b'0', b']', b'(', b'h', id - 1, b'h', id - 1, b'e', b'q', id]);
    }
    nested.extend(b"0}(\x8c\x08segmentsh\x1d\x8c\x0ddevice_traces]]}(");
    nested.extend(b"\x8c\x06framesh\x1d\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x10\x8c\x04sizeK\x08uaau.");
    assert_eq!(trace(nested).events().len(), 1);
}

/// Two entries whose frames are one object, with strings in it: what `serde-pickle` calls recursive by default.
#[test]
fn shared_frames_with_strings_read() {
    let mut bytes = b"\x80\x04}\x8c\x0ddevice_traces](](".to_vec();
    for (address, frames) in [
        (b'\x10', &b"]}(\x8c\x04nameq\x01\x8c\x01fq\x02uaq\x03"[..]),
        (b'\x20', b"h\x03"),
        (b'\x30', b"h\x03"),
    ] {
        bytes.extend(b"}(\x8c\x06frames");
        bytes.extend(frames);
        bytes.extend(b"\x8c\x06action\x8c\x05alloc\x8c\x04addrK");
        bytes.push(address);
        bytes.extend(b"\x8c\x04sizeK\x08u");
    }
    bytes.extend(b"ees.");
    assert_eq!(trace(bytes).events().len(), 3);
}
