//! What a user of `cargo bench` sees: the first and the last line, skips, Criterion's flags, and one
//! clear line with exit code 2 or 3 for everything that is wrong.

#![allow(missing_docs, reason = "tests")]

mod arguments;
#[path = "../common/mod.rs"]
mod common;
mod homes;
mod readers;

use common::QUICK;
use std::fs;
use std::process::{Command, Output};
use tempfile::TempDir;

pub struct Bench {
    executable: std::path::PathBuf,
    pub target: TempDir,
}

impl Bench {
    pub fn new(name: &str) -> Bench {
        Bench {
            executable: common::bench_executable(name),
            target: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.executable);
        command.arg("--bench").args(arguments);
        command
            .env("CARGO_TARGET_DIR", self.target.path())
            .env("POOLBENCH_DEVICE", "host");
        for variable in [
            "POOLBENCH_LIBCUDA",
            "POOLBENCH_ORDER_SEED",
            "CRITERION_HOME",
            "POOLBENCH_HOST_MEMORY_MIB",
            "NO_COLOR",
        ] {
            command.env_remove(variable);
        }
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the bench starts")
    }

    pub fn home(&self) -> std::path::PathBuf {
        self.target.path().join("poolbench/host/criterion")
    }
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The lines that are poolbench's own.
pub fn own_lines(output: &Output) -> Vec<String> {
    stderr(output)
        .lines()
        .filter(|line| line.starts_with("poolbench:"))
        .map(str::to_owned)
        .collect()
}

pub fn assert_refused(output: &Output, expected: &str) {
    assert_refused_as(output, 3, expected);
}

pub fn assert_refused_as(output: &Output, code: i32, expected: &str) {
    assert_eq!(output.status.code(), Some(code), "{}{}", stdout(output), stderr(output));
    let lines = own_lines(output);
    let last = lines.last().expect("a line of ours");
    assert!(last.contains(expected), "{lines:?}");
    assert!(
        !stderr(output).contains("panicked") && !stderr(output).contains("stack backtrace"),
        "{}",
        stderr(output)
    );
}

#[test]
fn a_run_says_what_it_measures_tabulates_it_and_names_the_report() {
    let bench = Bench::new("scratch_loop");
    let mut arguments = QUICK.to_vec();
    arguments.remove(0); // with plots, so that there is a report
    arguments.push("64KiB");
    let output = bench.run(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = own_lines(&output);
    assert_eq!(
        lines[0],
        "poolbench: POOLBENCH_DEVICE=host: measuring the host device; these are not GPU numbers"
    );
    let report = bench.home().join("report/index.html");
    assert_eq!(
        *lines.last().expect("a last line"),
        format!("poolbench: report: {}", report.display())
    );
    assert!(report.is_file());
    let text = stdout(&output);
    assert!(
        text.contains("| size  | scratch_loop   | µs per iteration | vs hoisted |"),
        "{text}"
    );
    assert!(text.contains("| 64KiB | hoisted        |"), "{text}");
    // The record for other tools holds the pool's bytes.
    let record =
        fs::read_to_string(bench.target.path().join("poolbench/host/runs/scratch_loop.json")).expect("a record");
    let record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
    let pools: Vec<u64> = record["benchmarks"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|benchmark| benchmark["reserved"]["after_synchronize_bytes"].as_u64())
        .collect();
    assert!(
        !pools.is_empty() && pools.iter().all(|bytes| *bytes == 32 << 20),
        "{record}"
    );
}

#[test]
fn baselines_and_filters_work_as_criterion_users_know_them() {
    let bench = Bench::new("release_threshold");
    let with = |more: &[&str]| bench.run(&[&QUICK[..], more, &["threshold=max/1MiB"]].concat());
    assert!(with(&["--save-baseline", "before"]).status.success());
    let saved = bench
        .home()
        .join("release_threshold/threshold=max/1MiB/before/estimates.json");
    assert!(saved.is_file());
    let compared = with(&["--baseline", "before"]);
    assert!(
        compared.status.success() && stdout(&compared).contains("change:"),
        "{}",
        stdout(&compared)
    );
    assert_refused(
        &with(&["--baseline", "never-saved"]),
        "Baseline 'never-saved' must exist, and there is no ",
    );
    let quick = bench.run(&["--quick", "--noplot", "threshold=max/1MiB"]);
    assert!(quick.status.success(), "{}", stderr(&quick));
    let only: Vec<_> = fs::read_dir(bench.home().join("release_threshold"))
        .expect("a folder")
        .collect();
    assert_eq!(
        only.iter()
            .filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().join("1MiB").is_dir()))
            .count(),
        1
    );
}

/// A microsecond of warm-up is over after one call, and of measurement leaves one call to each of ten samples.
#[test]
fn the_calls_of_a_case_are_those_of_its_samples() {
    let bench = Bench::new("call_latency");
    let times = ["--warm-up-time", "0.000001", "--measurement-time", "0.000001"];
    let output = bench.run(&[&times[..], &["--noplot", "--sample-size", "10", "attribute_set"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let record =
        fs::read_to_string(bench.target.path().join("poolbench/host/runs/call_latency.json")).expect("a record");
    let record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!(record["benchmarks"][0]["call_times"]["calls"], 10, "{record}");
}

#[test]
fn the_list_of_ids_needs_no_device() {
    let bench = Bench::new("scratch_loop");
    let mut command = bench.command(&["--list"]);
    let output = command
        .env("POOLBENCH_DEVICE", "cuda:99")
        .output()
        .expect("the bench starts");
    assert!(output.status.success(), "{}", stderr(&output));
    // What is empty is not set.
    for variable in ["POOLBENCH_ORDER_SEED", "POOLBENCH_API_SUMMARY"] {
        let mut command = bench.command(&["--list"]);
        let output = command.env(variable, "").output().expect("the bench starts");
        assert!(output.status.success(), "{variable}: {}", stderr(&output));
    }
    let ids: Vec<String> = stdout(&output)
        .lines()
        .filter_map(|line| line.strip_suffix(": benchmark").map(str::to_owned))
        .collect();
    assert!(
        ids.contains(&String::from("scratch_loop/stream_ordered/256MiB")),
        "{ids:?}"
    );
    assert!(ids.contains(&String::from("scratch_loop/noop/4KiB")), "{ids:?}");
}

#[test]
fn what_does_not_fit_is_skipped_with_the_reason_and_recorded() {
    let bench = Bench::new("release_threshold");
    let mut command = bench.command(&[&QUICK[..], &["hoisted/(1MiB|256MiB)"]].concat());
    let output = command
        .env("POOLBENCH_HOST_MEMORY_MIB", "300")
        .output()
        .expect("the bench starts");
    assert!(output.status.success(), "{}", stderr(&output));
    let skipped = "poolbench: skipped release_threshold/hoisted/256MiB: needs 805306368 bytes of device memory, 314572800 are free";
    assert!(own_lines(&output).contains(&skipped.to_owned()), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("| 1MiB | hoisted"),
        "the others are measured: {}",
        stdout(&output)
    );
    let record =
        fs::read_to_string(bench.target.path().join("poolbench/host/runs/release_threshold.json")).expect("a record");
    assert!(record.contains("needs 805306368 bytes"), "{record}");
    assert!(
        !bench.home().join("release_threshold/hoisted/256MiB/new").exists(),
        "a skip has no number"
    );
}

#[test]
fn a_wrong_environment_is_one_clear_line() {
    let bench = Bench::new("scratch_loop");
    let with = |variable: &str, value: &str| {
        bench
            .command(&["4KiB"])
            .env(variable, value)
            .output()
            .expect("the bench starts")
    };
    assert_refused(
        &with("POOLBENCH_DEVICE", "gpu"),
        "POOLBENCH_DEVICE=gpu is not a device; write auto, cuda:N",
    );
    assert_refused(
        &with("POOLBENCH_ORDER_SEED", "x"),
        "POOLBENCH_ORDER_SEED=x is not a whole number",
    );
    let mut command = bench.command(&["4KiB"]);
    command
        .env("POOLBENCH_DEVICE", "auto")
        .env("POOLBENCH_LIBCUDA", "/nonexistent/libcuda.so");
    assert_refused(
        &command.output().expect("the bench starts"),
        "cannot load /nonexistent/libcuda.so",
    );
    let mut command = bench.command(&["4KiB"]);
    command
        .env("POOLBENCH_DEVICE", "auto")
        .env("POOLBENCH_LIBCUDA", "libm.so.6");
    assert_refused(
        &command.output().expect("the bench starts"),
        "libm.so.6 is not a CUDA driver",
    );
}

/// A machine with a driver has devices 0 to n; asking for one beyond is an error, never a fallback.
#[test]
fn a_device_that_is_not_there_is_never_replaced() {
    let bench = Bench::new("scratch_loop");
    let output = bench
        .command(&["4KiB"])
        .env("POOLBENCH_DEVICE", "cuda:99")
        .output()
        .expect("the bench starts");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let lines = own_lines(&output);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("cannot load libcuda.so.1") || lines[0].contains("POOLBENCH_DEVICE=cuda:99, but"),
        "{lines:?}"
    );
}

#[test]
fn shuffled_cases_give_the_same_table() {
    let bench = Bench::new("scratch_loop");
    let mut command = bench.command(&[&QUICK[..], &["(hoisted|sync)/(4KiB|64KiB)"]].concat());
    let output = command
        .env("POOLBENCH_ORDER_SEED", "7")
        .output()
        .expect("the bench starts");
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    let place = |row: &str| text.find(row).unwrap_or_else(|| panic!("{row} is missing: {text}"));
    assert!(
        place("| 4KiB  | hoisted") < place("| 4KiB  | sync") && place("| 4KiB  | sync") < place("| 64KiB | hoisted")
    );
}
