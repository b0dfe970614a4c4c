//! `poolbench compare`: verdicts, exit codes, what it reads and what it refuses.

#![allow(missing_docs, reason = "tests")]

mod foreign;
mod harmless;
#[path = "../noise/mod.rs"]
mod noise;
#[path = "../common/recorded.rs"]
mod recorded;
mod refusals;
mod verdicts;

use noise::{Case, Recording};
use recorded::{Desk, Ran, effects, recorded};
use serde_json::Value;

/// Two sides of the suite, recorded in one shared session unless named otherwise.
pub fn sides(
    desk: &Desk,
    cases: &[Case],
    launches: usize,
    (base, new): (&[&str], &[&str]),
    factor: impl Fn(&str) -> f64,
) {
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

pub const SHARED: (&[&str], &[&str]) = (&["s"], &["s"]);

pub fn json(desk: &Desk, arguments: &[&str]) -> (Ran, Value) {
    let ran = desk.poolbench(&[&["compare"], arguments, &["--format", "json"]].concat());
    let value = ran.json();
    (ran, value)
}

pub fn with_verdict<'a>(json: &'a Value, verdict: &str) -> Vec<&'a str> {
    let benchmarks = json["benchmarks"].as_array().expect("a list");
    benchmarks
        .iter()
        .filter(|benchmark| benchmark["verdict"] == verdict)
        .map(|benchmark| benchmark["id"].as_str().expect("text"))
        .collect()
}
