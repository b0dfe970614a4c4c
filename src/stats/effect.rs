//! Effects as ratios, new over base.

use super::rank_test::Bounds;

/// An interval of ratios.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub lower: f64,
    /// Upper end.
    pub upper: f64,
    /// Confidence level, such as 0.95.
    pub confidence_level: f64,
}

/// A ratio, new over base: 1.05 is five per cent slower.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effect {
    /// The estimate.
    pub ratio: f64,
    /// Its interval, where the launches allow one.
    pub interval: Option<Interval>,
}

impl Effect {
    /// Returns the effect of a shift in logarithms.
    pub(super) fn of(shift: f64, bounds: Option<Bounds>, confidence_level: f64) -> Self {
        let interval = bounds.map(|bounds| Interval {
            lower: bounds.lower.exp(),
            upper: bounds.upper.exp(),
            confidence_level,
        });
        Self {
            ratio: shift.exp(),
            interval,
        }
    }
}
