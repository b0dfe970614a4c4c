//! Failing driver calls: a skip where the device cannot do a case, an end with one line otherwise, and
//! never a number for a case that failed. Needs the feature `fault-injection`.

#![cfg(feature = "fault-injection")]

mod common;

use std::process::{Command, Output};
use tempfile::TempDir;

fn run(fault: &str, filter: &str, target: &TempDir) -> Output {
    let mut command = Command::new(common::bench_executable("scratch_loop"));
    command.args([
        "--bench",
        "--noplot",
        "--warm-up-time",
        "0.01",
        "--measurement-time",
        "0.02",
        "--nresamples",
        "1000",
        filter,
    ]);
    command
        .env("CARGO_TARGET_DIR", target.path())
        .env("POOLBENCH_DEVICE", "host")
        .env("POOLBENCH_FAULT", fault);
    command.output().expect("the bench starts")
}

fn own_lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stderr)
        .lines()
        .filter(|line| line.starts_with("poolbench:"))
        .map(str::to_owned)
        .collect()
}

fn has_number(target: &TempDir, strategy: &str) -> bool {
    target
        .path()
        .join("poolbench/host/criterion/scratch_loop")
        .join(strategy)
        .join("4KiB/new/estimates.json")
        .is_file()
}

#[test]
fn a_device_without_memory_pools_is_a_skip_and_the_rest_is_measured() {
    let target = tempfile::tempdir().expect("a temporary folder");
    let output = run(
        "cuDeviceGetDefaultMemPool=error:801;cuMemPoolCreate=error:801",
        "/(hoisted|sync|stream_ordered|owned_pool)/4KiB",
        &target,
    );
    assert!(output.status.success(), "{:?}", own_lines(&output));
    let skips: Vec<String> = own_lines(&output)
        .into_iter()
        .filter(|line| line.contains("skipped"))
        .collect();
    assert_eq!(
        skips,
        [
            "poolbench: skipped scratch_loop/stream_ordered/4KiB: cuDeviceGetDefaultMemPool failed: CUDA_ERROR_NOT_SUPPORTED (801)",
            "poolbench: skipped scratch_loop/owned_pool/4KiB: cuMemPoolCreate failed: CUDA_ERROR_NOT_SUPPORTED (801)",
        ]
    );
    assert!(has_number(&target, "hoisted") && has_number(&target, "sync"));
    assert!(!has_number(&target, "stream_ordered") && !has_number(&target, "owned_pool"));
}

#[test]
fn a_call_that_fails_in_the_loop_ends_the_run_and_keeps_what_was_measured() {
    let target = tempfile::tempdir().expect("a temporary folder");
    // hoisted needs no cuMemAllocAsync; stream_ordered makes a hundred in its first loop.
    let output = run(
        "cuMemAllocAsync#150=error:700",
        "/(hoisted|stream_ordered|owned_pool)/4KiB",
        &target,
    );
    assert_eq!(output.status.code(), Some(3));
    let lines = own_lines(&output);
    let expected =
        "poolbench: scratch_loop/stream_ordered/4KiB: cuMemAllocAsync failed: CUDA_ERROR_ILLEGAL_ADDRESS (700)";
    assert!(lines.last().is_some_and(|line| line.starts_with(expected)), "{lines:?}");
    assert!(has_number(&target, "hoisted"), "measured before the failure");
    assert!(!has_number(&target, "stream_ordered") && !has_number(&target, "owned_pool"));
}

#[test]
fn a_plan_that_cannot_be_read_is_refused() {
    let target = tempfile::tempdir().expect("a temporary folder");
    let output = run("cuNothing=error:1", "4KiB", &target);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        own_lines(&output)[0].contains("POOLBENCH_FAULT: \"cuNothing=error:1\" is no fault"),
        "{:?}",
        own_lines(&output)
    );
}
