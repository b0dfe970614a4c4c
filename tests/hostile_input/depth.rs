//! JSON within JSON.

use super::recorded::Desk;
use super::{harmless, plant, rehashed};
use std::fs;

/// Brackets within brackets: a parser that calls itself would end the process.
const DEPTH: usize = 100_000;

#[test]
fn depth_is_refused_or_passed_over() {
    let desk = Desk::new();
    plant(&desk, "old", |_| {});
    let deep = format!("{}{}", "[".repeat(DEPTH), "]".repeat(DEPTH));
    let objects = format!("{}1{}", "{\"a\":".repeat(DEPTH), "}".repeat(DEPTH));
    let folder = desk.baselines().join("old");
    let manifest = fs::read_to_string(folder.join("manifest.json")).expect("it is there");
    let refused = |arguments: &[&str]| {
        let ran = desk.poolbench(arguments);
        harmless(ran.refused(3));
        assert!(ran.stderr.len() < 1_000, "{}", ran.stderr);
    };
    for deep in [&deep, &objects] {
        for edited in [
            manifest.replacen("\"format\":1", &format!("\"format\":{deep}"), 1),
            manifest.replacen("\"settings\":", &format!("\"settings\":{deep},\"s\":"), 1),
            manifest.replacen("\"host_bound\":", &format!("\"host_bound\":{deep},\"s\":"), 1),
            deep.clone(),
            "[".repeat(DEPTH),
        ] {
            assert_ne!(edited, manifest);
            fs::write(folder.join("manifest.json"), edited).expect("it can be written");
            refused(&["compare", "old", "old"]);
        }
        // A field that nobody reads may be anything.
        let edited = manifest.replacen('{', &format!("{{\"unknown\":{deep},"), 1);
        fs::write(folder.join("manifest.json"), edited).expect("it can be written");
        let ran = desk.poolbench(&["compare", "old", "old"]);
        assert!(matches!(ran.code, Some(0 | 3)), "{ran:?}");
        rehashed(
            &folder,
            serde_json::from_str(&manifest).expect("JSON"),
            &format!("{deep}\n"),
        );
        refused(&["compare", "old", "old"]);
        fs::write(desk.path().join("e.json"), deep).expect("a file");
        refused(&["compare", "e.json", "old"]);
        refused(&["trace", "e.json"]);
        let export = format!("{{\"name\":\"n\",\"benchmarks\":{{\"a\":{deep}}}}}");
        fs::write(desk.path().join("e.json"), export).expect("a file");
        refused(&["compare", "e.json", "old"]);
        let events = format!("{{\"traceEvents\":[{deep}]}}");
        fs::write(desk.path().join("t.json"), events).expect("a file");
        refused(&["trace", "t.json"]);
        let home = desk.path().join("home/g/f/n");
        fs::create_dir_all(&home).expect("a folder");
        for (sample, benchmark) in [(deep.as_str(), "{}"), ("{}", deep)] {
            fs::write(home.join("sample.json"), sample).expect("a file");
            fs::write(home.join("benchmark.json"), benchmark).expect("a file");
            refused(&["compare", "home@n", "old"]);
        }
    }
}
