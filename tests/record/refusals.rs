//! Everything that is refused before anything is measured, each in one line.

use super::support::{Place, refusal};
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn flags_that_make_no_recording_are_wrong_usage() {
    let place = Place::with_stand_ins();
    let two = ["--side", "a", "--side"];
    for (arguments, says) in [
        (
            &["--filter", "a("][..],
            "--filter \"a(\" is no regular expression: unclosed group",
        ),
        (&["--launches", "0"], "--launches 0 would record nothing"),
        (
            &["--launches", "9223372036854775808"],
            "--launches 9223372036854775808 are more than a baseline holds; give 4096 or fewer",
        ),
        (&[&two[..], &["b", "--launches", "4097"]].concat(), "give 4096 or fewer"),
        (
            &["--sample-size", "18446744073709551615"],
            "--sample-size: give 100000 samples or fewer",
        ),
        (&["--measurement-time", "0"], "--measurement-time: give seconds above 0"),
        (&["--warm-up-time", "nan"], "--warm-up-time: give seconds above 0"),
        (&["--sample-size", "9"], "Criterion takes 10 samples or more"),
        (&["--libcuda", "old=/a"], "give --libcuda LABEL=PATH exactly twice"),
        (&[&two[..], &["a"]].concat(), "both sides are labelled \"a\""),
        (
            &[&two[..], &["../b"]].concat(),
            "the label \"../b\" must be fit for a file name",
        ),
        (
            &["--libcuda", "a=/a", "--libcuda", "b=/b"],
            "POOLBENCH_DEVICE=host measures none",
        ),
    ] {
        let last = refusal(&mut place.record(arguments), 2);
        assert!(last.starts_with("poolbench: ") && last.contains(says), "{last}");
    }
    assert!(place.starts("first").is_empty() && !place.has_baselines());
}

#[test]
fn names_that_lead_out_of_the_folder_are_refused() {
    let place = Place::with_stand_ins();
    for name in ["a/b", "..", "../x", "/etc", ""] {
        let last = refusal(&mut place.record(&["--name", name]), 3);
        assert!(last.contains("is no name of a baseline"), "{name}: {last}");
    }
    assert!(place.starts("first").is_empty());
}

/// Whatever a flag holds, the refusal is one line.
#[test]
fn a_folder_whose_name_breaks_lines_does_not_break_the_message() {
    let place = Place::with_stand_ins();
    let mut command = place.poolbench(&["record", "--executables", "no\nsuch\u{1b}[2Jbundle"]);
    let last = refusal(&mut command, 3);
    assert!(
        last.starts_with("poolbench: no\\nsuch\\u{1b}[2Jbundle: no bundle"),
        "{last}"
    );
}

/// Folders that refuse everybody, the superuser too: one that is a file, and one of the kernel's.
#[test]
fn a_folder_that_cannot_be_written_is_refused_before_anything_is_measured() {
    let place = Place::with_stand_ins();
    let baselines = place.path().join("criterion-baselines");
    fs::write(&baselines, "").expect("a file");
    let last = refusal(&mut place.record(&["--name", "n"]), 3);
    assert!(
        last.contains("cannot write criterion-baselines") && last.contains("nothing was changed"),
        "{last}"
    );
    fs::remove_file(&baselines).expect("it is there");
    symlink("/proc/sys/kernel", &baselines).expect("a link");
    for name in [&["--name", "n"][..], &[]] {
        let last = refusal(&mut place.record(name), 3);
        assert!(last.contains("cannot write criterion-baselines"), "{last}");
    }
    fs::remove_file(&baselines).expect("it is there");
    let last = refusal(place.record(&[]).env("CARGO_TARGET_DIR", "/proc/sys/kernel"), 3);
    assert!(
        last.starts_with("poolbench: /proc/sys/kernel/poolbench/recordings: "),
        "{last}"
    );
    assert!(place.starts("first").is_empty() && !place.has_baselines());
}

#[test]
fn a_link_in_the_place_of_a_baseline_is_refused() {
    let place = Place::with_stand_ins();
    fs::create_dir(place.path().join("criterion-baselines")).expect("a folder");
    symlink(place.path().join("log"), place.path().join("criterion-baselines/n")).expect("a link");
    let last = refusal(&mut place.record(&["--name", "n", "--replace"]), 3);
    assert!(last.contains("is a symbolic link"), "{last}");
}
