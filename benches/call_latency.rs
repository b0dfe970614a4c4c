//! What single driver calls cost: allocate, free and synchronise apart, first use and growth of a pool,
//! and the calls on the pool itself, beside the plain calls.

use poolbench::case::{Size, Threshold};
use poolbench::report::call_times_table;
use poolbench::suite::{self, Suite, SuiteError};
use poolbench::workload::CallLatency;
use poolbench::workload::call_latency::{Call, Memory};
use std::process::ExitCode;

const GROUP: &str = "call_latency";
const SIZES: [Size; 4] = [Size::kib(4), Size::mib(1), Size::mib(32), Size::mib(256)];
/// Calls that allocate nothing, or whose pool is empty.
const NOTHING: Size = Size::bytes(0);
const CALLS_WITH_NOTHING: [Call; 4] = [Call::PoolCreate, Call::PoolDestroy, Call::Trim, Call::AttributeSet];
const CALLS: [Call; 12] = [
    Call::Alloc(Memory::Plain),
    Call::Alloc(Memory::Pool(Threshold::Zero)),
    Call::Alloc(Memory::Pool(Threshold::Max)),
    Call::FirstAlloc,
    Call::Growth,
    Call::Free(Memory::Plain),
    Call::Free(Memory::Pool(Threshold::Zero)),
    Call::Free(Memory::Pool(Threshold::Max)),
    Call::Synchronize(Threshold::Zero),
    Call::Synchronize(Threshold::Max),
    Call::PoolDestroy,
    Call::Trim,
];

fn main() -> ExitCode {
    suite::main(GROUP, measure)
}

fn measure(suite: &mut Suite) -> Result<(), SuiteError> {
    let mut cases = CALLS_WITH_NOTHING.map(|call| case(call, NOTHING)).to_vec();
    for size in SIZES {
        cases.extend(CALLS.map(|call| case(call, size)));
    }
    let outcomes = suite.group(GROUP, &cases)?;
    if let Some(table) = call_times_table(&outcomes) {
        println!("{table}");
    }
    Ok(())
}

fn case(call: Call, size: Size) -> CallLatency {
    CallLatency {
        group: GROUP,
        call,
        size,
    }
}
