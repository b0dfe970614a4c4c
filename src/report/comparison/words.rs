//! The sentences of a comparison, which every form of report shares.

use super::{Compared, Conclusion, Note, SideSummary};
use crate::baseline::KnownSpread;
use crate::command_line::CommandLine;
use crate::counted::counted;
use crate::report::commands::with_another_session;
use crate::report::{OneLine, Printable};
use crate::stats::{
    BenchmarkComparison, CommonShift, Correction, Direction, Effect, Finding, GroupShift, Inconclusive, Interval,
    Options, Renaming, SessionSpread, SkipReason, Verdict, Warning, launches_beside,
};

/// Returns the word for a verdict, as JSON and tables show it.
#[must_use]
pub fn verdict_name(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Regressed => "regressed",
        Verdict::Improved => "improved",
        Verdict::Suspected { .. } => "suspected",
        Verdict::Equivalent => "equivalent",
        Verdict::Inconclusive(_) => "inconclusive",
        Verdict::New { .. } => "new",
        Verdict::Missing { .. } => "missing",
        Verdict::Skipped(_) => "skipped",
    }
}

/// Returns what stands beside a verdict: why there is none, or what would settle it.
#[must_use]
pub fn verdict_reason(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Suspected { sessions_needed } => Some(match sessions_needed {
            Some(sessions) => format!("{} a side would settle it", counted(sessions, "session")),
            None => String::from("more than 20 sessions a side would be needed"),
        }),
        Verdict::Inconclusive(reason) => Some(String::from(match reason {
            Inconclusive::FewLaunches => "too few launches",
            Inconclusive::NoisyHost => "the host was too noisy",
            Inconclusive::SessionsUnknown => "sessions unknown",
            Inconclusive::Resolution => "not resolved",
        })),
        Verdict::New { skipped_before } => {
            let reason = skipped_before.as_ref()?;
            Some(format!("the base skipped it: {}", OneLine(reason)))
        }
        Verdict::Missing { skipped_now } => {
            let reason = skipped_now.as_ref()?;
            Some(format!("the new side skipped it: {}", OneLine(reason)))
        }
        Verdict::Skipped(SkipReason::Recorded(reason) | SkipReason::Unreadable(reason)) => {
            Some(OneLine(reason).to_string())
        }
        Verdict::Skipped(SkipReason::Invalid(reason)) => Some(OneLine(&reason.to_string()).to_string()),
        _ => None,
    }
}

/// A ratio as a change: `+3.1 %`, and never `-0.0 %`.
pub(super) fn change(ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0);
    if percent.abs() < 0.05 {
        return String::from("±0.0 %");
    }
    format!("{percent:+.1} %")
}

pub(super) fn share(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn change_with_interval(effect: &Effect) -> String {
    match effect.interval {
        Some(interval) => format!(
            "{} (95 % interval {} to {})",
            change(effect.ratio),
            change(interval.lower),
            change(interval.upper)
        ),
        None => change(effect.ratio),
    }
}

impl Compared {
    /// Returns the sentence that stands on top: what was found, and the exit code that says so.
    #[must_use]
    pub fn headline(&self) -> String {
        let summary = self.comparison.summary;
        let compared = self.compared();
        let of = format!("of {}", counted(compared, "benchmark"));
        let mut parts = Vec::new();
        if summary.regressed > 0 {
            parts.push(format!("{} {of} regressed", summary.regressed));
        }
        if let Some(shift) = self.comparison.common_shift.filter(|shift| shift.established) {
            parts.push(moved_together("", &shift.effect));
        }
        for group in self.comparison.group_shifts.iter().filter(|group| group.established) {
            parts.push(moved_together(
                &format!(" of {}", Printable(&group.group)),
                &group.effect,
            ));
        }
        if summary.improved > 0 {
            parts.push(format!("{} improved", summary.improved));
        }
        if summary.suspected > 0 {
            parts.push(format!("{} suspected", summary.suspected));
        }
        if summary.missing > 0 {
            let skipped_now = |benchmark: &&BenchmarkComparison| {
                matches!(&benchmark.verdict, Verdict::Missing { skipped_now: Some(_) })
            };
            let parted = match self.comparison.benchmarks.iter().filter(skipped_now).count() {
                0 => String::new(),
                skipped => format!(" ({skipped} skipped by the new side)"),
            };
            parts.push(format!("{} missing{parted}", summary.missing));
        }
        // "No regression" alone would promise more than was shown.
        if self.conclusion() == Conclusion::NoRegression && summary.inconclusive > 0 {
            parts.push(format!("{} inconclusive", summary.inconclusive));
        }
        let found = parts.join(", ");
        let sentence = match self.conclusion() {
            Conclusion::Regression => format!("Regression: {found}"),
            Conclusion::Doubt => format!("No regression, but --strict: {found}"),
            Conclusion::NoRegression if !self.has_verdicts() => {
                format!("No verdict: {}", self.why_no_verdict(compared))
            }
            Conclusion::NoRegression if parts.is_empty() => {
                format!("No regression among {}", counted(compared, "benchmark"))
            }
            Conclusion::NoRegression => format!("No regression among {}: {found}", counted(compared, "benchmark")),
        };
        let few = self.comparison.warnings.iter().find_map(|warning| match warning {
            Warning::FewLaunches { launches, needed } if self.has_verdicts() => Some(format!(
                "; {} a side cannot show a single change, {needed} can",
                counted(*launches, "launch")
            )),
            _ => None,
        });
        format!("{sentence}{} (exit {})", few.unwrap_or_default(), self.exit_code())
    }

    fn why_no_verdict(&self, compared: usize) -> String {
        if !self.in_process.is_empty() {
            return format!(
                "one launch a side of {}; ratios and intervals hold inside the two processes only",
                counted(compared, "benchmark")
            );
        }
        let (base, new) = (self.base.launches, self.new.launches);
        let (more, fewer) = (base.max(new), base.min(new));
        let needed = launches_beside(more);
        let enough = if more < needed || needed <= fewer {
            String::from("four a side give an interval")
        } else {
            format!("beside {more} it takes {needed} to give an interval")
        };
        format!(
            "{} against {} of {} are too few: {enough}",
            counted(base, "launch"),
            counted(new, "launch"),
            counted(compared, "benchmark")
        )
    }

    /// Returns how many benchmarks both sides measured.
    #[must_use]
    pub fn compared(&self) -> usize {
        let measured = |benchmark: &&BenchmarkComparison| benchmark.measured.is_some();
        self.comparison.benchmarks.iter().filter(measured).count()
    }

    /// Returns what is found about parts of the suite, a line each: the common shift, those of groups, labels whose
    /// benchmarks moved together, labels that were renamed.
    #[must_use]
    pub fn suite_lines(&self) -> Vec<String> {
        let shift = self
            .comparison
            .common_shift
            .iter()
            .map(|shift| common_shift_line(shift, &self.request.options));
        let groups = self.comparison.group_shifts.iter().map(group_shift_line);
        let findings = self.comparison.findings.iter().map(finding_line);
        let renamings = self.comparison.renamings.iter().map(renaming_line);
        shift.chain(groups).chain(findings).chain(renamings).collect()
    }

    /// Returns the doubts, a line each: about the inputs, then about the comparison.
    #[must_use]
    pub fn doubt_lines(&self) -> Vec<String> {
        let notes = self.notes.iter().map(ToString::to_string);
        let one_launch = self.notes.contains(&Note::OneLaunch);
        let said_elsewhere = |warning: &&Warning| match warning {
            Warning::AdjustmentDisagrees(_) | Warning::ProbesIncomplete(_) => true,
            // Where there is one launch a side, that is all there is to say.
            Warning::OneSession { .. } | Warning::FewLaunches { .. } | Warning::HostBoundUnknown { .. } => one_launch,
            _ => false,
        };
        let warnings = self
            .comparison
            .warnings
            .iter()
            .filter(|warning| !said_elsewhere(warning))
            .map(|warning| Printable(&warning.to_string()).to_string());
        let singles = about_single(&self.comparison.warnings);
        let uses_spread = !one_launch
            && self
                .comparison
                .warnings
                .iter()
                .any(|warning| matches!(warning, Warning::OneSession { .. }));
        let spread = uses_spread.then(|| spread_line(self.request.known_spread.as_ref(), &self.base.name));
        notes.chain(warnings).chain(singles).chain(spread).collect()
    }
}

impl SideSummary {
    /// Returns the side in a line: what it is, of which machine, how much of it.
    #[must_use]
    pub fn line(&self) -> String {
        let mut parts = Vec::new();
        match &self.environment {
            Some(environment) => {
                parts.push(Printable(&environment.device.name).to_string());
                if let Some(driver) = &environment.device.driver_version {
                    parts.push(format!("driver {}", Printable(driver)));
                }
                parts.push(format!("CUDA {}", Printable(&environment.device.cuda_version)));
            }
            None => parts.push(self.kind.to_string()),
        }
        parts.push(counted(self.benchmarks, "benchmark"));
        parts.push(format!(
            "{} in {}",
            counted(self.launches, "launch"),
            counted(self.sessions, "session")
        ));
        if let Some(created) = &self.created {
            parts.push(Printable(created).to_string());
        }
        parts.join(", ")
    }
}

/// Doubts about single benchmarks, which a noisy host raises by the dozen: one line a kind.
fn about_single(warnings: &[Warning]) -> Vec<String> {
    let line = |what: &str, ids: Vec<String>| match ids.len() {
        0 => None,
        1 => Some(format!("{}: {what}", ids[0])),
        others => Some(format!("{}, and {}: {what}", ids[0], counted(others - 1, "other"))),
    };
    let ids = |of: fn(&Warning) -> Option<&crate::stats::BenchmarkId>| {
        let ids = warnings.iter().filter_map(of);
        ids.map(|id| Printable(id.as_str()).to_string()).collect()
    };
    let incomplete = ids(|warning| match warning {
        Warning::ProbesIncomplete(id) => Some(id),
        _ => None,
    });
    let disagree = ids(|warning| match warning {
        Warning::AdjustmentDisagrees(id) => Some(id),
        _ => None,
    });
    [
        line("some launches have no host-speed probe; not adjusted", incomplete),
        line(
            "the raw and the adjusted effect disagree; the note of the row has the raw one",
            disagree,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn moved_together(of_group: &str, effect: &Effect) -> String {
    let moved = if effect.ratio > 1.0 { "slower" } else { "faster" };
    format!(
        "the host-bound benchmarks{of_group} are {moved} together by {}",
        share((effect.ratio - 1.0).abs())
    )
}

/// What a common shift is worth.
pub(in crate::report) fn standing(shift: &CommonShift, options: &Options) -> &'static str {
    let least = 1.0 + options.min_effect();
    let is_small = |interval: Interval| interval.lower >= 1.0 / least && interval.upper <= least;
    if shift.established {
        "a finding of its own"
    } else if shift.declared {
        "it may be the host's, and is no finding"
    } else if shift.effect.interval.is_some_and(is_small) {
        "within the minimum effect"
    } else {
        "not certain"
    }
}

fn common_shift_line(shift: &CommonShift, options: &Options) -> String {
    let standing = standing(shift, options);
    let correction = match shift.correction {
        Correction::Applied => "taken out of the single verdicts",
        Correction::InProportion => {
            "taken out of the single verdicts in proportion to how each follows the host's speed"
        }
        Correction::MovedApart => "not taken out, since they moved by different amounts",
    };
    let probe = shift
        .probe_shift
        .map(|probe| format!("; the host-speed probe moved by {}", change(probe.ratio)))
        .unwrap_or_default();
    format!(
        "the {} moved by {} in the middle: {standing}; {correction}{probe}",
        counted(shift.benchmarks, "host-bound benchmark"),
        change_with_interval(&shift.effect)
    )
}

fn group_shift_line(group: &GroupShift) -> String {
    let standing = if group.established {
        "a finding of its own"
    } else {
        "it may be the host's, and is no finding"
    };
    format!(
        "the {} of {} moved by {} in the middle, and not as the suite did: {standing}; not taken out of the single verdicts",
        counted(group.benchmarks, "host-bound benchmark"),
        Printable(&group.group),
        change_with_interval(&group.effect)
    )
}

/// What a finding's benchmarks are, as far as that is proven: `slower`, `suspected to be slower`.
pub(in crate::report) fn moved_as(finding: &Finding) -> String {
    let direction = match finding.direction {
        Direction::Slower => "slower",
        Direction::Faster => "faster",
    };
    match finding.proven {
        0 => format!("suspected to be {direction}"),
        proven if proven < finding.benchmarks.len() => {
            format!("{direction} or suspected to be ({proven} proven)")
        }
        _ => direction.to_owned(),
    }
}

fn finding_line(finding: &Finding) -> String {
    format!(
        "{}: {} of {} are {}, {} in the middle",
        Printable(&finding.label.to_string()),
        finding.benchmarks.len(),
        counted(finding.compared, "benchmark"),
        moved_as(finding),
        change(finding.ratio)
    )
}

fn renaming_line(renaming: &Renaming) -> String {
    format!(
        "{} seems to be called {} now ({})",
        Printable(&renaming.from.to_string()),
        Printable(&renaming.to.label),
        counted(renaming.benchmarks, "benchmark")
    )
}

fn spread_line(known: Option<&KnownSpread>, base: &str) -> String {
    let spreads = |spread: &SessionSpread| {
        let host_bound = spread.host_bound.map_or_else(|| String::from("unknown"), share);
        format!(
            "GPU-bound {}, mixed {}, host-bound {host_bound}",
            share(spread.gpu_bound),
            share(spread.mixed)
        )
    };
    match known {
        Some(known) => format!(
            "spread between sessions of this machine: {} (from {} of sessions in {})",
            spreads(&known.spread),
            counted(known.pairs, "pair"),
            known.baselines.join(", ")
        ),
        None => format!(
            "spread between sessions, assumed: {}; a second session of one driver measures it (`{}`)",
            spreads(&SessionSpread::default()),
            with_another_session(CommandLine::through_cargo("record"), base)
        ),
    }
}
