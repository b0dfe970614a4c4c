//! Whole sessions: every strategy and threshold, verified, and the pools left as they were.

use std::path::PathBuf;

use poolbench::cuda::MemoryPool;
use poolbench::replay::{Combination, ReplayThreshold, Replayed, SessionError, Settings, Synchronise, replay};
use poolbench::strategy;
use poolbench::trace::{self, Synthetic, Trace, Workload};

use crate::common::{self, Guarded};

/// All strategies, once, verified.
fn settings(scale: f64, thresholds: &[ReplayThreshold]) -> Settings {
    Settings {
        strategies: strategy::ALL.iter().filter(|kind| kind.has_work).collect(),
        thresholds: thresholds.to_vec(),
        named: true,
        present: Combination {
            strategy: strategy::SYNC,
            threshold: None,
        },
        repeats: 1,
        scale,
        synchronise: Synchronise::AsTraced,
        touch: true,
    }
}

/// What gives most back, and what gives nothing back.
const EXTREMES: [ReplayThreshold; 2] = [ReplayThreshold::Bytes(0), ReplayThreshold::Max];

fn session(guarded: &Guarded, trace: &Trace, settings: &Settings) -> Replayed {
    let replayed = replay(&guarded.device, trace, settings, &mut |_| ());
    let replayed = replayed.unwrap_or_else(|error| panic!("{error}"));
    for skipped in &replayed.skipped {
        println!("SKIPPED {}: {}", skipped.combination, skipped.reason);
    }
    replayed
}

#[test]
fn every_strategy_serves_every_shape_in_one_and_more_streams() {
    let guarded = common::device();
    for workload in Workload::ALL {
        for streams in [1, 3] {
            let synthetic = Synthetic {
                streams,
                ..Synthetic::new(workload, 5, 300)
            };
            let trace = synthetic.generate();
            let replayed = session(&guarded, &trace, &settings(0.02, &EXTREMES));
            assert!(replayed.measured.len() >= 8, "hoisted, sync, arena, vmm and two pools");
            for measured in &replayed.measured {
                let name = format!("{} of {} in {streams}", measured.combination, workload.name());
                let touched = measured.touched.unwrap_or_else(|| panic!("{name}: not touched"));
                assert_eq!(
                    touched.blocks + touched.blocks_too_small,
                    replayed.program.counts().allocations,
                    "{name}"
                );
                assert_eq!(measured.out_of_memory, 0, "{name}");
                assert!(measured.driver_calls > 0, "{name}");
            }
        }
    }
}

#[test]
fn blocks_that_cross_streams_are_served_rightly() {
    let guarded = common::device();
    // Each block is allocated in one stream and freed in the other, and its memory wanted again at once.
    let rows: Vec<String> = (0..40)
        .flat_map(|n| {
            let (from, to) = (1 + n % 2, 2 - n % 2);
            [
                format!("1,allocate,{:#x},262144,{from}", 0x10_0000 * (n + 1)),
                format!("1,free,{:#x},262144,{to}", 0x10_0000 * (n + 1)),
            ]
        })
        .collect();
    let trace = crate::trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    let replayed = session(&guarded, &trace, &settings(1.0, &EXTREMES));
    assert_eq!(replayed.program.counts().cross_stream_frees, 40);
    assert!(
        replayed
            .measured
            .iter()
            .all(|m| m.touched.is_some_and(|t| t.blocks == 40))
    );
}

#[test]
fn pools_follow_their_threshold_and_the_default_pool_is_left_as_it_was() {
    let guarded = common::device();
    let pool = MemoryPool::default_of(&guarded.device).expect("a default pool");
    pool.set_release_threshold_bytes(12345).expect("any value can be set");
    let rows = [
        "1,allocate,0x10000000,67108864,0",
        "1,allocate,0x20000000,67108864,0",
        "1,free,0x20000000,67108864,0",
        "1,free,0x10000000,67108864,0",
    ];
    let replayed = session(
        &guarded,
        &crate::trace(&rows),
        &settings(1.0, &ReplayThreshold::DEFAULT),
    );
    for name in ["stream_ordered", "owned_pool"] {
        let held: Vec<_> = replayed
            .measured
            .iter()
            .filter(|measured| measured.combination.strategy.name == name)
            .map(|measured| {
                (
                    measured.combination.to_string(),
                    measured.held_bytes,
                    measured.peak_reserved_bytes,
                )
            })
            .collect();
        // Two blocks of 64 MiB: the peak is 128 MiB, half of it 64 MiB, which was asked for as well and comes
        // first. What is beyond the threshold goes back at the last synchronise.
        let expected = [("0", 0_u64), ("64MiB", 64), ("peak", 128), ("max", 128)]
            .map(|(threshold, mib)| (format!("{name}@{threshold}"), Some(mib << 20), Some(128 << 20)));
        assert_eq!(held, expected);
    }
    assert_eq!(pool.release_threshold_bytes().expect("readable"), 12345);
    assert_eq!(pool.reserved_bytes_current().expect("readable"), 0);
    pool.set_release_threshold_bytes(0).expect("any value can be set");
}

#[test]
fn a_trace_larger_than_the_device_is_refused_with_a_scale_that_fits() {
    let guarded = common::device();
    // 2^50 bytes: a petabyte, as 1024 blocks.
    let rows: Vec<String> = (0..1024_u64)
        .map(|n| format!("1,allocate,{:#x},{},0", (n + 1) << 40, 1_u64 << 40))
        .collect();
    let trace = crate::trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    let mut wanted = settings(1.0, &EXTREMES);
    wanted.touch = false;
    let error = replay(&guarded.device, &trace, &wanted, &mut |_| ()).expect_err("a petabyte");
    let SessionError::LargerThanDevice { peak_bytes, scale, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(peak_bytes, 1 << 50);
    assert!(error.to_string().contains(&format!("--scale {scale}")), "{error}");
    wanted.scale = scale;
    wanted.strategies = vec![strategy::SYNC];
    // The named scale is not refused. (Whether it is served is another matter: host memory is not touched.)
    let replayed = replay(&guarded.device, &trace, &wanted, &mut |_| ());
    assert!(replayed.is_ok(), "{:?}", replayed.err());
}

/// A real trace, or a visible note that the test did nothing.
fn real(name: &str) -> Option<Trace> {
    let folder = std::env::var_os("POOLBENCH_TRACES").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/traces"),
        PathBuf::from,
    );
    let path = folder.join(name);
    if !path.is_file() {
        println!("SKIPPED {name}: there is no {}", path.display());
        return None;
    }
    Some(trace::read(&path).unwrap_or_else(|error| panic!("{error}")))
}

#[test]
fn the_real_inference_is_replayed_and_verified() {
    let guarded = common::device();
    let Some(trace) = real("torch_fastpitch_hifigan.csv") else {
        return;
    };
    let replayed = session(&guarded, &trace.with_streams(4), &settings(1.0, &EXTREMES));
    // 330 blocks, of which one of 1 byte holds no word.
    for measured in &replayed.measured {
        let touched = measured.touched.expect("asked for");
        assert_eq!(
            (touched.blocks, touched.blocks_too_small),
            (329, 1),
            "{}",
            measured.combination
        );
    }
}

#[test]
fn the_real_training_step_is_replayed_and_verified() {
    let guarded = common::device();
    let Some(trace) = real("hta_v100_ddp_rank1.csv") else {
        return;
    };
    // 49 GiB go through it: on the host device a thousandth of that.
    let scale = if guarded.device.is_host() { 1e-3 } else { 1.0 };
    let mut wanted = settings(scale, &EXTREMES);
    // Thousands of mappings of 2 MiB, one call a piece.
    wanted
        .strategies
        .retain(|kind| kind.name != "vmm" && kind.name != "managed");
    let replayed = session(&guarded, &trace, &wanted);
    assert_eq!(replayed.program.counts().events, 26_770);
    for measured in &replayed.measured {
        let touched = measured.touched.expect("asked for");
        assert_eq!(
            touched.blocks + touched.blocks_too_small,
            13_385,
            "{}",
            measured.combination
        );
    }
}
