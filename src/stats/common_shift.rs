//! What all host-bound benchmarks have in common: the host, or a change of every driver call.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use super::effect::Effect;
use super::launch_levels::{LaunchLevels, launch_medians};
use super::launch_table::LaunchValue;
use super::matched::{Class, Matched, SessionLayout, Z95, centred, pooled_level};
use super::null_distribution::{NullDistributions, Scores};
use super::options::Options;
use super::order::{mean, median};
use super::rank_test::{Bounds, INTERVAL_LAUNCHES, RankTest};

/// Host-bound benchmarks from which a common shift is estimated.
pub(super) const BENCHMARKS_MIN: usize = 10;
/// Share of the corrected intervals that may exclude zero before the benchmarks moved apart.
const MOVED_APART_SHARE: f64 = 0.25;
/// Shift of the host-speed probe below which the host counts as still: the bound of equivalence.
const STILL_PROBE: f64 = 0.02;

/// Sessions a side from which a common shift can be a finding, where the sides do not share them.
///
/// Two a side, as the design has it, cannot show it: when sessions jump up or down by 15 % and no
/// probe tells, one suite in eight has two alike on each side and a jump between them, whatever the
/// variance between sessions says (6 to 13 % of suites seen), and with Student's quantile for two
/// degrees of freedom a real +10 % passes in a quarter to a third of suites only. At three a side
/// the jump is one in 32.
const ESTABLISHED_SESSIONS: usize = 3;

/// What was done about the common shift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Correction {
    /// It is taken out of the single p-values.
    Applied,
    /// More than a quarter of the benchmarks lie elsewhere: they moved apart, nothing is taken out.
    MovedApart,
}

/// The common shift of the host-bound benchmarks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CommonShift {
    /// Ratio, with a 95 % interval where the launches allow one.
    pub effect: Effect,
    /// Host-bound benchmarks that it is the median of.
    pub benchmarks: usize,
    /// What was done.
    pub correction: Correction,
    /// The interval lies beyond the minimum effect.
    pub declared: bool,
    /// Declared, with three or more sessions a side (or shared ones) and a still host probe: a finding
    /// in its own right. Otherwise a declared shift is a warning.
    pub established: bool,
    /// How the host-speed probe moved between the sides, where every launch has one.
    pub probe_shift: Option<Effect>,
}

/// Returns the common shift as a logarithm: the median estimate of the host-bound benchmarks with
/// four launches a side; `None` below ten of them.
pub(super) fn common_estimate(matched: &[Matched]) -> Option<f64> {
    let estimates: Vec<f64> = eligible(matched).map(|benchmark| benchmark.shift.estimate).collect();
    (estimates.len() >= BENCHMARKS_MIN).then(|| median(estimates))?
}

fn eligible(matched: &[Matched]) -> impl Iterator<Item = &Matched> {
    matched
        .iter()
        .filter(|benchmark| benchmark.class == Class::HostBound && benchmark.test.launches_min() >= INTERVAL_LAUNCHES)
}

/// Returns whether too many corrected intervals exclude zero. Intervals that are missing do not.
pub(super) fn moved_apart(matched: &[Matched], intervals: &[Option<Bounds>], common: f64) -> bool {
    let (mut all, mut apart) = (0usize, 0usize);
    for (benchmark, interval) in matched.iter().zip(intervals) {
        if benchmark.class == Class::HostBound && benchmark.test.launches_min() >= INTERVAL_LAUNCHES {
            all += 1;
            apart += usize::from(interval.is_some_and(|interval| interval.excludes(common)));
        }
    }
    apart as f64 > MOVED_APART_SHARE * all as f64
}

/// Returns the common shift with its interval and standing.
pub(super) fn describe(
    matched: &[Matched],
    estimate: f64,
    correction: Correction,
    uncertainty: Option<Uncertainty>,
    options: &Options,
    nulls: &mut NullDistributions,
) -> CommonShift {
    let benchmarks: Vec<&Matched> = eligible(matched).collect();
    let within = |level: f64| {
        let half = uncertainty.as_ref()?.half_width(level)?;
        Some(Bounds {
            lower: estimate - half,
            upper: estimate + half,
        })
    };
    let declared = within(0.95).is_some_and(|interval| interval.beyond(options.delta()));
    // A finding that ends in exit code 1 rests on the spread of very few sessions, whose shifts
    // need not be normal: 99 %. At 95 % up to 15 % of unchanged suites had one (sessions that shift
    // by 5 to 25 % either way and a probe that does not notice).
    let certain = within(0.99).is_some_and(|interval| interval.beyond(options.delta()));
    let probe_shift = probe_shift(&benchmarks, nulls);
    let still = probe_shift.is_some_and(|probe| probe.ratio.ln().abs() < STILL_PROBE);
    let sessions_tell = benchmarks.iter().all(|benchmark| match benchmark.layout {
        SessionLayout::Shared => true,
        SessionLayout::Several { base, new } => base.min(new) >= ESTABLISHED_SESSIONS,
        SessionLayout::One => false,
    });
    CommonShift {
        effect: Effect::of(estimate, within(0.95), 0.95),
        benchmarks: benchmarks.len(),
        correction,
        declared,
        established: certain && still && sessions_tell,
        probe_shift,
    }
}

/// What the common shift may be wrong by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Uncertainty {
    /// Standard error of the launch levels, as if launches were independent.
    pub independent: f64,
    /// The same, widened for launches in a row that are alike.
    launches: f64,
    /// Standard error of the sessions, and the degrees of freedom it was measured with, where some
    /// side has several.
    sessions: Option<(f64, f64)>,
}

impl Uncertainty {
    /// Returns the error of the difference between the sides' launch levels.
    pub fn of(
        levels: &LaunchLevels,
        matched: &[Matched],
        session_pairs: &[f64],
        nulls: &mut NullDistributions,
    ) -> Option<Self> {
        let [base, new] = &levels.common;
        let launches = usize::midpoint(base.len(), new.len());
        let alike = mean(&[rank_autocorrelation(base), rank_autocorrelation(new)]);
        let rho = (alike + 1.0 / launches as f64).clamp(0.0, 0.8);
        let values = |side: &[(u32, f64)]| side.iter().map(|level| level.1).collect();
        let test = RankTest::new(values(base), values(new), Scores::LowerHalf, nulls)?;
        let error = test.invert().interval(0.05)?.half_width() / Z95;
        let (base_sessions, new_sessions) = eligible(matched).next()?.session_counts();
        // A pair of sessions differs by two shifts.
        let squares: Vec<f64> = session_pairs.iter().map(|g| g * g / 2.0).collect();
        let shares = 1.0 / base_sessions as f64 + 1.0 / new_sessions as f64;
        let freedom = (base_sessions + new_sessions).saturating_sub(2) as f64;
        Some(Self {
            independent: error,
            launches: error * ((1.0 + rho) / (1.0 - rho)).sqrt(),
            sessions: (!squares.is_empty()).then(|| ((mean(&squares) * shares).sqrt(), freedom)),
        })
    }

    /// Half-width of the interval: Student's quantile for the sessions, which are few.
    fn half_width(&self, level: f64) -> Option<f64> {
        let upper = f64::midpoint(1.0, level);
        let launches = Normal::standard().inverse_cdf(upper) * self.launches;
        let Some((error, freedom)) = self.sessions else {
            return Some(launches);
        };
        let quantile = StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(upper);
        Some(launches.hypot(quantile * error))
    }
}

/// Lag-1 autocorrelation of the ranks of levels in time order, over neighbours of one session.
fn rank_autocorrelation(levels: &[(u32, f64)]) -> f64 {
    let n = levels.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_unstable_by(|&i, &j| levels[i].1.total_cmp(&levels[j].1));
    let mut deviations = vec![0.0; n];
    for (rank, index) in order.into_iter().enumerate() {
        deviations[index] = rank as f64 - (n as f64 - 1.0) / 2.0;
    }
    let variance: f64 = deviations.iter().map(|d| d * d).sum();
    let neighbours = levels.windows(2).zip(deviations.windows(2));
    let covariance: f64 = neighbours
        .filter(|(levels, _)| levels[0].0 == levels[1].0)
        .map(|(_, deviations)| deviations[0] * deviations[1])
        .sum();
    if variance > 0.0 { covariance / variance } else { 0.0 }
}

/// How the probe moved: the rank test on each launch's median probe, benchmarks' levels taken out.
fn probe_shift(benchmarks: &[&Matched], nulls: &mut NullDistributions) -> Option<Effect> {
    let probes = |side: &[LaunchValue]| -> Option<Vec<LaunchValue>> {
        let probe = |launch: &LaunchValue| launch.probe.map(|value| LaunchValue { value, ..*launch });
        side.iter().map(probe).collect()
    };
    let (mut base, mut new) = (Vec::new(), Vec::new());
    for benchmark in benchmarks {
        let (ours, theirs) = (probes(&benchmark.base)?, probes(&benchmark.new)?);
        let level = pooled_level(&ours, &theirs);
        base.extend(centred(&ours, level));
        new.extend(centred(&theirs, level));
    }
    let levels = |side: Vec<(u32, u32, f64)>| launch_medians(side).into_iter().map(|level| level.1).collect();
    let inversion = RankTest::new(levels(base), levels(new), Scores::LowerHalf, nulls)?.invert();
    Some(Effect::of(inversion.estimate(), inversion.interval(0.05), 0.95))
}
