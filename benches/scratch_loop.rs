//! The source's loop: what allocating inside it costs, by strategy and size, against not allocating.

use poolbench::case::{Size, Threshold};
use poolbench::report::{break_even_lines, comparison_table};
use poolbench::strategy::{self, StrategyKind};
use poolbench::suite::{self, Suite, SuiteError};
use poolbench::workload::ScratchLoop;
use std::process::ExitCode;

const GROUP: &str = "scratch_loop";
const SIZES: [Size; 6] = [
    Size::kib(4),
    Size::kib(64),
    Size::mib(1),
    Size::mib(8),
    Size::mib(32),
    Size::mib(256),
];
/// Iterations, then one synchronise.
const ITERATIONS: u64 = 100;
const THRESHOLD: Threshold = Threshold::Max;

fn main() -> ExitCode {
    suite::main(GROUP, measure)
}

fn measure(suite: &mut Suite) -> Result<(), SuiteError> {
    let mut cases = Vec::new();
    for size in SIZES {
        for strategy in strategy::ALL {
            // The harness costs the same at every size.
            if strategy.has_work || size == SIZES[0] {
                cases.push(case(strategy, size));
            }
        }
    }
    let outcomes = suite.group(GROUP, &cases)?;
    if let Some(table) = comparison_table(&outcomes, strategy::HOISTED.name, &[]) {
        println!("{table}");
    }
    let strategies: Vec<&str> = strategy::ALL
        .iter()
        .filter(|kind| kind.has_work)
        .map(|kind| kind.name)
        .collect();
    if let Some(lines) = break_even_lines(&outcomes, &strategies[1..], strategy::HOISTED.name) {
        println!("Synchronised every {ITERATIONS} iterations, threshold max:\n{lines}");
    }
    Ok(())
}

fn case(strategy: &'static StrategyKind, size: Size) -> ScratchLoop {
    ScratchLoop {
        group: GROUP,
        function: strategy.name.to_owned(),
        strategy,
        size,
        size_seed: None,
        release_threshold_bytes: THRESHOLD.bytes(size),
        iterations: ITERATIONS,
    }
}
