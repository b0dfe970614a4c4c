//! Doubts about the inputs of a comparison, as data.

use crate::baseline::{Difference, DifferenceKind, Input, InputKind};
use crate::counted::{agreeing, counted};
use crate::report::Printable;
use crate::stats::Comparison;
use std::fmt;

/// A side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The base.
    Base,
    /// The new side.
    New,
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Which::Base => "the base",
            Which::New => "the new side",
        })
    }
}

/// A doubt about what was compared. [`Display`](fmt::Display) shows foreign text harmlessly.
#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    /// One launch a side: there is no verdict.
    OneLaunch,
    /// The sides hold the same times, bit for bit.
    IdenticalTimes {
        /// Benchmarks concerned.
        benchmarks: usize,
        /// Benchmarks compared.
        compared: usize,
    },
    /// The sides measured different things, and are compared because that was asked for.
    Mismatch(Difference),
    /// A side was recorded under an injected fault.
    InjectedFault {
        /// Which.
        side: Which,
        /// The fault, as recorded.
        fault: String,
    },
    /// The host device, not a GPU.
    HostDevice,
    /// A debug build.
    DebugBuild,
    /// A side does not say on which machine and driver it was measured.
    EnvironmentUnknown {
        /// Which.
        side: Which,
        /// What it is.
        kind: InputKind,
    },
    /// Benchmarks of a Criterion home that are much older than its newest.
    Stale {
        /// Which.
        side: Which,
        /// How many.
        benchmarks: usize,
    },
    /// Parts of an input could not be used.
    LeftOut {
        /// Which.
        side: Which,
        /// How many; the side's summary names them.
        count: usize,
    },
}

impl Note {
    pub(super) fn of(base: &Input, new: &Input, differences: &[Difference], comparison: &Comparison) -> Vec<Note> {
        let mut notes = Vec::new();
        let measured = || {
            comparison
                .benchmarks
                .iter()
                .filter_map(|benchmark| benchmark.measured.as_ref())
        };
        if measured().all(|measured| measured.launches == (1, 1)) {
            notes.push(Note::OneLaunch);
        }
        let identical = comparison
            .benchmarks
            .iter()
            .filter(|benchmark| benchmark.measured.is_some() && base.has_same_times(new, &benchmark.id))
            .count();
        if identical > 0 {
            notes.push(Note::IdenticalTimes {
                benchmarks: identical,
                compared: measured().count(),
            });
        }
        let mismatched = differences
            .iter()
            .filter(|difference| difference.kind == DifferenceKind::Refused);
        notes.extend(mismatched.cloned().map(Note::Mismatch));
        for (side, input) in [(Which::Base, base), (Which::New, new)] {
            notes.extend(of_side(side, input));
        }
        let either = |holds: fn(&crate::environment::Environment) -> bool| {
            [base, new]
                .into_iter()
                .filter_map(|input| input.manifest.as_ref())
                .any(|manifest| holds(&manifest.environment))
        };
        if either(|environment| environment.device.name == "host") {
            notes.push(Note::HostDevice);
        }
        if either(|environment| environment.build.profile == "debug") {
            notes.push(Note::DebugBuild);
        }
        notes
    }
}

fn of_side(side: Which, input: &Input) -> Vec<Note> {
    let mut notes = Vec::new();
    match &input.manifest {
        Some(manifest) => {
            let fault = manifest.settings.injected_fault.clone();
            notes.extend(fault.map(|fault| Note::InjectedFault { side, fault }));
        }
        None => notes.push(Note::EnvironmentUnknown { side, kind: input.kind }),
    }
    if input.stale > 0 {
        notes.push(Note::Stale {
            side,
            benchmarks: input.stale,
        });
    }
    if !input.left_out.is_empty() {
        notes.push(Note::LeftOut {
            side,
            count: input.left_out.len(),
        });
    }
    notes
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::OneLaunch => f.write_str(
                "one launch a side: there is no verdict; the interval holds inside the two processes only, \
                 and two launches of the same executable differ by more",
            ),
            Note::IdenticalTimes { benchmarks, compared } => write!(
                f,
                "{benchmarks} of {} {} the very same times on both sides: \
                 there one side is a copy of the other",
                counted(compared, "compared benchmark"),
                agreeing(*benchmarks, "has", "have")
            ),
            Note::Mismatch(difference) => write!(
                f,
                "compared although the sides measured different things: {} {} against {}",
                difference.what,
                Printable(&difference.base),
                Printable(&difference.new)
            ),
            Note::InjectedFault { side, fault } => {
                write!(f, "{side} was recorded under an injected fault: {}", Printable(fault))
            }
            Note::HostDevice => f.write_str("measured on the host device: these are not GPU numbers"),
            Note::DebugBuild => f.write_str("measured with a debug build: record with a release build"),
            Note::EnvironmentUnknown { side, kind } => write!(
                f,
                "{side} is a {kind}, which does not say on which machine, driver and build it was measured"
            ),
            Note::Stale { side, benchmarks } => write!(
                f,
                "{side}: {} {} written more than a day before the newest, and may be left over from another run",
                counted(benchmarks, "benchmark"),
                agreeing(*benchmarks, "was", "were")
            ),
            Note::LeftOut { side, count } => write!(
                f,
                "{side}: {} could not be used and {} left out",
                counted(count, "entry"),
                agreeing(*count, "is", "are")
            ),
        }
    }
}
