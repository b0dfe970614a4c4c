//! `poolbench replay`, on the host device.

use assert_cmd::Command;
use std::path::{Path, PathBuf};
use std::process::Output;

use poolbench::trace::{Synthetic, Workload, write_rmm_csv};

fn replay(arguments: &[&str], memory_mib: &str) -> Output {
    let mut command = Command::cargo_bin("poolbench").expect("the binary is built with the tests");
    command
        .env("POOLBENCH_DEVICE", "host")
        .env("POOLBENCH_HOST_MEMORY_MIB", memory_mib)
        .arg("replay")
        .args(arguments);
    command.output().expect("it starts")
}

/// A folder with a trace of two streams and one row that the test gives.
fn log(folder: &Path, rows: &str) -> PathBuf {
    let path = folder.join("log.csv");
    let header = "Thread,Time,Action,Pointer,Size,Stream\n";
    std::fs::write(&path, format!("{header}{rows}")).expect("a file");
    path
}

const ROWS: &str = "\
1,10:00:00.000000,allocate,0x10000000,33554432,1
1,10:00:00.000010,allocate,0x20000000,33554432,2
1,10:00:00.002020,free,0x10000000,33554432,1
1,10:00:00.002030,free,0x20000000,33554432,2
";

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// One line, exit 3, and each of the parts in it.
fn refused(output: &Output, parts: &[&str]) {
    let stderr = stderr(output);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(output.stdout.is_empty());
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
}

#[test]
fn a_trace_larger_than_the_device_is_refused_and_fits_when_scaled() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = log(folder.path(), ROWS);
    let path = path.to_str().expect("UTF-8");
    // 64 MiB live at the peak on a device of 96 MiB, of which 64 MiB are left for pools and driver.
    let output = replay(&[path], "96");
    refused(&output, &[path, "67108864 bytes live", "100663296", "--scale 1.3"]);
    let scaled = replay(&[path, "--scale", "0.25", "--repeats", "1", "--format", "json"], "160");
    let json: serde_json::Value = serde_json::from_slice(&scaled.stdout).expect("JSON");
    assert_eq!(json["peak_live_bytes"], 64 << 18, "a quarter of 64 MiB");
    assert_eq!(json["scale"], 0.25);
}

#[test]
fn what_cannot_be_replayed_is_one_line_and_exit_3() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    refused(&replay(&["/nonexistent/trace.csv"], "512"), &["/nonexistent/trace.csv"]);
    let empty = log(folder.path(), "1,10:00:00.000000,allocate,0x10000000,0,1\n");
    let empty = empty.to_str().expect("UTF-8");
    refused(&replay(&[empty], "512"), &[empty, "allocates nothing"]);
    let path = log(folder.path(), ROWS);
    let path = path.to_str().expect("UTF-8");
    let other = replay(&[path, "--traced-device", "0:7"], "512");
    refused(&other, &[path, "no device 0:7", "--traced-device takes one of 0:0"]);
    let same = replay(&[path, "--dump-operations", path], "512");
    assert_eq!(same.status.code(), Some(2), "{}", stderr(&same));
    assert!(stderr(&same).contains("--dump-operations"), "{}", stderr(&same));
    assert!(
        std::fs::read_to_string(path)
            .expect("it is there")
            .starts_with("Thread,"),
        "untouched"
    );
    let full = replay(&[path, "--dump-operations", "/nonexistent/operations"], "512");
    refused(&full, &[path, "cannot write /nonexistent/operations"]);
}

#[test]
fn a_trace_of_several_devices_needs_a_choice() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("profile.json");
    let event = |ts, device, address, bytes| {
        format!(
            r#"{{"ph":"i","name":"[memory]","pid":0,"tid":1,"ts":{ts},"args":{{"Device Type":1,"Device Id":{device},"Addr":{address},"Bytes":{bytes}}}}}"#
        )
    };
    let events = [
        event(1, 0, 4096, 512),
        event(2, 1, 8192, 1024),
        event(3, 0, 4096, -512),
        event(4, 1, 8192, -1024),
    ];
    std::fs::write(&path, format!(r#"{{"traceEvents":[{}]}}"#, events.join(","))).expect("a file");
    let path = path.to_str().expect("UTF-8");
    refused(
        &replay(&[path], "512"),
        &[path, "has 2 devices", "--traced-device", "0:0, 0:1"],
    );
    let chosen = replay(
        &[
            path,
            "--traced-device",
            "0:1",
            "--repeats",
            "1",
            "--format",
            "json",
            "--strategy",
            "sync",
        ],
        "512",
    );
    let json: serde_json::Value = serde_json::from_slice(&chosen.stdout).expect("JSON");
    assert_eq!(json["peak_live_bytes"], 1024);
    // PyTorch's own allocator is what its traces are compared with, and that is said.
    assert_eq!(json["advice"]["present"], "arena");
    assert!(json["advice"]["notes"].to_string().contains("PyTorch"), "{json}");
}

#[test]
fn wrong_usage_is_exit_2() {
    for wrong in [
        &["log.csv", "--strategy", "noop"][..],
        &["log.csv", "--threshold", "half-peak"],
        &["log.csv", "--present", "sync@"],
        &["log.csv", "--sync-every", "0"],
        &["log.csv", "--sync-at-gaps", "5"],
        &["log.csv", "--sync-every", "3", "--sync-at-gaps", "5us"],
        &["log.csv", "--scale", "0"],
        &["log.csv", "--scale", "inf"],
        &["log.csv", "--repeats", "0"],
        &["log.csv", "--streams", "257"],
        &["log.csv", "--traced-device", "1"],
    ] {
        let output = replay(wrong, "512");
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", stderr(&output));
    }
}

#[test]
fn the_text_names_the_device_the_trace_and_what_to_use() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = log(folder.path(), ROWS);
    let path = path.to_str().expect("UTF-8");
    let arguments = [
        path,
        "--repeats",
        "6",
        "--sync-at-gaps",
        "1ms",
        "--strategy",
        "stream_ordered",
        "--touch",
    ];
    let output = replay(&arguments, "1024");
    let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    assert!(output.status.success(), "{}", stderr(&output));
    for part in [
        "measuring the host device; these are not GPU numbers",
        // The gap before the third row is 2 ms long.
        "5 events: 2 allocations, 2 frees, 1 wait; 2 streams, peak 64.00 MiB",
        "µs per event",
        "2 blocks, 64.00 MiB",
        "These are not GPU numbers",
        "The program is taken to use sync at present",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Where nothing is proven faster, the present one is marked as the best too.
    let is_present = |line: &str| line.starts_with("sync ") && line.contains("(present)");
    assert!(text.lines().any(is_present), "{text}");
    // Half of the peak is 32 MiB; the peak is what was asked for as 64MiB, too.
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("stream_ordered")).collect();
    assert_eq!(rows.len(), 4, "{text}");
}

/// The report of a small training step, replayed in several ways, with its file's name.
fn json_report(folder: &Path) -> (serde_json::Value, String) {
    let path = folder.join("training.csv");
    let file = std::fs::File::create(&path).expect("a file");
    let synthetic = Synthetic {
        streams: 2,
        ..Synthetic::new(Workload::TrainingStep, 3, 400)
    };
    write_rmm_csv(&synthetic.generate(), file).expect("it can be written");
    let path = path.to_str().expect("UTF-8");
    let options = "--scale 0.01 --repeats 6 --sync-every 100 --format json --present stream_ordered@0 --touch";
    let arguments: Vec<&str> = std::iter::once(path).chain(options.split(' ')).collect();
    let output = replay(&arguments, "2048");
    assert!(output.status.success(), "{}", stderr(&output));
    (serde_json::from_slice(&output.stdout).expect("JSON"), path.to_owned())
}

fn named<'a>(json: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let mut combinations = json["combinations"].as_array().expect("a list").iter();
    let found = combinations.find(|combination| combination["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is missing: {json}"))
}

/// Every field that a program may rely on, with its type.
#[test]
fn the_json_has_its_schema() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (json, path) = json_report(folder.path());
    assert_eq!(json["format"], 1);
    assert_eq!(json["is_host"], true);
    assert_eq!(json["trace"], path);
    assert_eq!(json["source"], "rmm_csv");
    assert_eq!(json["synchronise"], "every 100");
    assert_eq!((&json["repeats"], &json["n_streams"]), (&6.into(), &2.into()));
    let counts = &json["replayed"];
    let count = |name: &str| counts[name].as_u64().unwrap_or_else(|| panic!("{name}: {counts}"));
    assert_eq!(
        count("events"),
        count("allocations") + count("frees") + count("synchronises")
    );
    for combination in json["combinations"].as_array().expect("a list") {
        check_combination(combination);
    }
    let skipped = json["skipped"].as_array().expect("a list");
    assert!(skipped.iter().all(|s| s["reason"].is_string() && s["name"].is_string()));
}

fn check_combination(combination: &serde_json::Value) {
    for number in ["driver_calls", "out_of_memory", "held_bytes", "peak_reserved_bytes"] {
        assert!(combination[number].is_u64(), "{number}: {combination}");
    }
    for estimate in ["per_event", "first_per_event"] {
        for bound in ["median_ns", "lower_ns", "upper_ns"] {
            assert!(
                combination[estimate][bound].is_f64(),
                "{estimate} {bound}: {combination}"
            );
        }
    }
    for times in ["times_ns", "first_times_ns"] {
        assert_eq!(combination[times].as_array().map(Vec::len), Some(6), "{combination}");
    }
    assert!(combination["slowest_call"]["function"].is_string(), "{combination}");
    assert!(combination["slowest_call"]["time_ns"].is_u64(), "{combination}");
    assert!(combination["fragmentation"].is_f64(), "{combination}");
    assert!(combination["touched"]["blocks"].is_u64(), "{combination}");
}

#[test]
fn the_json_says_what_to_use() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (json, _) = json_report(folder.path());
    let pool = named(&json, "stream_ordered@max");
    assert_eq!(
        (&pool["strategy"], &pool["threshold"]),
        (&"stream_ordered".into(), &"max".into())
    );
    assert_eq!(pool["threshold_bytes"], u64::MAX);
    assert_eq!(named(&json, "sync")["threshold"], serde_json::Value::Null);
    let advice = &json["advice"];
    assert_eq!(advice["present"], "stream_ordered@0");
    let verdicts = ["change", "keep"].map(serde_json::Value::from);
    assert!(verdicts.contains(&advice["verdict"]), "{advice}");
    named(&json, advice["recommended"].as_str().expect("a name"));
    assert!(advice["paragraph"].is_string() && advice["notes"].is_array() && advice["alternatives"].is_array());
}

#[test]
fn operations_are_written_for_other_programs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = log(folder.path(), ROWS);
    let operations = folder.path().join("operations");
    let arguments = [
        path.to_str().expect("UTF-8"),
        "--dump-operations",
        operations.to_str().expect("UTF-8"),
    ];
    let output = replay(&arguments, "512");
    assert!(output.status.success(), "{}", stderr(&output));
    let bytes = std::fs::read(operations).expect("a file");
    // A header of 48 bytes and four operations of 16.
    assert_eq!(bytes.len(), 48 + 4 * 16);
    assert_eq!(&bytes[..8], b"PBREPLAY");
    // The first: 32 MiB into slot 0 in stream 0.
    assert_eq!(bytes[48..56], (32_u64 << 20).to_le_bytes());
}
