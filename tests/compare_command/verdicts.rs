//! What is found, and the exit code that says so.

use super::noise::{self, Kind, Recording};
use super::recorded::{self, Desk, recorded, suite};
use super::{SHARED, json, sides, with_verdict};
use poolbench::baseline::Skipped;
use serde_json::Value;
use std::fs;

const SIZES: [&str; 6] = ["4KiB", "64KiB", "1MiB", "8MiB", "32MiB", "256MiB"];

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
    // What could not be told is no promise.
    let inconclusive = summary["inconclusive"].as_u64().expect("a number");
    assert_eq!(
        text.lines().next().expect("a line"),
        format!("No regression among 48 benchmarks: {inconclusive} inconclusive (exit 0)")
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

/// One line about a strategy must not state as a fact what is only suspected of its benchmarks.
#[test]
fn what_is_suspected_of_a_strategy_is_told_as_a_suspicion() {
    // The GPU's sessions are assumed to differ little, the host's by anything: 35 % is proven of the former alone.
    let host_bound = recorded::cases(
        "call_latency",
        Kind::HostBound,
        &["hoisted", "sync", "vmm", "arena"],
        &SIZES,
        2,
    );
    for (cases, claims) in [
        (host_bound, "suspected to be slower"),
        (suite(), "slower or suspected to be (6 proven)"),
    ] {
        let desk = Desk::new();
        let slower = |id: &str| if id.contains("/sync/") { 1.35 } else { 1.0 };
        sides(&desk, &cases, 24, (&["monday"], &["tuesday"]), slower);
        let (_, value) = json(&desk, &["old", "new"]);
        let regressed = with_verdict(&value, "regressed");
        let [finding] = value["findings"].as_array().expect("a list").as_slice() else {
            panic!("{}", value["findings"]);
        };
        assert_eq!(finding["label"], "function sync");
        assert_eq!(finding["proven"], regressed.len(), "{finding}");
        let text = desk.poolbench(&["compare", "old", "new"]).stdout;
        let markdown = desk
            .poolbench(&["compare", "old", "new", "--format", "markdown"])
            .stdout;
        let line = format!("benchmarks are {claims}, +3");
        assert!(text.contains(&line), "{text}");
        assert!(markdown.contains(&line), "{markdown}");
        let html = desk.poolbench(&["compare", "old", "new", "--format", "html"]).stdout;
        assert!(html.contains(&format!(" {claims}, median +3")));
    }
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
    // A session that two baselines share is one.
    let interleaved = Recording {
        first_order: 1000,
        ..Recording::new("wednesday", 8, 0.1)
    };
    desk.keep("old-arm", recorded(&cases, &[interleaved], "580.159.04", 44));
    let (_, value) = json(&desk, &["old", "new"]);
    assert_eq!(value["options"]["session_spread"]["pairs"], 1, "{}", value["options"]);
    let text = desk.poolbench(&["compare", "old", "new"]).stdout;
    assert!(text.contains("(from 1 pair of sessions in old, old-again)"), "{text}");
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
            .contains("no measured benchmark in common: 6 ids in the base, 3 in the new side"),
        "{ran:?}"
    );
}

/// A driver that refuses a case, or takes too long for it, has lost something that the base could do.
#[test]
fn what_the_new_side_skipped_is_missing_and_says_why() {
    let desk = Desk::new();
    let cases = recorded::cases("scratch_loop", noise::Kind::GpuBound, &["hoisted", "vmm"], &["4KiB"], 1);
    let recording = [Recording::new("s", 8, 0.0)];
    let all = recorded(&cases, &recording, "1", 1);
    let mut less = recorded(&cases, &recording, "2", 2);
    less.manifest.benchmarks.retain(|id| id != "scratch_loop/vmm/4KiB");
    less.manifest.skipped.push(Skipped {
        id: String::from("scratch_loop/vmm/4KiB"),
        reason: String::from("a loop takes 81 ms"),
    });
    for launch in &mut less.launches {
        launch.samples.remove("scratch_loop/vmm/4KiB");
    }
    desk.keep("all", all);
    desk.keep("less", less);
    for (base, new, line) in [
        (
            "all",
            "less",
            "missing: scratch_loop/vmm/4KiB: the new side skipped it: a loop takes 81 ms",
        ),
        (
            "less",
            "all",
            "new: scratch_loop/vmm/4KiB: the base skipped it: a loop takes 81 ms",
        ),
    ] {
        let text = desk.poolbench(&["compare", base, new]).stdout;
        assert!(text.contains(line), "{text}");
        assert!(!text.contains("skipped: scratch_loop"), "{text}");
    }
    let strict = desk.poolbench(&["compare", "all", "less", "--strict"]);
    assert_eq!(strict.code, Some(1), "{strict:?}");
    assert!(
        strict.stdout.contains("1 missing (1 skipped by the new side) (exit 1)"),
        "{strict:?}"
    );
    assert_eq!(desk.poolbench(&["compare", "less", "all", "--strict"]).code, Some(0));
}

/// A shift that is taken out of the verdicts is on the page, however small.
#[test]
fn a_common_shift_is_told_in_html_too() {
    let desk = Desk::new();
    sides(&desk, &suite(), 12, SHARED, |_| 1.0);
    let text = desk.poolbench(&["compare", "old", "new"]).stdout;
    assert!(text.contains("in the middle: not certain; taken out"), "{text}");
    desk.poolbench(&["compare", "old", "new", "--format", "html", "--out", "report.html"]);
    let html = fs::read_to_string(desk.path().join("report.html")).expect("it is written");
    assert!(html.contains("Common shift: the ") && html.contains(": not certain. "));
    assert!(html.contains("Both sides were recorded in the same sessions, so that the launches decide."));
    assert!(!html.contains("only suspected"));
}

#[test]
fn few_launches_beside_many_are_said_to_be_unequal() {
    let desk = Desk::new();
    let of = |launches, seed| recorded(&suite(), &[Recording::new("s", launches, 0.0)], "1", seed);
    desk.keep("many", of(24, 1));
    desk.keep("few", of(4, 2));
    let text = desk.poolbench(&["compare", "many", "few"]).stdout;
    assert!(
        text.contains(
            "24 launches against 4 launches of 48 benchmarks are too few: beside 24 it takes 6 to give an interval"
        ),
        "{text}"
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
fn a_group_that_moves_as_a_whole_is_named_everywhere() {
    let desk = Desk::new();
    let strategies = ["hoisted", "sync", "stream_ordered", "arena"];
    let sizes = ["4KiB", "64KiB", "1MiB", "8MiB"];
    let mut cases = Vec::new();
    for (seed, group) in [
        (1, "scratch_loop"),
        (2, "streams"),
        (3, "trace_replay"),
        (4, "call_latency"),
    ] {
        cases.extend(recorded::cases(
            group,
            noise::Kind::HostBound,
            &strategies,
            &sizes,
            seed,
        ));
    }
    // A quarter of the suite is 15 % slower, all that one process measures.
    sides(&desk, &cases, 24, SHARED, |id| {
        if id.starts_with("call_latency/") { 1.15 } else { 1.0 }
    });
    let (ran, value) = json(&desk, &["old", "new"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let groups = value["group_shifts"].as_array().expect("a list");
    assert_eq!(groups.len(), 1, "{groups:?}");
    assert_eq!(
        (&groups[0]["group"], &groups[0]["benchmarks"]),
        (&"call_latency".into(), &16.into())
    );
    let number = |key: &str| groups[0][key].as_f64().expect("a number");
    assert!(number("ci_low") < 1.15 && number("ci_high") > 1.15, "{groups:?}");
    assert!(number("ci_low") > 1.05, "{groups:?}");
    // Each is told from the suite, none of which is accused.
    let regressed = with_verdict(&value, "regressed");
    assert!(regressed.len() > 8, "{regressed:?}");
    assert!(
        regressed.iter().all(|id| id.starts_with("call_latency/")),
        "{regressed:?}"
    );
    let line = "the 16 host-bound benchmarks of call_latency moved by +1";
    let text = desk.poolbench(&["compare", "old", "new"]).stdout;
    assert!(text.contains(line), "{text}");
    assert!(
        text.contains("of call_latency moved, as a whole, by more than the minimum effect"),
        "{text}"
    );
    desk.poolbench(&["compare", "old", "new", "--format", "html", "--out", "report.html"]);
    let html = fs::read_to_string(desk.path().join("report.html")).expect("it is written");
    assert!(
        html.contains("Common shift of <bdi>call_latency</bdi>: its 16 host-bound benchmarks"),
        "{html}"
    );
}
