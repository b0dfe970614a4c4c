//! Much from little: compressed files, wide tables, long messages; and output that goes nowhere.

use super::recorded::Desk;
use super::{harmless, plant};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Write as _;
use std::process::{Command, Stdio};

#[test]
fn a_compressed_bomb_is_refused() {
    let desk = Desk::new();
    // 160 MiB from 160 KiB: empty lines, a line without end, blanks within JSON, zeros.
    for (start, filling) in [
        ("Thread,Time,Action,Pointer,Size,Stream\n", &[b'\n'; 1 << 20]),
        ("Thread,Time,Action,Pointer,Size,Stream\n", &[b'0'; 1 << 20]),
        ("{\"traceEvents\":[", &[b' '; 1 << 20]),
        ("\u{0}", &[0; 1 << 20]),
    ] {
        let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        bomb.write_all(start.as_bytes()).expect("memory");
        for _ in 0..(160 << 20) / filling.len() {
            bomb.write_all(filling).expect("memory");
        }
        fs::write(desk.path().join("bomb.gz"), bomb.finish().expect("memory")).expect("a file");
        let size = fs::metadata(desk.path().join("bomb.gz")).expect("it is there").len();
        assert!(size < 700_000, "{size}");
        for command in ["trace", "replay"] {
            let ran = desk.poolbench(&[command, "bomb.gz"]);
            assert!(ran.refused(3).contains("bomb.gz: "), "{ran:?}");
        }
    }
}

#[test]
fn one_long_text_does_not_widen_every_row() {
    let desk = Desk::new();
    plant(&desk, "old", |_| {});
    let estimate = json!({"criterion_estimates_v1": {"median": {"point_estimate": 100.0}}});
    let long = "w".repeat(1 << 20);
    let mut benchmarks: serde_json::Map<String, Value> =
        (0..1000).map(|n| (format!("g/f/{n}"), estimate.clone())).collect();
    benchmarks.insert(long.clone(), estimate);
    fs::write(
        desk.path().join("e.json"),
        json!({"name": "n", "benchmarks": benchmarks}).to_string(),
    )
    .expect("a file");
    let ran = desk.poolbench(&["compare", "e.json", "e.json", "--all"]);
    // A thousand rows as wide as the long id would be a gigabyte.
    assert!(
        ran.code == Some(0) && ran.stdout.len() < 4_000_000,
        "{} bytes",
        ran.stdout.len()
    );
    assert!(ran.stdout.contains("an id of 1048576 bytes"), "it is left out by name");
    for place in ["benchmarks", "skipped"] {
        plant(&desk, "old", |(manifest, _)| {
            manifest[place] = match place {
                "skipped" => json!([{"id": long, "reason": "r"}]),
                _ => json!([long]),
            }
        });
        let ran = desk.poolbench(&["compare", "old", "old", "--all"]);
        assert!(ran.refused(3).contains("an id of 1048576 bytes"), "{place}");
    }
    plant(&desk, "old", |(manifest, _)| {
        manifest["skipped"] = json!([{"id": "a", "reason": long}]);
        for field in ["name", "cuda_version", "driver_version"] {
            manifest["environment"]["device"][field] = long.as_str().into();
        }
    });
    let ran = desk.poolbench(&["list"]);
    assert!(
        ran.code == Some(0) && ran.stdout.len() < 100_000,
        "{} bytes",
        ran.stdout.len()
    );
    let ran = desk.poolbench(&["compare", "old", "old", "--format", "markdown"]);
    assert!(
        ran.code == Some(0) && ran.stdout.len() <= 65_536,
        "{} bytes",
        ran.stdout.len()
    );
}

#[test]
fn a_comment_keeps_its_size_where_everything_differs_at_length() {
    let desk = Desk::new();
    for (name, character) in [("old", '@'), ("new", '#')] {
        plant(&desk, name, |(manifest, launches)| {
            let text = character.to_string().repeat(1000);
            for setting in ["filter", "label", "injected_fault"] {
                manifest["settings"][setting] = text.as_str().into();
            }
            for (part, fields) in [
                (
                    "device",
                    &["name", "uuid", "compute_capability", "driver_version", "cuda_version"][..],
                ),
                ("host", &["os", "kernel", "cpu"]),
                ("build", &["version", "commit", "rustc", "profile"]),
                ("toolkit", &["ptx_origin", "ptx_isa", "ptx_sha256"]),
            ] {
                for field in fields {
                    manifest["environment"][part][field] = text.as_str().into();
                }
            }
            for launch in launches {
                launch["session"] = text.as_str().into();
            }
        });
    }
    let ran = desk.poolbench(&["compare", "old", "new", "--allow-mismatch", "--format", "markdown"]);
    assert!(
        ran.code == Some(0) && ran.stdout.len() <= 65_536,
        "{} bytes",
        ran.stdout.len()
    );
    assert!(ran.stdout.ends_with("</details>\n"), "{}", ran.stdout);
}

#[test]
fn messages_are_short_whatever_they_quote() {
    let desk = Desk::new();
    let long = "w\n".repeat(1 << 20);
    for place in ["format", "complete", "settings", "launches"] {
        plant(&desk, "old", |(manifest, _)| manifest[place] = long.as_str().into());
        let ran = desk.poolbench(&["compare", "old", "old"]);
        assert!(
            ran.refused(3).len() < 10_000 && ran.stderr.contains("record"),
            "{place}: {} bytes",
            ran.stderr.len()
        );
        assert!(desk.poolbench(&["list"]).stdout.len() < 10_000, "{place}");
    }
    plant(&desk, "old", |(_, launches)| {
        launches[1]["samples"] = json!({&long: {"iters": [1], "times_ns": [1]}})
    });
    assert!(desk.poolbench(&["compare", "old", "old"]).refused(3).len() < 10_000);
    fs::write(
        desk.path().join("e.json"),
        json!({"name": long, "benchmarks": {}}).to_string(),
    )
    .expect("a file");
    assert!(desk.poolbench(&["compare", "e.json@x", "old"]).refused(3).len() < 10_000);
}

#[test]
fn output_that_cannot_be_written_is_no_panic() {
    let desk = Desk::new();
    plant(&desk, "old", |_| {});
    let log = "Thread,Time,Action,Pointer,Size,Stream\n1,16:33:00.1,allocate,0x10,8,0\n";
    fs::write(desk.path().join("t.csv"), log).expect("a file");
    let commands: [&[&str]; 9] = [
        &["list"],
        &["doctor"],
        &["api-summary"],
        &["compare", "old", "old"],
        &["report", "old"],
        &["calibrate", "old", "--splits", "3"],
        &["install", "old"],
        &["trace", "t.csv"],
        &["replay", "t.csv", "--strategy", "sync", "--repeats", "1"],
    ];
    let run = |arguments: &[&str], out: Stdio, err: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_poolbench"));
        command
            .args(arguments)
            .current_dir(desk.path())
            .env("POOLBENCH_DEVICE", "host");
        command.stdout(out).stderr(err).output().expect("it starts")
    };
    let gone = || {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        Stdio::from(writer)
    };
    for arguments in commands {
        let full = File::options().write(true).open("/dev/full").expect("Linux has it");
        let output = run(arguments, full.into(), Stdio::piped());
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        harmless(&stderr);
        let last = stderr.lines().last().unwrap_or_default();
        assert!(
            output.status.code() == Some(3) && last.contains("cannot write to standard output"),
            "{stderr}"
        );
        // A reader that has seen enough, on both.
        let output = run(arguments, gone(), gone());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    }
    for arguments in [
        ["trace", "nowhere"],
        ["replay", "nowhere"],
        ["install", "nowhere"],
        ["report", "nowhere"],
    ] {
        assert_eq!(run(&arguments, gone(), gone()).status.code(), Some(3), "{arguments:?}");
    }
}

#[test]
fn ids_that_share_no_axis_make_no_grid() {
    let desk = Desk::new();
    plant(&desk, "old", |(manifest, launches)| {
        let mut ids: Vec<String> = (0..2000).map(|n| format!("g/f{n}/v{n}")).collect();
        ids.sort();
        for launch in launches {
            let sample = json!({"iters": [1], "times_ns": [100]});
            launch["samples"] = ids.iter().map(|id| (id.clone(), sample.clone())).collect();
        }
        manifest["benchmarks"] = json!(ids);
    });
    let ran = desk.poolbench(&["report", "old", "--out", "page.html"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let page = fs::read_to_string(desk.path().join("page.html")).expect("it was written");
    // Four million cells would be 40 MB at least; a row for each benchmark is there all the same.
    assert!(page.len() < 10_000_000, "{} bytes", page.len());
    assert!(page.contains("f1999"), "a benchmark of a dropped grid is still listed");
}
