//! The launches of one benchmark as a small picture: in the order of time, the base left, the new side right.

use super::super::timings::Timing;
use super::format::{microseconds, px, undefined};
use super::scale::Scale;
use crate::counted::counted;
use maud::{Markup, html};

const WIDTH: f64 = 136.0;
const HEIGHT: f64 = 26.0;
/// Between the sides.
const GAP: f64 = 8.0;
/// Launches slower than the median by more than this are drawn on the upper edge: one slow launch must
/// not flatten the rest.
const SLOW: f64 = 1.25;
/// The axis spans at least this share, so that noise of a per mille does not look like a change.
const SPAN_MIN: f64 = 0.06;

/// Returns the picture of one or two sides.
pub(super) fn picture(base: Option<&Timing>, new: Option<&Timing>) -> Markup {
    let sides: Vec<(&Timing, &str)> = [
        base.map(|side| (side, "launches")),
        new.map(|side| (side, "launches new")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let Some(scale) = scale(&sides) else {
        return undefined("no launch has a time");
    };
    let slots: usize = sides.iter().map(|(side, _)| side.launches.len()).sum();
    let gaps = GAP * (sides.len() as f64 - 1.0);
    let step = (WIDTH - 6.0 - gaps) / slots.max(1) as f64;
    let mut left = 3.0;
    let drawn: Vec<Markup> = sides
        .iter()
        .map(|(side, class)| {
            let markup = side_drawn(side, class, left, step, &scale);
            left += step * side.launches.len() as f64 + GAP;
            markup
        })
        .collect();
    let words: Vec<String> = sides.iter().map(|(side, _)| described(side)).collect();
    html! {
        svg width=(WIDTH) height=(HEIGHT) viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(words.join("; then ")) {
            @for side in drawn { (side) }
        }
    }
}

fn described(side: &Timing) -> String {
    let times = side.launches.iter().map(|launch| launch.fast_ns);
    let (low, high) = times.fold((f64::INFINITY, 0.0_f64), |(low, high), time| {
        (low.min(time), high.max(time))
    });
    format!(
        "{}, {} to {} µs",
        counted(side.launches.len(), "launch"),
        microseconds(low),
        microseconds(high)
    )
}

fn scale(sides: &[(&Timing, &str)]) -> Option<Scale> {
    let mut low = f64::INFINITY;
    let mut high: f64 = 0.0;
    for (side, _) in sides {
        for launch in &side.launches {
            low = low.min(launch.fast_ns);
            high = high.max(launch.fast_ns.min(side.fast_ns * SLOW));
        }
    }
    if sides.is_empty() {
        return None;
    }
    let missing = (1.0 + SPAN_MIN) / (high / low);
    if missing > 1.0 {
        low /= missing.sqrt();
        high *= missing.sqrt();
    }
    Some(Scale::logarithmic_between((low, high), (HEIGHT - 3.0, 3.0)))
}

fn side_drawn(side: &Timing, class: &str, left: f64, step: f64, scale: &Scale) -> Markup {
    let place = |index: usize| left + step * (index as f64 + 0.5);
    let dots: String = side
        .launches
        .iter()
        .enumerate()
        .map(|(index, launch)| format!("M{} {}h0", px(place(index)), px(scale.place(launch.fast_ns))))
        .collect();
    let sessions = side
        .launches
        .windows(2)
        .enumerate()
        .filter(|(_, pair)| pair[0].session != pair[1].session);
    let borders: String = sessions
        .map(|(index, _)| format!("M{} 1V{}", px(place(index) + step / 2.0), HEIGHT - 1.0))
        .collect();
    let middle = px(scale.place(side.fast_ns));
    let right = px(left + step * side.launches.len() as f64);
    html! {
        @if !borders.is_empty() { path.session d=(borders) {} }
        path class=(class) d=(dots) {}
        path.level d=(format!("M{} {middle}H{right}", px(left))) {}
    }
}
