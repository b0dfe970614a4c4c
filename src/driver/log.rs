//! The call log: how often each driver function was called and how long it took.
//!
//! Off in timed samples. Set-up calls and the loop's calls are kept apart, because the first call of
//! almost any function does work (contexts, modules, pools) that the loop never repeats.

use super::{Function, hooks};
use std::ffi::c_int;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Where in a run a call was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Before and after the measured loop.
    SetUp,
    /// In the measured loop, its synchronisation included.
    Loop,
}

struct Record {
    function: Function,
    phase: Phase,
    elapsed: Duration,
}

struct Log {
    phase: Phase,
    records: Vec<Record>,
}

static LOG: Mutex<Log> = Mutex::new(Log {
    phase: Phase::SetUp,
    records: Vec::new(),
});

fn locked() -> std::sync::MutexGuard<'static, Log> {
    LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Starts an empty log in [`Phase::SetUp`].
pub fn start() {
    *locked() = Log {
        phase: Phase::SetUp,
        records: Vec::new(),
    };
    hooks::activate(hooks::LOG, true);
}

/// Says where in the run the calls that follow are made. Does nothing while no log is kept.
#[inline]
pub fn enter(phase: Phase) {
    if hooks::is_active(hooks::LOG) {
        locked().phase = phase;
    }
}

/// Ends the log and returns one summary per function and phase, set-up first, most total time first.
#[must_use]
pub fn stop() -> Vec<CallSummary> {
    hooks::activate(hooks::LOG, false);
    let records = std::mem::take(&mut locked().records);
    let mut groups: std::collections::BTreeMap<(Phase, Function), Vec<Duration>> = std::collections::BTreeMap::new();
    for record in records {
        groups
            .entry((record.phase, record.function))
            .or_default()
            .push(record.elapsed);
    }
    let mut summaries: Vec<CallSummary> = groups
        .into_iter()
        .map(|((phase, function), times)| CallSummary::new(phase, function, times))
        .collect();
    summaries.sort_by_key(|summary| (summary.phase, std::cmp::Reverse(summary.total)));
    summaries
}

pub(super) fn timed(function: Function, call: impl FnOnce() -> c_int) -> c_int {
    let start = Instant::now();
    let code = call();
    let elapsed = start.elapsed();
    let mut log = locked();
    let phase = log.phase;
    log.records.push(Record {
        function,
        phase,
        elapsed,
    });
    code
}

/// The calls of one driver function in one phase. Host time, the return of the call included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSummary {
    /// Where the calls were made.
    pub phase: Phase,
    /// What was called.
    pub function: Function,
    /// Number of calls, at least one.
    pub calls: usize,
    /// Sum over the calls.
    pub total: Duration,
    /// Sum over number.
    pub mean: Duration,
    /// The middle call's time; with an even number, the mean of the two in the middle.
    pub median: Duration,
    /// The fastest call.
    pub min: Duration,
    /// The slowest call.
    pub max: Duration,
}

impl CallSummary {
    fn new(phase: Phase, function: Function, mut times: Vec<Duration>) -> CallSummary {
        times.sort_unstable();
        let calls = times.len();
        let total: Duration = times.iter().sum();
        let median = (times[(calls - 1) / 2] + times[calls / 2]) / 2;
        let mean = total / u32::try_from(calls).unwrap_or(u32::MAX);
        CallSummary {
            phase,
            function,
            calls,
            total,
            mean,
            median,
            min: times[0],
            max: times[calls - 1],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_of_known_times() {
        let times = [4, 1, 2, 9].map(Duration::from_nanos).to_vec();
        let summary = CallSummary::new(Phase::Loop, Function::cuMemAllocAsync, times);
        // Sorted 1 2 4 9: the two in the middle are 2 and 4; the sum is 16.
        assert_eq!(summary.median, Duration::from_nanos(3));
        assert_eq!(summary.mean, Duration::from_nanos(4));
        assert_eq!(summary.total, Duration::from_nanos(16));
        assert_eq!(
            (summary.min, summary.max),
            (Duration::from_nanos(1), Duration::from_nanos(9))
        );
        assert_eq!(summary.calls, 4);
    }
}
