//! What a release threshold costs and keeps: time and bytes held, by threshold.

use super::format::{bytes, foreign, microseconds, plain, px, ratio, tick_microseconds};
use super::scale::Scale;
use super::view::{SideView, View};
use maud::{Markup, html};

const GROUP: &str = "release_threshold";
const WIDTH: f64 = 276.0;
const ROW: f64 = 24.0;
const TOP: f64 = 22.0;
const LEFT: f64 = 60.0;
/// Where the axis of times ends, and where that of bytes begins and ends.
const TIMES: (f64, f64) = (LEFT + 6.0, 136.0);
const BYTES: (f64, f64) = (186.0, 226.0);

/// One threshold at one size.
struct Row<'a> {
    function: &'a str,
    time_ns: f64,
    base_ns: Option<f64>,
    cost: Option<f64>,
    held_bytes: Option<u64>,
}

pub(super) fn section(view: &View) -> Markup {
    let side = view.shown();
    let Some(group) = side.timings.group(GROUP) else {
        return html! {};
    };
    let panels: Vec<(&String, Vec<Row>)> = group.values.iter().map(|value| (value, rows(view, value))).collect();
    let times = panels
        .iter()
        .flat_map(|(_, rows)| rows.iter().flat_map(|row| [Some(row.time_ns), row.base_ns]).flatten());
    let Some(times) = Scale::logarithmic(times, TIMES) else {
        return html! {};
    };
    let held = panels
        .iter()
        .flat_map(|(_, rows)| rows.iter().filter_map(|row| row.held_bytes));
    let held = Scale::from_zero(held.map(|bytes| bytes as f64), BYTES);
    html! {
        h2 #threshold { "Release threshold" }
        p.note {
            "A synchronise after every iteration. Left: µs per iteration on one logarithmic axis, and the ratio to "
            code { "hoisted" } " (upright line). Right: bytes that the pool still holds after the synchronise."
            @if view.new.is_some() { " Filled: the new side. Hollow: the base." }
        }
        div.charts {
            @for (value, rows) in &panels { (panel(value, rows, hoisted_ns(side, value), &times, held.as_ref())) }
        }
    }
}

fn hoisted_ns(side: &SideView, value: &str) -> Option<f64> {
    side.timings.median_ns(GROUP, "hoisted", value)
}

fn rows<'a>(view: &'a View, value: &str) -> Vec<Row<'a>> {
    let side = view.shown();
    let functions = side
        .timings
        .group(GROUP)
        .map(|group| group.functions.as_slice())
        .unwrap_or_default();
    let row = |function: &'a String| {
        let time_ns = side.timings.median_ns(GROUP, function, value)?;
        let seen = side.summary.observations.get(&format!("{GROUP}/{function}/{value}"));
        let base = view.beside();
        Some(Row {
            function,
            time_ns,
            base_ns: base.and_then(|base| base.timings.median_ns(GROUP, function, value)),
            cost: hoisted_ns(side, value).map(|hoisted_ns| time_ns / hoisted_ns),
            held_bytes: seen
                .and_then(|seen| seen.reserved)
                .map(|reserved| reserved.after_synchronize_bytes),
        })
    };
    functions
        .iter()
        .filter(|function| function.as_str() != "hoisted")
        .filter_map(row)
        .collect()
}

fn panel(value: &str, rows: &[Row], hoisted_ns: Option<f64>, times: &Scale, held: Option<&Scale>) -> Markup {
    let height = TOP + ROW * rows.len() as f64 + 4.0;
    let words = rows.iter().map(described).collect::<Vec<_>>().join("; ");
    html! {
        figure {
            h3 { (foreign(value)) span.quiet { ", µs" } }
            svg width=(WIDTH) height=(height) viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label=(format!("{}: {words}", plain(value))) {
                @for tick in times.ticks(4) {
                    line.grid x1=(px(times.place(tick))) x2=(px(times.place(tick))) y1=(TOP - 4.0) y2=(height) {}
                    text.axis x=(px(times.place(tick))) y="12" text-anchor="middle" { (tick_microseconds(tick)) }
                }
                text.axis x="0" y="12" { "threshold" }
                text.axis x=(px(BYTES.0)) y="12" { "bytes held" }
                @if let Some(hoisted_ns) = hoisted_ns {
                    line.reference x1=(px(times.place(hoisted_ns))) x2=(px(times.place(hoisted_ns))) y1=(TOP - 4.0) y2=(height) { title { "hoisted: " (microseconds(hoisted_ns)) " µs" } }
                }
                line.grid x1=(px(BYTES.0)) x2=(px(BYTES.0)) y1=(TOP - 2.0) y2=(height) {}
                @for (index, row) in rows.iter().enumerate() {
                    (drawn(row, TOP + ROW * (index as f64 + 0.5), times, held))
                }
            }
        }
    }
}

fn described(row: &Row) -> String {
    let held = row
        .held_bytes
        .map(|held| format!(", {} held", bytes(held)))
        .unwrap_or_default();
    format!("{} {} µs{held}", plain(row.function), microseconds(row.time_ns))
}

fn drawn(row: &Row, y: f64, times: &Scale, held: Option<&Scale>) -> Markup {
    let name = row.function.strip_prefix("threshold=").unwrap_or(row.function);
    let name = match name {
        "half" => "half size",
        other => other,
    };
    let place = times.place(row.time_ns);
    html! {
        g.k1 {
            text x="0" y=(px(y + 4.0)) { (plain(name)) }
            @if let Some(base_ns) = row.base_ns { circle.hollow cx=(px(times.place(base_ns))) cy=(px(y)) r="4" { title { "base: " (microseconds(base_ns)) " µs" } } }
            circle.dot cx=(px(place)) cy=(px(y)) r="4.5" { title { (described(row)) } }
            @if let Some(cost) = row.cost { text.muted x=(px(BYTES.0 - 8.0)) y=(px(y + 4.0)) text-anchor="end" { (ratio(cost)) } }
            @match (row.held_bytes, held) {
                (Some(bytes_held), scale) => {
                    @let end = scale.map_or(BYTES.0, |scale| scale.place(bytes_held as f64));
                    rect.fill x=(px(BYTES.0)) y=(px(y - 6.0)) width=(px(end - BYTES.0)) height="12" {}
                    text x=(px(end + 5.0)) y=(px(y + 4.0)) { (bytes(bytes_held)) }
                }
                (None, _) => { text.muted x=(px(BYTES.0 + 5.0)) y=(px(y + 4.0)) { "–" title { "not observed" } } }
            }
        }
    }
}
