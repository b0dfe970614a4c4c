//! The rows of a comparison's tables, which text and Markdown share.

use super::Compared;
use super::words::{change, share, verdict_name, verdict_reason};
use crate::report::table::microseconds;
use crate::stats::{BenchmarkComparison, BenchmarkId, Side, Verdict, Warning, quantile_of_sorted};
use std::collections::BTreeSet;

/// The headings of a row's cells.
pub(super) const HEADINGS: [&str; 9] = [
    "verdict",
    "benchmark",
    "base µs",
    "new µs",
    "new/base",
    "95 % interval",
    "q",
    "detectable",
    "note",
];
/// Cells that hold numbers.
pub(super) const NUMBERS: std::ops::Range<usize> = 2..8;

/// How far the ratio of medians may lie from the effect, in logarithms: on a noisy host it wanders.
const MEDIANS_APART: f64 = 0.05;

/// A benchmark's row. The id is as the input gave it; the other cells are ready to be shown.
#[derive(Clone, Debug)]
pub(super) struct Row<'a> {
    pub id: &'a str,
    pub verdict: &'static str,
    /// Times, ratio, interval, q, detectable effect.
    pub numbers: [String; 6],
    pub note: String,
}

/// What a reader looks at first.
pub(super) fn is_changed(verdict: &Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Regressed | Verdict::Improved | Verdict::Suspected { .. }
    )
}

/// The changed benchmarks: regressed, improved, suspected, the largest change first.
pub(super) fn changed_rows(compared: &Compared) -> Vec<Row<'_>> {
    let rank = |verdict: &Verdict| match verdict {
        Verdict::Regressed => 0,
        Verdict::Improved => 1,
        _ => 2,
    };
    let size = |benchmark: &BenchmarkComparison| {
        let measured = benchmark.measured.as_ref();
        measured.map_or(0.0, |measured| measured.effect.ratio.ln().abs())
    };
    let mut changed: Vec<&BenchmarkComparison> = compared
        .comparison
        .benchmarks
        .iter()
        .filter(|benchmark| is_changed(&benchmark.verdict))
        .collect();
    changed.sort_by(|a, b| {
        let order = rank(&a.verdict).cmp(&rank(&b.verdict));
        order.then(size(b).total_cmp(&size(a)))
    });
    rows(compared, changed.into_iter())
}

/// All benchmarks, by id.
pub(super) fn all_rows(compared: &Compared) -> Vec<Row<'_>> {
    rows(compared, compared.comparison.benchmarks.iter())
}

fn rows<'a>(compared: &'a Compared, benchmarks: impl Iterator<Item = &'a BenchmarkComparison>) -> Vec<Row<'a>> {
    let disagree: BTreeSet<&BenchmarkId> = compared
        .comparison
        .warnings
        .iter()
        .filter_map(|warning| match warning {
            Warning::AdjustmentDisagrees(id) => Some(id),
            _ => None,
        })
        .collect();
    benchmarks
        .map(|benchmark| row(compared, benchmark, disagree.contains(&benchmark.id)))
        .collect()
}

fn row<'a>(compared: &'a Compared, benchmark: &'a BenchmarkComparison, disagrees: bool) -> Row<'a> {
    let dash = || String::from("-");
    let id = &benchmark.id;
    let in_process = compared.in_process.get(id);
    let [base, new] = [&compared.base_side, &compared.new_side]
        .map(|side| typical_time_ns(side, id, in_process.is_some()).map_or_else(dash, microseconds));
    let effect = in_process.or(benchmark.measured.as_ref().map(|measured| &measured.effect));
    let measured = benchmark.measured.as_ref();
    let interval = effect.and_then(|effect| effect.interval);
    let mut notes: Vec<String> = Vec::new();
    if in_process.is_some() {
        notes.push(String::from("in-process interval"));
    } else {
        notes.extend(verdict_reason(&benchmark.verdict));
    }
    notes.extend(effect_notes(benchmark, disagrees));
    Row {
        id: id.as_str(),
        verdict: verdict_name(&benchmark.verdict),
        numbers: [
            base,
            new,
            effect.map_or_else(dash, |effect| ratio(effect.ratio)),
            interval.map_or_else(dash, |interval| {
                format!("{} to {}", ratio(interval.lower), ratio(interval.upper))
            }),
            measured
                .filter(|measured| measured.p_value.is_some())
                .map_or_else(dash, |measured| rate(measured.q_value)),
            measured
                .and_then(|measured| measured.minimal_detectable_effect)
                .map_or_else(dash, share),
        ],
        note: notes.join("; "),
    }
}

/// What else can be said of the size of a change; `disagrees` where the raw and the adjusted effect do.
pub(in crate::report) fn effect_notes(benchmark: &BenchmarkComparison, disagrees: bool) -> Vec<String> {
    let raw = benchmark.measured.as_ref().filter(|_| disagrees);
    let raw = raw.map(|measured| format!("{} before adjustment", change(measured.raw.ratio)));
    raw.into_iter().chain(medians_disagree(benchmark)).collect()
}

/// The median over the launches of what a launch is judged by, the fast half of its samples; of the
/// whole launch where the ratio is one of medians.
fn typical_time_ns(side: &Side, id: &BenchmarkId, of_medians: bool) -> Option<f64> {
    let time = |launch: &crate::stats::Launch| {
        if of_medians {
            launch.sample.median_ns()
        } else {
            launch.sample.fast_log_mean().exp()
        }
    };
    let mut times: Vec<f64> = side.benchmark(id)?.launches().map(time).collect();
    times.sort_unstable_by(f64::total_cmp);
    (!times.is_empty()).then(|| quantile_of_sorted(&times, 0.5))
}

/// The ratio of medians where it says something else than the fast samples do: a change of the slow
/// launches alone moves nothing but it.
fn medians_disagree(benchmark: &BenchmarkComparison) -> Option<String> {
    let measured = benchmark.measured.as_ref()?;
    let median_ratio = measured.median_ratio?;
    let judged = is_changed(&benchmark.verdict) || benchmark.verdict == Verdict::Equivalent;
    let apart = (median_ratio / measured.effect.ratio).ln().abs() > MEDIANS_APART;
    (judged && apart).then(|| format!("medians {}", change(median_ratio)))
}

fn ratio(ratio: f64) -> String {
    format!("{ratio:.3}")
}

fn rate(rate: f64) -> String {
    if rate < 0.001 {
        String::from("<0.001")
    } else {
        format!("{rate:.3}")
    }
}
