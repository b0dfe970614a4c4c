//! The table at the end of a bench that times single calls.

use super::table::microseconds;
use crate::suite::Outcome;
use comfy_table::{CellAlignment, Table, presets};

/// The outcomes as a table in the order given, times in microseconds: Criterion's median of the
/// samples, each of which is a mean over its calls, beside percentiles over the single calls. Below it
/// stands what the clock itself costs. `None` where no outcome has a time.
#[must_use]
pub fn call_times_table(outcomes: &[Outcome]) -> Option<String> {
    let group = outcomes.iter().find(|outcome| outcome.median_ns.is_some())?.id.group();
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "size",
        group,
        "Criterion µs",
        "p50 µs",
        "p99 µs",
        "max µs",
        "calls",
        "bytes returned",
    ]);
    let mut clock_ns = None;
    for outcome in outcomes {
        let Some(median_ns) = outcome.median_ns else { continue };
        let times = outcome.observation.call_times;
        clock_ns = clock_ns.or(times.map(|times| times.clock_ns));
        #[allow(clippy::cast_precision_loss, reason = "nanoseconds of a call, for display")]
        let cell = |ns: Option<u64>| ns.map_or_else(dash, |ns| microseconds(ns as f64));
        table.add_row([
            outcome.id.value().to_owned(),
            outcome.id.function().to_owned(),
            microseconds(median_ns),
            cell(times.map(|times| times.p50_ns)),
            cell(times.map(|times| times.p99_ns)),
            cell(times.map(|times| times.max_ns)),
            times.map_or_else(dash, |times| times.calls.to_string()),
            outcome
                .observation
                .returned_bytes
                .map_or_else(dash, |bytes| bytes.to_string()),
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let clock = clock_ns.map_or_else(String::new, |ns| {
        format!("\nEvery time holds the clock's own cost, {ns} ns around no call; nothing is subtracted.")
    });
    Some(format!("{table}{clock}"))
}

fn dash() -> String {
    String::from("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::BenchmarkId;
    use crate::measure::{CallTimes, Observation};

    #[test]
    fn percentiles_stand_beside_criterions_median() {
        let outcome = |function, median_ns, observation| Outcome {
            id: BenchmarkId::new("call_latency", function, "1MiB").expect("a valid id"),
            median_ns,
            observation,
        };
        let times = CallTimes {
            calls: 12_000,
            p50_ns: 5_200,
            p99_ns: 9_000,
            max_ns: 41_000,
            clock_ns: 32,
        };
        let observation = Observation {
            call_times: Some(times),
            returned_bytes: Some(32 << 20),
            ..Observation::default()
        };
        let outcomes = [
            outcome("sync,threshold=0", Some(61_000.0), observation),
            outcome("alloc,plain", Some(5_000.0), Observation::default()),
            outcome("free,plain", None, observation),
        ];
        let expected = "\
| size | call_latency     | Criterion µs | p50 µs | p99 µs | max µs | calls | bytes returned |
|------|------------------|--------------|--------|--------|--------|-------|----------------|
| 1MiB | sync,threshold=0 |         61.0 |   5.20 |   9.00 |   41.0 | 12000 |       33554432 |
| 1MiB | alloc,plain      |         5.00 |      - |      - |      - |     - |              - |
Every time holds the clock's own cost, 32 ns around no call; nothing is subtracted.";
        let table = call_times_table(&outcomes).expect("there are times");
        let trimmed: Vec<&str> = table.lines().map(str::trim_end).collect();
        assert_eq!(trimmed.join("\n"), expected);
        assert_eq!(call_times_table(&outcomes[2..]), None);
    }
}
