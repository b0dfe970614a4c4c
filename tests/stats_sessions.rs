//! Suites recorded in sessions that shift: what launches alone would call a change.
#![allow(missing_docs)]

mod noise;

use noise::scenario::{Scenario, SessionShift};
use noise::tally::{Tally, assert_rarely_alarming};
use noise::{Model, normal, seeded, suites};
use poolbench::stats::*;
use rand::RngExt;
use rand::rngs::StdRng;
use std::ops::RangeInclusive;

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

/// Benchmarks `g/f0/4KiB`, `g/f1/4KiB`, ... of one kind.
#[derive(Debug, Clone, Copy)]
struct Plain {
    count: usize,
    host_bound: bool,
    /// Standard deviations between launches and of each benchmark between sessions. *Unit* natural logarithms.
    launch_sd: f64,
    session_sd: f64,
}

fn id(index: usize) -> BenchmarkId {
    BenchmarkId::new(format!("g/f{index}/4KiB"))
}

impl Plain {
    /// Returns a side of sessions with these launches, its first benchmark slower by `first`.
    fn side(&self, name: &str, sessions: &[usize], first: f64, random: &mut StdRng) -> Side {
        let mut side = Side::new();
        for index in 0..self.count {
            for (session, &launches) in sessions.iter().enumerate() {
                let level = 7.0 + if index == 0 { first } else { 0.0 } + self.session_sd * normal(random);
                for order in 0..launches as u64 {
                    let key = LaunchKey {
                        session: SessionId::new(format!("{name}{session:04}")),
                        order,
                    };
                    let raw = RawLaunch {
                        iters: &[1.0],
                        times_ns: &[(level + self.launch_sd * normal(random)).exp()],
                        probe_ns: None,
                        flags: &[],
                    };
                    side.add(&id(index), &key, &raw);
                }
            }
            side.set_host_bound(&id(index), self.host_bound);
        }
        side
    }

    /// Returns the comparison of sides of these sessions.
    fn compared(&self, sessions: (&[usize], &[usize]), first: f64, seed: u64) -> Comparison {
        let mut random = seeded(seed);
        let base = self.side("a", sessions.0, 0.0, &mut random);
        let new = self.side("b", sessions.1, first, &mut random);
        compare(&base, &new, &Options::default())
    }

    /// Returns the verdict on the first benchmark.
    fn verdict(&self, sessions: (&[usize], &[usize]), first: f64) -> Verdict {
        self.compared(sessions, first, 1).benchmarks[0].verdict.clone()
    }

    /// Returns the comparison of unchanged sides that share these sessions.
    fn interleaved(&self, sessions: &[usize], seed: u64) -> Comparison {
        let mut random = seeded(seed);
        let sides = [(); 2].map(|()| self.side("s", sessions, 0.0, &mut random));
        compare(&sides[0], &sides[1], &Options::default())
    }

    /// Returns the share of 60 unchanged suites that alarm, and of intervals that miss 1.
    fn unchanged(&self, sessions: &[usize]) -> (Proportion, Proportion) {
        tally((0..60).map(|seed| self.compared((sessions, sessions), 0.0, seed)))
    }
}

/// Returns the share of comparisons that alarm, and of intervals that miss 1.
fn tally(comparisons: impl Iterator<Item = Comparison>) -> (Proportion, Proportion) {
    let none = Proportion { hits: 0, trials: 0 };
    let (mut alarming, mut missing) = (none, none);
    for comparison in comparisons {
        alarming.hits += usize::from(comparison.summary.regressed + comparison.summary.improved > 0);
        alarming.trials += 1;
        let intervals = comparison
            .benchmarks
            .iter()
            .filter_map(|b| b.measured.as_ref()?.effect.interval);
        for interval in intervals {
            missing.hits += usize::from(interval.lower > 1.0 || interval.upper < 1.0);
            missing.trials += 1;
        }
    }
    (alarming, missing)
}

/// Asserts that of unchanged suites of these sessions so many alarm at most, and that so many intervals miss 1.
fn assert_sound(
    sessions: &[usize],
    (alarming, missing): (Proportion, Proportion),
    alarms_max: usize,
    misses: RangeInclusive<f64>,
) {
    assert!(alarming.hits <= alarms_max, "{sessions:?}: {alarming:?}");
    assert!(misses.contains(&missing.share().unwrap()), "{sessions:?}: {missing:?}");
}

const HOST_BOUND: Plain = Plain {
    count: 30,
    host_bound: true,
    launch_sd: 0.02,
    session_sd: 0.0,
};

/// Between sessions of fewer than four launches there is no interval, yet eight of them tell how they differ.
#[test]
fn short_sessions_tell_how_they_differ() {
    assert_eq!(HOST_BOUND.verdict((&[3; 8], &[3; 8]), 0.3), Verdict::Regressed);
    assert_eq!(HOST_BOUND.verdict((&[1; 24], &[1; 24]), 0.3), Verdict::Regressed);
    // Eight mixed benchmarks whose sessions differ by 5 %, where 1 % is assumed: with 1 % alone 15 of 60 suites alarm,
    // and 22 % of the intervals miss. Measured: none, and 2 to 4 %; 480 intervals: ± 1 %.
    let mixed = Plain {
        count: 8,
        host_bound: false,
        launch_sd: 0.01,
        session_sd: 0.05,
    };
    for sessions in [&[3; 8][..], &[1; 24]] {
        assert_sound(sessions, mixed.unchanged(sessions), 3, 0.01..=0.07);
    }
}

/// What a recording that was interrupted leaves behind makes two sessions of one, and hid every change.
#[test]
fn a_session_of_few_launches_hides_nothing_and_proves_nothing() {
    let one = HOST_BOUND.verdict((&[24], &[24]), 0.3);
    assert!(matches!(one, Verdict::Suspected { .. }));
    for new in [[21, 3], [23, 1], [19, 5]] {
        assert_eq!(HOST_BOUND.verdict((&[24], &new), 0.3), one, "{new:?}");
    }
    // Half as many launches as the other has make a session.
    assert_eq!(HOST_BOUND.verdict((&[16, 8], &[16, 8]), 0.3), Verdict::Regressed);
    // The shift of a session counts by its launches: 43 and 5 are as good as 1.2 sessions, and counted as two let 10
    // of 80 suites alarm, and 12.7 % of the intervals miss.
    let mixed = Plain {
        count: 8,
        host_bound: false,
        launch_sd: 0.01,
        session_sd: 0.02,
    };
    assert_sound(&[43, 5], mixed.unchanged(&[43, 5]), 3, 0.0..=0.07);
}

/// Each session is looked at once, not each pair of them through all launches: that took some 20 s, and this takes one.
/// What is left is quadratic in the launches, whose pairs the estimate sorts.
#[test]
fn thousands_of_sessions_take_a_second() {
    let one = Plain { count: 1, ..HOST_BOUND };
    let start = std::time::Instant::now();
    assert_eq!(one.verdict((&[1; 2500], &[1; 2500]), 0.3), Verdict::Regressed);
    assert!(start.elapsed().as_secs() < 8, "{:?}", start.elapsed());
}

/// Below ten benchmarks of a class Student's quantile pays for few sessions, and the proposal must know it.
#[test]
fn the_sessions_that_are_proposed_settle_it() {
    let few = Plain { count: 5, ..HOST_BOUND };
    let with = |sessions: usize| few.verdict((&vec![24; sessions], &vec![24; sessions]), 0.3);
    // ln 1.35 against √(2/s) · 8 %, at 0.05/5: 5.1 deviations at four sessions, where Student's 99.5 % quantile for six
    // degrees of freedom is 3.7; 4.4 at three, where that for four is 4.6. By a normal quantile two would do.
    let suspected = Verdict::Suspected {
        sessions_needed: Some(4),
    };
    assert_eq!(with(1), suspected);
    assert_eq!(with(2), suspected);
    assert_eq!(with(3), suspected);
    assert_eq!(with(4), Verdict::Regressed);
}

/// Levels that are taken out of short sessions cost degrees of freedom, which ranks of all sessions together do not see.
#[test]
fn short_shared_sessions_raise_no_alarm() {
    let wide = Plain {
        count: 60,
        host_bound: false,
        launch_sd: 0.08,
        session_sd: 0.0,
    };
    for sessions in [&[2; 12][..], &[4; 6]] {
        // All sessions ranked together: 12.8 and 8.3 % of the intervals miss. 1,200 intervals: ± 0.6 %.
        let tally = tally((0..20).map(|seed| wide.interleaved(sessions, seed)));
        assert_sound(sessions, tally, 2, 0.02..=0.07);
    }
}

/// Student's quantile for one degree of freedom at 0.05/9 is 115, of a spread of √1.5 · 8 %: e¹¹.
#[test]
fn no_absurd_effect_is_promised() {
    let few = Plain { count: 9, ..HOST_BOUND };
    let comparison = few.compared((&[24, 24], &[24]), 0.0, 1);
    for benchmark in comparison.benchmarks {
        assert_eq!(benchmark.measured.unwrap().minimal_detectable_effect, None);
    }
}

/// A launch alone in its session is in one half of a split, which then does not share its sessions with the other.
#[test]
fn calibration_leaves_out_launches_alone_in_their_session() {
    let side = HOST_BOUND.side("s", &[20, 1], 0.0, &mut seeded(1));
    let plan = CalibrationPlan { splits: 20, seed: 1 };
    let calibration = calibrate(&side, &Options::default(), plan);
    for benchmark in calibration.benchmarks {
        // Ten launches a half that spread by 2 %, of which a lone change among 30 must be told: about 6 %.
        let detectable = benchmark.minimal_detectable_effect_halves.unwrap();
        assert!((0.03..0.12).contains(&detectable), "{detectable}");
    }
}

/// Where more than half of the host-bound launches are slow only +50 % is believed: no less can be detected.
#[test]
fn a_noisy_host_detects_large_effects_only() {
    let mut random = seeded(1);
    let mut noisy = || {
        let mut side = Side::new();
        for order in 0..48 {
            for index in 0..30 {
                let slow = if random.random_bool(0.6) { 0.25 } else { 0.0 };
                let raw = RawLaunch {
                    iters: &[1.0],
                    times_ns: &[(7.0 + slow + 0.005 * normal(&mut random)).exp()],
                    probe_ns: None,
                    flags: &[],
                };
                let session = SessionId::new("s");
                side.add(&id(index), &LaunchKey { session, order }, &raw);
                side.set_host_bound(&id(index), true);
            }
        }
        side
    };
    let (base, new) = (noisy(), noisy());
    let comparison = compare(&base, &new, &Options::default());
    assert!(comparison.slow_share.unwrap().is_noisy());
    let effects = comparison
        .benchmarks
        .iter()
        .filter_map(|benchmark| benchmark.measured.as_ref()?.minimal_detectable_effect);
    assert!(effects.into_iter().all(|effect| effect > 0.5));
    let calibration = calibrate(&base, &Options::default(), CalibrationPlan { splits: 10, seed: 1 });
    let effects = calibration
        .benchmarks
        .iter()
        .filter_map(|benchmark| benchmark.minimal_detectable_effect);
    assert!(effects.into_iter().all(|effect| effect > 0.5));
}

/// Returns a side of one session on a host whose probe and whose driver calls take this much longer: 40 benchmarks in
/// four groups, of which two make 1.8 of the host's speed and two 0.9, the first of all slower by `first`.
fn on_host(name: &str, probe: f64, driver: f64, first: f64, random: &mut StdRng) -> Side {
    let mut side = Side::new();
    for order in 0..24 {
        // The same on every host, so that a probe that was not moved stands still.
        let speed = 0.2 * ((7 * order % 24) as f64 / 24.0 - 0.5);
        for index in 0..40 {
            let id = BenchmarkId::new(format!("g{}/f{index}/4KiB", index % 4));
            let slope = if index % 4 < 2 { 1.8 } else { 0.9 };
            let own = if index == 0 { first } else { 0.0 };
            let probe_ns = [(11.0 + speed + probe).exp()];
            let raw = RawLaunch {
                iters: &[1.0],
                times_ns: &[(7.0 + slope * (speed + driver) + own + 0.02 * normal(random)).exp()],
                probe_ns: Some(RawProbe {
                    syscall: &probe_ns,
                    user: &probe_ns,
                    memory: &[],
                }),
                flags: &[],
            };
            let session = SessionId::new(name);
            side.add(&id, &LaunchKey { session, order }, &raw);
            side.set_host_bound(&id, true);
        }
    }
    side
}

/// From one host to another the probe moves by more than a driver does: system calls of two H200 machines differed by
/// 45 %, driver calls by 10 to 20 %, as the slopes have it.
#[test]
fn a_probe_that_misjudges_the_host_suspects_nobody() {
    let compared = |probe: f64, first: f64| {
        let mut random = seeded(1);
        let base = on_host("a", 0.0, 0.0, 0.0, &mut random);
        let new = on_host("b", probe, -0.1, first, &mut random);
        compare(&base, &new, &Options::default())
    };
    let comparison = compared(-0.2, 0.0);
    let shift = comparison.common_shift.unwrap();
    assert_eq!(shift.correction, Correction::InProportion);
    // The probe takes out 0.1 too much: e^(0.1 · 1.35) between the groups.
    assert!((shift.effect.ratio - 1.145).abs() < 0.02, "{shift:?}");
    assert_eq!((comparison.summary.suspected, comparison.group_shifts.len()), (0, 0));
    // What one of them does beside the others still shows.
    let comparison = compared(-0.2, 0.3);
    assert_eq!(comparison.summary.suspected, 1);
    assert!(matches!(comparison.benchmarks[0].verdict, Verdict::Suspected { .. }));
    // A probe that stood still misjudges nothing: then the driver may be what moved.
    let comparison = compared(0.0, 0.0);
    assert_eq!(comparison.common_shift.unwrap().correction, Correction::MovedApart);
    assert_eq!(comparison.summary.suspected, 40);
}

/// Of what the device paces a few differ from card to card by more than their class does: 4 % in graphs of 64 KiB, and
/// two cards of each kind can be one on each side.
#[test]
fn a_card_that_differs_in_one_benchmark_regresses_nothing() {
    let side = |sessions: [&str; 2], slower: [f64; 2], random: &mut StdRng| {
        let mut side = Side::new();
        for index in 0..30 {
            for (session, slower) in sessions.iter().zip(slower) {
                let level = 7.0 + 0.006 * normal(random) + if index == 0 { slower } else { 0.0 };
                for order in 0..24 {
                    let raw = RawLaunch {
                        iters: &[1.0],
                        times_ns: &[(level + 0.004 * normal(random)).exp()],
                        probe_ns: None,
                        flags: &[],
                    };
                    let session = SessionId::new(*session);
                    side.add(&id(index), &LaunchKey { session, order }, &raw);
                }
            }
            side.set_host_bound(&id(index), false);
        }
        side
    };
    let alarms = |slower: f64| {
        let suites = (0..20).map(|seed| {
            let mut random = seeded(seed);
            let base = side(["a", "b"], [0.0; 2], &mut random);
            let new = side(["c", "d"], [slower; 2], &mut random);
            compare(&base, &new, &Options::default()).summary.regressed
        });
        suites.filter(|&regressed| regressed > 0).count()
    };
    // 4 % less the 1 % that counts are five deviations, of which a normal quantile is sure, as it was on the real
    // cards, and Student's for six degrees of freedom (0.0024) is not, at 0.05/30; of the fifteen of 10 % it is.
    assert!(alarms(0.04) <= 6, "{}", alarms(0.04));
    assert!(alarms(0.10) >= 18, "{}", alarms(0.10));
}
