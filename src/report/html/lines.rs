//! Time against size: a line a strategy.
//!
//! The pictures are drawn here and not by plotters: its SVG has a fixed colour on every mark, where a
//! page that also serves dark screens and printers needs classes; it cannot say what a mark is (`<title>`);
//! and without a font it guesses how wide a label is, which is what puts labels beside their lines.

use super::super::timings::{Group, Timing, value_bytes};
use super::format::{foreign, microseconds, plain, px, tick_microseconds};
use super::scale::{Scale, apart, spaced};
use super::view::View;
use maud::{Markup, html};
use std::collections::BTreeSet;

const WIDTH: f64 = 368.0;
const HEIGHT: f64 = 330.0;
const LEFT: f64 = 44.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 24.0;
/// Labels are this far apart at least.
const LABEL_GAP: f64 = 14.0;
/// Longest label, and what a character of one takes, generously.
const LABEL_CHARACTERS_MAX: usize = 20;
const CHARACTER: f64 = 7.8;
/// Sizes that stand closer are not both named.
const TICK_GAP: f64 = 40.0;
/// Colours that the style sheet has.
const COLOURS: usize = 8;

/// Workloads whose sizes make no line, or that have a picture of their own.
const ELSEWHERE: [&str; 2] = ["release_threshold", "call_latency"];
/// Sizes from which a line is worth drawing.
const SIZES_MIN: usize = 3;

pub(super) fn section(view: &View) -> Markup {
    let side = view.shown();
    let groups = side.timings.groups().iter().filter(|group| {
        group.is_over_sizes() && sizes(group).len() >= SIZES_MIN && !ELSEWHERE.contains(&group.name.as_str())
    });
    let pictures: Vec<Markup> = groups.filter_map(|group| picture(view, group)).collect();
    html! {
        @if !pictures.is_empty() {
            h2 #size { "Time against size" }
            p.note {
                "Median over launches, µs per iteration, both axes logarithmic; upright strokes are 95 % intervals over launches."
                @if view.new.is_some() { " Solid: the new side. Dashed: the base, where it can be told apart." }
            }
            div.charts { @for picture in pictures { (picture) } }
        }
    }
}

/// The sizes of a workload above zero. Two values may name one size: `1MiB` and `1024KiB`.
fn sizes(group: &Group) -> BTreeSet<usize> {
    let sizes = group.values.iter().filter_map(|value| value_bytes(value));
    sizes.filter(|size_bytes| *size_bytes > 0).collect()
}

/// One strategy's line.
struct Line<'a> {
    function: &'a str,
    class: String,
    /// Size in bytes and time.
    points: Vec<(f64, &'a Timing)>,
    /// Another line of the picture has the colour already.
    second: bool,
    base: Vec<(f64, f64)>,
}

/// The number of a function's colour: that of its strategy, the same in every picture.
pub(super) fn colour(function: &str) -> Option<usize> {
    let strategy = function.split(',').next().unwrap_or(function);
    let known = [
        "hoisted",
        "stream_ordered",
        "owned_pool",
        "arena",
        "vmm",
        "sync",
        "managed",
        "noop",
    ];
    known.iter().position(|name| *name == strategy)
}

fn lines<'a>(view: &'a View, group: &'a Group) -> Vec<Line<'a>> {
    let sizes: Vec<(f64, &str)> = group
        .values
        .iter()
        .filter_map(|value| Some((value_bytes(value)? as f64, value.as_str())))
        .filter(|(size_bytes, _)| *size_bytes > 0.0)
        .collect();
    let line = |(index, function): (usize, &'a String)| {
        let at = |&(size_bytes, value): &(f64, &str)| {
            let timing = view.shown().timings.at(&group.name, function, value)?;
            Some((size_bytes, timing))
        };
        let before = |&(size_bytes, value): &(f64, &str)| {
            let base = view.beside()?.timings.median_ns(&group.name, function, value)?;
            Some((size_bytes, base))
        };
        let colour_of = |function: &str, index: usize| colour(function).unwrap_or(1 + index % (COLOURS - 1));
        let own = colour_of(function, index);
        let earlier = group.functions[..index].iter().enumerate();
        Line {
            second: earlier
                .into_iter()
                .any(|(index, function)| colour_of(function, index) == own),
            function,
            class: format!("k{own}"),
            points: sizes.iter().filter_map(at).collect(),
            base: sizes.iter().filter_map(before).collect(),
        }
    };
    let all = group.functions.iter().enumerate().map(line);
    // A single size, as that of `noop`, makes no line.
    let has_length = |line: &Line<'_>| line.points.windows(2).any(|pair| pair[0].0 < pair[1].0);
    all.filter(has_length).collect()
}

fn picture(view: &View, group: &Group) -> Option<Markup> {
    let lines = lines(view, group);
    let times = lines.iter().flat_map(|line| {
        let own = line.points.iter().map(|(_, timing)| timing.median_ns);
        own.chain(line.base.iter().map(|(_, base)| *base))
    });
    let sizes = lines.iter().flat_map(|line| line.points.iter().map(|(size, _)| *size));
    let y = Scale::logarithmic(times, (HEIGHT - BOTTOM, TOP))?;
    let (low, high) = sizes.fold((f64::INFINITY, 0.0_f64), |(low, high), size| {
        (low.min(size), high.max(size))
    });
    let longest = lines
        .iter()
        .map(|line| shortened(line.function).chars().count())
        .max()
        .unwrap_or(0);
    let right = WIDTH - longest as f64 * CHARACTER - 14.0;
    let x = Scale::logarithmic_between((low, high), (LEFT + 6.0, right));
    let what = format!(
        "Time against size in {}: {}",
        plain(&group.name),
        lines.iter().map(described).collect::<Vec<_>>().join("; ")
    );
    Some(html! {
        figure {
            h3 { (foreign(&group.name)) span.quiet { ", µs" } }
            svg width=(WIDTH) height=(HEIGHT) viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(what) {
                (axes(group, right, &x, &y))
                @for line in &lines { (drawn(line, &x, &y)) }
                (labels(&lines, right, &x, &y))
            }
        }
    })
}

/// A line in words: its ends.
fn described(line: &Line) -> String {
    let ends = line.points.first().zip(line.points.last());
    ends.map_or_else(String::new, |(first, last)| {
        format!(
            "{} from {} to {} µs",
            plain(line.function),
            microseconds(first.1.median_ns),
            microseconds(last.1.median_ns)
        )
    })
}

fn axes(group: &Group, right: f64, x: &Scale, y: &Scale) -> Markup {
    let sizes = group
        .values
        .iter()
        .filter_map(|value| Some((value_bytes(value)? as f64, value)));
    let places: Vec<(f64, &String)> = sizes
        .filter(|(size, _)| *size > 0.0)
        .map(|(size, name)| (x.place(size), name))
        .collect();
    let named = spaced(&places.iter().map(|(place, _)| *place).collect::<Vec<_>>(), TICK_GAP);
    html! {
        @for tick in y.ticks(8) {
            line.grid x1=(LEFT) x2=(px(right + 6.0)) y1=(px(y.place(tick))) y2=(px(y.place(tick))) {}
            text.axis x=(px(LEFT - 6.0)) y=(px(y.place(tick) + 4.0)) text-anchor="end" { (tick_microseconds(tick)) }
        }
        @for (index, (place, name)) in places.iter().enumerate() {
            line.grid x1=(px(*place)) x2=(px(*place)) y1=(px(HEIGHT - BOTTOM)) y2=(px(HEIGHT - BOTTOM + 4.0)) {}
            @if named.contains(&index) {
                text.axis x=(px(*place)) y=(px(HEIGHT - BOTTOM + 17.0)) text-anchor="middle" { (plain(name)) }
            }
        }
    }
}

fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let steps = points
        .enumerate()
        .map(|(index, (x, y))| format!("{}{} {}", if index == 0 { "M" } else { "L" }, px(x), px(y)));
    steps.collect()
}

fn drawn(line: &Line, x: &Scale, y: &Scale) -> Markup {
    let own = path(
        line.points
            .iter()
            .map(|(size, timing)| (x.place(*size), y.place(timing.median_ns))),
    );
    let base = path(
        line.base
            .iter()
            .map(|(size, time_ns)| (x.place(*size), y.place(*time_ns))),
    );
    html! {
        g class=(line.class) {
            @if line.base.len() > 1 { path.line.base d=(base) {} }
            path.line d=(own) {}
            @for (size, timing) in &line.points {
                @let place = x.place(*size);
                @if let Some((lower, upper)) = timing.interval_ns {
                    line.bar x1=(px(place)) x2=(px(place)) y1=(px(y.place(lower))) y2=(px(y.place(upper))) {}
                }
                circle class=(if line.second { "hollow" } else { "dot" }) cx=(px(place)) cy=(px(y.place(timing.median_ns))) r="3" {
                    title { (plain(line.function)) ": " (microseconds(timing.median_ns)) " µs" }
                }
            }
        }
    }
}

fn labels(lines: &[Line], right: f64, x: &Scale, y: &Scale) -> Markup {
    let ends: Vec<(f64, f64)> = lines
        .iter()
        .filter_map(|line| line.points.last())
        .map(|(size, timing)| (x.place(*size), y.place(timing.median_ns)))
        .collect();
    let wanted: Vec<f64> = ends.iter().map(|end| end.1).collect();
    let places = apart(&wanted, LABEL_GAP, (TOP + 4.0, HEIGHT - BOTTOM));
    html! {
        @for ((line, end), place) in lines.iter().zip(&ends).zip(places) {
            g class=(line.class) {
                path.leader d=(format!("M{} {}L{} {}", px(end.0 + 4.0), px(end.1), px(right + 10.0), px(place))) {}
                text.name x=(px(right + 13.0)) y=(px(place + 4.0)) { (shortened(line.function)) }
            }
        }
    }
}

fn shortened(function: &str) -> String {
    let shown = plain(function);
    if shown.chars().count() <= LABEL_CHARACTERS_MAX {
        return shown;
    }
    shown.chars().take(LABEL_CHARACTERS_MAX - 1).chain(['…']).collect()
}
