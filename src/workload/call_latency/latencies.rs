//! The times of single calls, in memory that does not grow with their number, only with that of their batches.

use crate::measure::CallTimes;
use std::time::Duration;

/// Buckets of an octave are a power of two in number, here 128, so that a bucket is at most 1/128 wide.
const OCTAVE_BITS: u32 = 7;
/// Every 64-bit number of nanoseconds has a bucket.
const BUCKETS: usize = ((64 - OCTAVE_BITS as usize) << OCTAVE_BITS) + (1 << OCTAVE_BITS);

/// A histogram of nanoseconds: exact below 256 ns, in buckets of less than 0.8 % above, and the
/// largest exact.
pub(super) struct Latencies {
    counts: Vec<u64>,
    calls: u64,
    max_ns: u64,
}

/// What a histogram held: its buckets that have calls, by index, and how many.
pub(super) struct Batch {
    counts: Vec<(usize, u64)>,
    max_ns: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies {
            counts: vec![0; BUCKETS],
            calls: 0,
            max_ns: 0,
        }
    }
}

impl Latencies {
    /// Empties the histogram and returns what it held.
    pub(super) fn take(&mut self) -> Batch {
        let indexed = self.counts.iter_mut().map(std::mem::take).enumerate();
        let counts = indexed.filter(|(_, count)| *count > 0).collect();
        self.calls = 0;
        Batch {
            counts,
            max_ns: std::mem::take(&mut self.max_ns),
        }
    }

    /// The calls of all these batches.
    pub(super) fn of<'a>(batches: impl IntoIterator<Item = &'a Batch>) -> Latencies {
        let mut latencies = Latencies::default();
        for batch in batches {
            for (index, count) in &batch.counts {
                latencies.counts[*index] += count;
                latencies.calls += count;
            }
            latencies.max_ns = latencies.max_ns.max(batch.max_ns);
        }
        latencies
    }

    #[inline]
    pub(super) fn record(&mut self, elapsed: Duration) {
        let ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(ns)] += 1;
        self.calls += 1;
        self.max_ns = self.max_ns.max(ns);
    }

    /// What was recorded, `None` before the first call. A percentile is never below the exact one.
    pub(super) fn summary(&self, clock_ns: u64) -> Option<CallTimes> {
        Some(CallTimes {
            calls: self.calls,
            p50_ns: self.percentile(50)?,
            p99_ns: self.percentile(99)?,
            max_ns: self.max_ns,
            clock_ns,
        })
    }

    /// The nearest-rank percentile: the smallest time that `percent` of the calls do not exceed.
    fn percentile(&self, percent: u64) -> Option<u64> {
        let rank = self.calls.saturating_mul(percent).div_ceil(100);
        let mut counted = 0;
        let reached = self.counts.iter().position(|count| {
            counted += count;
            counted >= rank
        });
        reached
            .filter(|_| self.calls > 0)
            .map(|index| last_ns(index).min(self.max_ns))
    }
}

fn bucket(ns: u64) -> usize {
    let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(OCTAVE_BITS + 1);
    ((shift as usize) << OCTAVE_BITS) + (ns >> shift) as usize
}

/// The largest number of nanoseconds in a bucket.
fn last_ns(bucket: usize) -> u64 {
    let octave = 1_usize << OCTAVE_BITS;
    let shift = (bucket / octave).saturating_sub(1);
    let leading = (bucket - shift * octave) as u64;
    (leading << shift) | ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_a_bucket_no_wider_than_its_share() {
        for ns in [0, 1, 255, 256, 257, 1_000, 65_537, 1 << 40, u64::MAX] {
            let last = last_ns(bucket(ns));
            assert!(last >= ns, "{ns}");
            assert!(last - ns <= ns / 128, "{ns} is counted as {last}");
        }
        // One after the other, with nothing between: the next time is in the next bucket.
        for index in 0..BUCKETS - 1 {
            assert_eq!(bucket(last_ns(index) + 1), index + 1);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.summary(0), None);
        // 1 to 200 ns: half of 200 calls is the 100th, 99 % the 198th.
        for ns in (1..=200).rev() {
            latencies.record(Duration::from_nanos(ns));
        }
        let expected = CallTimes {
            calls: 200,
            p50_ns: 100,
            p99_ns: 198,
            max_ns: 200,
            clock_ns: 7,
        };
        assert_eq!(latencies.summary(7), Some(expected));
        let first = latencies.take();
        assert_eq!(latencies.summary(7), None);
        latencies.record(Duration::from_nanos(1000));
        let both = Latencies::of(&[first, latencies.take()]).summary(7);
        // 1 to 200 ns and 1000 ns: of 201 calls the 101st, and 99 % are 198.99, the 199th.
        let expected = CallTimes {
            calls: 201,
            p50_ns: 101,
            p99_ns: 199,
            max_ns: 1000,
            clock_ns: 7,
        };
        assert_eq!(both, Some(expected));
    }

    #[test]
    fn a_percentile_in_a_wide_bucket_does_not_pass_the_maximum() {
        let mut latencies = Latencies::default();
        latencies.record(Duration::from_nanos(1_000_000));
        let times = latencies.summary(0).expect("one call");
        assert_eq!(
            (times.p50_ns, times.p99_ns, times.max_ns),
            (1_000_000, 1_000_000, 1_000_000)
        );
    }
}
