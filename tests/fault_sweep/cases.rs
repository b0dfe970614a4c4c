//! Every strategy and every workload, as small as they come.

use poolbench::case::{Size, Submission, Threshold};
use poolbench::cuda::Device;
use poolbench::measure::{self, Case, Failure, Workload};
use poolbench::strategy::{self, StrategyKind};
use poolbench::suite::{Outcome, Suite, SuiteError};
use poolbench::workload::call_latency::{Call, Memory};
use poolbench::workload::{CallLatency, CrossStream, GraphReplay, MultiStream, Policies, ScratchLoop, Source};

const SIZE: Size = Size::kib(4);
/// Enough that a run makes each call of the loop more than 50 times.
const ITERATIONS: u64 = 16;

type Measure = dyn Fn(&mut Suite) -> Result<Vec<Outcome>, SuiteError>;
type SetUp = dyn Fn(&Device) -> Result<Box<dyn Workload>, Failure>;

/// A case, how a suite is asked for it, and its set-up alone.
pub struct Entry {
    pub id: String,
    pub measure: Box<Measure>,
    pub set_up: Box<SetUp>,
}

fn entry<C: Case + Clone + 'static>(case: C) -> Entry {
    let twin = case.clone();
    let id = case.id().expect("an id that Criterion keeps");
    let group = id.group().to_owned();
    Entry {
        id: id.to_string(),
        measure: Box::new(move |suite| suite.group(&group, std::slice::from_ref(&case))),
        set_up: Box::new(move |device| measure::prepare(&twin, device)),
    }
}

/// Every case of the sweep, all ids different.
pub fn all() -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for kind in strategy::ALL {
        entries.push(entry(scratch_loop("scratch_loop", kind, Threshold::Max, None)));
        if kind.has_work {
            entries.push(entry(scratch_loop("variable_size", kind, Threshold::Max, Some(1))));
        }
        entries.push(entry(GraphReplay {
            group: "graph_replay",
            strategy: kind,
            submission: Submission::GraphReplay,
            size: SIZE,
            release_threshold_bytes: u64::MAX,
            iterations: ITERATIONS,
        }));
    }
    for threshold in Threshold::ALL {
        let function = threshold.to_string();
        let case = scratch_loop("release_threshold", strategy::STREAM_ORDERED, threshold, None);
        entries.push(entry(ScratchLoop {
            function,
            iterations: 1,
            ..case
        }));
    }
    entries.extend(Source::ALL.map(|source| {
        entry(MultiStream {
            group: "streams",
            source,
            n_streams: 2,
            size: SIZE,
            iterations: ITERATIONS,
        })
    }));
    for with_event in [false, true] {
        entries.extend(Policies::ALL.map(|policies| {
            entry(CrossStream {
                group: "cross_stream_reuse",
                policies,
                with_event,
                size: SIZE,
                iterations: ITERATIONS,
            })
        }));
    }
    entries.extend(calls().into_iter().map(|(call, size)| {
        entry(CallLatency {
            group: "call_latency",
            call,
            size,
        })
    }));
    entries
}

/// What is measured after a case that was skipped, to see that it finds nothing of that case.
pub fn neighbours() -> [Entry; 2] {
    ["next", "after_next"].map(|group| entry(scratch_loop(group, strategy::STREAM_ORDERED, Threshold::Zero, None)))
}

fn scratch_loop(
    group: &'static str,
    strategy: &'static StrategyKind,
    threshold: Threshold,
    size_seed: Option<u64>,
) -> ScratchLoop {
    ScratchLoop {
        group,
        function: strategy.name.to_owned(),
        strategy,
        size: SIZE,
        size_seed,
        release_threshold_bytes: threshold.bytes(SIZE),
        iterations: ITERATIONS,
    }
}

fn calls() -> Vec<(Call, Size)> {
    let memories = [
        Memory::Plain,
        Memory::Pool(Threshold::Zero),
        Memory::Pool(Threshold::Max),
    ];
    let of_pools = [Call::PoolCreate, Call::PoolDestroy, Call::Trim, Call::AttributeSet];
    let mut calls: Vec<(Call, Size)> = Vec::new();
    calls.extend(memories.map(|memory| (Call::Alloc(memory), SIZE)));
    calls.extend(memories.map(|memory| (Call::Free(memory), SIZE)));
    calls.extend([Threshold::Zero, Threshold::Max].map(|threshold| (Call::Synchronize(threshold), SIZE)));
    calls.extend([Call::FirstAlloc, Call::Growth, Call::PoolDestroy, Call::Trim].map(|call| (call, SIZE)));
    calls.extend(of_pools.map(|call| (call, Size::bytes(0))));
    calls
}
