//! The spread between sessions: what launches of one session cannot know.

use std::collections::{BTreeMap, BTreeSet};

use super::common_shift::BENCHMARKS_MIN;
use super::launch_table::LaunchValue;
use super::matched::{Class, GroupKey, Matched, SessionLayout, plain, sessions};
use super::null_distribution::{NullDistributions, Scores};
use super::options::{Options, SessionSpread};
use super::order::{mean, median};
use super::rank_test::RankTest;
use super::session_error::SessionError;

/// Least spread between sessions of host-bound benchmarks, adjusted and raw: two H200 recordings shifted them by 0.4 to
/// 1.9 % adjusted and 5 to 27 % raw, over √2. Two sessions that happen to agree do not show less.
const HOST_BOUND_SPREAD: (f64, f64) = (0.01, 0.08);

/// Weight of the class in a benchmark's own variance between sessions, in pairs of sessions.
const CLASS_WEIGHT: f64 = 4.0;

/// Differences between two sessions of one side, for every benchmark of a class.
#[derive(Debug, Clone)]
struct SessionPair {
    /// Index of the benchmark, estimate, standard error.
    differences: Vec<(usize, f64, f64)>,
}

impl SessionPair {
    /// Returns the class's variance between sessions, (median |g| / 0.6745)² less the launches'
    /// share, halved since two sessions differ by two shifts.
    fn variance(&self, centre: f64) -> Option<f64> {
        let sizes = self.differences.iter().map(|d| (d.1 - centre).abs()).collect();
        let errors = self.differences.iter().map(|d| d.2).collect();
        let spread = median(sizes)? / 0.6745;
        Some((spread.powi(2) - median(errors)?.powi(2)).max(0.0) / 2.0)
    }

    /// Returns whether the benchmarks are enough for a common movement.
    fn has_common(&self) -> bool {
        self.differences.len() >= BENCHMARKS_MIN
    }

    /// Returns what the benchmarks have in common; 0 where they are too few to tell.
    fn common(&self) -> f64 {
        let common = median(self.differences.iter().map(|d| d.1).collect());
        common.filter(|_| self.has_common()).unwrap_or(0.0)
    }
}

/// What a variance is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// All of a benchmark's movement between sessions.
    Everything,
    /// What remains when the host-bound benchmarks' common movement is taken out.
    BesideSuite,
    /// What remains when the common movement of its group's host-bound benchmarks is taken out.
    BesideGroup,
}

/// Measured variance between sessions.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionVariances {
    /// τ² by benchmark index; `None` where the sessions do not tell.
    everything: Vec<Option<f64>>,
    beside_suite: Vec<Option<f64>>,
    beside_group: Vec<Option<f64>>,
    /// Variance of the very differences between the sides, by benchmark index; `None` where
    /// the benchmarks are too few to tell.
    dispersion: Vec<Option<f64>>,
    dispersion_in_group: Vec<Option<f64>>,
    /// Median difference of the host-bound benchmarks, by session pair.
    pub suite_pairs: Vec<f64>,
    /// The same of each group with weather of its own; none where a pair has too few of its benchmarks.
    pub group_pairs: BTreeMap<(String, bool), Vec<f64>>,
}

impl SessionVariances {
    /// Returns the variances of the benchmarks, each class on its own, and benchmarks whose host
    /// speed was taken out apart from the others.
    pub fn measure(matched: &[Matched], nulls: &mut NullDistributions) -> Self {
        let unknown = || vec![None; matched.len()];
        let mut measured = Self {
            everything: unknown(),
            beside_suite: unknown(),
            beside_group: unknown(),
            dispersion: unknown(),
            dispersion_in_group: unknown(),
            ..Self::default()
        };
        for class in [Class::GpuBound, Class::Mixed, Class::HostBound, Class::Unknown] {
            for adjusted in [false, true] {
                let of = |benchmark: &Matched| benchmark.class == class && benchmark.slope.is_some() == adjusted;
                add_dispersion(&mut measured.dispersion, matched, of);
                let pairs = session_pairs(matched, of, nulls);
                let centres: Vec<f64> = pairs.iter().map(SessionPair::common).collect();
                if class == Class::HostBound && pairs.iter().all(SessionPair::has_common) {
                    measured.suite_pairs.extend(&centres);
                }
                let zeros = vec![0.0; pairs.len()];
                add_class(&mut measured.everything, &pairs, &zeros);
                let centred = class == Class::HostBound;
                add_class(
                    &mut measured.beside_suite,
                    &pairs,
                    if centred { &centres } else { &zeros },
                );
            }
        }
        measured.measure_groups(matched, nulls);
        measured
    }

    fn measure_groups(&mut self, matched: &[Matched], nulls: &mut NullDistributions) {
        let groups: BTreeSet<GroupKey<'_>> = matched.iter().filter_map(Matched::group).collect();
        for group in groups {
            let of = |benchmark: &Matched| benchmark.class == Class::HostBound && benchmark.group() == Some(group);
            add_dispersion(&mut self.dispersion_in_group, matched, of);
            let pairs = session_pairs(matched, of, nulls);
            let centres: Vec<f64> = pairs.iter().map(SessionPair::common).collect();
            add_class(&mut self.beside_group, &pairs, &centres);
            if pairs.iter().all(SessionPair::has_common) {
                self.group_pairs.insert((group.0.to_owned(), group.1), centres);
            }
        }
    }

    /// Returns what sessions add to a benchmark's difference; `None`: unknown, any difference could be theirs.
    ///
    /// Where the benchmarks of its class are ten or more, their scatter between the sides vouches for the measured
    /// variance. Where they are fewer, two sessions that agree by luck would hide the spread from all of them (61 of 500
    /// unchanged suites of 16 benchmarks alarmed at two sessions against one): the variance is no less than what
    /// is assumed, and where nothing is, Student's quantile pays for how few sessions measured it.
    pub fn of(&self, index: usize, matched: &Matched, options: &Options, about: About) -> Option<SessionError> {
        let (base, new) = matched.session_counts();
        let shares = (1.0 / base as f64 + 1.0 / new as f64).sqrt();
        let (measured, dispersion) = match about {
            About::Everything => (&self.everything, &self.dispersion),
            About::BesideSuite => (&self.beside_suite, &self.dispersion),
            About::BesideGroup => (&self.beside_group, &self.dispersion_in_group),
        };
        let assumed = || assumed(matched, options);
        let measured = match matched.layout {
            SessionLayout::Shared => return Some(SessionError::NOTHING),
            SessionLayout::One => None,
            SessionLayout::Several { .. } => measured[index].map(f64::sqrt),
        };
        let error = match (measured, dispersion[index]) {
            (Some(measured), Some(dispersion)) => (measured * shares).max(dispersion.sqrt()),
            (Some(measured), None) => match assumed() {
                Some(assumed) => measured.max(assumed) * shares,
                None => {
                    let least = measured.max(least_host_bound(matched.slope.is_some()));
                    return Some(SessionError::measured(least * shares, (base + new - 2) as f64));
                }
            },
            (None, dispersion) => (assumed()? * shares).max(dispersion.unwrap_or(0.0).sqrt()),
        };
        Some(SessionError::known(error))
    }
}

/// Adds what the differences between the sides say themselves: where ten or more benchmarks of a
/// class scatter around their median by more than their launches explain, the excess is variance
/// between sessions, since most benchmarks are unchanged. The pairs of sessions cannot replace it:
/// two sessions a side that happen to be alike hide the spread from every benchmark at once.
/// Without it up to 7 % of unchanged suites raised an alarm (sessions that slow each benchmark by
/// its slope times 5 to 25 %), and 9 % of discoveries were false.
///
/// *Source*: an empirical null, Efron, JASA 99 (2004).
fn add_dispersion(variances: &mut [Option<f64>], matched: &[Matched], of: impl Fn(&Matched) -> bool) {
    let apart = |benchmark: &&Matched| benchmark.layout != SessionLayout::Shared && of(benchmark);
    let members = || matched.iter().filter(apart);
    let errors: Vec<f64> = members().filter_map(|b| b.shift.standard_error()).collect();
    if errors.len() < BENCHMARKS_MIN {
        return;
    }
    let Some(error) = median(errors) else { return };
    let Some(scatter) = scatter(members().map(|benchmark| benchmark.shift.estimate).collect()) else {
        return;
    };
    let excess = (scatter.powi(2) - error.powi(2)).max(0.0);
    for (variance, benchmark) in variances.iter_mut().zip(matched) {
        if apart(&benchmark) {
            *variance = Some(excess);
        }
    }
}

/// Standard deviation of most of the numbers: median distance from the median, scaled, once more
/// without what lies 2.5 of it away (changed benchmarks).
fn scatter(estimates: Vec<f64>) -> Option<f64> {
    let centre = median(estimates.clone())?;
    let distances: Vec<f64> = estimates.iter().map(|estimate| (estimate - centre).abs()).collect();
    let first = median(distances.clone())? / 0.6745;
    let near = distances
        .into_iter()
        .filter(|&distance| distance <= 2.5 * first)
        .collect();
    Some(median(near)? / 0.6745)
}

/// τ² of a class is the mean over its session pairs. A benchmark whose own sessions differ by
/// more gets the larger, moderated variance (the class counted as four pairs): shifts between
/// sessions are far from normal, and a class's median says little of its worst member. Without it
/// twice as many suites raised an alarm (9 against 5 of 80 at two sessions of twelve a side).
///
/// *Source*: the moderation is Smyth's, Statistical Applications in Genetics 3 (2004), eq. 5.
fn add_class(by_benchmark: &mut [Option<f64>], pairs: &[SessionPair], centres: &[f64]) {
    let variances: Vec<f64> = pairs
        .iter()
        .zip(centres)
        .filter_map(|(pair, &c)| pair.variance(c))
        .collect();
    if variances.is_empty() {
        return;
    }
    let class = mean(&variances);
    let mut own: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (pair, centre) in pairs.iter().zip(centres) {
        for &(index, difference, error) in &pair.differences {
            let excess = ((difference - centre).powi(2) - error.powi(2)).max(0.0) / 2.0;
            own.entry(index).or_default().push(excess);
        }
    }
    for (index, own) in own {
        let total = CLASS_WEIGHT * class + own.iter().sum::<f64>();
        let moderated = total / (CLASS_WEIGHT + own.len() as f64);
        by_benchmark[index] = Some(moderated.max(class));
    }
}

/// Returns the least spread between sessions of a host-bound benchmark.
pub(super) fn least_host_bound(is_adjusted: bool) -> f64 {
    let (adjusted, raw) = HOST_BOUND_SPREAD;
    if is_adjusted { adjusted } else { raw }
}

/// Returns the spread between sessions known or assumed for a benchmark: its class's, which is that of the one in the
/// middle, but no less than that between its launches where the host does not pace it. On the H200 a few benchmarks
/// that are not host-bound spread by 2 to 13 % between launches, and moved by as much from one card to another.
pub(super) fn assumed(matched: &Matched, options: &Options) -> Option<f64> {
    let spread = options.session_spread().unwrap_or_default();
    match matched.class {
        Class::GpuBound => Some(spread.gpu_bound.max(matched.launch_deviation())),
        Class::Mixed => Some(spread.mixed.max(matched.launch_deviation())),
        Class::HostBound | Class::Unknown => spread.host_bound,
    }
}

fn session_pairs(
    matched: &[Matched],
    of: impl Fn(&Matched) -> bool,
    nulls: &mut NullDistributions,
) -> Vec<SessionPair> {
    let mut pairs = BTreeMap::new();
    for (index, benchmark) in matched.iter().enumerate() {
        let several = matches!(benchmark.layout, SessionLayout::Several { .. });
        if !several || !of(benchmark) {
            continue;
        }
        for (side, values) in [&benchmark.base, &benchmark.new].into_iter().enumerate() {
            let mut ids = sessions(values);
            ids.sort_unstable();
            for (position, &earlier) in ids.iter().enumerate() {
                for &later in &ids[position + 1..] {
                    if let Some((estimate, error)) = difference(values, earlier, later, nulls) {
                        pairs
                            .entry((side, earlier, later))
                            .or_insert_with(|| SessionPair {
                                differences: Vec::new(),
                            })
                            .differences
                            .push((index, estimate, error));
                    }
                }
            }
        }
    }
    pairs.into_values().collect()
}

fn difference(values: &[LaunchValue], earlier: u32, later: u32, nulls: &mut NullDistributions) -> Option<(f64, f64)> {
    let of = |session: u32| {
        let part: Vec<LaunchValue> = values
            .iter()
            .filter(|launch| launch.session == session)
            .copied()
            .collect();
        plain(&part)
    };
    let inversion = RankTest::new(of(earlier), of(later), Scores::LowerHalf, nulls)?.invert();
    let error = inversion.interval(0.05)?.half_width() / super::matched::Z95;
    Some((inversion.estimate(), error))
}

/// Returns the spread between sessions that two unchanged recordings of one machine show, for
/// [`Options::with_session_spread`]. One pair that happens to agree proves little: no spread is below what is assumed
/// anyway, and that of host-bound benchmarks is known from ten of them.
pub(super) fn spread_between(matched: &[Matched]) -> SessionSpread {
    let of_class = |class: Class| -> Vec<&Matched> {
        let members = matched.iter().filter(|benchmark| benchmark.class == class);
        members.collect()
    };
    let spread = |members: &[&Matched]| {
        let sizes: Vec<f64> = members.iter().map(|b| b.shift.estimate.abs()).collect();
        let errors: Vec<f64> = members.iter().filter_map(|b| b.shift.standard_error()).collect();
        let variance = (median(sizes)? / 0.6745).powi(2) - median(errors)?.powi(2);
        Some((variance.max(0.0) / 2.0).sqrt())
    };
    let touched_by_host = |class: Class| {
        let members = of_class(class);
        let spread = spread(&members).filter(|_| members.len() >= BENCHMARKS_MIN)?;
        let adjusted = members.iter().filter(|benchmark| benchmark.slope.is_some()).count();
        Some(spread.max(least_host_bound(2 * adjusted >= members.len())))
    };
    let assumed = SessionSpread::default();
    SessionSpread {
        gpu_bound: spread(&of_class(Class::GpuBound)).unwrap_or(0.0).max(assumed.gpu_bound),
        mixed: spread(&of_class(Class::Mixed)).unwrap_or(0.0).max(assumed.mixed),
        host_bound: touched_by_host(Class::HostBound).or(touched_by_host(Class::Unknown)),
    }
}

/// Returns the sessions a side that would settle a suspicion: the fewest, up to twenty, at which an
/// effect of this size would pass at `threshold` (a normal quantile). *Unit* natural logarithms.
pub(super) fn sessions_needed(effect: f64, launch_error: f64, sd: f64, threshold: f64) -> Option<usize> {
    (2..=20).find(|&sessions| {
        let variance = (launch_error.powi(2) + 2.0 * sd * sd) / sessions as f64;
        effect > threshold * variance.sqrt()
    })
}
