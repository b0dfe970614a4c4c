//! The top of the page: what was found, in one sentence, then in numbers, then in findings and doubts.

use super::format::{change, counted, foreign, ratio};
use super::view::View;
use crate::report::{Compared, Conclusion, Printable};
use crate::stats::{CommonShift, Correction, Direction, Finding, Warning};
use maud::{Markup, html};

/// The headline and the exit status that it stands for.
pub(super) struct Headline {
    pub text: String,
    pub exit: String,
}

/// Returns the sentence on top.
pub(super) fn headline(view: &View) -> Headline {
    match view.compared {
        Some(compared) => compared_headline(compared),
        None => Headline {
            text: cost_headline(view),
            exit: String::from("exit status 0: one baseline, nothing was compared."),
        },
    }
}

fn compared_headline(compared: &Compared) -> Headline {
    let summary = compared.comparison.summary;
    let measured = compared.comparison.benchmarks.iter().filter(|benchmark| benchmark.measured.is_some());
    let of = counted(measured.count(), "benchmark", "benchmarks");
    let common = compared.comparison.common_shift.filter(|shift| shift.established);
    let text = if !compared.has_verdicts() {
        format!("No verdict: too few launches to judge any of {of}")
    } else if summary.regressed > 0 {
        let most = leading(compared, Direction::Slower);
        let improved = improved_clause(summary.improved);
        format!("{} of {of} got slower{most}{improved}", summary.regressed)
    } else if let Some(shift) = common.filter(|shift| shift.effect.ratio > 1.0) {
        format!(
            "Everything that the host paces got slower together, by {}",
            change(shift.effect.ratio)
        )
    } else if summary.improved > 0 {
        let most = leading(compared, Direction::Faster);
        format!("No regression; {} of {of} got faster{most}", summary.improved)
    } else if summary.suspected > 0 {
        let suspected = counted(summary.suspected, "change is", "changes are");
        format!("No regression proven in {of}; {suspected} suspected, which one session a side cannot settle")
    } else {
        format!("No change found in {of}")
    };
    let exit = match compared.conclusion() {
        Conclusion::Regression => "exit status 1: a regression was found.",
        Conclusion::Doubt => "exit status 1: strict, and something is suspected or missing.",
        Conclusion::NoRegression => "exit status 0: no regression.",
    };
    Headline {
        text,
        exit: exit.to_owned(),
    }
}

fn improved_clause(improved: usize) -> String {
    if improved > 0 {
        format!("; {improved} got faster")
    } else {
        String::new()
    }
}

/// The first finding of this direction, as part of the headline.
fn leading(compared: &Compared, direction: Direction) -> String {
    let mut findings = compared.comparison.findings.iter();
    let finding = findings.find(|finding| finding.direction == direction);
    finding.map_or_else(String::new, |finding| {
        let label = Printable(&finding.label.label).to_string();
        format!(
            ", {} of them {label} (median {})",
            finding.benchmarks.len(),
            change(finding.ratio)
        )
    })
}

/// What allocating costs at worst, of the strategies that the question is about.
fn cost_headline(view: &View) -> String {
    let timings = &view.base.timings;
    let worst = |function: &str| {
        let group = timings.group("scratch_loop")?;
        let costs = group.values.iter().filter_map(|value| Some((timings.ratio_to_hoisted(group, function, value)?, value)));
        costs.max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let part = |function: &str| {
        worst(function).map(|(cost, value)| format!("{function} costs up to {} ({value})", ratio(cost)))
    };
    let parts: Vec<String> = ["sync", "stream_ordered", "arena"].into_iter().filter_map(part).collect();
    if parts.is_empty() {
        return counted(timings.len(), "benchmark measured", "benchmarks measured");
    }
    format!("Against a loop that does not allocate, {}", parts.join(", "))
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
    let doubts = doubts(compared);
    html! {
        @if comparison.common_shift.is_some_and(|shift| shift.declared) || !comparison.findings.is_empty() || !comparison.renamings.is_empty() {
            section.lead aria-label="Findings" { ul.list {
                @if let Some(shift) = comparison.common_shift.filter(|shift| shift.declared) { (common_shift(&shift)) }
                @for found in &comparison.findings { (finding(found)) }
                @for renaming in &comparison.renamings {
                    li { "Probably renamed: " (foreign(&renaming.from.to_string())) " is now " (foreign(&renaming.to.label)) " (" (counted(renaming.benchmarks, "benchmark", "benchmarks")) ")" }
                }
            } }
        }
        @if !doubts.is_empty() {
            section.doubts { h2 { "Doubts" } ul.list { @for doubt in doubts { li { (foreign(&doubt)) } } } }
        }
    }
}

fn common_shift(shift: &CommonShift) -> Markup {
    let class = if shift.effect.ratio > 1.0 { "slower" } else { "faster" };
    let interval = shift.effect.interval.map(|interval| format!(", 95 % interval {} to {}", change(interval.lower), change(interval.upper)));
    let treated = match shift.correction {
        Correction::Applied => "It is taken out of the single verdicts.",
        Correction::MovedApart => "They moved apart, so nothing is taken out of the single verdicts.",
    };
    let standing = if shift.established {
        "The host's own speed stood still, so this is the driver's doing."
    } else {
        "The host or the session may have done it: this is a warning."
    };
    html! {
        li.finding {
            "Common shift: the " (shift.benchmarks) " host-bound benchmarks moved together by "
            span class=(class) { (change(shift.effect.ratio)) } (interval.unwrap_or_default()) ". "
            span.quiet { (treated) " " (standing)
                @if let Some(probe) = shift.probe_shift { " The host-speed probe moved by " (change(probe.ratio)) "." }
            }
        }
    }
}

fn finding(finding: &Finding) -> Markup {
    let (class, word, sign) = match finding.direction {
        Direction::Slower => ("slower", "slower", "▲"),
        Direction::Faster => ("faster", "faster", "▼"),
    };
    html! {
        li.finding {
            (foreign(&finding.label.to_string())) ": " span class=(class) { (sign) " " (word) ", median " (change(finding.ratio)) }
            " (" (finding.benchmarks.len()) " of its " (finding.compared) " compared benchmarks moved)"
        }
    }
}

/// What casts doubt, most general first. Doubts about single benchmarks are told once a kind.
fn doubts(compared: &Compared) -> Vec<String> {
    let mut doubts: Vec<String> = compared.notes.iter().map(ToString::to_string).collect();
    let (mut incomplete, mut disagreeing) = (Vec::new(), Vec::new());
    for warning in &compared.comparison.warnings {
        match warning {
            Warning::ProbesIncomplete(id) => incomplete.push(id.to_string()),
            Warning::AdjustmentDisagrees(id) => disagreeing.push(id.to_string()),
            // It stands among the findings, with its numbers.
            Warning::CommonShift => {}
            other => doubts.push(other.to_string()),
        }
    }
    for (ids, what) in [
        (incomplete, "have no host-speed probe on some launches and are not adjusted"),
        (disagreeing, "say something else once the host's speed is taken out"),
    ] {
        if let Some(first) = ids.first() {
            let others = if ids.len() > 1 { ", …" } else { "" };
            doubts.push(format!("{} {what}: {first}{others}", counted(ids.len(), "benchmark", "benchmarks")));
        }
    }
    doubts
}
