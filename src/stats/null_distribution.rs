//! The null distribution of the lower-half rank statistic: every choice of ranks equally likely.

use std::collections::HashMap;
use std::rc::Rc;

use super::rank_test::INTERVAL_LAUNCHES;
use statrs::distribution::{ContinuousCDF, Normal};

/// Largest total number of launches whose distribution is counted out; beyond it the normal
/// approximation serves.
const EXACT_LIMIT: usize = 200;

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
    n: usize,
    m: usize,
    k: usize,
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
        mean: f64,
        sd: f64,
    },
}

impl NullDistribution {
    /// Returns the distribution for `n` launches of the base and `m` of the new side.
    #[must_use]
    pub fn new(n: usize, m: usize, scores: Scores) -> Self {
        let k = scores.scored_ranks(n + m);
        let tails = if n + m <= EXACT_LIMIT {
            exact_tails(n, m, k)
        } else {
            normal_tails(n, m, k)
        };
        Self { n, m, k, tails }
    }

    /// Returns the number of scored ranks, K.
    #[must_use]
    pub fn scored_ranks(&self) -> usize {
        self.k
    }

    /// Returns the largest value T can take: all the new launches on the lowest ranks.
    #[must_use]
    pub fn max(&self) -> usize {
        let k = self.scored_ranks();
        let chosen = self.m.min(k);
        chosen * k - chosen * chosen.saturating_sub(1) / 2
    }

    /// Returns the smallest value T can take: all the new launches on the highest ranks.
    #[must_use]
    pub fn min(&self) -> usize {
        let forced = self.m.saturating_sub(self.n + self.m - self.scored_ranks());
        forced * (forced + 1) / 2
    }

    /// Returns the sign of T − E(T), in exact arithmetic.
    #[must_use]
    pub fn compare_to_mean(&self, statistic: usize) -> std::cmp::Ordering {
        let k = self.scored_ranks();
        (2 * statistic * (self.n + self.m)).cmp(&(self.m * k * (k + 1)))
    }

    /// Returns P(T ≤ u).
    #[must_use]
    pub fn lower_tail(&self, statistic: usize) -> f64 {
        match &self.tails {
            Tails::Exact { lower, .. } => lower.get(statistic).copied().unwrap_or(1.0),
            Tails::Normal { mean, sd } => normal_cdf((statistic as f64 + 0.5 - mean) / sd),
        }
    }

    /// Returns P(T ≥ u).
    #[must_use]
    pub fn upper_tail(&self, statistic: usize) -> f64 {
        match &self.tails {
            Tails::Exact { upper, .. } => upper.get(statistic).copied().unwrap_or(0.0),
            Tails::Normal { mean, sd } => normal_cdf((mean - (statistic as f64 - 0.5)) / sd),
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

/// Counts choices by dynamic programming over (ranks chosen, sum), one scored rank at a time.
fn exact_tails(n: usize, m: usize, k: usize) -> Tails {
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

fn normal_tails(n: usize, m: usize, k: usize) -> Tails {
    let (n, m, k) = (n as f64, m as f64, k as f64);
    let total = n + m;
    let mean_score = k * (k + 1.0) / 2.0 / total;
    let squares = k * (k + 1.0) * (2.0 * k + 1.0) / 6.0 - total * mean_score * mean_score;
    Tails::Normal {
        mean: m * mean_score,
        sd: (n * m / (total * (total - 1.0)) * squares).sqrt(),
    }
}

fn choose(n: usize, k: usize) -> f64 {
    let k = k.min(n - k);
    (0..k).fold(1.0, |product, i| product * (n - i) as f64 / (i + 1) as f64)
}

/// Null distributions already computed, by launches on both sides.
#[derive(Debug, Default)]
pub struct NullDistributions(HashMap<(usize, usize, Scores), Rc<NullDistribution>>);

impl NullDistributions {
    /// Returns the distribution for `n` and `m` launches, computing it the first time.
    pub fn of(&mut self, n: usize, m: usize, scores: Scores) -> Rc<NullDistribution> {
        let entry = self.0.entry((n, m, scores));
        Rc::clone(entry.or_insert_with(|| Rc::new(NullDistribution::new(n, m, scores))))
    }
}

/// Returns the launches from which a side has a 95 % interval beside one of `launches`, if that is the larger: the more
/// unequal, the more it takes, since the few can lie anywhere among the slow half of the many.
#[must_use]
pub fn launches_beside(launches: usize) -> usize {
    let has_interval = |&fewer: &usize| {
        [(launches, fewer), (fewer, launches)].into_iter().all(|(base, new)| {
            let null = NullDistribution::new(base, new, Scores::LowerHalf);
            null.lower_tail(null.min()).max(null.upper_tail(null.max())) <= 0.025
        })
    };
    (INTERVAL_LAUNCHES..=launches).find(has_interval).unwrap_or(launches)
}

/// Returns the launches a side from which one changed benchmark among `benchmarks` can be
/// declared at false discovery rate `fdr`: the smallest n with 2·P(T ≤ min T) ≤ fdr/benchmarks.
#[must_use]
pub fn minimum_launches(benchmarks: usize, fdr: f64) -> usize {
    let needed = fdr / benchmarks.max(1) as f64;
    (2..EXACT_LIMIT / 2)
        .find(|&n| {
            let null = NullDistribution::new(n, n, Scores::LowerHalf);
            2.0 * null.lower_tail(null.min()) <= needed
        })
        .unwrap_or(EXACT_LIMIT / 2)
}
