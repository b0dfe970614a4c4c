//! The spread between sessions: what launches of one session cannot know.

use std::collections::{BTreeMap, BTreeSet};

use super::common_shift::BENCHMARKS_MIN;
use super::matched::{Class, GroupKey, Matched, SessionLayout};
use super::options::{Options, SessionSpread};
use super::order::{mean, median};
use super::session_deviations::{ClassDeviations, Deviation, deviations, of_class};
use super::session_error::SessionError;
use super::session_outlook::Outlook;
use super::session_weights::{NEARLY, freedom};

/// Least spread between sessions of host-bound benchmarks, adjusted and raw: two H200 recordings shifted them by 0.4 to
/// 1.9 % adjusted and 5 to 27 % raw, over √2. Two sessions that happen to agree do not show less.
const HOST_BOUND_SPREAD: (f64, f64) = (0.01, 0.08);

/// Weight of the class in a benchmark's own variance between sessions, in degrees of freedom.
const CLASS_FREEDOM: f64 = 4.0;

/// Effective sessions beyond one a side from which sessions tell of themselves: one more of nearly the size of the other.
/// A session of three launches that an interrupted recording left behind makes one session not two.
const FREEDOM_MIN: f64 = 2.0 * NEARLY - 1.0;

/// A common movement of benchmarks between the sessions of each side. *Unit* squared natural logarithms.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CommonMovement {
    squares: f64,
    /// Sessions of each side less one.
    freedom: f64,
}

impl CommonMovement {
    /// Returns the variance between sessions; `None` where no side has two.
    pub fn variance(self) -> Option<f64> {
        (self.freedom > 0.0).then(|| self.squares / self.freedom)
    }

    /// Adds what the sessions have in common, if in each of them enough benchmarks tell.
    fn add(&mut self, deviations: &ClassDeviations) {
        let enough = |members: &Vec<Deviation>| members.len() >= BENCHMARKS_MIN;
        if !deviations.iter().flat_map(BTreeMap::values).all(enough) {
            return;
        }
        for side in deviations.iter().filter(|side| !side.is_empty()) {
            self.squares += side.values().map(|members| common(members).powi(2)).sum::<f64>();
            self.freedom += side.len() as f64 - 1.0;
        }
    }
}

/// Returns what the benchmarks of a session have in common; 0 where they are too few to tell.
fn common(members: &[Deviation]) -> f64 {
    let common = median(members.iter().map(|member| member.value).collect());
    common.filter(|_| members.len() >= BENCHMARKS_MIN).unwrap_or(0.0)
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
    /// What the host-bound benchmarks have in common.
    pub suite: CommonMovement,
    /// The same of each group with weather of its own.
    pub groups: BTreeMap<(String, bool), CommonMovement>,
}

impl SessionVariances {
    /// Returns the variances of the benchmarks, each class on its own, and benchmarks whose host
    /// speed was taken out apart from the others.
    pub fn measure(matched: &[Matched]) -> Self {
        let unknown = || vec![None; matched.len()];
        let mut measured = Self {
            everything: unknown(),
            beside_suite: unknown(),
            beside_group: unknown(),
            dispersion: unknown(),
            dispersion_in_group: unknown(),
            ..Self::default()
        };
        let sides: Vec<[Vec<(u32, Deviation)>; 2]> = matched.iter().enumerate().map(deviations).collect();
        for class in [Class::GpuBound, Class::Mixed, Class::HostBound, Class::Unknown] {
            for adjusted in [false, true] {
                let of = |benchmark: &Matched| benchmark.class == class && benchmark.slope.is_some() == adjusted;
                add_dispersion(&mut measured.dispersion, matched, of);
                let deviations = of_class(matched, &sides, of);
                add_class(&mut measured.everything, &deviations, |_| 0.0);
                if class == Class::HostBound {
                    measured.suite.add(&deviations);
                    add_class(&mut measured.beside_suite, &deviations, common);
                } else {
                    add_class(&mut measured.beside_suite, &deviations, |_| 0.0);
                }
            }
        }
        measured.measure_groups(matched, &sides);
        measured
    }

    fn measure_groups(&mut self, matched: &[Matched], sides: &[[Vec<(u32, Deviation)>; 2]]) {
        let groups: BTreeSet<GroupKey<'_>> = matched.iter().filter_map(Matched::group).collect();
        for group in groups {
            let of = |benchmark: &Matched| benchmark.class == Class::HostBound && benchmark.group() == Some(group);
            add_dispersion(&mut self.dispersion_in_group, matched, of);
            let deviations = of_class(matched, sides, of);
            add_class(&mut self.beside_group, &deviations, common);
            let mut movement = CommonMovement::default();
            movement.add(&deviations);
            self.groups.insert((group.0.to_owned(), group.1), movement);
        }
    }

    /// Returns what sessions add to a benchmark's difference; `None`: unknown, any difference could be theirs.
    ///
    /// Where the benchmarks of its class are ten or more, their scatter between the sides vouches for the measured
    /// variance. Where they are fewer, two sessions that agree by luck would hide the spread from all of them (61 of 500
    /// unchanged suites of 16 benchmarks alarmed at two sessions against one): the variance is no less than what
    /// is assumed, and Student's quantile pays for how few sessions measured it: the sessions' own degrees of freedom
    /// where nothing is assumed, and beside them those of the class where it takes its part (moderated t, Smyth, as
    /// below), as it does of what the device paces.
    pub fn of(&self, index: usize, matched: &Matched, options: &Options, about: About) -> Option<SessionError> {
        let (base, new) = matched.session_weights();
        let shares = (base.added() + new.added()).sqrt();
        let (measured, dispersion) = match about {
            About::Everything => (&self.everything, &self.dispersion),
            About::BesideSuite => (&self.beside_suite, &self.dispersion),
            About::BesideGroup => (&self.beside_group, &self.dispersion_in_group),
        };
        let freedom = freedom(base, new);
        let assumed = assumed(matched, options);
        let measured = match matched.layout {
            SessionLayout::Shared => return Some(SessionError::NOTHING),
            SessionLayout::One => None,
            // Launches that are sessions of their own know how sessions differ.
            SessionLayout::Several { .. } if shares == 0.0 => return Some(SessionError::NOTHING),
            SessionLayout::Several { .. } => measured[index].map(f64::sqrt),
        };
        let error = |sd: f64| (sd * shares).max(dispersion[index].unwrap_or(0.0).sqrt());
        let known = |sd: f64| SessionError::known(error(sd));
        Some(match (measured, assumed) {
            (None, assumed) => known(assumed?),
            // Of those that the device paces a few lie far from their class, each session being another card's: of
            // four H200s two replayed graphs of 64 KiB 4 % slower, which a normal quantile took for a regression
            // where both were on one side.
            (Some(measured), Some(_)) if dispersion[index].is_some() && freedom >= FREEDOM_MIN => {
                SessionError::measured(error(measured), CLASS_FREEDOM + freedom)
            }
            (Some(measured), _) if dispersion[index].is_some() && freedom >= FREEDOM_MIN => known(measured),
            (Some(measured), Some(assumed)) if measured <= assumed => known(assumed),
            (Some(measured), Some(_)) if dispersion[index].is_none() => {
                SessionError::measured(measured * shares, CLASS_FREEDOM + freedom)
            }
            (Some(measured), None) if dispersion[index].is_none() => {
                let least = measured.max(least_host_bound(matched.slope.is_some()));
                SessionError::measured(least * shares, freedom.max(1.0))
            }
            (Some(measured), _) => known(measured),
        })
    }

    /// Returns whether ten or more benchmarks say how a benchmark's sessions differ.
    pub fn are_told_by_many(&self, index: usize) -> bool {
        self.dispersion[index].is_some()
    }

    /// Returns whether anything can stand on what is known of a benchmark's sessions. Those that are all but one a side
    /// widen its interval, but prove nothing where nothing is assumed: as with one a side a change is suspected.
    pub fn tell(matched: &Matched, options: &Options) -> bool {
        let (base, new) = matched.session_weights();
        let untold = match matched.layout {
            SessionLayout::Shared => false,
            SessionLayout::One => true,
            SessionLayout::Several { .. } => base.added() + new.added() > 0.0 && freedom(base, new) < FREEDOM_MIN,
        };
        !untold || assumed(matched, options).is_some()
    }

    /// Returns what more sessions would bring, where they add `now`.
    pub fn outlook(&self, index: usize, matched: &Matched, now: Option<SessionError>, options: &Options) -> Outlook {
        let (base, new) = matched.session_weights();
        let added = (base.added() + new.added()).sqrt();
        let assumed = assumed(matched, options);
        let known = now.filter(|_| added > 0.0).map(|error| error.standard_error() / added);
        let least = || least_host_bound(matched.slope.is_some());
        Outlook {
            sd: known.unwrap_or_else(|| assumed.unwrap_or_else(least)),
            sessions: 2.0 / (base.effective().recip() + new.effective().recip()),
            fewest: base.effective().min(new.effective()).round() as usize,
            is_measured_by_few: assumed.is_none() && self.dispersion[index].is_none(),
        }
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

/// τ² of a class, by the method of moments: for each session the spread of its benchmarks' deviations, (median
/// |deviation| / 0.6745)², less the launches' share, their mean over the sessions of a side, and of the sides by s − 1.
/// Where a side has two sessions that is the procedure's mean over pairs; of more it needs no interval between any two,
/// so that sessions of a launch each tell of themselves too, and no more than one step for each of them.
///
/// A benchmark whose own sessions differ by more gets the larger, moderated variance (the class counted as four degrees
/// of freedom): shifts between sessions are far from normal, and a class's median says little of its worst member.
/// Without it twice as many suites raised an alarm (9 against 5 of 80 at two sessions of twelve a side).
///
/// *Source*: the moments are those of Searle, Casella and McCulloch, Variance Components (1992), section 3.6; the
/// moderation is Smyth's, Statistical Applications in Genetics 3 (2004), eq. 5.
fn add_class(by_benchmark: &mut [Option<f64>], sides: &ClassDeviations, centre: impl Fn(&[Deviation]) -> f64) {
    let (mut class, mut freedom) = (0.0, 0.0);
    let mut own: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for side in sides.iter().filter(|side| side.len() > 1) {
        let mut variances = Vec::with_capacity(side.len());
        let mut excesses: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for members in side.values() {
            let centre = centre(members);
            variances.extend(variance(members, centre));
            for member in members {
                let excess = excesses.entry(member.index).or_insert((0.0, member.sessions - 1.0));
                excess.0 += (member.value - centre).powi(2) - member.noise;
            }
        }
        let weight = side.len() as f64 - 1.0;
        class += weight * mean(&variances).max(0.0);
        freedom += weight;
        for (index, (excess, freedom)) in excesses {
            let own = own.entry(index).or_default();
            own.0 += excess.max(0.0);
            own.1 += freedom;
        }
    }
    if freedom == 0.0 {
        return;
    }
    class /= freedom;
    for (index, (excess, freedom)) in own {
        let moderated = (CLASS_FREEDOM * class + excess) / (CLASS_FREEDOM + freedom);
        by_benchmark[index] = Some(moderated.max(class));
    }
}

/// Returns the variance between sessions that the deviations of one show; below zero where launches explain more.
fn variance(members: &[Deviation], centre: f64) -> Option<f64> {
    let size = |member: &Deviation| (member.value - centre).abs() * member.scale().sqrt();
    let spread = median(members.iter().map(size).collect())? / 0.6745;
    let noise = median(members.iter().map(|member| member.noise * member.scale()).collect())?;
    Some(spread.powi(2) - noise)
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
