//! Suites recorded in sessions that shift: what launches alone would call a change.
#![allow(missing_docs)]

mod noise;

use noise::scenario::{Scenario, SessionShift};
use noise::tally::{Tally, assert_rarely_alarming};
use noise::{Model, suites};
use poolbench::stats::Class;

const SHIFTS: [(SessionShift, bool); 5] = [
    (SessionShift::Wide { probe_follows: true }, true),
    (SessionShift::Wide { probe_follows: false }, true),
    (SessionShift::Wide { probe_follows: false }, false),
    (SessionShift::Wild, true),
    (SessionShift::Narrow, false),
];

fn scenario(sessions: usize, launches: usize, (shift, probes): (SessionShift, bool)) -> Scenario {
    Scenario {
        sessions: (sessions, sessions),
        shift,
        probes,
        ..Scenario::new(launches, suites(20), 10 + sessions as u64)
    }
}

#[test]
fn one_session_a_side_suspects_but_never_accuses() {
    let tallies: Vec<Tally> = SHIFTS.into_iter().map(|shift| scenario(1, 24, shift).run()).collect();
    assert_rarely_alarming(&tallies);
    // Half of the suite is host-bound. Sessions that shift by 5 to 25 % make a good part of it
    // suspect (30 and 15 % of all benchmarks measured); where the probe follows, hardly any (0.1 %).
    assert!(tallies[0].suspected.percent() < 2.0);
    assert!(tallies[1].suspected.percent() > 10.0);
    assert!(tallies.iter().all(|tally| tally.established.hits == 0));
}

#[test]
fn several_sessions_a_side_raise_no_alarm() {
    let layouts = [(2, 12), (4, 12)].into_iter();
    let all = layouts.flat_map(|layout| SHIFTS.into_iter().map(move |shift| (layout, shift)));
    let tallies: Vec<Tally> = all
        .map(|((sessions, launches), shift)| scenario(sessions, launches, shift).run())
        .collect();
    assert_rarely_alarming(&tallies);
    assert!(tallies.iter().all(|tally| tally.suspected.hits == 0));
    // An established common shift ends in exit code 1 too, and is as rare. Two sessions a side never
    // have one: where sessions jump up or down by 15 % and the probe notices nothing (Wild), they
    // would in 13 % of suites.
    let (two, four) = tallies.split_at(SHIFTS.len());
    assert!(two.iter().all(|tally| tally.established.hits == 0));
    let established: usize = four.iter().map(|tally| tally.established.hits).sum();
    assert!(established * 20 <= four.len() * suites(20), "{established} established");
}

/// A filter left four benchmarks of a kind: too few for their scatter to say how sessions differ, so that one pair of
/// sessions that agrees must not pass for no spread.
#[test]
fn few_benchmarks_of_few_sessions_raise_no_alarm() {
    let few = |sessions: (usize, usize), shift| Scenario {
        sessions,
        cases_max: 4,
        suites: suites(100),
        ..scenario(2, 12, shift)
    };
    for sessions in [(2, 1), (1, 2), (2, 2), (3, 1)] {
        let tallies: Vec<Tally> = SHIFTS.into_iter().map(|shift| few(sessions, shift).run()).collect();
        assert_rarely_alarming(&tallies);
    }
    // What the GPU does is found all the same: its sessions are assumed to differ by 0.3 %.
    let changed = |shift| Scenario {
        changed: true,
        cases_max: 12,
        ..few((2, 1), shift)
    };
    let tally = changed(SHIFTS[4]).run();
    assert!(tally.found_percent(30, Class::GpuBound) >= 90.0);
}

#[test]
fn three_sessions_a_side_establish_a_common_shift() {
    let common = |common, shift| Scenario {
        common,
        ..scenario(3, 16, shift)
    };
    let unchanged = common(0.0, SHIFTS[3]).run();
    assert!(
        unchanged.established.hits * 5 <= unchanged.established.trials,
        "{unchanged:?}"
    );
    // The probe must be still, so sessions that move it are no case.
    let slower = common(0.10, (SessionShift::Narrow, true)).run();
    assert!(slower.established.hits * 10 >= 8 * slower.established.trials);
}

#[test]
fn one_session_still_finds_what_the_gpu_does() {
    let scenario = Scenario {
        changed: true,
        ..scenario(1, 24, SHIFTS[2])
    };
    let tally = scenario.run();
    // (3 % - 1 %) against an assumed spread of √2 · 0.3 %: more than four deviations.
    assert!(tally.found_percent(30, Class::GpuBound) >= 95.0);
    assert_eq!(tally.found_percent(50, Class::HostBound), 0.0);
    assert_eq!(tally.found_percent(100, Class::HostBound), 0.0);
}

#[test]
fn several_sessions_find_changes_where_the_probe_follows() {
    // Measured over 80 suites at 2 × 24 and 4 × 12: +5 % 64 and 87 %, +10 % 100 %.
    // 20 suites of five: ± 5 and ± 3 points, three times that allowed.
    let of = |sessions, launches| {
        Scenario {
            changed: true,
            ..scenario(sessions, launches, SHIFTS[0])
        }
        .run()
    };
    let (two, four) = (of(2, 24), of(4, 12));
    assert!(two.found_percent(50, Class::HostBound) >= 49.0);
    assert!(four.found_percent(50, Class::HostBound) >= 78.0);
    for tally in [two, four] {
        assert!(tally.found_percent(100, Class::HostBound) >= 97.0);
        assert!(tally.found_percent(30, Class::GpuBound) >= 97.0);
        assert!(tally.false_discovery_percent() <= 5.0);
    }
}

/// Two sessions a side of suites with the spread of the H200, recorded as `record` does.
fn h200(launches: usize, shift: (SessionShift, bool)) -> Scenario {
    Scenario {
        model: Model::H200,
        turns: 10,
        suites: suites(40),
        ..scenario(2, launches, shift)
    }
}

#[test]
fn groups_of_several_sessions_raise_no_alarm() {
    let tallies: Vec<Tally> = SHIFTS.into_iter().map(|shift| h200(12, shift).run()).collect();
    assert_rarely_alarming(&tallies);
    assert!(tallies.iter().all(|tally| tally.group_established.hits == 0));
}

#[test]
fn a_group_that_moved_is_not_taken_for_the_host() {
    let tally = Scenario {
        group: 0.10,
        ..h200(24, (SessionShift::Narrow, true))
    }
    .run();
    // 72 % of its benchmarks are found one by one (20 suites), which share what their process moved by: 20 points
    // are allowed.
    assert!(tally.found_percent(105, Class::HostBound) >= 52.0);
    assert!(tally.false_discovery_percent() <= 5.0);
}
