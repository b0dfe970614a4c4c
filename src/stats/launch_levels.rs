//! The host's weather: how slow each launch was, as far as the host-bound benchmarks agree.
//!
//! What the host-speed probe leaves of host-bound benchmarks still goes together (`weather` has the figures). The
//! median of many benchmarks shows it, and each is better compared beside its peers of the same launch than
//! alone. Tried and left: loadings of each benchmark's own, shrunk to one, gain nothing.
//!
//! Levels are counted from a zero of their own inside every side and session, so that nothing that
//! differs between the sides can go with them: estimates keep what a driver changed, in one
//! benchmark, in a group or in all. What goes is noise, and what the levels' zeros may be wrong
//! by comes back as the error of the common shift.

use std::collections::BTreeMap;

use super::common_shift::BENCHMARKS_MIN;
use super::launch_table::LaunchValue;
use super::matched::{centred, pooled_level, sessions};
use super::order::{lower_half_mean, mean, median, median_of_sorted};

/// A median's standard error over a mean's, of normal numbers.
const MEDIAN_LOSS: f64 = 1.25;

/// The common movement of host-bound benchmarks from launch to launch, which their launch values
/// are freed from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct HostWeather {
    /// The share of the levels' variance that is not the noise of a median over benchmarks: what of a level is taken
    /// out.
    pub reliability: f64,
    /// Launches of both sides together.
    pub launches: usize,
}

/// A benchmark's launch values: base, new.
pub(super) type Sides<'a> = (&'a [LaunchValue], &'a [LaunchValue]);

/// Session and launch.
type Key = (u32, u32);

/// Launch levels of both sides.
#[derive(Debug, Clone)]
pub(super) struct LaunchLevels {
    base: SideLevels,
    new: SideLevels,
    pub weather: HostWeather,
    /// Sessions and levels of the launches in time order, both sides counted from one zero per
    /// benchmark, so that they differ by the common shift.
    pub common: [Vec<(u32, f64)>; 2],
}

/// Residuals of one side's launches.
#[derive(Debug, Clone, Default)]
struct SideLevels {
    /// Distances of the benchmarks from their own level, ascending.
    residuals: BTreeMap<Key, Vec<f64>>,
    /// Where a session's levels are counted from.
    zeros: BTreeMap<u32, f64>,
}

impl LaunchLevels {
    /// Returns the levels over these benchmarks' launch values; `None` below ten.
    pub fn of(benchmarks: &[Sides<'_>]) -> Option<Self> {
        if benchmarks.len() < BENCHMARKS_MIN {
            return None;
        }
        let base = SideLevels::of(benchmarks.iter().map(|sides| sides.0));
        let new = SideLevels::of(benchmarks.iter().map(|sides| sides.1));
        let weather = weather(&[&base, &new]);
        let (mut base_values, mut new_values) = (Vec::new(), Vec::new());
        for (base, new) in benchmarks {
            let level = pooled_level(base, new);
            base_values.extend(centred(base, level));
            new_values.extend(centred(new, level));
        }
        let common = [launch_medians(base_values), launch_medians(new_values)];
        Some(Self {
            base,
            new,
            weather,
            common,
        })
    }

    /// Takes the weather out of the launch values of a benchmark that is among the levels'. Its
    /// own values take no part in the levels that it is freed from.
    pub fn take_out(&self, base: &mut [LaunchValue], new: &mut [LaunchValue]) {
        for (side, levels) in [(base, &self.base), (new, &self.new)] {
            let residuals = residuals(side);
            for (launch, own) in side.iter_mut().zip(residuals) {
                let zero = levels.zeros.get(&launch.session).copied().unwrap_or(0.0);
                let others = levels.residuals.get(&(launch.session, launch.launch));
                if let Some(level) = others.and_then(|others| median_without(others, own)) {
                    launch.value -= self.weather.reliability * (level - zero);
                }
            }
        }
    }
}

impl SideLevels {
    fn of<'a>(benchmarks: impl Iterator<Item = &'a [LaunchValue]>) -> Self {
        let mut levels = Self::default();
        for side in benchmarks {
            for (launch, residual) in side.iter().zip(residuals(side)) {
                let key = (launch.session, launch.launch);
                levels.residuals.entry(key).or_default().push(residual);
            }
        }
        levels.residuals.retain(|_, values| values.len() >= BENCHMARKS_MIN);
        let mut by_session: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (&(session, _), values) in &mut levels.residuals {
            values.sort_unstable_by(f64::total_cmp);
            by_session.entry(session).or_default().push(median_of_sorted(values));
        }
        // The fast half, like every level here: slow launches must not move the zero.
        let zero = |(session, values)| Some((session, lower_half_mean(values)?));
        levels.zeros = by_session.into_iter().filter_map(zero).collect();
        levels
    }
}

/// Returns the launch values less their session's median.
fn residuals(side: &[LaunchValue]) -> Vec<f64> {
    let mut centres: BTreeMap<u32, f64> = BTreeMap::new();
    for session in sessions(side) {
        let values = side.iter().filter(|l| l.session == session).map(|l| l.value).collect();
        centres.insert(session, median(values).unwrap_or(0.0));
    }
    side.iter()
        .map(|launch| launch.value - centres[&launch.session])
        .collect()
}

/// How much of the levels' variance is the launches': what is left when the variance of a median
/// over so many benchmarks is taken off, as a share. Taking out no more than that share is the best
/// linear guess, and does nothing where there is no weather.
fn weather(sides: &[&SideLevels; 2]) -> HostWeather {
    let (mut squares, mut freedom, mut noise) = (0.0, 0usize, Vec::new());
    for side in sides {
        for &session in side.zeros.keys() {
            let launches = side.residuals.range((session, 0)..=(session, u32::MAX));
            let mut levels = Vec::new();
            for (_, values) in launches {
                let level = median_of_sorted(values);
                let distances = values.iter().map(|value| (value - level).abs()).collect();
                let spread = median(distances).unwrap_or(0.0) / 0.6745;
                noise.push((MEDIAN_LOSS * spread).powi(2) / values.len() as f64);
                levels.push(level);
            }
            let centre = mean(&levels);
            squares += levels.iter().map(|level| (level - centre).powi(2)).sum::<f64>();
            freedom += levels.len() - 1;
        }
    }
    let launches = noise.len();
    let variance = if freedom > 0 { squares / freedom as f64 } else { 0.0 };
    let excess = (variance - if launches > 0 { mean(&noise) } else { 0.0 }).max(0.0);
    HostWeather {
        reliability: if variance > 0.0 { excess / variance } else { 0.0 },
        launches,
    }
}

/// Returns the median of ascending numbers of which one, `own`, is left out; `None` of fewer than
/// two.
fn median_without(sorted: &[f64], own: f64) -> Option<f64> {
    let rest = sorted.len().checked_sub(1).filter(|&rest| rest > 0)?;
    let position = sorted.partition_point(|&value| value < own).min(rest);
    let at = |index: usize| sorted[index + usize::from(index >= position)];
    Some(if rest % 2 == 1 {
        at(rest / 2)
    } else {
        f64::midpoint(at(rest / 2 - 1), at(rest / 2))
    })
}

/// Medians over benchmarks by launch, with the launch's session, in time order.
pub(super) fn launch_medians(values: Vec<(u32, u32, f64)>) -> Vec<(u32, f64)> {
    let mut launches: BTreeMap<(u32, u32), Vec<f64>> = BTreeMap::new();
    for (session, launch, value) in values {
        launches.entry((launch, session)).or_default().push(value);
    }
    let level = |((_, session), values)| median(values).map(|level| (session, level));
    launches.into_iter().filter_map(level).collect()
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;

    fn side(values: &[f64]) -> Vec<LaunchValue> {
        let launch = |(launch, &value): (u32, &f64)| LaunchValue {
            session: 0,
            launch,
            value,
            probe: None,
            probe_syscall: None,
            median_ns: value.exp(),
        };
        (0u32..).zip(values).map(launch).collect()
    }

    fn levels(sides: &[(Vec<LaunchValue>, Vec<LaunchValue>)]) -> Option<LaunchLevels> {
        let slices: Vec<Sides<'_>> = sides.iter().map(|(a, b)| (&**a, &**b)).collect();
        LaunchLevels::of(&slices)
    }

    #[test]
    fn weather_goes_and_every_difference_between_the_sides_stays() {
        // Twelve benchmarks that all follow one weather, 5 % slower on the new side, the last by
        // 20 % more. No other noise, so the whole weather goes: each side becomes constant, and as
        // both had the same weather, in another order, the differences are what was put in.
        let weather = [0.0, 0.1, -0.1, 0.2, 0.03, 0.05];
        let mut later = weather;
        later.reverse();
        let benchmark = |index: u32| {
            let (level, extra) = (f64::from(index), if index == 11 { 0.2 } else { 0.0 });
            (
                side(&weather.map(|w| level + w)),
                side(&later.map(|w| level + 0.05 + extra + w)),
            )
        };
        let mut sides: Vec<_> = (0..12).map(benchmark).collect();
        let levels = levels(&sides).unwrap();
        assert_eq!(levels.weather.reliability, 1.0);
        for (index, (base, new)) in sides.iter_mut().enumerate() {
            levels.take_out(base, new);
            let expected = if index == 11 { 0.25 } else { 0.05 };
            for (a, b) in base.iter().zip(new) {
                approx::assert_abs_diff_eq!(b.value - a.value, expected, epsilon = 1e-12);
            }
        }
        assert!(self::levels(&sides[..9]).is_none(), "too few benchmarks");
    }

    #[test]
    fn without_weather_little_is_taken_out() {
        // Noise alone. With 12 benchmarks and 2 · 39 degrees of freedom the variance of the levels is that
        // of medians to within √(2/78) = 16 %, so the share that looks like weather is below 0.4.
        let mut random = rand::rngs::StdRng::seed_from_u64(1);
        // Twelve uniform numbers less six: nearly normal, SD 1.
        let mut noise = |_| (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        let mut one = || side(&(0..40).map(&mut noise).collect::<Vec<_>>());
        let sides: Vec<_> = (0..12).map(|_| (one(), one())).collect();
        let weather = levels(&sides).unwrap().weather;
        assert!(weather.reliability < 0.4, "{weather:?}");
        assert_eq!(weather.launches, 80);
    }

    #[test]
    fn own_value_is_left_out_of_the_median() {
        let sorted = [1.0, 2.0, 2.0, 5.0, 9.0];
        for index in 0..sorted.len() {
            let mut rest = sorted.to_vec();
            rest.remove(index);
            assert_eq!(median_without(&sorted, sorted[index]), median(rest));
            let mut rest = sorted[..4].to_vec();
            if index < 4 {
                rest.remove(index);
                assert_eq!(median_without(&sorted[..4], sorted[index]), median(rest));
            }
        }
        assert_eq!(median_without(&[1.0], 1.0), None);
    }
}
