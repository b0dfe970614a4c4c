//! Every benchmark, in a table that sorts and filters; and what was skipped.

use super::super::timings::Place;
use super::format::{change, foreign, microseconds, percent, probability, ratio, undefined};
use super::launches;
use super::view::{View, verdict_style};
use crate::report::comparison::rank;
use crate::report::verdict_reason;
use crate::stats::{BenchmarkComparison, Class, SessionLayout};
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn section(view: &View) -> Markup {
    html! {
        h2 #benchmarks { "All benchmarks" }
        p.note {
            "Times are medians over launches, µs per iteration"
            @if view.compared.is_some() { ", of what each launch is judged by, the fast half of its samples; changes have the host's speed taken out, where it was recorded" }
            ". The picture has a dot a launch, in the order of time, with the median as a line"
            @if view.compared.is_some() { ": the base in grey, then the new side in blue, on one logarithmic axis" }
            "; launches more than 25 % above the median are drawn on its upper edge, and thin lines part sessions."
            " Detectable: the smallest change that nine of ten comparisons of such recordings would find"
            // Halves of one baseline share its sessions; what a comparison says has its own sessions in it.
            @if view.compared.is_none() { ", sessions shared (as with " code { "--libcuda" } " twice; recorded at two times, what sessions differ by comes on top)" }
            "."
        }
        div.controls.scripted {
            label for="filter" { "Filter by id" input #filter type="search" autocomplete="off" placeholder="sync 1MiB"; }
            @if view.compared.is_some() { (verdicts()) }
            span.note #shown aria-live="polite" {}
        }
        div.scroll tabindex="0" role="region" aria-label="All benchmarks" {
            table.all.wide #all {
                @match view.compared {
                    Some(compared) => {
                        (headings(&COMPARED))
                        tbody { @for benchmark in ordered(view, &compared.comparison.benchmarks) { (compared_row(view, benchmark)) } }
                    }
                    None => {
                        (headings(&ALONE))
                        tbody { @for id in &view.ids { (row(view, id)) } }
                    }
                }
            }
        }
    }
}

/// What changed first, then in the order of the suite: the order of a table that nobody sorts.
fn ordered<'a>(view: &View, benchmarks: &'a [BenchmarkComparison]) -> Vec<&'a BenchmarkComparison> {
    let places: BTreeMap<&str, usize> = view.ids.iter().map(String::as_str).zip(0..).collect();
    let mut benchmarks: Vec<&BenchmarkComparison> = benchmarks.iter().collect();
    benchmarks.sort_by_key(|benchmark| {
        let rank = rank(&benchmark.verdict).unwrap_or(u8::MAX);
        (rank, places.get(benchmark.id.as_str()).copied().unwrap_or(usize::MAX))
    });
    benchmarks
}

fn verdicts() -> Markup {
    let names = [
        "regressed",
        "improved",
        "suspected",
        "equivalent",
        "inconclusive",
        "new",
        "missing",
        "skipped",
    ];
    html! {
        label for="verdict" { "Verdict"
            select #verdict {
                option value="" { "any" }
                @for name in names { option value=(name) { (name) } }
            }
        }
    }
}

/// A heading, and whether its column holds numbers, text or pictures.
const COMPARED: [(&str, Column); 10] = [
    ("Benchmark", Column::Text),
    ("Verdict", Column::Text),
    ("Change", Column::Number),
    ("95 % interval", Column::Number),
    ("q-value", Column::Number),
    ("Detectable", Column::Number),
    ("Base, µs", Column::Number),
    ("New, µs", Column::Number),
    ("× hoisted", Column::Number),
    ("Launches", Column::Picture),
];
const ALONE: [(&str, Column); 6] = [
    ("Benchmark", Column::Text),
    ("Median, µs", Column::Number),
    ("95 % interval, µs", Column::Number),
    ("× hoisted", Column::Number),
    ("Detectable", Column::Number),
    ("Launches", Column::Picture),
];

#[derive(Clone, Copy, PartialEq)]
enum Column {
    Text,
    Number,
    Picture,
}

fn headings(columns: &[(&str, Column)]) -> Markup {
    html! {
        thead { tr {
            @for (name, column) in columns {
                @if *column == Column::Picture {
                    th scope="col" { (name) }
                } @else {
                    th scope="col" aria-sort="none" class=[(*column == Column::Number).then_some("n")] { button type="button" { (name) } }
                }
            }
        } }
    }
}

/// A cell that sorts by its number; by nothing where there is none.
fn number(value: Option<f64>, class: &str, shown: &Markup) -> Markup {
    let key = value.map(|value| format!("{value:.6e}")).unwrap_or_default();
    html! { td class=(format!("n {class}")) data-n=(key) { (shown) } }
}

fn time_cell(view: &View, side: usize, id: &str) -> Markup {
    let time_ns = view.time_ns(side, id);
    let shown = time_ns.map_or_else(
        || undefined("not measured on this side"),
        |time_ns| html! { (microseconds(time_ns)) },
    );
    number(time_ns, "", &shown)
}

fn cost_cell(view: &View, id: &str) -> Markup {
    let timings = &view.shown().timings;
    let cost = Place::of(id).and_then(|place| {
        let group = timings.group(&place.group)?;
        timings.ratio_to_hoisted(group, &place.function, &place.value)
    });
    let shown = cost.map_or_else(
        || undefined("its workload has no loop without allocation at this size"),
        |cost| html! { (ratio(cost)) },
    );
    number(cost, "", &shown)
}

fn compared_row(view: &View, benchmark: &BenchmarkComparison) -> Markup {
    let id = benchmark.id.as_str();
    let measured = benchmark.measured.as_ref();
    let style = verdict_style(&benchmark.verdict, measured.map(|measured| measured.effect.ratio));
    let timing = |side: usize| view.sides().nth(side).and_then(|side| side.timings.get(id));
    html! {
        tr data-verdict=(style.name) {
            th.id scope="row" { (super::format::id(id)) }
            td class=(format!("verdict {}", style.class)) title=[verdict_reason(&benchmark.verdict)] { span.mark aria-hidden="true" { (style.sign) } " " (style.name) }
            (effect_cells(view, benchmark, style.class))
            (time_cell(view, 0, id)) (time_cell(view, 1, id)) (cost_cell(view, id))
            td { (launches::picture(timing(0), timing(1))) }
        }
    }
}

fn effect_cells(view: &View, benchmark: &BenchmarkComparison, class: &str) -> Markup {
    let Some((effect, measured)) = view.effect(benchmark).zip(benchmark.measured.as_ref()) else {
        let none = || number(None, "", &undefined("not compared: it has no times on both sides"));
        return html! { (none()) (none()) (none()) (none()) };
    };
    let interval = effect.interval;
    let shown = interval.map_or_else(
        || undefined("too few launches for an interval"),
        |interval| html! { (change(interval.lower)) " to " (change(interval.upper)) },
    );
    let q_value = measured.p_value.map(|_| measured.q_value);
    let q_shown = q_value.map_or_else(
        || undefined("too few launches on a side: there is no test"),
        |q_value| html! { (probability(q_value)) },
    );
    let detectable = measured.minimal_detectable_effect;
    let is_unknown = measured.sessions != SessionLayout::Shared && measured.p_value.is_some();
    let none = if is_unknown && matches!(measured.class, Class::HostBound | Class::Unknown) {
        "sessions too few to tell how they differ: any difference could be one between sessions"
    } else {
        "launches like these are too few to show any change"
    };
    let detectable_shown = detectable.map_or_else(|| undefined(none), |effect| html! { (percent(effect)) });
    html! {
        (number(Some(effect.ratio), class, &html! { (change(effect.ratio)) (super::changes::notes(view, benchmark)) }))
        (number(interval.map(|interval| interval.upper / interval.lower), "", &shown))
        (number(q_value, "", &q_shown))
        (number(detectable, "", &detectable_shown))
    }
}

fn row(view: &View, id: &str) -> Markup {
    let timing = view.base.timings.get(id);
    let interval = timing.and_then(|timing| timing.interval_ns);
    let shown = interval.map_or_else(
        || undefined("fewer than six launches"),
        |(lower, upper)| html! { (microseconds(lower)) " to " (microseconds(upper)) },
    );
    let calibration = view.calibration.and_then(|calibration| {
        let benchmarks = &calibration.benchmarks;
        let found = benchmarks.binary_search_by(|benchmark| benchmark.id.as_str().cmp(id));
        found.ok().map(|index| &benchmarks[index])
    });
    let detectable = calibration.and_then(|benchmark| benchmark.minimal_detectable_effect);
    let detectable_shown = detectable.map_or_else(
        || undefined("too few launches to split in two and compare"),
        |effect| html! { (percent(effect)) },
    );
    html! {
        tr {
            th.id scope="row" { (super::format::id(id)) }
            (time_cell(view, 0, id))
            (number(interval.map(|(lower, upper)| upper / lower), "", &shown))
            (cost_cell(view, id))
            (number(detectable, "", &detectable_shown))
            td { (launches::picture(timing, None)) }
        }
    }
}

/// What was skipped or left out, with the reasons in the words of the run.
pub(super) fn skips(view: &View) -> Markup {
    let mut reasons: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
    for (side, name) in view.sides().zip(["base", "new"]) {
        for (id, benchmark) in side.side.benchmarks() {
            if let Some(reason) = benchmark.skipped() {
                reasons
                    .entry((id.to_string(), reason.to_string()))
                    .or_default()
                    .insert(name);
            }
        }
        for left_out in &side.summary.left_out {
            let key = (left_out.name.clone(), format!("left out: {}", left_out.reason));
            reasons.entry(key).or_default().insert(name);
        }
    }
    html! {
        h2 #skipped { "Skipped" }
        @if reasons.is_empty() {
            p { "Nothing was skipped." }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Skipped benchmarks" { table {
                thead { tr { th scope="col" { "Benchmark" } @if view.new.is_some() { th scope="col" { "Side" } } th scope="col" { "Reason" } } }
                tbody { @for ((id, reason), sides) in &reasons {
                    tr {
                        th.id scope="row" { (super::format::id(id)) }
                        @if view.new.is_some() { td { (sides.iter().copied().collect::<Vec<_>>().join(", ")) } }
                        td.text { (foreign(reason)) }
                    }
                } }
            } }
        }
    }
}
