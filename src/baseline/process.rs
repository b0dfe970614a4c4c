//! What `poolbench record` and a bench executable tell each other: a request in a file that the
//! environment names, and the record that the executable writes.

use super::launch::Samples;
use super::manifest::Skipped;
use super::unique;
use crate::environment::Environment;
use crate::observation::Observation;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// What a bench executable is asked to record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordRequest {
    /// Where the [`ProcessRecord`] goes, as JSON.
    pub output: PathBuf,
    /// Shuffles the order of the cases.
    pub order_seed: u64,
    /// The only ids to measure; `None` for every case of the executable.
    #[serde(default)]
    pub only: Option<BTreeSet<String>>,
    /// What one loop may take at most, in seconds; slower cases are skipped.
    pub loop_time_max_s: f64,
    /// In how many turns a case's samples may be taken, other cases in between: the host's speed changes
    /// within seconds. Zero counts as one. Decides what [`ProcessRecord::samples_per_turn`] may be.
    #[serde(default)]
    pub turns: u32,
    /// Samples of each turn, by id; a case that is not named takes all its samples in one.
    #[serde(default, deserialize_with = "unique::map")]
    pub samples_per_turn: BTreeMap<String, u64>,
    /// Samples of each case, as Criterion is told too.
    #[serde(default)]
    pub sample_size: u64,
    /// Samples of the cases that take fewer, by id.
    #[serde(default, deserialize_with = "unique::map")]
    pub fewer_samples: BTreeMap<String, u64>,
    /// Criterion's warm-up of each case in seconds, as it is told too.
    #[serde(default)]
    pub warm_up_time_s: f64,
    /// Whether to measure each case's device time by events. It does not change from launch to launch.
    #[serde(default)]
    pub device_times: bool,
    /// Whether to measure the host's speed beside each sample.
    #[serde(default)]
    pub probes: bool,
    /// The processor to pin the submitting thread to, and with it those that are started after the device was
    /// opened; the host device's streams run where they can.
    #[serde(default)]
    pub processor: Option<usize>,
}

impl RecordRequest {
    /// Names the file that holds the request.
    pub const VARIABLE: &'static str = "POOLBENCH_RECORD";
}

/// What one process of one bench executable measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// The executable's name.
    pub bench: String,
    /// The machine as the process saw it.
    pub environment: Environment,
    /// The samples by id.
    #[serde(deserialize_with = "unique::map")]
    pub samples: BTreeMap<String, Samples>,
    /// Samples of each turn that would be worth its cost, by id, as the first turn showed.
    #[serde(default, deserialize_with = "unique::map")]
    pub samples_per_turn: BTreeMap<String, u64>,
    /// Samples that are enough of a case whose pace the device sets, by id, as the first turn showed.
    #[serde(default, deserialize_with = "unique::map")]
    pub samples_enough: BTreeMap<String, u64>,
    /// Device time of one iteration in nanoseconds, by id, where it was asked for; 0 without kernels.
    #[serde(default, deserialize_with = "unique::map")]
    pub device_time_ns: BTreeMap<String, f64>,
    /// What was seen beside the time, by id.
    #[serde(default, deserialize_with = "unique::map")]
    pub observations: BTreeMap<String, Observation>,
    /// What was skipped, and why.
    #[serde(default)]
    pub skipped: Vec<Skipped>,
}
