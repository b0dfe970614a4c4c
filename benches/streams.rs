//! Several streams: on a shared pool and on their own, and a block freed in one stream and wanted in
//! another, by reuse policy.

use poolbench::case::Size;
use poolbench::report::{Column, comparison_table};
use poolbench::suite::{self, Outcome, Suite, SuiteError};
use poolbench::workload::{CrossStream, MultiStream, Policies, Source};
use std::process::ExitCode;

const GROUP: &str = "streams";
const REUSE_GROUP: &str = "cross_stream_reuse";
const STREAMS: [usize; 4] = [1, 2, 4, 8];
const SIZES: [Size; 2] = [Size::kib(64), Size::mib(4)];
const REUSE_SIZES: [Size; 2] = [Size::mib(1), Size::mib(32)];
/// Iterations of each stream, then a synchronise of all.
const ITERATIONS: u64 = 100;
/// Few, so that where nothing is reused the pool does not grow beyond the device.
const REUSE_ITERATIONS: u64 = 10;

const RESERVED: Column = Column {
    heading: "reserved bytes at most",
    cell: reserved,
};
const REUSED: Column = Column {
    heading: "block came back",
    cell: reused,
};

fn main() -> ExitCode {
    suite::main(GROUP, measure)
}

fn measure(suite: &mut Suite) -> Result<(), SuiteError> {
    measure_streams(suite)?;
    measure_reuse(suite)
}

fn measure_streams(suite: &mut Suite) -> Result<(), SuiteError> {
    for size in SIZES {
        let case = |source| {
            STREAMS.map(|n_streams| MultiStream {
                group: GROUP,
                source,
                n_streams,
                size,
                iterations: ITERATIONS,
            })
        };
        let outcomes = suite.group(GROUP, &Source::ALL.map(case).concat())?;
        if let Some(table) = comparison_table(&outcomes, &format!("hoisted,{size}"), &[RESERVED]) {
            println!("{table}");
        }
    }
    Ok(())
}

fn measure_reuse(suite: &mut Suite) -> Result<(), SuiteError> {
    let mut cases = Vec::new();
    for (size, with_event) in REUSE_SIZES.into_iter().flat_map(|size| [(size, false), (size, true)]) {
        let case = |policies| CrossStream {
            group: REUSE_GROUP,
            policies,
            with_event,
            size,
            iterations: REUSE_ITERATIONS,
        };
        cases.extend(Policies::ALL.map(case));
    }
    let outcomes = suite.group(REUSE_GROUP, &cases)?;
    if let Some(table) = comparison_table(&outcomes, "policy=none,no_event", &[REUSED, RESERVED]) {
        println!("{table}");
    }
    Ok(())
}

fn reserved(outcome: &Outcome) -> String {
    outcome
        .observation
        .reserved
        .map_or_else(|| String::from("-"), |seen| seen.high_bytes.to_string())
}

fn reused(outcome: &Outcome) -> String {
    let share = outcome
        .observation
        .reuse
        .map(|seen| format!("{} of {}", seen.reused, seen.asked));
    share.unwrap_or_else(|| String::from("-"))
}
