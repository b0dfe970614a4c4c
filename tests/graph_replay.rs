//! The scratch loop replayed as a graph, on whichever device is there: right results, one submission a
//! loop, graph memory that neither grows nor stays, and faults caught.

mod common;

use common::graph::{MIB, allocating, graph_mib, run, start};
use poolbench::case::{Size, Submission, Threshold};
use poolbench::cuda::{self, Device, DevicePtr, MemoryPool, Stream, Unfreed};
use poolbench::driver::{Function, log};
use poolbench::measure::{self, Failure, Observation};
use poolbench::strategy::{self, Setup, Strategy, StrategyKind};
use poolbench::workload::GraphReplay;

fn case(strategy: &'static StrategyKind, submission: Submission, size: Size, iterations: u64) -> GraphReplay {
    GraphReplay {
        group: "test",
        strategy,
        submission,
        size,
        release_threshold_bytes: Threshold::Max.bytes(size),
        iterations,
    }
}

fn replay(device: &Device, case: &GraphReplay, loops: u64) -> Result<Observation, Failure> {
    let mut workload = measure::prepare(case, device)?;
    workload.run(loops)?;
    let observation = workload.check()?;
    workload.close()?;
    Ok(observation)
}

const CAPTURABLE: [&str; 3] = ["hoisted", "stream_ordered", "owned_pool"];

#[test]
fn a_replayed_loop_gives_the_exact_result_at_every_length() {
    let (guarded, _) = start();
    for name in CAPTURABLE {
        let strategy = strategy::named(name).expect("a strategy");
        for length in [1, 3, 4, 1000, 1003, 300_001] {
            for submission in Submission::ALL {
                let case = case(strategy, submission, Size::bytes(length * 4), 7);
                replay(&guarded.device, &case, 3)
                    .unwrap_or_else(|failure| panic!("{name},{submission} of {length}: {failure}"));
            }
        }
    }
}

#[test]
fn a_replayed_loop_leaves_nothing_behind() {
    let (guarded, _) = start();
    let device = &guarded.device;
    // The first load of the kernels keeps some of a GPU's memory.
    replay(
        device,
        &case(strategy::HOISTED, Submission::GraphReplay, Size::kib(4), 5),
        1,
    )
    .expect("the case runs");
    let before = device.memory_info().expect("readable").free_bytes;
    for name in CAPTURABLE {
        let strategy = strategy::named(name).expect("a strategy");
        let case = case(strategy, Submission::GraphReplay, Size::mib(33), 2);
        let observation = replay(device, &case, 3).expect("the case runs");
        let graph = observation.graph.expect("a graph was replayed");
        // Each iteration allocates where the last one freed: 33 MiB are two units. Two kernels an
        // iteration, and two memory nodes where the strategy allocates.
        let (nodes, mib) = if name == "hoisted" { (4, 0) } else { (8, 64) };
        assert_eq!((graph.nodes, graph.reserved_bytes), (nodes, mib << 20), "{name}");
        assert_eq!(graph.reserved_after_trim_bytes, 0, "{name}");
        assert!(graph.first_launch_ns > 0 && graph.steady_launch_ns > 0 && graph.instantiate_ns > 0);
        if let Some(pool) = observation.reserved {
            assert_eq!(
                (pool.after_synchronize_bytes, pool.high_bytes),
                (0, 0),
                "{name}: the pool's"
            );
        }
        assert_eq!(graph_mib(device), 0, "{name}");
    }
    let after = device.memory_info().expect("readable").free_bytes;
    // A GPU's driver keeps what loading a module took; on the host device every byte comes back.
    let kept = before.saturating_sub(after);
    assert!(
        kept <= if device.is_host() { 0 } else { 4 << 20 },
        "{kept} bytes are missing"
    );
}

#[test]
fn a_replayed_loop_is_one_submission() {
    let (guarded, _) = start();
    let calls_of = |submission| {
        let case = case(strategy::STREAM_ORDERED, submission, Size::kib(4), 100);
        let mut workload = measure::prepare(&case, &guarded.device).expect("the case runs");
        log::start();
        let ran = workload.run(2);
        let summaries = log::stop();
        ran.expect("the case runs");
        workload.close().expect("closes");
        let counted = [
            Function::cuGraphLaunch,
            Function::cuLaunchKernel,
            Function::cuMemAllocAsync,
        ];
        counted.map(|function| {
            let of_function = summaries.iter().filter(|summary| summary.function == function);
            of_function.map(|summary| summary.calls).sum::<usize>()
        })
    };
    // Two loops of 100 iterations, each of an allocation and two kernels.
    assert_eq!(calls_of(Submission::Eager), [0, 400, 200]);
    assert_eq!(calls_of(Submission::GraphReplay), [2, 0, 0]);
}

#[test]
fn a_strategy_that_capture_refuses_is_a_skip_with_the_code() {
    let (guarded, _) = start();
    let sync = strategy::named("sync").expect("a strategy");
    let refused = case(sync, Submission::GraphReplay, Size::kib(4), 5);
    let failure = replay(&guarded.device, &refused, 1).expect_err("cuMemAlloc cannot be captured");
    assert!(failure.is_skip());
    assert_eq!(
        failure.to_string(),
        "the loop cannot be captured: cuMemAlloc_v2 failed: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)"
    );
    // Nothing is left of it: the next case is measured.
    replay(
        &guarded.device,
        &case(strategy::HOISTED, Submission::GraphReplay, Size::kib(4), 5),
        1,
    )
    .expect("the case runs");
}

// Planted faults.

/// Frees nothing in the loop, and everything at the end.
struct Leaky(Vec<DevicePtr>);

impl Strategy for Leaky {
    fn alloc(&mut self, stream: &Stream, size_bytes: usize) -> cuda::Result<DevicePtr> {
        MemoryPool::alloc_from_current(stream, size_bytes)
    }
    fn free(&mut self, _: &Stream, block: DevicePtr) -> cuda::Result<()> {
        self.0.push(block);
        Ok(())
    }
    fn close(self: Box<Self>) -> cuda::Result<()> {
        let stream = Stream::new()?;
        self.0.iter().try_for_each(|block| MemoryPool::free(&stream, *block))?;
        stream.synchronize()
    }
}

static LEAKY: StrategyKind = StrategyKind {
    name: "leaky",
    has_work: true,
    build: |_: &Setup<'_>| Ok(Box::new(Leaky(Vec::new()))),
};

#[test]
fn graph_memory_that_grows_is_caught() {
    let (guarded, stream) = start();
    let device = &guarded.device;
    let grows = case(strategy::STREAM_ORDERED, Submission::GraphReplay, Size::mib(1), 5);
    let mut workload = measure::prepare(&grows, device).expect("the case runs");
    // Stands for a launch that leaks: 64 MiB more that graphs hold.
    let exec = allocating(&stream, &[64 * MIB])
        .instantiate(Unfreed::MustBeFreed)
        .expect("can be made executable");
    workload.run(1).expect("as it was prepared");
    run(&exec, &stream);
    let failure = workload
        .run(1)
        .expect_err("more graph memory than after the first launch");
    assert!(
        matches!(failure, Failure::GraphMemory { first, after } if first == 32 << 20 && after > first),
        "{failure}"
    );
    assert!(!failure.is_skip());
    workload.close().expect("closes");
}

#[test]
fn a_loop_that_leaves_its_allocations_is_a_failure() {
    let (guarded, _) = start();
    let failure = replay(
        &guarded.device,
        &case(&LEAKY, Submission::GraphReplay, Size::kib(4), 2),
        1,
    )
    .expect_err("the second launch finds the first one's allocations");
    assert!(
        failure
            .to_string()
            .starts_with("cuGraphLaunch failed: CUDA_ERROR_INVALID_VALUE (1)"),
        "{failure}"
    );
    assert!(!failure.is_skip());
}
