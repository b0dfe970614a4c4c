//! From the times and bytes of all combinations to a recommendation. Pure: numbers in, advice out.

use crate::stats::Median;
use serde::Serialize;

/// The confidence level of every interval.
pub const CONFIDENCE_LEVEL: f64 = 0.95;
/// A difference counts from this share of the faster one's time on.
pub const MINIMUM_EFFECT: f64 = 0.01;

/// One way to serve the trace, as measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// As `stream_ordered@max`.
    pub name: String,
    /// Whether it is what all others are compared with, and no way to serve a program whose requests are not
    /// known ahead.
    pub is_baseline: bool,
    /// Whether it is an allocator of the program's own, which somebody has to write or adopt.
    pub is_own_allocator: bool,
    /// `[rounds]`: time per event of a replay that follows another. Round i of all candidates belongs together.
    pub times_ns: Vec<f64>,
    /// `[rounds]`: the same of a replay that finds nothing allocated yet.
    pub first_times_ns: Vec<f64>,
    /// What is held once all is freed; `None` where nobody knows.
    pub held_bytes: Option<u64>,
    /// Allocations that found no memory: then it is no way to serve the trace.
    pub out_of_memory: u64,
}

/// A difference of two candidates' times per event, round by round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Median of the rounds' differences, in nanoseconds per event.
    pub median_ns: f64,
    /// Lower end of its interval; `None` for too few rounds.
    pub lower_ns: Option<f64>,
    /// Upper end.
    pub upper_ns: Option<f64>,
    /// Whether the whole interval is beyond the minimum effect.
    pub is_proven: bool,
}

impl Difference {
    /// How much longer `slow` takes than `fast`; `None` without a common round.
    #[must_use]
    pub fn of(slow: &[f64], fast: &[f64]) -> Option<Difference> {
        let differences = slow.iter().zip(fast).map(|(slow, fast)| slow - fast).collect();
        let difference = Median::of(differences, CONFIDENCE_LEVEL)?;
        let base = Median::of(fast.to_vec(), CONFIDENCE_LEVEL)?.point;
        let lower_ns = difference.interval.map(|interval| interval.lower);
        Some(Difference {
            median_ns: difference.point,
            lower_ns,
            upper_ns: difference.interval.map(|interval| interval.upper),
            is_proven: lower_ns.is_some_and(|lower| lower > base * MINIMUM_EFFECT),
        })
    }
}

/// What to do, by index into the candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The present one is proven slower.
    Change,
    /// Nothing is proven faster than the present one.
    Keep,
    /// The present one did not serve the trace, so there is nothing to compare with.
    NoComparison,
    /// Nothing served the trace.
    Nothing,
}

/// A candidate that holds less than the recommended one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Alternative {
    /// Index of the candidate.
    pub candidate: usize,
    /// How much less it holds, in bytes.
    pub held_less_bytes: u64,
    /// How much longer it takes.
    pub costs: Difference,
}

/// A recommendation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// What to do.
    pub verdict: Verdict,
    /// Index of the recommended candidate; `None` where nothing served the trace.
    pub recommended: Option<usize>,
    /// Index of the present one, where it was measured.
    pub present: Option<usize>,
    /// Where the recommended one is an allocator of the program's own: what to use without, and how much
    /// longer that takes.
    pub without_own_allocator: Option<(usize, Difference)>,
    /// How much longer the present one takes than the recommended one; `None` where they are the same.
    pub saves: Option<Difference>,
    /// How much longer the recommended one takes than the baseline: all that is left to win.
    pub over_baseline: Option<Difference>,
    /// Candidates that hold less, cheapest first, without those that another beats.
    pub alternatives: Vec<Alternative>,
    /// The candidate that is proven faster for a program that meets its allocator empty, and by how much.
    pub faster_at_first: Option<(usize, Difference)>,
}

/// Recommends: of all that are not proven slower than the fastest, the present one, else the one that
/// holds least.
#[must_use]
pub fn advise(candidates: &[Candidate], present: Option<usize>) -> Advice {
    let serves = |index: usize| {
        let candidate = &candidates[index];
        !candidate.is_baseline && candidate.out_of_memory == 0 && !candidate.times_ns.is_empty()
    };
    let able: Vec<usize> = (0..candidates.len()).filter(|index| serves(*index)).collect();
    let present = present.filter(|index| able.contains(index));
    let Some(recommended) = choose(candidates, &able, present) else {
        return Advice {
            verdict: Verdict::Nothing,
            recommended: None,
            present,
            without_own_allocator: None,
            saves: None,
            over_baseline: None,
            alternatives: Vec::new(),
            faster_at_first: None,
        };
    };
    let baseline = candidates.iter().position(|candidate| candidate.is_baseline);
    Advice {
        verdict: match present {
            None => Verdict::NoComparison,
            Some(present) if present == recommended => Verdict::Keep,
            Some(_) => Verdict::Change,
        },
        recommended: Some(recommended),
        present,
        without_own_allocator: without_own_allocator(candidates, &able, present, recommended),
        saves: present
            .filter(|present| *present != recommended)
            .and_then(|present| slower(candidates, present, recommended)),
        over_baseline: baseline.and_then(|baseline| slower(candidates, recommended, baseline)),
        alternatives: alternatives(candidates, &able, recommended),
        faster_at_first: faster_at_first(candidates, &able, recommended),
    }
}

/// How much longer `a` takes than `b`.
fn slower(candidates: &[Candidate], a: usize, b: usize) -> Option<Difference> {
    Difference::of(&candidates[a].times_ns, &candidates[b].times_ns)
}

fn choose(candidates: &[Candidate], able: &[usize], present: Option<usize>) -> Option<usize> {
    let time = |index: &usize| median(&candidates[*index].times_ns);
    let fastest = able.iter().copied().min_by(|a, b| time(a).total_cmp(&time(b)))?;
    let is_as_fast =
        |index: &usize| !slower(candidates, *index, fastest).is_some_and(|difference| difference.is_proven);
    if let Some(present) = present.filter(is_as_fast) {
        return Some(present);
    }
    let held = |index: &usize| candidates[*index].held_bytes.unwrap_or(u64::MAX);
    able.iter().copied().filter(is_as_fast).min_by_key(held)
}

fn without_own_allocator(
    candidates: &[Candidate],
    able: &[usize],
    present: Option<usize>,
    recommended: usize,
) -> Option<(usize, Difference)> {
    if !candidates[recommended].is_own_allocator {
        return None;
    }
    let is_driver = |index: &usize| !candidates[*index].is_own_allocator;
    let others: Vec<usize> = able.iter().copied().filter(is_driver).collect();
    let chosen = choose(candidates, &others, present.filter(is_driver))?;
    Some((chosen, slower(candidates, chosen, recommended)?))
}

fn median(values: &[f64]) -> f64 {
    Median::of(values.to_vec(), CONFIDENCE_LEVEL).map_or(f64::INFINITY, |median| median.point)
}

/// What holds less than the recommended one, without what is beaten by another that holds no more.
fn alternatives(candidates: &[Candidate], able: &[usize], recommended: usize) -> Vec<Alternative> {
    let Some(held) = candidates[recommended].held_bytes else {
        return Vec::new();
    };
    let mut found: Vec<Alternative> = able
        .iter()
        .filter_map(|&candidate| {
            let less = held.checked_sub(candidates[candidate].held_bytes?)?;
            let costs = Difference::of(&candidates[candidate].times_ns, &candidates[recommended].times_ns)?;
            (less > 0).then_some(Alternative {
                candidate,
                held_less_bytes: less,
                costs,
            })
        })
        .collect();
    // Whoever holds least of those between which no difference is proven speaks for them.
    let beaten = |one: &Alternative| {
        able.iter().any(|&other| {
            let held = |index: usize| (candidates[index].held_bytes.unwrap_or(u64::MAX), index);
            held(other) < held(one.candidate)
                && !slower(candidates, other, one.candidate).is_some_and(|difference| difference.is_proven)
        })
    };
    found.retain(|alternative| !beaten(alternative));
    found.sort_by(|a, b| a.costs.median_ns.total_cmp(&b.costs.median_ns));
    let mut most = 0;
    found.retain(|alternative| {
        let holds_less = alternative.held_less_bytes > most;
        most = most.max(alternative.held_less_bytes);
        holds_less
    });
    found
}

/// The fastest of the first replays, where the recommended one is proven slower.
fn faster_at_first(candidates: &[Candidate], able: &[usize], recommended: usize) -> Option<(usize, Difference)> {
    let first = |index: usize| &candidates[index].first_times_ns;
    let fastest = able
        .iter()
        .copied()
        .min_by(|a, b| median(first(*a)).total_cmp(&median(first(*b))))?;
    let difference = Difference::of(first(recommended), first(fastest))?;
    difference.is_proven.then_some((fastest, difference))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight rounds around a time: the interval of the median is then the smallest and the largest.
    fn around(time_ns: f64, spread_ns: f64) -> Vec<f64> {
        [-1.0, 0.6, -0.2, 0.2, 1.0, -0.6, 0.4, -0.4]
            .map(|share| time_ns + share * spread_ns)
            .to_vec()
    }

    fn candidate(name: &str, times_ns: Vec<f64>, held_bytes: u64) -> Candidate {
        Candidate {
            name: name.to_owned(),
            is_baseline: name == "hoisted",
            is_own_allocator: name == "arena",
            first_times_ns: times_ns.clone(),
            times_ns,
            held_bytes: Some(held_bytes),
            out_of_memory: 0,
        }
    }

    #[test]
    fn differences_are_taken_round_by_round() {
        // Both drift by 400 ns over the rounds, far more than the 10 ns between them; the rounds' differences
        // are 10 in each.
        let fast: Vec<f64> = (0..8).map(|round| 500.0 + 50.0 * f64::from(round)).collect();
        let slow: Vec<f64> = fast.iter().map(|time| time + 10.0).collect();
        let difference = Difference::of(&slow, &fast).expect("eight rounds");
        assert_eq!((difference.lower_ns, difference.upper_ns), (Some(10.0), Some(10.0)));
        // 1 % of the median of 500 to 850, 675, is 6.75: beyond it.
        assert!(difference.is_proven);
        let slow: Vec<f64> = fast.iter().map(|time| time + 6.0).collect();
        assert!(
            !Difference::of(&slow, &fast).expect("eight rounds").is_proven,
            "below 1 %"
        );
    }

    #[test]
    fn a_slower_present_is_changed_for_the_fastest() {
        let candidates = [
            candidate("hoisted", around(20.0, 1.0), 2000),
            candidate("sync", around(5000.0, 100.0), 0),
            candidate("stream_ordered@0", around(900.0, 10.0), 0),
            candidate("stream_ordered@max", around(600.0, 10.0), 3000),
        ];
        let advice = advise(&candidates, Some(1));
        assert_eq!((advice.verdict, advice.recommended), (Verdict::Change, Some(3)));
        let saves = advice.saves.expect("both were measured");
        // The rounds' spreads are in step, so differences go from 4400 - 90 to 4400 + 90.
        approx::assert_relative_eq!(saves.median_ns, 4400.0, epsilon = 1e-9);
        approx::assert_relative_eq!(saves.lower_ns.expect("eight rounds"), 4310.0, epsilon = 1e-9);
        assert!(saves.is_proven);
        // Threshold 0 holds 3000 bytes less for 300 ns; so does sync, which takes longer.
        assert_eq!(advice.alternatives.len(), 1);
        let alternative = advice.alternatives[0];
        assert_eq!((alternative.candidate, alternative.held_less_bytes), (2, 3000));
        approx::assert_relative_eq!(alternative.costs.median_ns, 300.0, epsilon = 1e-9);
        approx::assert_relative_eq!(advice.over_baseline.expect("hoisted").median_ns, 580.0, epsilon = 1e-9);
    }

    #[test]
    fn of_equals_the_present_stays_and_else_the_one_that_holds_least() {
        // Against each other in every round, so that no difference has one sign.
        let crossed = around(600.0, -10.0);
        let candidates = [
            candidate("sync", around(5000.0, 10.0), 0),
            candidate("stream_ordered@peak", crossed, 1000),
            candidate("stream_ordered@max", around(600.0, 10.0), 3000),
        ];
        let changed = advise(&candidates, Some(0));
        assert_eq!((changed.verdict, changed.recommended), (Verdict::Change, Some(1)));
        let kept = advise(&candidates, Some(2));
        assert_eq!(
            (kept.verdict, kept.recommended, kept.saves),
            (Verdict::Keep, Some(2), None)
        );
        // What holds less at no proven cost is said all the same.
        assert_eq!(kept.alternatives[0].candidate, 1);
        assert!(!kept.alternatives[0].costs.is_proven);
    }

    #[test]
    fn of_alternatives_that_are_equally_fast_the_one_that_holds_least_is_named() {
        let candidates = [
            candidate("stream_ordered@0", around(902.0, -20.0), 0),
            candidate("stream_ordered@half", around(900.0, 20.0), 1000),
            candidate("stream_ordered@peak", around(700.0, 5.0), 2000),
            candidate("stream_ordered@max", around(600.0, 5.0), 3000),
        ];
        let named: Vec<usize> = advise(&candidates, None)
            .alternatives
            .iter()
            .map(|a| a.candidate)
            .collect();
        // Half is 2 ns faster than 0 with differences from -38 to 42: not proven, so 0 speaks for both.
        assert_eq!(named, [2, 0]);
    }

    #[test]
    fn the_baseline_and_what_ran_out_of_memory_are_never_recommended() {
        let mut short = candidate("stream_ordered@max", around(100.0, 1.0), 0);
        short.out_of_memory = 1;
        let baseline = candidate("hoisted", around(10.0, 1.0), 0);
        let sync = candidate("sync", around(5000.0, 10.0), 0);
        let advice = advise(&[baseline.clone(), short.clone(), sync], Some(1));
        assert_eq!((advice.verdict, advice.recommended), (Verdict::NoComparison, Some(2)));
        let advice = advise(&[baseline, short], Some(1));
        assert_eq!((advice.verdict, advice.recommended), (Verdict::Nothing, None));
    }

    #[test]
    fn an_allocator_of_the_programs_own_comes_with_what_the_driver_has() {
        let candidates = [
            candidate("arena", around(50.0, 1.0), 4000),
            candidate("sync", around(5000.0, 10.0), 0),
            candidate("stream_ordered@max", around(600.0, 10.0), 3000),
        ];
        let advice = advise(&candidates, Some(1));
        assert_eq!(advice.recommended, Some(0));
        let (driver, difference) = advice.without_own_allocator.expect("an arena");
        assert_eq!(driver, 2);
        approx::assert_relative_eq!(difference.median_ns, 550.0, epsilon = 1e-9);
    }

    #[test]
    fn too_few_rounds_prove_nothing() {
        let candidates = [
            candidate("sync", vec![5000.0; 5], 0),
            candidate("stream_ordered@max", vec![600.0; 5], 3000),
        ];
        let advice = advise(&candidates, Some(0));
        assert_eq!((advice.verdict, advice.recommended), (Verdict::Keep, Some(0)));
    }

    #[test]
    fn a_first_replay_may_have_another_winner() {
        let mut pool = candidate("stream_ordered@max", around(600.0, 10.0), 3000);
        pool.first_times_ns = around(9000.0, 10.0);
        let sync = candidate("sync", around(5000.0, 10.0), 0);
        let advice = advise(&[sync, pool], Some(0));
        assert_eq!(advice.recommended, Some(1));
        let (faster, difference) = advice.faster_at_first.expect("sync is faster at first");
        assert_eq!(faster, 0);
        approx::assert_relative_eq!(difference.median_ns, 4000.0, epsilon = 1e-9);
    }
}
