//! Whatever an input holds, its report does no harm.

use super::noise::{self, Recording};
use super::recorded::{self, Desk, recorded};
use super::{SHARED, json, sides, with_verdict};

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
        10,
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
