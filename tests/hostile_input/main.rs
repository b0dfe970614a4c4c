//! Input that means harm, through the commands: it is refused in one line, or shown harmlessly.

#![allow(missing_docs, reason = "tests")]

mod depth;
#[path = "../noise/mod.rs"]
mod noise;
mod numbers;
mod places;
#[path = "../common/recorded.rs"]
mod recorded;
mod size;
mod texts;

use noise::Recording;
use poolbench::baseline::hexadecimal;
use recorded::{Desk, Ran, cases, recorded};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::Path;

const ID: &str = "scratch_loop/sync/4KiB";
/// Moves a cursor, sets a title, turns the direction of writing, breaks a line.
const ESCAPES: &str = "\u{1b}[2J\u{1b}]0;t\u{7}\u{9b}1m\u{202e}\u{2066}\r\nx";

/// A baseline of one benchmark as its files hold it: the manifest, and the launches.
type Files = (Value, Vec<Value>);

/// Writes a baseline with its files edited, and with the hash that fits them.
fn plant(desk: &Desk, name: &str, edit: impl FnOnce(&mut Files)) {
    let cases = cases("scratch_loop", noise::Kind::GpuBound, &["sync"], &["4KiB"], 1);
    let folder = desk.keep(name, recorded(&cases, &[Recording::new("s", 8, 0.0)], "580.159.04", 1));
    let read = |file: &str| fs::read_to_string(folder.join(file)).expect("it was written");
    let parsed = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    let launches = read("launches.jsonl").lines().map(parsed).collect();
    let mut files: Files = (parsed(&read("manifest.json")), launches);
    edit(&mut files);
    let lines: String = files.1.iter().map(|launch| format!("{launch}\n")).collect();
    rehashed(&folder, files.0, &lines);
}

/// Writes launches, and a manifest that gives their hash.
fn rehashed(folder: &Path, mut manifest: Value, launches: &str) {
    manifest["sha256"]["launches.jsonl"] = hexadecimal(&Sha256::digest(launches)).into();
    fs::write(folder.join("launches.jsonl"), launches).expect("it can be written");
    fs::write(folder.join("manifest.json"), manifest.to_string()).expect("it can be written");
}

fn harmless(text: &str) {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let obeyed = text.chars().find(|&c| (c.is_control() && c != '\n') || turns(c));
    assert_eq!(obeyed, None, "{text:?}");
}

/// Runs every command that reads a baseline of this name; returns what each did.
fn read_by_all(desk: &Desk, name: &str) -> Vec<Ran> {
    let commands: [&[&str]; 11] = [
        &["list"],
        &["list", "--format", "json"],
        &["compare", name, name, "--all"],
        &["compare", name, name, "--format", "markdown"],
        &["compare", name, name, "--format", "json"],
        &["compare", name, name, "--format", "html"],
        &["report", name],
        &["report", name, "--readme-tables"],
        &["calibrate", name, "--splits", "3"],
        &["calibrate", name, "--splits", "3", "--format", "json"],
        &["install", name],
    ];
    let ran: Vec<Ran> = commands
        .into_iter()
        .map(|arguments| desk.poolbench(arguments))
        .collect();
    for ran in &ran {
        harmless(&ran.stdout);
        harmless(&ran.stderr);
        assert!(matches!(ran.code, Some(0 | 3)), "{ran:?}");
        assert!(
            ran.stderr.lines().count() <= 1 && !ran.stderr.contains("panicked"),
            "{ran:?}"
        );
        assert_eq!(ran.code == Some(3), !ran.stderr.is_empty(), "{ran:?}");
    }
    ran
}
