//! Standard output that nobody reads, or that is full: no command panics, and no line is lost silently.

use std::fs::File;
use std::process::{Command, Output, Stdio};

const LOG: &str = "\
Thread,Time,Action,Pointer,Size,Stream
1,10:00:00.000000,allocate,0x7f0000000000,1024,0
1,10:00:00.000020,free,0x7f0000000000,1024,0
";

/// Runs every command that prints a result and needs no baseline.
fn each(stdout: impl Fn() -> Stdio, check: impl Fn(&str, Output)) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("log.csv"), LOG).expect("a file");
    for arguments in [
        "doctor",
        "list",
        "api-summary --size 4KiB --iterations 1",
        "trace log.csv",
        "trace log.csv --format json",
        "replay log.csv --strategy sync --repeats 1",
    ] {
        let child = Command::new(env!("CARGO_BIN_EXE_poolbench"))
            .args(arguments.split(' '))
            .current_dir(folder.path())
            .env("POOLBENCH_DEVICE", "host")
            .stdout(stdout())
            .stderr(Stdio::piped())
            .spawn();
        check(
            arguments,
            child.expect("it starts").wait_with_output().expect("it ends"),
        );
    }
}

/// What is said beside the progress of a replay.
fn complaints(output: &Output) -> Vec<String> {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines = stderr.lines().filter(|line| !line.starts_with("poolbench: round "));
    lines.map(str::to_owned).collect()
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let closed = || {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        Stdio::from(writer)
    };
    each(closed, |arguments, output| {
        assert!(output.status.success(), "{arguments}: {output:?}");
        assert_eq!(complaints(&output), Vec::<String>::new(), "{arguments}");
    });
}

#[test]
fn a_full_disk_is_one_line_and_exit_3() {
    let full = || Stdio::from(File::options().write(true).open("/dev/full").expect("Linux"));
    each(full, |arguments, output| {
        assert_eq!(output.status.code(), Some(3), "{arguments}: {output:?}");
        let lines = complaints(&output);
        assert_eq!(lines.len(), 1, "{arguments}: {lines:?}");
        assert!(
            lines[0].starts_with("poolbench: cannot write to standard output: "),
            "{arguments}: {lines:?}"
        );
    });
}
