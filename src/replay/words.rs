//! The recommendation in words: one paragraph, and what it rests on.

use super::advice::{Difference, MINIMUM_EFFECT, Verdict};
use super::report::{Report, Subject};
use super::text::{duration, microseconds};
use crate::counted::{counted, grouped};
use crate::trace::Format;
use crate::trace::render::bytes;

/// The paragraph, and the notes under it.
pub(super) fn words(report: &Report, subject: &Subject<'_>) -> (String, Vec<String>) {
    (paragraph(report), notes(report, subject))
}

fn paragraph(report: &Report) -> String {
    let advice = &report.advice;
    let present = &advice.present;
    let Some(recommended) = &advice.recommended else {
        return "No strategy served the whole trace, so there is nothing to recommend: replay it with smaller blocks \
                (--scale F)."
            .to_owned();
    };
    let time = per_event(report, recommended);
    let mut sentences = match advice.verdict {
        Verdict::Nothing => Vec::new(),
        Verdict::Keep => vec![
            format!("Keep {present}: nothing that was replayed is proven faster than its {time} per event."),
            holds(report, recommended),
        ],
        Verdict::NoComparison => vec![
            format!(
                "Use {recommended}, at {time} per event. What it saves is unknown: {present}, the present one, did not \
                 serve the whole trace."
            ),
            holds(report, recommended),
        ],
        Verdict::Change => vec![
            format!(
                "Use {recommended}: {time} per event, where {present}, the present one, takes {}.",
                per_event(report, present)
            ),
            advice.saves.map_or_else(String::new, |saves| saving(report, saves)),
            format!("{} {}", holds(report, recommended), holds(report, present)),
        ],
    };
    if let Some(over) = advice.over_baseline {
        let left = if over.is_proven {
            let time = amount(over.median_ns);
            format!("takes {time} more than not allocating at all: that is what is left to win.")
        } else {
            "is not proven slower than not allocating at all.".to_owned()
        };
        sentences.push(format!("{recommended} {left}"));
    }
    if let Some(other) = &advice.without_own_allocator {
        sentences.push(format!(
            "{recommended} is an allocator of the program's own, such as RMM's pool or PyTorch's cache. Without one, \
             {}: {} more. {}",
            if other.name == *present {
                format!("keep {present}")
            } else {
                format!("use {}", other.name)
            },
            with_interval(other.difference),
            holds(report, &other.name)
        ));
    }
    sentences.retain(|sentence| !sentence.is_empty());
    sentences.join(" ")
}

fn per_event(report: &Report, name: &str) -> String {
    let found = report.combination(name).and_then(|combination| combination.per_event);
    found.map_or_else(|| "unknown time".to_owned(), |time| amount(time.median_ns))
}

fn amount(time_ns: f64) -> String {
    format!("{} µs", microseconds(time_ns))
}

/// A difference with its interval: `4.40 µs per event (95 % interval 4.31 to 4.49)`.
fn with_interval(difference: Difference) -> String {
    let interval = difference.lower_ns.zip(difference.upper_ns).map_or_else(
        || "too few repeats for an interval".to_owned(),
        |(lower, upper)| format!("95 % interval {} to {}", microseconds(lower), microseconds(upper)),
    );
    format!("{} per event ({interval})", amount(difference.median_ns))
}

fn saving(report: &Report, saves: Difference) -> String {
    let total_ns = (saves.median_ns * report.replayed.events as f64).max(0.0) as u64;
    format!(
        "It saves {}, {} over the trace, in {} of each in turn.",
        with_interval(saves),
        duration(total_ns),
        counted(report.repeats, "replay")
    )
}

fn holds(report: &Report, name: &str) -> String {
    let held = report.combination(name).and_then(|combination| combination.held_bytes);
    held.map_or_else(
        || format!("What {name} holds once all is freed is not known."),
        |held| format!("Once all is freed, {name} holds {}.", bytes(held)),
    )
}

fn notes(report: &Report, subject: &Subject<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(report.is_host.then(|| {
        "These are not GPU numbers: the host device was measured, and nothing here holds for a GPU.".to_owned()
    }));
    changes(report, &mut notes);
    doubts(report, &mut notes);
    notes.extend(present(report, subject));
    notes.push(
        "Only the calls are replayed, not the program's kernels: where the device is busy all the time, it hides what \
         the calls cost, and less is saved."
            .to_owned(),
    );
    notes
}

/// When the advice would change.
fn changes(report: &Report, notes: &mut Vec<String>) {
    let advice = &report.advice;
    for alternative in &advice.alternatives {
        let less = bytes(alternative.held_less_bytes.unwrap_or(0));
        let name = &alternative.name;
        notes.push(if alternative.difference.is_proven {
            format!(
                "If {less} held matters more than {}, use {name}: it holds so much less and takes so much longer.",
                with_interval(alternative.difference)
            )
        } else {
            format!(
                "{name} holds {less} less, and is not proven slower: it takes {} longer.",
                with_interval(alternative.difference)
            )
        });
    }
    if let Some(faster) = &advice.faster_at_first {
        notes.push(format!(
            "A program that makes these calls once, from an empty pool, is faster with {}: by {}.",
            faster.name,
            with_interval(faster.difference)
        ));
    }
}

/// What the advice does not rest on.
fn doubts(report: &Report, notes: &mut Vec<String>) {
    if report.repeats < 6 {
        notes.push("With fewer than 6 repeats nothing can be proven: use --repeats 6 or more.".to_owned());
    } else {
        notes.push(format!(
            "Proven means that the 95 % interval of the differences, replay by replay, lies beyond {:.0} %.",
            MINIMUM_EFFECT * 100.0
        ));
    }
    if report.replayed.synchronises == 0 {
        notes.push(
            "The host waits nowhere in this replay but at its end, so thresholds hardly matter in it: if the program \
             does wait, say where with --sync-every N or --sync-at-gaps TIME."
                .to_owned(),
        );
    }
    for combination in report.combinations.iter().filter(|c| c.out_of_memory > 0) {
        notes.push(format!(
            "{} found no memory for {} of {}, so it is not recommended.",
            combination.name,
            grouped(combination.out_of_memory),
            counted(grouped(report.replayed.allocations), "allocation")
        ));
    }
    if report.replayed.zero_size_blocks > 0 {
        notes.push(format!(
            "Blocks of 0 bytes, for which no call was made: {}.",
            grouped(report.replayed.zero_size_blocks)
        ));
    }
    if report.orphan_frees > 0 {
        notes.push(format!(
            "Frees of blocks whose allocation the trace does not hold, left out: {}.",
            grouped(report.orphan_frees)
        ));
    }
    let before = report.live_before;
    if before.blocks > 0 {
        notes.push(format!(
            "Live before the trace began, and not replayed: {} in {}. The peak leaves it out, and so do the thresholds \
             half and peak: in the program they would have to be higher by as much.",
            bytes(before.bytes),
            counted(grouped(before.blocks), "block")
        ));
    }
    if report.replayed.live_at_end > 0 {
        notes.push(format!(
            "Blocks that the trace never frees, freed after the clock had stopped: {}.",
            grouped(report.replayed.live_at_end)
        ));
    }
}

/// What the present strategy was taken to be, where nobody said.
fn present(report: &Report, subject: &Subject<'_>) -> Option<String> {
    if subject.present_is_named {
        return None;
    }
    let present = &report.advice.present;
    Some(match report.source {
        Format::TorchSnapshot | Format::TorchProfiler => format!(
            "The trace is PyTorch's, whose caching allocator serves most requests without the driver: {present} stands \
             for it. Name another with --present."
        ),
        _ => format!("The program is taken to use {present} at present. Name what it uses with --present."),
    })
}
