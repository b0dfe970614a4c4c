//! `poolbench compare`: verdicts, exit codes, and what it refuses.

mod noise;
#[path = "common/recorded.rs"]
mod recorded;

use noise::{Case, Recording};
use recorded::{Desk, Ran, effects, recorded, suite};
use serde_json::Value;
use std::fs;

/// Two sides of the suite, recorded in one shared session unless named otherwise.
fn sides(desk: &Desk, cases: &[Case], launches: usize, (base, new): (&[&str], &[&str]), factor: impl Fn(&str) -> f64) {
    let recordings = |sessions: &[&'static str], effects: Vec<f64>, first_order: u64| -> Vec<Recording<'static>> {
        let of = |session: &&'static str| Recording {
            effects: effects.clone(),
            first_order,
            ..Recording::new(session, launches, 0.1)
        };
        sessions.iter().map(of).collect()
    };
    // The names live as long as the program; the tests' literals do.
    let leak = |names: &[&str]| -> Vec<&'static str> {
        names
            .iter()
            .map(|name| &*Box::leak(name.to_string().into_boxed_str()))
            .collect()
    };
    let base = recordings(&leak(base), Vec::new(), 0);
    let new = recordings(&leak(new), effects(cases, factor), 1000);
    desk.keep("old", recorded(cases, &base, "580.159.04", 11));
    desk.keep("new", recorded(cases, &new, "590.10", 22));
}

const SHARED: (&[&str], &[&str]) = (&["s"], &["s"]);

fn json(desk: &Desk, arguments: &[&str]) -> (Ran, Value) {
    let ran = desk.poolbench(&[&["compare"], arguments, &["--format", "json"]].concat());
    let value = ran.json();
    (ran, value)
}

fn with_verdict<'a>(json: &'a Value, verdict: &str) -> Vec<&'a str> {
    let benchmarks = json["benchmarks"].as_array().expect("a list");
    benchmarks
        .iter()
        .filter(|benchmark| benchmark["verdict"] == verdict)
        .map(|benchmark| benchmark["id"].as_str().expect("text"))
        .collect()
}

#[test]
fn unchanged_launches_raise_no_alarm() {
    let desk = Desk::new();
    sides(&desk, &suite(), 24, SHARED, |_| 1.0);
    let (ran, value) = json(&desk, &["old", "new"]);
    assert_eq!(ran.code, Some(0));
    let summary = &value["summary"];
    for verdict in ["regressed", "improved", "suspected", "new", "missing", "skipped"] {
        assert_eq!(summary[verdict], 0, "{verdict}: {summary}");
    }
    // 24 GPU-bound cases whose launches spread by 0.2 to 0.4 % are within 2 % after 24 launches.
    assert!(summary["equivalent"].as_u64() >= Some(24), "{summary}");
    assert_eq!(value["conclusion"], "no_regression");
    let text = desk.poolbench(&["compare", "old", "new"]).stdout;
    assert!(
        text.starts_with("No regression among 48 benchmarks (exit 0)\n"),
        "{text}"
    );
    // The driver is the treatment, and never a reason to refuse.
    assert!(
        text.contains("driver  580.159.04 -> 590.10  (what is judged)"),
        "{text}"
    );
    assert!(text.contains("48 other benchmarks not shown"), "{text}");
}

#[test]
fn slower_benchmarks_are_regressed_and_no_others() {
    let desk = Desk::new();
    let slower = |id: &str| id.starts_with("scratch_loop/sync/");
    sides(&desk, &suite(), 24, SHARED, |id| if slower(id) { 1.05 } else { 1.0 });
    let (ran, value) = json(&desk, &["old", "new"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let regressed = with_verdict(&value, "regressed");
    assert_eq!(regressed.len(), 6, "{regressed:?}");
    assert!(regressed.iter().all(|id| slower(id)), "{regressed:?}");
    for benchmark in value["benchmarks"].as_array().expect("a list") {
        if slower(benchmark["id"].as_str().expect("text")) {
            let number = |key: &str| benchmark[key].as_f64().expect("a number");
            // Launches spread by at most 0.4 %: the interval of 24 is well within a percent.
            assert!((number("ratio") - 1.05).abs() < 0.01, "{benchmark}");
            assert!(number("ci_low") > 1.03 && number("ci_high") < 1.07, "{benchmark}");
            assert!(number("q_value") < 0.05 && number("p_value") < 0.05 && number("mde") < 0.05);
        }
    }
    let text = desk.poolbench(&["compare", "old", "new"]).stdout;
    assert!(
        text.starts_with("Regression: 6 of 48 benchmarks regressed (exit 1)\n"),
        "{text}"
    );
    assert!(text.contains("| regressed | scratch_loop/sync/4KiB"), "{text}");
}

#[test]
fn a_shift_between_two_sessions_is_suspected() {
    let desk = Desk::new();
    let host_bound = |id: &str| id.starts_with("call_latency/");
    // Everything host-bound moves by 15 % or more, each on its own, as between two sessions of one
    // driver; no single movement shared by all could be taken out.
    let shift = |id: &str| {
        if host_bound(id) {
            1.15 + 0.02 * (id.len() % 7) as f64
        } else {
            1.0
        }
    };
    sides(&desk, &suite(), 24, (&["monday"], &["tuesday"]), shift);
    let (ran, value) = json(&desk, &["old", "new"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(value["summary"]["regressed"], 0, "{}", value["summary"]);
    let suspected = with_verdict(&value, "suspected");
    assert!(
        suspected.len() > 12 && suspected.iter().all(|id| host_bound(id)),
        "{suspected:?}"
    );
    let strict = desk.poolbench(&["compare", "old", "new", "--strict"]);
    assert_eq!(strict.code, Some(1));
    assert!(
        strict.stdout.starts_with("No regression, but --strict: "),
        "{}",
        strict.stdout
    );
    assert!(strict.stdout.contains("sessions a side would"), "{}", strict.stdout);
    // Nothing is known of this machine's sessions, and that is said.
    assert!(strict.stdout.contains("host-bound unknown"), "{}", strict.stdout);
}

#[test]
fn interleaved_sessions_decide_alone() {
    let desk = Desk::new();
    let slower = |id: &str| id.contains("/sync/");
    sides(&desk, &suite(), 24, SHARED, |id| if slower(id) { 1.25 } else { 1.0 });
    let (ran, value) = json(&desk, &["old", "new"]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(value["summary"]["suspected"], 0);
    let regressed = with_verdict(&value, "regressed");
    assert!(
        regressed.len() >= 10 && regressed.iter().all(|id| slower(id)),
        "{regressed:?}"
    );
    // One line instead of twelve.
    assert_eq!(
        value["findings"].as_array().map(Vec::len),
        Some(1),
        "{}",
        value["findings"]
    );
    let finding = &value["findings"][0];
    assert_eq!(
        (&finding["label"], &finding["direction"], &finding["compared"]),
        (&"function sync".into(), &"slower".into(), &12.into())
    );
    let text = desk.poolbench(&["compare", "old", "new"]).stdout;
    assert!(
        text.contains("function sync: ") && text.contains("of 12 benchmarks are slower, +2"),
        "{text}"
    );
}

#[test]
fn the_spread_between_sessions_is_learnt_from_other_baselines() {
    let desk = Desk::new();
    sides(&desk, &suite(), 8, (&["monday"], &["tuesday"]), |_| 1.0);
    let cases = suite();
    let again = Recording::new("wednesday", 8, 0.1);
    desk.keep("old-again", recorded(&cases, &[again], "580.159.04", 33));
    let (_, value) = json(&desk, &["old", "new"]);
    let spread = &value["options"]["session_spread"];
    // One pair: `old` and `old-again`; `new` has another driver.
    assert_eq!(spread["pairs"], 1, "{value}");
    assert_eq!(spread["baselines"], serde_json::json!(["old", "old-again"]));
    let text = desk.poolbench(&["compare", "old", "new"]).stdout;
    assert!(text.contains("(from one pair of sessions in old, old-again)"), "{text}");
    // Two sides of one driver are the question, never its answer.
    fs::remove_dir_all(desk.baselines().join("new")).expect("it is there");
    let (_, value) = json(&desk, &["old", "old-again"]);
    assert_eq!(value["options"]["session_spread"], Value::Null);
}

#[test]
fn ids_on_one_side_are_listed_and_renamed_ones_recognised() {
    let desk = Desk::new();
    let sizes = ["4KiB", "1MiB", "8MiB"];
    let of = |strategies: &[&str]| recorded::cases("scratch_loop", noise::Kind::GpuBound, strategies, &sizes, 1);
    let recording = [Recording::new("s", 8, 0.0)];
    desk.keep("old", recorded(&of(&["hoisted", "async"]), &recording, "1", 1));
    desk.keep("new", recorded(&of(&["hoisted", "stream_ordered"]), &recording, "2", 2));
    let (ran, value) = json(&desk, &["old", "new"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        (&value["summary"]["new"], &value["summary"]["missing"]),
        (&3.into(), &3.into())
    );
    let missing = value["benchmarks"].as_array().expect("a list");
    let missing = missing.iter().find(|b| b["verdict"] == "missing").expect("one");
    assert_eq!((&missing["ratio"], &missing["q_value"]), (&Value::Null, &Value::Null));
    let text = desk.poolbench(&["compare", "old", "new"]).stdout;
    assert!(
        text.contains("function async seems to be called stream_ordered now (3 benchmarks)"),
        "{text}"
    );
    assert!(
        text.contains("missing: scratch_loop/async/1MiB, scratch_loop/async/4KiB"),
        "{text}"
    );
    assert_eq!(desk.poolbench(&["compare", "old", "new", "--strict"]).code, Some(1));
    // None in common.
    desk.keep("other", recorded(&of(&["vmm"]), &recording, "2", 2));
    let ran = desk.poolbench(&["compare", "old", "other"]);
    assert!(
        ran.refused(3)
            .contains("no benchmark in common: 6 ids in the base, 3 in the new side"),
        "{ran:?}"
    );
}

#[test]
fn few_launches_are_said_to_be_few() {
    let desk = Desk::new();
    for (launches, says) in [
        (
            1,
            "No verdict: one launch a side of 48 benchmarks; ratios and intervals hold inside the two processes only",
        ),
        (
            2,
            "No verdict: 2 launches against 2 launches of 48 benchmarks are too few: four a side give an interval",
        ),
        (6, "6 launches a side cannot show a single change, 7 can"),
    ] {
        sides(&desk, &suite(), launches, SHARED, |_| 1.2);
        let ran = desk.poolbench(&["compare", "old", "new"]);
        assert!(
            ran.stdout.lines().next().expect("a line").contains(says),
            "{launches}: {}",
            ran.stdout
        );
        if launches < 4 {
            assert_eq!(ran.code, Some(0));
            let (_, value) = json(&desk, &["old", "new"]);
            assert_eq!(value["summary"]["inconclusive"], 48);
            assert_eq!(value["benchmarks"][0]["p_value"], Value::Null);
            assert_eq!(value["benchmarks"][0]["ci_low"], Value::Null);
        }
    }
}

#[test]
fn sides_that_measured_different_things_are_refused_one_by_one() {
    let desk = Desk::new();
    let cases = suite();
    let recording = [Recording::new("s", 8, 0.0)];
    desk.keep("old", recorded(&cases, &recording, "1", 1));
    let edits: [(&str, fn(&mut poolbench::environment::Environment)); 5] = [
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
fn a_copy_of_itself_is_noticed() {
    let desk = Desk::new();
    sides(&desk, &suite(), 4, SHARED, |_| 1.0);
    let (ran, value) = json(&desk, &["old", "criterion-baselines/old"]);
    assert_eq!(ran.code, Some(0));
    assert!(
        value["warnings"]
            .to_string()
            .contains("48 of 48 compared benchmarks have the very same times"),
        "{value}"
    );
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
fn ids_may_hold_anything_and_harm_nothing() {
    let desk = Desk::new();
    let hostile = "g|`x`/\u{1b}[31m\u{202e}<script>/@user\n#1";
    let mut cases = recorded::cases("g", noise::Kind::GpuBound, &["f"], &["v", "w"], 1);
    cases[0].id = poolbench::stats::BenchmarkId::new(hostile);
    let recording = |effects: Vec<f64>, order| Recording {
        effects,
        first_order: order,
        ..Recording::new("s\u{1b}", 8, 0.0)
    };
    desk.keep(
        "old",
        recorded(&cases, &[recording(Vec::new(), 0)], "\u{1b}]0;x\u{7}", 1),
    );
    desk.keep("new", recorded(&cases, &[recording(vec![0.2, 0.0], 100)], "2", 2));
    let harmless = |text: &str| text.chars().all(|c| c == '\n' || (!c.is_control() && c != '\u{202e}'));
    for format in ["text", "markdown", "json"] {
        let ran = desk.poolbench(&["compare", "old", "new", "--format", format, "--all"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(harmless(&ran.stdout), "{:?}", ran.stdout);
    }
    let (_, value) = json(&desk, &["old", "new"]);
    assert_eq!(with_verdict(&value, "regressed"), [hostile]);
    let markdown = desk
        .poolbench(&["compare", "old", "new", "--format", "markdown"])
        .stdout;
    let row = markdown
        .lines()
        .find(|line| line.starts_with("| regressed | <code>"))
        .expect("a row");
    // Nine cells have ten bars.
    assert_eq!(row.matches('|').count(), 10, "{row}");
    assert!(
        !row.contains("<script>") && !row.contains("@user") && row.matches('`').count() == 0,
        "{row}"
    );
}

#[test]
fn markdown_fits_a_comment_however_many_benchmarks() {
    let desk = Desk::new();
    let sizes: Vec<String> = (0..400).map(|n| format!("{n}KiB")).collect();
    let sizes: Vec<&str> = sizes.iter().map(String::as_str).collect();
    let cases = recorded::cases("scratch_loop", noise::Kind::GpuBound, &["sync", "arena"], &sizes, 1);
    sides(
        &desk,
        &cases,
        8,
        SHARED,
        |id| if id.contains("sync") { 1.2 } else { 1.0 },
    );
    let ran = desk.poolbench(&["compare", "old", "new", "--format", "markdown"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.len() <= 65_536, "{}", ran.stdout.len());
    assert!(
        ran.stdout
            .starts_with("### poolbench: Regression: 400 of 800 benchmarks regressed (exit 1)")
    );
    assert!(ran.stdout.contains("left out, since a comment takes 65,536 characters"));
    assert!(ran.stdout.ends_with("</details>\n"));
    assert!(ran.stdout.contains("slower"), "the finding stands above the tables");
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
    // A full disk, a folder that is not there, a folder in its place.
    fs::create_dir(desk.path().join("folder")).expect("a folder");
    for path in ["/dev/full", "nowhere/report.json", "folder", "/proc/report.json"] {
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
