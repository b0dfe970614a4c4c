//! What all host-bound benchmarks have in common: the host, or a change of every driver call.

use statrs::distribution::{ContinuousCDF, Normal};

use super::effect::Effect;
use super::launch_levels::{LaunchLevels, launch_medians};
use super::launch_table::LaunchValue;
use super::matched::{Class, Matched, SessionLayout, Z95, centred, pooled_level, session_test};
use super::null_distribution::{NullDistributions, Scores};
use super::options::Options;
use super::order::{mean, median};
use super::rank_test::{Bounds, INTERVAL_LAUNCHES};
use super::session_error::SessionError;
use super::session_weights::{NEARLY, freedom};
use super::sessions::CommonMovement;

/// Host-bound benchmarks from which a common shift is estimated.
pub(super) const BENCHMARKS_MIN: usize = 10;
/// Share of the corrected intervals that may exclude zero before the benchmarks moved apart.
///
/// A change of one strategy moves a third of a suite that was narrowed to a few. At a quarter, as the procedure has
/// it, +5 % is found in 34, 55 and 70 % of the cases at 24, 36 and 48 launches (synthetic), at a third in 38, 59 and
/// 74 %; of 160 suites in which three quarters moved 7 instead of 3 accuse an unmoved benchmark.
const MOVED_APART_SHARE: f64 = 1.0 / 3.0;
/// Shift of the host-speed probe below which the host counts as still: the bound of equivalence.
const STILL_PROBE: f64 = 0.02;

/// Sessions a side from which a common shift can be a finding, where the sides do not share them.
///
/// Two a side, as the design has it, cannot show it: when sessions jump up or down by 15 % and no
/// probe tells, one suite in eight has two alike on each side and a jump between them, whatever the
/// variance between sessions says (6 to 13 % of suites seen), and with Student's quantile for two
/// degrees of freedom a real +10 % passes in a quarter to a third of suites only. At three a side
/// the jump is one in 32.
const ESTABLISHED_SESSIONS: f64 = 3.0;

/// What was done about the common shift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Correction {
    /// It is taken out of the single p-values.
    Applied,
    /// It is, in proportion to how each benchmark follows the host's speed: the benchmarks lie elsewhere by as much
    /// as the probe misjudges the host.
    InProportion,
    /// More than a third of the benchmarks lie elsewhere: they moved apart, and it is not taken out.
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

/// The common shift of a group's host-bound benchmarks, where it lies beyond the minimum effect, from zero and from
/// the whole suite's. Nothing of it is taken out of their verdicts.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupShift {
    /// The group: the first part of its benchmarks' ids.
    pub group: String,
    /// Ratio, with a 95 % interval.
    pub effect: Effect,
    /// Host-bound benchmarks that it is the median of.
    pub benchmarks: usize,
    /// With three or more sessions a side (or shared ones) and a still host probe: a finding in its own right.
    /// Otherwise a warning.
    pub established: bool,
    /// How the host-speed probe moved between the sides, where every launch has one.
    pub probe_shift: Option<Effect>,
}

/// Returns whether a benchmark tells of the common shift.
pub(super) fn eligible(benchmark: &Matched) -> bool {
    benchmark.class == Class::HostBound && benchmark.test.launches_min() >= INTERVAL_LAUNCHES
}

/// How many intervals exclude the common shift beside them. Those that are missing do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Apart {
    pub benchmarks: usize,
    of: usize,
}

impl Apart {
    pub fn of(intervals: &[(Option<Bounds>, f64)]) -> Self {
        let excludes = |(interval, common): &&(Option<Bounds>, f64)| interval.is_some_and(|i| i.excludes(*common));
        Self {
            benchmarks: intervals.iter().filter(excludes).count(),
            of: intervals.len(),
        }
    }

    /// Returns whether they are so many that the benchmarks have nothing in common.
    pub fn is_too_many(self) -> bool {
        self.benchmarks as f64 > MOVED_APART_SHARE * self.of as f64
    }
}

/// What host-bound benchmarks have in common, as measured.
#[derive(Debug, Clone)]
pub(super) struct Shared<'a> {
    /// The benchmarks.
    pub benchmarks: Vec<&'a Matched>,
    /// The median of their estimates.
    pub estimate: f64,
    uncertainty: Option<Uncertainty>,
    /// Standard error of what was taken out of their launch values as weather, not widened for launches that
    /// are alike in a row, as no interval of one benchmark is.
    pub weather: f64,
}

impl<'a> Shared<'a> {
    /// Returns what these have in common, if they are ten; `between_sessions` is how they move together between the
    /// sessions of a side.
    pub fn of(
        benchmarks: Vec<&'a Matched>,
        levels: &LaunchLevels,
        between_sessions: CommonMovement,
        nulls: &mut NullDistributions,
    ) -> Option<Self> {
        let estimates: Vec<f64> = benchmarks.iter().map(|benchmark| benchmark.shift.estimate).collect();
        let estimate = (estimates.len() >= BENCHMARKS_MIN).then(|| median(estimates))??;
        let uncertainty = Uncertainty::of(levels, &benchmarks, between_sessions, nulls);
        Some(Self {
            estimate,
            weather: uncertainty.map_or(0.0, |uncertainty| levels.weather.reliability * uncertainty.independent),
            uncertainty,
            benchmarks,
        })
    }

    /// Returns how the probe moved, where every launch has one: the rank test on each launch's median probe, benchmarks' levels taken out.
    pub fn probe_shift(&self, nulls: &mut NullDistributions) -> Option<Effect> {
        let probes = |side: &[LaunchValue]| -> Option<Vec<LaunchValue>> {
            let probe = |launch: &LaunchValue| launch.probe.map(|value| LaunchValue { value, ..*launch });
            side.iter().map(probe).collect()
        };
        let (mut base, mut new) = (Vec::new(), Vec::new());
        for benchmark in &self.benchmarks {
            let (ours, theirs) = (probes(&benchmark.base)?, probes(&benchmark.new)?);
            let level = pooled_level(&ours, &theirs);
            base.extend(centred(&ours, level));
            new.extend(centred(&theirs, level));
        }
        let levels = (&*launch_medians(base), &*launch_medians(new));
        let inversion = session_test(are_shared(&self.benchmarks), levels, Scores::LowerHalf, nulls)?.invert();
        Some(Effect::of(inversion.estimate(), inversion.interval(0.05), 0.95))
    }

    /// Returns how far the probe misjudged the host between the sides, as the benchmarks have it: the median of
    /// their shifts, each over its slope. `None` where the probe stood still, where the sides were measured in turns,
    /// or where fewer than ten benchmarks follow it. *Unit* natural logarithms.
    ///
    /// The slope is what a benchmark makes of the host's speed within a session. From one host to another the probe
    /// may move by more or less than the host does for a driver. Of four sessions on four H200 machines, two by two,
    /// one had system calls up to 45 % faster and driver calls 8 to 19 %: what the probe left there, 12 % in the
    /// middle, followed the slopes to 1.3 %, and came to 3.2 to 3.8 % less the common shift. In the other pairs the
    /// slopes explain as much as the common shift, or more.
    pub fn misjudged_speed(&self, probe_shift: Option<&Effect>) -> Option<f64> {
        if are_shared(&self.benchmarks) || probe_shift.is_none_or(is_still) {
            return None;
        }
        let by_slope = |benchmark: &&Matched| {
            let slope = benchmark.slope.filter(|slope| slope.slope > 0.0)?;
            Some(benchmark.shift.estimate / slope.slope)
        };
        let speeds: Vec<f64> = self.benchmarks.iter().filter_map(by_slope).collect();
        (speeds.len() >= BENCHMARKS_MIN).then(|| median(speeds))?
    }

    /// Returns the interval of the shift at a confidence level, where the launches allow one.
    pub fn within(&self, level: f64) -> Option<Bounds> {
        let half = self.uncertainty?.half_width(level)?;
        Some(Bounds {
            lower: self.estimate - half,
            upper: self.estimate + half,
        })
    }
}

/// Returns the suite's common shift, with its interval and standing.
pub(super) fn describe(
    suite: &Shared<'_>,
    correction: Correction,
    probe_shift: Option<Effect>,
    options: &Options,
) -> CommonShift {
    let standing = Standing::of(suite, 1, &[0.0], probe_shift.as_ref(), options);
    CommonShift {
        effect: Effect::of(suite.estimate, suite.within(0.95), 0.95),
        benchmarks: suite.benchmarks.len(),
        correction,
        declared: standing.declared,
        established: standing.established,
        probe_shift,
    }
}

/// Returns the common shift of a group, one of `family`, if it is one beside the suite's.
pub(super) fn describe_group(
    (name, group): (&str, &Shared<'_>),
    family: usize,
    suite: f64,
    options: &Options,
    nulls: &mut NullDistributions,
) -> Option<GroupShift> {
    let probe_shift = group.probe_shift(nulls);
    let standing = Standing::of(group, family, &[0.0, suite], probe_shift.as_ref(), options);
    standing.declared.then(|| GroupShift {
        group: name.to_owned(),
        effect: Effect::of(group.estimate, group.within(0.95), 0.95),
        benchmarks: group.benchmarks.len(),
        established: standing.established,
        probe_shift,
    })
}

/// What a common shift is worth.
struct Standing {
    declared: bool,
    established: bool,
}

impl Standing {
    /// Returns the standing of a shift, one of `family` that are looked at, beside each of these.
    fn of(shared: &Shared<'_>, family: usize, beside: &[f64], probe_shift: Option<&Effect>, options: &Options) -> Self {
        let benchmarks = &shared.benchmarks;
        // Bonferroni: the intervals of all of them hold together.
        let beyond = |error: f64| {
            let interval = shared.within(1.0 - error / family.max(1) as f64);
            let apart = |interval: Bounds, from: f64| {
                let (lower, upper) = (interval.lower - from, interval.upper - from);
                Bounds { lower, upper }.beyond(options.delta())
            };
            interval.is_some_and(|interval| beside.iter().all(|&from| apart(interval, from)))
        };
        // A finding that ends in exit code 1 rests on the spread of very few sessions, whose shifts
        // need not be normal: 99 %. At 95 % up to 15 % of unchanged suites had one (sessions that shift
        // by 5 to 25 % either way and a probe that does not notice).
        let (declared, certain) = (beyond(0.05), beyond(0.01));
        let still = probe_shift.is_some_and(is_still);
        let sessions_tell = benchmarks.iter().all(|benchmark| match benchmark.layout {
            SessionLayout::Shared => true,
            SessionLayout::Several { .. } => {
                let (base, new) = benchmark.session_weights();
                base.effective().min(new.effective()) >= ESTABLISHED_SESSIONS * NEARLY
            }
            SessionLayout::One => false,
        });
        Self {
            declared,
            established: certain && still && sessions_tell,
        }
    }
}

/// What the common shift may be wrong by.
#[derive(Debug, Clone, Copy)]
struct Uncertainty {
    /// Standard error of the launch levels, as if launches were independent.
    independent: f64,
    /// The same, widened for launches in a row that are alike.
    launches: f64,
    /// What sessions add: nothing that can be known where the sides share theirs, or have one each. `None` where some
    /// side has several, but they do not tell.
    sessions: Option<SessionError>,
}

impl Uncertainty {
    /// Returns the error of the difference between the sides' launch levels.
    fn of(
        levels: &LaunchLevels,
        benchmarks: &[&Matched],
        between_sessions: CommonMovement,
        nulls: &mut NullDistributions,
    ) -> Option<Self> {
        let [base, new] = &levels.common;
        let launches = usize::midpoint(base.len(), new.len());
        let alike = mean(&[rank_autocorrelation(base), rank_autocorrelation(new)]);
        let rho = (alike + 1.0 / launches as f64).clamp(0.0, 0.8);
        let test = session_test(are_shared(benchmarks), (base, new), Scores::LowerHalf, nulls)?;
        let error = test.invert().interval(0.05)?.half_width() / Z95;
        let (base_weights, new_weights) = benchmarks.first()?.session_weights();
        let shares = base_weights.added() + new_weights.added();
        let several = |benchmark: &&Matched| matches!(benchmark.layout, SessionLayout::Several { .. });
        let sessions = match between_sessions.variance() {
            _ if !benchmarks.iter().any(several) || shares == 0.0 => Some(SessionError::NOTHING),
            Some(variance) => Some(SessionError::measured(
                (variance * shares).sqrt(),
                freedom(base_weights, new_weights),
            )),
            None => None,
        };
        Some(Self {
            independent: error,
            launches: error * ((1.0 + rho) / (1.0 - rho)).sqrt(),
            sessions,
        })
    }

    /// Half-width of the interval: Student's quantile for the sessions, which are few.
    fn half_width(&self, level: f64) -> Option<f64> {
        let z = Normal::standard().inverse_cdf(f64::midpoint(1.0, level));
        Some((z * self.launches).hypot(self.sessions?.times(z)))
    }
}

/// Returns whether both sides of all benchmarks share their sessions.
fn are_shared(benchmarks: &[&Matched]) -> bool {
    benchmarks
        .iter()
        .all(|benchmark| benchmark.layout == SessionLayout::Shared)
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

fn is_still(probe: &Effect) -> bool {
    probe.ratio.ln().abs() < STILL_PROBE
}
