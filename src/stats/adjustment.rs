//! Taking the host's speed out of launch values: value − slope · probe.
//!
//! The slope is fitted inside the sides: every side and session keeps an intercept of its own, so
//! that a difference between the sides, which is what a driver changes, can never enter a slope.
//! A probe runs no driver call, so taking it out cannot hide a change either.

use super::launch_table::LaunchValue;
use super::order::{mean, median};

/// Launches, both sides together, from which a slope is fitted.
const FIT_LAUNCHES: usize = 8;
/// A slope counts when it is this many standard errors above zero; an adjustment by noise would only
/// widen intervals.
const SLOPE_SIGNIFICANCE: f64 = 3.0;
/// Fitted host-bound benchmarks from which the others' slopes inform each one's.
const POOL_MIN: usize = 5;
/// Least spread of slopes between benchmarks; on the H200 they lie between 0.6 and 1.2.
const POOL_SPREAD_MIN: f64 = 0.1;
/// Huber's constant: 95 % efficient on normal residuals.
const HUBER: f64 = 1.345;
const FIT_ROUNDS: usize = 8;

/// How a benchmark's launch values follow the host-speed probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeSlope {
    /// Logarithm of time per logarithm of probe time.
    pub slope: f64,
    /// Its standard error.
    pub standard_error: f64,
}

/// Returns the slope of launch values on probes, or `None` where a launch has no probe, the probe
/// never moves, or launches are fewer than eight.
///
/// Both numbers of a launch are means over its fastest half of samples, which keeps the noise of
/// the probe from flattening the slope: its reliability, from the halves of a launch's samples, is
/// 0.94 to 0.96 at ten samples a launch on the H200 recordings. Dividing by it (the consistent
/// errors-in-variables slope) left the shift between the two recordings as it was (0.2, -0.4, 0.6,
/// -0.8 against 0.4, -0.3, 0.8, -0.6 %) and cost 2 to 12 points of power, so the slope stays
/// plain: the best linear predictor given the probe as measured.
///
/// *Source*: Huber, "Robust regression", Annals of Statistics 1 (1973), by reweighting.
pub(super) fn fit_slope(base: &[LaunchValue], new: &[LaunchValue]) -> Option<ProbeSlope> {
    if base.len() + new.len() < FIT_LAUNCHES {
        return None;
    }
    let mut groups: Vec<Vec<(f64, f64)>> = Vec::new();
    for side in [base, new] {
        let mut sessions: Vec<u32> = Vec::new();
        let first = groups.len();
        for launch in side {
            let known = sessions.iter().position(|&session| session == launch.session);
            let group = known.unwrap_or_else(|| {
                sessions.push(launch.session);
                groups.push(Vec::new());
                sessions.len() - 1
            });
            groups[first + group].push((launch.probe?, launch.value));
        }
    }
    robust_fit(&groups)
}

impl ProbeSlope {
    /// Returns the slope if it is clearly positive.
    pub(super) fn significant(self) -> Option<Self> {
        (self.slope > SLOPE_SIGNIFICANCE * self.standard_error).then_some(self)
    }

    /// Returns the slope as the others see it: precision-weighted with their distribution.
    pub(super) fn informed_by(self, pool: SlopePool) -> Self {
        let (own, others) = (self.standard_error.powi(-2), pool.spread.powi(-2));
        Self {
            slope: (self.slope * own + pool.centre * others) / (own + others),
            standard_error: (own + others).sqrt().recip(),
        }
    }
}

/// Distribution of the slopes of a suite's host-bound benchmarks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SlopePool {
    centre: f64,
    spread: f64,
}

impl SlopePool {
    /// Returns the distribution of these slopes, or `None` where they are fewer than five or not
    /// positive as a whole.
    ///
    /// Without it a benchmark whose own noise hides its slope (a bimodal one, say) stays as slow as
    /// the host was, among others that do not: the one source of false alarms between sessions of
    /// which the probe tells.
    ///
    /// *Source*: empirical Bayes, Efron and Morris, JASA 70 (1975), with medians for moments.
    pub fn of(fits: &[ProbeSlope]) -> Option<Self> {
        if fits.len() < POOL_MIN {
            return None;
        }
        let centre = median(fits.iter().map(|fit| fit.slope).collect())?;
        let scatter = median(fits.iter().map(|fit| (fit.slope - centre).abs()).collect())? / 0.6745;
        let noise = median(fits.iter().map(|fit| fit.standard_error).collect())?;
        // 1.25: a median's standard error over a mean's.
        let uncertainty = 1.25 * scatter / (fits.len() as f64).sqrt();
        let spread = (scatter.powi(2) - noise.powi(2)).max(POOL_SPREAD_MIN.powi(2)).sqrt();
        (centre > SLOPE_SIGNIFICANCE * uncertainty).then_some(Self { centre, spread })
    }
}

fn robust_fit(groups: &[Vec<(f64, f64)>]) -> Option<ProbeSlope> {
    let n: usize = groups.iter().map(Vec::len).sum();
    let freedom = n.checked_sub(groups.len() + 1).filter(|&freedom| freedom >= 4)?;
    let mut weights = vec![1.0; n];
    let (mut slope, mut scale) = (0.0, 0.0);
    let mut centred = Vec::with_capacity(n);
    for _ in 0..FIT_ROUNDS {
        centre(groups, &weights, &mut centred);
        let (mut xx, mut xy) = (0.0, 0.0);
        for (&(x, y), w) in centred.iter().zip(&weights) {
            xx += w * x * x;
            xy += w * x * y;
        }
        if xx <= f64::MIN_POSITIVE {
            return None;
        }
        let before = slope;
        slope = xy / xx;
        let residual = |&(x, y): &(f64, f64)| (y - slope * x).abs();
        scale = median(centred.iter().map(residual).collect())? / 0.6745;
        for (weight, point) in weights.iter_mut().zip(&centred) {
            let size = residual(point);
            *weight = if size <= HUBER * scale {
                1.0
            } else {
                HUBER * scale / size
            };
        }
        if (slope - before).abs() < 1e-6 {
            break;
        }
    }
    // Huber's asymptotic variance: Σψ²/(n − p) / (share of uncut residuals)² / Σx².
    let (mut psi, mut uncut, mut xx) = (0.0, 0.0, 0.0);
    for &(x, y) in &centred {
        let size = (y - slope * x).abs();
        psi += size.min(HUBER * scale).powi(2);
        uncut += f64::from(u8::from(size <= HUBER * scale));
        xx += x * x;
    }
    let share = uncut / n as f64;
    let standard_error = (psi / freedom as f64 / (share * share) / xx).sqrt();
    Some(ProbeSlope { slope, standard_error })
}

/// Subtracts each group's weighted means.
fn centre(groups: &[Vec<(f64, f64)>], weights: &[f64], centred: &mut Vec<(f64, f64)>) {
    centred.clear();
    for group in groups {
        let weights = &weights[centred.len()..centred.len() + group.len()];
        let total: f64 = weights.iter().sum();
        let weighted = |part: fn(&(f64, f64)) -> f64| {
            group.iter().zip(weights).map(|(point, w)| w * part(point)).sum::<f64>() / total
        };
        let (x_mean, y_mean) = (weighted(|point| point.0), weighted(|point| point.1));
        centred.extend(group.iter().map(|(x, y)| (x - x_mean, y - y_mean)));
    }
}

/// Launch values of both sides, with what the adjustment itself may be wrong by.
#[derive(Debug, Clone)]
pub(super) struct Adjusted {
    pub base: Vec<LaunchValue>,
    pub new: Vec<LaunchValue>,
    /// Standard error of the difference between the sides that comes from the slope's.
    pub standard_error: f64,
}

/// Returns the launch values less slope times probe, the probe counted from the mean of both sides.
pub(super) fn adjust(base: &[LaunchValue], new: &[LaunchValue], fit: ProbeSlope) -> Adjusted {
    let probes = |side: &[LaunchValue]| mean(&side.iter().filter_map(|launch| launch.probe).collect::<Vec<f64>>());
    let (probe_base, probe_new) = (probes(base), probes(new));
    let reference = f64::midpoint(probe_base, probe_new);
    let adjusted = |side: &[LaunchValue]| {
        let adjust = |launch: &LaunchValue| LaunchValue {
            value: launch.value - fit.slope * (launch.probe.unwrap_or(reference) - reference),
            ..*launch
        };
        side.iter().map(adjust).collect()
    };
    Adjusted {
        base: adjusted(base),
        new: adjusted(new),
        standard_error: fit.standard_error * (probe_new - probe_base).abs(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(session: u32, index: u32, probe: f64, value: f64) -> LaunchValue {
        LaunchValue {
            session,
            launch: index,
            value,
            probe: Some(probe),
            probe_syscall: None,
            median_ns: value.exp(),
        }
    }

    /// Twelve launches a side, of one session, on two parallel lines of slope 0.7 that lie 0.3 apart, with a residual
    /// pattern (+, -, -, +) that no slope explains.
    fn parallel_lines() -> (Vec<LaunchValue>, Vec<LaunchValue>) {
        let side = |level: f64, start: f64| {
            (0..12).map(move |i| {
                let probe = start + 0.01 * f64::from(i);
                let wiggle = [0.001, -0.001, -0.001, 0.001][i as usize % 4];
                launch(0, i, probe, level + 0.7 * probe + wiggle)
            })
        };
        (side(5.0, 1.0).collect(), side(5.3, 1.5).collect())
    }

    #[test]
    fn slope_comes_from_inside_the_sides() {
        // Across the sides the slope would be (0.3 + 0.7 · 0.5) / 0.5 = 1.3; inside it is 0.7.
        // The wiggle sums to zero against a line over every four launches, to within 2 ‰ here.
        let (base, new) = parallel_lines();
        let fit = fit_slope(&base, &new).unwrap();
        approx::assert_abs_diff_eq!(fit.slope, 0.7, epsilon = 0.01);
        // Both sides count: with one alone the slope is less certain, by about √2.
        let alone = fit_slope(&base, &[]).unwrap();
        assert!(alone.standard_error > 1.2 * fit.standard_error);
        // The difference that remains is the 0.3 that no probe explains.
        let adjusted = adjust(&base, &new, fit);
        let level = |side: &[LaunchValue]| side.iter().map(|l| l.value).sum::<f64>() / 12.0;
        approx::assert_abs_diff_eq!(
            level(&adjusted.new) - level(&adjusted.base),
            0.3 - (fit.slope - 0.7) * 0.5,
            epsilon = 1e-9
        );
        approx::assert_abs_diff_eq!(adjusted.standard_error, fit.standard_error * 0.5, epsilon = 1e-9);
    }

    #[test]
    fn one_wild_launch_moves_the_slope_little() {
        let (mut base, new) = parallel_lines();
        base[11].value += 1.0;
        // Least squares would move by 1.0 · 0.055 / (2 · 143 · 1e-4) = 1.9.
        let fit = fit_slope(&base, &new).unwrap();
        approx::assert_abs_diff_eq!(fit.slope, 0.7, epsilon = 0.03);
    }

    #[test]
    fn no_slope_without_evidence() {
        let (base, new) = parallel_lines();
        assert_eq!(fit_slope(&base[..3], &new[..3]), None, "too few launches");
        let mut incomplete = base.clone();
        incomplete[5].probe = None;
        assert_eq!(fit_slope(&incomplete, &new), None, "a launch without a probe");
        let mut constant = base.clone();
        constant.iter_mut().for_each(|launch| launch.probe = Some(1.0));
        assert_eq!(
            fit_slope(&constant, &constant.clone()),
            None,
            "a probe that never moves"
        );
        let mut opposed = base;
        opposed.iter_mut().for_each(|launch| launch.value = -launch.value);
        let negative = fit_slope(&opposed, &opposed.clone()).unwrap();
        assert_eq!(negative.significant(), None, "a negative slope");
    }

    #[test]
    fn the_pool_steadies_a_slope_that_noise_hides() {
        let fit = |slope, standard_error| ProbeSlope { slope, standard_error };
        // Median 0.9, distances from it 0.1, 0.1, 0, 0.3, 0.3: median 0.1, over 0.6745 = 0.148;
        // less the noise, √(0.148² - 0.03²) = 0.145.
        let fits = [
            fit(0.8, 0.03),
            fit(1.0, 0.03),
            fit(0.9, 0.03),
            fit(0.6, 0.03),
            fit(1.2, 0.03),
        ];
        let pool = SlopePool::of(&fits).unwrap();
        approx::assert_abs_diff_eq!(pool.centre, 0.9);
        approx::assert_abs_diff_eq!(pool.spread, 0.145, epsilon = 5e-4);
        // Equal precision meets halfway, with an error smaller by √2.
        let informed = fit(0.3, pool.spread).informed_by(pool);
        approx::assert_abs_diff_eq!(informed.slope, 0.6, epsilon = 1e-12);
        approx::assert_abs_diff_eq!(
            informed.standard_error,
            pool.spread / std::f64::consts::SQRT_2,
            epsilon = 1e-12
        );
        assert_eq!(SlopePool::of(&fits[..4]), None, "too few");
        let none = [
            fit(0.2, 0.1),
            fit(-0.2, 0.1),
            fit(0.01, 0.1),
            fit(0.15, 0.1),
            fit(-0.1, 0.1),
        ];
        assert_eq!(SlopePool::of(&none), None, "not positive as a whole");
    }
}
