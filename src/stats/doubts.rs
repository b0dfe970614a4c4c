//! What makes a comparison as a whole doubtful: its warnings.

use std::collections::BTreeSet;

use super::common_shift::Correction;
use super::comparison::Comparison;
use super::launch_table::LaunchTable;
use super::matched::{Class, Matched, SessionLayout, sessions};
use super::null_distribution::minimum_launches;
use super::options::Options;
use super::order::median;
use super::warning::Warning;

pub(super) fn warnings(
    comparison: &Comparison,
    matched: &[Matched],
    (base, new): (&LaunchTable, &LaunchTable),
    options: &Options,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let counted = |holds: fn(&Matched) -> bool| matched.iter().filter(|b| holds(b)).count();
    let mut when = |count: usize, warning: fn(usize) -> Warning| {
        if count > 0 {
            warnings.push(warning(count));
        }
    };
    when(counted(|b| b.layout == SessionLayout::One), |benchmarks| {
        Warning::OneSession { benchmarks }
    });
    when(counted(unequal), |benchmarks| Warning::UnequalLaunches { benchmarks });
    when(counted(|b| b.class == Class::Unknown), |benchmarks| {
        Warning::HostBoundUnknown { benchmarks }
    });
    let launches = median(matched.iter().map(|b| b.test.launches_min() as f64).collect());
    let needed = minimum_launches(matched.len(), options.false_discovery_rate());
    if let Some(launches) = launches.filter(|&launches| launches < needed as f64) {
        warnings.push(Warning::FewLaunches {
            launches: launches as usize,
            needed,
        });
    }
    if matched.iter().any(partly_shared) {
        warnings.push(Warning::PartlySharedSessions);
    }
    if let Some(shift) = comparison.common_shift {
        if shift.correction == Correction::MovedApart {
            warnings.push(Warning::MovedApart);
        }
        if shift.declared {
            warnings.push(Warning::CommonShift);
        }
    }
    warnings.extend(comparison.group_shifts.iter().map(|group| Warning::GroupShift {
        group: group.group.clone(),
    }));
    if comparison.slow_share.is_some_and(|share| share.is_noisy()) {
        warnings.push(Warning::NoisyHost);
    }
    let flags: BTreeSet<&String> = base.flags.keys().chain(new.flags.keys()).collect();
    for flag in flags {
        let count = |table: &LaunchTable| table.flags.get(flag).copied().unwrap_or(0);
        warnings.push(Warning::Flagged {
            flag: flag.clone(),
            base: count(base),
            new: count(new),
        });
    }
    for benchmark in matched {
        if benchmark.probes_incomplete {
            warnings.push(Warning::ProbesIncomplete(benchmark.id.clone()));
        }
        if adjustment_disagrees(benchmark) {
            warnings.push(Warning::AdjustmentDisagrees(benchmark.id.clone()));
        }
    }
    warnings
}

fn unequal(matched: &Matched) -> bool {
    let (base, new) = (matched.base.len(), matched.new.len());
    base.max(new) > 2 * base.min(new)
}

fn partly_shared(matched: &Matched) -> bool {
    let theirs = sessions(&matched.new);
    matched.layout != SessionLayout::Shared && sessions(&matched.base).iter().any(|session| theirs.contains(session))
}

/// The raw and the adjusted 95 % interval have nothing in common: what the times alone say, and
/// what they say beside the probe, cannot both be the driver's effect.
fn adjustment_disagrees(matched: &Matched) -> bool {
    let intervals = matched.raw.interval95.zip(matched.shift.interval95);
    matched.slope.is_some()
        && intervals.is_some_and(|(raw, adjusted)| raw.lower > adjusted.upper || adjusted.lower > raw.upper)
}
