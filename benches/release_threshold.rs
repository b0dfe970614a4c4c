//! A loop that synchronises every time, by release threshold and size: what the pool gives back at a
//! synchronise has to be got again.

use poolbench::case::{Size, Threshold};
use poolbench::report::{Column, break_even_lines, comparison_table};
use poolbench::strategy::{HOISTED, STREAM_ORDERED, StrategyKind};
use poolbench::suite::{self, Outcome, Suite, SuiteError};
use poolbench::workload::ScratchLoop;
use std::process::ExitCode;

const GROUP: &str = "release_threshold";
const SIZES: [Size; 4] = [Size::mib(1), Size::mib(8), Size::mib(32), Size::mib(256)];
const THRESHOLDS: [Threshold; 4] = Threshold::ALL;
/// A synchronise after every iteration.
const ITERATIONS: u64 = 1;

const RESERVED: Column = Column {
    heading: "reserved bytes after synchronise",
    cell: reserved,
};

fn main() -> ExitCode {
    suite::main(GROUP, measure)
}

fn measure(suite: &mut Suite) -> Result<(), SuiteError> {
    let mut cases = Vec::new();
    for size in SIZES {
        cases.push(case(HOISTED.name.to_owned(), HOISTED, size, Threshold::Max));
        cases.extend(THRESHOLDS.map(|threshold| case(threshold.to_string(), STREAM_ORDERED, size, threshold)));
    }
    let outcomes = suite.group(GROUP, &cases)?;
    if let Some(table) = comparison_table(&outcomes, HOISTED.name, &[RESERVED]) {
        println!("{table}");
    }
    let names = THRESHOLDS.map(|threshold| threshold.to_string());
    let names = names.each_ref().map(String::as_str);
    if let Some(lines) = break_even_lines(&outcomes, &names, HOISTED.name) {
        println!("Synchronised every iteration:\n{lines}");
    }
    Ok(())
}

fn case(function: String, strategy: &'static StrategyKind, size: Size, threshold: Threshold) -> ScratchLoop {
    let release_threshold_bytes = threshold.bytes(size);
    ScratchLoop {
        group: GROUP,
        function,
        strategy,
        size,
        size_seed: None,
        release_threshold_bytes,
        iterations: ITERATIONS,
    }
}

fn reserved(outcome: &Outcome) -> String {
    outcome.observation.reserved.map_or_else(
        || String::from("-"),
        |reserved| reserved.after_synchronize_bytes.to_string(),
    )
}
