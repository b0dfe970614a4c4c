//! Failing driver calls: a skip where the device cannot do a case, an end with one line otherwise, and
//! never a number for a case that failed. Needs the feature `fault-injection`.

#![cfg(feature = "fault-injection")]

mod common;

use poolbench::baseline::{ProcessRecord, RecordRequest};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

fn run(fault: &str, filter: &str, target: &TempDir) -> Output {
    run_bench("scratch_loop", fault, filter, target)
}

fn run_bench(executable: &str, fault: &str, filter: &str, target: &TempDir) -> Output {
    let mut command = bench(executable, fault, filter, target);
    command.output().expect("the bench starts")
}

fn bench(bench: &str, fault: &str, filter: &str, target: &TempDir) -> Command {
    let mut command = Command::new(common::bench_executable(bench));
    command
        .arg("--bench")
        .args(common::QUICK)
        .arg(filter)
        .env("CARGO_TARGET_DIR", target.path())
        .env("POOLBENCH_DEVICE", "host")
        .env("POOLBENCH_FAULT", fault);
    command
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

/// Every file of Criterion's that holds a number.
fn numbers(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .flat_map(|path| match path.file_name().and_then(OsStr::to_str) {
            Some("estimates.json" | "sample.json") => vec![path],
            _ if path.is_dir() => numbers(&path),
            _ => Vec::new(),
        })
        .collect()
}

/// What the sweep does thousands of times in one process, a few times with the executables: one line
/// after the first, exit code 3, and no number.
#[test]
fn every_bench_ends_with_one_line_and_no_number_of_the_case_that_failed() {
    let ended = [
        // In the loop, in its last call, on a context that is lost, and in the end of the case.
        ("scratch_loop", "sync/4KiB", "cuMemFree_v2#300=error:1", "cuMemFree_v2"),
        (
            "scratch_loop",
            "vmm/4KiB",
            "cuMemSetAccess#300=lost:700",
            "cuMemSetAccess",
        ),
        (
            "scratch_loop",
            "hoisted/4KiB",
            "cuStreamDestroy_v2#1=late:803",
            "cuStreamDestroy_v2",
        ),
        (
            "graph_replay",
            "hoisted,graph/4KiB",
            "cuGraphLaunch#12=error:46",
            "cuGraphLaunch",
        ),
        (
            "graph_replay",
            "hoisted,graph/4KiB",
            "cuGraphExecDestroy#1=lost:46",
            "cuGraphExecDestroy",
        ),
        (
            "streams",
            "shared_pool,64KiB/streams=2",
            "cuMemAllocFromPoolAsync#900=error:2",
            "cuMemAllocFromPoolAsync",
        ),
        (
            "streams",
            "policy=all,event/1MiB",
            "cuStreamWaitEvent#90=lost:700",
            "cuStreamWaitEvent",
        ),
        (
            "call_latency",
            "alloc,growth/4KiB",
            "cuMemPoolDestroy#30=error:801",
            "cuMemPoolDestroy",
        ),
    ];
    for (bench, filter, fault, function) in ended {
        let target = tempfile::tempdir().expect("a temporary folder");
        let output = run_bench(bench, fault, filter, &target);
        assert_eq!(output.status.code(), Some(3), "{fault}: {:?}", own_lines(&output));
        let lines = own_lines(&output);
        assert_eq!(lines.len(), 2, "{fault}: {lines:?}");
        let said = format!("{filter}: {function} failed: ");
        assert!(lines[1].contains(&said), "{fault}: {lines:?}");
        let left = numbers(&target.path().join("poolbench/host/criterion"));
        assert!(left.is_empty(), "{fault}: {left:?}");
    }
}

/// A run under `poolbench record`, in which cases take a turn for each sample.
struct Recorded {
    output: Output,
    /// What the process wrote, if anything.
    record: Option<ProcessRecord>,
}

fn record(fault: &str, ids: &[String]) -> Recorded {
    let target = tempfile::tempdir().expect("a temporary folder");
    let request = RecordRequest {
        output: target.path().join("record.json"),
        only: Some(ids.iter().cloned().collect()),
        turns: 10,
        samples_per_turn: ids.iter().map(|id| (id.clone(), 1)).collect(),
        sample_size: 10,
        warm_up_time_s: 0.01,
        ..RecordRequest::default()
    };
    let path = target.path().join("request.json");
    std::fs::write(&path, serde_json::to_vec(&request).expect("JSON")).expect("it is written");
    let output = bench("scratch_loop", fault, "4KiB", &target)
        .env(RecordRequest::VARIABLE, path)
        .args(["--sample-size", "10"])
        .output()
        .expect("the bench starts");
    let record = request.output.exists().then(|| {
        let bytes = std::fs::read(&request.output).expect("a record");
        serde_json::from_slice(&bytes).expect("its format")
    });
    Recorded { output, record }
}

/// What fails in any turn ends the process.
#[test]
fn a_recorded_run_that_fails_in_any_turn_leaves_no_record() {
    let ids = ["scratch_loop/hoisted/4KiB", "scratch_loop/arena/4KiB"].map(String::from);
    let faults = [
        "cuStreamCreate#1=error:1",
        "cuStreamCreate#7=error:1",
        "cuLaunchKernel#900=lost:700",
        "cuLaunchKernel#2500=error:700",
        "cuMemFree_v2#31=error:1",
        "cuStreamDestroy_v2#12=late:803",
    ];
    for fault in faults {
        let Recorded { output, record } = record(fault, &ids);
        assert_eq!(output.status.code(), Some(3), "{fault}: {:?}", own_lines(&output));
        let lines = own_lines(&output);
        assert_eq!(lines.len(), 2, "{fault}: {lines:?}");
        let function = fault.split('#').next().expect("a function");
        assert!(
            lines[1].contains(&format!("/4KiB: {function} failed: ")),
            "{fault}: {lines:?}"
        );
        assert!(record.is_none(), "{fault}");
    }
}

/// A device may lose room between two launches: what a recording asks for by name is skipped then, too.
#[test]
fn a_recorded_case_that_cannot_be_set_up_is_skipped_in_any_turn() {
    let ids = ["scratch_loop/hoisted/4KiB", "scratch_loop/owned_pool/4KiB"].map(String::from);
    for fault in ["cuMemPoolCreate=error:801", "cuMemPoolCreate#4=error:2"] {
        let Recorded { output, record } = record(fault, &ids);
        assert!(output.status.success(), "{fault}: {:?}", own_lines(&output));
        let record = record.expect("a record");
        assert!(
            record.samples.keys().eq(&ids[..1]),
            "{fault}: {:?}",
            record.samples.keys()
        );
        let skipped: Vec<&str> = record.skipped.iter().map(|skip| skip.id.as_str()).collect();
        assert_eq!(skipped, [ids[1].as_str()], "{fault}");
        assert!(record.skipped[0].reason.contains("cuMemPoolCreate"), "{fault}");
    }
}

/// The kernels serve every case, and so go after the last.
#[test]
fn kernels_that_cannot_be_unloaded_end_the_run_and_keep_what_was_measured() {
    let target = tempfile::tempdir().expect("a temporary folder");
    let output = run("cuModuleUnload#1=late:803", "hoisted/4KiB", &target);
    assert_eq!(output.status.code(), Some(3));
    let lines = own_lines(&output);
    let expected = "poolbench: after the last case: cuModuleUnload failed: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)";
    assert_eq!(lines.last().map(String::as_str), Some(expected));
    assert!(has_number(&target, "hoisted"));
}

#[test]
fn a_context_that_cannot_be_given_back_ends_the_run_and_keeps_what_was_measured() {
    let target = tempfile::tempdir().expect("a temporary folder");
    let output = run("cuDevicePrimaryCtxRelease_v2=error:1", "hoisted/4KiB", &target);
    assert_eq!(output.status.code(), Some(3));
    let lines = own_lines(&output);
    let expected =
        "poolbench: cannot release the device: cuDevicePrimaryCtxRelease_v2 failed: CUDA_ERROR_INVALID_VALUE (1)";
    assert_eq!(lines.last().map(String::as_str), Some(expected));
    assert!(has_number(&target, "hoisted"));
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
