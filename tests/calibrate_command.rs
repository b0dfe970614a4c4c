//! `poolbench calibrate`.

mod noise;
#[path = "common/recorded.rs"]
mod recorded;

use noise::Recording;
use recorded::{Desk, recorded, suite};

fn desk(launches: usize) -> Desk {
    let desk = Desk::new();
    let recording = [Recording::new("s", launches, 0.1)];
    desk.keep("old", recorded(&suite(), &recording, "1", 7));
    desk
}

#[test]
fn a_machine_s_own_noise_raises_few_alarms() {
    let desk = desk(24);
    let ran = desk.poolbench(&["calibrate", "old", "--splits", "40", "--seed", "3", "--format", "json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let value = ran.json();
    assert_eq!(
        (&value["splits"], &value["seed"], &value["launches"]),
        (&40.into(), &3.into(), &24.into())
    );
    // 5 % of the halves at most, by the procedure's own bound; 40 splits at 5 % have 5 or fewer with 99 %.
    assert!(
        value["alarming_splits"]["hits"].as_u64() <= Some(5),
        "{}",
        value["alarming_splits"]
    );
    assert_eq!(value["alarming_splits"]["trials"], 40);
    assert_eq!(value["benchmarks"].as_array().map(Vec::len), Some(48));
    // GPU-bound launches spread by 0.2 to 0.4 %: twelve a half find 3 % nearly always.
    let found = &value["power"][0]["found"]["gpu_bound"]["share"];
    assert!(found.as_f64() > Some(0.9), "{}", value["power"]);
    let by_class = |class: &str| -> Vec<f64> {
        let benchmarks = value["benchmarks"].as_array().expect("a list");
        let of_class = benchmarks.iter().filter(|benchmark| benchmark["class"] == class);
        of_class.filter_map(|benchmark| benchmark["mde"].as_f64()).collect()
    };
    let (gpu, host) = (by_class("gpu_bound"), by_class("host_bound"));
    assert!(
        !gpu.is_empty() && gpu.iter().all(|mde| (0.01..0.03).contains(mde)),
        "{gpu:?}"
    );
    assert!(
        !host.is_empty() && host.iter().sum::<f64>() / host.len() as f64 > 0.03,
        "{host:?}"
    );
    // The same seed gives the same splits.
    let again = desk.poolbench(&["calibrate", "old", "--splits", "40", "--seed", "3", "--format", "json"]);
    assert_eq!(again.stdout, ran.stdout);
    let text = desk.poolbench(&["calibrate", "old", "--splits", "10"]).stdout;
    for expected in [
        "old: 48 benchmarks, 24 launches in 1 session, halved 10 times",
        "gpu-bound",
        "host-bound",
        "+5 % found",
        "the hardest",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn too_few_launches_are_refused_and_few_are_said_to_be_few() {
    let ran = desk(7).poolbench(&["calibrate", "old"]);
    assert!(
        ran.refused(3)
            .contains("7 launches in 1 session cannot be halved: each half needs 4"),
        "{ran:?}"
    );
    let ran = desk(8).poolbench(&["calibrate", "old", "--splits", "5"]);
    assert_eq!(ran.code, Some(0));
    // Of 48 benchmarks a lone change needs 7 launches a side.
    assert!(
        ran.stdout
            .contains("! halves of 4 launches cannot show a single change, 7 can"),
        "{}",
        ran.stdout
    );
}

#[test]
fn wrong_usage_and_missing_baselines() {
    let desk = Desk::new();
    assert_eq!(desk.poolbench(&["calibrate", "x", "--splits", "0"]).code, Some(2));
    assert_eq!(desk.poolbench(&["calibrate", "x", "--seed", "-1"]).code, Some(2));
    assert!(
        desk.poolbench(&["calibrate", "x"])
            .refused(3)
            .contains("no baseline \"x\"")
    );
}
