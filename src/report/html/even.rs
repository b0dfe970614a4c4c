//! From which loop body on a strategy costs no more than one or five per cent.

use super::super::timings::Timings;
use super::format::{foreign, microseconds, plain, px, tick_microseconds, undefined};
use super::scale::Scale;
use super::view::View;
use crate::report::{BreakEven, break_even};
use maud::{Markup, html};

const WIDTH: f64 = 260.0;
const HEIGHT: f64 = 20.0;
/// Workloads that answer the question, and how often each synchronises.
const CADENCES: [(&str, &str); 2] = [
    ("scratch_loop", "every 100 iterations"),
    ("release_threshold", "every iteration"),
];

/// One strategy under one cadence.
struct Row {
    cadence: &'static str,
    function: String,
    five: BreakEven,
    one: BreakEven,
}

fn rows(timings: &Timings) -> Vec<Row> {
    let of_group = |(name, cadence): (&str, &'static str)| {
        let group = timings.group(name)?;
        let compared = group
            .functions
            .iter()
            .filter(|function| group.hoisted(function) != Some(function.as_str()));
        let row = |function: &String| {
            let points = timings.break_even_points(group, function);
            (points.len() > 1).then_some(())?;
            Some(Row {
                cadence,
                function: function.clone(),
                five: break_even(&points, 0.05)?,
                one: break_even(&points, 0.01)?,
            })
        };
        Some(compared.filter_map(row).collect::<Vec<_>>())
    };
    CADENCES.into_iter().filter_map(of_group).flatten().collect()
}

pub(super) fn section(view: &View) -> Markup {
    let timings = &view.shown().timings;
    let rows = rows(timings);
    let bodies = CADENCES
        .iter()
        .filter_map(|(name, _)| timings.group(name))
        .flat_map(|group| {
            group
                .values
                .iter()
                .filter_map(|value| timings.median_ns(&group.name, "hoisted", value))
        });
    let Some(scale) = Scale::logarithmic(bodies, (12.0, WIDTH - 14.0)) else {
        return html! {};
    };
    html! {
        @if !rows.is_empty() {
            h2 #break-even { "Break-even" }
            p.note {
                "The loop body's own time from which allocating costs no more than 5 % (open) and 1 % (filled) of it, µs. "
                "An arrow leads beyond the longest body that was measured."
            }
            div.scroll tabindex="0" role="region" aria-label="Break-even" {
                table {
                    thead { tr {
                        th scope="col" { "Strategy" } th scope="col" { "Synchronised" }
                        th.n scope="col" { "5 % from, µs" } th.n scope="col" { "1 % from, µs" } th scope="col" { "body, µs" (axis(&scale)) }
                    } }
                    tbody { @for row in &rows {
                        tr {
                            th scope="row" { (foreign(&row.function)) } td { (row.cadence) }
                            td.n { (cell(row.five)) } td.n { (cell(row.one)) } td { (picture(row, &scale)) }
                        }
                    } }
                }
            }
        }
    }
}

fn cell(found: BreakEven) -> Markup {
    match found {
        BreakEven::From(body_ns) => html! { (microseconds(body_ns)) },
        BreakEven::FromTheShortest(body_ns) => html! { "≤ " (microseconds(body_ns)) },
        BreakEven::BeyondTheLongest(body_ns) => undefined(&format!(
            "at no body that was measured, up to {} µs",
            microseconds(body_ns)
        )),
    }
}

fn axis(scale: &Scale) -> Markup {
    html! {
        svg width=(WIDTH) height="16" viewBox=(format!("0 0 {WIDTH} 16")) aria-hidden="true" {
            @for tick in scale.ticks(6) { text.axis x=(px(scale.place(tick))) y="12" text-anchor="middle" { (tick_microseconds(tick)) } }
        }
    }
}

/// Where on the axis; `None` beyond its end.
fn place(found: BreakEven, scale: &Scale) -> Option<f64> {
    match found {
        BreakEven::From(body_ns) | BreakEven::FromTheShortest(body_ns) => Some(scale.place(body_ns)),
        BreakEven::BeyondTheLongest(_) => None,
    }
}

fn picture(row: &Row, scale: &Scale) -> Markup {
    let end = WIDTH - 6.0;
    let (five, one) = (place(row.five, scale), place(row.one, scale));
    html! {
        svg.k1 width=(WIDTH) height=(HEIGHT) viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img"
            aria-label=(format!("{}: 5 % from {}, 1 % from {}", plain(&row.function), row.five, row.one)) {
            @for tick in scale.ticks(6) { line.grid x1=(px(scale.place(tick))) x2=(px(scale.place(tick))) y1="0" y2=(HEIGHT) {} }
            line.line x1=(px(five.unwrap_or(end - 14.0))) x2=(px(one.unwrap_or(end))) y1="10" y2="10" {}
            @if one.is_none() { path.fill d=(format!("M{} 10l-7 -4v8z", px(end + 3.0))) {} }
            @if let Some(one) = one { circle.dot cx=(px(one)) cy="10" r="4.5" {} }
            @if let Some(five) = five { circle.hollow cx=(px(five)) cy="10" r="3.5" {} }
        }
    }
}
