//! What was measured on both sides, with the differences marked.

use super::format::{foreign, undefined};
use super::view::{SideView, View};
use crate::baseline::{DifferenceKind, Fact, environment_facts, settings_facts};
use crate::counted::counted;
use crate::report::Compared;
use maud::{Markup, html};

/// One fact on either side.
struct Row {
    what: &'static str,
    base: Option<String>,
    /// `None` without a new side.
    new: Option<Option<String>>,
    /// What the comparison makes of a difference.
    difference: Option<DifferenceKind>,
}

pub(super) fn section(view: &View) -> Markup {
    let rows = rows(view);
    let differing = rows.iter().filter(|row| row.difference.is_some()).count();
    html! {
        h2 #measured { "What was measured" }
        @if view.new.is_some() {
            p.note { (counted(differing, "difference")) ", marked " b { "≠" } "; what is judged is marked as the treatment." }
        }
        div.scroll tabindex="0" role="region" aria-label="What was measured" {
            table.facts {
                thead { tr { th scope="col" { "Fact" } th scope="col" { @if view.new.is_some() { "Base" } @else { "Value" } } @if view.new.is_some() { th scope="col" { "New" } } } }
                tbody {
                    @for row in &rows {
                        tr class=[row.difference.map(|_| "differs")] {
                            th scope="row" {
                                @if row.difference.is_some() { "≠ " } (row.what)
                                @match row.difference {
                                    Some(DifferenceKind::Treatment) => span.treatment { " (treatment)" },
                                    Some(DifferenceKind::Refused) => span.treatment { " (does not compare)" },
                                    Some(DifferenceKind::Listed) | None => {}
                                }
                            }
                            td.text { (shown(row.base.as_deref())) }
                            @if let Some(new) = &row.new { td.text { (shown(new.as_deref())) } }
                        }
                    }
                }
            }
        }
    }
}

fn shown(value: Option<&str>) -> Markup {
    match value {
        Some(value) if !value.is_empty() => foreign(value),
        _ => undefined("the recording does not say"),
    }
}

/// What the comparison found different first, then which recordings these are, then what they have in common.
fn rows(view: &View) -> Vec<Row> {
    let different = |compared: &Compared| -> Vec<Row> {
        let row = |difference: &crate::baseline::Difference| Row {
            what: difference.what,
            base: Some(difference.base.clone()),
            new: Some(Some(difference.new.clone())),
            difference: Some(difference.kind),
        };
        compared.differences.iter().map(row).collect()
    };
    let mut rows = view.compared.map_or_else(Vec::new, different);
    let sides = [facts(&view.base), view.new.as_ref().map(facts).unwrap_or_default()];
    let of = |side: &[Fact], what| {
        side.iter()
            .find(|fact| fact.what == what)
            .map(|fact| fact.value.clone())
    };
    for fact in sides.iter().flatten() {
        if rows.iter().all(|row| row.what != fact.what) {
            rows.push(Row {
                what: fact.what,
                base: of(&sides[0], fact.what),
                new: view.new.as_ref().map(|_| of(&sides[1], fact.what)),
                difference: None,
            });
        }
    }
    rows
}

fn facts(side: &SideView) -> Vec<Fact> {
    let summary = side.summary;
    let launches = format!("{} in {}", summary.launches, counted(summary.sessions, "session"));
    let identity = [
        ("name", Some(summary.name.clone())),
        ("recorded", summary.created.clone()),
        ("launches", Some(launches)),
        ("benchmarks", Some(summary.benchmarks.to_string())),
        (
            "host-bound benchmarks",
            summary.host_bound.map(|count| count.to_string()),
        ),
    ];
    let mut facts: Vec<Fact> = identity
        .into_iter()
        .filter_map(|(what, value)| Some(Fact { what, value: value? }))
        .collect();
    facts.extend(summary.environment.iter().flat_map(environment_facts));
    if let Some(settings) = &summary.settings {
        facts.extend(settings_facts(settings));
        facts.push(Fact {
            what: "repeated measurements",
            value: settings.repeated.to_string(),
        });
    }
    facts
}
