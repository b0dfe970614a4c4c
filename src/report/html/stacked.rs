//! What one buffer costs, call by call: allocate, free and synchronise, one after the other.

use super::format::{foreign, microseconds, plain, px, tick_microseconds, undefined};
use super::scale::Scale;
use super::view::{SideView, View};
use maud::{Markup, html};

const GROUP: &str = "call_latency";
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 20.0;

/// How the buffer is got, the name in the ids, and whether a synchronise follows.
const MEMORIES: [(&str, &str, bool); 3] = [
    ("cuMemAlloc, cuMemFree", "plain", false),
    ("pool, threshold 0", "threshold=0", true),
    ("pool, threshold max", "threshold=max", true),
];
/// The calls, with the colour of each.
const CALLS: [(&str, &str, &str); 3] = [
    ("alloc", "allocate", "k3"),
    ("free", "free", "k4"),
    ("sync", "synchronise", "k1"),
];

/// One bar: a time for each call that is made.
struct Bar {
    value: String,
    memory: &'static str,
    calls: [Option<f64>; 3],
    synchronises: bool,
    base_ns: Option<f64>,
}

impl Bar {
    /// The sum, where every call has a time.
    fn total_ns(&self) -> Option<f64> {
        total(&self.calls, self.synchronises)
    }
}

fn total(calls: &[Option<f64>; 3], synchronises: bool) -> Option<f64> {
    Some(calls[0]? + calls[1]? + if synchronises { calls[2]? } else { 0.0 })
}

fn calls(side: &SideView, memory: &str, synchronises: bool, value: &str) -> [Option<f64>; 3] {
    CALLS.map(|(call, _, _)| {
        let made = call != "sync" || synchronises;
        made.then(|| side.timings.median_ns(GROUP, &format!("{call},{memory}"), value))?
    })
}

fn bars(view: &View) -> Vec<Bar> {
    let side = view.shown();
    let Some(group) = side.timings.group(GROUP) else {
        return Vec::new();
    };
    let of_value = |value: &String| {
        MEMORIES.map(|(name, memory, synchronises)| {
            let before = view.beside().map(|base| calls(base, memory, synchronises, value));
            Bar {
                value: value.clone(),
                memory: name,
                calls: calls(side, memory, synchronises, value),
                synchronises,
                base_ns: before.and_then(|before| total(&before, synchronises)),
            }
        })
    };
    let bars = group.values.iter().flat_map(of_value);
    bars.filter(|bar| bar.calls.iter().any(Option::is_some)).collect()
}

pub(super) fn section(view: &View) -> Markup {
    let bars = bars(view);
    let sums = bars.iter().flat_map(|bar| [bar.total_ns(), bar.base_ns]).flatten();
    let Some(scale) = Scale::from_zero(sums, (1.0, WIDTH - 2.0)) else {
        return html! {};
    };
    html! {
        h2 #calls { "Allocate, free, synchronise" }
        p.note {
            "One buffer, each call timed apart, µs. " code { "cuMemFree" } " waits for the device itself, so nothing follows it."
            @if view.new.is_some() { " The new side; an upright line marks the base's sum." }
        }
        div.scroll tabindex="0" role="region" aria-label="Times of single calls" {
            table {
                thead { tr {
                    th scope="col" { "Size" } th scope="col" { "Memory" }
                    @for (_, name, class) in CALLS { th.n scope="col" { span class=(format!("swatch {class}")) {} (name) ", µs" } }
                    th.n scope="col" { "sum, µs" }
                    th scope="col" { (axis(&scale)) }
                } }
                @for bars in bars.chunk_by(|a, b| a.value == b.value) {
                    tbody { @for (index, bar) in bars.iter().enumerate() { (row(bar, (index == 0).then_some(bars.len()), &scale)) } }
                }
            }
        }
    }
}

fn axis(scale: &Scale) -> Markup {
    let ticks = scale.ticks(5);
    html! {
        svg width=(WIDTH) height="16" viewBox=(format!("0 0 {WIDTH} 16")) aria-hidden="true" {
            @for (index, tick) in ticks.iter().enumerate() {
                text.axis x=(px(scale.place(*tick))) y="12" text-anchor=(if index == 0 { "start" } else { "middle" }) { (tick_microseconds(*tick)) }
            }
        }
    }
}

/// The first row of a size names it for `rows` rows.
fn row(bar: &Bar, rows: Option<usize>, scale: &Scale) -> Markup {
    let time = |time_ns: Option<f64>| {
        time_ns.map_or_else(
            || undefined("not measured"),
            |time_ns| html! { (microseconds(time_ns)) },
        )
    };
    html! {
        tr {
            @if let Some(rows) = rows { th scope="rowgroup" rowspan=(rows) { (foreign(&bar.value)) } }
            th scope="row" { (bar.memory) }
            td.n { (time(bar.calls[0])) } td.n { (time(bar.calls[1])) }
            td.n { @if bar.synchronises { (time(bar.calls[2])) } @else { (undefined("no synchronise is needed")) } }
            td.n.strong { @match bar.total_ns() { Some(sum) => (microseconds(sum)), None => (undefined("a call was not measured")) } }
            td { (picture(bar, scale)) }
        }
    }
}

fn picture(bar: &Bar, scale: &Scale) -> Markup {
    let mut end_ns = 0.0;
    let mut pieces = Vec::new();
    // Without its first call the place of the second would say something false.
    for ((_, name, class), time_ns) in CALLS.iter().zip(bar.calls).take_while(|(_, time)| time.is_some()) {
        let time_ns = time_ns.unwrap_or_default();
        pieces.push((
            *class,
            *name,
            time_ns,
            scale.place(end_ns),
            scale.place(end_ns + time_ns),
        ));
        end_ns += time_ns;
    }
    let words = pieces
        .iter()
        .map(|piece| format!("{} {} µs", piece.1, microseconds(piece.2)));
    let words = format!(
        "{}, {}: {}",
        plain(&bar.value),
        bar.memory,
        words.collect::<Vec<_>>().join(", ")
    );
    html! {
        svg width=(WIDTH) height=(HEIGHT) viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(words) {
            @for tick in scale.ticks(5) { line.grid x1=(px(scale.place(tick))) x2=(px(scale.place(tick))) y1="0" y2=(HEIGHT) {} }
            @for (class, name, time_ns, from, to) in pieces {
                g class=(class) { rect.fill x=(px(from)) y="4" width=(px(to - from)) height="12" { title { (name) " " (microseconds(time_ns)) " µs" } } }
            }
            @if let Some(base_ns) = bar.base_ns { line.reference x1=(px(scale.place(base_ns))) x2=(px(scale.place(base_ns))) y1="1" y2="19" {} }
        }
    }
}
