//! A loop whose buffer has another size each time: where one buffer of the largest size is the only
//! alternative to allocating, and allocating synchronously costs most.

use poolbench::case::{Size, Threshold};
use poolbench::report::{FRAGMENTATION, comparison_table};
use poolbench::strategy::{self, StrategyKind};
use poolbench::suite::{self, Suite, SuiteError};
use poolbench::workload::ScratchLoop;
use std::process::ExitCode;

const GROUP: &str = "variable_size";
/// The largest size; sizes are drawn log-uniformly from 256 bytes up to it.
const SIZES: [Size; 4] = [Size::kib(64), Size::mib(1), Size::mib(8), Size::mib(64)];
/// The sizes depend on nothing else, least of all on the strategy.
const SEED: u64 = 2026;
/// Iterations, then one synchronise.
const ITERATIONS: u64 = 100;
const THRESHOLD: Threshold = Threshold::Max;

fn main() -> ExitCode {
    suite::main(GROUP, measure)
}

fn measure(suite: &mut Suite) -> Result<(), SuiteError> {
    let mut cases = Vec::new();
    for size in SIZES {
        cases.extend(
            strategy::ALL
                .iter()
                .filter(|kind| kind.has_work)
                .map(|kind| case(kind, size)),
        );
    }
    let outcomes = suite.group(GROUP, &cases)?;
    if let Some(table) = comparison_table(&outcomes, strategy::HOISTED.name, &[FRAGMENTATION]) {
        println!("{table}");
    }
    Ok(())
}

fn case(strategy: &'static StrategyKind, size: Size) -> ScratchLoop {
    ScratchLoop {
        group: GROUP,
        function: strategy.name.to_owned(),
        strategy,
        size,
        size_seed: Some(SEED),
        release_threshold_bytes: THRESHOLD.bytes(size),
        iterations: ITERATIONS,
    }
}
