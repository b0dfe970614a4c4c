//! The benchmarks that changed most, each with its interval on one axis.

use super::format::{change, id, microseconds, px, short, undefined};
use super::scale::Scale;
use super::view::{View, verdict_style};
use crate::report::comparison::{changed, effect_notes};
use crate::stats::{BenchmarkComparison, Effect, Measured};
use maud::{Markup, html};

/// Rows that are shown; the table of all benchmarks has the rest.
const ROWS_MAX: usize = 12;
const WIDTH: f64 = 260.0;
const HEIGHT: f64 = 22.0;
/// Beyond these ratios an interval is cut: the axis is there for the usual ones.
const AXIS_END: (f64, f64) = (0.4, 2.5);

pub(super) fn section(view: &View) -> Markup {
    let Some(compared) = view.compared else {
        return html! {};
    };
    let mut changed = changed(compared);
    let all = changed.len();
    changed.truncate(ROWS_MAX);
    html! {
        h2 #changes { "What changed" }
        @if changed.is_empty() {
            p { "No benchmark has a proven or suspected change." }
        } @else {
            p.note { "Times are medians over launches of what each is judged by, the fast half of its samples. Changes have the host's speed taken out, where it was recorded, so that they can differ from the quotient of the times." }
            (table(view, &changed))
            @if all > ROWS_MAX {
                p.note { (all - ROWS_MAX) " more: see " a href="#benchmarks" { "all benchmarks" } "." }
            }
        }
    }
}

fn table(view: &View, changed: &[(&BenchmarkComparison, &Measured)]) -> Markup {
    let ends = changed.iter().flat_map(|(_, measured)| {
        let interval = measured.effect.interval;
        [
            Some(measured.effect.ratio),
            interval.map(|i| i.lower),
            interval.map(|i| i.upper),
        ]
    });
    let (low, high) = ends.flatten().fold((0.98, 1.02), |(low, high): (f64, f64), end| {
        (low.min(end.max(AXIS_END.0)), high.max(end.min(AXIS_END.1)))
    });
    let room = (high - low) * 0.04;
    let scale = Scale::linear((low - room, high + room), (14.0, WIDTH - 22.0));
    let time = |side: usize, id: &str| {
        view.time_ns(side, id).map_or_else(
            || undefined("not measured"),
            |time_ns| html! { (microseconds(time_ns)) },
        )
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label="Benchmarks that changed most" {
            table.wide {
                thead { tr {
                    th scope="col" { "Benchmark" } th.n scope="col" { "Change" }
                    th scope="col" { "95 % interval of the change" (axis(&scale)) }
                    th.n scope="col" { "Base, µs" } th.n scope="col" { "New, µs" } th scope="col" { "Verdict" }
                } }
                tbody {
                    @for (benchmark, measured) in changed {
                        @let style = verdict_style(&benchmark.verdict, Some(measured.effect.ratio));
                        tr {
                            th.id scope="row" { (id(benchmark.id.as_str())) }
                            td class=(format!("n {}", style.class)) { (change(measured.effect.ratio)) " " span.mark aria-hidden="true" { (style.sign) } (notes(view, benchmark)) }
                            td class=(style.class) { (whisker(&measured.effect, &scale)) }
                            td.n { (time(0, benchmark.id.as_str())) }
                            td.n { (time(1, benchmark.id.as_str())) }
                            td class=(format!("verdict {}", style.class)) { (style.name) }
                        }
                    }
                }
            }
        }
    }
}

/// What else can be said of the size of a change.
pub(super) fn notes(view: &View, benchmark: &BenchmarkComparison) -> Markup {
    let disagrees = view.disagree.contains(benchmark.id.as_str());
    // With the page's minus sign.
    html! { @for note in effect_notes(benchmark, disagrees) { div.note { (note.replace('-', "−")) } } }
}

fn axis(scale: &Scale) -> Markup {
    html! {
        svg width=(WIDTH) height="18" viewBox=(format!("0 0 {WIDTH} 18")) aria-hidden="true" {
            @for tick in scale.ticks(6) {
                text.axis x=(px(scale.place(tick))) y="13" text-anchor="middle" { (tick_change(tick)) }
            }
        }
    }
}

fn tick_change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if percent.abs() < 1e-6 {
        return String::from("0");
    }
    let sign = if percent > 0.0 { "+" } else { "−" };
    format!("{sign}{} %", short(percent.abs()))
}

fn whisker(effect: &Effect, scale: &Scale) -> Markup {
    let middle = HEIGHT / 2.0;
    let words = effect.interval.map_or_else(
        || format!("{}, no interval", change(effect.ratio)),
        |interval| {
            format!(
                "{}, from {} to {}",
                change(effect.ratio),
                change(interval.lower),
                change(interval.upper)
            )
        },
    );
    html! {
        svg width=(WIDTH) height=(HEIGHT) viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(words) {
            title { (words) }
            @for tick in scale.ticks(6) {
                line.grid x1=(px(scale.place(tick))) x2=(px(scale.place(tick))) y1="0" y2=(HEIGHT) {}
            }
            line.reference x1=(px(scale.place(1.0))) x2=(px(scale.place(1.0))) y1="0" y2=(HEIGHT) {}
            @if let Some(interval) = effect.interval {
                line.whisker x1=(px(scale.place(interval.lower))) x2=(px(scale.place(interval.upper))) y1=(middle) y2=(middle) {}
            }
            circle.estimate cx=(px(scale.place(effect.ratio))) cy=(middle) r="4.5" {}
        }
    }
}
