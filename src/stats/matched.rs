//! One benchmark that both sides measured: its estimate and intervals.

use std::collections::{BTreeMap, BTreeSet};

use super::adjustment::{ProbeSlope, SlopePool, adjust};
use super::aligned::Aligned;
use super::benchmark_id::BenchmarkId;
use super::launch_levels::Sides;
use super::launch_spread::{launch_deviation, launch_spread};
use super::launch_table::LaunchValue;
use super::null_distribution::{NullDistributions, Scores};
use super::order::{lower_half_mean, mean};
use super::rank_test::{Bounds, INTERVAL_LAUNCHES, Inversion, RankTest};
use super::session_weights::SessionWeights;
use super::weather::{Peers, Weather};

/// The normal quantile that turns a 95 % interval's half-width into a standard error.
pub(super) const Z95: f64 = 1.959_963_984_540_054;
/// The one of a 90 % interval.
pub(super) const Z90: f64 = 1.644_853_626_951_472_7;

/// Spread between launches from which a benchmark that is not host-bound counts as mixed: on the
/// H200 the GPU-bound ones spread 0.2 to 0.4 %, the mixed ones 0.8 to 1.6 %.
pub(super) const MIXED_SPREAD: f64 = 0.006;

/// Scores of the test where the host's speed was taken out. What is left of the noise is nearly
/// symmetric, and three quarters of the launches then tell more than half of them: +5 % on
/// host-bound benchmarks at 24 launches is found in 85 % instead of 79 % of the cases (synthetic),
/// 97 instead of 94 % and 99 instead of 100 % on the host-probe recordings (free, pinned), at the
/// same false alarms. All launches (86 %, 95 %, 99 %) would trust the slow ones for little.
const ADJUSTED_SCORES: Scores = Scores::LowerThreeQuarters;

/// Launches a side from which the launches' common weather is taken out. With fewer no single change
/// can be declared, and what the weather's error adds to an interval makes it too wide (99 % coverage
/// at six launches without probes).
pub(super) const FREED_LAUNCHES: usize = 8;

/// What paces a benchmark, as far as the numbers say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The GPU; launches agree to a few per mille.
    GpuBound,
    /// Not the host alone, yet launches differ by more than 0.6 %. Where they follow the host for certain, its
    /// speed is taken out.
    Mixed,
    /// The host.
    HostBound,
    /// Nobody measured it.
    Unknown,
}

impl Class {
    /// Returns whether slow launches of the host are its slow launches, too.
    pub(super) fn is_touched_by_host(self) -> bool {
        matches!(self, Self::HostBound | Self::Mixed)
    }
}

/// How the sessions of the two sides relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionLayout {
    /// Both sides were recorded in the same sessions: the launches decide.
    Shared,
    /// At least one side has two or more sessions, so their spread can be measured.
    Several {
        /// Sessions of the base.
        base: usize,
        /// Sessions of the new side.
        new: usize,
    },
    /// One session a side: launches cannot tell a driver's change from a shift between sessions.
    One,
}

/// Estimate and intervals at the level of launches. *Unit* natural logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LaunchShift {
    pub estimate: f64,
    pub interval95: Option<Bounds>,
    pub interval90: Option<Bounds>,
}

impl LaunchShift {
    pub fn of(inversion: &Inversion) -> Self {
        Self {
            estimate: inversion.estimate(),
            interval95: inversion.interval(0.05),
            interval90: inversion.interval(0.10),
        }
    }

    /// Returns the standard error that the 95 % interval stands for.
    pub fn standard_error(&self) -> Option<f64> {
        self.interval95.map(|interval| interval.half_width() / Z95)
    }
}

/// A group's name, and whether its benchmarks are adjusted.
pub(super) type GroupKey<'a> = (&'a str, bool);

/// A benchmark with valid numbers on both sides.
#[derive(Debug, Clone)]
pub(super) struct Matched {
    pub id: BenchmarkId,
    pub class: Class,
    pub layout: SessionLayout,
    /// Launch values of the base, adjusted and aligned, in time order.
    pub base: Vec<LaunchValue>,
    pub new: Vec<LaunchValue>,
    pub slope: Option<ProbeSlope>,
    /// Whose common weather was taken out of the launch values, if any was.
    pub freed: Option<Peers>,
    /// Probes are there, but not on every launch.
    pub probes_incomplete: bool,
    /// Standard error that the slope's uncertainty adds to the difference.
    pub slope_error: f64,
    pub raw: LaunchShift,
    pub shift: LaunchShift,
    /// Interval at the level a lone change among the matched benchmarks needs.
    pub interval_lone: Option<Bounds>,
    pub test: RankTest,
    pub median_ratio: Option<f64>,
}

/// Returns the test of two sides: inside their sessions where they share them.
fn rank_test(
    layout: SessionLayout,
    (base, new): Sides<'_>,
    scores: Scores,
    nulls: &mut NullDistributions,
) -> Option<RankTest> {
    let levels = |side: &[LaunchValue]| {
        side.iter()
            .map(|launch| (launch.session, launch.value))
            .collect::<Vec<_>>()
    };
    session_test(
        layout == SessionLayout::Shared,
        (&levels(base), &levels(new)),
        scores,
        nulls,
    )
}

/// A session, and a value of one of its launches.
pub(super) type SessionValue = (u32, f64);

/// Returns the test of values with their sessions, inside the sessions where both sides share them.
pub(super) fn session_test(
    is_shared: bool,
    (base, new): (&[SessionValue], &[SessionValue]),
    scores: Scores,
    nulls: &mut NullDistributions,
) -> Option<RankTest> {
    let mut strata: BTreeMap<u32, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    let stratum = |session: u32| if is_shared { session } else { 0 };
    for &(session, value) in base {
        strata.entry(stratum(session)).or_default().0.push(value);
    }
    for &(session, value) in new {
        strata.entry(stratum(session)).or_default().1.push(value);
    }
    RankTest::stratified(strata.into_values(), scores, nulls)
}

/// Returns the distinct sessions, in order of first appearance.
pub(super) fn sessions(values: &[LaunchValue]) -> Vec<u32> {
    let mut known = BTreeSet::new();
    let sessions = values.iter().map(|launch| launch.session);
    sessions.filter(|&session| known.insert(session)).collect()
}

/// A benchmark with valid numbers on both sides, the host's speed taken out.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    aligned: Aligned,
    slope: Option<ProbeSlope>,
    slope_error: f64,
    /// Launch values to be tested; the aligned ones are as recorded.
    base: Vec<LaunchValue>,
    new: Vec<LaunchValue>,
}

impl Prepared {
    /// Returns the benchmark, adjusted by its slope as the others inform it.
    pub fn new(aligned: Aligned, pool: Option<SlopePool>) -> Self {
        let slope = aligned.slope(pool);
        let (base, new, slope_error) = match slope {
            Some(slope) => {
                let adjusted = adjust(&aligned.base, &aligned.new, slope);
                (adjusted.base, adjusted.new, adjusted.standard_error)
            }
            None => (aligned.base.clone(), aligned.new.clone(), 0.0),
        };
        Self {
            aligned,
            slope,
            slope_error,
            base,
            new,
        }
    }

    /// Returns the benchmark.
    pub fn id(&self) -> &BenchmarkId {
        &self.aligned.id
    }

    /// Returns whether its launches tell of the weather.
    pub fn is_host_bound(&self) -> bool {
        self.aligned.host_bound == Some(true) && self.launches_min() >= INTERVAL_LAUNCHES
    }

    /// Returns the launches of the smaller side.
    pub fn launches_min(&self) -> usize {
        self.base.len().min(self.new.len())
    }

    /// Returns the launch values, the host's speed taken out.
    pub fn sides(&self) -> Sides<'_> {
        (&self.base, &self.new)
    }
}

impl Matched {
    /// Returns the benchmark's estimates, or `None` where a side has no launch.
    pub fn new(
        prepared: Prepared,
        weather: Option<&Weather>,
        lone_alpha: f64,
        nulls: &mut NullDistributions,
    ) -> Option<Self> {
        let weather = weather.filter(|_| prepared.is_host_bound() && prepared.launches_min() >= FREED_LAUNCHES);
        let peers = weather.and_then(|weather| weather.peers(prepared.id()));
        let Prepared {
            aligned,
            slope,
            slope_error,
            mut base,
            mut new,
        } = prepared;
        let launches = || aligned.base.iter().chain(&aligned.new);
        let probes = launches().filter(|launch| launch.probe.is_some()).count();
        let probes_incomplete = probes > 0 && probes < launches().count();
        let raw_test = rank_test(aligned.layout, (&aligned.base, &aligned.new), Scores::LowerHalf, nulls)?;
        let mut inversion = raw_test.invert();
        let raw = LaunchShift::of(&inversion);
        let (mut shift, mut test) = (raw, raw_test);
        if let Some((_, levels)) = &peers {
            levels.take_out(&mut base, &mut new);
        }
        if slope.is_some() || peers.is_some() {
            let scores = if slope.is_some() {
                ADJUSTED_SCORES
            } else {
                Scores::LowerHalf
            };
            test = rank_test(aligned.layout, (&base, &new), scores, nulls)?;
            inversion = test.invert();
            shift = LaunchShift::of(&inversion);
        }
        Some(Self {
            id: aligned.id,
            class: classify(aligned.host_bound, &aligned.base, &aligned.new),
            layout: aligned.layout,
            interval_lone: inversion.interval(lone_alpha),
            probes_incomplete,
            freed: peers.map(|(peers, _)| peers),
            base,
            new,
            slope,
            slope_error,
            raw,
            shift,
            test,
            median_ratio: aligned.median_ratio,
        })
    }

    /// Returns the group whose weather was taken out, and whether the host's speed was: sessions move what is not
    /// adjusted far more, so that the two are never judged beside each other.
    pub fn group(&self) -> Option<GroupKey<'_>> {
        match &self.freed {
            Some(Peers::Group(group)) => Some((group, self.slope.is_some())),
            Some(Peers::Suite) | None => None,
        }
    }

    /// Returns the standard deviation between launches of one side and session.
    pub fn launch_deviation(&self) -> f64 {
        launch_deviation(&self.base, &self.new)
    }

    /// Returns what the sessions of the base and of the new side are worth.
    pub fn session_weights(&self) -> (SessionWeights, SessionWeights) {
        (SessionWeights::of(&self.base), SessionWeights::of(&self.new))
    }
}

fn classify(host_bound: Option<bool>, base: &[LaunchValue], new: &[LaunchValue]) -> Class {
    match host_bound {
        None => Class::Unknown,
        Some(true) => Class::HostBound,
        Some(false) if launch_spread(base, new) > MIXED_SPREAD => Class::Mixed,
        Some(false) => Class::GpuBound,
    }
}

/// Returns each launch's distance from its benchmark's level, as used for common movements.
pub(super) fn centred(side: &[LaunchValue], level: f64) -> impl Iterator<Item = (u32, u32, f64)> {
    side.iter()
        .map(move |launch| (launch.session, launch.launch, launch.value - level))
}

/// Returns a benchmark's level: the lower-half mean of both sides pooled.
pub(super) fn pooled_level(base: &[LaunchValue], new: &[LaunchValue]) -> f64 {
    let pooled: Vec<f64> = base.iter().chain(new).map(|launch| launch.value).collect();
    let fallback = mean(&pooled);
    lower_half_mean(pooled).unwrap_or(fallback)
}
