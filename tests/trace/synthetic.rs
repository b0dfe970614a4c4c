//! The statistics that the generator documents.

use poolbench::trace::{EventKind, Synthetic, Trace, Workload, write_rmm_csv};

use super::support;

const EVENTS: u32 = 20_000;
const SEEDS: [u64; 3] = [1, 2, 3];

fn traces(workload: Workload) -> impl Iterator<Item = Trace> {
    SEEDS
        .into_iter()
        .map(move |seed| Synthetic::new(workload, seed, EVENTS).generate())
}

fn sizes(trace: &Trace) -> Vec<u64> {
    trace.allocations().iter().map(|b| b.size_bytes).collect()
}

#[test]
fn a_seed_gives_one_trace() {
    for workload in Workload::ALL {
        let one = Synthetic::new(workload, 7, 5_000);
        assert_eq!(one.generate(), one.generate());
        let other = Synthetic::new(workload, 8, 5_000);
        assert_ne!(one.generate(), other.generate(), "{}", workload.name());
    }
}

#[test]
fn every_trace_is_whole() {
    for workload in Workload::ALL {
        for streams in [0, 1, 4] {
            let mut synthetic = Synthetic::new(workload, 1, EVENTS);
            synthetic.streams = streams;
            let trace = synthetic.generate();
            let summary = trace.summary();
            let name = workload.name();
            let extra = 1_200 * u64::from(streams.max(1));
            assert!(
                (20_000..=20_000 + extra).contains(&summary.events),
                "{name}: {}",
                summary.events
            );
            assert_eq!(summary.live_at_end.blocks, 0, "{name}");
            assert_eq!(summary.cross_stream_frees, 0, "{name}");
            assert_eq!(trace.streams().len(), streams.max(1) as usize, "{name}");
            assert!(summary.syncs > 0, "{name}");
            assert!(trace.events().is_sorted_by_key(|event| event.time_ns));
            // It reads back from a log, waits aside.
            let mut csv = Vec::new();
            write_rmm_csv(&trace, &mut csv).expect("writing to memory does not fail");
            let read = support::trace(csv);
            assert_eq!(read.events().len() as u64, summary.events - summary.syncs, "{name}");
            assert_eq!(sizes(&read), sizes(&trace), "{name}");
        }
    }
}

#[test]
fn an_empty_target_still_generates() {
    for workload in Workload::ALL {
        let trace = Synthetic::new(workload, 1, 0).generate();
        assert_eq!(trace.summary().live_at_end.blocks, 0);
    }
}

#[test]
fn streams_overlap() {
    let mut synthetic = Synthetic::new(Workload::GrowingRequest, 1, EVENTS);
    synthetic.streams = 2;
    let trace = synthetic.generate();
    // Blocks of both streams are live at once in most of the trace.
    let mut live = [0u32; 2];
    let mut both = 0;
    for event in trace.events() {
        match event.kind {
            EventKind::Alloc => live[event.stream as usize] += 1,
            EventKind::Free => live[event.stream as usize] -= 1,
            EventKind::Sync => {}
        }
        both += usize::from(live.iter().all(|&blocks| blocks > 0));
    }
    assert!(both * 2 > trace.events().len(), "{both}");
}

#[test]
fn training_step() {
    for trace in traces(Workload::TrainingStep) {
        let summary = trace.summary();
        assert!(sizes(&trace).iter().all(|size| size % 512 == 0));
        assert!(sizes(&trace).iter().all(|size| (512..=32 << 20).contains(size)));
        assert_eq!(summary.threads.len(), 2);
        let cross = summary.cross_thread_frees as f64 / summary.frees as f64;
        assert!((0.2..0.34).contains(&cross), "{cross}");
        let lifetimes = summary.lifetimes.events.expect("all blocks are freed");
        assert!(lifetimes.median <= 4, "{lifetimes:?}");
        assert!(lifetimes.p90 > 40, "{lifetimes:?}");
    }
}

#[test]
fn inference() {
    for trace in traces(Workload::Inference) {
        let summary = trace.summary();
        assert_eq!(summary.distinct_sizes, 37);
        assert_eq!(sizes(&trace).iter().min(), Some(&1));
        assert_eq!(sizes(&trace).iter().max(), Some(&12_000_000));
        assert_eq!((summary.peak.blocks, summary.threads.len()), (4, 1));
        let order = sizes(&trace);
        assert!(order.chunks(37).all(|request| request == &order[..37]));
    }
}

#[test]
fn growing_request() {
    let trace = Synthetic::new(Workload::GrowingRequest, 1, EVENTS).generate();
    let sizes = sizes(&trace);
    let requests: Vec<u64> = sizes.chunks(16).map(|request| request[0]).collect();
    assert!(
        sizes
            .chunks(16)
            .all(|request| request.iter().all(|&size| size == request[0]))
    );
    assert_eq!(requests[0], 1 << 20);
    for pair in requests.windows(2).take(399) {
        let ratio = pair[1] as f64 / pair[0] as f64;
        assert!((1.0099..1.0101).contains(&ratio), "{ratio}");
    }
    assert_eq!(requests[400], 1 << 20);
    assert_eq!(trace.summary().peak.blocks, 16);
}

#[test]
fn many_tiny() {
    for trace in traces(Workload::ManyTiny) {
        let summary = trace.summary();
        assert!(sizes(&trace).iter().all(|size| (1..=4096).contains(size)));
        assert_eq!(summary.peak.blocks, 1_000);
        // Log-uniform: each power of two from 1 to 2048 holds a twelfth, about 8.3 %. Rounded-down sizes keep
        // their power. 10,000 blocks: 3 standard deviations are 0.8 %.
        for bucket in &summary.sizes {
            let share = bucket.blocks as f64 / summary.allocations as f64;
            assert!((0.073..0.093).contains(&share), "{bucket:?}");
        }
    }
}

#[test]
fn survivors() {
    for trace in traces(Workload::Survivors) {
        let large = |size: u64| size >= 32 << 20;
        let blocks = trace.allocations();
        let n_large = blocks.iter().filter(|block| large(block.size_bytes)).count();
        assert_eq!(n_large * 9, blocks.len());
        for block in blocks {
            let size = block.size_bytes;
            assert!((16 << 10..=1 << 20).contains(&size) || (32 << 20..=128 << 20).contains(&size));
        }
        // Eight large at once, the newest with its eight small ones.
        assert_eq!(trace.summary().peak.blocks, 16);
        assert!(trace.peak_live_bytes() >= 8 * (32 << 20));
    }
}

#[test]
fn streams_can_be_spread_and_collapsed() {
    let one = Synthetic::new(Workload::Inference, 1, 2_000).generate();
    let spread = one.with_streams(3);
    let summary = spread.summary();
    assert_eq!(summary.streams.len(), 3);
    assert_eq!(summary.cross_stream_frees, 0);
    let allocations: Vec<u64> = summary.streams.iter().map(|s| s.allocations).collect();
    assert!(allocations.iter().max() <= allocations.iter().min().map(|n| n + 1).as_ref());
    assert_eq!(spread.allocations(), one.allocations());
    assert_eq!(spread.with_streams(1).streams().len(), 1);
}
