//! Criterion's flags: what is wrong with them is said before a device is opened, and costs no measurement.

use super::{Bench, QUICK, assert_refused_as, own_lines, stderr, stdout};
use std::fs;
use std::process::Command;

/// One line, exit 2, and nothing was made.
fn assert_wrong_usage(bench: &Bench, arguments: &[&str], says: &str) {
    let mut command = bench.command(arguments);
    // There is no such device, which nobody is to find out.
    let output = command
        .env("POOLBENCH_DEVICE", "cuda:99")
        .output()
        .expect("the bench starts");
    assert_refused_as(&output, 2, says);
    assert_eq!(stderr(&output).lines().count(), 1, "{arguments:?}: {output:?}");
    assert_eq!(fs::read_dir(bench.target.path()).expect("a folder").count(), 0);
}

#[test]
fn values_that_criterion_would_stop_at_are_wrong_usage() {
    let bench = Bench::new("scratch_loop");
    for (arguments, says) in [
        (
            &["--sample-size", "5"][..],
            "--sample-size 5: give a number from 10 to 100000",
        ),
        (
            &["--sample-size", "1000000000000000"],
            "--sample-size 1000000000000000: give",
        ),
        (
            &["--measurement-time", "0"],
            "--measurement-time 0: give seconds above 0",
        ),
        (&["--measurement-time", "1e30"], "at most 3600"),
        (&["--warm-up-time", "0"], "--warm-up-time 0: give seconds above 0"),
        (&["--warm-up-time", "nan"], "--warm-up-time NaN: give seconds above 0"),
        (&["--warm-up-time=-1"], "--warm-up-time -1: give seconds above 0"),
        (&["--noise-threshold", "0"], "--noise-threshold 0: give a share above 0"),
        (
            &["--noise-threshold", "inf"],
            "--noise-threshold inf: give a share above 0",
        ),
        (
            &["--confidence-level", "1"],
            "--confidence-level 1: give a number between 0 and 1",
        ),
        (
            &["--significance-level", "nan"],
            "--significance-level NaN: give a number between",
        ),
        (
            &["--nresamples", "0"],
            "--nresamples 0: give a number from 2 to 1000000",
        ),
        (&["--nresamples", "1"], "--nresamples 1: give a number from 2"),
        (&["--profile-time", "0"], "--profile-time 0: give seconds from 1"),
        (
            &["("],
            "the filter \"(\" is no regular expression: unclosed group; --exact",
        ),
    ] {
        assert_wrong_usage(&bench, arguments, says);
    }
}

/// `new` is where Criterion keeps the measurement itself: saved there, it was emptied.
#[test]
fn names_under_which_nothing_can_be_kept_are_wrong_usage() {
    let bench = Bench::new("scratch_loop");
    for name in ["new", "report", "change", "", "../../x", "a/b", ".", "a b"] {
        assert_wrong_usage(&bench, &["--save-baseline", name], "--save-baseline: ");
    }
    for flag in ["--baseline", "--baseline-lenient"] {
        for name in ["new", "report", "change", "", "../../x"] {
            assert_wrong_usage(&bench, &[flag, name], &format!("{flag}: "));
        }
    }
    let load = ["--baseline", "base", "--load-baseline", "a/b"];
    assert_wrong_usage(&bench, &load, "--load-baseline: \"a/b\" is no name of a baseline");
}

#[test]
fn the_smallest_numbers_are_enough_for_criterion() {
    let bench = Bench::new("scratch_loop");
    let arguments = [
        "--bench",
        "--noplot",
        "--warm-up-time",
        "0.000000001",
        "--measurement-time",
        "0.000000001",
    ];
    let numbers = [
        "--sample-size",
        "10",
        "--nresamples",
        "2",
        "--confidence-level",
        "0.9999999",
    ];
    let output = bench.run(&[&arguments[1..], &numbers, &["hoisted/4KiB"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("| 4KiB | hoisted"), "{}", stdout(&output));
}

#[test]
fn help_and_wrong_flags_need_no_device() {
    let bench = Bench::new("scratch_loop");
    let with = |arguments: &[&str]| {
        let mut command = bench.command(arguments);
        command
            .env("POOLBENCH_DEVICE", "cuda:99")
            .output()
            .expect("the bench starts")
    };
    let help = with(&["--help"]);
    assert!(
        help.status.success() && stdout(&help).contains("--save-baseline"),
        "{help:?}"
    );
    let wrong = with(&["--no-such-flag"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    assert!(
        stderr(&wrong).contains("--no-such-flag") && own_lines(&wrong).is_empty(),
        "{wrong:?}"
    );
}

#[test]
fn the_last_line_names_no_report_of_an_earlier_run() {
    let bench = Bench::new("scratch_loop");
    let names_report = |arguments: &[&str]| {
        let output = bench.run(&[arguments, &["hoisted/4KiB"]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        own_lines(&output).iter().any(|line| line.contains("report: "))
    };
    assert!(names_report(&QUICK[1..]), "it is made");
    assert!(!names_report(&QUICK));
    assert!(!names_report(&["--test"]));
}

/// Colours are for terminals only, so there has to be one.
#[test]
fn no_color_is_heeded_unless_the_command_line_says_otherwise() {
    let bench = Bench::new("scratch_loop");
    let colored = |variable: &str, more: &str| {
        let quick = QUICK.join(" ");
        let line = format!("{} --bench {quick} {more} hoisted/4KiB", bench.executable.display());
        let mut command = Command::new("script");
        command.args(["-q", "-e", "-c", &line, "/dev/null"]);
        command.env("CARGO_TARGET_DIR", bench.target.path());
        command.env("POOLBENCH_DEVICE", "host").env("NO_COLOR", variable);
        let output = command.output().ok()?;
        assert!(output.status.success(), "{output:?}");
        // Bold and colours; Criterion also clears lines, which is none.
        Some(stdout(&output).contains("\u{1b}[1m") || stdout(&output).contains("\u{1b}[3"))
    };
    let Some(usual) = colored("", "") else {
        println!("SKIPPED: no script(1) to make a terminal");
        return;
    };
    assert!(usual);
    assert_eq!(colored("1", ""), Some(false));
    assert_eq!(colored("1", "--color always"), Some(true));
}
