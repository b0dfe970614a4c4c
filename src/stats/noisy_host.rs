//! When half the host-bound launches are slow, rank tests on the fast half have nothing to stand on.

use super::launch_table::LaunchValue;
use super::matched::{Class, Matched, sessions};
use super::order::{mean, sorted};

/// A launch value this far above its benchmark's fastest is slow. *Unit* natural logarithms.
const SLOW: f64 = 0.08;
/// Share of slow values above which the host is noisy.
const NOISY_SHARE: f64 = 0.5;

/// Share of slow host-bound launch values on each side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowShare {
    /// Of the base.
    pub base: f64,
    /// Of the new side.
    pub new: f64,
}

impl SlowShare {
    /// Returns whether either side is too noisy for verdicts on host-bound and mixed benchmarks.
    #[must_use]
    pub fn is_noisy(&self) -> bool {
        self.base.max(self.new) > NOISY_SHARE
    }

    /// Returns the shares, or `None` without host-bound benchmarks.
    pub(super) fn of(matched: &[Matched]) -> Option<Self> {
        Some(Self {
            base: share(matched, |benchmark| &benchmark.base)?,
            new: share(matched, |benchmark| &benchmark.new)?,
        })
    }
}

fn share(matched: &[Matched], side: fn(&Matched) -> &Vec<LaunchValue>) -> Option<f64> {
    let (mut slow, mut all) = (0usize, 0usize);
    for benchmark in matched.iter().filter(|benchmark| benchmark.class == Class::HostBound) {
        let launches = side(benchmark);
        // Within sessions: a shift between two of them is no noise.
        for session in sessions(launches) {
            let of_session = launches.iter().filter(|launch| launch.session == session);
            let values = sorted(of_session.map(|launch| launch.value).collect());
            let fastest = mean(&values[..values.len().div_ceil(4)]);
            all += values.len();
            slow += values.len() - values.partition_point(|&value| value <= fastest + SLOW);
        }
    }
    (all > 0).then(|| slow as f64 / all as f64)
}
