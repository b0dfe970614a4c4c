//! What the sections of the page share: both sides' times, and the verdicts by id.

use super::super::timings::{Group, Timings, groups};
use crate::report::{Compared, SideSummary, verdict_name};
use crate::stats::{BenchmarkComparison, Calibration, Effect, Side, Verdict, Warning};
use std::collections::{BTreeMap, BTreeSet};

/// One side.
pub(super) struct SideView<'a> {
    pub summary: &'a SideSummary,
    pub side: &'a Side,
    pub timings: Timings,
}

/// Everything that the page shows.
pub(super) struct View<'a> {
    pub base: SideView<'a>,
    pub new: Option<SideView<'a>>,
    pub compared: Option<&'a Compared>,
    pub calibration: Option<&'a Calibration>,
    pub commands: &'a [String],
    /// The workloads of either side.
    pub groups: Vec<Group>,
    /// Every id with a time, in the order of the suite; those that name no place last.
    pub ids: Vec<String>,
    /// Ids whose raw and adjusted effects disagree.
    pub disagree: BTreeSet<&'a str>,
    pub by_id: BTreeMap<&'a str, &'a BenchmarkComparison>,
}

impl<'a> View<'a> {
    pub fn new(
        base: (&'a SideSummary, &'a Side),
        compared: Option<&'a Compared>,
        calibration: Option<&'a Calibration>,
        commands: &'a [String],
    ) -> View<'a> {
        let side_view = |(summary, side): (&'a SideSummary, &'a Side)| SideView {
            summary,
            side,
            timings: Timings::of(side),
        };
        let base = side_view(base);
        let new = compared.map(|compared| side_view((&compared.new, &compared.new_side)));
        let sides = [Some(&base), new.as_ref()];
        let ids: BTreeSet<&str> = sides
            .into_iter()
            .flatten()
            .flat_map(|side| side.timings.ids())
            .collect();
        let groups = groups(ids.iter().copied());
        let places = groups.iter().flat_map(|group| {
            let of_function = move |function| {
                group
                    .values
                    .iter()
                    .map(move |value| format!("{}/{function}/{value}", group.name))
            };
            group.functions.iter().flat_map(of_function)
        });
        let mut ordered: Vec<String> = places.filter(|id| ids.contains(id.as_str())).collect();
        let placed: BTreeSet<&str> = ordered.iter().map(String::as_str).collect();
        let others = ids.iter().filter(|id| !placed.contains(**id));
        let others: Vec<String> = others.map(|id| (*id).to_owned()).collect();
        ordered.extend(others);
        let benchmarks = compared.iter().flat_map(|compared| &compared.comparison.benchmarks);
        let warnings = compared.iter().flat_map(|compared| &compared.comparison.warnings);
        let disagree = warnings.filter_map(|warning| match warning {
            Warning::AdjustmentDisagrees(id) => Some(id.as_str()),
            _ => None,
        });
        View {
            disagree: disagree.collect(),
            by_id: benchmarks.map(|benchmark| (benchmark.id.as_str(), benchmark)).collect(),
            ids: ordered,
            base,
            new,
            compared,
            calibration,
            commands,
            groups,
        }
    }

    /// The side that charts of one side show: the new one where there is one.
    pub fn shown(&self) -> &SideView<'a> {
        self.new.as_ref().unwrap_or(&self.base)
    }

    /// The base, where it is drawn beside the new side.
    pub fn beside(&self) -> Option<&SideView<'a>> {
        self.new.as_ref().map(|_| &self.base)
    }

    /// The change of a benchmark; with one launch a side what holds inside the processes.
    pub fn effect(&self, benchmark: &BenchmarkComparison) -> Option<Effect> {
        let in_process = self
            .compared
            .and_then(|compared| compared.in_process.get(&benchmark.id));
        in_process
            .copied()
            .or(benchmark.measured.as_ref().map(|measured| measured.effect))
    }

    /// The time of a benchmark on a side, 0 the base. In a comparison it is what launches are judged by, the fast
    /// half of their samples, unless the change is one of medians. *Unit* ns.
    pub fn time_ns(&self, side: usize, id: &str) -> Option<f64> {
        let timing = self.sides().nth(side)?.timings.get(id)?;
        let judged = self.compared.is_some_and(|compared| compared.in_process.is_empty());
        Some(if judged { timing.fast_ns } else { timing.median_ns })
    }

    /// Both sides, the base first.
    pub fn sides(&self) -> impl Iterator<Item = &SideView<'a>> {
        std::iter::once(&self.base).chain(self.new.as_ref())
    }
}

/// How the page shows a verdict.
#[derive(Clone, Copy)]
pub(super) struct VerdictStyle {
    pub name: &'static str,
    /// A sign that tells it without colour.
    pub sign: &'static str,
    pub class: &'static str,
}

/// How the page shows a verdict; `ratio` tells which way a suspicion points.
pub(super) fn verdict_style(verdict: &Verdict, ratio: Option<f64>) -> VerdictStyle {
    let style = |sign, class| VerdictStyle {
        name: verdict_name(verdict),
        sign,
        class,
    };
    let direction = match ratio {
        Some(ratio) if ratio > 1.0 => "slower",
        Some(_) => "faster",
        None => "quiet",
    };
    match verdict {
        Verdict::Regressed => style("▲", "slower strong"),
        Verdict::Improved => style("▼", "faster strong"),
        Verdict::Suspected { .. } => style("?", direction),
        Verdict::Equivalent => style("=", ""),
        Verdict::Inconclusive(_) => style("~", "quiet"),
        Verdict::New { .. } => style("+", ""),
        Verdict::Missing { .. } => style("−", ""),
        Verdict::Skipped(_) => style("∅", "quiet"),
    }
}
