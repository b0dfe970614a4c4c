//! Each benchmark judged beside what it has in common with others.

use std::collections::BTreeMap;

use super::common_shift::{CommonShift, Correction, GroupShift, Shared, describe, eligible, moved_apart};
use super::matched::{Class, Matched};
use super::null_distribution::NullDistributions;
use super::options::Options;
use super::sessions::{About, SessionVariances};
use super::verdict::{Between, Common, Judged, judge};
use super::weather::{Peers, Weather};

/// What is said of a suite before anything is decided.
#[derive(Debug, Clone)]
pub(super) struct Judgement {
    /// By benchmark.
    pub benchmarks: Vec<Judged>,
    pub common_shift: Option<CommonShift>,
    pub group_shifts: Vec<GroupShift>,
}

/// Which common shift is taken out of a host-bound benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Nothing,
    Suite,
    Group,
}

/// Judges every benchmark.
///
/// A benchmark is judged beside the host-bound ones of its group, whose weather it shares, as long as the group
/// moved like the suite: what it may have moved by for the weather goes with the group's shift, and a change of
/// one benchmark, or of a strategy, shows most clearly. Where the group moved apart from the suite, or its
/// benchmarks from each other, the driver may have changed the group, so its benchmarks are judged beside the
/// whole suite, the weather's error added. Where the suite moved apart, nothing is taken out.
pub(super) fn judge_all(
    matched: &[Matched],
    weather: Option<&Weather>,
    lone_alpha: f64,
    options: &Options,
    nulls: &mut NullDistributions,
) -> Judgement {
    let variances = SessionVariances::measure(matched, nulls);
    let judging = Judging {
        matched,
        lone_z: normal_quantile(1.0 - lone_alpha / 2.0),
        options,
        suite: weather.and_then(|weather| {
            let all = matched.iter().filter(|benchmark| eligible(benchmark)).collect();
            Shared::of(all, &weather.suite, &variances.suite_pairs, nulls)
        }),
        groups: weather.map_or_else(BTreeMap::new, |weather| {
            let group = |(name, levels)| {
                let of_group = |benchmark: &&Matched| eligible(benchmark) && benchmark.group() == Some(name);
                let members = matched.iter().filter(of_group).collect();
                let pairs = variances.group_pairs.get(name).map_or(&[][..], Vec::as_slice);
                Some((name, Shared::of(members, levels, pairs, nulls)?))
            };
            weather.groups.iter().filter_map(group).collect()
        }),
        variances,
    };
    let Some(suite) = &judging.suite else {
        return Judgement {
            benchmarks: judging.each(|_| Taken::Nothing),
            common_shift: None,
            group_shifts: Vec::new(),
        };
    };
    let beside_suite = judging.each(|_| Taken::Suite);
    let correction = if judging.moved_apart(&beside_suite, suite.estimate, eligible) {
        Correction::MovedApart
    } else {
        Correction::Applied
    };
    let beside_group = judging.each(|_| Taken::Group);
    let stands = |name: &String, group: &Shared<'_>| {
        let of_group = |benchmark: &Matched| eligible(benchmark) && benchmark.group() == Some(name);
        moved_like(group, suite.estimate) && !judging.moved_apart(&beside_group, group.estimate, of_group)
    };
    let standing: Vec<&String> = judging
        .groups
        .iter()
        .filter_map(|(name, group)| stands(name, group).then_some(*name))
        .collect();
    let benchmarks = judging.each(|benchmark| match (benchmark.group(), correction) {
        (Some(group), _) if standing.contains(&group) => Taken::Group,
        (_, Correction::Applied) => Taken::Suite,
        (_, Correction::MovedApart) => Taken::Nothing,
    });
    let family = judging.groups.len();
    let apart = judging
        .groups
        .iter()
        .filter(|(_, group)| !moved_like(group, suite.estimate));
    let group_shifts = apart.map(|(name, group)| GroupShift {
        group: (*name).clone(),
        shift: describe(group, family, Correction::MovedApart, options, nulls),
    });
    let group_shifts = group_shifts.filter(|group| group.shift.declared).collect();
    Judgement {
        benchmarks,
        common_shift: Some(describe(suite, 1, correction, options, nulls)),
        group_shifts,
    }
}

/// Returns whether a group's shift may be the suite's. Without an interval nobody knows.
fn moved_like(group: &Shared<'_>, suite: f64) -> bool {
    group.within(0.95).is_some_and(|interval| !interval.excludes(suite))
}

struct Judging<'a> {
    matched: &'a [Matched],
    variances: SessionVariances,
    lone_z: f64,
    options: &'a Options,
    suite: Option<Shared<'a>>,
    groups: BTreeMap<&'a String, Shared<'a>>,
}

impl Judging<'_> {
    /// Judges all benchmarks, this much taken out of the host-bound ones.
    fn each(&self, taken: impl Fn(&Matched) -> Taken) -> Vec<Judged> {
        let one = |(index, benchmark): (usize, &Matched)| {
            let taken = if benchmark.class == Class::HostBound {
                taken(benchmark)
            } else {
                Taken::Nothing
            };
            self.one(index, benchmark, taken)
        };
        self.matched.iter().enumerate().map(one).collect()
    }

    fn one(&self, index: usize, benchmark: &Matched, taken: Taken) -> Judged {
        let group = benchmark.group().and_then(|group| self.groups.get(group));
        let (shared, about) = match taken {
            Taken::Nothing => (None, About::Everything),
            Taken::Suite => (self.suite.as_ref(), About::BesideSuite),
            Taken::Group => (group, About::BesideGroup),
        };
        let weather = match &benchmark.freed {
            None => None,
            Some(Peers::Suite) => self.suite.as_ref(),
            Some(Peers::Group(_)) => group,
        };
        let own_peers = match taken {
            Taken::Nothing => false,
            Taken::Suite => benchmark.group().is_none(),
            Taken::Group => group.is_some(),
        };
        let common = Common {
            shift: shared.map(|shared| shared.estimate),
            weather: weather.map_or(0.0, |shared| shared.weather),
            takes_weather: own_peers,
            certain: shared.is_some_and(|shared| shared.within(0.95).is_some_and(|interval| interval.excludes(0.0))),
        };
        let of = |about| self.variances.of(index, benchmark, self.options, about);
        let between = Between {
            own: of(about),
            total: of(About::Everything),
        };
        judge(benchmark, common, between, self.lone_z, self.options)
    }

    /// Returns whether those of the benchmarks for which `counts` holds moved apart.
    fn moved_apart(&self, judged: &[Judged], common: f64, counts: impl Fn(&Matched) -> bool) -> bool {
        let counted = self
            .matched
            .iter()
            .zip(judged)
            .filter(|(benchmark, _)| counts(benchmark));
        moved_apart(
            &counted.map(|(_, judged)| judged.interval95).collect::<Vec<_>>(),
            common,
        )
    }
}

/// Returns the standard normal quantile.
pub(super) fn normal_quantile(p: f64) -> f64 {
    use statrs::distribution::{ContinuousCDF, Normal};
    Normal::standard().inverse_cdf(p)
}
