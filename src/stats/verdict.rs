//! Verdicts and the rules that lead to them.

use super::matched::{Matched, Z90, Z95};
use super::options::Options;
use super::rank_test::Bounds;
use super::session_error::SessionError;
use super::session_outlook::Outlook;
use super::side::SkipReason;

/// Half-width of the equivalence region: two per cent.
const EQUIVALENCE: f64 = 0.02;
/// On a noisy host only effects beyond this ratio are believed.
pub(super) const NOISY_RATIO: f64 = 1.5;
/// Largest detectable effect that is worth a number, as a ratio. Student's quantile for one degree of freedom is in the
/// thousands where one of hundreds is to pass, and its exponential has hundreds of digits.
const DETECTABLE_MAX: f64 = 10.0;
/// Other variance than the launches' enters the p-value when its standard error is above this share
/// of the launches' (below it widens the standard error by less than 0.5 %, and the rank test's
/// exact p-value is the better number).
const NEGLIGIBLE: f64 = 0.1;
/// Normal quantile of the power that a minimal detectable effect promises: 90 %.
const Z_POWER: f64 = 1.28;

/// What a comparison says of one benchmark.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Slower by more than the minimum effect.
    Regressed,
    /// Faster by more than the minimum effect.
    Improved,
    /// Different between launches, yet the difference could be one between sessions.
    Suspected {
        /// Sessions a side that would settle it, if the change is as large as it looks; `None` above twenty.
        sessions_needed: Option<usize>,
    },
    /// The same to within two per cent.
    Equivalent,
    /// The numbers do not tell.
    Inconclusive(Inconclusive),
    /// Only the new side measured it.
    New {
        /// Why the base skipped it; `None` where the base does not name it.
        skipped_before: Option<String>,
    },
    /// Only the base measured it.
    Missing {
        /// Why the new side skipped it; `None` where the new side does not name it.
        skipped_now: Option<String>,
    },
    /// It takes no part: invalid numbers, or skipped on both sides.
    Skipped(SkipReason),
}

/// Why the numbers do not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inconclusive {
    /// Too few launches for an interval: fewer than four on a side, or few beside many.
    FewLaunches,
    /// More than half of the host-bound launches were slow.
    NoisyHost,
    /// Nothing is known about how sessions differ: a side has one, or next to nothing beside one.
    SessionsUnknown,
    /// The interval is too wide, or sits on the edge of what matters.
    Resolution,
}

/// Test results of one benchmark, common shift and sessions considered. *Unit* logarithms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged {
    pub p_value: Option<f64>,
    /// p-value as if sessions did not differ.
    pub p_value_launches: Option<f64>,
    /// Interval of the estimate with the common shift left in, but only the variance of its own.
    pub interval95: Option<Bounds>,
    /// Intervals of the estimate with all the variance between sessions.
    pub interval95_total: Option<Bounds>,
    pub interval90_total: Option<Bounds>,
    /// The interval that must lie aside of zero for a verdict: the common shift left in, the weather's error
    /// added.
    ///
    /// It keeps an unmoved benchmark, whose fellows moved, from being called changed. At 95 % it costs 2 to 3
    /// points of power (+5 %, 24 to 48 launches), and with the bare estimate beyond the minimum effect twice as
    /// many suites accuse an unmoved benchmark when three quarters move by 2 to 10 %. Where the fellows moved for
    /// certain, and the other way, it is asked for at the level of a lone change: at 95 % 33 of 160 suites
    /// would accuse an unmoved benchmark (three quarters moved by 3 or 5 %).
    pub guard: Option<Bounds>,
    /// The same as if sessions did not differ.
    pub guard_launches: Option<Bounds>,
    /// Minimal detectable effect, whatever the host's noise.
    pub mde: Option<f64>,
    /// Estimate less the common shift.
    pub corrected: f64,
    /// Nothing is known about the sessions' spread, so no difference proves a change.
    pub sessions_unknown: bool,
    /// What more sessions would bring, where those there are leave open whether a difference is theirs; `None` where
    /// they tell: nearly two a side or more, of benchmarks enough, or the same on both sides.
    ///
    /// There a difference that launches prove and sessions do not is what sessions are known to do, and no suspicion.
    /// Where they are few it is one: an unchanged benchmark and a changed one look alike.
    pub outlook: Option<Outlook>,
}

impl Judged {
    /// Returns the interval less the common shift.
    pub fn interval95_corrected(&self, matched: &Matched) -> Option<Bounds> {
        let common = matched.shift.estimate - self.corrected;
        self.interval95.map(|i| Bounds {
            lower: i.lower - common,
            upper: i.upper - common,
        })
    }
}

/// What sessions add to a benchmark's difference; `None`: unknown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Between {
    /// Beside what the host-bound benchmarks have in common.
    pub own: Option<SessionError>,
    /// All of it.
    pub total: Option<SessionError>,
    /// Nothing can stand on the two.
    pub is_unknown: bool,
    /// What more sessions would bring; `None` where those there are tell.
    pub outlook: Option<Outlook>,
}

/// What widens a benchmark's interval beside the launches.
#[derive(Debug, Clone, Copy)]
struct Extra {
    /// From what was taken out of the launch values. *Unit* standard error.
    taken_out: f64,
    sessions: SessionError,
}

impl Extra {
    /// Returns the arm that an interval of this normal quantile gets.
    fn times(self, z: f64) -> f64 {
        (z * self.taken_out).hypot(self.sessions.times(z))
    }
}

/// What a benchmark has in common with the host-bound ones. *Unit* natural logarithms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Common {
    /// The common shift, where it is to be taken out.
    pub shift: Option<f64>,
    /// Standard error of the weather between the sides, which is in the estimate, but no longer in the launch
    /// values.
    pub weather: f64,
    /// The common shift is of the benchmarks that share this weather, and takes it with it.
    pub takes_weather: bool,
    /// The 95 % interval of the common shift excludes zero.
    pub certain: bool,
}

/// Returns the intervals and p-values of a benchmark.
///
/// `between` is what sessions add. Where it, the slope's error or the weather's
/// matters, the p-value is the larger of the rank test's and the normal one.
pub(super) fn judge(matched: &Matched, common: Common, between: Between, lone_z: f64, options: &Options) -> Judged {
    let delta = options.delta();
    let centre = matched.shift.estimate;
    let shift = common.shift.unwrap_or(0.0);
    let corrected = centre - shift;
    let own_weather = if common.takes_weather { 0.0 } else { common.weather };
    let extra = |weather: f64, sessions: Option<SessionError>| Extra {
        taken_out: matched.slope_error.hypot(weather),
        sessions: sessions.unwrap_or(SessionError::NOTHING),
    };
    let at_launches = Some(SessionError::NOTHING);
    let rank = matched.test.p_value(shift - delta, shift + delta);
    let error = matched.shift.standard_error();
    let p_value = |extra: Extra| {
        let (rank, error) = (rank?, error?);
        if extra.times(1.0) <= NEGLIGIBLE * error {
            return Some(rank);
        }
        let distance = corrected.abs() - delta;
        Some(rank.max(extra.sessions.p_value(distance, error.hypot(extra.taken_out))))
    };
    let widened = |interval: Option<Bounds>, z: f64, extra: Extra| {
        interval.map(|interval| widen(interval, centre, extra.times(z)))
    };
    let own = extra(own_weather, between.own);
    let interval95 = widened(matched.shift.interval95, Z95, own);
    let lone = widened(matched.interval_lone, lone_z, own);
    let guard = |extra: Extra| {
        if common.certain && corrected * shift < 0.0 {
            widened(matched.interval_lone, lone_z, extra)
        } else {
            widened(matched.shift.interval95, Z95, extra)
        }
    };
    // Where any difference could be the sessions', no size is certain to be found.
    let detectable = lone.zip(interval95).filter(|_| !between.is_unknown);
    let mde = detectable.map(|(lone, interval95)| delta + lone.half_width() + Z_POWER * interval95.half_width() / Z95);
    Judged {
        p_value: p_value(own),
        p_value_launches: p_value(extra(own_weather, at_launches)),
        interval95,
        interval95_total: widened(matched.shift.interval95, Z95, extra(common.weather, between.total)),
        interval90_total: widened(matched.shift.interval90, Z90, extra(common.weather, between.total)),
        guard: guard(extra(common.weather, between.own)),
        guard_launches: guard(extra(common.weather, at_launches)),
        mde,
        corrected,
        sessions_unknown: between.is_unknown,
        outlook: between.outlook,
    }
}

/// Adds an error to both arms of an interval in quadrature, so that none leaves it as it was.
fn widen(interval: Bounds, centre: f64, by: f64) -> Bounds {
    Bounds {
        lower: centre - (centre - interval.lower).hypot(by),
        upper: centre + (interval.upper - centre).hypot(by),
    }
}

/// What the whole suite says about one benchmark's decision.
#[derive(Debug, Clone, Copy)]
pub(super) struct Suite {
    pub noisy: bool,
    pub false_discovery_rate: f64,
}

impl Suite {
    /// Returns whether only large effects of this benchmark are believed.
    fn doubts(self, matched: &Matched) -> bool {
        self.noisy && matched.class.is_touched_by_host()
    }
}

/// Returns the effect that nine of ten comparisons would find; `None` where it is none worth a number. On a noisy host
/// the whole 95 % interval must lie beyond the effect from which one is believed.
pub(super) fn detectable(matched: &Matched, judged: &Judged, suite: Suite) -> Option<f64> {
    let mut effect = judged.mde?;
    if suite.doubts(matched) {
        let arm = judged.interval95?.half_width();
        effect = effect.max(NOISY_RATIO.ln() + arm + Z_POWER * arm / Z95);
    }
    (effect <= DETECTABLE_MAX.ln()).then_some(effect)
}

/// Returns the verdict. `sessions_needed` is asked only for a suspected benchmark.
pub(super) fn decide(
    matched: &Matched,
    judged: &Judged,
    (q_value, q_value_launches): (f64, f64),
    suite: Suite,
    sessions_needed: impl FnOnce(Outlook) -> Option<usize>,
) -> Verdict {
    let Some(interval95) = judged.interval95 else {
        return Verdict::Inconclusive(Inconclusive::FewLaunches);
    };
    if suite.doubts(matched) && !interval95.beyond(NOISY_RATIO.ln()) {
        return Verdict::Inconclusive(Inconclusive::NoisyHost);
    }
    let changed = |q_value: f64, interval: Bounds| {
        let aside = if judged.corrected > 0.0 {
            interval.lower > 0.0
        } else {
            interval.upper < 0.0
        };
        q_value < suite.false_discovery_rate && judged.corrected != 0.0 && aside
    };
    if judged.guard.is_some_and(|guard| changed(q_value, guard)) && !judged.sessions_unknown {
        return if judged.corrected > 0.0 {
            Verdict::Regressed
        } else {
            Verdict::Improved
        };
    }
    let at_launches = judged.guard_launches;
    let open = judged
        .outlook
        .filter(|_| at_launches.is_some_and(|guard| changed(q_value_launches, guard)));
    if let Some(outlook) = open {
        return Verdict::Suspected {
            sessions_needed: sessions_needed(outlook),
        };
    }
    if judged
        .interval90_total
        .is_some_and(|interval| interval.inside(EQUIVALENCE.ln_1p()))
    {
        return if judged.sessions_unknown {
            Verdict::Inconclusive(Inconclusive::SessionsUnknown)
        } else {
            Verdict::Equivalent
        };
    }
    Verdict::Inconclusive(Inconclusive::Resolution)
}
