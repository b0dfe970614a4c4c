//! `manifest.json`: what a baseline holds, and what was measured.

use super::unique;
use crate::environment::Environment;
use crate::observation::Observation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the format. Another one is refused.
pub const FORMAT: u32 = 1;

/// What a baseline holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// The baseline's name when it was recorded. Its folder may have been renamed since.
    pub name: String,
    /// When it was written, as RFC 3339 in UTC.
    pub created: String,
    /// Always true: a recording that is not complete is no baseline.
    pub complete: bool,
    /// The machine, the driver, the program.
    pub environment: Environment,
    /// How it was recorded.
    pub settings: Settings,
    /// The ids that every launch holds, sorted.
    pub benchmarks: Vec<String>,
    /// The ids whose device time, by events, is below half of the wall time, sorted.
    #[serde(default)]
    pub host_bound: Vec<String>,
    /// What was not measured, and why.
    #[serde(default)]
    pub skipped: Vec<Skipped>,
    /// Number of launches: of lines in `launches.jsonl`.
    pub launches: u64,
    /// What each benchmark showed beside its time, by id; from the first launch of the last session.
    #[serde(
        default,
        deserialize_with = "unique::map",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub observations: BTreeMap<String, Observation>,
    /// SHA-256 of the other files, in hexadecimal. Guards against accidents, not against forgers.
    #[serde(deserialize_with = "unique::map")]
    pub sha256: BTreeMap<String, String>,
}

/// A benchmark that was not measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Skipped {
    /// Its id.
    pub id: String,
    /// Why, in the words of the run.
    pub reason: String,
}

/// How a baseline was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Criterion's warm-up of each benchmark in seconds.
    pub warm_up_time_s: f64,
    /// Criterion's measurement of each benchmark in seconds.
    pub measurement_time_s: f64,
    /// Samples of each benchmark in each launch; fewer of a long loop whose pace the device sets.
    pub sample_size: u64,
    /// In how many turns the samples of each benchmark were taken at most, others in between.
    pub turns: u32,
    /// What one loop may take at most in a recording, in seconds; slower cases are left out.
    pub loop_time_max_s: f64,
    /// The filter on the ids, where one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// The processor that submitted the work, where it was pinned to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned_processor: Option<usize>,
    /// Whether the host's speed was measured beside each sample.
    pub probes: bool,
    /// The label of this side where two drivers were recorded in alternating launches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The injected fault that this recording ran under, where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub injected_fault: Option<String>,
    /// Measurements that were thrown away because something disturbed them, and repeated.
    pub repeated: u64,
}
