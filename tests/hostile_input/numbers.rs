//! Numbers that no recording holds.

use super::recorded::{Desk, Ran};
use super::{ID, plant, read_by_all};
use serde_json::json;
use std::fs;

#[test]
fn huge_numbers_are_no_measurements_and_overflow_nothing() {
    let desk = Desk::new();
    for (key, value, says) in [
        ("iters", json!(1e308), "1e308 iterations cannot have been counted"),
        ("times_ns", json!(1e308), "ns per iteration cannot be a measurement"),
        ("times_ns", json!(5e-324), "is not above zero"),
        ("iters", json!(-1), "-1 is not above zero"),
    ] {
        plant(&desk, "old", |(_, launches)| launches[2]["samples"][ID][key][0] = value);
        let ran = desk.poolbench(&["compare", "old", "old"]);
        assert!(
            ran.refused(3).contains(says) && ran.stderr.contains("launches.jsonl:3: "),
            "{ran:?}"
        );
    }
    let largest = u64::MAX;
    plant(&desk, "old", |(manifest, _)| manifest["launches"] = largest.into());
    let ran = desk.poolbench(&["compare", "old", "old"]);
    assert!(
        ran.refused(3)
            .contains("holds 18446744073709551615 launches, more than"),
        "{ran:?}"
    );
    plant(&desk, "more", |(manifest, _)| manifest["launches"] = 9.into());
    let ran = desk.poolbench(&["compare", "more", "more"]);
    assert!(
        ran.refused(3).contains("8 launches, but manifest.json says 9"),
        "{ran:?}"
    );
    // No JSON number of this size is a double, and no integer is that long.
    let folder = desk.baselines().join("old");
    let manifest = fs::read_to_string(folder.join("manifest.json")).expect("it is there");
    for number in ["1e400", "18446744073709551616", "-1", "1.5"] {
        let edited = manifest.replace("18446744073709551615", number);
        fs::write(folder.join("manifest.json"), edited).expect("it can be written");
        assert!(
            desk.poolbench(&["compare", "old", "old"])
                .refused(3)
                .contains("manifest.json"),
            "{number}"
        );
    }
}

/// Where any number may stand, the largest does no harm: 2^64 iterations of 1 ns can be summed.
#[test]
fn the_largest_numbers_that_are_valid_do_no_harm() {
    let desk = Desk::new();
    let largest = u64::MAX;
    let totals = vec![2f64.powi(64); 10];
    plant(&desk, "old", |(manifest, launches)| {
        let settings = json!({"sample_size": largest, "repeated": largest, "turns": u32::MAX,
            "measurement_time_s": 1e308, "warm_up_time_s": -1e308, "loop_time_max_s": 5e-324, "pinned_processor": largest});
        manifest["settings"] = settings;
        manifest["environment"]["device"]["memory_bytes"] = largest.into();
        manifest["environment"]["pool"] = json!({"release_threshold_bytes": largest, "reuse_follow_event_dependencies": true,
            "reuse_allow_opportunistic": true, "reuse_allow_internal_dependencies": true});
        let id = "release_threshold/threshold=max/17179869183GiB";
        manifest["benchmarks"] = json!([id]);
        manifest["observations"] = json!({id: {
            "reserved": {"after_synchronize_bytes": largest, "high_bytes": largest, "used_high_bytes": largest},
            "reuse": {"asked": largest, "reused": largest}, "returned_bytes": largest,
            "call_times": {"calls": largest, "p50_ns": largest, "p99_ns": largest, "max_ns": largest, "clock_ns": largest},
            "graph": {"nodes": largest, "capture_ns": largest, "instantiate_ns": largest, "first_launch_ns": largest,
                "steady_launch_ns": largest, "reserved_bytes": largest, "reserved_after_trim_bytes": 0}}});
        for (launch, back) in launches.iter_mut().zip(0..) {
            launch["launch"] = (largest - back).into();
            launch["order_seed"] = largest.into();
            launch["samples"] = json!({id: {"iters": &totals, "times_ns": &totals,
                "probe_ns": {"syscall": vec![1e15; 10], "memory": vec![1e-3; 10]}}});
        }
    });
    let ran = read_by_all(&desk, "old");
    let failed: Vec<&Ran> = ran.iter().filter(|ran| ran.code != Some(0)).collect();
    assert!(
        failed
            .iter()
            .all(|ran| ran.stderr.contains("holds no scratch_loop benchmark")
                || ran.stderr.contains("record it without a filter")),
        "{failed:?}"
    );
    let home = desk
        .path()
        .join("target/poolbench/nvidia-h200/criterion/release_threshold/threshold=max/17179869183GiB/old");
    for file in ["sample.json", "estimates.json", "tukey.json"] {
        let numbers = fs::read_to_string(home.join(file)).expect("it was installed");
        // JSON has no infinity: it would be null, and Criterion could not read it.
        assert!(
            !numbers.replace("\"slope\":null", "").contains("null"),
            "{file}: {numbers}"
        );
    }
}

/// A comparison looks at the difference of every two launches: a small file must not take all memory.
#[test]
fn more_launches_than_can_be_compared_are_refused() {
    let desk = Desk::new();
    plant(&desk, "many", |files| files.0["launches"] = 4097.into());
    for ran in read_by_all(&desk, "many") {
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            said.contains("holds 4097 launches, more than the 4096 that can be compared"),
            "{ran:?}"
        );
    }
}
