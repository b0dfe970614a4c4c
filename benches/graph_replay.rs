//! The scratch loop captured once and replayed, beside the same loop submitted call by call.

use poolbench::case::{Size, Submission, Threshold};
use poolbench::report::{REPLAY_COLUMNS, comparison_table};
use poolbench::strategy::{self, HOISTED, STREAM_ORDERED, StrategyKind};
use poolbench::suite::{self, Suite, SuiteError};
use poolbench::workload::GraphReplay;
use std::process::ExitCode;

const GROUP: &str = "graph_replay";
const SIZES: [Size; 6] = [
    Size::kib(4),
    Size::kib(64),
    Size::mib(1),
    Size::mib(8),
    Size::mib(32),
    Size::mib(256),
];
const STRATEGIES: [&StrategyKind; 2] = [HOISTED, STREAM_ORDERED];
/// Capture refuses it, at every size alike: a skip with the driver's code.
const REFUSED: &str = "sync";
/// Iterations, then one synchronise; one graph.
const ITERATIONS: u64 = 100;

fn main() -> ExitCode {
    suite::main(GROUP, measure)
}

fn measure(suite: &mut Suite) -> Result<(), SuiteError> {
    let mut cases: Vec<GraphReplay> = Vec::new();
    for size in SIZES {
        for strategy in STRATEGIES {
            cases.extend(Submission::ALL.map(|submission| case(strategy, submission, size)));
        }
    }
    cases.extend(strategy::named(REFUSED).map(|strategy| case(strategy, Submission::GraphReplay, SIZES[0])));
    let outcomes = suite.group(GROUP, &cases)?;
    if let Some(table) = comparison_table(&outcomes, "hoisted,eager", &REPLAY_COLUMNS) {
        println!("{table}");
    }
    Ok(())
}

fn case(strategy: &'static StrategyKind, submission: Submission, size: Size) -> GraphReplay {
    let release_threshold_bytes = Threshold::Max.bytes(size);
    GraphReplay {
        group: GROUP,
        strategy,
        submission,
        size,
        release_threshold_bytes,
        iterations: ITERATIONS,
    }
}
