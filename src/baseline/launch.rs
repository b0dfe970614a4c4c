//! One line of `launches.jsonl`: one launch of every bench executable.

use super::unique;
use crate::environment::DeviceState;
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

/// Fixed pieces of host work beside each sample, mean of before and after. *Shape* `[n]` each, or empty.
/// *Unit* ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeTimes {
    /// A number of system calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub syscall: Vec<f64>,
    /// A pointer chase.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<f64>,
}
