//! Where results are kept, and that it is known before anything is measured.

use super::{Bench, QUICK, assert_refused, stderr};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

/// The folder is another's, and its surroundings are not ours.
#[test]
fn the_report_folder_of_a_user_is_kept_to() {
    let bench = Bench::new("scratch_loop");
    let surroundings = tempfile::tempdir().expect("a temporary folder");
    let home = surroundings.path().join("home");
    let mut command = bench.command(&[&QUICK[..], &["hoisted/4KiB"]].concat());
    assert!(
        command
            .env("CRITERION_HOME", &home)
            .output()
            .expect("the bench starts")
            .status
            .success()
    );
    assert!(home.join("scratch_loop/hoisted/4KiB/new/sample.json").is_file());
    assert!(home.join("runs/scratch_loop.json").is_file());
    assert!(!Path::new(&bench.home()).exists());
    let beside = fs::read_dir(surroundings.path()).expect("a folder");
    assert_eq!(beside.count(), 1, "only the home");
}

#[test]
fn a_home_that_cannot_be_written_is_refused_before_anything_is_measured() {
    let bench = Bench::new("scratch_loop");
    let file = bench.target.path().join("file");
    fs::write(&file, "").expect("a file");
    for wrong in [
        file.as_path(),
        &file.join("below"),
        Path::new("/dev/null"),
        Path::new("/proc/x"),
    ] {
        let mut command = bench.command(&[&QUICK[..], &["hoisted/4KiB"]].concat());
        let output = command.env("CRITERION_HOME", wrong).output().expect("the bench starts");
        assert_refused(&output, &format!("cannot keep results in {}: ", wrong.display()));
        assert!(
            stderr(&output).contains("point CRITERION_HOME at a folder"),
            "{output:?}"
        );
        assert!(!stderr(&output).contains("Benchmarking"), "{output:?}");
    }
    assert_eq!(fs::read(&file).expect("it is there"), b"");
    assert!(!Path::new("/dev/runs").exists());
}

#[test]
fn two_runs_at_once_do_not_share_a_home() {
    let bench = Bench::new("scratch_loop");
    fs::create_dir_all(bench.home()).expect("a folder");
    let mut lock = File::create(bench.home().join(".poolbench-lock")).expect("a file");
    lock.lock().expect("nobody has it");
    write!(lock, "4711").expect("room");
    let arguments = [&QUICK[..], &["hoisted/4KiB"]].concat();
    let refused = bench.run(&arguments);
    assert_refused(&refused, "another run (process 4711) measures into");
    assert!(!stderr(&refused).contains("Benchmarking"), "{refused:?}");
    // What only tries keeps nothing that two could mix up.
    assert!(bench.run(&["--test", "hoisted/4KiB"]).status.success());
    drop(lock);
    assert!(bench.run(&arguments).status.success());
}

/// Criterion logs an error, compares nothing, and ends as if all were well.
#[test]
fn a_hollow_baseline_is_refused_before_anything_is_measured() {
    let bench = Bench::new("scratch_loop");
    let with = |more: &[&str]| bench.run(&[&QUICK[..], more, &["hoisted/(4KiB|64KiB)"]].concat());
    assert!(with(&["--save-baseline", "before"]).status.success());
    let saved = bench.home().join("scratch_loop/hoisted/64KiB/before");
    let sample = fs::read_to_string(saved.join("sample.json")).expect("it is there");
    for (file, text, says) in [
        ("sample.json", "", "EOF while parsing"),
        (
            "sample.json",
            r#"{"iters":[1.0],"times":[1.0]}"#,
            "holds no two samples",
        ),
        (
            "sample.json",
            r#"{"iters":[1.0,2.0],"times":[null,1.0]}"#,
            "invalid type: null",
        ),
        ("estimates.json", "{}", "missing field `mean`"),
    ] {
        let whole = fs::read(saved.join(file)).expect("it is there");
        fs::write(saved.join(file), text).expect("room");
        for flag in ["--baseline", "--baseline-lenient"] {
            let refused = with(&[flag, "before"]);
            assert_refused(&refused, &saved.join(file).display().to_string());
            assert_refused(&refused, says);
            assert!(!stderr(&refused).contains("Benchmarking"), "{refused:?}");
        }
        fs::write(saved.join(file), whole).expect("room");
    }
    fs::remove_file(saved.join("sample.json")).expect("it is there");
    assert_refused(&with(&["--baseline", "before"]), "No such file");
    // What the filter leaves out is not looked at, and what is not there need not be for a lenient comparison.
    let others = [&QUICK[..], &["--baseline", "before", "hoisted/4KiB"]].concat();
    assert!(bench.run(&others).status.success());
    fs::remove_dir_all(&saved).expect("it is there");
    assert!(with(&["--baseline-lenient", "before"]).status.success());
    assert!(sample.len() > 100);
}
