//! Plans: every block has a place of its own.

use poolbench::replay::{CompileOptions, Program};
use poolbench::strategy::{Plan, Request};
use poolbench::trace::{Synthetic, Workload};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Panics where two live blocks share a byte, or a block ends beyond the plan. Returns the peak in steps
/// of 256 bytes.
fn check(plan: &Plan) -> u64 {
    let mut live: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    let mut offsets = plan.offsets_bytes().iter();
    let mut peak = 0;
    for request in plan.requests() {
        match *request {
            Request::Alloc { slot, size_bytes } => {
                let start = *offsets.next().expect("a place for each allocation");
                let end = start + size_bytes.next_multiple_of(256);
                assert!(start.is_multiple_of(256) && end <= plan.planned_bytes());
                assert!(
                    live.values().all(|(from, to)| end <= *from || *to <= start),
                    "{request:?}"
                );
                live.insert(slot, (start, end));
                peak = peak.max(live.values().map(|(from, to)| to - from).sum());
            }
            Request::Free { slot } => drop(live.remove(&slot)),
        }
    }
    assert!(peak <= plan.planned_bytes());
    peak
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// Sizes and lifetimes at random: a slot that is taken is freed, one that is not is filled.
    #[test]
    fn no_two_live_blocks_share_a_byte(steps in prop::collection::vec((0_u32..24, 1_u64..5_000), 1..400)) {
        let mut taken = [false; 24];
        let requests = steps.into_iter().map(|(slot, size_bytes)| {
            let taken = &mut taken[slot as usize];
            *taken = !*taken;
            if *taken { Request::Alloc { slot, size_bytes } } else { Request::Free { slot } }
        });
        check(&Plan::of(requests.collect()));
    }
}

#[test]
fn plans_of_real_shapes_need_little_more_than_the_peak() {
    for workload in Workload::ALL {
        let mut synthetic = Synthetic::new(workload, 1, 3_000);
        synthetic.streams = 2;
        let program = Program::compile(&synthetic.generate(), &CompileOptions::default()).expect("it allocates");
        for plan in program.plans() {
            let peak = check(&plan);
            let ratio = plan.planned_bytes() as f64 / peak as f64;
            println!("{}: {ratio:.2} times the peak", workload.name());
            // Known worst cases of best fit are far above; shapes of real programs are not.
            assert!(ratio < 2.0, "{}: {ratio}", workload.name());
        }
    }
}
