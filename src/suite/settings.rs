//! What a bench executable is told beside its arguments: defaults, and variables of the environment.

use super::SuiteError;
use criterion::Criterion;
use std::time::Duration;

/// Shuffles the order of the cases, so that order does not become part of a result.
pub(super) const ORDER_SEED_VARIABLE: &str = "POOLBENCH_ORDER_SEED";
/// Asks for the driver calls of each measured case, in a pass after its measurement.
pub(super) const API_SUMMARY_VARIABLE: &str = "POOLBENCH_API_SUMMARY";
/// Criterion's own default is ten times as many, whose plots alone then take four times as long as the
/// measurement; a 95 % interval needs no more than this.
const RESAMPLES: usize = 10_000;

/// What holds where the command line says nothing else. Set on `Criterion`, never on a group, whose
/// settings would win over the command line's.
pub(super) fn defaults(on_host: bool) -> Criterion {
    // The host device is here to show that the suite works, and must be done in minutes on two cores.
    let (warm_up_ms, measurement_ms, samples) = if on_host { (200, 600, 10) } else { (500, 2000, 50) };
    Criterion::default()
        .warm_up_time(Duration::from_millis(warm_up_ms))
        .measurement_time(Duration::from_millis(measurement_ms))
        .sample_size(samples)
        .nresamples(RESAMPLES)
}

/// A variable's text; empty where it is not set. What is no text is no value of any of them either.
fn variable(name: &str) -> String {
    let value = std::env::var_os(name).unwrap_or_default();
    value.to_string_lossy().into_owned()
}

pub(super) fn api_summary_wanted() -> Result<bool, SuiteError> {
    match variable(API_SUMMARY_VARIABLE).as_str() {
        "" | "0" => Ok(false),
        "1" => Ok(true),
        other => Err(SuiteError::ApiSummary(other.to_owned())),
    }
}

/// Whether `NO_COLOR` is set, to anything but nothing (no-color.org), which Criterion does not look at.
pub(super) fn wants_no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

pub(super) fn order_seed() -> Result<Option<u64>, SuiteError> {
    let text = variable(ORDER_SEED_VARIABLE);
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| SuiteError::OrderSeed(text))
}
