//! Rules of the verdicts, one by one, on small suites.
#![allow(missing_docs)]

mod noise;

use noise::{Kind, Recording, case, record, seeded};
use poolbench::stats::*;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Adds launches with these times, one sample each, to a side.
fn add(side: &mut Side, name: &str, session: &str, times_ns: &[f64]) {
    for (order, &time) in (0u64..).zip(times_ns) {
        let key = LaunchKey {
            session: SessionId::new(session),
            order,
        };
        let raw = RawLaunch {
            iters: &[1.0],
            times_ns: &[time],
            probe_ns: None,
            flags: &[],
        };
        side.add(&BenchmarkId::new(name), &key, &raw);
    }
}

/// Launches around a level, 0.1 % apart: 1000, 1001, ...
fn launches(count: usize, level: f64) -> Vec<f64> {
    (0..count).map(|index| level * (1.0 + 0.001 * index as f64)).collect()
}

fn pair(base: &[f64], new: &[f64], host_bound: Option<bool>, sessions: (&str, &str)) -> BenchmarkComparison {
    let (mut a, mut b) = (Side::new(), Side::new());
    add(&mut a, "g/f/v", sessions.0, base);
    add(&mut b, "g/f/v", sessions.1, new);
    if let Some(host_bound) = host_bound {
        a.set_host_bound(&BenchmarkId::new("g/f/v"), host_bound);
    }
    compare(&a, &b, &Options::default()).benchmarks.remove(0)
}

#[test]
fn one_to_four_launches_say_what_they_can() {
    let of = |count| pair(&launches(count, 1e3), &launches(count, 1.1e3), Some(false), ("s", "s"));
    for count in 1..=3 {
        let benchmark = of(count);
        assert_eq!(benchmark.verdict, Verdict::Inconclusive(Inconclusive::FewLaunches));
        let measured = benchmark.measured.unwrap();
        approx::assert_relative_eq!(measured.effect.ratio, 1.1, epsilon = 1e-3);
        assert_eq!((measured.effect.interval, measured.p_value), (None, None));
    }
    // Four: p = 2/70 = 0.029 below 0.05, one benchmark, so it is found.
    let benchmark = of(4);
    assert_eq!(benchmark.verdict, Verdict::Regressed);
    approx::assert_relative_eq!(benchmark.measured.unwrap().p_value.unwrap(), 2.0 / 70.0, epsilon = 1e-9);
}

#[test]
fn sessions_decide_between_regressed_and_suspected() {
    let (base, new) = (launches(8, 1e3), launches(8, 1.1e3));
    let verdict = |host_bound, sessions| pair(&base, &new, host_bound, sessions).verdict;
    assert_eq!(verdict(Some(true), ("s", "s")), Verdict::Regressed);
    assert!(matches!(verdict(Some(true), ("s", "t")), Verdict::Suspected { .. }));
    assert!(matches!(verdict(None, ("s", "t")), Verdict::Suspected { .. }));
    // GPU-bound: 10 % is far beyond the assumed √2 · 0.3 % between sessions.
    assert_eq!(verdict(Some(false), ("s", "t")), Verdict::Regressed);
    // The mirror image improves.
    assert_eq!(pair(&new, &base, Some(false), ("s", "t")).verdict, Verdict::Improved);
}

#[test]
fn what_jumps_between_launches_may_jump_between_sessions() {
    // Every fourth launch is 10 % slower. The new side is 4 % slower, as another card of the model may be.
    let side = |level: f64| -> Vec<f64> {
        (0..12)
            .map(|index| level * (1.0 + 1e-4 * f64::from(index)) * if index % 4 == 3 { 1.1 } else { 1.0 })
            .collect()
    };
    let verdict = |sessions| pair(&side(1e3), &side(1.04e3), Some(false), sessions).verdict;
    assert_eq!(verdict(("s", "s")), Verdict::Regressed);
    // The launches' standard deviation is 4.3 %: √2 of it against 4 %, less the 1 % of the minimum effect.
    assert!(matches!(verdict(("s", "t")), Verdict::Suspected { .. }));
}

#[test]
fn a_mixed_benchmark_that_follows_the_host_is_adjusted() {
    // The time is the host's alone, which is 20 % faster on the new side, and half of that from launch to launch;
    // 0.1 % of it is noise of its own.
    let id = BenchmarkId::new("streams/own_pools,4MiB/streams=8");
    let side = |speed: f64| {
        let mut side = Side::new();
        for order in 0_u64..12 {
            let host = speed * (1.0 + 0.01 * (order * 7 % 12) as f64);
            let own = if order % 2 == 0 { 1.001 } else { 1.0 };
            let key = LaunchKey {
                session: SessionId::new("s"),
                order: order + if speed == 1.0 { 0 } else { 100 },
            };
            let raw = RawLaunch {
                iters: &[1.0],
                times_ns: &[1e4 * host * own],
                probe_ns: Some(RawProbe {
                    syscall: &[5e4 * host],
                    ..RawProbe::default()
                }),
                flags: &[],
            };
            side.add(&id, &key, &raw);
        }
        side.set_host_bound(&id, false);
        side
    };
    let benchmark = compare(&side(1.0), &side(0.8), &Options::default())
        .benchmarks
        .remove(0);
    let measured = benchmark.measured.unwrap();
    assert_eq!(measured.class, Class::Mixed);
    approx::assert_abs_diff_eq!(measured.raw.ratio, 0.8, epsilon = 0.01);
    approx::assert_abs_diff_eq!(measured.effect.ratio, 1.0, epsilon = 0.01);
    assert_eq!(benchmark.verdict, Verdict::Equivalent);
}

#[test]
fn a_known_session_spread_settles_one_session() {
    let (mut a, mut b) = (Side::new(), Side::new());
    add(&mut a, "g/f/v", "s", &launches(12, 1e3));
    add(&mut b, "g/f/v", "t", &launches(12, 1.1e3));
    a.set_host_bound(&BenchmarkId::new("g/f/v"), true);
    let with = |sd: f64| {
        let spread = SessionSpread {
            host_bound: Some(sd),
            ..SessionSpread::default()
        };
        let options = Options::default().with_session_spread(spread).unwrap();
        compare(&a, &b, &options).benchmarks.remove(0).verdict
    };
    // ln 1.1 - ln 1.01 = 8.5 %, against √2 · 1 %: six deviations; against √2 · 10 %: half of one.
    assert_eq!(with(0.01), Verdict::Regressed);
    assert!(matches!(with(0.10), Verdict::Suspected { .. }));
}

#[test]
fn equal_sides_are_equivalent_unless_sessions_are_unknown() {
    let times = launches(8, 1e3);
    assert_eq!(
        pair(&times, &times, Some(false), ("s", "s")).verdict,
        Verdict::Equivalent
    );
    assert_eq!(
        pair(&times, &times, Some(true), ("s", "t")).verdict,
        Verdict::Inconclusive(Inconclusive::SessionsUnknown)
    );
}

#[test]
fn quantised_constant_times_are_found_where_they_differ() {
    // A timer that counts in steps: no spread at all on either side.
    assert_eq!(
        pair(&[1e3; 8], &[1e3; 8], Some(false), ("s", "s")).verdict,
        Verdict::Equivalent
    );
    assert_eq!(
        pair(&[1e3; 8], &[1.03e3; 8], Some(false), ("s", "t")).verdict,
        Verdict::Regressed
    );
}

#[test]
fn a_change_within_the_minimum_effect_is_none() {
    // 0.8 % slower at a spread of 0.7 %: no shift is rejected, within 1 % is not.
    let measured = pair(&launches(24, 1e3), &launches(24, 1.008e3), Some(false), ("s", "s"));
    assert_ne!(measured.verdict, Verdict::Regressed);
    assert_eq!(measured.measured.unwrap().p_value, Some(1.0));
}

#[test]
fn several_sessions_weigh_their_own_spread() {
    let side = |levels: &[(&str, f64)]| {
        let mut side = Side::new();
        for index in 0..12 {
            let name = format!("g/f/{index}");
            for (session, level) in levels {
                add(
                    &mut side,
                    &name,
                    session,
                    &launches(8, level * (1.0 + 0.01 * f64::from(index))),
                );
            }
            side.set_host_bound(&BenchmarkId::new(name), false);
        }
        side
    };
    // Sessions of one side differ by 6 %; a difference of 5 % between the sides means nothing.
    let base = side(&[("a", 1e3), ("b", 1.06e3)]);
    let new = side(&[("c", 1.05e3), ("d", 1.11e3)]);
    let comparison = compare(&base, &new, &Options::default());
    assert_eq!(comparison.summary.regressed, 0);
    assert_eq!(comparison.summary.inconclusive, 12);
    // The same recorded in shared sessions: each session compares like with like.
    let new = side(&[("a", 1.05e3), ("b", 1.113e3)]);
    let comparison = compare(&base, &new, &Options::default());
    assert_eq!(comparison.summary.regressed, 12);
    // All of them: one line for the group instead of twelve (the strategy ties; the alphabet decides).
    assert_eq!(comparison.findings.len(), 1);
    assert_eq!(comparison.findings[0].label.to_string(), "group g");
    approx::assert_relative_eq!(comparison.findings[0].ratio, 1.05, epsilon = 1e-3);
}

#[test]
fn every_id_is_listed_once() {
    let (mut a, mut b) = (Side::new(), Side::new());
    for side in [&mut a, &mut b] {
        add(side, "g/both/v", "s", &launches(8, 1e3));
        add(side, "g/invalid/v", "s", &launches(8, 1e3));
        side.skip(&BenchmarkId::new("g/skipped/v"), "no managed memory");
    }
    add(&mut a, "g/old/v", "s", &launches(8, 1e3));
    add(&mut b, "g/young/v", "s", &launches(8, 1e3));
    add(&mut b, "g/invalid/v", "t", &[1.0, f64::NAN]);
    // What one driver can do and the other cannot, or not in time, is no benchmark that takes no part.
    add(&mut a, "h/refused/v", "s", &launches(8, 1e3));
    b.skip(&BenchmarkId::new("h/refused/v"), "not supported");
    a.skip(&BenchmarkId::new("h/learned/v"), "an iteration takes 80 ms");
    add(&mut b, "h/learned/v", "s", &launches(8, 1e3));
    let comparison = compare(&a, &b, &Options::default());
    let of = |name: &str| {
        let id = BenchmarkId::new(name);
        &comparison
            .benchmarks
            .iter()
            .find(|benchmark| benchmark.id == id)
            .unwrap()
            .verdict
    };
    assert_eq!(comparison.benchmarks.len(), 7);
    assert_eq!(*of("g/old/v"), Verdict::Missing { skipped_now: None });
    assert_eq!(*of("g/young/v"), Verdict::New { skipped_before: None });
    let reason = |text: &str| Some(text.to_owned());
    assert_eq!(
        *of("h/refused/v"),
        Verdict::Missing {
            skipped_now: reason("not supported")
        }
    );
    assert_eq!(
        *of("h/learned/v"),
        Verdict::New {
            skipped_before: reason("an iteration takes 80 ms")
        }
    );
    let Verdict::Skipped(reason) = of("g/invalid/v") else {
        panic!("invalid numbers compared")
    };
    assert_eq!(
        reason.to_string(),
        "invalid: launch 1 of session \"t\": sample 0: NaN is not a finite number"
    );
    let Verdict::Skipped(reason) = of("g/skipped/v") else {
        panic!("a skipped one compared")
    };
    assert_eq!(reason.to_string(), "skipped: no managed memory");
    let Summary {
        equivalent,
        new,
        missing,
        skipped,
        ..
    } = comparison.summary;
    assert_eq!((equivalent, new, missing, skipped), (1, 2, 2, 2));
    // g/old/v gone and g/young/v come, alike in all else.
    assert_eq!(comparison.renamings.len(), 1);
}

#[test]
fn a_launch_given_twice_is_invalid() {
    let mut side = Side::new();
    add(&mut side, "g/f/v", "s", &[1.0]);
    add(&mut side, "g/f/v", "s", &[1.0]);
    let (_, benchmark) = side.benchmarks().next().unwrap();
    assert_eq!(
        benchmark.skipped().unwrap().to_string(),
        "invalid: launch 0 of session \"s\" appears twice"
    );
}

#[test]
fn doubts_come_as_data() {
    let (mut a, mut b) = (Side::new(), Side::new());
    add(&mut a, "g/f/v", "s", &launches(4, 1e3));
    add(&mut b, "g/f/v", "t", &launches(12, 1e3));
    let key = LaunchKey {
        session: SessionId::new("t"),
        order: 99,
    };
    let flags = ["throttled".to_owned()];
    let raw = RawLaunch {
        iters: &[1.0],
        times_ns: &[1e3],
        probe_ns: None,
        flags: &flags,
    };
    b.add(&BenchmarkId::new("g/f/v"), &key, &raw);
    let warnings = compare(&a, &b, &Options::default()).warnings;
    let flagged = Warning::Flagged {
        flag: "throttled".to_owned(),
        base: 0,
        new: 1,
    };
    assert_eq!(
        warnings,
        [
            Warning::OneSession { benchmarks: 1 },
            Warning::UnequalLaunches { benchmarks: 1 },
            Warning::HostBoundUnknown { benchmarks: 1 },
            flagged,
        ]
    );
}

#[test]
fn options_out_of_range_are_refused() {
    assert_eq!(Options::new(-0.01, 0.05), Err(InvalidOptions::MinEffect(-0.01)));
    assert!(Options::new(f64::NAN, 0.05).is_err());
    assert_eq!(Options::new(0.01, 0.0), Err(InvalidOptions::FalseDiscoveryRate(0.0)));
    assert!(Options::new(0.0, 0.05).is_ok());
    let spread = SessionSpread {
        mixed: -1.0,
        ..SessionSpread::default()
    };
    assert!(Options::default().with_session_spread(spread).is_err());
}

/// Twenty host-bound benchmarks with probes, eight launches a side.
fn probed_sides(seed: u64) -> (Side, Side) {
    let mut random = seeded(seed);
    let cases: Vec<_> = (0..20)
        .map(|index| case(BenchmarkId::new(format!("g/f/{index}")), Kind::HostBound, &mut random))
        .collect();
    let (mut a, mut b) = (Side::new(), Side::new());
    for (side, order) in [(&mut a, 0), (&mut b, 100)] {
        let mut recording = Recording::new("s", 8, 0.25);
        (recording.probes, recording.first_order) = (true, order);
        record(side, &cases, &recording, &mut random);
    }
    (a, b)
}

#[test]
fn the_same_input_gives_the_same_output() {
    let (a, b) = probed_sides(3);
    assert_eq!(
        compare(&a, &b, &Options::default()),
        compare(&a, &b, &Options::default())
    );
    let plan = CalibrationPlan { splits: 5, seed: 1 };
    assert_eq!(
        calibrate(&a, &Options::default(), plan),
        calibrate(&a, &Options::default(), plan)
    );
}

#[test]
fn a_simulated_slowdown_is_found_and_counted() {
    let (a, mut b) = probed_sides(4);
    b.slow_down(&BenchmarkId::new("g/f/3"), 1.5);
    let comparison = compare(&a, &b, &Options::default());
    let regressed: Vec<&str> = comparison
        .benchmarks
        .iter()
        .filter(|benchmark| benchmark.verdict == Verdict::Regressed)
        .map(|benchmark| benchmark.id.as_str())
        .collect();
    assert_eq!(regressed, ["g/f/3"]);
    assert!(comparison.has_regression());
}

#[test]
fn a_proportion_has_clopper_and_pearson_s_interval() {
    // 0 of n: upper end 1 - 0.025^(1/n); n = 20: 1 - 0.025^0.05 = 0.1684.
    let none = Proportion { hits: 0, trials: 20 }.interval().unwrap();
    assert_eq!(none.lower, 0.0);
    approx::assert_abs_diff_eq!(none.upper, 0.1684, epsilon = 1e-4);
    assert_eq!(Proportion { hits: 0, trials: 0 }.interval(), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::with_cases(200) })]

    /// Any numbers whatever: an invalid benchmark is skipped, nothing panics, nothing is NaN.
    #[test]
    fn no_input_panics(
        base in prop::collection::vec(prop::collection::vec(any::<f64>(), 0..4), 0..10),
        new in prop::collection::vec(prop::collection::vec(1e-6f64..1e18, 1..4), 0..10),
        probes in prop::collection::vec(prop::collection::vec(0.0f64..1e3, 0..4), 10),
        host_bound in any::<Option<bool>>(),
    ) {
        let id = BenchmarkId::new("g/f/v");
        let mut sides = [Side::new(), Side::new()];
        for (side, launches) in sides.iter_mut().zip([base, new]) {
            for ((order, times_ns), syscall) in (0u64..).zip(&launches).zip(&probes) {
                let iters = vec![1.0; times_ns.len()];
                let key = LaunchKey { session: SessionId::new((order % 3).to_string()), order };
                let probe_ns = Some(RawProbe {
                    syscall,
                    ..RawProbe::default()
                });
                side.add(&id, &key, &RawLaunch { iters: &iters, times_ns, probe_ns, flags: &[] });
            }
            if let Some(host_bound) = host_bound {
                side.set_host_bound(&id, host_bound);
            }
        }
        let comparison = compare(&sides[0], &sides[1], &Options::default());
        for measured in comparison.benchmarks.iter().filter_map(|benchmark| benchmark.measured.as_ref()) {
            prop_assert!(measured.effect.ratio.is_finite() && measured.q_value.is_finite());
            prop_assert!(measured.p_value.is_none_or(|p| (0.0..=1.0).contains(&p)));
        }
        let _ = calibrate(&sides[1], &Options::default(), CalibrationPlan { splits: 3, seed: 1 });
    }
}
