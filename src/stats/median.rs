//! The median of repeated measurements, and between which of them the true one lies.

use super::effect::Interval;
use super::order::median_of_sorted;

/// A median and its interval, in the measurements' unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Median {
    /// The median of the measurements.
    pub point: f64,
    /// Two of the measurements that hold the true median between them at least so often; `None` for fewer than
    /// six, where the smallest and the largest are not far enough apart.
    pub interval: Option<Interval>,
}

impl Median {
    /// Returns the median of finite numbers with its interval at a confidence level below 1, or `None` for no
    /// numbers. The interval assumes independence and nothing of the distribution.
    ///
    /// *Source*: order statistics; the number of measurements below the true median is binomial with 1/2.
    #[must_use]
    pub fn of(mut values: Vec<f64>, confidence_level: f64) -> Option<Median> {
        if values.is_empty() {
            return None;
        }
        values.sort_unstable_by(f64::total_cmp);
        let interval = rank(values.len(), 1.0 - confidence_level).map(|rank| Interval {
            lower: values[rank],
            upper: values[values.len() - 1 - rank],
            confidence_level,
        });
        Some(Median {
            point: median_of_sorted(&values),
            interval,
        })
    }
}

/// The largest rank, from 0, below and above which the true median lies at most with the probability
/// `outside` in all.
fn rank(n: usize, outside: f64) -> Option<usize> {
    // Terms of the binomial, by their logarithm: 2^-n underflows from a thousand on.
    let mut log_term = -(n as f64) * std::f64::consts::LN_2;
    let (mut tail, mut found) = (0.0, None);
    for rank in 0..n.div_ceil(2) {
        tail += log_term.exp();
        if 2.0 * tail > outside {
            break;
        }
        found = Some(rank);
        log_term += ((n - rank) as f64).ln() - ((rank + 1) as f64).ln();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_follow_the_binomial() {
        // n = 5: both tails of 1 each are 2/32 = 0.0625. n = 6: 2/64 = 0.031. n = 8: 2/256, and with rank 1
        // 2 (1 + 8)/256 = 0.070. n = 9: 2 (1 + 9)/512 = 0.039. n = 12: 2 (1 + 12 + 66)/4096 = 0.0386.
        let ranks = [1, 5, 6, 8, 9, 12].map(|n| rank(n, 0.05));
        assert_eq!(ranks, [None, None, Some(0), Some(0), Some(1), Some(2)]);
        // Normal approximation for n = 2000: 1000 - 1.96 sqrt(500) = 956.
        assert!(rank(2000, 0.05).is_some_and(|rank| rank.abs_diff(956) <= 1));
    }

    #[test]
    fn a_median_has_measurements_as_its_bounds() {
        let nine = (1..=9).rev().map(f64::from).collect();
        let median = Median::of(nine, 0.95).expect("nine numbers");
        assert_eq!(median.point, 5.0);
        let interval = median.interval.expect("enough");
        assert_eq!((interval.lower, interval.upper), (2.0, 8.0));
        assert_eq!(
            Median::of(vec![1.0, 2.0], 0.95).map(|m| (m.point, m.interval)),
            Some((1.5, None))
        );
        assert_eq!(Median::of(Vec::new(), 0.95), None);
    }
}
