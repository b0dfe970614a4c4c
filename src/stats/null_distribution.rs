//! The null distribution of the lower-half rank statistic: every choice of ranks equally likely.

use std::collections::HashMap;
use std::rc::Rc;

use super::rank_test::INTERVAL_LAUNCHES;
use statrs::distribution::{ContinuousCDF, Normal};

/// Most additions that a distribution is counted out with, about a tenth of a second; beyond it the normal approximation
/// serves. 24 launches are counted out beside 450, and 140 beside as many.
///
/// The limit is on the work, not on the launches: between unequal sides T is skew, and the normal tail is two to three
/// times too small on one side of it where a lone change is looked for (192 beside 24, 1.05e-4 a tail: 2.3e-4 is the
/// truth for improvements). Those are the distributions that take little work.
const EXACT_ADDITIONS: f64 = 2e8;
/// Launches a side that are looked through for those that a lone change needs.
const LAUNCHES_SEARCHED: usize = 100;

/// Which ranks have a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scores {
    /// The lower half.
    LowerHalf,
    /// The lower three quarters.
    LowerThreeQuarters,
    /// All: the Wilcoxon test.
    All,
}

impl Scores {
    /// Returns K, the number of scored ranks.
    #[must_use]
    pub fn scored_ranks(self, launches: usize) -> usize {
        match self {
            Self::LowerHalf => launches / 2,
            Self::LowerThreeQuarters => launches * 3 / 4,
            Self::All => launches,
        }
    }
}

/// Distribution of T = Σ s(rank of bⱼ) over all choices of m of the n + m ranks, where
/// s(r) = max(0, K + 1 − r) and K = ⌊(n + m)/2⌋.
///
/// *Source*: Gastwirth, "Percentile modifications of two sample rank tests", JASA 60 (1965).
#[derive(Debug, Clone)]
pub struct NullDistribution {
    min: usize,
    max: usize,
    mean: f64,
    tails: Tails,
}

#[derive(Debug, Clone)]
enum Tails {
    /// `lower[u]` = P(T ≤ u), `upper[u]` = P(T ≥ u).
    Exact {
        lower: Vec<f64>,
        upper: Vec<f64>,
    },
    Normal {
        sd: f64,
    },
}

/// Launches of the base, of the new side, and scored ranks of those of both.
type Ranked = (usize, usize, usize);

impl NullDistribution {
    /// Returns the distribution for `n` launches of the base and `m` of the new side.
    #[must_use]
    pub fn new(n: usize, m: usize, scores: Scores) -> Self {
        Self::of_strata(&[(n, m)], scores)
    }

    /// Returns the distribution of the sum of T over strata, each ranked on its own: launches of the base and of the
    /// new side in each, and all choices inside them equally likely.
    ///
    /// *Source*: van Elteren, Bulletin of the International Statistical Institute 37 (1960).
    #[must_use]
    pub fn of_strata(strata: &[(usize, usize)], scores: Scores) -> Self {
        let ranked = || strata.iter().map(|&(n, m)| (n, m, scores.scored_ranks(n + m)));
        let moments = ranked()
            .map(moments)
            .fold((0.0, 0.0), |sum, m| (sum.0 + m.0, sum.1 + m.1));
        let tails = match exact(ranked()) {
            Some(probability) => tails(probability),
            None => Tails::Normal { sd: moments.1.sqrt() },
        };
        Self {
            min: ranked().map(least).sum(),
            max: ranked().map(most).sum(),
            mean: moments.0,
            tails,
        }
    }

    /// Returns the largest value T can take: all the new launches on the lowest ranks.
    #[must_use]
    pub fn max(&self) -> usize {
        self.max
    }

    /// Returns the smallest value T can take: all the new launches on the highest ranks.
    #[must_use]
    pub fn min(&self) -> usize {
        self.min
    }

    /// Returns the sign of T − E(T). E is a fraction of the launches: what is nearer than rounding is equal.
    #[must_use]
    pub fn compare_to_mean(&self, statistic: usize) -> std::cmp::Ordering {
        let distance = statistic as f64 - self.mean;
        if distance.abs() < 1e-7 {
            std::cmp::Ordering::Equal
        } else {
            distance.total_cmp(&0.0)
        }
    }

    /// Returns P(T ≤ u).
    #[must_use]
    pub fn lower_tail(&self, statistic: usize) -> f64 {
        match &self.tails {
            Tails::Exact { lower, .. } => lower.get(statistic).copied().unwrap_or(1.0),
            Tails::Normal { sd } => normal_cdf((statistic as f64 + 0.5 - self.mean) / sd),
        }
    }

    /// Returns P(T ≥ u).
    #[must_use]
    pub fn upper_tail(&self, statistic: usize) -> f64 {
        match &self.tails {
            Tails::Exact { upper, .. } => upper.get(statistic).copied().unwrap_or(0.0),
            Tails::Normal { sd } => normal_cdf((self.mean - (statistic as f64 - 0.5)) / sd),
        }
    }

    /// Returns the values of T that a two-sided test at level `alpha` keeps, from the smallest with
    /// P(T ≤ u) > α/2 to the largest with P(T ≥ u) > α/2.
    #[must_use]
    pub fn accepted(&self, alpha: f64) -> (usize, usize) {
        let first = self.first_where(|u| self.lower_tail(u) > alpha / 2.0);
        let beyond = self.first_where(|u| self.upper_tail(u) <= alpha / 2.0);
        (first, beyond.saturating_sub(1))
    }

    /// Binary search over 0 ..= max + 1 for the first value where a monotone condition holds.
    fn first_where(&self, condition: impl Fn(usize) -> bool) -> usize {
        let (mut low, mut high) = (0, self.max() + 1);
        while low < high {
            let middle = usize::midpoint(low, high);
            if condition(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

/// The standard normal distribution function.
pub(super) fn normal_cdf(z: f64) -> f64 {
    Normal::standard().cdf(z)
}

/// The least value of T.
fn least((n, m, k): Ranked) -> usize {
    let forced = m.saturating_sub(n + m - k);
    forced * (forced + 1) / 2
}

/// The largest.
fn most((_, m, k): Ranked) -> usize {
    let chosen = m.min(k);
    chosen * k - chosen * chosen.saturating_sub(1) / 2
}

/// Returns the probabilities of T summed over strata; `None` where counting them takes too long.
fn exact(strata: impl Iterator<Item = Ranked> + Clone) -> Option<Vec<f64>> {
    let mut additions = 0.0;
    let mut width = 1.0;
    for (n, m, k) in strata.clone() {
        let own = (k * (k + 1) / 2 + 1) as f64;
        additions += (k * k.min(m).min(n)) as f64 * own + width * own;
        width += own - 1.0;
    }
    if additions > EXACT_ADDITIONS {
        return None;
    }
    let mut sum = vec![1.0];
    for stratum in strata {
        let own = probabilities(stratum);
        if sum.len() == 1 {
            sum = own;
            continue;
        }
        let mut both = vec![0.0; sum.len() + own.len() - 1];
        for (offset, &weight) in own.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            for (into, probability) in both[offset..].iter_mut().zip(&sum) {
                *into += weight * probability;
            }
        }
        sum = both;
    }
    Some(sum)
}

/// Counts choices by dynamic programming over (ranks chosen, sum), one scored rank at a time. *Shape* `[k (k + 1)/2 + 1]`.
fn probabilities((n, m, k): Ranked) -> Vec<f64> {
    if m > n {
        // What the one side does not choose the other does, and the fewer are quicker to count.
        let mut mirrored = probabilities((m, n, k));
        mirrored.reverse();
        return mirrored;
    }
    let total = n + m;
    let sum_max = k * (k + 1) / 2;
    let chosen_max = m.min(k);
    let width = sum_max + 1;
    // ways[j * width + u]: choices of j of the scored ranks so far whose scores add up to u.
    let mut ways = vec![0.0f64; (chosen_max + 1) * width];
    ways[0] = 1.0;
    let mut reached = 0;
    for score in 1..=k {
        reached += score;
        for j in (1..=chosen_max.min(score)).rev() {
            let (before, after) = ways.split_at_mut(j * width);
            let from = &before[(j - 1) * width..];
            for (into, ways) in after[score..=reached].iter_mut().zip(from) {
                *into += ways;
            }
        }
    }
    let unscored = total - k;
    let all = choose(total, m);
    let mut probability = vec![0.0; width];
    for j in 0..=chosen_max {
        if m - j > unscored {
            continue;
        }
        let weight = choose(unscored, m - j) / all;
        for (p, ways) in probability.iter_mut().zip(&ways[j * width..(j + 1) * width]) {
            *p += ways * weight;
        }
    }
    probability
}

fn tails(probability: Vec<f64>) -> Tails {
    let width = probability.len();
    let mut lower = probability.clone();
    for u in 1..width {
        lower[u] += lower[u - 1];
    }
    let mut upper = probability;
    for u in (0..width - 1).rev() {
        upper[u] += upper[u + 1];
    }
    Tails::Exact { lower, upper }
}

/// Returns mean and variance of T.
fn moments((n, m, k): Ranked) -> (f64, f64) {
    let (n, m, k) = (n as f64, m as f64, k as f64);
    let total = n + m;
    let mean_score = k * (k + 1.0) / 2.0 / total;
    let squares = k * (k + 1.0) * (2.0 * k + 1.0) / 6.0 - total * mean_score * mean_score;
    (m * mean_score, n * m / (total * (total - 1.0)) * squares)
}

fn choose(n: usize, k: usize) -> f64 {
    let k = k.min(n - k);
    (0..k).fold(1.0, |product, i| product * (n - i) as f64 / (i + 1) as f64)
}

/// Launches of the base and of the new side, in each stratum, ascending.
type StratumSizes = Vec<(usize, usize)>;

/// Null distributions already computed, by launches on both sides in each stratum.
#[derive(Debug, Default)]
pub struct NullDistributions(HashMap<(StratumSizes, Scores), Rc<NullDistribution>>);

impl NullDistributions {
    /// Returns the distribution for strata of so many launches of the base and of the new side, computing it the first
    /// time.
    pub fn of(&mut self, mut strata: StratumSizes, scores: Scores) -> Rc<NullDistribution> {
        strata.sort_unstable();
        let entry = self.0.entry((strata, scores));
        let key = entry.key().0.clone();
        Rc::clone(entry.or_insert_with(|| Rc::new(NullDistribution::of_strata(&key, scores))))
    }
}

/// Returns the launches from which a side has a 95 % interval beside one of `launches`, if that is the larger: the more
/// unequal, the more it takes, since the few can lie anywhere among the slow half of the many.
#[must_use]
pub fn launches_beside(launches: usize) -> usize {
    let has_interval = |&fewer: &usize| {
        // All of the few among the unscored ranks, or all on the lowest: the likeliest of the extremes.
        let total = launches + fewer;
        let unscored = total - Scores::LowerHalf.scored_ranks(total);
        choose(unscored, fewer) / choose(total, fewer) <= 0.025
    };
    (INTERVAL_LAUNCHES..=launches).find(has_interval).unwrap_or(launches)
}

/// Returns the launches a side from which one changed benchmark among `benchmarks` can be
/// declared at false discovery rate `fdr`: the smallest n with 2·P(T ≤ min T) ≤ fdr/benchmarks.
#[must_use]
pub fn minimum_launches(benchmarks: usize, fdr: f64) -> usize {
    let needed = fdr / benchmarks.max(1) as f64;
    // Of all orders of the launches one has the least T.
    (2..LAUNCHES_SEARCHED)
        .find(|&n| 2.0 / choose(2 * n, n) <= needed)
        .unwrap_or(LAUNCHES_SEARCHED)
}
