//! Criterion homes and critcmp exports: one launch a side, so no verdict.

use super::recorded::{Desk, Ran, baseline, environment};
use poolbench::stats::{BenchmarkId, LaunchKey, RawLaunch, SessionId, Side};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Writes what Criterion keeps of one benchmark under one baseline's name.
fn save(home: &Path, folder: &str, name: &str, id: &str, iters: &[f64], times: &[f64]) {
    let folder = home.join(folder).join(name);
    fs::create_dir_all(&folder).expect("a folder");
    let sample = json!({"sampling_mode": "Flat", "iters": iters, "times": times});
    let benchmark = json!({"group_id": "g", "function_id": null, "value_str": null, "throughput": null,
        "full_id": id, "directory_name": folder, "title": id});
    fs::write(folder.join("sample.json"), sample.to_string()).expect("a file");
    fs::write(folder.join("benchmark.json"), benchmark.to_string()).expect("a file");
    fs::write(folder.join("estimates.json"), "{}").expect("a file");
}

/// Ten samples of ten iterations around a time per iteration.
fn around(time_ns: f64) -> ([f64; 10], [f64; 10]) {
    let times = std::array::from_fn(|index| 10.0 * time_ns * (1.0 + 0.001 * (index as f64 - 4.5)));
    ([10.0; 10], times)
}

fn home(desk: &Desk) -> std::path::PathBuf {
    let home = desk.path().join("home");
    for (folder, id, base_ns, new_ns) in [
        ("a", "group/a", 100.0, 100.0),
        ("b", "group with spaces/b", 200.0, 220.0),
    ] {
        for (name, time_ns) in [("before", base_ns), ("after", new_ns)] {
            let (iters, times) = around(time_ns);
            save(&home, folder, name, id, &iters, &times);
        }
    }
    // What Criterion puts beside baselines.
    fs::create_dir_all(home.join("a/change")).expect("a folder");
    fs::create_dir_all(home.join("report")).expect("a folder");
    fs::write(home.join("a/change/estimates.json"), "{}").expect("a file");
    home
}

fn compare(desk: &Desk, base: &str, new: &str) -> (Ran, Value) {
    let ran = desk.poolbench(&["compare", base, new, "--format", "json"]);
    let value = ran.json();
    (ran, value)
}

fn benchmark<'a>(value: &'a Value, id: &str) -> &'a Value {
    let benchmarks = value["benchmarks"].as_array().expect("a list");
    benchmarks.iter().find(|benchmark| benchmark["id"] == id).expect(id)
}

#[test]
fn a_criterion_home_has_ratios_and_no_verdict() {
    let desk = Desk::new();
    home(&desk);
    let (ran, value) = compare(&desk, "home@before", "home@after");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        (&value["conclusion"], &value["summary"]["inconclusive"]),
        (&"no_verdict".into(), &2.into())
    );
    let slower = benchmark(&value, "group with spaces/b");
    let interval = &slower["in_process"];
    // Ten samples of 1 % spread in all: the medians' ratio is 1.1, their intervals well within 1 %.
    assert!(
        (interval["ratio"].as_f64().expect("a ratio") - 1.1).abs() < 1e-9,
        "{slower}"
    );
    assert!(interval["ci_low"].as_f64() > Some(1.09) && interval["ci_high"].as_f64() < Some(1.11));
    assert_eq!((&slower["ci_low"], &slower["p_value"]), (&Value::Null, &Value::Null));
    let text = desk.poolbench(&["compare", "home@before", "home@after"]).stdout;
    assert!(
        text.starts_with("No verdict: one launch a side of 2 benchmarks; ratios and intervals hold inside the two processes only (exit 0)"),
        "{text}"
    );
    assert!(
        text.contains("Criterion home") && text.contains("1.100") && text.contains("in-process interval"),
        "{text}"
    );
    assert!(
        text.contains("two launches of the same executable differ by more"),
        "{text}"
    );
}

#[test]
fn what_a_criterion_home_lacks_is_left_out_by_name() {
    let desk = Desk::new();
    let home = home(&desk);
    let (iters, times) = around(100.0);
    for name in ["before", "after"] {
        for folder in ["cut", "zero", "null", "old"] {
            save(&home, folder, name, &format!("group/{folder}"), &iters, &times);
        }
        // A cache leaves hollow folders.
        fs::create_dir_all(home.join("hollow").join(name)).expect("a folder");
        // Two folders that hold one id.
        save(&home, "twin_1", name, "group/twin", &iters, &times);
        save(&home, "twin_2", name, "group/twin", &iters, &times);
    }
    let sample = |folder: &str| home.join(folder).join("after/sample.json");
    let whole = fs::read_to_string(sample("cut")).expect("it is there");
    fs::write(sample("cut"), &whole[..whole.len() / 2]).expect("a file");
    let zero = r#"{"sampling_mode":"Flat","iters":[1.0,1.0],"times":[3.0,0.0]}"#;
    fs::write(sample("zero"), zero).expect("a file");
    fs::write(sample("null"), zero.replace("0.0]", "null]")).expect("a file");
    fs::remove_file(sample("old")).expect("it is there");
    let (ran, value) = compare(&desk, "home@before", "home@after");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(value["summary"]["skipped"], 6, "{}", value["summary"]);
    assert_eq!(value["summary"]["missing"], 0, "it was there");
    for (id, says) in [
        ("group/cut", "sample.json: EOF"),
        ("group/zero", "sample 1: 0 is not above zero"),
        ("group/null", "sample.json: invalid type: null"),
        ("group/old", "estimates.json: it has neither a median nor a mean"),
        ("hollow", "the folder is empty"),
        ("group/twin", "several folders"),
    ] {
        let skipped = benchmark(&value, id);
        assert_eq!(skipped["verdict"], "skipped");
        assert!(skipped["reason"].as_str().expect("text").contains(says), "{skipped}");
    }
    assert!(
        value["warnings"]
            .to_string()
            .contains("the new side: 6 entries could not be used"),
        "{value}"
    );
}

#[test]
fn names_in_a_criterion_home_are_listed() {
    let desk = Desk::new();
    home(&desk);
    for (input, says) in [
        (
            "home",
            "name one of its baselines as home@NAME; there are after, before",
        ),
        ("home@never", "without a baseline \"never\""),
        ("home@change", "there are after, before"),
        ("nohome@before", "nohome: no such file or folder"),
        ("home/report", "neither a baseline"),
    ] {
        let ran = desk.poolbench(&["compare", input, "home@after"]);
        assert!(ran.refused(3).contains(says), "{ran:?}");
    }
    // None of its benchmarks can be used.
    for folder in ["a", "b"] {
        fs::write(desk.path().join("home").join(folder).join("after/sample.json"), "").expect("a file");
    }
    let ran = desk.poolbench(&["compare", "home@before", "home@after"]);
    assert!(
        ran.refused(3)
            .contains("none of its 2 benchmarks can be used; group with spaces/b: "),
        "{ran:?}"
    );
}

#[test]
fn a_plain_run_is_a_copy_of_its_base() {
    // After a plain run Criterion's `base` is `new`, byte for byte.
    let desk = Desk::new();
    let home = desk.path().join("home");
    let (iters, times) = around(100.0);
    for name in ["base", "new"] {
        save(&home, "a", name, "g/a", &iters, &times);
    }
    let (_, value) = compare(&desk, "home@base", "home@new");
    let warnings = value["warnings"].to_string();
    assert!(
        warnings.contains("1 of 1 compared benchmark has the very same times"),
        "{warnings}"
    );
}

#[test]
fn benchmarks_of_an_older_run_are_noticed() {
    let desk = Desk::new();
    let home = home(&desk);
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3 * 24 * 3600);
    let file = fs::File::options()
        .write(true)
        .open(home.join("a/after/sample.json"))
        .expect("it is there");
    file.set_modified(old).expect("a time");
    let (_, value) = compare(&desk, "home@before", "home@after");
    assert!(
        value["warnings"]
            .to_string()
            .contains("the new side: 1 benchmark was written more than a day before"),
        "{value}"
    );
}

/// Criterion before 0.3.3: the two lists alone, and estimates with capitals.
#[test]
fn a_home_of_an_early_criterion_is_read() {
    let desk = Desk::new();
    let home = desk.path().join("home");
    for (name, time_ns) in [("before", 100.0), ("after", 120.0)] {
        let (iters, times) = around(time_ns);
        save(&home, "a", name, "g/a", &iters, &times);
        let folder = home.join("a").join(name);
        fs::write(folder.join("sample.json"), json!([iters, times]).to_string()).expect("a file");
        // Only estimates are left of the other.
        save(&home, "b", name, "g/b", &iters, &times);
        let folder = home.join("b").join(name);
        fs::remove_file(folder.join("sample.json")).expect("it is there");
        let estimates = json!({"Mean": {"point_estimate": 1.0}, "Median": {"point_estimate": time_ns,
            "confidence_interval": {"confidence_level": 0.95, "lower_bound": time_ns * 0.97, "upper_bound": time_ns * 1.03}}});
        fs::write(folder.join("estimates.json"), estimates.to_string()).expect("a file");
    }
    let (ran, value) = compare(&desk, "home@before", "home@after");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(value["summary"]["skipped"], 0, "{}", value["summary"]);
    for id in ["g/a", "g/b"] {
        let ratio = benchmark(&value, id)["in_process"]["ratio"].as_f64().expect("a ratio");
        assert!((ratio - 1.2).abs() < 1e-9, "{id}: {ratio}");
    }
    // Arms of 3 % each, in quadrature: 4.2 % of 1.2, as of an export of critcmp.
    let high = benchmark(&value, "g/b")["in_process"]["ci_high"]
        .as_f64()
        .expect("an interval");
    assert!((high / 1.2 - 1.043).abs() < 0.002, "{high}");
}

fn export(name: &str, estimates: &Value) -> String {
    json!({"name": name, "benchmarks": {
        "g/a": {"baseline": name, "fullname": "x", "criterion_benchmark_v1": {}, "criterion_estimates_v1": estimates},
        "g/broken": {"baseline": name},
    }})
    .to_string()
}

#[test]
fn a_critcmp_export_has_its_estimates_interval() {
    let desk = Desk::new();
    let median = |ns: f64| {
        json!({"median": {"confidence_interval": {"confidence_level": 0.95, "lower_bound": ns * 0.97, "upper_bound": ns * 1.03},
            "point_estimate": ns, "standard_error": 1.0}, "slope": null})
    };
    let mean = json!({"Mean": {"point_estimate": 100.0}});
    fs::write(desk.path().join("base.json"), export("base", &median(100.0))).expect("a file");
    fs::write(desk.path().join("new.json"), export("base", &median(120.0))).expect("a file");
    fs::write(desk.path().join("mean.json"), export("base", &mean)).expect("a file");
    let (ran, value) = compare(&desk, "base.json", "new.json@base");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // One name in both files; the files tell them apart.
    assert_eq!(
        (&value["base"]["name"], &value["new"]["name"]),
        (&"base.json".into(), &"new.json@base".into())
    );
    let interval = &benchmark(&value, "g/a")["in_process"];
    let number = |key: &str| interval[key].as_f64().expect("a number");
    assert!((number("ratio") - 1.2).abs() < 1e-12);
    // Arms of about 3 % each, in quadrature: 4.2 % of 1.2.
    assert!((number("ci_high") / 1.2 - 1.043).abs() < 0.002 && (1.2 / number("ci_low") - 1.043).abs() < 0.002);
    assert_eq!(benchmark(&value, "g/broken")["verdict"], "skipped");
    // A mean alone gives a ratio without an interval.
    let (_, value) = compare(&desk, "base.json", "mean.json");
    let only = &benchmark(&value, "g/a")["in_process"];
    assert_eq!((&only["ratio"], &only["ci_low"]), (&1.0.into(), &Value::Null));
}

/// Sizes that are one, a single benchmark, a single launch: an axis may have no length, and no place on it may be NaN.
#[test]
fn pictures_of_one_size_have_no_undefined_places() {
    let desk = Desk::new();
    let write = |file: &str, ids: &[&str]| {
        let benchmark = |(index, id): (usize, &&str)| {
            let ns = 1e4 * (1.0 + index as f64);
            let estimates = json!({"median": {"point_estimate": ns}});
            let benchmark = json!({"baseline": "b", "fullname": id, "criterion_benchmark_v1": {},
                "criterion_estimates_v1": estimates});
            ((*id).to_owned(), benchmark)
        };
        let benchmarks: serde_json::Map<String, Value> = ids.iter().enumerate().map(benchmark).collect();
        let export = json!({"name": "b", "benchmarks": benchmarks});
        fs::write(desk.path().join(file), export.to_string()).expect("a file");
    };
    let one_size = ["g/a/1MiB", "g/a/1024KiB", "g/a/1048576B"];
    // Three sizes, but the only function with several values has them at one.
    let one_size_of_three = ["g/a/1MiB", "g/a/1024KiB", "g/b/2MiB", "g/c/4MiB"];
    let cases: [(&[&str], bool); 5] = [
        (&one_size, false),
        (&one_size_of_three, false),
        (&["g/a/1MiB"], false),
        (&["scratch_loop/hoisted/1MiB", "scratch_loop/sync/1MiB"], false),
        (&["g/a/1MiB", "g/a/1024KiB", "g/a/2MiB", "g/a/4MiB"], true),
    ];
    for (ids, is_drawn) in cases {
        write("base.json", ids);
        write("new.json", ids);
        let ran = desk.poolbench(&["compare", "base.json", "new.json", "--format", "html"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        // The script after it has a NaN of its own, for cells without a number.
        let shown = ran.stdout.split("<script>").next().expect("a page");
        assert!(!shown.contains("NaN"), "{ids:?}");
        assert_eq!(ran.stdout.contains("id=\"size\""), is_drawn, "{ids:?}");
    }
}

#[test]
fn files_that_are_no_export_are_refused() {
    let desk = Desk::new();
    let median = json!({"median": {"point_estimate": 1e3}});
    fs::write(desk.path().join("base.json"), export("base", &median)).expect("a file");
    let nan = json!({"median": {"point_estimate": "NaN"}, "mean": {"point_estimate": null}});
    for (text, says) in [
        (String::from("x"), "no critcmp export: expected value"),
        (String::from("x"), "; write one with `critcmp --export NAME > FILE`"),
        (
            String::new(),
            "it is empty; write it with `critcmp --export NAME > FILE`",
        ),
        (
            String::from("{\"reason\":\"benchmark-complete\",\"id\":\"a\"}\n{\"reason\":\"group-complete\"}\n"),
            "messages of cargo-criterion; run the benchmarks with `cargo bench`",
        ),
        (String::from("{}"), "missing field `name`"),
        (
            json!({"name": "b", "benchmarks": {}}).to_string(),
            "it holds no benchmark",
        ),
        (
            export("b", &nan),
            "none of its 2 benchmarks can be used; g/a: it has neither a median nor a mean",
        ),
        (
            export("b", &json!({"median": {"point_estimate": 0.0}})),
            "0 is not above zero",
        ),
        (
            r#"{"name":"b","benchmarks":{"a":{},"a":{}}}"#.to_owned(),
            "is given twice",
        ),
        (export("b", &median)[..60].to_owned(), "EOF"),
    ] {
        fs::write(desk.path().join("other.json"), &text).expect("a file");
        let ran = desk.poolbench(&["compare", "base.json", "other.json"]);
        assert!(ran.refused(3).contains(says), "{says}: {ran:?}");
    }
    // Encodings, by their first bytes.
    for (bytes, says) in [
        (&b"\x1f\x8b\x08\x00"[..], "it is gzip-compressed; decompress it first"),
        (
            b"\xff\xfe{\x00",
            "it is UTF-16 text, as PowerShell's > writes; save it as UTF-8",
        ),
    ] {
        fs::write(desk.path().join("other.json"), bytes).expect("a file");
        let ran = desk.poolbench(&["compare", "base.json", "other.json"]);
        assert!(ran.refused(3).contains(says), "{says}: {ran:?}");
    }
    let marked = format!("\u{feff}{}", export("base", &median));
    fs::write(desk.path().join("other.json"), marked).expect("a file");
    let (ran, value) = compare(&desk, "base.json", "other.json");
    assert_eq!(
        (ran.code, &benchmark(&value, "g/a")["in_process"]["ratio"]),
        (Some(0), &1.0.into())
    );
    fs::write(desk.path().join("other.json"), export("b", &median)).expect("a file");
    let ran = desk.poolbench(&["compare", "base.json", "other.json@base"]);
    assert!(
        ran.refused(3).contains("holds the baseline \"b\", not \"base\""),
        "{ran:?}"
    );
}

#[test]
fn a_baseline_against_a_criterion_home_has_no_verdict() {
    let desk = Desk::new();
    home(&desk);
    let mut side = Side::new();
    for order in 0..8 {
        let (iters, times) = around(100.0 + order as f64);
        let raw = RawLaunch {
            iters: &iters,
            times_ns: &times,
            probe_ns: None,
            flags: &[],
        };
        let key = LaunchKey {
            session: SessionId::new("s"),
            order,
        };
        side.add(&BenchmarkId::new("group/a"), &key, &raw);
    }
    let mut recorded = baseline(&side, "1");
    recorded.manifest.environment = environment("1");
    desk.keep("old", recorded);
    let (ran, value) = compare(&desk, "old", "home@after");
    assert_eq!((ran.code, &value["conclusion"]), (Some(0), &"no_verdict".into()));
    assert_eq!(value["differences"], json!([]));
    assert!(
        value["warnings"]
            .to_string()
            .contains("does not say on which machine, driver and build"),
        "{value}"
    );
}

/// What a shell puts in the place of `<(command)`, and `/dev/stdin` behind a pipe.
#[test]
fn an_export_may_come_through_a_pipe() {
    let desk = Desk::new();
    let median = |ns: f64| json!({"median": {"point_estimate": ns}});
    fs::write(desk.path().join("base.json"), export("base", &median(100.0))).expect("a file");
    fs::write(desk.path().join("new.json"), export("base", &median(120.0))).expect("a file");
    let poolbench = env!("CARGO_BIN_EXE_poolbench");
    let shell = |line: &str| {
        let output = std::process::Command::new("bash")
            .args(["-c", line, poolbench])
            .current_dir(desk.path())
            .output()
            .expect("a shell");
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    for line in [
        "cat new.json | \"$0\" compare base.json /dev/stdin --format json",
        "\"$0\" compare <(cat base.json) <(cat new.json) --format json",
        "\"$0\" compare base.json /dev/stdin --format json < new.json",
    ] {
        let value: Value = serde_json::from_str(&shell(line)).expect("JSON");
        let ratio = benchmark(&value, "g/a")["in_process"]["ratio"]
            .as_f64()
            .expect("a ratio");
        assert!((ratio - 1.2).abs() < 1e-12, "{line}: {ratio}");
    }
}

/// The inputs are what cannot be had again.
#[test]
fn a_result_is_never_written_over_what_it_came_from() {
    let desk = Desk::new();
    let median = |ns: f64| json!({"median": {"point_estimate": ns}});
    fs::write(desk.path().join("base.json"), export("base", &median(100.0))).expect("a file");
    fs::write(desk.path().join("new.json"), export("base", &median(120.0))).expect("a file");
    std::os::unix::fs::symlink("base.json", desk.path().join("link.json")).expect("a link");
    let recording = [crate::Recording::new("s", 8, 0.0)];
    desk.keep("old", crate::recorded(&crate::recorded::suite(), &recording, "1", 1));
    let manifest = desk.baselines().join("old/manifest.json");
    let before = fs::read(&manifest).expect("it is there");
    for (base, new, out) in [
        ("base.json", "new.json", "base.json"),
        ("base.json", "new.json", "./new.json"),
        ("base.json@base", "new.json", "link.json"),
        ("link.json", "new.json", "base.json"),
        ("old", "new.json", "criterion-baselines/old/manifest.json"),
        (
            "new.json",
            "./criterion-baselines/old",
            "criterion-baselines/old/deeper/x.html",
        ),
    ] {
        for command in ["compare", "report"] {
            let ran = desk.poolbench(&[command, base, new, "--out", out]);
            let says = format!("--out {out} would write into ");
            assert!(ran.refused(2).contains(&says), "{ran:?}");
        }
    }
    assert_eq!(fs::read(&manifest).expect("it is there"), before);
    assert!(!desk.baselines().join("old/deeper").exists());
    // Beside them is fine.
    let ran = desk.poolbench(&["compare", "base.json", "new.json", "--out", "criterion-baselines/x.md"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}
