//! Single calls: what each case does to its pool, what it observes, and what it leaves.

mod common;

use poolbench::case::{Size, Threshold};
use poolbench::cuda::{Device, MemoryPool};
use poolbench::driver::{Function, log};
use poolbench::measure::{self, Failure, Observation};
use poolbench::workload::CallLatency;
use poolbench::workload::call_latency::{Call, Memory};
#[cfg(feature = "fault-injection")]
use std::collections::BTreeSet;
use std::time::Duration;

const CALLS: [Call; 14] = [
    Call::Alloc(Memory::Plain),
    Call::Alloc(Memory::Pool(Threshold::Zero)),
    Call::Alloc(Memory::Pool(Threshold::Max)),
    Call::Free(Memory::Plain),
    Call::Free(Memory::Pool(Threshold::Zero)),
    Call::Free(Memory::Pool(Threshold::Max)),
    Call::Synchronize(Threshold::Zero),
    Call::Synchronize(Threshold::Max),
    Call::FirstAlloc,
    Call::Growth,
    Call::PoolCreate,
    Call::PoolDestroy,
    Call::Trim,
    Call::AttributeSet,
];

fn run(device: &Device, call: Call, size: Size, loops: u64) -> Result<Observation, Failure> {
    let case = CallLatency {
        group: "test",
        call,
        size,
    };
    let mut workload = measure::prepare(&case, device)?;
    workload.run(loops)?;
    let observation = workload.check()?;
    workload.close()?;
    Ok(observation)
}

#[test]
fn every_call_runs_at_every_size_and_is_counted() {
    let guarded = common::device();
    // One element, a whole number of the driver's 512 bytes and not, and beyond 32 MiB.
    for size in [Size::bytes(4), Size::bytes(1000), Size::kib(4), Size::mib(40)] {
        for call in CALLS {
            let seen = run(&guarded.device, call, size, 5).unwrap_or_else(|failure| panic!("{call} {size}: {failure}"));
            let times = seen.call_times.expect("calls were timed");
            assert_eq!(times.calls, 5, "{call}: the calls of the set-up are not counted");
            assert!(
                times.p50_ns <= times.p99_ns && times.p99_ns <= times.max_ns,
                "{call}: {times:?}"
            );
            assert!(times.max_ns > 0, "{call}");
        }
    }
}

#[test]
fn calls_with_nothing_run_as_well() {
    let guarded = common::device();
    for call in [Call::PoolCreate, Call::PoolDestroy, Call::Trim, Call::AttributeSet] {
        run(&guarded.device, call, Size::bytes(0), 5).unwrap_or_else(|failure| panic!("{call}: {failure}"));
    }
}

#[test]
fn returned_bytes_are_what_the_threshold_lets_go() {
    let guarded = common::device();
    let unit = 32 << 20;
    let cases = [
        // A pool holds whole units of 32 MiB: one for 1 MiB, two for 40 MiB.
        (Call::Synchronize(Threshold::Zero), Size::mib(1), Some(unit)),
        (Call::Synchronize(Threshold::Zero), Size::mib(40), Some(2 * unit)),
        (Call::Synchronize(Threshold::Max), Size::mib(40), Some(0)),
        (
            Call::Alloc(Memory::Pool(Threshold::Zero)),
            Size::mib(40),
            Some(2 * unit),
        ),
        (Call::Trim, Size::mib(40), Some(2 * unit)),
        (Call::PoolDestroy, Size::mib(40), Some(2 * unit)),
        // No pool.
        (Call::Free(Memory::Plain), Size::mib(40), None),
    ];
    for (call, size, returned_bytes) in cases {
        let seen = run(&guarded.device, call, size, 2).expect("the case runs");
        assert_eq!(seen.returned_bytes, returned_bytes, "{call} {size}");
    }
}

/// The calls that a case of one call a loop shows after runs of so many loops, the last few of which were samples.
fn calls_timed(runs: &[u64], samples: Option<usize>) -> u64 {
    let guarded = common::device();
    let case = CallLatency {
        group: "test",
        call: Call::AttributeSet,
        size: Size::bytes(0),
    };
    let mut workload = measure::prepare(&case, &guarded.device).expect("any device has pools");
    for &loops in runs {
        workload.run(loops).expect("the case runs");
    }
    if let Some(samples) = samples {
        workload.keep_samples(samples);
    }
    let times = workload.check().expect("the threshold reads back").call_times;
    workload.close().expect("the case closes");
    times.expect("calls were timed").calls
}

#[test]
fn only_the_samples_of_one_length_are_kept() {
    // Warm-up doubles its iterations; then each sample has the same.
    assert_eq!(calls_timed(&[1, 2, 4, 3, 3, 3], None), 9);
}

/// Two samples of two calls each, after a warm-up that ended with as many.
#[test]
fn a_warm_up_as_long_as_a_sample_is_none() {
    assert_eq!(calls_timed(&[1, 2, 2, 2], Some(2)), 4);
}

/// The default pool's marks are the process's: a case before this one had 40 MiB, in two units of 32 MiB.
#[test]
fn high_watermarks_are_those_of_the_case() {
    let guarded = common::device();
    let calls = [
        Call::Alloc(Memory::Pool(Threshold::Max)),
        Call::Free(Memory::Pool(Threshold::Zero)),
        Call::Synchronize(Threshold::Max),
    ];
    for call in calls {
        let [large, small] = [Size::mib(40), Size::mib(1)].map(|size| {
            let seen = run(&guarded.device, call, size, 2).expect("the case runs").reserved;
            let seen = seen.expect("there is a pool");
            (seen.high_bytes, seen.used_high_bytes)
        });
        assert_eq!((large, small), ((64 << 20, 40 << 20), (32 << 20, 1 << 20)), "{call}");
    }
}

/// The driver function that a call is.
#[cfg(feature = "fault-injection")]
fn function_of(call: Call) -> Function {
    match call {
        Call::Alloc(Memory::Plain) => Function::cuMemAlloc_v2,
        Call::Alloc(Memory::Pool(_)) => Function::cuMemAllocAsync,
        Call::Free(Memory::Plain) => Function::cuMemFree_v2,
        Call::Free(Memory::Pool(_)) => Function::cuMemFreeAsync,
        Call::Synchronize(_) => Function::cuStreamSynchronize,
        Call::FirstAlloc | Call::Growth => Function::cuMemAllocFromPoolAsync,
        Call::PoolCreate => Function::cuMemPoolCreate,
        Call::PoolDestroy => Function::cuMemPoolDestroy,
        Call::Trim => Function::cuMemPoolTrimTo,
        Call::AttributeSet => Function::cuMemPoolSetAttribute,
    }
}

/// The clock of a case stands around the call log's, so no median can be below the log's; and what the
/// two clocks differ by is far less than another call.
#[test]
fn the_times_are_those_of_the_call_and_of_no_other() {
    const CALLS_TIMED: u64 = 201;
    let guarded = common::device();
    let case = CallLatency {
        group: "test",
        call: Call::PoolCreate,
        size: Size::bytes(0),
    };
    let mut workload = measure::prepare(&case, &guarded.device).expect("any device has pools");
    log::start();
    let sum = workload.run(CALLS_TIMED);
    let logged = log::stop();
    let times = workload.check().expect("the case runs").call_times;
    let times = times.expect("calls were timed");
    workload.close().expect("the case closes");
    let of = |function: Function| {
        let summary = logged.iter().find(|summary| summary.function == function);
        summary.unwrap_or_else(|| panic!("{} was called", function.name()))
    };
    let (create, destroy) = (of(Function::cuMemPoolCreate), of(Function::cuMemPoolDestroy));
    assert!(sum.expect("the case runs") >= create.total);
    let p50 = Duration::from_nanos(times.p50_ns);
    assert!(p50 >= create.median, "{times:?} {create:?}");
    assert!(
        p50 < create.median + destroy.median / 2,
        "{times:?} {create:?} {destroy:?}"
    );
}

/// Makes one function slow at a time: a case must see its own, and none of the others that it calls.
#[cfg(feature = "fault-injection")]
#[test]
fn a_case_sees_a_delay_of_its_own_function_only() {
    use poolbench::driver::fault::{self, Effect, Fault};
    const DELAY: Duration = Duration::from_millis(3);
    let guarded = common::device();
    let functions: BTreeSet<Function> = CALLS.into_iter().map(function_of).collect();
    for call in CALLS {
        for function in &functions {
            let case = CallLatency {
                group: "test",
                call,
                size: Size::mib(1),
            };
            let mut workload = measure::prepare(&case, &guarded.device).expect("any device has pools");
            fault::inject(vec![Fault {
                function: *function,
                nth: None,
                effect: Effect::Delay(DELAY),
            }]);
            workload.run(3).expect("a delay is no failure");
            fault::inject(Vec::new());
            let times = workload.check().expect("the case runs").call_times;
            let p50 = Duration::from_nanos(times.expect("calls were timed").p50_ns);
            workload.close().expect("the case closes");
            assert_eq!(
                p50 >= DELAY,
                *function == function_of(call),
                "{call}, {}: {p50:?}",
                function.name()
            );
        }
    }
}

/// A threshold that is not the case's is a failure, never a number under the wrong name.
#[test]
fn a_pool_that_keeps_more_or_less_than_the_case_says_is_caught() {
    let guarded = common::device();
    let pool = MemoryPool::default_of(&guarded.device).expect("a default pool");
    let failure_of = |case_threshold, pool_threshold_bytes| {
        let case = CallLatency {
            group: "test",
            call: Call::Synchronize(case_threshold),
            size: Size::mib(1),
        };
        let mut workload = measure::prepare(&case, &guarded.device).expect("any device has pools");
        pool.set_release_threshold_bytes(pool_threshold_bytes)
            .expect("any value can be set");
        let failure = workload.run(1).expect_err("the wrong threshold");
        workload.close().expect("the case closes");
        assert!(!failure.is_skip());
        failure
    };
    let kept = failure_of(Threshold::Zero, u64::MAX);
    let expected = Failure::ReservedBytes {
        reserved: 32 << 20,
        threshold: 0,
    };
    assert_eq!(kept, expected);
    let lost = failure_of(Threshold::Max, 0);
    assert_eq!(
        lost.to_string(),
        "the pool holds 0 bytes after a synchronise, not at least 1048576"
    );
}

#[test]
fn nothing_is_left_behind() {
    let guarded = common::device();
    let pool = MemoryPool::default_of(&guarded.device).expect("a default pool");
    pool.set_release_threshold_bytes(12345).expect("any value can be set");
    let before = guarded.device.memory_info().expect("readable").free_bytes;
    for call in CALLS {
        run(&guarded.device, call, Size::mib(8), 3).expect("the case runs");
    }
    assert_eq!(pool.release_threshold_bytes().expect("readable"), 12345);
    assert_eq!(pool.reserved_bytes_current().expect("readable"), 0);
    pool.set_release_threshold_bytes(0).expect("any value can be set");
    let after = guarded.device.memory_info().expect("readable").free_bytes;
    // A GPU's driver keeps some memory for itself; on the host device every byte comes back.
    let kept = before.saturating_sub(after);
    assert!(
        kept <= if guarded.device.is_host() { 0 } else { 4 << 20 },
        "{kept} bytes are missing"
    );
}

#[test]
fn a_size_beyond_the_device_is_a_skip() {
    let guarded = common::device();
    for call in [Call::Alloc(Memory::Plain), Call::Growth, Call::Trim] {
        let failure = run(&guarded.device, call, Size::bytes(1 << 50), 1).expect_err("a petabyte");
        assert!(failure.is_skip(), "{call}: {failure}");
    }
}
