//! The lower-half rank test and its inversion into an estimate and intervals.
//!
//! *Source*: Gastwirth (1965) for the scores, Hodges and Lehmann (1963) for the inversion;
//! `reference/procedure.md` section 4 fixes ties and steps.

use std::cmp::Ordering;

use super::null_distribution::{NullDistribution, NullDistributions, Scores};
use super::order::sorted;

/// Launches a side from which an interval is given.
pub const INTERVAL_LAUNCHES: usize = 4;

/// Launch values that are ranked together, ascending. *Unit* natural logarithms.
#[derive(Debug, Clone)]
struct Stratum {
    base: Vec<f64>,
    new: Vec<f64>,
    /// Ranks with a score, K.
    scored: usize,
}

/// Two sides' launch values, ready for tests of any shift. *Unit* natural logarithms.
#[derive(Debug, Clone)]
pub struct RankTest {
    strata: Vec<Stratum>,
    null: std::rc::Rc<NullDistribution>,
}

/// An interval of shifts. *Unit* natural logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Lower end.
    pub lower: f64,
    /// Upper end.
    pub upper: f64,
}

impl Bounds {
    /// Returns half the width.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        (self.upper - self.lower) / 2.0
    }

    /// Returns the interval with both ends moved away from `centre` by `factor`.
    #[must_use]
    pub fn stretched(&self, centre: f64, factor: f64) -> Self {
        Self {
            lower: centre + (self.lower - centre) * factor,
            upper: centre + (self.upper - centre) * factor,
        }
    }

    /// Returns whether a shift lies outside.
    #[must_use]
    pub fn excludes(&self, shift: f64) -> bool {
        shift < self.lower || shift > self.upper
    }

    /// Returns whether the whole interval lies beyond ±`size`, on either side.
    #[must_use]
    pub fn beyond(&self, size: f64) -> bool {
        self.lower > size || self.upper < -size
    }

    /// Returns whether the whole interval lies inside ±`size`.
    #[must_use]
    pub fn inside(&self, size: f64) -> bool {
        self.lower > -size && self.upper < size
    }
}

impl Stratum {
    /// Returns T(t), as [`RankTest::statistic`] does.
    fn statistic(&self, shift: f64, ties_raise: bool) -> usize {
        let mut below = 0;
        let mut sum = 0;
        for (j, &b) in self.new.iter().enumerate() {
            // The same subtraction, b − a, as the inversion's differences: (b − t) − a would round
            // differently and tear interval and p-value apart.
            while below < self.base.len() && {
                let difference = b - self.base[below];
                difference > shift || (difference == shift && !ties_raise)
            } {
                below += 1;
            }
            sum += (self.scored + 1).saturating_sub(below + j + 1);
        }
        sum
    }
}

impl RankTest {
    /// Returns the test of two sides, or `None` where one has no launch.
    #[must_use]
    pub fn new(base: Vec<f64>, new: Vec<f64>, scores: Scores, nulls: &mut NullDistributions) -> Option<Self> {
        Self::stratified([(base, new)], scores, nulls)
    }

    /// Returns the test of two sides (base, new) that share strata: launches are ranked and exchanged inside each alone,
    /// so that what the strata differ by is no error, and its removal takes nothing from the others. A stratum of one
    /// side only says nothing; `None` where there is no other.
    ///
    /// Taking a level out of each and ranking all together (aligned ranks) counts what the levels cost as if it were
    /// there: of 120 unchanged benchmarks with twelve shared sessions of two launches a side 12.8 % of the 95 %
    /// intervals missed, and 9 of 60 suites alarmed.
    ///
    /// *Source*: van Elteren, Bulletin of the International Statistical Institute 37 (1960).
    #[must_use]
    pub fn stratified(
        strata: impl IntoIterator<Item = (Vec<f64>, Vec<f64>)>,
        scores: Scores,
        nulls: &mut NullDistributions,
    ) -> Option<Self> {
        let of_both = |(base, new): &(Vec<f64>, Vec<f64>)| !base.is_empty() && !new.is_empty();
        let ranked = |(base, new): (Vec<f64>, Vec<f64>)| Stratum {
            scored: scores.scored_ranks(base.len() + new.len()),
            base: sorted(base),
            new: sorted(new),
        };
        let strata: Vec<Stratum> = strata.into_iter().filter(of_both).map(ranked).collect();
        if strata.is_empty() {
            return None;
        }
        let sizes = strata.iter().map(|stratum| (stratum.base.len(), stratum.new.len()));
        let null = nulls.of(sizes.collect(), scores);
        Some(Self { strata, null })
    }

    /// Returns the smaller number of launches.
    #[must_use]
    pub fn launches_min(&self) -> usize {
        let launches = |side: fn(&Stratum) -> &Vec<f64>| self.strata.iter().map(|stratum| side(stratum).len()).sum();
        let (base, new): (usize, usize) = (launches(|stratum| &stratum.base), launches(|stratum| &stratum.new));
        base.min(new)
    }

    /// Returns T(t) with base values that equal shifted new ones ranked above them
    /// (`ties_raise`) or below them. O(n + m).
    fn statistic(&self, shift: f64, ties_raise: bool) -> usize {
        self.strata
            .iter()
            .map(|stratum| stratum.statistic(shift, ties_raise))
            .sum()
    }

    /// Returns the p-value of "the shift lies within `lower` ..= `upper`", ties counted against an
    /// alarm; `None` below four launches a side.
    ///
    /// With `lower` = −δ and `upper` = δ it is below α exactly when the 1−α interval lies beyond ±δ.
    #[must_use]
    pub fn p_value(&self, lower: f64, upper: f64) -> Option<f64> {
        if self.launches_min() < INTERVAL_LAUNCHES {
            return None;
        }
        let slower = self.null.lower_tail(self.statistic(upper, true));
        let faster = self.null.upper_tail(self.statistic(lower, false));
        Some((2.0 * slower.min(faster)).min(1.0))
    }

    /// Returns the estimate of the shift and its intervals.
    #[must_use]
    pub fn invert(&self) -> Inversion {
        let pairs = self.strata.iter().map(|stratum| stratum.base.len() * stratum.new.len());
        let mut differences = Vec::with_capacity(pairs.sum());
        // Rank of each new launch, and the ranks with a score. Below all differences every new launch ranks above every
        // base launch.
        let mut ranks: Vec<(usize, usize)> = Vec::new();
        for Stratum { base, new, scored } in &self.strata {
            for (j, &b) in new.iter().enumerate() {
                let launch = ranks.len() as u32;
                differences.extend(base.iter().map(|&a| (b - a, launch)));
                ranks.push((j + 1 + base.len(), *scored));
            }
        }
        differences.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
        let mut statistic = self.null.min();
        let mut shifts = Vec::with_capacity(differences.len());
        let mut statistics = Vec::with_capacity(differences.len() + 1);
        statistics.push(statistic);
        for (index, &(difference, j)) in differences.iter().enumerate() {
            let (rank, scored) = &mut ranks[j as usize];
            *rank -= 1;
            statistic += usize::from(*rank <= *scored);
            if differences.get(index + 1).is_none_or(|next| next.0 > difference) {
                shifts.push(difference);
                statistics.push(statistic);
            }
        }
        Inversion {
            shifts,
            statistics,
            launches_min: self.launches_min(),
            null: std::rc::Rc::clone(&self.null),
        }
    }
}

/// T as a step function of the shift.
#[derive(Debug, Clone)]
pub struct Inversion {
    /// Shifts at which T steps, ascending, distinct.
    shifts: Vec<f64>,
    /// T before the first and after every step, ascending; one longer than `shifts`.
    statistics: Vec<usize>,
    launches_min: usize,
    null: std::rc::Rc<NullDistribution>,
}

impl Inversion {
    /// Returns the estimate: midway between where T reaches its mean and where it passes it.
    #[must_use]
    pub fn estimate(&self) -> f64 {
        let reaches = self.first_step(|t| self.null.compare_to_mean(t) != Ordering::Less);
        let passes = self.first_step(|t| self.null.compare_to_mean(t) == Ordering::Greater);
        f64::midpoint(self.shift_at(reaches), self.shift_at(passes))
    }

    /// Returns the interval at confidence 1 − `alpha`; `None` where the launches are too few for it.
    #[must_use]
    pub fn interval(&self, alpha: f64) -> Option<Bounds> {
        if self.launches_min < INTERVAL_LAUNCHES {
            return None;
        }
        let (smallest, largest) = self.null.accepted(alpha);
        let first = self.first_step(|t| t >= smallest);
        let beyond = self.first_step(|t| t > largest);
        if first == 0 || beyond > self.shifts.len() {
            return None;
        }
        Some(Bounds {
            lower: self.shift_at(first),
            upper: self.shift_at(beyond),
        })
    }

    fn first_step(&self, reached: impl Fn(usize) -> bool) -> usize {
        self.statistics.partition_point(|&t| !reached(t))
    }

    /// Steps count from 1; T is below its mean before the first and above it after the last.
    fn shift_at(&self, step: usize) -> f64 {
        self.shifts[step.clamp(1, self.shifts.len()) - 1]
    }
}
