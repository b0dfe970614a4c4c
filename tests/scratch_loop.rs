//! The scratch loop under every strategy: right results, pools as they should be, and faults caught.

mod common;

use poolbench::case::{Size, Threshold};
use poolbench::cuda::{self, Device, DevicePtr, MemoryPool, Stream};
use poolbench::measure::{self, Failure, Observation, Workload};
use poolbench::strategy::{self, Setup, Strategy, StrategyKind};
use poolbench::workload::ScratchLoop;

fn case(strategy: &'static StrategyKind, size: Size, threshold: Threshold, iterations: u64) -> ScratchLoop {
    ScratchLoop {
        group: "test",
        function: strategy.name.to_owned(),
        strategy,
        size,
        size_seed: None,
        release_threshold_bytes: threshold.bytes(size),
        iterations,
    }
}

/// Runs a case to its end, as the suite does.
fn run(device: &Device, case: &ScratchLoop, loops: u64) -> Result<Observation, Failure> {
    let mut workload: Box<dyn Workload> = measure::prepare(case, device)?;
    workload.run(loops)?;
    let observation = workload.check()?;
    workload.close()?;
    Ok(observation)
}

/// The check compares with the exact result, so strategies that pass it agree to the last bit.
#[test]
fn every_strategy_gives_the_exact_result_at_every_length() {
    let guarded = common::device();
    // Elements: one, fewer than a group, whole groups, and each number left over.
    let lengths = [1, 3, 4, 1000, 1001, 1002, 1003, 300_001];
    for kind in strategy::ALL {
        for length in lengths {
            let case = case(kind, Size::bytes(length * 4), Threshold::Max, 7);
            match run(&guarded.device, &case, 3) {
                Err(failure) if failure.is_skip() => println!("SKIPPED {} of {length}: {failure}", kind.name),
                ran => assert!(ran.is_ok(), "{} of {length}: {ran:?}", kind.name),
            }
        }
    }
}

#[test]
fn reserved_bytes_after_a_synchronise_follow_the_threshold() {
    let guarded = common::device();
    // Half of 64 MiB is a whole granule of 32 MiB; half of 32 MiB is below one and acts like zero.
    let cases = [
        (Size::mib(1), Threshold::Zero, 0),
        (Size::mib(1), Threshold::Max, 32 << 20),
        (Size::mib(32), Threshold::Half, 0),
        (Size::mib(32), Threshold::Size, 32 << 20),
        (Size::mib(64), Threshold::Half, 32 << 20),
        (Size::mib(64), Threshold::Max, 64 << 20),
    ];
    for name in ["stream_ordered", "owned_pool"] {
        let kind = strategy::named(name).expect("a strategy");
        for (size, threshold, reserved) in cases {
            let seen = run(&guarded.device, &case(kind, size, threshold, 1), 2)
                .expect("the case runs")
                .reserved;
            let seen = seen.expect("the strategy has a pool");
            assert_eq!(seen.after_synchronize_bytes, reserved, "{name} {size} {threshold}");
        }
    }
}

#[test]
fn the_default_pool_is_left_as_it_was() {
    let guarded = common::device();
    let pool = MemoryPool::default_of(&guarded.device).expect("a default pool");
    pool.set_release_threshold_bytes(12345).expect("any value can be set");
    run(
        &guarded.device,
        &case(strategy::STREAM_ORDERED, Size::mib(40), Threshold::Max, 5),
        2,
    )
    .expect("the case runs");
    assert_eq!(pool.release_threshold_bytes().expect("readable"), 12345);
    assert_eq!(pool.reserved_bytes_current().expect("readable"), 0);
    pool.set_release_threshold_bytes(0).expect("any value can be set");
}

#[test]
fn nothing_is_left_behind() {
    let guarded = common::device();
    let before = guarded.device.memory_info().expect("readable").free_bytes;
    for kind in strategy::ALL {
        let ran = run(&guarded.device, &case(kind, Size::mib(8), Threshold::Max, 5), 2);
        assert!(
            ran.as_ref().map_or_else(Failure::is_skip, |_| true),
            "{}: {ran:?}",
            kind.name
        );
    }
    let after = guarded.device.memory_info().expect("readable").free_bytes;
    // A GPU's driver keeps what loading a module took; on the host device every byte comes back.
    let kept = before.saturating_sub(after);
    assert!(
        kept <= if guarded.device.is_host() { 0 } else { 4 << 20 },
        "{kept} bytes are missing"
    );
}

#[test]
fn a_size_beyond_the_device_is_a_skip_with_the_reason() {
    let guarded = common::device();
    for kind in [strategy::HOISTED, strategy::STREAM_ORDERED] {
        let failure =
            run(&guarded.device, &case(kind, Size::bytes(1 << 50), Threshold::Max, 1), 1).expect_err("a petabyte");
        assert!(failure.is_skip(), "{failure}");
        assert!(
            failure.to_string().contains("free") || failure.to_string().contains("more than"),
            "{failure}"
        );
    }
}

// Planted faults: a strategy with each, and what has to be said of it.

struct Leaky {
    pool: MemoryPool,
    held: Vec<DevicePtr>,
}

impl Strategy for Leaky {
    fn alloc(&mut self, stream: &Stream, size_bytes: usize) -> cuda::Result<DevicePtr> {
        self.pool.alloc(stream, size_bytes)
    }
    fn free(&mut self, _: &Stream, pointer: DevicePtr) -> cuda::Result<()> {
        self.held.push(pointer);
        Ok(())
    }
    fn pool(&self) -> Option<&MemoryPool> {
        Some(&self.pool)
    }
    fn close(self: Box<Self>) -> cuda::Result<()> {
        let stream = Stream::new()?;
        self.held
            .iter()
            .try_for_each(|pointer| MemoryPool::free(&stream, *pointer))?;
        stream.synchronize()?;
        self.pool.close()
    }
}

static LEAKY: StrategyKind = StrategyKind {
    name: "leaky",
    has_work: true,
    build: |setup: &Setup<'_>| {
        let pool = MemoryPool::create(setup.device)?;
        pool.set_release_threshold_bytes(u64::MAX)?;
        Ok(Box::new(Leaky { pool, held: Vec::new() }))
    },
};

#[test]
fn memory_that_is_not_given_back_is_caught() {
    let guarded = common::device();
    let failure = run(&guarded.device, &case(&LEAKY, Size::mib(1), Threshold::Max, 2), 1).expect_err("a leak");
    assert!(matches!(failure, Failure::UsedBytes { before: 0, .. }), "{failure}");
    assert!(!failure.is_skip());
}

struct Hoarding(MemoryPool);

impl Strategy for Hoarding {
    fn alloc(&mut self, stream: &Stream, size_bytes: usize) -> cuda::Result<DevicePtr> {
        self.0.alloc(stream, size_bytes)
    }
    fn free(&mut self, stream: &Stream, pointer: DevicePtr) -> cuda::Result<()> {
        MemoryPool::free(stream, pointer)
    }
    fn pool(&self) -> Option<&MemoryPool> {
        Some(&self.0)
    }
    fn close(self: Box<Self>) -> cuda::Result<()> {
        self.0.close()
    }
}

static HOARDING: StrategyKind = StrategyKind {
    name: "hoarding",
    has_work: true,
    build: |setup: &Setup<'_>| {
        let pool = MemoryPool::create(setup.device)?;
        // Not the threshold that was asked for.
        pool.set_release_threshold_bytes(u64::MAX)?;
        Ok(Box::new(Hoarding(pool)))
    },
};

#[test]
fn a_pool_that_holds_more_than_its_threshold_is_caught() {
    let guarded = common::device();
    let failure =
        run(&guarded.device, &case(&HOARDING, Size::mib(1), Threshold::Zero, 2), 1).expect_err("too much held");
    assert_eq!(
        failure,
        Failure::ReservedBytes {
            reserved: 32 << 20,
            threshold: 0
        }
    );
}
