//! The top of the page: what was found, in one sentence, then in numbers, then in findings and doubts.

use super::format::{change, foreign, ratio};
use super::view::View;
use crate::counted::counted;
use crate::report::Compared;
use crate::report::comparison::{moved_as, standing};
use crate::stats::{CommonShift, Correction, Direction, Effect, Finding, GroupShift, Options};
use maud::{Markup, html};

/// Returns the sentence on top, with the exit code that it stands for.
pub(super) fn headline(view: &View) -> String {
    view.compared
        .map_or_else(|| format!("{} (exit 0)", cost_headline(view)), Compared::headline)
}

/// What allocating costs at worst, of the strategies that the question is about.
fn cost_headline(view: &View) -> String {
    let timings = &view.base.timings;
    let worst = |function: &str| {
        let group = timings.group("scratch_loop")?;
        let costs = group
            .values
            .iter()
            .filter_map(|value| Some((timings.ratio_to_hoisted(group, function, value)?, value)));
        costs.max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let part = |function: &str| worst(function).map(|(cost, value)| format!("{function} {} ({value})", ratio(cost)));
    let parts: Vec<String> = ["sync", "stream_ordered", "arena"]
        .into_iter()
        .filter_map(part)
        .collect();
    if parts.is_empty() {
        return format!("{} measured", counted(timings.len(), "benchmark"));
    }
    format!(
        "What allocating costs at most, against a loop that does not: {}",
        parts.join(", ")
    )
}

/// The counts of verdicts, each of which filters the table.
pub(super) fn counts(view: &View) -> Markup {
    let Some(compared) = view.compared else {
        return html! {};
    };
    let summary = compared.comparison.summary;
    let counts = [
        (summary.regressed, "regressed", "▲", "slower"),
        (summary.improved, "improved", "▼", "faster"),
        (summary.suspected, "suspected", "?", ""),
        (summary.equivalent, "equivalent", "=", ""),
        (summary.inconclusive, "inconclusive", "~", "quiet"),
        (summary.new, "new", "+", ""),
        (summary.missing, "missing", "−", ""),
        (summary.skipped, "skipped", "∅", "quiet"),
    ];
    html! {
        ul.counts aria-label="Verdicts" {
            @for (count, name, sign, class) in counts {
                li class=[(count == 0).then_some("zero")] {
                    a class=(class) href="#benchmarks" data-verdict=(name) { b { (count) } span.mark aria-hidden="true" { (sign) } " " (name) }
                }
            }
        }
    }
}

/// Findings, the common shift first, then doubts.
pub(super) fn findings(view: &View) -> Markup {
    let Some(compared) = view.compared else {
        return html! {};
    };
    let comparison = &compared.comparison;
    let doubts = compared.doubt_lines();
    html! {
        @if comparison.common_shift.is_some() || !comparison.group_shifts.is_empty() || !comparison.findings.is_empty() || !comparison.renamings.is_empty() {
            section.lead aria-label="Findings" { ul.list {
                @if let Some(shift) = comparison.common_shift { (common_shift(&shift, &compared.request.options)) }
                @for group in &comparison.group_shifts { (group_shift(group)) }
                @for found in &comparison.findings { (finding(found)) }
                @for renaming in &comparison.renamings {
                    li { "Probably renamed: " (foreign(&renaming.from.to_string())) " is now " (foreign(&renaming.to.label)) " (" (counted(renaming.benchmarks, "benchmark")) ")" }
                }
            } }
        }
        @if !doubts.is_empty() {
            section.doubts { h2 { "Doubts" } ul.list { @for doubt in doubts { li { bdi { (doubt) } } } } }
        }
    }
}

/// Shown however small: what was taken out of the verdicts must not hide in them.
fn common_shift(shift: &CommonShift, options: &Options) -> Markup {
    let treated = match shift.correction {
        Correction::Applied => "It is taken out of the single verdicts.",
        Correction::InProportion => {
            "It is taken out of the single verdicts, in proportion to how each benchmark follows the host's speed."
        }
        Correction::MovedApart => "They moved by different amounts, so it is not taken out of the single verdicts.",
    };
    html! {
        li.finding {
            "Common shift: the " (counted(shift.benchmarks, "host-bound benchmark")) (moved(&shift.effect)) ": " (standing(shift, options)) ". "
            span.quiet { (treated) (probe(shift.probe_shift.as_ref())) }
        }
    }
}

fn group_shift(group: &GroupShift) -> Markup {
    html! {
        li.finding {
            "Common shift of " (foreign(&group.group)) ": its " (counted(group.benchmarks, "host-bound benchmark")) (moved(&group.effect)) ", and not as the suite did. "
            span.quiet { "It is not taken out of the single verdicts. " (doer(group.established)) (probe(group.probe_shift.as_ref())) }
        }
    }
}

fn moved(effect: &Effect) -> Markup {
    let class = if effect.ratio > 1.0 { "slower" } else { "faster" };
    let interval = effect.interval.map(|interval| {
        format!(
            ", 95 % interval {} to {}",
            change(interval.lower),
            change(interval.upper)
        )
    });
    html! { ", in the middle, moved by " span class=(class) { (change(effect.ratio)) } (interval.unwrap_or_default()) }
}

fn doer(established: bool) -> &'static str {
    if established {
        "The host's own speed stood still, so this is the driver's doing."
    } else {
        "The host or the session may have done it: this is a warning."
    }
}

fn probe(shift: Option<&Effect>) -> Markup {
    html! { @if let Some(probe) = shift { " The host-speed probe moved by " (change(probe.ratio)) "." } }
}

fn finding(finding: &Finding) -> Markup {
    let (class, sign) = match finding.direction {
        Direction::Slower => ("slower", "▲"),
        Direction::Faster => ("faster", "▼"),
    };
    // The sign of a suspicion, as in the tables.
    let sign = if finding.proven == 0 { "?" } else { sign };
    html! {
        li.finding {
            (foreign(&finding.label.to_string())) ": " span class=(class) { (sign) " " (moved_as(finding)) ", median " (change(finding.ratio)) }
            " (" (finding.benchmarks.len()) " of its " (counted(finding.compared, "compared benchmark")) ")"
        }
    }
}
