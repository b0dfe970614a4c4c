//! False alarms, discoveries, coverage and power on synthetic suites of one shared session.
//!
//! `POOLBENCH_SUITES=10 cargo test --release --test stats_error_rates -- --nocapture` measures more
//! closely and prints the figures.
#![allow(missing_docs)]

mod noise;

use noise::scenario::Scenario;
use noise::tally::{Tally, assert_rarely_alarming};
use noise::{Model, suites};
use poolbench::stats::Class;

/// The mean slow shares of the procedure's scenarios a, b, b′ and d.
const WEATHER: [(f64, f64); 4] = [(0.25, 0.25), (0.10, 0.35), (0.35, 0.10), (0.20, 0.50)];

#[test]
fn unchanged_suites_raise_no_alarm_in_any_weather() {
    let tallies: Vec<Tally> = WEATHER
        .into_iter()
        .map(|slow| {
            Scenario {
                slow,
                ..Scenario::new(20, suites(50), 1)
            }
            .run()
        })
        .collect();
    assert_rarely_alarming(&tallies);
}

#[test]
fn unchanged_suites_with_probes_raise_no_alarm_in_any_weather() {
    let probed = |slow| {
        Scenario {
            slow,
            probes: true,
            ..Scenario::new(20, suites(50), 2)
        }
        .run()
    };
    let tallies: Vec<Tally> = WEATHER.into_iter().map(probed).collect();
    assert_rarely_alarming(&tallies);
}

#[test]
fn few_and_unequal_launches_raise_no_alarm() {
    let of = |launches, probes| {
        Scenario {
            launches,
            probes,
            ..Scenario::new(8, suites(40), 3)
        }
        .run()
    };
    let tallies: Vec<Tally> = [(4, 4), (8, 8), (8, 20), (24, 9)]
        .into_iter()
        .map(|launches| of(launches, true))
        .collect();
    assert_rarely_alarming(&tallies);
}

#[test]
fn a_common_shift_is_one_finding_and_no_single_alarm() {
    // All host-bound +3 %, mixed +0.9 % (within the minimum effect). The procedure declares it in
    // 55 % of suites at 20 launches without probes; with them the levels are quiet and still, and
    // nearly all are declared and established (79 of 80 measured).
    let common = |probes| {
        Scenario {
            common: 0.03,
            probes,
            ..Scenario::new(20, suites(80), 4)
        }
        .run()
    };
    let (plain, probed) = (common(false), common(true));
    assert_rarely_alarming(&[plain.clone(), probed.clone()]);
    // 44 ± 4.4 of 80 expected: 31 is three deviations below.
    assert!(plain.declared.hits * 80 >= 31 * plain.declared.trials);
    assert_eq!(
        plain.established.hits, 0,
        "without a probe nothing says that the host was still"
    );
    assert!(probed.established.hits * 40 >= 36 * probed.established.trials);
}

#[test]
fn power_without_probes_is_that_of_the_procedure() {
    // Section 5 at 20 launches: GPU-bound +3 % 100, host-bound +5 % 51, +10 % 93. 40 suites of five
    // changed benchmarks: ± 3.5 points (51 %) and ± 1.8 (93 %), more for what the benchmarks of a
    // suite share; three times that is allowed below, nothing above.
    let tally = Scenario {
        changed: true,
        ..Scenario::new(20, suites(40), 5)
    }
    .run();
    assert!(tally.found_percent(30, Class::GpuBound) >= 98.0);
    assert!(tally.found_percent(50, Class::HostBound) >= 51.0 - 10.5);
    assert!(tally.found_percent(100, Class::HostBound) >= 93.0 - 5.4);
    assert!(tally.false_discovery_percent() <= 5.0);
}

#[test]
fn probes_find_host_bound_changes_at_24_and_48_launches() {
    // Measured over 160 suites: +5 % 88 % at 24 launches and 98 % at 48, +10 % always; the model
    // leaves each benchmark a launch spread of its own of 2.3 % (log SD 0.35) that no probe tells.
    // 40 suites: ± 2.5 and ± 1.4 points, three times that allowed.
    let of = |launches| {
        Scenario {
            changed: true,
            probes: true,
            ..Scenario::new(launches, suites(40), 6)
        }
        .run()
    };
    let (short, long) = (of(24), of(48));
    assert!(short.found_percent(50, Class::HostBound) >= 77.0);
    assert!(short.found_percent(100, Class::HostBound) >= 98.0);
    assert!(long.found_percent(50, Class::HostBound) >= 90.0);
    for tally in [short, long] {
        assert!(tally.found_percent(30, Class::GpuBound) >= 98.0);
        assert!(tally.false_discovery_percent() <= 5.0);
    }
}

#[test]
fn intervals_of_independent_launches_cover() {
    // 93 to 97 % at six or more launches a side. 25 suites hold 1,125 GPU-bound, 750 mixed and
    // 1,675 host-bound benchmarks: ± 0.6, 0.8 and 0.5 points, and host-bound ones share the weather
    // of their launches, which doubles theirs; one point is allowed.
    for (launches, probes) in [(6, false), (6, true), (8, false), (12, false), (12, true), (24, true)] {
        let scenario = Scenario {
            probes,
            independent: true,
            ..Scenario::new(launches, suites(25), 7)
        };
        let tally = scenario.run();
        for class in [Class::GpuBound, Class::Mixed, Class::HostBound] {
            let covered = tally.covered[&class].percent();
            assert!(
                (92.0..=98.0).contains(&covered),
                "{launches} {probes} {class:?}: {covered:.1} %"
            );
        }
    }
}

/// Suites with the spread of the H200, recorded as `record` does.
fn h200(launches: usize, suites: usize, seed: u64) -> Scenario {
    Scenario {
        model: Model::H200,
        probes: true,
        turns: 10,
        ..Scenario::new(launches, suites, seed)
    }
}

#[test]
fn unseen_weather_raises_no_alarm() {
    let weather = WEATHER.into_iter().map(|slow| Scenario {
        slow,
        ..h200(24, suites(40), 8)
    });
    let few = [(4, 4), (8, 8), (8, 20)].into_iter().map(|launches| Scenario {
        launches,
        ..h200(8, suites(20), 8)
    });
    let tallies: Vec<Tally> = weather.chain(few).map(|scenario| scenario.run()).collect();
    assert_rarely_alarming(&tallies);
}

#[test]
fn process_levels_find_host_bound_changes_in_unseen_weather() {
    // Measured over 80 suites of turns at 24, 36 and 48 launches: +5 % 38, 59 and 74 %, +10 % 97, 99 and 100 %;
    // at 24 launches of one moment 12 and 63 %. 40 suites: ± 3.5 points, three times that allowed.
    for (launches, turns, five, ten) in [
        (24, 1, 2.0, 53.0),
        (24, 10, 28.0, 91.0),
        (36, 10, 49.0, 96.0),
        (48, 10, 64.0, 97.0),
    ] {
        let tally = Scenario {
            changed: true,
            turns,
            ..h200(launches, suites(40), 9)
        }
        .run();
        assert!(tally.found_percent(50, Class::HostBound) >= five);
        assert!(tally.found_percent(100, Class::HostBound) >= ten);
        assert!(tally.false_discovery_percent() <= 5.0);
    }
}

#[test]
fn an_unmoved_benchmark_among_many_moved_is_mostly_left_alone() {
    // Three quarters of the host-bound move, which the common shift takes for the host's. 7 of 160 suites
    // accuse an unmoved one at +3 and +5 %; with the guard at 95 % for all 33 of 160 did. A tenth is allowed:
    // 3.5 ± 1.8 against 8.
    let tallies = [0.03, 0.05].map(|most| {
        Scenario {
            most,
            ..h200(24, suites(40), 11)
        }
        .run()
    });
    let accused: usize = tallies.iter().map(|tally| tally.alarming.hits).sum();
    assert!(accused * 10 <= 2 * suites(40), "{accused} suites");
}

#[test]
fn intervals_in_unseen_weather_cover() {
    // As above; host-bound benchmarks share what the zeros of the levels are wrong by, which leaves a
    // suite's coverage all or nothing: two points are allowed.
    for launches in [6, 12, 24] {
        let tally = Scenario {
            independent: true,
            ..h200(launches, suites(40), 12)
        }
        .run();
        let covered = tally.covered[&Class::HostBound].percent();
        assert!((91.0..=99.0).contains(&covered), "{launches}: {covered:.1} %");
    }
}

#[test]
fn a_change_of_a_whole_group_is_found_as_one() {
    // A third of the host-bound move, all those of one process, as its weather might move them. Measured over 40
    // suites: that group and no other is declared in 20 at +5 %, in all at +10 %, of whose benchmarks 92 % are found
    // one by one. 20 ± 3.2, three times that allowed.
    for (group, declared, least) in [(0.05, 10, 0.0), (0.10, 37, 84.0)] {
        let tally = Scenario {
            group,
            ..h200(24, suites(40), 13)
        }
        .run();
        assert!(tally.group_found.hits * 40 >= declared * tally.group_found.trials);
        let per_mille = (1000.0 * f64::exp_m1(group)).round() as u32;
        assert!(tally.found_percent(per_mille, Class::HostBound) >= least);
        assert!(tally.false_discovery_percent() <= 5.0);
    }
}

#[test]
fn no_group_moves_where_nothing_or_everything_does() {
    // By chance one in twenty may, as of all intervals at 95 %.
    let of = |slow, common| {
        Scenario {
            slow,
            common,
            ..h200(24, suites(40), 14)
        }
        .run()
    };
    let tallies: Vec<Tally> = WEATHER
        .iter()
        .flat_map(|&slow| [of(slow, 0.0), of(slow, 0.03)])
        .collect();
    let declared: usize = tallies.iter().map(|tally| tally.group_declared.hits).sum();
    let trials: usize = tallies.iter().map(|tally| tally.group_declared.trials).sum();
    assert!(declared * 20 <= trials, "{declared} of {trials} suites");
    assert_rarely_alarming(&tallies);
}
