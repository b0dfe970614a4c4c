//! One side of a comparison: launches of benchmarks, as recorded.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use super::benchmark_id::BenchmarkId;
use super::sample::{InvalidSample, Sample, blockwise_fast_log_mean};

/// The recording that a launch belongs to: launches of one session share the host's state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(String);

impl SessionId {
    /// Returns the session of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One process: its session and its place in the order of starts there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaunchKey {
    /// The recording.
    pub session: SessionId,
    /// Place in the order of starts; any numbers that grow.
    pub order: u64,
}

/// Host-speed probe around each sample, as recorded. *Shape* `[n]` each, or empty. *Unit* ns.
#[derive(Debug, Clone, Copy, Default)]
pub struct RawProbe<'a> {
    /// Time of a fixed number of system calls.
    pub syscall: &'a [f64],
    /// Time of fixed work without system calls. Together the two are the probe; a comparison in which a
    /// launch lacks this one goes by `syscall` alone.
    pub user: &'a [f64],
    /// Time of a fixed pointer chase, which older recordings hold. Checked, but not used: it explained
    /// nothing more on any recording.
    pub memory: &'a [f64],
}

/// What one launch recorded for one benchmark. *Shape* `[n]` each.
#[derive(Debug, Clone, Copy)]
pub struct RawLaunch<'a> {
    /// Iterations in each sample.
    pub iters: &'a [f64],
    /// Total time of each sample. *Unit* ns.
    pub times_ns: &'a [f64],
    /// The host-speed probe, where one ran.
    pub probe_ns: Option<RawProbe<'a>>,
    /// Marks such as `throttled`. Flagged launches count like others; their numbers are reported.
    pub flags: &'a [String],
}

/// One benchmark in one launch, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// The process.
    pub key: LaunchKey,
    /// Times per iteration.
    pub sample: Sample,
    /// Times of the probe's system calls around the samples.
    pub probe: Option<Sample>,
    /// What the launch counts as, and the probe beside it.
    pub(super) level: LaunchLevel,
    /// Marks.
    pub flags: BTreeSet<String>,
}

impl Launch {
    /// Returns the time that the launch counts as: that of its fast samples. *Unit* ns.
    #[must_use]
    pub fn fast_ns(&self) -> f64 {
        self.level.value.exp()
    }
}

/// A launch in one number. *Unit* ln ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LaunchLevel {
    pub value: f64,
    /// Of system calls and work in user mode together.
    pub probe: Option<f64>,
    /// Of system calls alone.
    pub probe_syscall: Option<f64>,
}

impl LaunchLevel {
    /// Returns the level of valid times and probe times, in recorded order.
    fn of(times_ns: &[f64], sample: &Sample, probe_ns: RawProbe<'_>) -> Self {
        let RawProbe { syscall, user, .. } = probe_ns;
        if syscall.is_empty() {
            return Self {
                value: sample.fast_log_mean(),
                probe: None,
                probe_syscall: None,
            };
        }
        let both: Vec<f64> = syscall.iter().zip(user).map(|(syscall, user)| syscall + user).collect();
        Self {
            value: blockwise_fast_log_mean(times_ns),
            probe: (!both.is_empty()).then(|| blockwise_fast_log_mean(&both)),
            probe_syscall: Some(blockwise_fast_log_mean(syscall)),
        }
    }
}

/// Why a benchmark's numbers cannot be used.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum InvalidBenchmark {
    /// A time is no measurement.
    #[error("launch {order} of session {session:?}: {reason}")]
    Times {
        /// Session of the launch.
        session: String,
        /// Place of the launch in its session.
        order: u64,
        /// What is wrong.
        reason: InvalidSample,
    },
    /// A probe time is no measurement, or the probe does not pair up with the samples.
    #[error("launch {order} of session {session:?}: {probe} probe: {reason}")]
    Probe {
        /// Session of the launch.
        session: String,
        /// Place of the launch in its session.
        order: u64,
        /// `syscall`, `user` or `memory`.
        probe: &'static str,
        /// What is wrong.
        reason: InvalidSample,
    },
    /// The same launch is given twice.
    #[error("launch {order} of session {session:?} appears twice")]
    DuplicateLaunch {
        /// Session of the launch.
        session: String,
        /// Place of the launch in its session.
        order: u64,
    },
}

/// Why a benchmark takes no part in the comparison.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SkipReason {
    /// Its numbers are invalid.
    #[error("invalid: {0}")]
    Invalid(#[from] InvalidBenchmark),
    /// It was skipped when it was recorded.
    #[error("skipped: {0}")]
    Recorded(String),
    /// Its files are there, and cannot be read.
    #[error("unreadable: {0}")]
    Unreadable(String),
}

/// One benchmark on one side.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Benchmark {
    host_bound: Option<bool>,
    launches: BTreeMap<LaunchKey, Launch>,
    skipped: Option<SkipReason>,
}

impl Benchmark {
    /// Returns whether the host, not the device, sets the pace; `None` where nobody measured it.
    #[must_use]
    pub fn host_bound(&self) -> Option<bool> {
        self.host_bound
    }

    /// Returns the launches by the id of their session, and in the order of starts there.
    pub fn launches(&self) -> impl ExactSizeIterator<Item = &Launch> {
        self.launches.values()
    }

    /// Returns why the benchmark takes no part, if so.
    #[must_use]
    pub fn skipped(&self) -> Option<&SkipReason> {
        self.skipped.as_ref()
    }
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Side {
    benchmarks: BTreeMap<BenchmarkId, Benchmark>,
    /// In the order in which they were added: ids say nothing of time.
    sessions: Vec<SessionId>,
}

impl Side {
    /// Returns a side without benchmarks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one launch of one benchmark. Numbers that are no measurement invalidate the benchmark
    /// with the first reason found; nothing fails.
    pub fn add(&mut self, id: &BenchmarkId, key: &LaunchKey, raw: &RawLaunch<'_>) {
        if self.sessions.last() != Some(&key.session) && !self.sessions.contains(&key.session) {
            self.sessions.push(key.session.clone());
        }
        let benchmark = self.benchmarks.entry(id.clone()).or_default();
        let launch = match checked(key, raw) {
            Ok(launch) => launch,
            Err(reason) => {
                benchmark.skipped.get_or_insert(reason.into());
                return;
            }
        };
        if benchmark.launches.insert(key.clone(), launch).is_some() {
            let (session, order) = (key.session.0.clone(), key.order);
            let reason = InvalidBenchmark::DuplicateLaunch { session, order };
            benchmark.skipped.get_or_insert(reason.into());
        }
    }

    /// Records that a benchmark was skipped, and why.
    pub fn skip(&mut self, id: &BenchmarkId, reason: impl Into<String>) {
        let benchmark = self.benchmarks.entry(id.clone()).or_default();
        benchmark.skipped.get_or_insert(SkipReason::Recorded(reason.into()));
    }

    /// Records that a benchmark's files cannot be read, and why.
    pub fn leave_out(&mut self, id: &BenchmarkId, reason: impl Into<String>) {
        let benchmark = self.benchmarks.entry(id.clone()).or_default();
        benchmark.skipped.get_or_insert(SkipReason::Unreadable(reason.into()));
    }

    /// Records whether a benchmark is host-bound (device time by events below half of wall time).
    pub fn set_host_bound(&mut self, id: &BenchmarkId, host_bound: bool) {
        self.benchmarks.entry(id.clone()).or_default().host_bound = Some(host_bound);
    }

    /// Returns the benchmarks, by id.
    pub fn benchmarks(&self) -> impl ExactSizeIterator<Item = (&BenchmarkId, &Benchmark)> {
        self.benchmarks.iter()
    }

    /// Returns one benchmark.
    #[must_use]
    pub fn benchmark(&self, id: &BenchmarkId) -> Option<&Benchmark> {
        self.benchmarks.get(id)
    }

    /// Returns the sessions, in the order in which their first launches were added.
    #[must_use]
    pub fn sessions(&self) -> &[SessionId] {
        &self.sessions
    }

    /// Returns the distinct launches, by session and start.
    #[must_use]
    pub fn launch_keys(&self) -> BTreeSet<&LaunchKey> {
        self.benchmarks
            .values()
            .flat_map(|benchmark| benchmark.launches.keys())
            .collect()
    }

    /// Multiplies every time of one benchmark, as a slower driver would. A product that is no
    /// measurement invalidates the benchmark. Probes stay as they are.
    pub fn slow_down(&mut self, id: &BenchmarkId, factor: f64) {
        let Some(benchmark) = self.benchmarks.get_mut(id) else {
            return;
        };
        for launch in benchmark.launches.values_mut() {
            match launch.sample.scaled(factor) {
                Ok(sample) => {
                    launch.sample = sample;
                    launch.level.value += factor.ln();
                }
                Err(reason) => {
                    let (session, order) = (launch.key.session.0.clone(), launch.key.order);
                    let reason = InvalidBenchmark::Times { session, order, reason };
                    benchmark.skipped.get_or_insert(reason.into());
                    return;
                }
            }
        }
    }
}

fn checked(key: &LaunchKey, raw: &RawLaunch<'_>) -> Result<Launch, InvalidBenchmark> {
    let (session, order) = (&key.session.0, key.order);
    let sample = Sample::from_totals(raw.iters, raw.times_ns).map_err(|reason| InvalidBenchmark::Times {
        session: session.clone(),
        order,
        reason,
    })?;
    let probe_sample = |probe: &'static str, times_ns: &[f64]| {
        if times_ns.is_empty() {
            return Ok(None);
        }
        let paired = if times_ns.len() == raw.times_ns.len() {
            Sample::new(times_ns.to_vec())
        } else {
            let (iters, times) = (raw.times_ns.len(), times_ns.len());
            Err(InvalidSample::LengthMismatch { iters, times })
        };
        paired.map(Some).map_err(|reason| InvalidBenchmark::Probe {
            session: session.clone(),
            order,
            probe,
            reason,
        })
    };
    let probe_ns = raw.probe_ns.unwrap_or_default();
    let probe = probe_sample("syscall", probe_ns.syscall)?;
    probe_sample("user", probe_ns.user)?;
    probe_sample("memory", probe_ns.memory)?;
    let per_iteration: Vec<f64> = raw.times_ns.iter().zip(raw.iters).map(|(t, n)| t / n).collect();
    let level = LaunchLevel::of(&per_iteration, &sample, probe_ns);
    Ok(Launch {
        key: key.clone(),
        sample,
        probe,
        level,
        flags: raw.flags.iter().cloned().collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_is_the_time_of_both_its_parts() {
        let level = |user: &[f64]| {
            let raw = RawLaunch {
                iters: &[1.0; 4],
                times_ns: &[8.0, 9.0, 9.0, 9.0],
                probe_ns: Some(RawProbe {
                    syscall: &[40.0, 50.0, 50.0, 50.0],
                    user,
                    memory: &[],
                }),
                flags: &[],
            };
            let key = LaunchKey {
                session: SessionId::new("s"),
                order: 0,
            };
            checked(&key, &raw).expect("measurements").level
        };
        // Of four samples the fastest two count: 40 and 50 ns of system calls; with the rest the sums are 110,
        // 105, 130 and 130, of which 105 and 110 count.
        let both = level(&[70.0, 55.0, 80.0, 80.0]);
        let mean_of = |fast: f64, slow: f64| f64::midpoint(fast.ln(), slow.ln());
        approx::assert_abs_diff_eq!(both.probe.expect("both parts"), mean_of(105.0, 110.0), epsilon = 1e-12);
        approx::assert_abs_diff_eq!(
            both.probe_syscall.expect("a part"),
            mean_of(40.0, 50.0),
            epsilon = 1e-12
        );
        let older = level(&[]);
        assert_eq!((older.probe, older.probe_syscall), (None, both.probe_syscall));
    }
}
