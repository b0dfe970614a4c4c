//! What one launch a side can say: an interval inside the processes, which is no verdict.

use super::effect::{Effect, Interval};
use super::median::Median;
use super::sample::Sample;

/// Level of the interval.
const CONFIDENCE: f64 = 0.95;

/// A time with its interval inside one process. *Unit* ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProcessTime {
    /// The median.
    pub median_ns: f64,
    /// Its 95 % interval, where there are samples enough.
    pub interval_ns: Option<(f64, f64)>,
}

impl ProcessTime {
    /// Returns the median of a sample, and its interval: none below six samples.
    #[must_use]
    pub fn of(sample: &Sample) -> Self {
        let interval = Median::of(sample.times_ns().to_vec(), CONFIDENCE).and_then(|median| median.interval);
        Self {
            median_ns: sample.median_ns(),
            interval_ns: interval.map(|interval| (interval.lower, interval.upper)),
        }
    }
}

/// Returns the ratio of two times, new over base, with the interval that their own intervals allow:
/// their arms in logarithms, added in quadrature. `None` where a time is not above zero.
///
/// It holds inside the two processes only. Two launches of the same executable differ by more: on an
/// H200 by 10 to 45 % for host-bound benchmarks, so it proves no change of a driver.
#[must_use]
pub fn in_process_effect(base: &ProcessTime, new: &ProcessTime) -> Option<Effect> {
    let usable = |time: f64| time > 0.0 && time.is_finite();
    if !usable(base.median_ns) || !usable(new.median_ns) {
        return None;
    }
    let arms = |time: &ProcessTime| {
        let (lower, upper) = time
            .interval_ns
            .filter(|&(lower, upper)| usable(lower) && usable(upper))?;
        Some((
            (time.median_ns / lower).ln().max(0.0),
            (upper / time.median_ns).ln().max(0.0),
        ))
    };
    let centre = (new.median_ns / base.median_ns).ln();
    let interval = arms(base).zip(arms(new)).map(|(base, new)| Interval {
        lower: (centre - new.0.hypot(base.1)).exp(),
        upper: (centre + new.1.hypot(base.0)).exp(),
        confidence_level: CONFIDENCE,
    });
    Some(Effect {
        ratio: centre.exp(),
        interval,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_statistics_enclose_the_median() {
        // n = 10: P(X <= 1) = 11/1024, twice that is 2.1 %; P(X <= 2) = 56/1024, 10.9 %. So k - 1 = 1:
        // the second smallest and the second largest.
        let sample = Sample::new((1..=10).map(f64::from).collect()).unwrap();
        assert_eq!(
            ProcessTime::of(&sample),
            ProcessTime {
                median_ns: 5.5,
                interval_ns: Some((2.0, 9.0))
            }
        );
        // n = 5: 2 · 1/32 = 6.25 % already with the extremes.
        let few = Sample::new((1..=5).map(f64::from).collect()).unwrap();
        assert_eq!(ProcessTime::of(&few).interval_ns, None);
    }

    #[test]
    fn arms_add_in_quadrature() {
        // Base e^0 with arms of 3 either way, new e^1 with arms of 4: 1 ± 5.
        let time = |centre: f64, arm: f64| ProcessTime {
            median_ns: centre.exp(),
            interval_ns: Some(((centre - arm).exp(), (centre + arm).exp())),
        };
        let effect = in_process_effect(&time(0.0, 3.0), &time(1.0, 4.0)).unwrap();
        let interval = effect.interval.unwrap();
        approx::assert_relative_eq!(effect.ratio.ln(), 1.0, epsilon = 1e-12);
        approx::assert_relative_eq!(interval.lower.ln(), -4.0, epsilon = 1e-12);
        approx::assert_relative_eq!(interval.upper.ln(), 6.0, epsilon = 1e-12);
        let zero = ProcessTime {
            median_ns: 0.0,
            interval_ns: None,
        };
        assert_eq!(in_process_effect(&zero, &zero), None);
    }
}
