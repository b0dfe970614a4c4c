//! The times of one benchmark in one launch, kept in ascending order.

use thiserror::Error;

/// Shortest time per iteration that is believed, in nanoseconds: a hundredth of a clock cycle.
const SHORTEST_NS: f64 = 1e-3;
/// Longest time per iteration that is believed, in nanoseconds: eleven days.
const LONGEST_NS: f64 = 1e15;

/// Most iterations of one sample: Criterion counts them in 64 bits.
const ITERATIONS_MAX: f64 = 18_446_744_073_709_551_616.0;

/// Why numbers are no sample.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum InvalidSample {
    /// There is no number at all.
    #[error("no samples")]
    Empty,
    /// Iterations and times do not pair up.
    #[error("{iters} iteration counts for {times} times")]
    LengthMismatch {
        /// Number of iteration counts.
        iters: usize,
        /// Number of times.
        times: usize,
    },
    /// NaN or infinite.
    #[error("sample {index}: {value} is not a finite number")]
    NotFinite {
        /// Position in the recorded order, from 0.
        index: usize,
        /// The offending number.
        value: f64,
    },
    /// Zero or below.
    #[error("sample {index}: {value} is not above zero")]
    NotPositive {
        /// Position in the recorded order, from 0.
        index: usize,
        /// The offending number.
        value: f64,
    },
    /// More iterations than any loop counts; their sums would not be finite.
    #[error("sample {index}: {value:e} iterations cannot have been counted")]
    Uncountable {
        /// Position in the recorded order, from 0.
        index: usize,
        /// Iterations.
        value: f64,
    },
    /// A time per iteration outside 0.001 ns to 11 days.
    #[error("sample {index}: {value:e} ns per iteration cannot be a measurement")]
    Absurd {
        /// Position in the recorded order, from 0.
        index: usize,
        /// Nanoseconds per iteration.
        value: f64,
    },
}

/// Times per iteration of one benchmark in one launch. *Shape* `[n]`, n ≥ 1, ascending. *Unit* ns.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// Returns the times per iteration of totals over iteration counts.
    ///
    /// # Errors
    /// Names the first number that is no measurement.
    pub fn from_totals(iters: &[f64], times_ns: &[f64]) -> Result<Self, InvalidSample> {
        if iters.len() != times_ns.len() {
            return Err(InvalidSample::LengthMismatch {
                iters: iters.len(),
                times: times_ns.len(),
            });
        }
        for (index, &value) in iters.iter().enumerate() {
            check_positive(index, value)?;
            if value > ITERATIONS_MAX {
                return Err(InvalidSample::Uncountable { index, value });
            }
        }
        for (index, &value) in times_ns.iter().enumerate() {
            check_positive(index, value)?;
        }
        Self::new(iters.iter().zip(times_ns).map(|(n, t)| t / n).collect())
    }

    /// Returns the sample of these times, in nanoseconds, in whatever order they come.
    ///
    /// # Errors
    /// Names the first number that is no measurement.
    pub fn new(mut times_ns: Vec<f64>) -> Result<Self, InvalidSample> {
        if times_ns.is_empty() {
            return Err(InvalidSample::Empty);
        }
        for (index, &value) in times_ns.iter().enumerate() {
            check_positive(index, value)?;
            if !(SHORTEST_NS..=LONGEST_NS).contains(&value) {
                return Err(InvalidSample::Absurd { index, value });
            }
        }
        times_ns.sort_unstable_by(f64::total_cmp);
        Ok(Self(times_ns))
    }

    /// Returns the times. *Shape* `[n]`, n ≥ 1, ascending. *Unit* ns per iteration.
    #[must_use]
    pub fn times_ns(&self) -> &[f64] {
        &self.0
    }

    /// Returns the mean logarithm of the fastest half, ⌈n/2⌉ times. *Unit* ln ns.
    ///
    /// The slow samples of a launch are the host's weather, so only the fast ones speak. The fastest half
    /// replaces the lower quartile of the written procedure. Measured on the H200, spread of host-bound
    /// benchmarks between launches of ten samples taken in turns, the probe and the weather taken out, in
    /// five recordings of 10 to 23 launches: fastest quarter 4.2, 4.0, 2.5, 2.9 and 3.9 %; fastest half 4.0,
    /// 3.7, 2.5, 2.9 and 3.5; fastest four fifths 4.0, 3.9, 2.6, 3.0 and 3.4; mean 4.3, 3.9, 3.0, 3.1 and
    /// 3.5; median 5.1, 5.2, 3.6, 4.2 and 4.1. With ten samples of one moment (38 launches) the quarter and
    /// the half agree: 5.5 %.
    #[must_use]
    pub fn fast_log_mean(&self) -> f64 {
        fast_log_mean_of_sorted(&self.0)
    }

    /// Returns the median. *Unit* ns per iteration.
    #[must_use]
    pub fn median_ns(&self) -> f64 {
        super::order::median_of_sorted(&self.0)
    }

    /// Returns the sample with every time multiplied; used to inject slowdowns.
    ///
    /// # Errors
    /// A factor that leaves no believable times.
    pub fn scaled(&self, factor: f64) -> Result<Self, InvalidSample> {
        Self::new(self.0.iter().map(|time| time * factor).collect())
    }
}

fn fast_log_mean_of_sorted(sorted: &[f64]) -> f64 {
    let fast = &sorted[..sorted.len().div_ceil(2)];
    fast.iter().map(|time| time.ln()).sum::<f64>() / fast.len() as f64
}

/// Most samples that are reduced together: those of one launch where they are as few as usual. More are reduced
/// in blocks: the fastest half of forty moments in a row would be a few moments'.
const BLOCK: usize = 10;

/// Returns the mean over blocks of consecutive times of each block's [`Sample::fast_log_mean`]: as few blocks as may
/// be, and nearly equal. An eleventh sample on its own would be half of the launch's value.
/// *Shape* `[n]`, n ≥ 1, in recorded order, all above zero. *Unit* ln ns.
pub(super) fn blockwise_fast_log_mean(times_ns: &[f64]) -> f64 {
    let count = times_ns.len().div_ceil(BLOCK);
    let start = |block: usize| block * times_ns.len() / count;
    let blocks = (0..count).map(|block| {
        let times = times_ns[start(block)..start(block + 1)].to_vec();
        fast_log_mean_of_sorted(&super::order::sorted(times))
    });
    super::order::mean(&blocks.collect::<Vec<_>>())
}

fn check_positive(index: usize, value: f64) -> Result<(), InvalidSample> {
    if !value.is_finite() {
        Err(InvalidSample::NotFinite { index, value })
    } else if value <= 0.0 {
        Err(InvalidSample::NotPositive { index, value })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_log_mean_is_over_the_fastest_half() {
        // Nine values: ⌈9/2⌉ = 5 fastest are 1, e, e², e³ and e⁴: mean logarithm (0 + 1 + 2 + 3 + 4) / 5 = 2.
        let power = |exponent: i32| f64::from(exponent).exp();
        let times = vec![60.0, power(1), 70.0, power(3), 1.0, 80.0, power(4), power(2), 99.0];
        let sample = Sample::new(times).unwrap();
        approx::assert_relative_eq!(sample.fast_log_mean(), 2.0, epsilon = 1e-15);
        assert_eq!(sample.median_ns(), power(4));
    }

    #[test]
    fn totals_are_divided_and_sorted() {
        // 30/10 = 3, 8/4 = 2, 5/5 = 1.
        let sample = Sample::from_totals(&[10.0, 4.0, 5.0], &[30.0, 8.0, 5.0]).unwrap();
        assert_eq!(sample.times_ns(), [1.0, 2.0, 3.0]);
    }

    #[test]
    fn a_sample_more_weighs_no_more_than_the_others() {
        // Ten fast samples and a slow eleventh: blocks of five and of six, of whose fastest three it is none. Alone it
        // would be half: 3.5 instead of 0.
        let mut times = vec![1.0; 10];
        times.push(7f64.exp());
        assert_eq!(blockwise_fast_log_mean(&times), 0.0);
        // Ten are one block: the mean of the logarithms 0 to 4. Twenty-one are three of seven: 1.5, 8.5 and 15.5.
        let rising = |count: u32| (0..count).map(|i| f64::from(i).exp()).collect::<Vec<_>>();
        approx::assert_relative_eq!(blockwise_fast_log_mean(&rising(10)), 2.0, epsilon = 1e-12);
        approx::assert_relative_eq!(blockwise_fast_log_mean(&rising(21)), 8.5, epsilon = 1e-12);
    }

    #[test]
    fn every_bad_number_has_its_name() {
        use InvalidSample::*;
        assert_eq!(Sample::from_totals(&[], &[]), Err(Empty));
        assert_eq!(
            Sample::from_totals(&[1.0], &[]),
            Err(LengthMismatch { iters: 1, times: 0 })
        );
        assert!(matches!(
            Sample::from_totals(&[1.0, 1.0], &[1.0, f64::NAN]),
            Err(NotFinite { index: 1, .. })
        ));
        assert!(matches!(
            Sample::from_totals(&[f64::INFINITY], &[1.0]),
            Err(NotFinite { index: 0, .. })
        ));
        assert!(matches!(Sample::from_totals(&[0.0], &[1.0]), Err(NotPositive { .. })));
        assert!(matches!(Sample::from_totals(&[1.0], &[-1.0]), Err(NotPositive { .. })));
        assert!(matches!(Sample::from_totals(&[1.0], &[1e300]), Err(Absurd { .. })));
        // The quotient, not only the parts, must be believable: 1e-310 / 1e19 underflows to zero.
        assert!(matches!(
            Sample::from_totals(&[1e19], &[1e-310]),
            Err(NotPositive { .. })
        ));
        // 2^64 iterations at most, so that sums of launches stay finite; 2^64 - 1 is the same double.
        assert!(Sample::from_totals(&[2f64.powi(64)], &[2f64.powi(64)]).is_ok());
        assert!(matches!(
            Sample::from_totals(&[1.0, 2f64.powi(65)], &[1.0, 2f64.powi(65)]),
            Err(Uncountable { index: 1, .. })
        ));
    }
}
