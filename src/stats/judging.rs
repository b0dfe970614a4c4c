//! Each benchmark judged beside what it has in common with others.

use std::collections::{BTreeMap, BTreeSet};

use super::common_shift::{Apart, CommonShift, Correction, GroupShift, Shared, describe, describe_group, eligible};
use super::effect::Effect;
use super::matched::{Class, GroupKey, Matched, SessionLayout};
use super::null_distribution::NullDistributions;
use super::options::Options;
use super::order::median;
use super::session_error::SessionError;
use super::session_weights::NEARLY;
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
    /// The suite's, in proportion to the benchmark's slope.
    Speed,
    Group,
}

/// Farthest from the suite that a group's shift may lie to be the suite's, however wide its interval: with two
/// sessions a side it spans ten per cent. *Unit* natural logarithms.
const ALIKE_MAX: f64 = 0.03;

/// Judges every benchmark.
///
/// A benchmark is judged beside the host-bound ones of its group, whose weather it shares, as long as the group
/// moved like the suite: what it may have moved by for the weather goes with the group's shift, and a change of
/// one benchmark, or of a strategy, shows most clearly. (That the shift is a median, known to 0.4 of a benchmark's
/// error at ten of them, is left out: a benchmark differs from it by less than its own error.) Where the group moved
/// apart from the suite, or its benchmarks from each other, the driver may have changed the group, so its benchmarks
/// are judged beside the whole suite, the weather's error added. Where the probe moved and fewer benchmarks lie apart from
/// a shift in proportion to how each follows the host's speed, that is taken out instead. Where the suite moved apart in
/// either case, nothing is taken out of those.
pub(super) fn judge_all(
    matched: &[Matched],
    weather: Option<&Weather>,
    lone_alpha: f64,
    options: &Options,
    nulls: &mut NullDistributions,
) -> Judgement {
    let variances = SessionVariances::measure(matched);
    let mut judging = Judging {
        matched,
        lone_z: upper_quantile(lone_alpha / 2.0),
        options,
        suite: weather.and_then(|weather| {
            let all = matched.iter().filter(|benchmark| eligible(benchmark)).collect();
            Shared::of(all, &weather.suite, variances.suite, nulls)
        }),
        groups: weather.map_or_else(BTreeMap::new, |weather| groups(matched, weather, &variances, nulls)),
        variances,
        misjudged_speed: None,
    };
    let probe_shift = judging.suite.as_ref().and_then(|suite| suite.probe_shift(nulls));
    let Some(correction) = judging.correction(probe_shift.as_ref()) else {
        return Judgement {
            benchmarks: judging.each(|_| Taken::Nothing),
            common_shift: None,
            group_shifts: Vec::new(),
        };
    };
    let standing = judging.groups_like_the_suite();
    let benchmarks = judging.each(|benchmark| match (benchmark.group(), correction) {
        (Some(group), _) if standing.contains(&group) => Taken::Group,
        (_, Correction::Applied) => Taken::Suite,
        (_, Correction::InProportion) => Taken::Speed,
        (_, Correction::MovedApart) => Taken::Nothing,
    });
    let family = judging.groups.len();
    let apart = judging.groups.iter().filter(|(key, _)| !standing.contains(key));
    let group_shifts = apart
        .filter_map(|(key, group)| describe_group((key.0, group), family, judging.expected_of(group), options, nulls));
    Judgement {
        benchmarks,
        group_shifts: group_shifts.collect(),
        common_shift: judging
            .suite
            .as_ref()
            .map(|suite| describe(suite, correction, probe_shift, options)),
    }
}

/// Returns what each group has in common whose weather was taken out.
fn groups<'a>(
    matched: &'a [Matched],
    weather: &'a Weather,
    variances: &SessionVariances,
    nulls: &mut NullDistributions,
) -> BTreeMap<GroupKey<'a>, Shared<'a>> {
    let mut groups = BTreeMap::new();
    for (name, levels) in &weather.groups {
        for is_adjusted in [false, true] {
            let key = (name.as_str(), is_adjusted);
            let of_group = |benchmark: &&Matched| eligible(benchmark) && benchmark.group() == Some(key);
            let members = matched.iter().filter(of_group).collect();
            let movement = variances.groups.get(&(name.clone(), is_adjusted)).copied();
            if let Some(shared) = Shared::of(members, levels, movement.unwrap_or_default(), nulls) {
                groups.insert(key, shared);
            }
        }
    }
    groups
}

/// Returns whether a group's shift may be the suite's. Without an interval nobody knows.
fn moved_like(group: &Shared<'_>, suite: f64) -> bool {
    let alike = (group.estimate - suite).abs() <= ALIKE_MAX;
    alike && group.within(0.95).is_some_and(|interval| !interval.excludes(suite))
}

struct Judging<'a> {
    matched: &'a [Matched],
    variances: SessionVariances,
    lone_z: f64,
    options: &'a Options,
    suite: Option<Shared<'a>>,
    groups: BTreeMap<GroupKey<'a>, Shared<'a>>,
    /// Where the benchmarks moved in proportion to their slopes.
    misjudged_speed: Option<f64>,
}

impl<'a> Judging<'a> {
    /// Decides what is done about the suite's common shift; `None` where there is none.
    fn correction(&mut self, probe_shift: Option<&Effect>) -> Option<Correction> {
        let suite = self.suite.as_ref()?;
        let beside_suite = self.apart(&self.each(|_| Taken::Suite), |_| suite.estimate, eligible);
        self.misjudged_speed = suite.misjudged_speed(probe_shift);
        if self.misjudged_speed.is_some() {
            let beside_speed = self.apart(&self.each(|_| Taken::Speed), |b| self.expected(b), eligible);
            if beside_speed.benchmarks < beside_suite.benchmarks && !beside_speed.is_too_many() {
                return Some(Correction::InProportion);
            }
            self.misjudged_speed = None;
        }
        Some(if beside_suite.is_too_many() {
            Correction::MovedApart
        } else {
            Correction::Applied
        })
    }

    /// Returns what a benchmark that the suite's shift is taken out of shares with it.
    fn expected(&self, benchmark: &Matched) -> f64 {
        match (self.misjudged_speed, &benchmark.slope) {
            (Some(speed), Some(slope)) => speed * slope.slope,
            _ => self.suite.as_ref().map_or(0.0, |suite| suite.estimate),
        }
    }

    /// Returns what the benchmarks of a group share with the suite.
    fn expected_of(&self, group: &Shared<'_>) -> f64 {
        let expected = group.benchmarks.iter().map(|benchmark| self.expected(benchmark));
        median(expected.collect()).unwrap_or_default()
    }

    /// Returns the groups whose own shift may be the suite's, and whose benchmarks moved together.
    fn groups_like_the_suite(&self) -> BTreeSet<GroupKey<'a>> {
        let beside_group = self.each(|_| Taken::Group);
        let stands = |(key, group): &(&GroupKey<'a>, &Shared<'a>)| {
            let of_group = |benchmark: &Matched| eligible(benchmark) && benchmark.group() == Some(**key);
            let apart = self.apart(&beside_group, |_| group.estimate, of_group);
            moved_like(group, self.expected_of(group)) && !apart.is_too_many()
        };
        self.groups.iter().filter(stands).map(|(key, _)| *key).collect()
    }

    /// Judges all benchmarks, this much taken out of the host-bound ones, and where the probe misjudged the host, that
    /// out of all that it adjusts.
    fn each(&self, taken: impl Fn(&Matched) -> Taken) -> Vec<Judged> {
        let one = |(index, benchmark): (usize, &Matched)| {
            let taken = match benchmark.class {
                Class::HostBound => taken(benchmark),
                _ if self.misjudged_speed.is_some() && benchmark.slope.is_some() => Taken::Speed,
                _ => Taken::Nothing,
            };
            self.one(index, benchmark, taken)
        };
        self.matched.iter().enumerate().map(one).collect()
    }

    fn one(&self, index: usize, benchmark: &Matched, taken: Taken) -> Judged {
        let suite = self.suite.as_ref();
        let group = benchmark.group().and_then(|group| self.groups.get(&group));
        let (shared, about) = match taken {
            Taken::Nothing => (None, About::Everything),
            Taken::Suite | Taken::Speed => (suite, About::BesideSuite),
            Taken::Group => (group, About::BesideGroup),
        };
        let error = |shared: Option<&Shared<'_>>| shared.map_or(0.0, |shared| shared.weather);
        let weather = match &benchmark.freed {
            None => 0.0,
            Some(Peers::Suite) => error(suite),
            Some(Peers::Group(_)) => error(group.or(suite)),
        };
        let takes_weather = match taken {
            Taken::Nothing => false,
            Taken::Suite | Taken::Speed => benchmark.freed == Some(Peers::Suite),
            Taken::Group => group.is_some(),
        };
        let common = Common {
            shift: match taken {
                Taken::Speed => Some(self.expected(benchmark)),
                _ => shared.map(|shared| shared.estimate),
            },
            weather: match taken {
                // Where processes have weather of their own, the suite's shift has an error of its own.
                Taken::Suite | Taken::Speed if !takes_weather && !self.groups.is_empty() => weather.hypot(error(suite)),
                _ => weather,
            },
            takes_weather,
            certain: shared.is_some_and(|shared| shared.within(0.95).is_some_and(|interval| interval.excludes(0.0))),
        };
        let of = |about| self.variances.of(index, benchmark, self.options, about);
        let own = of(about);
        let open = benchmark.layout != SessionLayout::Shared && !self.sessions_tell(index, benchmark, own);
        let between = Between {
            own,
            total: of(About::Everything),
            is_unknown: !SessionVariances::tell(benchmark, self.options),
            outlook: open.then(|| self.variances.outlook(index, benchmark, own, self.options)),
        };
        judge(benchmark, common, between, self.lone_z, self.options)
    }

    /// Returns whether the sessions leave nothing open: nearly two on each side, their error known or measured by ten
    /// benchmarks.
    fn sessions_tell(&self, index: usize, benchmark: &Matched, error: Option<SessionError>) -> bool {
        let (base, new) = benchmark.session_weights();
        let several = base.effective().min(new.effective()) >= 2.0 * NEARLY;
        several && (error.is_some_and(SessionError::is_known) || self.variances.are_told_by_many(index))
    }

    /// Returns how many of the benchmarks for which `counts` holds lie apart from what they have in common.
    fn apart(&self, judged: &[Judged], common: impl Fn(&Matched) -> f64, counts: impl Fn(&Matched) -> bool) -> Apart {
        let counted = self
            .matched
            .iter()
            .zip(judged)
            .filter(|(benchmark, _)| counts(benchmark));
        let intervals = counted.map(|(benchmark, judged)| (judged.interval95, common(benchmark)));
        Apart::of(&intervals.collect::<Vec<_>>())
    }
}

/// Returns the standard normal quantile that this share lies above: asked for by its small side, since a share near
/// one would round to one.
fn upper_quantile(share: f64) -> f64 {
    use statrs::distribution::{ContinuousCDF, Normal};
    -Normal::standard().inverse_cdf(share)
}
