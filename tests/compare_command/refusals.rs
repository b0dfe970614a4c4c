//! What cannot be compared is one line and exit 3, and nothing is written.

use super::noise::Recording;
use super::recorded::{Desk, recorded, suite};
use super::{SHARED, sides};
use serde_json::Value;
use std::fs;

/// Makes two environments differ.
type Edit = fn(&mut poolbench::environment::Environment);

#[test]
fn sides_that_measured_different_things_are_refused_one_by_one() {
    let desk = Desk::new();
    let cases = suite();
    let recording = [Recording::new("s", 8, 0.0)];
    desk.keep("old", recorded(&cases, &recording, "1", 1));
    let edits: [(&str, Edit); 5] = [
        ("device NVIDIA H200 against host", |it| {
            it.device.name = String::from("host")
        }),
        ("compute capability 9.0 against 10.0", |it| {
            it.device.compute_capability = Some(String::from("10.0"))
        }),
        ("build profile release against debug", |it| {
            it.build.profile = String::from("debug")
        }),
        ("case definitions 1 against 2", |it| it.build.case_definitions = 2),
        (
            "kernels (SHA-256 of the PTX) aa against bb (build both sides with NVCC=none",
            |it| it.toolkit.ptx_sha256 = String::from("bb"),
        ),
    ];
    for (says, edit) in edits {
        let mut other = recorded(&cases, &recording, "2", 2);
        edit(&mut other.manifest.environment);
        desk.keep("new", other);
        let ran = desk.poolbench(&["compare", "old", "new"]);
        assert!(ran.refused(3).contains(says), "{ran:?}");
        let allowed = desk.poolbench(&["compare", "old", "new", "--allow-mismatch"]);
        if says.ends_with("against host") {
            let never = "the host device's times are never compared with a GPU's";
            assert!(allowed.refused(3).contains(never), "{allowed:?}");
            continue;
        }
        assert_eq!(allowed.code, Some(0), "{allowed:?}");
        assert!(
            allowed
                .stdout
                .contains("compared although the sides measured different things")
        );
    }
    // All at once, each by its name.
    let mut other = recorded(&cases, &recording, "2", 2);
    edits.iter().for_each(|(_, edit)| edit(&mut other.manifest.environment));
    desk.keep("new", other);
    let ran = desk.poolbench(&["compare", "old", "new"]);
    for what in [
        "device",
        "compute capability",
        "build profile",
        "case definitions",
        "kernels",
    ] {
        assert!(ran.refused(3).contains(what), "{ran:?}");
    }
}

#[test]
fn flags_out_of_range_are_one_line_and_exit_2() {
    let desk = Desk::new();
    for arguments in [
        ["--min-effect", "abc"],
        ["--min-effect", "-0.1"],
        ["--min-effect", "nan"],
        ["--min-effect", "1"],
        ["--fdr", "0"],
        ["--fdr", "1e400"],
    ] {
        let ran = desk.poolbench(&[&["compare", "old", "new"], &arguments[..]].concat());
        ran.refused(2);
    }
}

#[test]
fn names_that_lead_nowhere_list_what_is_there() {
    let desk = Desk::new();
    assert!(
        desk.poolbench(&["compare", "a", "b"])
            .refused(3)
            .contains("there are none")
    );
    sides(&desk, &suite()[..2], 4, SHARED, |_| 1.0);
    let ran = desk.poolbench(&["compare", "old", "nwe"]);
    assert!(
        ran.refused(3)
            .contains("no baseline \"nwe\" in criterion-baselines; there are new, old"),
        "{ran:?}"
    );
    for hostile in [
        "..",
        "../x",
        "criterion-baselines/../../nowhere",
        "/dev/null",
        "/dev/zero",
        "a@b",
        "@",
        "",
        "\u{1b}[2J\u{202e}",
        "x\ny",
        "/",
        ".",
    ] {
        let ran = desk.poolbench(&["compare", "old", hostile]);
        let line = ran.refused(3);
        assert!(!line.contains('\u{1b}') && !line.contains('\u{202e}'), "{line:?}");
    }
    // A name that is two things is neither.
    fs::create_dir(desk.path().join("old")).expect("a folder");
    fs::write(desk.path().join("old/manifest.json"), "{}").expect("a file");
    let ran = desk.poolbench(&["compare", "old", "new"]);
    assert!(
        ran.refused(3).contains("write criterion-baselines/old or ./old"),
        "{ran:?}"
    );
    let entries = fs::read_dir(desk.path()).expect("it is there").count();
    assert_eq!(entries, 2, "nothing is written");
}

#[test]
fn baselines_that_are_damaged_are_one_line_and_exit_3() {
    let desk = Desk::new();
    sides(&desk, &suite()[..4], 4, SHARED, |_| 1.0);
    let folder = desk.baselines().join("new");
    let (manifest, launches) = (folder.join("manifest.json"), folder.join("launches.jsonl"));
    let whole = (
        fs::read_to_string(&manifest).expect("it is there"),
        fs::read(&launches).expect("it is there"),
    );
    let refused = |says: &str| {
        let ran = desk.poolbench(&["compare", "old", "new"]);
        assert!(ran.refused(3).contains(says), "{says}: {ran:?}");
    };
    fs::write(&launches, &whole.1[..whole.1.len() / 2]).expect("it can be written");
    refused("launches.jsonl: its SHA-256 is not the one in manifest.json");
    fs::remove_file(&launches).expect("it is there");
    refused("launches.jsonl: ");
    fs::write(&launches, &whole.1).expect("it can be written");
    fs::write(&manifest, &whole.0[..whole.0.len() / 3]).expect("it can be written");
    refused("cut short or edited");
    fs::write(&manifest, whole.0.replace("\"format\": 1", "\"format\": 2")).expect("it can be written");
    refused("format 2");
    fs::write(&manifest, whole.0.replace("\"complete\": true", "\"complete\": false")).expect("it can be written");
    refused("not complete");
    fs::write(&manifest, &whole.0).expect("it can be written");
    assert_eq!(desk.poolbench(&["compare", "old", "new"]).code, Some(0));
}

#[test]
fn a_file_is_written_whole_or_not_at_all() {
    let desk = Desk::new();
    sides(&desk, &suite()[..4], 4, SHARED, |_| 1.0);
    let out = desk.path().join("report.json");
    let ran = desk.poolbench(&["compare", "old", "new", "--format", "json", "--out", "report.json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.starts_with("No regression among 4 benchmarks"), "{ran:?}");
    let written: Value = serde_json::from_slice(&fs::read(&out).expect("it is there")).expect("JSON");
    assert_eq!(written["format"], 1);
    // A folder that is not there is made.
    let ran = desk.poolbench(&["compare", "old", "new", "--out", "folder/new/report.txt"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(desk.path().join("folder/new/report.txt").is_file());
    // A full disk, a folder in its place, a file in the place of its folder, a folder of the kernel's.
    for path in ["/dev/full", "folder", "report.json/report.json", "/proc/report.json"] {
        let ran = desk.poolbench(&["compare", "old", "new", "--out", path]);
        assert!(ran.refused(3).contains("cannot write"), "{path}: {ran:?}");
    }
    let mut names: Vec<_> = fs::read_dir(desk.path())
        .expect("it is there")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["criterion-baselines", "folder", "report.json"]);
}

/// An edit that the hash does not show.
fn planted(edit: impl Fn(&mut poolbench::baseline::Baseline)) -> String {
    let desk = Desk::new();
    sides(&desk, &suite()[..4], 4, SHARED, |_| 1.0);
    let mut edited = recorded(&suite()[..4], &[Recording::new("s", 4, 0.0)], "2", 2);
    edit(&mut edited);
    desk.keep("new", edited);
    desk.poolbench(&["compare", "old", "new"]).refused(3).to_owned()
}

#[test]
fn numbers_that_are_no_measurements_are_one_line_and_exit_3() {
    let id = suite()[0].id.to_string();
    // JSON has no NaN: the writer puts null there.
    for (time_ns, says) in [
        (f64::NAN, "invalid type: null"),
        (0.0, "0 is not above zero"),
        (-5.0, "-5 is not above zero"),
        (1e300, "cannot be a measurement"),
    ] {
        let line =
            planted(|edited| edited.launches[1].samples.get_mut(&id).expect("it is there").times_ns[2] = time_ns);
        assert!(line.contains("new/launches.jsonl:2: ") && line.contains(says), "{line}");
    }
    let line = planted(|edited| drop(edited.launches[3].samples.remove(&id)));
    assert!(
        line.contains("launches.jsonl:4: launch 3 lacks the benchmark"),
        "{line}"
    );
    let line = planted(|edited| edited.launches[3].launch = 0);
    assert!(line.contains("launch 0 of session \"s\" is given twice"), "{line}");
    let line = planted(|edited| edited.manifest.benchmarks.push(id.clone()));
    assert!(
        line.contains("manifest.json: benchmarks are not sorted, each once"),
        "{line}"
    );
    let line = planted(|edited| edited.launches.clear());
    assert!(line.contains("holds no launch"), "{line}");
}

#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let desk = Desk::new();
    let pipe = desk.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if !made.is_ok_and(|status| status.success()) {
        println!("SKIPPED: no mkfifo");
        return;
    }
    for arguments in [
        &["compare", "./pipe", "./pipe@x"][..],
        &["report", "./pipe"],
        &["calibrate", "./pipe"],
        &["trace", "pipe"],
        &["replay", "pipe"],
    ] {
        let ran = desk.poolbench(arguments);
        let line = ran.refused(3);
        assert!(
            line.contains("pipe: ") && line.contains("is not a file but a named pipe"),
            "{ran:?}"
        );
    }
    for arguments in [&["compare", "/dev/zero", "/dev/zero"][..], &["trace", "/dev/zero"]] {
        let ran = desk.poolbench(arguments);
        assert!(ran.refused(3).contains("is not a file but a device"), "{ran:?}");
    }
    // In a baseline, in a Criterion home, in a bundle, and in the place of a result.
    sides(&desk, &suite()[..4], 4, SHARED, |_| 1.0);
    fs::create_dir_all(desk.path().join("home/a/b/c/base")).expect("a folder");
    fs::create_dir(desk.path().join("bundle")).expect("a folder");
    for place in ["home/a/b/c/base/sample.json", "bundle/bundle.json"] {
        fs::hard_link(&pipe, desk.path().join(place)).expect("another name of the pipe");
    }
    let ran = desk.poolbench(&["compare", "home@base", "new"]);
    assert!(ran.refused(3).contains("is not a file but a named pipe"), "{ran:?}");
    let ran = desk.poolbench(&["record", "--executables", "bundle"]);
    assert!(ran.refused(3).contains("is not a file but a named pipe"), "{ran:?}");
    let ran = desk.poolbench(&["compare", "old", "new", "--out", "pipe"]);
    assert!(ran.refused(3).contains("cannot write pipe: nobody reads"), "{ran:?}");
    fs::remove_file(desk.baselines().join("new/manifest.json")).expect("it is there");
    fs::hard_link(&pipe, desk.baselines().join("new/manifest.json")).expect("another name of the pipe");
    let ran = desk.poolbench(&["compare", "old", "new"]);
    assert!(ran.refused(3).contains("manifest.json: is not a file"), "{ran:?}");
}
