//! The table at the end of a bench: time per iteration, and against the hoisted baseline.

use crate::suite::Outcome;
use comfy_table::{CellAlignment, Table, presets};

/// A column beyond time and ratio.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The heading, with the unit.
    pub heading: &'static str,
    /// The cell of an outcome.
    pub cell: fn(&Outcome) -> String,
}

/// What the pool held of the device's memory at most, over what was allocated from it at most; `-` without
/// a pool.
pub const FRAGMENTATION: Column = Column {
    heading: "peak reserved / peak used",
    cell: fragmentation,
};

#[allow(clippy::cast_precision_loss, reason = "for display")]
fn fragmentation(outcome: &Outcome) -> String {
    let ratio = outcome
        .observation
        .reserved
        .map(|seen| seen.high_bytes as f64 / seen.used_high_bytes as f64);
    ratio.map_or_else(|| String::from("-"), |ratio| format!("{ratio:.2}"))
}

/// The outcomes as a table, one block a size: time per iteration in microseconds (Criterion's median)
/// and the ratio to `baseline` at the same size. `None` where no outcome has a time.
#[must_use]
pub fn comparison_table(outcomes: &[Outcome], baseline: &str, columns: &[Column]) -> Option<String> {
    if outcomes.iter().all(|outcome| outcome.median_ns.is_none()) {
        return None;
    }
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let versus = format!("vs {baseline}");
    let headings = ["size", outcomes[0].id.group(), "µs per iteration", versus.as_str()];
    table.set_header(headings.into_iter().chain(columns.iter().map(|column| column.heading)));
    for size in sizes(outcomes) {
        let block: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.id.value() == size).collect();
        let base = block
            .iter()
            .find(|outcome| outcome.id.function() == baseline)
            .and_then(|outcome| outcome.median_ns);
        for outcome in block {
            let Some(time_ns) = outcome.median_ns else { continue };
            let mut row = vec![
                size.to_owned(),
                outcome.id.function().to_owned(),
                microseconds(time_ns),
                ratio(time_ns, base),
            ];
            row.extend(columns.iter().map(|column| (column.cell)(outcome)));
            table.add_row(row);
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    Some(table.to_string())
}

/// The sizes in order of appearance.
fn sizes(outcomes: &[Outcome]) -> Vec<&str> {
    let mut sizes = Vec::new();
    for outcome in outcomes {
        if !sizes.contains(&outcome.id.value()) {
            sizes.push(outcome.id.value());
        }
    }
    sizes
}

/// Nanoseconds as a number of microseconds.
pub(super) fn microseconds(time_ns: f64) -> String {
    let time_us = time_ns / 1e3;
    // Three significant digits at least, and never more than the clock can tell.
    let decimals = match time_us {
        ..1.0 => 3,
        ..10.0 => 2,
        _ => 1,
    };
    format!("{time_us:.decimals$}")
}

fn ratio(time_ns: f64, base_ns: Option<f64>) -> String {
    base_ns.map_or_else(|| String::from("-"), |base_ns| format!("{:.2}x", time_ns / base_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::BenchmarkId;
    use crate::measure::Observation;

    fn outcome(function: &str, value: &str, median_ns: Option<f64>) -> Outcome {
        let id = BenchmarkId::new("scratch_loop", function, value).expect("a valid id");
        Outcome {
            id,
            median_ns,
            observation: Observation::default(),
        }
    }

    #[test]
    fn blocks_are_sizes_and_ratios_are_within_them() {
        let outcomes = [
            outcome("hoisted", "32MiB", Some(334_100.0)),
            outcome("sync", "32MiB", Some(856_400.0)),
            outcome("hoisted", "4KiB", Some(6_400.0)),
            outcome("sync", "4KiB", None),
            outcome("sync", "1MiB", Some(8_000.0)),
        ];
        let table = comparison_table(&outcomes, "hoisted", &[]).expect("there are times");
        // 856.4 / 334.1 = 2.563; without a baseline at 1MiB there is no ratio; no time, no row.
        let expected = "\
| size  | scratch_loop | µs per iteration | vs hoisted |
|-------|--------------|------------------|------------|
| 32MiB | hoisted      |            334.1 |      1.00x |
| 32MiB | sync         |            856.4 |      2.56x |
| 4KiB  | hoisted      |             6.40 |      1.00x |
| 1MiB  | sync         |             8.00 |          - |";
        let trimmed: Vec<&str> = table.lines().map(str::trim_end).collect();
        assert_eq!(trimmed.join("\n"), expected);
        assert_eq!(comparison_table(&[outcome("sync", "4KiB", None)], "hoisted", &[]), None);
    }
}
