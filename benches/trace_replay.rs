//! Traces with the shape of real programs', generated from a seed: what `poolbench replay` does with a
//! trace of one's own. Function is the strategy; value is the shape, which takes the place of a size.

use poolbench::report::{FRAGMENTATION, comparison_table};
use poolbench::strategy::{self, HOISTED, StrategyKind};
use poolbench::suite::{self, Suite, SuiteError};
use poolbench::trace::{Synthetic, Workload};
use poolbench::workload::TraceReplay;
use std::process::ExitCode;

const GROUP: &str = "trace_replay";
/// Shapes, each with the events that show it: a few units of every stream.
const SHAPES: [(Workload, u32); 5] = [
    (Workload::TrainingStep, 1_600),
    (Workload::Inference, 600),
    (Workload::GrowingRequest, 400),
    (Workload::ManyTiny, 3_000),
    (Workload::Survivors, 400),
];
const SEED: u64 = 2026;
const STREAMS: u32 = 2;
const RELEASE_THRESHOLD_BYTES: u64 = u64::MAX;

fn main() -> ExitCode {
    suite::main(GROUP, measure)
}

fn measure(suite: &mut Suite) -> Result<(), SuiteError> {
    let mut cases = Vec::new();
    for (workload, events) in SHAPES {
        let strategies = strategy::ALL.iter().filter(|kind| kind.has_work);
        cases.extend(strategies.map(|kind| case(kind, workload, events)));
    }
    let outcomes = suite.group(GROUP, &cases)?;
    if let Some(table) = comparison_table(&outcomes, HOISTED.name, &[FRAGMENTATION]) {
        println!("{table}");
    }
    Ok(())
}

fn case(strategy: &'static StrategyKind, workload: Workload, events: u32) -> TraceReplay {
    TraceReplay {
        group: GROUP,
        strategy,
        synthetic: Synthetic {
            streams: STREAMS,
            ..Synthetic::new(workload, SEED, events)
        },
        release_threshold_bytes: RELEASE_THRESHOLD_BYTES,
    }
}
