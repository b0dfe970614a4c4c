//! The README's measured tables are what the committed baseline says.

#[path = "common/synthetic_baseline.rs"]
mod synthetic_baseline;

use poolbench::baseline::{FOLDER, Input, Manifest, names_in};
use poolbench::report::readme_tables;
use std::path::PathBuf;
use synthetic_baseline::Recording;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// What stands between README's marks.
fn block(readme: &str) -> &str {
    let (_, rest) = readme
        .split_once("<!-- measured: begin -->\n")
        .expect("the README marks where the block begins");
    rest.split_once("<!-- measured: end -->").expect("and where it ends").0
}

#[test]
fn the_block_is_that_of_the_committed_baseline() {
    let baselines = root().join(FOLDER);
    let of_a_gpu = |name: &String| {
        Manifest::read(&baselines.join(name)).is_ok_and(|manifest| manifest.environment.device.name != "host")
    };
    let names: Vec<String> = names_in(&baselines).into_iter().filter(of_a_gpu).collect();
    if names.is_empty() {
        println!("SKIPPED: {FOLDER} holds no baseline of a GPU, so the README's tables were not compared");
        return;
    }
    let readme = std::fs::read_to_string(root().join("README.md")).expect("there is a README");
    let block = block(&readme);
    let marked = block
        .split("--readme-tables ")
        .nth(1)
        .and_then(|rest| rest.split(['`', ' ', '\n']).next());
    let name = marked.expect("the block names its baseline behind --readme-tables");
    assert!(names.iter().any(|known| known == name), "{name} is none of {names:?}");
    let input = Input::named(name, &baselines).expect("the baseline is whole");
    let made = readme_tables(&input).expect("it holds what the tables show");
    assert_eq!(
        block, made,
        "put the output of `cargo poolbench report --readme-tables {name}` between the README's marks"
    );
}

fn tables(recording: &Recording) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    recording.write(folder.path());
    let input = Input::named(recording.name, folder.path()).expect("it was just written");
    readme_tables(&input).expect("it holds every workload")
}

/// The cell of a row whose first cell is this one, in the table whose heading begins so.
fn cell<'a>(tables: &'a str, heading: &str, row: &str, column: usize) -> &'a str {
    let table = tables.split(heading).nth(1).expect("the table is there");
    let line = table
        .lines()
        .skip(1)
        .find(|line| line.starts_with(&format!("| {row} |")))
        .expect("the row is there");
    line.split('|').nth(column).expect("the column is there").trim()
}

#[test]
fn tables_hold_medians_ratios_and_bytes() {
    let tables = tables(&Recording::base());
    // Sizes are columns from 2 on: 4KiB, 64KiB, 1MiB, 8MiB, 32MiB, 256MiB. 548.4 µs over 314.6 µs is 1.743; the noise
    // of these two is below 1 %, and weather in the samples makes either 0 to 5 % longer.
    let sync = cell(&tables, "| strategy | 4KiB", "`sync`", 7);
    let (time, ratio) = sync.split_once(" (").expect("a time and a ratio");
    let time: f64 = time.parse().expect("a number");
    let ratio: f64 = ratio.trim_end_matches("x)").parse().expect("a number");
    assert!(
        (time / 548.4 - 1.0).abs() < 0.05 && (ratio / 1.743 - 1.0).abs() < 0.02,
        "{sync}"
    );
    assert_eq!(
        cell(&tables, "| threshold | 1MiB", "half the size", 6),
        "0; 134,217,728"
    );
    assert_eq!(cell(&tables, "| threshold | 1MiB", "(`hoisted`)", 6), "");
    // Prose is broken into lines.
    let prose = tables.replace('\n', " ");
    assert!(prose.contains("kept 33,554,432 bytes or more, or nothing"));
    assert!(prose.contains("`hoisted` at 4KiB goes from ") && prose.contains("`stream_ordered` at 4KiB goes from "));
    assert!(
        tables
            .lines()
            .all(|line| line.starts_with('|') || line.chars().count() <= 120)
    );
    assert!(!tables.contains("noop` |"));
}

#[test]
fn another_baseline_gives_another_block() {
    // The planted slowdown of stream_ordered, and nothing of the loop without allocation.
    let of = |recording: &Recording, strategy: &str| -> f64 {
        let tables = tables(recording);
        let cell = cell(&tables, "| strategy | 4KiB", strategy, 7);
        let time = cell.split(" (").next().expect("a time");
        time.parse().expect("a number")
    };
    let ratio = |strategy: &str| of(&Recording::slower_stream_ordered(), strategy) / of(&Recording::base(), strategy);
    let (planted, other) = (ratio("`stream_ordered`"), ratio("`hoisted`"));
    // The weather, which both share, makes either up to 5 % longer.
    assert!((planted / other - 1.08).abs() < 0.02, "{planted} against {other}");
    assert!((other - 1.0).abs() < 0.06, "{other}");
}

#[test]
fn a_workload_that_is_missing_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut baseline = Recording::base().baseline();
    let kept = |id: &String| !id.starts_with("release_threshold/");
    baseline.manifest.benchmarks.retain(kept);
    baseline.manifest.host_bound.retain(kept);
    for launch in &mut baseline.launches {
        launch.samples.retain(|id, _| kept(id));
    }
    synthetic_baseline::write(&mut baseline, "part", folder.path());
    let input = Input::named("part", folder.path()).expect("it was just written");
    let refused = readme_tables(&input).expect_err("no thresholds").to_string();
    assert!(
        refused.contains("part") && refused.contains("release_threshold"),
        "{refused}"
    );
}
