//! What the whole procedure does on one machine's own noise.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use statrs::distribution::{Beta, ContinuousCDF};

use super::benchmark_id::BenchmarkId;
use super::comparison::{Comparison, compare_tables};
use super::effect::Interval;
use super::launch_table::{LaunchTable, LaunchValue, SessionIndex};
use super::matched::Class;
use super::null_distribution::NullDistributions;
use super::options::Options;
use super::order::median;
use super::side::Side;
use super::verdict::{NOISY_RATIO, Verdict};

/// How often a baseline is split, and from which seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CalibrationPlan {
    /// Random splits.
    pub splits: usize,
    /// Seed; the same seed gives the same splits.
    pub seed: u64,
}

impl Default for CalibrationPlan {
    fn default() -> Self {
        Self {
            splits: 1000,
            seed: 20_240_607,
        }
    }
}

/// How many of how many, with a 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Proportion {
    /// Cases in which it happened.
    pub hits: usize,
    /// All cases.
    pub trials: usize,
}

impl Proportion {
    /// Returns the share; `None` of no trials.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        (self.trials > 0).then(|| self.hits as f64 / self.trials as f64)
    }

    /// Returns the 95 % interval of the share, for independent trials; `None` of no trials.
    ///
    /// *Source*: Clopper and Pearson, Biometrika 26 (1934).
    #[must_use]
    pub fn interval(&self) -> Option<Interval> {
        let (hits, misses) = (self.hits as f64, self.trials.checked_sub(self.hits)? as f64);
        if self.trials == 0 {
            return None;
        }
        let quantile = |a: f64, b: f64, p: f64| Some(Beta::new(a, b).ok()?.inverse_cdf(p));
        let lower = if hits == 0.0 {
            Some(0.0)
        } else {
            quantile(hits, misses + 1.0, 0.025)
        };
        let upper = if misses == 0.0 {
            Some(1.0)
        } else {
            quantile(hits + 1.0, misses, 0.975)
        };
        Some(Interval {
            lower: lower?,
            upper: upper?,
            confidence_level: 0.95,
        })
    }
}

/// What calibration found for one benchmark.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchmarkCalibration {
    /// The benchmark.
    pub id: BenchmarkId,
    /// Splits in which it was called changed.
    pub alarms: usize,
    /// Median minimal detectable effect between halves (0.03: three per cent).
    pub minimal_detectable_effect_halves: Option<f64>,
    /// The same for two recordings of this size: what exceeds the minimum effect, or on a noisy host the effect from
    /// which one is believed, over √2.
    pub minimal_detectable_effect: Option<f64>,
}

/// False alarms and detectable effects of the whole procedure on unchanged launches.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// Splits with any benchmark called regressed or improved. The splits share their launches, so
    /// the interval says how well the splits were sampled, not how another recording would do.
    pub alarming: Proportion,
    /// Benchmarks called changed, over all splits.
    pub alarms: Proportion,
    /// Splits in which a common shift was declared, of the suite or of a group.
    pub common_shifts: Proportion,
    /// The benchmarks, by id.
    pub benchmarks: Vec<BenchmarkCalibration>,
}

/// Returns what the comparison says of random halves of one side's launches, each session halved on
/// its own, so that both halves share their sessions; launches that are alone in theirs are left out. Nothing changed,
/// so every alarm is false.
#[must_use]
pub fn calibrate(side: &Side, options: &Options, plan: CalibrationPlan) -> Calibration {
    let table = LaunchTable::new(side, &mut SessionIndex::default());
    let mut random = StdRng::seed_from_u64(plan.seed);
    let mut nulls = NullDistributions::default();
    let (mut alarming, mut alarms, mut trials, mut common) = (0, 0, 0, 0);
    let mut by_id: BTreeMap<BenchmarkId, Found> = BTreeMap::new();
    for _ in 0..plan.splits {
        let (base, new) = halves(&table, &mut random);
        let comparison = compare_tables(&base, &new, options, &mut nulls);
        let before = alarms;
        let declared =
            comparison.common_shift.is_some_and(|shift| shift.declared) || !comparison.group_shifts.is_empty();
        let noisy = comparison.slow_share.is_some_and(|share| share.is_noisy());
        for benchmark in comparison.benchmarks {
            let Some(measured) = benchmark.measured else {
                continue;
            };
            let entry = by_id.entry(benchmark.id).or_default();
            let alarm = usize::from(is_alarm(&benchmark.verdict));
            entry.alarms += alarm;
            entry.effects.extend(measured.minimal_detectable_effect);
            entry.noisy += usize::from(noisy && measured.class.is_touched_by_host());
            alarms += alarm;
            trials += 1;
        }
        alarming += usize::from(alarms > before);
        common += usize::from(declared);
    }
    let benchmark = |(id, found): (BenchmarkId, Found)| {
        let known = found.effects.len() * 2 > plan.splits;
        let least = if found.noisy * 2 > plan.splits {
            NOISY_RATIO.ln()
        } else {
            options.delta()
        };
        let halves = median(found.effects).filter(|_| known);
        BenchmarkCalibration {
            id,
            alarms: found.alarms,
            minimal_detectable_effect_halves: halves,
            minimal_detectable_effect: halves.map(|halves| full_size(halves, least)),
        }
    };
    Calibration {
        alarming: Proportion {
            hits: alarming,
            trials: plan.splits,
        },
        alarms: Proportion { hits: alarms, trials },
        common_shifts: Proportion {
            hits: common,
            trials: plan.splits,
        },
        benchmarks: by_id.into_iter().map(benchmark).collect(),
    }
}

fn is_alarm(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Regressed | Verdict::Improved)
}

/// What the splits say of one benchmark.
#[derive(Debug, Default)]
struct Found {
    alarms: usize,
    effects: Vec<f64>,
    /// Splits in which the host was too noisy for it.
    noisy: usize,
}

/// Returns the detectable effect of twice the launches: what exceeds `least`, which no number of launches lowers, over √2.
fn full_size(halves: f64, least: f64) -> f64 {
    (least + (halves.ln_1p() - least) / std::f64::consts::SQRT_2).exp_m1()
}

/// Splits the launches of every session in two at random; an odd one out goes to either half. A session of which a
/// benchmark then has launches in one half only, as of a session of one launch, is left out of both for it: halves that
/// do not share their sessions could not alarm, and would pass for silent ones.
fn halves(table: &LaunchTable, random: &mut StdRng) -> (LaunchTable, LaunchTable) {
    let mut sessions: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (launch, &session) in (0u32..).zip(&table.launch_sessions) {
        sessions.entry(session).or_default().push(launch);
    }
    let mut first: BTreeSet<u32> = BTreeSet::new();
    for launches in sessions.values_mut() {
        launches.shuffle(random);
        let odd = usize::from(launches.len() % 2 == 1 && random.random::<bool>());
        first.extend(&launches[..launches.len() / 2 + odd]);
    }
    let mut halves = (
        table.of_launches(|l| first.contains(&l)),
        table.of_launches(|l| !first.contains(&l)),
    );
    for (id, row) in &mut halves.0.rows {
        if let Some(other) = halves.1.rows.get_mut(id) {
            keep_shared(&mut row.values, &mut other.values);
        }
    }
    halves
}

/// Leaves the launches of sessions that both have.
fn keep_shared(one: &mut Vec<LaunchValue>, other: &mut Vec<LaunchValue>) {
    let of = |half: &[LaunchValue]| -> BTreeSet<u32> { half.iter().map(|launch| launch.session).collect() };
    let (ours, theirs) = (of(one), of(other));
    if ours != theirs {
        one.retain(|launch| theirs.contains(&launch.session));
        other.retain(|launch| ours.contains(&launch.session));
    }
}

/// A simulated slowdown, to be found between random halves of unchanged launches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PowerPlan {
    /// Splits and seed.
    pub splits: CalibrationPlan,
    /// Factor on the times of the changed benchmarks, such as 1.05.
    pub factor: f64,
    /// Share of the benchmarks that change, drawn anew for each split, at least one.
    pub share: f64,
}

/// What was found of simulated slowdowns.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerEstimate {
    /// Changed benchmarks called regressed, by class.
    pub found: BTreeMap<Class, Proportion>,
    /// Benchmarks called changed though they were not, or the wrong way, of all called changed.
    pub false_discoveries: Proportion,
    /// Mean over the splits of the share of false discoveries (0 where there is none): what the
    /// false discovery rate bounds.
    pub false_discovery_rate: Option<f64>,
}

/// Returns how often the comparison finds slowdowns put on one of two random halves of a side.
#[must_use]
pub fn estimate_power(side: &Side, options: &Options, plan: PowerPlan) -> PowerEstimate {
    let table = LaunchTable::new(side, &mut SessionIndex::default());
    let mut random = StdRng::seed_from_u64(plan.splits.seed);
    let mut nulls = NullDistributions::default();
    let mut estimate = PowerEstimate {
        found: BTreeMap::new(),
        false_discoveries: Proportion { hits: 0, trials: 0 },
        false_discovery_rate: None,
    };
    let mut shares = 0.0;
    let mut ids: Vec<&BenchmarkId> = table.rows.keys().collect();
    let changed = ((plan.share * ids.len() as f64).round() as usize).clamp(1, ids.len().max(1));
    for _ in 0..plan.splits.splits {
        let (base, mut new) = halves(&table, &mut random);
        ids.shuffle(&mut random);
        let changed: BTreeSet<&BenchmarkId> = ids.iter().take(changed).copied().collect();
        inject(&mut new, &changed, plan.factor);
        let comparison = compare_tables(&base, &new, options, &mut nulls);
        shares += count(&comparison, &changed, &mut estimate);
    }
    let splits = plan.splits.splits;
    estimate.false_discovery_rate = (splits > 0).then(|| shares / splits as f64);
    estimate
}

fn inject(table: &mut LaunchTable, changed: &BTreeSet<&BenchmarkId>, factor: f64) {
    for (id, row) in &mut table.rows {
        if changed.contains(id) {
            for launch in &mut row.values {
                launch.value += factor.ln();
                launch.median_ns *= factor;
            }
        }
    }
}

/// Adds a comparison's discoveries; returns its share of false ones.
fn count(comparison: &Comparison, changed: &BTreeSet<&BenchmarkId>, into: &mut PowerEstimate) -> f64 {
    let (mut discoveries, mut wrong) = (0, 0);
    for benchmark in &comparison.benchmarks {
        let Some(measured) = &benchmark.measured else {
            continue;
        };
        let is_changed = changed.contains(&benchmark.id);
        let regressed = benchmark.verdict == Verdict::Regressed;
        if is_changed {
            let none = Proportion { hits: 0, trials: 0 };
            let found = into.found.entry(measured.class).or_insert(none);
            found.hits += usize::from(regressed);
            found.trials += 1;
        }
        if is_alarm(&benchmark.verdict) {
            discoveries += 1;
            wrong += usize::from(!(is_changed && regressed));
        }
    }
    into.false_discoveries.hits += wrong;
    into.false_discoveries.trials += discoveries;
    if discoveries > 0 {
        wrong as f64 / discoveries as f64
    } else {
        0.0
    }
}
