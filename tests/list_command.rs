//! `poolbench list`.

mod noise;
#[path = "common/recorded.rs"]
mod recorded;

use noise::Recording;
use recorded::{Desk, recorded, suite};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn an_empty_folder_is_no_failure() {
    let desk = Desk::new();
    let ran = desk.poolbench(&["list"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(ran.stdout.starts_with("no baselines in criterion-baselines"), "{ran:?}");
    assert_eq!(
        desk.poolbench(&["list", "--format", "json"]).json(),
        json!({"format": 1, "baselines": []})
    );
}

#[test]
fn every_baseline_has_its_line_and_what_is_none_its_reason() {
    let desk = Desk::new();
    let sessions = [Recording::new("s", 3, 0.0), Recording::new("t", 2, 0.0)];
    let whole = desk.keep("whole", recorded(&suite()[..3], &sessions, "580.159.04", 1));
    let cut = desk.keep("cut", recorded(&suite()[..3], &sessions, "580.159.04", 1));
    let launches = fs::read(cut.join("launches.jsonl")).expect("it is there");
    fs::write(cut.join("launches.jsonl"), &launches[..100]).expect("it can be written");
    let baselines = desk.baselines();
    fs::create_dir(baselines.join(".partial-1-x")).expect("a folder");
    fs::create_dir(baselines.join("empty")).expect("a folder");
    fs::create_dir(baselines.join("\u{1b}[31mred")).expect("a folder");
    fs::write(baselines.join("README.md"), "").expect("a file");
    symlink(&whole, baselines.join("linked")).expect("a link");
    symlink("/", baselines.join("root")).expect("a link");
    symlink("nowhere", baselines.join("dangling")).expect("a link");
    let ran = desk.poolbench(&["list"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(!ran.stdout.contains('\u{1b}'), "{:?}", ran.stdout);
    let row = |name: &str| {
        let line = ran.stdout.lines().find(|line| line.starts_with(&format!("| {name} ")));
        let cells: Vec<&str> = line.expect(name).split('|').map(str::trim).collect();
        cells[2..10].join(" ")
    };
    let holds = "NVIDIA H200 580.159.04 13.0 5 2 3 2026-11-30T00:00:00Z whole";
    assert_eq!(row("whole"), holds);
    assert_eq!(row("linked"), format!("{holds} (link)"));
    assert_eq!(row("cut"), "- - - - - - - invalid");
    assert!(
        ran.stdout
            .contains("  cut: criterion-baselines/cut/launches.jsonl: its SHA-256 is not"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout
            .contains("  empty: criterion-baselines/empty/manifest.json: "),
        "{}",
        ran.stdout
    );
    let json = desk.poolbench(&["list", "--format", "json"]).json();
    let names: Vec<_> = json["baselines"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| entry["name"].clone())
        .collect();
    assert_eq!(names, ["\u{1b}[31mred", "cut", "empty", "linked", "whole"]);
    assert_eq!(
        (&json["baselines"][1]["valid"], &json["baselines"][1]["launches"]),
        (&false.into(), &serde_json::Value::Null)
    );
    assert_eq!(
        (&json["baselines"][4]["sessions"], &json["baselines"][4]["driver"]),
        (&2.into(), &"580.159.04".into())
    );
}
