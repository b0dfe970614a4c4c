//! `poolbench trace`.

use assert_cmd::Command;
use std::path::Path;

fn trace(arguments: &[&str]) -> std::process::Output {
    let mut command = Command::cargo_bin("poolbench").expect("the binary is built with the tests");
    command.arg("trace").args(arguments).output().expect("it starts")
}

const LOG: &str = "\
Thread,Time,Action,Pointer,Size,Stream
1,10:00:00.000000,allocate,0x7f0000000000,1024,0
1,10:00:00.000010,allocate,0x7f0000000400,2048,0
1,10:00:00.000020,free,0x7f0000000000,1024,0
1,10:00:00.000030,free,0x7f0000000400,2048,0
";

#[test]
fn a_log_is_summarised_in_text_and_json() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("log.csv");
    std::fs::write(&path, LOG).expect("a file");
    let path = path.to_str().expect("UTF-8");
    let text = trace(&[path]);
    assert!(text.status.success(), "{}", String::from_utf8_lossy(&text.stderr));
    let json = trace(&[path, "--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    // Both blocks are live after the second allocation: 1024 + 2048 bytes.
    assert!(json.to_string().contains("3072"), "{json}");
}

/// What a shell puts in the place of `<(command)`, and the output of another command.
#[test]
fn a_pipe_without_a_name_is_read_to_its_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("log.csv"), LOG).expect("a file");
    let summary = |script: &str| {
        let mut command = std::process::Command::new("bash");
        command.args(["-c", script]).current_dir(folder.path());
        command
            .env("POOLBENCH", assert_cmd::cargo::cargo_bin("poolbench"))
            .output()
    };
    let script = "(sleep 0.2; cat log.csv) | \"$POOLBENCH\" trace /dev/stdin --format json";
    for script in [script, "\"$POOLBENCH\" trace <(sleep 0.2; cat log.csv) --format json"] {
        let Ok(output) = summary(script) else {
            println!("SKIPPED: no bash");
            return;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("3072"));
    }
}

/// A pipe says of no length, so the limit on what gzip may grow to counts what has come.
#[test]
fn a_compressed_trace_of_any_length_is_read_through_a_pipe() {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    let trace = poolbench::trace::Synthetic::new(poolbench::trace::Workload::Inference, 1, 1_500_000).generate();
    let mut log = Vec::new();
    poolbench::trace::write_rmm_csv(&trace, &mut log).expect("writing to memory does not fail");
    assert!(log.len() > 64 << 20, "what any file may grow to: {}", log.len());
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&log).expect("writing to memory does not fail");
    let compressed = encoder.finish().expect("writing to memory does not fail");
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("poolbench"))
        .args(["trace", "/dev/stdin", "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut pipe = child.stdin.take().expect("it is piped");
    let writer = std::thread::spawn(move || pipe.write_all(&compressed));
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    writer.join().expect("it does not panic").expect("all is read");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["allocations"], trace.allocations().len());
}

#[test]
fn what_cannot_be_read_is_one_line_and_exit_3() {
    for arguments in [["/nonexistent/trace.csv"], ["Cargo.toml"]] {
        let output = trace(&arguments);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(
            stderr.contains(Path::new(arguments[0]).to_str().expect("UTF-8")),
            "{stderr}"
        );
    }
}
