//! Which benchmarks share their weather: those that one process measures.
//!
//! On the H200 what the host-speed probe leaves of host-bound benchmarks goes together within a process, not
//! within a launch: residuals of benchmarks of one process correlate at 0.55 in the mean, of one launch but
//! different processes at 0.04 (21 launches, 185 host-bound benchmarks, ten samples taken in turns). Memory
//! lies differently in each process, and each has seconds of its own on a shared host.
//!
//! Measured there and in two recordings of 11 and 18 launches, spread of host-bound benchmarks: after the probe
//! 4.9, 5.0 and 4.9 %, less the levels of launches 4.7, 4.8 and 4.7 %, less the levels of processes 3.5, 3.7
//! and 4.0 %.

use std::collections::BTreeMap;

use super::benchmark_id::BenchmarkId;
use super::common_shift::BENCHMARKS_MIN;
use super::launch_levels::{LaunchLevels, Sides};
use super::matched::{FREED_LAUNCHES, Prepared};

/// Whose weather it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Peers {
    /// Every host-bound benchmark's.
    Suite,
    /// That of the host-bound benchmarks of one group.
    Group(String),
}

/// The weather of a suite's host-bound benchmarks, and of those groups in which they are enough to tell.
#[derive(Debug, Clone)]
pub(super) struct Weather {
    pub suite: LaunchLevels,
    pub groups: BTreeMap<String, LaunchLevels>,
}

impl Weather {
    /// Returns the weather; `None` below ten host-bound benchmarks with four launches a side.
    pub fn of(prepared: &[Prepared]) -> Option<Self> {
        let host_bound: Vec<&Prepared> = prepared.iter().filter(|prepared| prepared.is_host_bound()).collect();
        let mut members: BTreeMap<&str, Vec<Sides<'_>>> = BTreeMap::new();
        // Those that are freed from it, so that what it is wrong by can be told from their estimates.
        for prepared in host_bound
            .iter()
            .filter(|prepared| prepared.launches_min() >= FREED_LAUNCHES)
        {
            if let Some(group) = prepared.id().group() {
                members.entry(group).or_default().push(prepared.sides());
            }
        }
        // A group that is the whole suite has nothing of its own.
        let all = host_bound.len();
        members.retain(|_, sides| (BENCHMARKS_MIN..all).contains(&sides.len()));
        let levels = |(group, sides): (&str, Vec<_>)| Some((group.to_owned(), LaunchLevels::of(&sides)?));
        Some(Self {
            suite: LaunchLevels::of(&host_bound.iter().map(|prepared| prepared.sides()).collect::<Vec<_>>())?,
            groups: members.into_iter().filter_map(levels).collect(),
        })
    }

    /// Returns whose weather a host-bound benchmark shares; `None` where its process has too few to tell, since that
    /// of other processes is another.
    pub fn peers(&self, id: &BenchmarkId) -> Option<(Peers, &LaunchLevels)> {
        match id.group().and_then(|group| self.groups.get_key_value(group)) {
            Some((group, levels)) => Some((Peers::Group(group.clone()), levels)),
            None => self.groups.is_empty().then_some((Peers::Suite, &self.suite)),
        }
    }
}
