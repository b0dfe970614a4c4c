//! One line of `launches.jsonl`: one launch of every bench executable.

use super::unique;
use crate::environment::DeviceState;
use crate::stats::quantile_of_sorted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One launch: every bench executable once, each a fresh process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// Place in the order of starts of its session. Where two drivers were recorded in turn, both sides
    /// count in one order.
    pub launch: u64,
    /// The recording that the launch belongs to.
    pub session: String,
    /// When it began, as RFC 3339 in UTC.
    pub started: String,
    /// The seed that shuffled executables and cases.
    pub order_seed: u64,
    /// The device before the first executable.
    #[serde(default)]
    pub device_before: DeviceState,
    /// The device after the last executable.
    #[serde(default)]
    pub device_after: DeviceState,
    /// The samples of every benchmark.
    #[serde(deserialize_with = "unique::map")]
    pub samples: BTreeMap<String, Samples>,
}

/// The samples of one benchmark in one launch. *Shape* `[n]` each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// Iterations in each sample.
    pub iters: Vec<f64>,
    /// Total time of each sample. *Unit* ns.
    pub times_ns: Vec<f64>,
    /// The host's speed around each sample, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_ns: Option<ProbeTimes>,
    /// What disturbed the measurement, as `throttled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
}

/// A case is host-bound where its device time is below this share of its wall time.
const HOST_BOUND_BELOW: f64 = 0.5;

impl Samples {
    /// Returns whether the host, not the device, sets the pace of these samples, by the device time of one
    /// iteration in nanoseconds.
    #[must_use]
    pub fn is_host_bound(&self, device_time_ns: f64) -> bool {
        self.median_ns()
            .is_some_and(|wall_ns| device_time_ns < HOST_BOUND_BELOW * wall_ns)
    }

    /// Returns the median time of an iteration; `None` without samples. *Unit* ns.
    #[must_use]
    pub fn median_ns(&self) -> Option<f64> {
        let times_ns = self.times_ns.iter().zip(&self.iters).map(|(time, n)| time / n);
        let mut times_ns: Vec<f64> = times_ns.collect();
        times_ns.sort_unstable_by(f64::total_cmp);
        (!times_ns.is_empty()).then(|| quantile_of_sorted(&times_ns, 0.5))
    }
}

/// Fixed pieces of host work beside each sample, mean of before and after. *Shape* `[n]` each, or empty.
/// *Unit* ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeTimes {
    /// A number of system calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub syscall: Vec<f64>,
    /// Work without system calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user: Vec<f64>,
    /// A pointer chase, which recordings no longer do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_per_iteration() {
        let median_ns = |times_ns: &[f64]| {
            let samples = Samples {
                iters: vec![2.0; times_ns.len()],
                times_ns: times_ns.to_vec(),
                ..Samples::default()
            };
            samples.median_ns()
        };
        assert_eq!(median_ns(&[6.0, 2.0, 4.0]), Some(2.0));
        assert_eq!(median_ns(&[6.0, 2.0, 4.0, 4.4]), Some(2.1));
        assert_eq!(median_ns(&[]), None);
    }
}
