//! What every fuzz target checks of a side of a comparison.

use poolbench::baseline::{Input, hexadecimal, inventory};
use poolbench::report::{
    COMMENT_BYTES_MAX, CalibrationReport, CompareRequest, Compared, HtmlReport, OneLine, calibration_json,
    calibration_text, comparison_json, comparison_markdown, comparison_text, inventory_json, inventory_text,
    readme_tables,
};
use poolbench::stats::{CalibrationPlan, Options, calibrate};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tempfile::TempDir;

/// Benchmarks and launches that are made to fit a manifest: enough for verdicts.
const BENCHMARKS_MAX: usize = 8;
const LAUNCHES_MAX: u64 = 8;
/// Halvings: enough to pass through the code.
const SPLITS: usize = 3;

/// A folder of this process, in memory where there is such a place. The next input writes over it.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let in_memory = Path::new("/dev/shm");
            let folder = match in_memory.is_dir() {
                true => tempfile::tempdir_in(in_memory),
                false => tempfile::tempdir(),
            };
            folder.expect("a temporary folder")
        })
        .path()
}

/// Writes a file into the folder of this process.
pub fn put(path: impl AsRef<Path>, bytes: &[u8]) -> PathBuf {
    let path = folder().join(path);
    fs::create_dir_all(path.parent().expect("a folder of it")).expect("a folder");
    fs::write(&path, bytes).expect("room for a small file");
    path
}

/// Reads a baseline of this manifest, and of the launches with their hash and number in it, where both are JSON.
pub fn check_baseline(manifest: &[u8], launches: &[u8]) {
    put("baselines/b/launches.jsonl", launches);
    put("baselines/b/manifest.json", manifest);
    check_named("b");
    if let Ok(Value::Object(mut object)) = serde_json::from_slice(manifest) {
        let lines = String::from_utf8_lossy(launches).lines().count();
        object.insert("launches".into(), lines.into());
        let hash = hexadecimal(&Sha256::digest(launches));
        object.insert("sha256".into(), serde_json::json!({ "launches.jsonl": hash }));
        put(
            "baselines/b/manifest.json",
            Value::Object(object).to_string().as_bytes(),
        );
        check_named("b");
    }
    let listed = inventory(&folder().join("baselines")).expect("the folder is there");
    harmless(&inventory_text(&listed));
    is_ascii_json(&inventory_json(&listed));
}

/// A manifest of a whole baseline of these ids, each once and sorted here.
pub fn manifest_of(mut ids: Vec<String>) -> Value {
    ids.sort();
    ids.dedup();
    let host_bound: Vec<&String> = ids.iter().step_by(2).collect();
    serde_json::json!({
        "format": 1, "name": "b", "created": "2026-11-30T00:00:00Z", "complete": true,
        "environment": {"device": {"name": "NVIDIA H200", "cuda_version": "13.0"}, "gpu": null, "host": {},
            "build": {"version": "0.1.0", "profile": "release", "case_definitions": 1}},
        "settings": {"warm_up_time_s": 0.002, "measurement_time_s": 0.01, "sample_size": 10},
        "benchmarks": ids, "host_bound": host_bound, "launches": 1, "sha256": {},
    })
}

/// Launches that hold the ids of a manifest; none where it names none.
pub fn launches_of(manifest: &[u8]) -> Vec<u8> {
    let manifest: Value = serde_json::from_slice(manifest).unwrap_or_default();
    let ids = manifest["benchmarks"].as_array().cloned().unwrap_or_default();
    let ids: Vec<&str> = ids.iter().filter_map(Value::as_str).take(BENCHMARKS_MAX).collect();
    let line = |launch: u64| {
        let samples = ids.iter().zip(1_u64..).map(|(id, index)| {
            let time_ns = 1000 * index + launch;
            (
                id.to_string(),
                serde_json::json!({"iters": [1, 2], "times_ns": [time_ns, 2 * time_ns]}),
            )
        });
        let samples: serde_json::Map<String, Value> = samples.collect();
        let launch = serde_json::json!({"launch": launch, "session": format!("s{}", launch % 2),
            "started": "2026-11-30T00:00:00Z", "order_seed": launch, "samples": samples});
        format!("{launch}\n")
    };
    let count = manifest["launches"].as_u64().unwrap_or(LAUNCHES_MAX).min(LAUNCHES_MAX);
    (0..count).map(line).collect::<String>().into_bytes()
}

/// Checks what a name leads to, as the commands read it.
pub fn check_named(name: &str) {
    match Input::named(name, &folder().join("baselines")) {
        Ok(input) => check_input(&input),
        Err(error) => one_line(&error),
    }
}

/// What is accepted compares with itself, in every form, and can be calibrated.
fn check_input(input: &Input) {
    let options = Options::default();
    let plan = CalibrationPlan {
        splits: SPLITS,
        ..CalibrationPlan::default()
    };
    match Compared::new(input.clone(), input.clone(), CompareRequest::default()) {
        Ok(compared) => {
            assert_eq!(compared.exit_code(), 0, "nothing changed: {}", compared.headline());
            harmless(&comparison_text(&compared, true));
            harmless(&comparison_text(&compared, false));
            let markdown = comparison_markdown(&compared);
            harmless(&markdown);
            assert!(markdown.len() <= COMMENT_BYTES_MAX, "{}", markdown.len());
            is_ascii_json(&comparison_json(&compared));
            let calibration = calibrate(&compared.base_side, &options, plan);
            let report = HtmlReport::of_comparison(&compared).with_calibration(&calibration);
            harmless(&report.page());
            harmless(&HtmlReport::of_one(&compared.base, &compared.base_side).page());
        }
        Err(error) => one_line(&error),
    }
    match CalibrationReport::new(input, &options, plan) {
        Ok(report) => {
            harmless(&calibration_text(&report));
            is_ascii_json(&calibration_json(&report));
        }
        Err(error) => one_line(&error),
    }
    match readme_tables(input) {
        Ok(tables) => harmless(&tables),
        Err(error) => one_line(&error),
    }
}

/// What the commands print of an error is one line of bounded length.
pub(crate) fn one_line(error: &impl Display) {
    let line = OneLine(&error.to_string()).to_string();
    assert!(!line.contains('\n') && line.len() < 40_000, "{line}");
    harmless(&line);
}

/// Nothing that a terminal obeys but line feeds.
pub(crate) fn harmless(text: &str) {
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let obeyed = text.chars().find(|&c| (c.is_control() && c != '\n') || turns(c));
    assert_eq!(obeyed, None, "{text:?}");
}

pub(crate) fn is_ascii_json(json: &Result<String, impl Display>) {
    match json {
        Ok(json) => {
            assert!(
                json.bytes().all(|byte| byte == b'\n' || (b' '..=b'~').contains(&byte)),
                "{json:?}"
            );
            assert!(serde_json::from_str::<Value>(json).is_ok(), "{json}");
        }
        Err(error) => panic!("{error}"),
    }
}
