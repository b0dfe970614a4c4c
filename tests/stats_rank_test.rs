//! The rank test against enumeration, examples worked by hand, and properties.
#![allow(missing_docs)]

use approx::{assert_abs_diff_eq, assert_relative_eq};
use poolbench::stats::{NullDistribution, NullDistributions, RankTest, Scores, minimum_launches};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const ALL_SCORES: [Scores; 3] = [Scores::LowerHalf, Scores::LowerThreeQuarters, Scores::All];

/// Every value of T over all choices of `m` of `n + m` ranks, one entry per choice.
fn enumerate(n: usize, m: usize, scores: Scores) -> Vec<usize> {
    let total = n + m;
    let k = scores.scored_ranks(total);
    (0u32..1 << total)
        .filter(|choice| choice.count_ones() as usize == m)
        .map(|choice| {
            let ranks = (1..=total).filter(|rank| choice >> (rank - 1) & 1 == 1);
            ranks.map(|rank| (k + 1).saturating_sub(rank)).sum()
        })
        .collect()
}

#[test]
fn null_distribution_equals_enumeration() {
    for scores in ALL_SCORES {
        for n in 1..=7 {
            for m in 1..=7 {
                let values = enumerate(n, m, scores);
                let null = NullDistribution::new(n, m, scores);
                assert_eq!(null.min(), *values.iter().min().unwrap(), "{n} {m} {scores:?}");
                assert_eq!(null.max(), *values.iter().max().unwrap(), "{n} {m} {scores:?}");
                for u in 0..=null.max() + 1 {
                    let part = |holds: &dyn Fn(usize) -> bool| {
                        values.iter().filter(|&&t| holds(t)).count() as f64 / values.len() as f64
                    };
                    assert_relative_eq!(null.lower_tail(u), part(&|t| t <= u), epsilon = 1e-12);
                    assert_relative_eq!(null.upper_tail(u), part(&|t| t >= u), epsilon = 1e-12);
                }
            }
        }
    }
}

#[test]
fn mean_is_that_of_the_enumeration() {
    for scores in ALL_SCORES {
        for (n, m) in [(3, 5), (4, 4), (6, 3)] {
            let values = enumerate(n, m, scores);
            let null = NullDistribution::new(n, m, scores);
            let sum: usize = values.iter().sum();
            for u in 0..=null.max() {
                assert_eq!(null.compare_to_mean(u), (u * values.len()).cmp(&sum));
            }
        }
    }
}

/// Mean and standard deviation of T for lower-half scores.
fn standard(n: usize, m: usize) -> (f64, f64) {
    let (total, k) = ((n + m) as f64, ((n + m) / 2) as f64);
    let mean_score = k * (k + 1.0) / 2.0 / total;
    let squares = k * (k + 1.0) * (2.0 * k + 1.0) / 6.0 - total * mean_score * mean_score;
    let mean = m as f64 * mean_score;
    (mean, ((n * m) as f64 / (total * (total - 1.0)) * squares).sqrt())
}

#[test]
fn normal_tails_continue_the_exact_ones() {
    // 140 + 140 launches are counted out, 142 + 142 are not. Four launches in 280 move mean and SD of
    // T by about two per cent: at the same distance from the mean, in SDs, the tails must agree
    // to within 0.005 around the middle, and to within a quarter of the tail at three SDs, where a
    // normal curve is that far from a sum of bounded scores.
    let exact = NullDistribution::new(140, 140, Scores::LowerHalf);
    let normal = NullDistribution::new(142, 142, Scores::LowerHalf);
    let ((exact_mean, exact_sd), (mean, sd)) = (standard(140, 140), standard(142, 142));
    for z in [-3.0f64, -2.0, -1.0, 0.0, 1.0] {
        let a = exact.lower_tail((exact_mean + z * exact_sd).round() as usize);
        let b = normal.lower_tail((mean + z * sd).round() as usize);
        assert_abs_diff_eq!(a, b, epsilon = (0.25 * a).min(0.005));
    }
}

#[test]
fn unequal_sides_are_counted_out_however_many_the_launches() {
    // Counted out in NumPy. Where a normal curve's tail reaches 1.05e-4 (one change among 240 benchmarks) beside 192
    // launches, 24 have 2.2420e-4 above and 2.4521e-6 below: T is skew.
    let z = 3.707; // Normal quantile of 1 - 1.05e-4.
    let (mean, sd) = standard(192, 24);
    let null = NullDistribution::new(192, 24, Scores::LowerHalf);
    let above = null.upper_tail((mean + z * sd + 0.5).ceil() as usize);
    let below = null.lower_tail((mean - z * sd - 0.5).floor() as usize);
    assert_relative_eq!(above, 2.2420e-4, max_relative = 1e-3);
    assert_relative_eq!(below, 2.4521e-6, max_relative = 1e-3);
    // From the other side the same, mirrored.
    let mirrored = NullDistribution::new(24, 192, Scores::LowerHalf);
    for u in [0, 100, 1000, 3000] {
        let most = mirrored.max();
        assert_relative_eq!(
            mirrored.lower_tail(most - u),
            null.upper_tail(null.min() + u),
            epsilon = 1e-12
        );
    }
}

#[test]
fn strata_are_permuted_each_on_its_own() {
    // All choices in one stratum with all in the other, and in the third.
    let strata = [(2, 3), (1, 1), (3, 2)];
    for scores in ALL_SCORES {
        let mut sums = vec![0];
        for (n, m) in strata {
            let values = enumerate(n, m, scores);
            sums = sums
                .iter()
                .flat_map(|sum| values.iter().map(move |value| sum + value))
                .collect();
        }
        let null = NullDistribution::of_strata(&strata, scores);
        assert_eq!(
            (null.min(), null.max()),
            (*sums.iter().min().unwrap(), *sums.iter().max().unwrap())
        );
        for u in 0..=null.max() {
            let part =
                |holds: &dyn Fn(usize) -> bool| sums.iter().filter(|&&t| holds(t)).count() as f64 / sums.len() as f64;
            assert_relative_eq!(null.lower_tail(u), part(&|t| t <= u), epsilon = 1e-12);
            assert_relative_eq!(null.upper_tail(u), part(&|t| t >= u), epsilon = 1e-12);
        }
    }
    // Six strata of a launch a side are a sign test: all six the same way, 2 · 1/64.
    let pairs = (0..6).map(|index| (vec![f64::from(index)], vec![f64::from(index) + 1.0]));
    let test = RankTest::stratified(pairs, Scores::LowerHalf, &mut NullDistributions::default()).unwrap();
    assert_relative_eq!(test.p_value(0.0, 0.0).unwrap(), 2.0 / 64.0, epsilon = 1e-12);
    assert_eq!(test.invert().estimate(), 1.0);
}

#[test]
fn minimum_launches_of_the_procedure() {
    // The most extreme T at n a side has probability 1/C(2n, n), two-sided twice that:
    // 2/3432 = 5.83e-4 at 7, at most 0.05/85 = 5.88e-4 but above 0.05/86 = 5.81e-4;
    // 2/12870 = 1.554e-4 at 8, at most 0.05/321 = 1.558e-4 but above 0.05/322 = 1.553e-4.
    assert_eq!(minimum_launches(85, 0.05), 7);
    assert_eq!(minimum_launches(86, 0.05), 8);
    assert_eq!(minimum_launches(321, 0.05), 8);
    assert_eq!(minimum_launches(322, 0.05), 9);
    // One benchmark: 2/C(8, 4) = 0.029 at 4, 2/C(6, 3) = 0.1 at 3.
    assert_eq!(minimum_launches(1, 0.05), 4);
}

fn test_of(base: &[f64], new: &[f64]) -> RankTest {
    let mut nulls = NullDistributions::default();
    RankTest::new(base.to_vec(), new.to_vec(), Scores::LowerHalf, &mut nulls).unwrap()
}

#[test]
fn four_launches_a_side_by_hand() {
    // Eight ranks, four scored 4, 3, 2, 1. All of the new side lies above: T = 0, which one of
    // C(8, 4) = 70 choices gives, so p = 2/70 for "no shift". Also for "within 6.9", since the
    // smallest difference is 10 - 3 = 7; "within 7" ties, and ties count against the alarm: one
    // pair changes places, T = 1, P(T ≤ 1) = (1 + 4)/70, p = 10/70.
    let test = test_of(&[0.0, 1.0, 2.0, 3.0], &[10.0, 11.0, 12.0, 13.0]);
    assert_relative_eq!(test.p_value(0.0, 0.0).unwrap(), 2.0 / 70.0, epsilon = 1e-12);
    assert_relative_eq!(test.p_value(-6.9, 6.9).unwrap(), 2.0 / 70.0, epsilon = 1e-12);
    assert_relative_eq!(test.p_value(-7.0, 7.0).unwrap(), 10.0 / 70.0, epsilon = 1e-12);
    // E(T) = 4 · 10/8 = 5. Shifted by 9 to 10 the new ranks are 2, 4, 6, 8: T = 3 + 1 = 4;
    // by 10 to 11 they are 1, 3, 5, 7: T = 4 + 2 = 6. So T passes its mean at 10.
    let inversion = test.invert();
    assert_eq!(inversion.estimate(), 10.0);
    // 1/70 ≤ 0.025 < 5/70 on either tail: kept are T = 1 to 9, from the first difference to the last.
    let interval = inversion.interval(0.05).unwrap();
    assert_eq!((interval.lower, interval.upper), (7.0, 13.0));
    // 2/70 = 0.0286 > 0.02: no interval of 98 % exists at four a side.
    assert_eq!(inversion.interval(0.02), None);
}

#[test]
fn only_the_fast_half_counts() {
    // The two slowest of each side do not matter: ranks above 4 of 8 score nothing. Here the new
    // side's slow launches are absurdly slow, the fast ones equal to the base's but for 0.1.
    let quiet = test_of(&[0.0, 1.0, 5.0, 6.0], &[0.1, 1.1, 5.1, 6.1]);
    let wild = test_of(&[0.0, 1.0, 5.0, 6.0], &[0.1, 1.1, 500.0, 600.0]);
    assert_eq!(quiet.p_value(0.0, 0.0), wild.p_value(0.0, 0.0));
}

#[test]
fn one_launch_a_side_has_an_estimate_and_nothing_else() {
    let test = test_of(&[1.0], &[1.5]);
    assert_eq!(test.invert().estimate(), 0.5);
    assert_eq!(test.invert().interval(0.05), None);
    assert_eq!(test.p_value(0.0, 0.0), None);
    let mut nulls = NullDistributions::default();
    assert!(RankTest::new(vec![], vec![1.0], Scores::LowerHalf, &mut nulls).is_none());
}

#[test]
fn constant_times_are_certain_and_no_alarm() {
    // All differences are one: T steps there from least to most, so the interval is that point.
    let test = test_of(&[2.0; 8], &[2.0; 8]);
    let inversion = test.invert();
    let interval = inversion.interval(0.05).unwrap();
    assert_eq!((inversion.estimate(), interval.lower, interval.upper), (0.0, 0.0, 0.0));
    assert_eq!(test.p_value(0.0, 0.0), Some(1.0));
}

/// Launch values on a grid, so that ties are common.
fn values(launches: std::ops::Range<usize>) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec((-40i32..40).prop_map(|step| f64::from(step) / 64.0), launches)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::with_cases(300) })]

    /// Exchanging the sides turns the signs: slower by so much is faster by as much.
    #[test]
    fn antisymmetric(base in values(4..14), new in values(4..14), delta in 0.0f64..0.3) {
        let (there, back) = (test_of(&base, &new), test_of(&new, &base));
        let (p, q) = (there.p_value(-delta, delta).unwrap(), back.p_value(-delta, delta).unwrap());
        prop_assert!((p - q).abs() < 1e-9);
        let (there, back) = (there.invert(), back.invert());
        prop_assert!((there.estimate() + back.estimate()).abs() < 1e-12);
        if let Some((there, back)) = there.interval(0.05).zip(back.interval(0.05)) {
            prop_assert!((there.lower + back.upper).abs() < 1e-12);
            prop_assert!((there.upper + back.lower).abs() < 1e-12);
        }
    }

    /// The order of launches means nothing.
    #[test]
    fn order_is_irrelevant(base in values(4..12), new in values(4..12), turn in 0usize..12) {
        let mut turned = new.clone();
        turned.rotate_left(turn % new.len());
        turned.reverse();
        let (a, b) = (test_of(&base, &new), test_of(&base, &turned));
        prop_assert_eq!(a.invert().estimate(), b.invert().estimate());
        prop_assert_eq!(a.p_value(-0.01, 0.01), b.p_value(-0.01, 0.01));
    }

    /// A slower new side has a larger estimate, by the same amount, and its interval moves along.
    #[test]
    fn moves_with_the_shift(base in values(4..12), new in values(4..12), steps in 0i32..64) {
        // Multiples of 1/64 add without rounding.
        let shift = f64::from(steps) / 64.0;
        let slower: Vec<f64> = new.iter().map(|value| value + shift).collect();
        let (before, after) = (test_of(&base, &new).invert(), test_of(&base, &slower).invert());
        prop_assert_eq!(before.estimate() + shift, after.estimate());
        let bounds = before.interval(0.1).zip(after.interval(0.1));
        if let Some((before, after)) = bounds {
            prop_assert_eq!(before.lower + shift, after.lower);
            prop_assert_eq!(before.upper + shift, after.upper);
        }
    }

    /// A wider null hypothesis is never rejected more easily.
    #[test]
    fn p_value_grows_with_the_null(base in values(4..12), new in values(4..12), a in 0.0f64..0.5, b in 0.0f64..0.5) {
        let test = test_of(&base, &new);
        let p = |delta: f64| test.p_value(-delta, delta).unwrap();
        prop_assert!(p(a.min(b)) <= p(a.max(b)) + 1e-12);
    }

    /// The p-value is at most 0.05 exactly when the 95 % interval lies beyond the minimum effect.
    /// (Very unequal sides may allow a verdict in one direction and no interval.)
    #[test]
    fn p_value_and_interval_agree(base in values(4..14), new in values(4..14), delta in 0.0f64..0.3) {
        let test = test_of(&base, &new);
        if let Some(interval) = test.invert().interval(0.05) {
            let p_value = test.p_value(-delta, delta).unwrap();
            prop_assert_eq!(p_value <= 0.05, interval.beyond(delta));
        }
    }

    /// The estimate lies in the interval.
    #[test]
    fn interval_holds_the_estimate(base in values(4..14), new in values(4..14)) {
        let inversion = test_of(&base, &new).invert();
        if let Some(interval) = inversion.interval(0.05) {
            prop_assert!(!interval.excludes(inversion.estimate()));
        }
    }
}

#[test]
fn few_launches_beside_many_have_no_interval() {
    // An interval needs that the few lie all among the unscored half, or all among the scored, in at most 2.5 % of
    // orders: 4 of 8 ranks 1/70, 5 of 10 1/252; beside 24, 5 of 29 C(15, 5)/C(29, 5) = 2.53 %, 6 of 30
    // C(15, 6)/C(30, 6) = 0.84 %.
    assert_eq!([4, 5, 24, 45].map(poolbench::stats::launches_beside), [4, 5, 6, 6]);
}
