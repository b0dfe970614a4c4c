//! How far the sessions of a side lie from each other, benchmark by benchmark.

use std::collections::BTreeMap;

use super::launch_table::LaunchValue;
use super::matched::{Matched, SessionLayout};
use super::order::{mean, median_of_sorted};

/// How far sessions of a side lie from each other beyond what one shift of a benchmark would explain: one session's part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deviation {
    /// Index of the benchmark.
    pub index: usize,
    /// The session's level less the mean of the side's. *Unit* natural logarithms.
    pub value: f64,
    /// Variance of `value` that comes from the launches.
    pub noise: f64,
    /// Sessions of the benchmark on that side, s: `value` has (1 − 1/s) of the variance between sessions.
    pub sessions: f64,
}

impl Deviation {
    /// Returns what makes a variance of deviations one between sessions.
    pub fn scale(&self) -> f64 {
        self.sessions / (self.sessions - 1.0)
    }
}

/// Deviations of a class, by session, of each side.
pub(super) type ClassDeviations = [BTreeMap<u32, Vec<Deviation>>; 2];

/// Returns the deviations of those benchmarks for which `of` holds.
pub(super) fn of_class(
    matched: &[Matched],
    sides: &[[Vec<(u32, Deviation)>; 2]],
    of: impl Fn(&Matched) -> bool,
) -> ClassDeviations {
    let mut deviations = ClassDeviations::default();
    for (_, sides) in matched.iter().zip(sides).filter(|(benchmark, _)| of(benchmark)) {
        for (into, side) in deviations.iter_mut().zip(sides) {
            for &(session, deviation) in side {
                into.entry(session).or_default().push(deviation);
            }
        }
    }
    deviations
}

/// Returns the deviations of each side's sessions from their mean, by session: none where it has one, or where launches
/// are sessions of their own, so that nothing tells the two apart (nor need it, see [`SessionWeights::added`](super::session_weights::SessionWeights::added)).
///
/// A session's level is the mean of its fast half, as it is in what is tested. The noise of that is the spread below
/// the session's median, doubled: slow launches say nothing of it. A lone launch has no fast half: it stands for the
/// mean, and is lowered by what the fast half of the others lies below theirs.
///
/// *Source*: the influence function of a mean of a half, Huber, Robust Statistics (1981), section 3.3.
pub(super) fn deviations((index, matched): (usize, &Matched)) -> [Vec<(u32, Deviation)>; 2] {
    if !matches!(matched.layout, SessionLayout::Several { .. }) {
        return [Vec::new(), Vec::new()];
    }
    let sides = [&matched.base, &matched.new].map(|side| by_session(side));
    let (mut plain, mut fast, mut below, mut launches, mut freedom) = (0.0, 0.0, 0.0, 0usize, 0usize);
    for values in sides
        .iter()
        .flat_map(BTreeMap::values)
        .filter(|values| values.len() > 1)
    {
        let (centre, middle) = (mean(values), median_of_sorted(values));
        let low: Vec<f64> = values.iter().map(|value| 2.0 * (value - middle).min(0.0)).collect();
        let low_centre = mean(&low);
        plain += values.iter().map(|value| (value - centre).powi(2)).sum::<f64>();
        fast += low.iter().map(|value| (value - low_centre).powi(2)).sum::<f64>();
        below += values.len() as f64 * (centre - half_mean(values));
        launches += values.len();
        freedom += values.len() - 1;
    }
    if freedom == 0 {
        return [Vec::new(), Vec::new()];
    }
    let level = |values: &Vec<f64>| match values.as_slice() {
        [lone] => (lone - below / launches as f64, plain / freedom as f64),
        values => (half_mean(values), fast / freedom as f64 / values.len() as f64),
    };
    sides.map(|side| {
        if side.len() < 2 {
            return Vec::new();
        }
        let sessions = side.len() as f64;
        let levels: Vec<(f64, f64)> = side.values().map(level).collect();
        let (centre, noises) = levels.iter().fold((0.0, 0.0), |sum, l| (sum.0 + l.0, sum.1 + l.1));
        let deviation = |(&session, &(level, noise)): (&u32, &(f64, f64))| {
            let deviation = Deviation {
                index,
                value: level - centre / sessions,
                noise: noise * (1.0 - 2.0 / sessions) + noises / sessions.powi(2),
                sessions,
            };
            (session, deviation)
        };
        side.keys().zip(&levels).map(deviation).collect()
    })
}

/// Returns the values of each session, ascending.
fn by_session(side: &[LaunchValue]) -> BTreeMap<u32, Vec<f64>> {
    let mut sessions: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for launch in side {
        sessions.entry(launch.session).or_default().push(launch.value);
    }
    for values in sessions.values_mut() {
        values.sort_unstable_by(f64::total_cmp);
    }
    sessions
}

/// Returns the mean of the lower half of ascending numbers, the middle one of an odd number counted half, so that it
/// lies as low for three as for two. *Shape* `[n]`, n ≥ 1.
fn half_mean(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    let middle = if sorted.len() % 2 == 1 { sorted[half] / 2.0 } else { 0.0 };
    (sorted[..half].iter().sum::<f64>() + middle) / (sorted.len() as f64 / 2.0)
}
