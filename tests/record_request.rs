//! What a bench executable records for `poolbench record`: the cases it was asked for, with the host's
//! speed beside each sample; and nothing at all where it failed.

mod common;

use poolbench::baseline::{ProcessRecord, RecordRequest};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HOISTED: &str = "scratch_loop/hoisted/4KiB";
const SYNC: &str = "scratch_loop/sync/4KiB";

fn request(folder: &Path) -> RecordRequest {
    RecordRequest {
        output: folder.join("record.json"),
        order_seed: 1,
        only: Some([HOISTED, SYNC].map(String::from).into()),
        loop_time_max_s: 0.1,
        turns: 10,
        samples_per_turn: [(HOISTED.to_owned(), 3)].into(),
        sample_size: 10,
        fewer_samples: BTreeMap::new(),
        warm_up_time_s: 0.005,
        device_times: true,
        probes: true,
        processor: None,
    }
}

fn run(folder: &Path, request: &str) -> Output {
    run_bench("scratch_loop", ["0.005", "0.01"], folder, request)
}

/// Runs a bench executable with Criterion's times of warm-up and measurement, in seconds.
fn run_bench(name: &str, [warm_up_s, measurement_s]: [&str; 2], folder: &Path, request: &str) -> Output {
    let path: PathBuf = folder.join("request.json");
    fs::write(&path, request).expect("a folder that can be written");
    Command::new(common::bench_executable(name))
        .args(["--bench", "--noplot"])
        .args(["--warm-up-time", warm_up_s, "--measurement-time", measurement_s])
        .args(["--sample-size", "10", "--nresamples", "1000"])
        .env(RecordRequest::VARIABLE, &path)
        .env("POOLBENCH_DEVICE", "host")
        .env("CRITERION_HOME", folder.join("criterion"))
        .output()
        .expect("the bench starts")
}

fn json(request: &RecordRequest) -> String {
    serde_json::to_string(request).expect("a request is JSON")
}

#[test]
fn the_cases_asked_for_are_recorded_with_their_probes() {
    let folder = tempfile::tempdir().expect("a folder");
    let request = request(folder.path());
    let output = run(folder.path(), &json(&request));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let record: ProcessRecord =
        serde_json::from_slice(&fs::read(&request.output).expect("a record")).expect("its format");
    assert_eq!(record.bench, "scratch_loop");
    assert_eq!(record.environment.device.name, "host");
    assert!(record.samples.keys().eq([HOISTED, SYNC]), "{:?}", record.samples.keys());
    for (id, samples) in &record.samples {
        samples.check().expect("measurements");
        assert_eq!(samples.times_ns.len(), 10, "{id}");
        let probe = samples.probe_ns.as_ref().expect("a probe was asked for");
        assert_eq!((probe.syscall.len(), probe.user.len()), (10, 10), "{id}");
        assert!(record.observations.contains_key(id), "{id}");
        assert!(record.device_time_ns[id] > 0.0, "{id} runs kernels");
    }
}

#[test]
fn a_case_that_takes_fewer_samples_has_as_many() {
    let folder = tempfile::tempdir().expect("a folder");
    let request = RecordRequest {
        fewer_samples: [(SYNC.to_owned(), 4)].into(),
        ..request(folder.path())
    };
    let output = run(folder.path(), &json(&request));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let record: ProcessRecord =
        serde_json::from_slice(&fs::read(&request.output).expect("a record")).expect("its format");
    for (id, count) in [(HOISTED, 10), (SYNC, 4)] {
        let samples = &record.samples[id];
        samples.check().expect("measurements");
        // Flat sampling: as many iterations in each.
        assert_eq!(samples.iters, vec![samples.iters[0]; count], "{id}");
        let probe = samples.probe_ns.as_ref().expect("a probe was asked for");
        assert_eq!((probe.syscall.len(), probe.user.len()), (count, count), "{id}");
        assert!(record.samples_enough[id] <= 10);
    }
}

/// A microsecond of warm-up is over after one call, and of measurement leaves one call to each of ten samples:
/// the warm-up is as long as a sample, and no sample.
#[test]
fn call_times_are_those_of_all_samples_and_of_no_warm_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let id = String::from("call_latency/attribute_set/0B");
    let request = RecordRequest {
        only: Some([id.clone()].into()),
        samples_per_turn: Default::default(),
        warm_up_time_s: 1e-6,
        ..request(folder.path())
    };
    let output = run_bench("call_latency", ["0.000001", "0.000001"], folder.path(), &json(&request));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let record: ProcessRecord =
        serde_json::from_slice(&fs::read(&request.output).expect("a record")).expect("its format");
    assert_eq!(record.samples[&id].iters, [1.0; 10]);
    let times = record.observations[&id].call_times.expect("calls were timed");
    assert_eq!(times.calls, 10);
}

#[test]
fn a_loop_over_the_limit_is_skipped_unless_it_is_asked_for_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut request = request(folder.path());
    request.only = None;
    request.loop_time_max_s = 1e-9;
    request.probes = false;
    let output = run(folder.path(), &json(&request));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let record: ProcessRecord =
        serde_json::from_slice(&fs::read(&request.output).expect("a record")).expect("its format");
    assert!(record.samples.is_empty(), "{:?}", record.samples.keys());
    let skip = record.skipped.iter().find(|skip| skip.id == HOISTED).expect("a skip");
    assert!(skip.reason.contains("a loop may take"), "{}", skip.reason);
    request.only = Some([HOISTED.to_owned()].into());
    assert!(run(folder.path(), &json(&request)).status.success());
    let record: ProcessRecord =
        serde_json::from_slice(&fs::read(&request.output).expect("a record")).expect("its format");
    assert!(record.samples.keys().eq([HOISTED]), "{:?}", record.samples.keys());
    assert_eq!(record.samples[HOISTED].probe_ns, None);
}

#[test]
fn what_is_no_request_is_one_line_and_exit_3() {
    let folder = tempfile::tempdir().expect("a folder");
    for text in ["", "{", "{\"output\": 3}"] {
        let output = run(folder.path(), text);
        assert_eq!(output.status.code(), Some(3), "{text:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        let last = stderr.lines().last().unwrap_or_default();
        assert!(
            last.contains("request.json: is no request of `poolbench record`"),
            "{stderr}"
        );
    }
}
