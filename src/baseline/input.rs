//! One side of a comparison as it was read, whatever it was read from.

use super::Manifest;
use crate::stats::{BenchmarkId, ProcessTime, SessionSpread, Side};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// What a side was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    /// A baseline of `poolbench record`.
    Baseline,
    /// A named baseline in a Criterion home: one launch.
    CriterionHome,
    /// What `critcmp --export` wrote: one launch, of which only estimates are left.
    CritcmpExport,
}

impl fmt::Display for InputKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InputKind::Baseline => "baseline",
            InputKind::CriterionHome => "Criterion home",
            InputKind::CritcmpExport => "critcmp export",
        })
    }
}

/// A part of an input that could not be used. Both texts may hold anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The benchmark's id or folder.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// The spread between sessions that recordings of one machine and driver show.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownSpread {
    /// The spread.
    pub spread: SessionSpread,
    /// Pairs of sessions that it was measured from.
    pub pairs: usize,
    /// The baselines that hold those sessions, by name.
    pub baselines: Vec<String>,
}

/// One side of a comparison as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// The baseline's name, or the input as it was given; may hold anything.
    pub name: String,
    /// What it was read from.
    pub kind: InputKind,
    /// What a baseline says of itself; `None` for what others wrote.
    pub manifest: Option<Manifest>,
    /// The launches.
    pub side: Side,
    /// Intervals that the input itself gives, where the samples are not there.
    pub process_times: BTreeMap<BenchmarkId, ProcessTime>,
    /// What could not be used.
    pub left_out: Vec<LeftOut>,
    /// Benchmarks written more than a day before the newest.
    pub stale: usize,
}

impl Input {
    /// Returns the time of a benchmark with one launch, with its interval inside that process.
    #[must_use]
    pub fn process_time(&self, id: &BenchmarkId) -> Option<ProcessTime> {
        if let Some(time) = self.process_times.get(id) {
            return Some(*time);
        }
        let launch = self.side.benchmark(id)?.launches().next()?;
        Some(ProcessTime::of(&launch.sample))
    }

    /// Returns whether both inputs hold the same times for a benchmark, bit for bit.
    #[must_use]
    pub fn has_same_times(&self, other: &Input, id: &BenchmarkId) -> bool {
        let (Some(own), Some(theirs)) = (self.side.benchmark(id), other.side.benchmark(id)) else {
            return false;
        };
        own.launches()
            .map(|launch| &launch.sample)
            .eq(theirs.launches().map(|launch| &launch.sample))
    }
}
