//! `poolbench install`: Criterion itself must take what was installed.

mod common;
mod noise;
#[path = "common/recorded.rs"]
mod recorded;

use noise::{Kind, Recording, case, seeded};
use poolbench::baseline::Baseline;
use poolbench::stats::BenchmarkId;
use recorded::{Desk, recorded};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ID: &str = "scratch_loop/hoisted/4KiB";

fn of_ids(ids: &[&str], launches: usize) -> Baseline {
    let cases: Vec<_> = ids
        .iter()
        .map(|id| case(BenchmarkId::new(*id), Kind::HostBound, &mut seeded(1)))
        .collect();
    let mut baseline = recorded(&cases, &[Recording::new("s", launches, 0.1)], "1", 3);
    baseline.manifest.environment.device.name = String::from("host");
    baseline
}

fn home(desk: &Desk) -> PathBuf {
    desk.path().join("target/poolbench/host/criterion")
}

fn read(folder: &Path, file: &str) -> Value {
    serde_json::from_slice(&fs::read(folder.join(file)).expect("it is there")).expect("JSON")
}

#[test]
fn criterion_compares_with_what_was_installed() {
    let desk = Desk::new();
    desk.keep("before", of_ids(&[ID], 12));
    let ran = desk.poolbench(&["install", "before"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout
            .starts_with("1 benchmark of 12 launches in target/poolbench/host/criterion"),
        "{ran:?}"
    );
    let output = Command::new(common::bench_executable("scratch_loop"))
        .args([
            "--bench",
            "--baseline",
            "before",
            "--exact",
            ID,
            "--warm-up-time",
            "0.05",
            "--measurement-time",
            "0.1",
        ])
        .args(["--sample-size", "10", "--nresamples", "1000"])
        .current_dir(desk.path())
        .env("POOLBENCH_DEVICE", "host")
        .env_remove("CRITERION_HOME")
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .expect("it starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains("change:"), "{stdout}");
    assert!(
        home(&desk).join(ID).join("before/poolbench.json").is_file(),
        "untouched"
    );
}

#[test]
fn samples_are_launches() {
    let desk = Desk::new();
    let baseline = of_ids(&[ID], 6);
    desk.keep("before", baseline.clone());
    assert_eq!(desk.poolbench(&["install", "before"]).code, Some(0));
    let folder = home(&desk).join(ID).join("before");
    let sample = read(&folder, "sample.json");
    // Ten samples of 100 iterations a launch.
    assert_eq!(sample["iters"], serde_json::json!(vec![1000.0; 6]));
    let total: f64 = baseline.launches[2].samples[ID].times_ns.iter().sum();
    let installed = sample["times"][2].as_f64().expect("a time");
    assert!((installed / total - 1.0).abs() < 1e-12, "{installed} {total}");
    let estimates = read(&folder, "estimates.json");
    for statistic in ["mean", "median", "median_abs_dev", "std_dev"] {
        let estimate = &estimates[statistic];
        let interval = &estimate["confidence_interval"];
        let number = |value: &Value| value.as_f64().expect("a number");
        assert_eq!(interval["confidence_level"], 0.95);
        assert!(
            number(&interval["lower_bound"]) <= number(&estimate["point_estimate"]),
            "{estimates}"
        );
        assert!(
            number(&interval["upper_bound"]) >= number(&interval["lower_bound"]),
            "{estimates}"
        );
        assert!(number(&estimate["standard_error"]) > 0.0, "{estimates}");
    }
    assert_eq!(estimates["slope"], Value::Null);
    let benchmark = read(&folder, "benchmark.json");
    assert_eq!(
        (&benchmark["full_id"], &benchmark["throughput"]["Bytes"]),
        (&ID.into(), &4096.into())
    );
    assert_eq!(read(&folder, "tukey.json").as_array().map(Vec::len), Some(4));
    // And poolbench reads it as it reads any Criterion home.
    let ran = desk.poolbench(&["compare", "target/poolbench/host/criterion@before", "before"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn every_card_of_the_model_that_measured_gets_it() {
    let desk = Desk::new();
    let mut baseline = of_ids(&[ID], 4);
    baseline.manifest.environment.device.name = String::from("NVIDIA H200");
    desk.keep("before", baseline);
    let homes = ["nvidia-h200", "nvidia-h200-0a1b2c3d"].map(|name| format!("target/poolbench/{name}/criterion"));
    fs::create_dir_all(desk.path().join(&homes[1])).expect("a folder");
    let ran = desk.poolbench(&["install", "before"]);
    assert!(ran.stdout.contains(&homes.join(" and ")), "{ran:?}");
    let samples = homes.map(|home| desk.path().join(home).join(ID).join("before/sample.json"));
    assert!(samples.iter().all(|sample| sample.is_file()), "{samples:?}");
    // What Criterion has written over in one of them keeps it out of all.
    fs::remove_dir_all(desk.path().join("target/poolbench/nvidia-h200")).expect("it can go");
    fs::write(&samples[1], "{}").expect("it can be written");
    let ran = desk.poolbench(&["install", "before"]);
    assert!(ran.refused(3).contains("nothing was installed"), "{ran:?}");
    assert!(!samples[0].exists());
}

#[test]
fn what_criterion_recorded_is_kept() {
    let desk = Desk::new();
    desk.keep("before", of_ids(&[ID, "scratch_loop/sync/4KiB"], 4));
    // Ours may be installed again; once Criterion has written over it, it is Criterion's.
    assert_eq!(desk.poolbench(&["install", "before"]).code, Some(0));
    assert_eq!(desk.poolbench(&["install", "before"]).code, Some(0));
    let sample = home(&desk).join("scratch_loop/sync/4KiB/before/sample.json");
    fs::write(&sample, "{}").expect("it can be written");
    let ran = desk.poolbench(&["install", "before"]);
    assert!(
        ran.refused(3).contains("recorded by Criterion itself; --replace"),
        "{ran:?}"
    );
    assert_eq!(fs::read_to_string(&sample).expect("it is there"), "{}");
    assert_eq!(desk.poolbench(&["install", "before", "--replace"]).code, Some(0));
    assert_ne!(fs::read_to_string(&sample).expect("it is there"), "{}");
}

#[test]
fn what_has_no_place_in_a_criterion_home_is_refused() {
    for hostile in ["../../escape/x", "a/b", "a/../b", "/tmp/x/y", "a/b/c/d", "a/b/c\u{1b}"] {
        let desk = Desk::new();
        desk.keep("before", of_ids(&[ID, hostile], 4));
        let ran = desk.poolbench(&["install", "before"]);
        assert!(ran.refused(3).contains("nothing was installed"), "{hostile:?}: {ran:?}");
        assert!(!desk.path().join("target").exists(), "{hostile:?}");
    }
    let desk = Desk::new();
    desk.keep("new", of_ids(&[ID], 4));
    desk.keep("single", of_ids(&[ID], 1));
    for (name, says) in [
        ("new", "a name that Criterion itself uses"),
        ("single", "Criterion needs two samples"),
        ("../new", "is no name of a baseline"),
        ("never", "there are new, single"),
    ] {
        assert!(desk.poolbench(&["install", name]).refused(3).contains(says), "{name}");
    }
    assert!(!desk.path().join("target").exists());
    // A file where a folder would be.
    desk.keep("before", of_ids(&[ID], 4));
    fs::write(desk.path().join("target"), "").expect("a file");
    assert!(
        desk.poolbench(&["install", "before"])
            .refused(3)
            .contains("cannot write")
    );
}

#[test]
fn critcmp_reads_it() {
    let desk = Desk::new();
    desk.keep("before", of_ids(&[ID], 6));
    desk.keep("after", of_ids(&[ID], 5));
    for name in ["before", "after"] {
        assert_eq!(desk.poolbench(&["install", name]).code, Some(0));
    }
    let critcmp = Command::new("critcmp")
        .args(["--target-dir", "target/poolbench/host", "before", "after"])
        .current_dir(desk.path())
        .output();
    match critcmp {
        Err(error) => println!("SKIPPED: critcmp does not start: {error}"),
        Ok(output) => {
            let stdout = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && stdout.contains(ID), "{output:?}");
        }
    }
}
