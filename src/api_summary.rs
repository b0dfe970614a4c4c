//! Which driver functions a case calls, how often, and how long they take: one loop of it under the
//! call log, in a pass of its own, so that no timed sample pays for the log.

use crate::cuda::Device;
use crate::driver::log::{self, CallSummary};
use crate::measure::{self, Case, Failure};

/// Prepares a case anew, runs one loop of it and closes it, all under a call log of its own, and
/// returns one summary for each function and phase.
///
/// # Errors
///
/// What fails in the case; then there is no summary.
pub fn of(case: &dyn Case, device: &Device) -> Result<Vec<CallSummary>, Failure> {
    log::start();
    let passed = pass(case, device);
    let summaries = log::stop();
    passed.map(|()| summaries)
}

/// Prepares a case, runs one loop of it, checks its effect and closes it, for a log that the caller
/// keeps. Nothing runs before the loop that would make its calls faster than a program's first ones.
///
/// # Errors
///
/// What fails in the case.
pub fn pass(case: &dyn Case, device: &Device) -> Result<(), Failure> {
    let mut workload = case.prepare(device)?;
    match workload.run(1) {
        Ok(_) => measure::finish(workload, device).map(drop),
        Err(failure) => {
            // The first failure is the one to report.
            let _ = measure::abandon(workload, device);
            Err(failure)
        }
    }
}
