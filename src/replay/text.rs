//! A report as text.

use super::report::{CombinationReport, PerEvent, Report};
use crate::counted::{counted, grouped};
use crate::report::Printable;
use crate::trace::render::{bytes, finish, table, time, trim_lines};
use std::fmt::Write as _;

/// The report as `poolbench replay TRACE` prints it.
#[must_use]
pub fn text(report: &Report) -> String {
    let mut text = format!("poolbench: {}\n", report.device);
    let _ = writeln!(text, "{}\n", subject(report));
    let _ = writeln!(text, "{}", trim_lines(&combinations(report)));
    for skipped in &report.skipped {
        let _ = writeln!(text, "skipped {}: {}", skipped.name, skipped.reason);
    }
    if let Some(touched) = touched(report) {
        let _ = writeln!(text, "\n{touched}");
    }
    let _ = writeln!(text, "\n{}\n", wrapped(&report.advice.paragraph, ""));
    for note in &report.advice.notes {
        let _ = writeln!(text, "- {}", wrapped(note, "  "));
    }
    text
}

/// Columns of a terminal that everyone has.
const WIDTH: usize = 100;

fn wrapped(paragraph: &str, indent: &str) -> String {
    let mut text = String::new();
    let mut width = indent.len();
    for word in paragraph.split(' ') {
        let length = word.chars().count();
        if width > indent.len() && width + length > WIDTH {
            text.push('\n');
            text.push_str(indent);
            width = indent.len();
        } else if width > indent.len() {
            text.push(' ');
        }
        text.push_str(word);
        width += length + 1;
    }
    text
}

fn subject(report: &Report) -> String {
    let counts = &report.replayed;
    let plural = |n: u64, what: &str| counted(grouped(n), what);
    let mut text = format!(
        "{}: {}, {}: {}, {}, {}; {}, peak {} live",
        Printable(&report.trace),
        report.source.name(),
        plural(counts.events, "event"),
        plural(counts.allocations, "allocation"),
        plural(counts.frees, "free"),
        plural(counts.synchronises, "wait"),
        plural(report.n_streams as u64, "stream"),
        bytes(report.peak_live_bytes),
    );
    #[allow(clippy::float_cmp, reason = "1 is what nobody changed")]
    if report.scale != 1.0 {
        let _ = write!(text, ", sizes scaled by {}", report.scale);
    }
    if counts.added_waits > 0 {
        let _ = write!(
            text,
            "; {} in another stream, {} between streams added",
            plural(counts.cross_stream_frees, "free"),
            plural(counts.added_waits, "wait")
        );
    }
    text
}

fn combinations(report: &Report) -> String {
    let mut table = table(&[
        "strategy",
        "threshold",
        "µs per event",
        "95 % interval",
        "first replay",
        "total",
        "slowest call",
        "peak reserved",
        "of peak",
        "held at end",
        "no memory",
    ]);
    for combination in &report.combinations {
        let mark = |name: Option<&str>, mark| if name == Some(&combination.name) { mark } else { "" };
        let strategy = format!(
            "{}{}{}",
            combination.strategy,
            mark(report.advice.recommended.as_deref(), " *"),
            mark(Some(&report.advice.present), " (present)")
        );
        table.add_row(row(report, combination, strategy));
    }
    finish(table)
}

fn row(report: &Report, combination: &CombinationReport, strategy: String) -> [String; 11] {
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    let median = |estimate: Option<PerEvent>| or_dash(estimate.map(|estimate| microseconds(estimate.median_ns)));
    let interval = combination
        .per_event
        .and_then(|estimate| estimate.lower_ns.zip(estimate.upper_ns))
        .map(|(lower, upper)| format!("{} to {}", microseconds(lower), microseconds(upper)));
    let total_ns = combination
        .per_event
        .map(|estimate| (estimate.median_ns * report.replayed.events as f64) as u64);
    let slowest = combination
        .slowest_call
        .map(|call| format!("{} {}", call.function, duration(call.time_ns)));
    [
        strategy,
        or_dash(combination.threshold.clone()),
        median(combination.per_event),
        or_dash(interval),
        median(combination.first_per_event),
        or_dash(total_ns.map(duration)),
        or_dash(slowest),
        or_dash(combination.peak_reserved_bytes.map(short)),
        or_dash(combination.fragmentation.map(|ratio| format!("{ratio:.2}x"))),
        or_dash(combination.held_bytes.map(short)),
        grouped(combination.out_of_memory),
    ]
}

/// `2.36 GiB`, without the exact number behind.
fn short(n: u64) -> String {
    let long = bytes(n);
    long.split_once(" (")
        .map_or(long.clone(), |(short, _)| short.to_owned())
}

/// Nanoseconds in the unit that suits them.
pub(super) fn duration(time_ns: u64) -> String {
    time(time_ns).replace(" us", " µs")
}

/// Nanoseconds as microseconds, three digits or so.
pub(super) fn microseconds(time_ns: f64) -> String {
    let time_us = time_ns / 1e3;
    let decimals = match time_us.abs() {
        ..10.0 => 3,
        10.0..100.0 => 2,
        _ => 1,
    };
    format!("{time_us:.decimals$}")
}

fn touched(report: &Report) -> Option<String> {
    // One that found no memory had fewer blocks to write.
    let touched = || report.combinations.iter().filter_map(|c| c.touched);
    let (least, most) = (
        touched().min_by_key(|touched| touched.blocks)?,
        touched().max_by_key(|touched| touched.blocks)?,
    );
    let fewest = match least.blocks {
        blocks if blocks == most.blocks => String::new(),
        blocks => format!("{} to ", grouped(blocks)),
    };
    let mut text = format!(
        "Each combination was also replayed with its blocks written and verified: {fewest}{}, {}",
        counted(grouped(most.blocks), "block"),
        bytes(most.bytes)
    );
    if most.blocks_too_small > 0 {
        let _ = write!(text, "; too small to verify: {}", grouped(most.blocks_too_small));
    }
    text.push('.');
    Some(text)
}
