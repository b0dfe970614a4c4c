//! A full disk: a file system of a few pages in a mount namespace of its own, where that is permitted.

use super::support::{Place, stderr, stdout};
use std::process::Command;

/// Runs a script in which `$RECORD` is the recording command. `None` where nothing can be mounted.
fn in_own_mounts(place: &Place, script: &str) -> Option<std::process::Output> {
    let record = format!(
        "'{}' record --executables '{}'",
        env!("CARGO_BIN_EXE_poolbench"),
        place.executables().display()
    );
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--map-root-user", "--", "sh", "-c"])
        .arg(format!(
            "mkdir tried && mount -t tmpfs tmpfs tried && umount tried && rmdir tried || exit 77\n{script}"
        ))
        .current_dir(place.path())
        .env("RECORD", record)
        .env("TMPDIR", place.path().join("tmp"))
        .env("STAND_IN_LOG", place.path().join("log"))
        .env_remove("CARGO_TARGET_DIR");
    let Ok(output) = command.output() else {
        println!("SKIPPED: no unshare to mount a small file system with");
        return None;
    };
    if output.status.code() == Some(77) || stderr(&output).contains("unshare: ") {
        println!("SKIPPED: no small file system can be mounted here");
        return None;
    }
    Some(output)
}

/// The state fills its file system after some launches; with more room the recording goes on.
#[test]
fn a_full_disk_ends_the_recording_and_room_lets_it_go_on() {
    let place = Place::with_stand_ins();
    let script = "mkdir target && mount -t tmpfs -o size=24k tmpfs target
        sh -c \"$RECORD --name n --launches 40\"; echo \"code $?\" >&2
        ls criterion-baselines >&2
        mount -o remount,size=4m target
        sh -c \"$RECORD --resume\"; echo \"code $?\" >&2";
    let Some(output) = in_own_mounts(&place, script) else {
        return;
    };
    let text = stderr(&output);
    let failed = text
        .lines()
        .position(|line| line == "code 3")
        .unwrap_or_else(|| panic!("{text}{}", stdout(&output)));
    let last = text.lines().nth(failed - 1).expect("a line");
    assert!(
        last.starts_with("poolbench: target/poolbench/recordings/n/launches.jsonl: No space left on device")
            && last.contains("of 40 launches are kept"),
        "{last}"
    );
    assert!(text.ends_with("code 0\n"), "{text}");
    assert_eq!(place.baseline("n").launches.len(), 40);
}

/// The baseline does not fit: nothing of it is left, and the recording waits for room.
#[test]
fn a_baseline_that_does_not_fit_is_not_there_at_all() {
    let place = Place::with_stand_ins();
    let script = "mkdir criterion-baselines && mount -t tmpfs -o size=12k tmpfs criterion-baselines
        sh -c \"$RECORD --name n --launches 40\"; echo \"code $?\" >&2
        ls -A criterion-baselines
        mount -o remount,size=4m criterion-baselines
        sh -c \"$RECORD --resume\"; echo \"code $?\" >&2";
    let Some(output) = in_own_mounts(&place, script) else {
        return;
    };
    let text = stderr(&output);
    let failed = text
        .lines()
        .position(|line| line == "code 3")
        .unwrap_or_else(|| panic!("{text}"));
    let last = text.lines().nth(failed - 1).expect("a line");
    assert!(
        last.contains("cannot write criterion-baselines/n: No space left on device")
            && last.contains("40 of 40 launches are kept"),
        "{last}"
    );
    // Between the two runs nothing was listed; the second says where its baseline is.
    assert!(
        stdout(&output).starts_with("criterion-baselines/n: 4 benchmarks"),
        "{}",
        stdout(&output)
    );
    assert!(text.ends_with("code 0\n"), "{text}");
}
