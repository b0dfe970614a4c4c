//! The comparison on real launches of one H200 on which nothing changed (`shared/data/README.md`).
//! Where the recordings are missing, each test prints that it is skipped.
#![allow(missing_docs)]

use std::path::PathBuf;

use poolbench::stats::*;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde_json::Value;

fn recording(name: &str) -> Option<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../shared/data")
        .join(name);
    let text = std::fs::read_to_string(&path).ok();
    if text.is_none() {
        println!("SKIPPED: no recording at {}", path.display());
    }
    text
}

/// Below half of its time on the device, by the kernels' length: all but these.
const NOT_HOST_BOUND: [&str; 5] = [
    "hoisted/8388608",
    "hoisted/33554432",
    "async/8388608",
    "async/33554432",
    "asyncmax_each/33554432",
];

/// The launches of a recording for which `arm` holds, as one session.
fn side(text: &str, session: &str, arm: impl Fn(&Value) -> bool) -> Side {
    let mut side = Side::new();
    for (order, line) in (0u64..).zip(text.lines()) {
        let launch: Value = serde_json::from_str(line).unwrap();
        if !arm(&launch) {
            continue;
        }
        for (name, samples) in launch["ns"].as_object().unwrap() {
            let id = BenchmarkId::new(name.clone());
            let times_ns: Vec<f64> = samples
                .as_array()
                .unwrap()
                .iter()
                .map(|time| time.as_f64().unwrap())
                .collect();
            let iters = vec![1.0; times_ns.len()];
            let key = LaunchKey {
                session: SessionId::new(session),
                order,
            };
            let raw = RawLaunch {
                iters: &iters,
                times_ns: &times_ns,
                probe_ns: None,
                flags: &[],
            };
            side.add(&id, &key, &raw);
            side.set_host_bound(&id, !NOT_HOST_BOUND.contains(&name.as_str()));
        }
    }
    side
}

#[test]
fn random_halves_of_unchanged_launches_agree() {
    for name in [
        "aa_h200_580.159.04.jsonl",
        "aa_h200_580.159.04_hour_later.jsonl",
        "aa_h200_580.159.04_interleaved.jsonl",
    ] {
        let Some(text) = recording(name) else { return };
        let plan = CalibrationPlan {
            splits: 400,
            ..CalibrationPlan::default()
        };
        let calibration = calibrate(&side(&text, "s", |_| true), &Options::default(), plan);
        println!(
            "{name}: {:?} alarming, {:?} alarms",
            calibration.alarming, calibration.alarms
        );
        // The procedure counted 1 of 2,000 (7/7 splits of the first); 5 % of the suites is the bound.
        assert!(calibration.alarming.hits <= 4, "{name}: {:?}", calibration.alarming);
    }
}

#[test]
fn an_hour_later_nothing_regressed() {
    let (Some(first), Some(later)) = (
        recording("aa_h200_580.159.04.jsonl"),
        recording("aa_h200_580.159.04_hour_later.jsonl"),
    ) else {
        return;
    };
    let (base, new) = (side(&first, "first", |_| true), side(&later, "later", |_| true));
    let comparison = compare(&base, &new, &Options::default());
    for benchmark in &comparison.benchmarks {
        let measured = benchmark.measured.as_ref().unwrap();
        println!("{} {:?} {:.3}", benchmark.id, benchmark.verdict, measured.effect.ratio);
    }
    println!("{:?} {:?}", comparison.summary, comparison.common_shift);
    assert_eq!((comparison.summary.regressed, comparison.summary.improved), (0, 0));
    assert!(!comparison.has_regression());
    // The sessions did differ: by the fast half of samples, the 15 host-bound benchmarks were slower by
    // 6 % in the middle. It is shown as a common shift that nine launches cannot declare.
    let shift = comparison.common_shift.unwrap();
    assert!(shift.effect.ratio > 1.03 && !shift.established);
    // The spread that such a pair shows is what later comparisons on this machine may assume.
    let spread = session_spread(&base, &new);
    println!("{spread:?}");
    assert!(spread.gpu_bound < 0.01 && spread.host_bound.is_some_and(|sd| sd > 0.03));
}

#[test]
fn interleaved_arms_agree() {
    let Some(text) = recording("aa_h200_580.159.04_interleaved.jsonl") else {
        return;
    };
    let arm = |name: &'static str| side(&text, "s", move |launch| launch["arm"] == name);
    let comparison = compare(&arm("a"), &arm("b"), &Options::default());
    println!("{:?} {:?}", comparison.summary, comparison.common_shift);
    let Summary {
        regressed,
        improved,
        suspected,
        ..
    } = comparison.summary;
    assert_eq!((regressed, improved, suspected), (0, 0, 0));
}

/// A suite of 48 host-bound benchmarks out of one host-probe recording: each of its four cases
/// twelve times, its 10-sample stretches dealt to 48 launches in an order of its own.
fn probed_suite(text: &str, session: &str, seed: u64) -> Side {
    let mut cases: std::collections::BTreeMap<&str, Vec<[f64; 2]>> = std::collections::BTreeMap::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |index: usize| fields[index].parse::<f64>().unwrap();
        let probe_ns = 1e3 * f64::midpoint(number(4), number(7));
        cases.entry(fields[0]).or_default().push([1e3 * number(1), probe_ns]);
    }
    let mut random = StdRng::seed_from_u64(seed);
    let mut side = Side::new();
    for (case, samples) in cases {
        let mut stretches: Vec<&[[f64; 2]]> = samples.chunks_exact(10).collect();
        for copy in 0..12 {
            let id = BenchmarkId::new(format!("probes/{case}/{copy}"));
            stretches.shuffle(&mut random);
            for (order, stretch) in (0u64..48).zip(&stretches) {
                let times_ns: Vec<f64> = stretch.iter().map(|sample| sample[0]).collect();
                let syscall: Vec<f64> = stretch.iter().map(|sample| sample[1]).collect();
                let key = LaunchKey {
                    session: SessionId::new(session),
                    order,
                };
                let probe_ns = Some(RawProbe {
                    syscall: &syscall,
                    ..RawProbe::default()
                });
                let raw = RawLaunch {
                    iters: &[1.0; 10],
                    times_ns: &times_ns,
                    probe_ns,
                    flags: &[],
                };
                side.add(&id, &key, &raw);
            }
            side.set_host_bound(&id, true);
        }
    }
    side
}

#[test]
fn probes_make_five_per_cent_visible_at_24_launches() {
    // Ten samples of one moment each, for which the fastest quarter of a launch would find 94 % of the changes in
    // the free recording; the fastest half, which finds more where a case takes its samples in turns, finds 86 %.
    // 200 changes: ± 2.5 points, twice that allowed.
    for (name, least) in [("free", 0.81), ("pinned", 0.9)] {
        let Some(text) = recording(&format!("host_probes_h200_{name}.txt")) else {
            return;
        };
        let side = probed_suite(&text, "s", 1);
        let splits = CalibrationPlan { splits: 40, seed: 2 };
        let calibration = calibrate(&side, &Options::default(), splits);
        let plan = PowerPlan {
            splits,
            factor: 1.05,
            share: 0.1,
        };
        let power = estimate_power(&side, &Options::default(), plan);
        println!("{name}: alarming {:?}, power {power:?}", calibration.alarming);
        // At most one alarm in 20.
        assert!(calibration.alarming.hits <= 2);
        assert!(power.found[&Class::HostBound].share().unwrap() >= least);
        assert!(power.false_discovery_rate.unwrap() <= 0.05);
    }
}

#[test]
fn probes_take_out_most_of_the_shift_between_two_recordings() {
    let (Some(free), Some(pinned)) = (
        recording("host_probes_h200_free.txt"),
        recording("host_probes_h200_pinned.txt"),
    ) else {
        return;
    };
    let (base, new) = (probed_suite(&free, "free", 1), probed_suite(&pinned, "pinned", 1));
    let comparison = compare(&base, &new, &Options::default());
    let (mut raw, mut adjusted) = (0.0, 0.0);
    for measured in comparison
        .benchmarks
        .iter()
        .filter_map(|benchmark| benchmark.measured.as_ref())
    {
        raw += measured.raw.ratio.ln().abs() / 48.0;
        adjusted += measured.effect.ratio.ln().abs() / 48.0;
    }
    println!(
        "mean shift raw {raw:.4}, adjusted {adjusted:.4}, {:?}",
        comparison.summary
    );
    assert_eq!((comparison.summary.regressed, comparison.summary.improved), (0, 0));
    assert!(adjusted < raw / 2.0 && adjusted < 0.012);
}
