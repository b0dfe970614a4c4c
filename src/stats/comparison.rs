//! Two sides in, verdicts out.

use super::adjustment::ProbeSlope;
use super::aligned::Aligned;
use super::benchmark_id::BenchmarkId;
use super::common_shift::{CommonShift, GroupShift};
use super::doubts::warnings;
use super::effect::Effect;
use super::finding::{Direction, Finding, Member, Renaming, findings, renamings};
use super::judging::judge_all;
use super::launch_table::{LaunchTable, Row, SessionIndex};
use super::matched::{Class, Matched, Prepared, SessionLayout};
use super::multiple_testing::q_values;
use super::noisy_host::SlowShare;
use super::null_distribution::NullDistributions;
use super::options::{Options, SessionSpread};
use super::session_outlook::Outlook;
use super::sessions::spread_between;
use super::side::{Side, SkipReason};
use super::verdict::{Judged, Suite, Verdict, decide, detectable};
use super::warning::Warning;
use super::weather::Weather;

/// What a comparison says of one benchmark.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchmarkComparison {
    /// The benchmark.
    pub id: BenchmarkId,
    /// The verdict.
    pub verdict: Verdict,
    /// The numbers, where both sides have valid ones.
    pub measured: Option<Measured>,
}

/// The numbers of a benchmark that both sides measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// What paces it.
    pub class: Class,
    /// Launches of the base and of the new side.
    pub launches: (usize, usize),
    /// How the sides' sessions relate.
    pub sessions: SessionLayout,
    /// Ratio and 95 % interval, adjusted for the host's speed where that is possible, with the
    /// variance between sessions where it is known; the common shift is left in.
    pub effect: Effect,
    /// The same from the times as recorded, from launches alone.
    pub raw: Effect,
    /// The effect less the common shift (of its group, where that moved like the suite), with the
    /// variance that sessions add to what is left: what the p-value is about.
    pub corrected: Effect,
    /// Ratio of medians, which also sees the slow half of the launches.
    pub median_ratio: Option<f64>,
    /// The slope that the adjustment took out, if any.
    pub probe_slope: Option<ProbeSlope>,
    /// p-value of "within the minimum effect"; `None` below four launches a side.
    pub p_value: Option<f64>,
    /// Its false discovery rate over all compared benchmarks.
    pub q_value: f64,
    /// Minimal detectable effect (0.03: three per cent) of a change found in nine of ten
    /// comparisons; `None` where no number of launches like this could show any, or none below a tenfold one.
    pub minimal_detectable_effect: Option<f64>,
}

/// How many benchmarks have each verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Summary {
    pub regressed: usize,
    pub improved: usize,
    pub suspected: usize,
    pub equivalent: usize,
    pub inconclusive: usize,
    pub new: usize,
    pub missing: usize,
    pub skipped: usize,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Every id of either side, in order.
    pub benchmarks: Vec<BenchmarkComparison>,
    /// Counts of verdicts.
    pub summary: Summary,
    /// The common shift of the host-bound benchmarks, where ten or more are compared.
    pub common_shift: Option<CommonShift>,
    /// Groups whose host-bound benchmarks moved in common, and not as the suite did.
    pub group_shifts: Vec<GroupShift>,
    /// Labels whose benchmarks moved together.
    pub findings: Vec<Finding>,
    /// Labels that seem to have been renamed.
    pub renamings: Vec<Renaming>,
    /// Share of slow host-bound launches, where there are any.
    pub slow_share: Option<SlowShare>,
    /// Doubts.
    pub warnings: Vec<Warning>,
}

impl Comparison {
    /// Returns whether a regression was found: a benchmark's, or an established common slowdown of the suite or of a
    /// group.
    #[must_use]
    pub fn has_regression(&self) -> bool {
        let suite = self.common_shift.is_some_and(|c| c.established && c.effect.ratio > 1.0);
        let slower = |group: &GroupShift| group.established && group.effect.ratio > 1.0;
        self.summary.regressed > 0 || suite || self.group_shifts.iter().any(slower)
    }
}

/// Returns the comparison of a new side with a base.
#[must_use]
pub fn compare(base: &Side, new: &Side, options: &Options) -> Comparison {
    let mut sessions = SessionIndex::default();
    let base = LaunchTable::new(base, &mut sessions);
    let new = LaunchTable::new(new, &mut sessions);
    compare_tables(&base, &new, options, &mut NullDistributions::default())
}

/// Returns the spread between sessions that two unchanged recordings of one machine show, for
/// [`Options::with_session_spread`].
#[must_use]
pub fn session_spread(base: &Side, new: &Side) -> SessionSpread {
    let mut sessions = SessionIndex::default();
    let base = LaunchTable::new(base, &mut sessions);
    let new = LaunchTable::new(new, &mut sessions);
    spread_between(&match_rows(&base, &new, 0.05, &mut NullDistributions::default()).0)
}

pub(super) fn compare_tables(
    base: &LaunchTable,
    new: &LaunchTable,
    options: &Options,
    nulls: &mut NullDistributions,
) -> Comparison {
    let count = matching(base, new).count();
    let lone_alpha = options.false_discovery_rate() / count.max(1) as f64;
    let (matched, weather) = match_rows(base, new, lone_alpha, nulls);
    let judgement = judge_all(&matched, weather.as_ref(), lone_alpha, options, nulls);
    let slow_share = SlowShare::of(&matched);
    let measured = decide_all(&matched, &judgement.benchmarks, slow_share, options);
    let benchmarks = list(base, new, measured);
    let members: Vec<Member<'_>> = benchmarks.iter().filter_map(member).collect();
    let of = |verdict: &Verdict| -> Vec<&BenchmarkId> {
        benchmarks
            .iter()
            .filter(|b| b.verdict == *verdict)
            .map(|b| &b.id)
            .collect()
    };
    let compared: Vec<&BenchmarkId> = matched.iter().map(|benchmark| &benchmark.id).collect();
    let mut comparison = Comparison {
        summary: summarise(&benchmarks),
        common_shift: judgement.common_shift,
        group_shifts: judgement.group_shifts,
        findings: findings(&members),
        renamings: renamings(
            &of(&Verdict::Missing { skipped_now: None }),
            &of(&Verdict::New { skipped_before: None }),
            &compared,
        ),
        slow_share,
        warnings: Vec::new(),
        benchmarks,
    };
    comparison.warnings = warnings(&comparison, &matched, (base, new), options);
    comparison
}

fn matching<'a>(
    base: &'a LaunchTable,
    new: &'a LaunchTable,
) -> impl Iterator<Item = (&'a BenchmarkId, &'a Row, &'a Row)> {
    let valid = |row: &&Row| row.skipped.is_none() && !row.values.is_empty();
    base.rows
        .iter()
        .filter_map(move |(id, row)| Some((id, Some(row).filter(valid)?, new.rows.get(id).filter(valid)?)))
}

fn match_rows(
    base: &LaunchTable,
    new: &LaunchTable,
    lone_alpha: f64,
    nulls: &mut NullDistributions,
) -> (Vec<Matched>, Option<Weather>) {
    let aligned: Vec<Aligned> = matching(base, new)
        .map(|(id, base, new)| Aligned::new(id, base, new))
        .collect();
    let pool = Aligned::pool(&aligned);
    let prepared: Vec<Prepared> = aligned
        .into_iter()
        .map(|aligned| Prepared::new(aligned, pool))
        .collect();
    let weather = Weather::of(&prepared);
    let estimate = |prepared| Matched::new(prepared, weather.as_ref(), lone_alpha, nulls);
    let matched = prepared.into_iter().filter_map(estimate).collect();
    (matched, weather)
}

fn decide_all(
    matched: &[Matched],
    judged: &[Judged],
    slow_share: Option<SlowShare>,
    options: &Options,
) -> Vec<BenchmarkComparison> {
    let rates = |p_value: fn(&Judged) -> Option<f64>| {
        q_values(
            &judged
                .iter()
                .map(|judged| p_value(judged).unwrap_or(1.0))
                .collect::<Vec<_>>(),
        )
    };
    let fdr = options.false_discovery_rate();
    let (q, q_launches) = (rates(|judged| judged.p_value), rates(|judged| judged.p_value_launches));
    let passing = q_launches.iter().filter(|&&q| q < fdr).count().max(1);
    // What Benjamini and Hochberg ask of one that is to pass beside those.
    let threshold = fdr * passing as f64 / matched.len().max(1) as f64;
    let suite = Suite {
        noisy: slow_share.is_some_and(|share| share.is_noisy()),
        false_discovery_rate: fdr,
    };
    let one = |(index, (benchmark, judged)): (usize, (&Matched, &Judged))| {
        let needed = |outlook: Outlook| {
            let error = benchmark.shift.standard_error()?;
            outlook.sessions_needed(judged.corrected, error, threshold, options)
        };
        let verdict = decide(benchmark, judged, (q[index], q_launches[index]), suite, needed);
        let measured = Some(measured(benchmark, judged, q[index], suite));
        BenchmarkComparison {
            id: benchmark.id.clone(),
            verdict,
            measured,
        }
    };
    matched.iter().zip(judged).enumerate().map(one).collect()
}

fn measured(matched: &Matched, judged: &Judged, q_value: f64, suite: Suite) -> Measured {
    Measured {
        class: matched.class,
        launches: (matched.base.len(), matched.new.len()),
        sessions: matched.layout,
        effect: Effect::of(matched.shift.estimate, judged.interval95_total, 0.95),
        raw: Effect::of(matched.raw.estimate, matched.raw.interval95, 0.95),
        corrected: Effect::of(judged.corrected, judged.interval95_corrected(matched), 0.95),
        median_ratio: matched.median_ratio,
        probe_slope: matched.slope,
        p_value: judged.p_value,
        q_value,
        minimal_detectable_effect: detectable(matched, judged, suite).map(f64::exp_m1),
    }
}

/// Merges the compared benchmarks with those that only one side has, or that take no part.
fn list(base: &LaunchTable, new: &LaunchTable, compared: Vec<BenchmarkComparison>) -> Vec<BenchmarkComparison> {
    let mut all: std::collections::BTreeMap<BenchmarkId, BenchmarkComparison> = compared
        .into_iter()
        .map(|benchmark| (benchmark.id.clone(), benchmark))
        .collect();
    for id in base.rows.keys().chain(new.rows.keys()) {
        let Some(verdict) = unmatched(State::of(base, id), State::of(new, id)) else {
            continue;
        };
        let entry = BenchmarkComparison {
            id: id.clone(),
            verdict,
            measured: None,
        };
        all.entry(id.clone()).or_insert(entry);
    }
    all.into_values().collect()
}

/// What a side has of a benchmark.
enum State<'a> {
    Nothing,
    Measured,
    /// Skipped when it was recorded: no number, and a reason.
    Skipped(&'a str),
    /// Numbers that are none, or none left.
    Unusable(&'a SkipReason),
}

impl<'a> State<'a> {
    fn of(table: &'a LaunchTable, id: &BenchmarkId) -> Self {
        let Some(row) = table.rows.get(id) else {
            return Self::Nothing;
        };
        match &row.skipped {
            Some(SkipReason::Recorded(reason)) => Self::Skipped(reason),
            Some(reason) => Self::Unusable(reason),
            None if row.values.is_empty() => Self::Nothing,
            None => Self::Measured,
        }
    }
}

/// Returns the verdict of a benchmark that is not compared. What the base measured and the new side skipped is missing,
/// with a reason: a driver that refuses a call, or takes too long for it, must not pass for one that never could.
fn unmatched(base: State<'_>, new: State<'_>) -> Option<Verdict> {
    use State::{Measured, Nothing, Skipped, Unusable};
    let recorded = |reason: &str| Verdict::Skipped(SkipReason::Recorded(reason.to_owned()));
    match (base, new) {
        (Unusable(reason), _) | (_, Unusable(reason)) => Some(Verdict::Skipped(reason.clone())),
        (Measured, Nothing) => Some(Verdict::Missing { skipped_now: None }),
        (Measured, Skipped(reason)) => Some(Verdict::Missing {
            skipped_now: Some(reason.to_owned()),
        }),
        (Nothing, Measured) => Some(Verdict::New { skipped_before: None }),
        (Skipped(reason), Measured) => Some(Verdict::New {
            skipped_before: Some(reason.to_owned()),
        }),
        (Skipped(reason), _) | (Nothing, Skipped(reason)) => Some(recorded(reason)),
        (Nothing, Nothing) | (Measured, Measured) => None,
    }
}

fn member(benchmark: &BenchmarkComparison) -> Option<Member<'_>> {
    let shift = benchmark.measured.as_ref()?.effect.ratio.ln();
    let moved = match benchmark.verdict {
        Verdict::Regressed => Some(Direction::Slower),
        Verdict::Improved => Some(Direction::Faster),
        Verdict::Suspected { .. } if shift > 0.0 => Some(Direction::Slower),
        Verdict::Suspected { .. } => Some(Direction::Faster),
        _ => None,
    };
    Some(Member {
        id: &benchmark.id,
        shift,
        moved,
        proven: matches!(benchmark.verdict, Verdict::Regressed | Verdict::Improved),
    })
}

fn summarise(benchmarks: &[BenchmarkComparison]) -> Summary {
    let mut summary = Summary::default();
    for benchmark in benchmarks {
        let count = match benchmark.verdict {
            Verdict::Regressed => &mut summary.regressed,
            Verdict::Improved => &mut summary.improved,
            Verdict::Suspected { .. } => &mut summary.suspected,
            Verdict::Equivalent => &mut summary.equivalent,
            Verdict::Inconclusive(_) => &mut summary.inconclusive,
            Verdict::New { .. } => &mut summary.new,
            Verdict::Missing { .. } => &mut summary.missing,
            Verdict::Skipped(_) => &mut summary.skipped,
        };
        *count += 1;
    }
    summary
}
