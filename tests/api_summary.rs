//! The API summary: exact counts for each strategy, set-up apart from the loop, and the command.

mod common;

use assert_cmd::Command;
use poolbench::api_summary;
use poolbench::case::{Size, Threshold};
use poolbench::driver::Function;
use poolbench::driver::log::{self, CallSummary, Phase};
use poolbench::measure;
use poolbench::strategy::{self, StrategyKind};
use poolbench::workload::CallLatency;
use poolbench::workload::ScratchLoop;
use poolbench::workload::call_latency::{Call, Memory};
use std::collections::BTreeMap;

const ITERATIONS: u64 = 100;

fn case(strategy: &'static StrategyKind) -> ScratchLoop {
    ScratchLoop {
        group: "test",
        function: strategy.name.to_owned(),
        strategy,
        size: Size::kib(4),
        size_seed: None,
        release_threshold_bytes: u64::MAX,
        iterations: ITERATIONS,
    }
}

fn counts(summaries: &[CallSummary], phase: Phase) -> BTreeMap<Function, usize> {
    summaries
        .iter()
        .filter(|summary| summary.phase == phase)
        .map(|summary| (summary.function, summary.calls))
        .collect()
}

/// What one iteration of a strategy calls beside its two launches.
fn calls_of_an_iteration(strategy: &str) -> &'static [Function] {
    match strategy {
        "hoisted" | "arena" | "noop" => &[],
        "sync" => &[Function::cuMemAlloc_v2, Function::cuMemFree_v2],
        "managed" => &[Function::cuMemAllocManaged, Function::cuMemFree_v2],
        "vmm" => &[
            Function::cuMemAddressReserve,
            Function::cuMemCreate,
            Function::cuMemMap,
            Function::cuMemSetAccess,
            Function::cuStreamSynchronize,
            Function::cuMemUnmap,
            Function::cuMemRelease,
            Function::cuMemAddressFree,
        ],
        "stream_ordered" => &[Function::cuMemAllocAsync, Function::cuMemFreeAsync],
        "owned_pool" => &[Function::cuMemAllocFromPoolAsync, Function::cuMemFreeAsync],
        other => panic!("say here what an iteration of {other} calls"),
    }
}

#[test]
fn the_loop_makes_exactly_the_calls_of_its_strategy() {
    let guarded = common::device();
    for kind in strategy::ALL {
        let summaries = match api_summary::of(&case(kind), &guarded.device) {
            Err(failure) if failure.is_skip() => {
                println!("SKIPPED {}: {failure}", kind.name);
                continue;
            }
            summaries => summaries.expect("the case runs"),
        };
        // 100 iterations and one synchronise; two launches an iteration where the loop has work.
        let mut expected: BTreeMap<Function, usize> = calls_of_an_iteration(kind.name)
            .iter()
            .map(|function| (*function, 100))
            .collect();
        if kind.has_work {
            expected.insert(Function::cuLaunchKernel, 200);
        }
        *expected.entry(Function::cuStreamSynchronize).or_default() += 1;
        assert_eq!(counts(&summaries, Phase::Loop), expected, "{}", kind.name);
    }
}

#[test]
fn set_up_calls_are_seen_and_stand_apart() {
    let guarded = common::device();
    let summaries = api_summary::of(&case(strategy::STREAM_ORDERED), &guarded.device).expect("the case runs");
    let set_up = counts(&summaries, Phase::SetUp);
    let once = [
        Function::cuStreamCreate,
        Function::cuModuleLoadDataEx,
        Function::cuStreamDestroy_v2,
        Function::cuModuleUnload,
    ];
    for function in once {
        assert_eq!(set_up.get(&function), Some(&1), "{}", function.name());
    }
    // Input and output; the scratch buffer is the loop's.
    assert_eq!(set_up.get(&Function::cuMemAlloc_v2), Some(&2));
    assert_eq!(set_up.get(&Function::cuMemFree_v2), Some(&2));
    // Trimmed when the strategy is built and when it is closed.
    assert_eq!(set_up.get(&Function::cuMemPoolTrimTo), Some(&2));
    assert_eq!(set_up.get(&Function::cuMemAllocAsync), None);
    assert_eq!(set_up.get(&Function::cuLaunchKernel), None);
}

#[test]
fn the_times_of_a_function_fit_together() {
    let guarded = common::device();
    for summary in api_summary::of(&case(strategy::SYNC), &guarded.device).expect("the case runs") {
        let name = summary.function.name();
        let calls = u32::try_from(summary.calls).expect("a hundred");
        assert!(summary.min <= summary.median && summary.median <= summary.max, "{name}");
        assert!(summary.min <= summary.mean && summary.mean <= summary.max, "{name}");
        assert!(
            summary.total >= summary.min * calls && summary.total <= summary.max * calls,
            "{name}"
        );
    }
}

/// Timed samples run through the same code, and nothing may be kept of them.
#[test]
fn samples_are_not_logged() {
    let guarded = common::device();
    log::start();
    assert!(log::stop().is_empty());
    let mut workload = measure::prepare(&case(strategy::SYNC), &guarded.device).expect("the case fits any device");
    workload.run(2).expect("the case runs");
    workload.close().expect("the case closes");
    assert!(log::stop().is_empty());
}

#[test]
fn a_case_of_single_calls_has_its_iterations_in_the_loop() {
    let guarded = common::device();
    let case = CallLatency {
        group: "test",
        call: Call::Free(Memory::Pool(Threshold::Zero)),
        size: Size::mib(1),
    };
    let summaries = api_summary::of(&case, &guarded.device).expect("the case runs");
    let expected = [
        Function::cuMemAllocAsync,
        Function::cuMemFreeAsync,
        Function::cuStreamSynchronize,
    ];
    assert_eq!(
        counts(&summaries, Phase::Loop),
        expected.map(|function| (function, 1)).into()
    );
}

fn poolbench(arguments: &[&str]) -> assert_cmd::assert::Assert {
    Command::cargo_bin("poolbench")
        .expect("built with the tests")
        .arg("api-summary")
        .args(arguments)
        .assert()
}

#[test]
fn the_command_prints_text_and_json() {
    let _guarded = common::device();
    let arguments = ["--strategy", "owned_pool", "--size", "64KiB", "--iterations", "7"];
    let text = poolbench(&arguments).success();
    let text = String::from_utf8_lossy(&text.get_output().stdout).into_owned();
    assert!(
        text.contains("scratch_loop/owned_pool/64KiB, threshold=max, 7 iterations"),
        "{text}"
    );
    assert!(text.contains("| set-up | cuStreamCreate "), "{text}");

    let json = poolbench(&[&arguments[..], &["--format", "json"]].concat()).success();
    let json: serde_json::Value = serde_json::from_slice(&json.get_output().stdout).expect("JSON");
    assert_eq!(json["id"], "scratch_loop/owned_pool/64KiB");
    let lines = json["functions"].as_array().expect("a list");
    let calls = |phase: &str, function: &str| {
        let line = lines
            .iter()
            .find(|line| line["phase"] == phase && line["function"] == function);
        line.map(|line| line["calls"].as_u64().expect("a count"))
    };
    // Two launches an iteration.
    assert_eq!(calls("loop", "cuLaunchKernel"), Some(14));
    assert_eq!(calls("loop", "cuMemAllocFromPoolAsync"), Some(7));
    // The whole process is in the log: the context is made and released once.
    assert_eq!(calls("set-up", "cuDevicePrimaryCtxRetain"), Some(1));
    assert_eq!(calls("set-up", "cuDevicePrimaryCtxRelease_v2"), Some(1));
}

#[test]
fn wrong_arguments_say_what_is_right() {
    let wrong = [
        (["--strategy", "arenas"], "the strategies are hoisted, sync"),
        (["--size", "4kb"], "write a whole number with a unit"),
        (["--threshold", "1"], "write 0, half, size or max"),
        (["--iterations", "0"], "1..=100000"),
    ];
    for (arguments, remedy) in wrong {
        let assert = poolbench(&arguments).code(2);
        let message = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(message.contains(remedy), "{message}");
    }
}
