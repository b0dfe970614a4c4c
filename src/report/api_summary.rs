//! The API summary: driver calls by phase and function, as a table and as JSON.

use super::table::microseconds;
use crate::driver::log::{CallSummary, Phase};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use std::time::Duration;

/// The format's version.
const FORMAT: u32 = 1;

/// The summaries as a table in the order given, times in microseconds.
#[must_use]
pub fn api_summary_table(summaries: &[CallSummary]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "phase",
        "function",
        "calls",
        "total µs",
        "mean µs",
        "median µs",
        "min µs",
        "max µs",
    ]);
    for summary in summaries {
        let times = [summary.total, summary.mean, summary.median, summary.min, summary.max];
        let mut row = vec![
            phase_name(summary.phase).to_owned(),
            summary.function.name().to_owned(),
            summary.calls.to_string(),
        ];
        #[allow(clippy::cast_precision_loss, reason = "nanoseconds of a run, for display")]
        row.extend(times.map(|time| microseconds(time.as_nanos() as f64)));
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    id: &'a str,
    device: &'a str,
    iterations: u64,
    functions: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    phase: &'static str,
    function: &'static str,
    calls: usize,
    total_ns: u64,
    mean_ns: u64,
    median_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

/// The summaries of one loop of `iterations` iterations as one JSON object, times in nanoseconds.
///
/// # Errors
///
/// None that these types can cause.
pub fn api_summary_json(
    id: &str,
    device: &str,
    iterations: u64,
    summaries: &[CallSummary],
) -> serde_json::Result<String> {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let functions = summaries.iter().map(|summary| Line {
        phase: phase_name(summary.phase),
        function: summary.function.name(),
        calls: summary.calls,
        total_ns: ns(summary.total),
        mean_ns: ns(summary.mean),
        median_ns: ns(summary.median),
        min_ns: ns(summary.min),
        max_ns: ns(summary.max),
    });
    serde_json::to_string_pretty(&Document {
        format: FORMAT,
        id,
        device,
        iterations,
        functions: functions.collect(),
    })
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::SetUp => "set-up",
        Phase::Loop => "loop",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Function;

    fn summaries() -> [CallSummary; 2] {
        let us = Duration::from_micros;
        let create = CallSummary {
            phase: Phase::SetUp,
            function: Function::cuStreamCreate,
            calls: 1,
            total: us(25),
            mean: us(25),
            median: us(25),
            min: us(25),
            max: us(25),
        };
        let free = CallSummary {
            phase: Phase::Loop,
            function: Function::cuMemFreeAsync,
            calls: 100,
            total: us(310),
            mean: Duration::from_nanos(3_100),
            median: us(3),
            min: us(2),
            max: us(14),
        };
        [create, free]
    }

    #[test]
    fn the_table_keeps_set_up_apart_from_the_loop() {
        let expected = "\
| phase  | function       | calls | total µs | mean µs | median µs | min µs | max µs |
|--------|----------------|-------|----------|---------|-----------|--------|--------|
| set-up | cuStreamCreate |     1 |     25.0 |    25.0 |      25.0 |   25.0 |   25.0 |
| loop   | cuMemFreeAsync |   100 |    310.0 |    3.10 |      3.00 |   2.00 |   14.0 |";
        let table = api_summary_table(&summaries());
        let trimmed: Vec<&str> = table.lines().map(str::trim_end).collect();
        assert_eq!(trimmed.join("\n"), expected);
    }

    #[test]
    fn json_has_whole_nanoseconds() {
        let text = api_summary_json("scratch_loop/sync/4KiB", "a device", 100, &summaries()).expect("plain types");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["format"], 1);
        assert_eq!(value["iterations"], 100);
        assert_eq!(value["functions"][1]["phase"], "loop");
        assert_eq!(value["functions"][1]["function"], "cuMemFreeAsync");
        assert_eq!(value["functions"][1]["mean_ns"], 3_100);
        assert_eq!(value["functions"][1]["calls"], 100);
    }
}
