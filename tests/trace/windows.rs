//! Traces that begin after the program did, or that see a part of it: what they say of the rest.

use poolbench::trace::{LiveBefore, WarningKind, text};
use serde::Serialize;

use super::support::{Entry, pickle, trace, warnings};

#[derive(Serialize)]
struct Block {
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<u64>,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    requested_size: Option<u64>,
    state: &'static str,
}

#[derive(Serialize)]
struct Segment {
    device: u32,
    address: u64,
    blocks: Vec<Block>,
}

#[derive(Serialize)]
struct Snapshot {
    segments: Vec<Segment>,
    device_traces: Vec<Vec<Entry>>,
}

fn block(address: u64, size: u64, requested: u64, state: &'static str) -> Block {
    Block {
        address: Some(address),
        size,
        requested_size: Some(requested),
        state,
    }
}

fn snapshot(segments: Vec<Segment>, entries: Vec<Entry>) -> Vec<u8> {
    let snapshot = Snapshot {
        segments,
        device_traces: vec![entries],
    };
    serde_pickle::to_vec(&snapshot, serde_pickle::SerOptions::new()).expect("plain data can be pickled")
}

#[test]
fn what_was_live_before_a_snapshots_window_is_counted() {
    let entries = vec![
        Entry::new("alloc", 0x1000, 1_000, 1),
        // Allocated before, freed within: 3 GiB.
        Entry::new("free_requested", 0x9000, 3 << 30, 2),
        Entry::new("free_completed", 0x9000, 3 << 30, 2),
    ];
    let blocks = vec![
        // Live all the time: 1 GiB less 100 bytes were asked for.
        block(0x4000, 1 << 30, (1 << 30) - 100, "active_allocated"),
        block(0x4000_4000, 512, 512, "inactive"),
        // That of the trace.
        block(0x1000, 1_024, 1_000, "active_allocated"),
        // Freed within the trace, and taken again by something that was not recorded.
        block(0x9000, 512, 512, "active_allocated"),
    ];
    let segment = Segment {
        device: 0,
        address: 0x4000,
        blocks,
    };
    let trace = trace(snapshot(vec![segment], entries));
    let expected = LiveBefore {
        blocks: 2,
        bytes: (4 << 30) - 100,
    };
    assert_eq!(trace.live_before(), expected);
    assert_eq!((trace.orphan_frees(), trace.peak_live_bytes()), (1, 1_000));
    let summary = trace.summary();
    assert_eq!(summary.live_before, expected);
    let text = text(&summary);
    assert!(
        text.contains("live before the trace  4.00 GiB (4,294,967,196) in 2 blocks; the peak leaves it out\n"),
        "{text}"
    );
}

/// Before PyTorch 2.1 blocks had no address: each begins where the one before it ends.
#[test]
fn blocks_without_an_address_lie_side_by_side() {
    let nameless = |size, state| Block {
        address: None,
        size,
        requested_size: None,
        state,
    };
    let segment = Segment {
        device: 0,
        address: 0x1000,
        blocks: vec![
            nameless(0x200, "active_allocated"),
            nameless(0x400, "inactive"),
            nameless(0x800, "active_pending_free"),
        ],
    };
    // The trace's block is the first.
    let trace = trace(snapshot(vec![segment], vec![Entry::new("alloc", 0x1000, 0x200, 1)]));
    let expected = LiveBefore {
        blocks: 1,
        bytes: 0x800,
    };
    assert_eq!(trace.live_before(), expected);
}

/// References to one segment could stand for more blocks than anyone can count.
#[test]
fn shared_segments_are_bounded() {
    let mut bytes = b"\x80\x04}(\x8c\x08segments](}(\x8c\x06deviceK\x00\x8c\x07addressK\x01\x8c\x06blocks](".to_vec();
    bytes.extend(b"}q\x01\x8c\x04sizeK\x01s");
    bytes.extend(b"h\x01".repeat(300));
    bytes.extend(b"euq\x02");
    bytes.extend(b"h\x02".repeat(300));
    bytes.extend(b"e\x8c\x0ddevice_traces]]}(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x10\x8c\x04sizeK\x08uaau.");
    let message = super::support::message(bytes);
    assert!(message.contains("more blocks than its bytes can hold"), "{message}");
}

/// `_record_memory_history(skip_actions=["free_requested"])` leaves the end of a free as the only sign of it.
#[test]
fn a_completed_free_without_its_request_ends_the_block() {
    let trace = trace(pickle(&[vec![
        Entry::new("free_completed", 0x9000, 8, 0),
        Entry::new("alloc", 0x1000, 500, 1),
        Entry::new("alloc", 0x2000, 1_024, 5),
        Entry::new("free_completed", 0x1000, 500, 10),
        Entry::new("alloc", 0x1000, 400, 11),
        Entry::new("free_completed", 0x2000, 1_024, 12),
        // With its request, the end adds nothing.
        Entry::new("alloc", 0x3000, 8, 13),
        Entry::new("free_requested", 0x3000, 8, 14),
        Entry::new("free_completed", 0x3000, 8, 15),
    ]]));
    let summary = trace.summary();
    assert_eq!((summary.allocations, summary.frees, summary.orphan_frees), (4, 3, 0));
    assert_eq!((summary.live_at_end.blocks, summary.live_at_end.bytes), (1, 400));
    assert_eq!(warnings(&trace), [(WarningKind::NoThreads, 1)]);
}

/// What is freed twice was allocated in between, by a thread that is not recorded: no double free, and not live
/// before the trace either.
#[test]
fn a_second_free_is_an_orphan_where_allocations_may_be_unrecorded() {
    let free = |time_us| Entry::new("free_requested", 16, 8, time_us);
    let after = trace(pickle(&[vec![Entry::new("alloc", 16, 8, 1), free(2), free(3)]]));
    assert_eq!((after.events().len(), after.orphan_frees()), (2, 1));
    assert_eq!(after.live_before(), LiveBefore::default());
    assert_eq!(
        warnings(&after),
        [(WarningKind::NoThreads, 1), (WarningKind::OrphanFree, 1)]
    );
    // The first of two is of a block from before.
    let before = trace(pickle(&[vec![
        free(1),
        free(2),
        Entry::new("alloc", 16, 9, 3),
        free(4),
    ]]));
    assert_eq!((before.events().len(), before.orphan_frees()), (2, 2));
    assert_eq!(before.live_before(), LiveBefore { blocks: 1, bytes: 8 });
}

#[test]
fn what_was_live_before_belongs_to_its_device() {
    let device = |size| {
        vec![
            Entry::new("free_requested", 0x9000, size, 1),
            Entry::new("alloc", 0x1000, 8, 2),
        ]
    };
    let both = trace(pickle(&[device(100), device(200)]));
    assert_eq!((both.live_before().blocks, both.live_before().bytes), (2, 300));
    let second = both.on_device(0, 1).live_before();
    assert_eq!((second.blocks, second.bytes), (1, 200));
}

#[test]
fn frees_alone_say_what_is_missing() {
    let free = Entry::new("free_requested", 0x9000, 8, 1);
    assert_eq!(
        super::support::message(pickle(&[vec![free]])),
        "t: has no allocation, and only frees of blocks whose allocation was not recorded: record while the program \
         allocates, without skip_actions"
    );
}
