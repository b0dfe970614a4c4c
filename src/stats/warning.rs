//! Doubts about a comparison, as data.

use crate::counted::{agreeing, counted};
use std::fmt;

use super::benchmark_id::BenchmarkId;

/// A doubt that belongs beside the verdicts.
#[derive(Debug, Clone, PartialEq)]
pub enum Warning {
    /// Too few launches for a change of one benchmark alone to be declared.
    FewLaunches {
        /// Launches on the smaller side, as most benchmarks have them.
        launches: usize,
        /// Launches a side from which a lone change can be declared.
        needed: usize,
    },
    /// One side has more than twice the launches of the other, which blunts one direction.
    UnequalLaunches {
        /// Benchmarks concerned.
        benchmarks: usize,
    },
    /// One session a side: what differs between sessions cannot be told from a driver's change.
    OneSession {
        /// Benchmarks concerned.
        benchmarks: usize,
    },
    /// The sessions of the sides overlap in part; they are treated as different.
    PartlySharedSessions,
    /// The host-bound benchmarks moved apart: no shift of the whole suite is taken out.
    MovedApart,
    /// A common shift of the host-bound benchmarks, beyond the minimum effect.
    CommonShift,
    /// A common shift of a group's host-bound benchmarks, beyond the minimum effect and unlike the suite's.
    GroupShift {
        /// The group.
        group: String,
    },
    /// More than half of the host-bound launches of a side were slow.
    NoisyHost,
    /// Whether benchmarks are host-bound is not known, so no common shift is taken out.
    HostBoundUnknown {
        /// Benchmarks concerned.
        benchmarks: usize,
    },
    /// Probes miss on some launches, so the benchmark is not adjusted.
    ProbesIncomplete(BenchmarkId),
    /// Taking the host's speed out changes what the numbers say.
    AdjustmentDisagrees(BenchmarkId),
    /// Launches carry a mark.
    Flagged {
        /// The mark.
        flag: String,
        /// Launches of the base that carry it.
        base: usize,
        /// Launches of the new side that carry it.
        new: usize,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewLaunches { launches, needed } => write!(
                f,
                "{} a side: a single change cannot be declared below {needed}",
                counted(launches, "launch")
            ),
            Self::UnequalLaunches { benchmarks } => write!(
                f,
                "{} {} more than twice the launches on one side: \
                 changes in one direction are harder to find",
                counted(benchmarks, "benchmark"),
                agreeing(*benchmarks, "has", "have")
            ),
            Self::OneSession { benchmarks } => write!(
                f,
                "{} {} one session a side: differences between sessions \
                 cannot be told from a change; record more sessions",
                counted(benchmarks, "benchmark"),
                agreeing(*benchmarks, "has", "have")
            ),
            Self::PartlySharedSessions => {
                f.write_str("the sides share some sessions, but not all: treated as different sessions")
            }
            Self::MovedApart => f.write_str(
                "the host-bound benchmarks moved by different amounts: no shift of the whole suite is taken out",
            ),
            Self::CommonShift => {
                f.write_str("the host-bound benchmarks moved, as a whole, by more than the minimum effect")
            }
            Self::GroupShift { group } => write!(
                f,
                "the host-bound benchmarks of {group} moved, as a whole, by more than the minimum effect"
            ),
            Self::NoisyHost => f.write_str(
                "more than half of the host-bound launches were slow: \
                 host-bound and mixed benchmarks have a verdict only beyond a factor of 1.5",
            ),
            Self::HostBoundUnknown { benchmarks } => {
                write!(
                    f,
                    "{} may be host-bound or not: nobody measured it",
                    counted(benchmarks, "benchmark")
                )
            }
            Self::ProbesIncomplete(id) => {
                write!(f, "{id}: some launches have no host-speed probe; not adjusted")
            }
            Self::AdjustmentDisagrees(id) => {
                write!(f, "{id}: the raw and the adjusted effect disagree")
            }
            Self::Flagged { flag, base, new } => {
                write!(f, "launches marked {flag}: {base} of the base, {new} of the new side")
            }
        }
    }
}
