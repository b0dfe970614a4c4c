//! Output that nobody reads, or that is full: a run never aborts, and what is full is one line.

use super::{Bench, QUICK, own_lines, stderr};
use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Output, Stdio};

fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    Stdio::from(writer)
}

fn run(bench: &Bench, more: &[&str], stdout: Stdio, stderr: Stdio) -> Output {
    let mut command = bench.command(&[&QUICK[..], more, &["hoisted/4KiB"]].concat());
    let child = command.stdout(stdout).stderr(stderr).spawn().expect("the bench starts");
    child.wait_with_output().expect("it ends")
}

#[test]
fn readers_that_went_away_end_a_run_quietly() {
    let bench = Bench::new("scratch_loop");
    for more in [&[][..], &["--test"], &["--list"], &["--help"], &["--sample-size", "5"]] {
        for (stdout, stderr_stream) in [
            (closed(), closed()),
            (closed(), Stdio::piped()),
            (Stdio::piped(), closed()),
        ] {
            let output = run(&bench, more, stdout, stderr_stream);
            assert_eq!(output.status.signal(), None, "{more:?} {output:?}");
            let wrong_usage = more.contains(&"5");
            assert_eq!(
                output.status.code(),
                Some(if wrong_usage { 2 } else { 0 }),
                "{more:?} {output:?}"
            );
            let text = stderr(&output);
            assert!(
                !text.contains("failed printing") && !text.contains("panicked"),
                "{text}"
            );
        }
    }
}

#[test]
fn a_full_disk_is_one_line_and_exit_3() {
    let bench = Bench::new("scratch_loop");
    let full = File::options().write(true).open("/dev/full").expect("Linux");
    let output = run(&bench, &[], Stdio::from(full), Stdio::piped());
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let lines = own_lines(&output);
    assert_eq!(lines.len(), 2, "what is measured, and why it ended: {lines:?}");
    assert_eq!(
        lines[1],
        "poolbench: cannot write to standard output: No space left on device (os error 28)"
    );
}
