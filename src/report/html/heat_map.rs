//! Tables of numbers on coloured ground: strategy by size.
//!
//! They are tables and not pictures, so that every number can be read, copied and heard.

use super::super::timings::Group;
use super::format::{change, foreign, microseconds, plain, ratio, undefined};
use super::view::{View, verdict_style};
use crate::stats::{BenchmarkComparison, Verdict};
use maud::{Markup, html};

/// Shares from which a change has the next stronger colour.
const CHANGE_STEPS: [f64; 3] = [0.03, 0.06, 0.12];
/// The ends and the middles of the colours of changes, in words.
const CHANGE_LEGEND: [(&str, &str, &str); 4] = [
    ("f4", "▼", "faster by 12 % or more"),
    ("f2", "▼", "faster by 3 %"),
    ("s2", "▲", "slower by 3 %"),
    ("s4", "▲", "slower by 12 % or more"),
];
/// Ratios to the hoisted baseline from which a cost has the next stronger colour.
const COST_STEPS: [f64; 5] = [1.05, 1.25, 2.0, 5.0, 20.0];

/// The change, new over base: every workload.
pub(super) fn change_section(view: &View) -> Markup {
    if view.compared.is_none() {
        return html! {};
    }
    html! {
        h2 #change { "Change by strategy and size" }
        p.note { "A coloured cell has changed, or with ? is suspected to have. A grey number has not, or not by more than these launches can tell." }
        ul.legend aria-label="Colours" {
            @for (class, sign, words) in CHANGE_LEGEND { li { span class=(format!("key {class}")) { (sign) } (words) } }
            li { span.key.s1.doubt { "?" } "suspected" }
            li { span.key { "=" } "equivalent" }
        }
        div.charts {
            @for group in &view.groups { (change_table(view, group)) }
        }
    }
}

fn change_table(view: &View, group: &Group) -> Markup {
    let cell = |function: &str, value: &str| {
        let id = format!("{}/{function}/{value}", group.name);
        view.by_id
            .get(id.as_str())
            .map(|benchmark| change_cell(view, benchmark))
    };
    grid(group, &group.functions, &cell)
}

fn change_cell(view: &View, benchmark: &BenchmarkComparison) -> Markup {
    let Some(found) = view.effect(benchmark) else {
        let style = verdict_style(&benchmark.verdict, None);
        return html! { td.quiet title=(style.name) { (style.sign) } };
    };
    let effect = found.ratio;
    let style = verdict_style(&benchmark.verdict, Some(effect));
    let title = match found.interval {
        Some(interval) => format!(
            "{}, 95 % interval {} to {}",
            style.name,
            change(interval.lower),
            change(interval.upper)
        ),
        None => format!("{}, no interval: too few launches", style.name),
    };
    let (class, sign) = match benchmark.verdict {
        Verdict::Regressed | Verdict::Improved => (format!("{}{}", hue(effect), step(effect)), style.sign),
        Verdict::Suspected { .. } => (format!("{}1 doubt", hue(effect)), style.sign),
        Verdict::Equivalent => (String::from("quiet"), style.sign),
        _ => (String::from("quiet"), ""),
    };
    html! { td class=(class) title=(title) { (change(effect)) @if !sign.is_empty() { " " span aria-hidden="true" { (sign) } } } }
}

fn hue(ratio: f64) -> char {
    if ratio > 1.0 { 's' } else { 'f' }
}

fn step(ratio: f64) -> usize {
    let size = ratio.ln().abs();
    1 + CHANGE_STEPS.iter().filter(|step| size >= step.ln_1p()).count()
}

/// The cost, over the loop that does not allocate: the workloads that have one.
pub(super) fn cost_section(view: &View) -> Markup {
    let side = view.shown();
    let groups = side.timings.groups();
    let with_baseline: Vec<&Group> = groups
        .iter()
        .filter(|group| group.functions.iter().any(|function| group.hoisted(function).is_some()))
        .collect();
    html! {
        h2 #cost { "What allocating costs" }
        p.note {
            "Time over that of the same loop with the buffer allocated before it (" code { "hoisted" } "), at the same size"
            @if view.new.is_some() { "; the new side" } "."
        }
        @if with_baseline.is_empty() {
            p { "No workload here has a loop without allocation to compare with." }
        } @else {
            ul.legend aria-label="Colours" {
                @for (index, from) in COST_STEPS.iter().enumerate() {
                    li { span class=(format!("key c{}", index + 1)) { "×" } "from " (ratio(*from)) }
                }
            }
            div.charts { @for group in with_baseline { (cost_table(view, group)) } }
        }
    }
}

fn cost_table(view: &View, group: &Group) -> Markup {
    let timings = &view.shown().timings;
    let functions: Vec<String> = group
        .functions
        .iter()
        .filter(|function| function.as_str() != "noop")
        .cloned()
        .collect();
    let cell = |function: &str, value: &str| {
        let timing = timings.at(&group.name, function, value)?;
        let time = microseconds(timing.median_ns);
        if group.hoisted(function) == Some(function) {
            return Some(html! { td.quiet { (time) " µs" } });
        }
        let Some(cost) = timings.ratio_to_hoisted(group, function, value) else {
            return Some(html! { td { (undefined("there is no hoisted time at this size")) } });
        };
        let step = COST_STEPS.iter().filter(|step| cost >= **step).count();
        let base = view
            .beside()
            .and_then(|base| base.timings.ratio_to_hoisted(group, function, value));
        let before = base.map(|base| format!(", base {}", ratio(base))).unwrap_or_default();
        Some(
            html! { td class=[(step > 0).then(|| format!("c{step}"))] title=(format!("{time} µs{before}")) { (ratio(cost)) } },
        )
    };
    grid(group, &functions, &cell)
}

/// A table with a row a function and a column a value. `cell` returns `None` for what was not measured.
fn grid(group: &Group, functions: &[String], cell: &dyn Fn(&str, &str) -> Option<Markup>) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(plain(&group.name)) {
            table.heat {
                caption { (foreign(&group.name)) }
                thead { tr {
                    td {}
                    @for value in &group.values { th.n scope="col" { (foreign(value)) } }
                } }
                tbody {
                    @for function in functions {
                        tr {
                            th scope="row" title=(plain(function)) { (foreign(function)) }
                            @for value in &group.values {
                                @match cell(function, value) {
                                    Some(cell) => (cell),
                                    None => td { (undefined("not measured")) },
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
