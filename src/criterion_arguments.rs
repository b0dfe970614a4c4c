//! Values of Criterion's arguments that it would stop at with an assertion, or would wait for without end: the bounds
//! that its own command line has in the bench executables, and that of `poolbench record`, which passes them on.

use regex::Regex;

/// Criterion takes no fewer samples.
pub(crate) const SAMPLE_SIZE_MIN: u64 = 10;
/// More samples than anybody can wait for. Criterion reserves memory for all of them.
pub(crate) const SAMPLE_SIZE_MAX: u64 = 100_000;
/// The shortest that a time may be: Criterion takes it in whole nanoseconds, and none at all is no time. *Unit* s.
pub(crate) const TIME_S_MIN: f64 = 1e-9;
/// The longest that a time may be. *Unit* s.
pub(crate) const TIME_S_MAX: f64 = 3600.0;

/// Reads a filter of benchmark ids as Criterion does.
///
/// # Errors
///
/// Why it is no regular expression, in a part of a line: the library says it in several, the last of which is the
/// reason.
pub(crate) fn filter(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| {
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or_default();
        reason.trim_start_matches("error: ").to_owned()
    })
}
