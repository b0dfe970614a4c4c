//! Launch values of a whole side: what the tests work on.

use std::collections::{BTreeMap, HashMap};

use super::benchmark_id::BenchmarkId;
use super::side::{Benchmark, LaunchKey, SessionId, Side, SkipReason};

/// One launch of one benchmark, reduced to what the tests need.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LaunchValue {
    /// Index of the session, common to both sides.
    pub session: u32,
    /// Index of the launch, common to the benchmarks of a side, in time order.
    pub launch: u32,
    /// Mean logarithm of the fastest half of times. *Unit* ln ns.
    pub value: f64,
    /// The same of the host-speed probe: of all of it in a [`LaunchTable`] where it is there, of that part
    /// that both sides have where they are matched.
    pub probe: Option<f64>,
    /// Of the probe's system calls.
    pub probe_syscall: Option<f64>,
    /// Median. *Unit* ns.
    pub median_ns: f64,
}

/// One benchmark's launch values, in time order.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    pub host_bound: Option<bool>,
    pub skipped: Option<SkipReason>,
    pub values: Vec<LaunchValue>,
}

/// A side as launch values.
#[derive(Debug, Clone, Default)]
pub(super) struct LaunchTable {
    pub rows: BTreeMap<BenchmarkId, Row>,
    /// Session of every launch, by launch index.
    pub launch_sessions: Vec<u32>,
    /// Launches that carry each flag.
    pub flags: BTreeMap<String, usize>,
}

/// Numbers for session names, shared by both sides of a comparison.
#[derive(Debug, Default)]
pub(super) struct SessionIndex(HashMap<SessionId, u32>);

impl SessionIndex {
    fn of(&mut self, session: &SessionId) -> u32 {
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        *self.0.entry(session.clone()).or_insert(next)
    }
}

impl LaunchTable {
    pub fn new(side: &Side, sessions: &mut SessionIndex) -> Self {
        let mut launch_sessions = Vec::new();
        let mut launches: HashMap<&LaunchKey, u32> = HashMap::new();
        for (index, key) in (0u32..).zip(side.launch_keys()) {
            launches.insert(key, index);
            launch_sessions.push(sessions.of(&key.session));
        }
        let mut flagged: BTreeMap<String, std::collections::BTreeSet<u32>> = BTreeMap::new();
        let mut rows = BTreeMap::new();
        for (id, benchmark) in side.benchmarks() {
            rows.insert(id.clone(), row(benchmark, &launches, &launch_sessions));
            for launch in benchmark.launches() {
                for flag in &launch.flags {
                    flagged.entry(flag.clone()).or_default().insert(launches[&launch.key]);
                }
            }
        }
        let flags = flagged.into_iter().map(|(flag, set)| (flag, set.len())).collect();
        Self {
            rows,
            launch_sessions,
            flags,
        }
    }

    /// Returns the table of those launches for which `keep` holds.
    pub fn of_launches(&self, keep: impl Fn(u32) -> bool) -> Self {
        let mut part = self.clone();
        for row in part.rows.values_mut() {
            row.values.retain(|value| keep(value.launch));
        }
        part
    }
}

fn row(benchmark: &Benchmark, launches: &HashMap<&LaunchKey, u32>, sessions: &[u32]) -> Row {
    let values = benchmark.launches().map(|launch| {
        let index = launches[&launch.key];
        LaunchValue {
            session: sessions[index as usize],
            launch: index,
            value: launch.level.value,
            probe: launch.level.probe,
            probe_syscall: launch.level.probe_syscall,
            median_ns: launch.sample.median_ns(),
        }
    });
    Row {
        host_bound: benchmark.host_bound(),
        skipped: benchmark.skipped().cloned(),
        values: values.collect(),
    }
}
