//! The rows of a comparison's tables, which text and Markdown share.

use super::Compared;
use super::words::{change, share, verdict_name, verdict_reason};
use crate::report::table::microseconds;
use crate::stats::{BenchmarkComparison, BenchmarkId, Measured, Side, Verdict, Warning, quantile_of_sorted};
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

/// How far up a verdict belongs: what is proven first. `None`: nothing changed.
pub(in crate::report) fn rank(verdict: &Verdict) -> Option<u8> {
    match verdict {
        Verdict::Regressed => Some(0),
        Verdict::Improved => Some(1),
        Verdict::Suspected { .. } => Some(2),
        _ => None,
    }
}

/// The changed benchmarks, the proven first, of each kind the largest change first.
pub(in crate::report) fn changed(compared: &Compared) -> Vec<(&BenchmarkComparison, &Measured)> {
    let mut changed: Vec<(u8, &BenchmarkComparison, &Measured)> = Vec::new();
    for benchmark in &compared.comparison.benchmarks {
        if let (Some(rank), Some(measured)) = (rank(&benchmark.verdict), &benchmark.measured) {
            changed.push((rank, benchmark, measured));
        }
    }
    let size = |measured: &Measured| measured.effect.ratio.ln().abs();
    changed.sort_by(|a, b| a.0.cmp(&b.0).then(size(b.2).total_cmp(&size(a.2))));
    changed
        .into_iter()
        .map(|(_, benchmark, measured)| (benchmark, measured))
        .collect()
}

/// The rows of the changed benchmarks.
pub(super) fn changed_rows(compared: &Compared) -> Vec<Row<'_>> {
    rows(compared, changed(compared).into_iter().map(|(benchmark, _)| benchmark))
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
            launch.fast_ns()
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
    let judged = rank(&benchmark.verdict).is_some() || benchmark.verdict == Verdict::Equivalent;
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
