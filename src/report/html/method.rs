//! How the verdicts came about, in five sentences, and the commands that make the page again.

use super::format::{percent, plain};
use super::view::View;
use crate::counted::counted;
use crate::report::Compared;
use crate::stats::{Calibration, Options, Proportion, SessionLayout};
use maud::{Markup, html};

pub(super) fn section(view: &View) -> Markup {
    let options = view
        .compared
        .map_or_else(Options::default, |compared| compared.request.options);
    html! {
        h2 #method { "How it was judged" }
        ol.list {
            li { (measured(view)) }
            li {
                "Where the host's speed was recorded beside each sample, it is taken out by a slope that is fitted inside the sides, never across them"
                @if view.compared.is_some() { "; raw effects are kept, and a disagreement is told among the doubts" } "."
            }
            li {
                "A rank test of the fast launches asks whether a change lies within " (percent(options.min_effect()))
                ", its inversion gives ratio and 95 % interval, and Benjamini-Hochberg over all compared benchmarks holds the false discovery rate at "
                (percent(options.false_discovery_rate())) "."
            }
            li { "What the host-bound benchmarks of a group, which one process measures, have in common from launch to launch is taken out of their values: it is the host's." }
            li { "What all host-bound benchmarks share is reported once and taken out of the single verdicts." @if let Some(compared) = view.compared { (sessions(compared)) } }
            li { (calibrated(view.calibration)) }
        }
    }
}

/// What is done about sessions, in those layouts that the comparison has.
fn sessions(compared: &Compared) -> String {
    let benchmarks = compared.comparison.benchmarks.iter();
    let sentences = benchmarks.filter_map(|benchmark| Some(about_sessions(benchmark.measured.as_ref()?.sessions)));
    let mut there: Vec<&str> = sentences.collect();
    there.sort_unstable();
    there.dedup();
    there.iter().map(|sentence| format!(" {sentence}")).collect()
}

fn about_sessions(layout: SessionLayout) -> &'static str {
    match layout {
        SessionLayout::Shared => "Both sides were recorded in the same sessions, so that the launches decide.",
        SessionLayout::Several { .. } => {
            "What the sessions of a side differ by widens every interval; where they are too few to tell, as one of a few \
             launches beside another, a change is only suspected."
        }
        SessionLayout::One => {
            "With one session a side, what sessions are known or assumed to differ by widens every interval; where \
             neither is possible, as for host-bound benchmarks on a machine of which no other session is there, a change \
             is only suspected."
        }
    }
}

fn measured(view: &View) -> String {
    let side = |side: &super::view::SideView| {
        let launches = counted(side.summary.launches, "launch");
        format!("{launches} in {}", counted(side.summary.sessions, "session"))
    };
    let base = side(&view.base);
    let launches = match &view.new {
        Some(new) => format!("{base} of the base and {} of the new side", side(new)),
        None => base,
    };
    format!(
        "Every benchmark ran in {launches}, each launch a fresh process that counts as one value, the mean logarithm of its fastest half of samples."
    )
}

/// What the procedure does on the base's own noise.
fn calibrated(calibration: Option<&Calibration>) -> String {
    let Some(calibration) = calibration else {
        return String::from("The false-alarm rate of this machine was not calibrated.");
    };
    // Without a detectable effect no half could have raised an alarm.
    let judged = calibration
        .benchmarks
        .iter()
        .any(|benchmark| benchmark.minimal_detectable_effect.is_some());
    let Some(alarms) = shares(calibration.alarms).filter(|_| judged) else {
        return String::from(
            "The false-alarm rate of this machine is not known: the base has too few launches to be split in two.",
        );
    };
    let splits = calibration.alarming;
    format!(
        "On this machine's own noise, the base's launches split in two at random {}, sessions shared, the procedure called {} of {} changed ({alarms}), and {} of {} had any such false alarm.",
        counted(splits.trials, "time"),
        calibration.alarms.hits,
        counted(calibration.alarms.trials, "unchanged benchmark"),
        splits.hits,
        counted(splits.trials, "split")
    )
}

fn shares(proportion: Proportion) -> Option<String> {
    let share = proportion.share()? * 100.0;
    Some(format!("{share:.2} %"))
}

pub(super) fn commands(view: &View) -> Markup {
    html! {
        @if !view.commands.is_empty() {
            h2 #commands { "Make it again" }
            pre { code { @for (index, command) in view.commands.iter().enumerate() { @if index > 0 { "\n" } (plain(command)) } } }
        }
    }
}
