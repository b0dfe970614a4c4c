//! The advice in words, from numbers that are known.

use poolbench::replay::{
    Combination, CompileOptions, Measured, Program, ReplayThreshold, Replayed, Report, Settings, Skipped, Subject,
    Synchronise, Verdict, text,
};
use poolbench::strategy;
use poolbench::trace::Trace;

const MIB: u64 = 1 << 20;

/// Four events.
fn four_events() -> Trace {
    crate::trace(&[
        "1,allocate,0x10000000,33554432,0",
        "1,allocate,0x20000000,33554432,0",
        "1,free,0x10000000,33554432,0",
        "1,free,0x20000000,33554432,0",
    ])
}

/// A combination that takes the same time in each of eight rounds.
fn measured(name: &str, threshold: Option<ReplayThreshold>, time_ns: f64, held_bytes: u64) -> Measured {
    Measured {
        combination: Combination {
            strategy: strategy::named(name).expect("a strategy"),
            threshold,
        },
        times_ns: vec![time_ns; 8],
        first_times_ns: vec![time_ns; 8],
        slowest_call: None,
        driver_calls: 4,
        peak_reserved_bytes: Some(96 * MIB),
        held_bytes: Some(held_bytes),
        out_of_memory: 0,
        touched: None,
    }
}

fn report(measured: Vec<Measured>, present_is_named: bool) -> Report {
    report_of(&four_events(), measured, present_is_named)
}

fn report_of(trace: &Trace, measured: Vec<Measured>, present_is_named: bool) -> Report {
    let settings = Settings {
        strategies: Vec::new(),
        thresholds: Vec::new(),
        named: false,
        present: Combination {
            strategy: strategy::SYNC,
            threshold: Some(ReplayThreshold::Bytes(0)),
        },
        repeats: 8,
        scale: 1.0,
        synchronise: Synchronise::AsTraced,
        touch: false,
    };
    let replayed = Replayed {
        program: Program::compile(trace, &CompileOptions::default()).expect("it allocates"),
        measured,
        skipped: vec![Skipped {
            combination: Combination {
                strategy: strategy::named("managed").expect("a strategy"),
                threshold: None,
            },
            reason: "why not".to_owned(),
        }],
    };
    let subject = Subject {
        device: "NVIDIA T4",
        is_host: false,
        trace_name: "log.csv",
        trace,
        present_is_named,
    };
    Report::new(&subject, &settings, &replayed)
}

/// Weights that were there before PyTorch recorded: the peak is too small by them, and the thresholds with it.
#[test]
fn what_was_live_before_the_trace_is_said_beside_the_peak() {
    let free =
        "{\"name\":\"[memory]\",\"ts\":1,\"args\":{\"Bytes\":-1048576,\"Addr\":16,\"Device Id\":0,\"Device Type\":1}}";
    let alloc =
        "{\"name\":\"[memory]\",\"ts\":2,\"args\":{\"Bytes\":512,\"Addr\":32,\"Device Id\":0,\"Device Type\":1}}";
    let json = format!("[{free},{alloc}]");
    let trace = poolbench::trace::read_bytes(json.as_bytes(), "t", &poolbench::trace::Limits::default())
        .unwrap_or_else(|error| panic!("{error}"));
    let report = report_of(&trace, all(), false);
    assert_eq!((report.live_before.blocks, report.live_before.bytes), (1, MIB));
    assert_eq!(report.peak_live_bytes, 512);
    let note = report.advice.notes.iter().find(|note| note.starts_with("Live before"));
    assert_eq!(
        note.map(String::as_str),
        Some(
            "Live before the trace began, and not replayed: 1.00 MiB (1,048,576) in 1 block. The peak leaves it out, and \
             so do the thresholds half and peak: in the program they would have to be higher by as much."
        )
    );
}

fn all() -> Vec<Measured> {
    vec![
        measured("hoisted", None, 400.0, 64 * MIB),
        measured("sync", None, 40_000.0, 0),
        measured("stream_ordered", Some(ReplayThreshold::Bytes(0)), 8_000.0, 0),
        measured("stream_ordered", Some(ReplayThreshold::Max), 4_000.0, 96 * MIB),
    ]
}

#[test]
fn a_change_says_what_it_saves_and_costs_and_when_it_would_be_another() {
    let report = report(all(), true);
    assert_eq!(report.advice.verdict, Verdict::Change);
    assert_eq!(report.advice.holds_more_bytes, Some(96 << 20));
    // Over 4 events: 1, 10, and 0.1 us each; 36 us in all. Half as fast at threshold 0.
    assert_eq!(
        report.advice.paragraph,
        "Use stream_ordered@max: 1.000 µs per event, where sync, the present one, takes 10.00 µs. It saves 9.000 µs \
         per event (95 % interval 9.000 to 9.000), 36.00 µs over the trace, in 8 replays of each in turn. Once all is \
         freed, stream_ordered@max holds 96.00 MiB (100,663,296). Once all is freed, sync holds 0 B. \
         stream_ordered@max takes 0.900 µs more than not allocating at all: that is what is left to win."
    );
    assert_eq!(
        report.advice.notes[0],
        "If 96.00 MiB (100,663,296) held matters more than 1.000 µs per event (95 % interval 1.000 to 1.000), use \
         stream_ordered@0: it holds so much less and takes so much longer."
    );
    let notes = report.advice.notes.join("\n");
    assert!(notes.contains("The host waits nowhere in this replay"), "{notes}");
    assert!(
        !notes.contains("not GPU numbers") && !notes.contains("--present"),
        "{notes}"
    );
}

#[test]
fn the_table_marks_what_is_used_and_what_to_use() {
    let text = text(&report(all(), false));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "poolbench: NVIDIA T4");
    assert_eq!(
        lines[1],
        "log.csv: RMM CSV log, 4 events: 2 allocations, 2 frees, 0 waits; 1 stream, peak 64.00 MiB (67,108,864) live"
    );
    let row = |start: &str| {
        lines
            .iter()
            .find(|line| line.starts_with(start))
            .map(|line| line.split_whitespace())
    };
    let sync: Vec<&str> = row("sync").expect("a row").collect();
    // 96 MiB reserved over a peak of 64.
    let expected = "sync (present) - 10.00 10.00 to 10.00 10.00 40.00 µs - 96.00 MiB 1.50x 0 B 0";
    assert_eq!(sync.join(" "), expected);
    let best: Vec<&str> = row("stream_ordered *").expect("the recommended one").collect();
    assert_eq!(best[2], "max");
    assert!(lines.contains(&"skipped managed: why not"));
    assert!(text.contains("The program is taken to use sync at present."));
    assert!(
        lines
            .iter()
            .skip(2)
            .filter(|line| line.starts_with(['U', '-', ' ']))
            .all(|l| l.chars().count() <= 100)
    );
}

#[test]
fn what_ran_out_of_memory_is_said_and_not_recommended() {
    let mut measured = all();
    measured[3].out_of_memory = 1;
    measured[1].out_of_memory = 2;
    let report = report(measured, true);
    assert_eq!(report.advice.verdict, Verdict::NoComparison);
    assert_eq!(report.advice.recommended.as_deref(), Some("stream_ordered@0"));
    assert!(
        report
            .advice
            .paragraph
            .contains("sync, the present one, did not serve the whole trace"),
        "{}",
        report.advice.paragraph
    );
    let notes = report.advice.notes.join("\n");
    for part in [
        "sync found no memory for 2 of 2 allocations",
        "stream_ordered@max found no memory for 1 of 2 allocations",
    ] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
}
