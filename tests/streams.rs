//! Several streams: results, overlap, and which blocks cross from one to another.

mod common;

use poolbench::case::Size;
use poolbench::cuda::{CaptureMode, Device, DeviceBuffer, Graph, GraphExec, Kernels, ReusePolicy, Stream, Unfreed};
use poolbench::measure::{self, Case, Failure, Observation};
use poolbench::workload::{CrossStream, MultiStream, Policies, Source};
use std::time::Instant;

fn run(device: &Device, case: &dyn Case) -> Result<Observation, Failure> {
    let mut workload = measure::prepare(case, device)?;
    workload.run(2)?;
    let observation = workload.check()?;
    workload.close()?;
    Ok(observation)
}

#[test]
fn every_stream_gets_its_exact_result_from_every_source() {
    let guarded = common::device();
    for source in Source::ALL {
        for n_streams in [1, 2, 8] {
            let case = MultiStream {
                group: "test",
                source,
                n_streams,
                size: Size::kib(64),
                iterations: 20,
            };
            let seen =
                run(&guarded.device, &case).unwrap_or_else(|failure| panic!("{source:?} {n_streams}: {failure}"));
            // Each pool grows in steps of 32 MiB; a shared one holds all 64 KiB blocks in its first.
            let pools = match source {
                Source::Hoisted => 0,
                Source::SharedPool => 1,
                Source::OwnPools => n_streams as u64,
            };
            assert_eq!(
                seen.reserved.map_or(0, |reserved| reserved.high_bytes),
                pools * (32 << 20),
                "{source:?} {n_streams}"
            );
        }
    }
}

fn reuse(device: &Device, policies: Policies, with_event: bool) -> (u64, u64) {
    // Large enough that the first stream is still at work when the second asks.
    let case = CrossStream {
        group: "test",
        policies,
        with_event,
        size: Size::mib(32),
        iterations: 5,
    };
    let seen = run(device, &case).unwrap_or_else(|failure| panic!("{policies:?} {with_event}: {failure}"));
    let reuse = seen.reuse.expect("the case asks");
    // Two loops of five turns in each of two streams; a loop's first turn has none before it.
    assert_eq!(reuse.asked, 18);
    (reuse.reused, seen.reserved.expect("the case has a pool").high_bytes)
}

#[test]
fn a_block_crosses_streams_by_an_event_and_its_policy() {
    let guarded = common::device();
    let follow = Policies::Only(ReusePolicy::FollowEventDependencies);
    for policies in [follow, Policies::All] {
        let (reused, reserved) = reuse(&guarded.device, policies, true);
        assert_eq!(
            (reused, reserved),
            (18, 32 << 20),
            "{policies:?} with an event: the same block each time"
        );
    }
    let (reused, reserved) = reuse(&guarded.device, Policies::None, true);
    assert_eq!(reused, 0, "no policy, no reuse");
    assert!(reserved >= 64 << 20, "{reserved}");
    let (reused, _) = reuse(&guarded.device, follow, false);
    assert_eq!(reused, 0, "without an event there is nothing to follow");
}

/// Two streams, each with a graph of 200 small kernels in a row: together they take hardly longer than
/// one, so the device works on both at once. Submitting costs one call, so the host is not in the way.
#[test]
fn streams_overlap() {
    let guarded = common::device();
    let kernels = Kernels::load().expect("the kernels load");
    let length = Size::kib(4).elements();
    let mut lanes = Vec::new();
    for _ in 0..2 {
        let stream = Stream::new().expect("a stream");
        let buffers = [0; 3].map(|_| DeviceBuffer::uninitialized(length).expect("4 KiB"));
        let [input, scratch, output] = buffers.each_ref().map(DeviceBuffer::pointer);
        let graph = stream.capture(CaptureMode::ThreadLocal, || {
            for _ in 0..100 {
                kernels.fill(&stream, scratch, input, length, 1.0)?;
                kernels.accumulate(&stream, output, scratch, length)?;
            }
            Ok::<(), poolbench::cuda::Error>(())
        });
        let graph = graph.expect("kernels can be captured");
        let exec = graph.instantiate(Unfreed::MustBeFreed).expect("the graph instantiates");
        lanes.push((stream, exec, graph, buffers));
    }
    type Lane = (Stream, GraphExec, Graph, [DeviceBuffer; 3]);
    let time = |lanes: &[Lane]| {
        let mut times: Vec<f64> = (0..50)
            .map(|_| {
                let start = Instant::now();
                lanes
                    .iter()
                    .for_each(|(stream, exec, ..)| exec.launch(stream).expect("the graph launches"));
                lanes
                    .iter()
                    .for_each(|(stream, ..)| stream.synchronize().expect("the kernels run"));
                start.elapsed().as_secs_f64()
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (one, two) = (time(&lanes[..1]), time(&lanes));
    println!(
        "one stream {:.1} us, two streams {:.1} us: {:.2} times",
        one * 1e6,
        two * 1e6,
        two / one
    );
    if guarded.device.is_host() {
        println!("SKIPPED streams_overlap: whether two threads overlap is the processor's business");
        return;
    }
    // Without overlap two take twice as long as one.
    assert!(two < 1.5 * one, "{two} against {one}");
}
