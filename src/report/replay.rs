//! The columns that say what a graph took.

use super::Column;
use super::table::microseconds;
use crate::measure::Replay;
use crate::suite::Outcome;

/// What it takes to get a loop into a graph, and what the graph holds; `-` where nothing was captured.
/// Launches are those of a whole loop, with their synchronise.
pub const REPLAY_COLUMNS: [Column; 5] = [
    Column {
        heading: "instantiate µs",
        cell: |outcome| time(outcome, |replay| replay.instantiate_ns),
    },
    Column {
        heading: "first launch µs",
        cell: |outcome| time(outcome, |replay| replay.first_launch_ns),
    },
    Column {
        heading: "steady launch µs",
        cell: |outcome| time(outcome, |replay| replay.steady_launch_ns),
    },
    Column {
        heading: "graph memory bytes",
        cell: |outcome| cell(outcome, |replay| replay.reserved_bytes.to_string()),
    },
    Column {
        heading: "after trim",
        cell: |outcome| cell(outcome, |replay| replay.reserved_after_trim_bytes.to_string()),
    },
];

fn cell(outcome: &Outcome, show: impl Fn(&Replay) -> String) -> String {
    let replay = outcome.observation.graph.as_ref();
    replay.map_or_else(|| String::from("-"), show)
}

#[allow(clippy::cast_precision_loss, reason = "launches are shorter than 2^52 ns")]
fn time(outcome: &Outcome, time_ns: impl Fn(&Replay) -> u64) -> String {
    cell(outcome, |replay| microseconds(time_ns(replay) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::BenchmarkId;
    use crate::measure::Observation;

    #[test]
    fn times_are_microseconds_and_eager_loops_have_none() {
        let replay = Replay {
            nodes: 200,
            capture_ns: 1,
            instantiate_ns: 150_049,
            first_launch_ns: 2_000_000,
            steady_launch_ns: 9_500,
            reserved_bytes: 33_554_432,
            reserved_after_trim_bytes: 0,
        };
        let row = |graph| {
            let outcome = Outcome {
                id: BenchmarkId::new("graph_replay", "hoisted,graph", "4KiB").expect("a valid id"),
                median_ns: None,
                observation: Observation {
                    graph,
                    ..Observation::default()
                },
            };
            REPLAY_COLUMNS.map(|column| (column.cell)(&outcome))
        };
        assert_eq!(row(Some(replay)), ["150.0", "2000.0", "9.50", "33554432", "0"]);
        assert_eq!(row(None), ["-"; 5]);
    }
}
