//! PyTorch profiler traces.

use poolbench::trace::{EventKind, Format, Place, Problem, WarningKind};

use super::support::{gzip, message, refusal, trace, warnings};

fn memory(ts: &str, bytes: i64, addr: u64) -> String {
    format!(
        r#"{{"ph":"i","name":"[memory]","tid":9,"ts":{ts},"args":{{"Bytes":{bytes},"Addr":{addr},"Device Id":0,"Device Type":1}}}}"#
    )
}

fn json(events: &[String]) -> String {
    format!(r#"{{"schemaVersion":1,"traceEvents":[{}]}}"#, events.join(","))
}

#[test]
fn memory_events_are_sorted_by_time() {
    let text = json(&[
        memory("1700000000000002.5", -512, 16),
        r#"{"ph":"X","name":"aten::mm","ts":3,"dur":1,"args":{"Bytes":4,"Input Dims":[[2,4]]}}"#.to_owned(),
        r#"{"ph":"M","name":"process_name","args":"text"}"#.to_owned(),
        r#"{"ph":"s","name":"ac2g","args":null}"#.to_owned(),
        r#"{"ph":"M","name":"x","args":[1,{"a":[]}]}"#.to_owned(),
        r#"{"ph":"M","name":"x","args":5},{"name":"x","args":-0.5},{"name":"x","args":true},{"name":"x","args":-5}"#
            .to_owned(),
        memory("1700000000000000", 512, 16),
        r#"{"ph":"i","name":"[memory]","ts":1,"args":{"Bytes":4,"Addr":8,"Device Id":-1,"Device Type":0}}"#.to_owned(),
    ]);
    let plain = trace(&text);
    assert_eq!(plain.format(), Format::TorchProfiler);
    assert_eq!(plain.threads(), [9]);
    let events: Vec<_> = plain.events().iter().map(|e| (e.kind, e.time_ns)).collect();
    assert_eq!(events, [(EventKind::Alloc, 0), (EventKind::Free, 2_500)]);
    assert_eq!(warnings(&plain), [(WarningKind::NoStreams, 1)]);
    assert_eq!(trace(gzip(text.as_bytes())), plain);
    // Some exporters write the array alone.
    let array = text.replace(r#"{"schemaVersion":1,"traceEvents":"#, "");
    assert_eq!(trace(array.trim_end_matches('}')), plain);
}

#[test]
fn events_of_one_instant_are_put_in_an_order_that_can_be() {
    // Block 16 is live: its free comes first. Block 32 is not: its allocation does. Then both again.
    let text = json(&[
        memory("1", 512, 16),
        memory("2", 1024, 16),
        memory("2", -256, 32),
        memory("2", -512, 16),
        memory("2", 256, 32),
        memory("3", -1024, 16),
    ]);
    let trace = trace(text);
    let sizes: Vec<_> = trace
        .events()
        .iter()
        .map(|event| (event.kind, trace.size_bytes(event)))
        .collect();
    use EventKind::{Alloc, Free};
    assert_eq!(
        sizes,
        [
            (Alloc, 512),
            (Free, 512),
            (Alloc, 1024),
            (Alloc, 256),
            (Free, 256),
            (Free, 1024)
        ]
    );
    assert_eq!(trace.orphan_frees(), 0);
}

#[test]
fn what_cannot_be_used_says_why() {
    let no_memory = r#"{"traceEvents":[{"ph":"X","name":"aten::mm","ts":3}]}"#;
    assert_eq!(
        message(no_memory),
        "t: has no [memory] event: record with torch.profiler.profile(profile_memory=True)"
    );
    assert!(message(r#"{"a":1}"#).contains("has no [memory] event"));
    let cpu = memory("1", 4, 8).replace(r#""Device Type":1"#, r#""Device Type":0"#);
    assert!(message(json(&[cpu])).contains("those in it are the CPU's"));
    // 12 is XPU.
    let xpu = memory("1", 4, 8).replace(r#""Device Type":1"#, r#""Device Type":12"#);
    assert!(message(json(&[xpu])).contains("those in it are of devices of other kinds"));
    let no_address = memory("1", 4, 8).replace(r#""Addr":8,"#, "");
    assert_eq!(
        message(json(&[no_address])),
        "t: traceEvents[0]: has no Addr in its [memory] events: frees cannot be matched; record with PyTorch 1.12 or later"
    );
}

#[test]
fn bad_values_are_refused_by_element() {
    let first = memory("1", 4, 8);
    for (second, field) in [
        (memory("-1", 4, 16), "ts"),
        (memory("1e300", 4, 16), "ts"),
        (memory("null", 4, 16), "ts"),
        (memory("1", i64::MIN, 16), "Bytes"),
        (memory("1", 4, 16).replace(":4,", ":18446744073709551616,"), "Bytes"),
        (memory("1", 4, 16).replace(":16,", ":-16,"), "Addr"),
        (
            memory("1", 4, 16).replace("\"Device Id\":0", "\"Device Id\":4294967296"),
            "Device Id",
        ),
    ] {
        let refused = refusal(json(&[first.clone(), second]));
        assert!(
            matches!(&refused, Some((Some(Place::TraceEvent(1)), Problem::Invalid { field: f, .. })) if *f == field),
            "{field}: {refused:?}"
        );
    }
}

#[test]
fn broken_json_is_refused_by_line_and_column() {
    assert_eq!(
        message("{\"traceEvents\": [\n{\"name\": }]}"),
        "t: line 2, column 10: is damaged: expected value"
    );
    // Behind the events: a comma too many, and a second file.
    let whole = json(&[memory("1", 4, 8)]);
    let comma = whole.replace("]}", "],\n}");
    assert_eq!(message(comma), "t: line 2, column 1: is damaged: trailing comma");
    // Events given twice: the second time they would be passed over.
    let again = whole.replace("]}", "],\"traceEvents\":[]}");
    assert!(message(again).ends_with("is damaged: duplicate field `traceEvents`"));
    let twice = format!("t: line 1, column {}: is damaged: trailing characters", whole.len() + 1);
    assert_eq!(message(whole.repeat(2)), twice);
    let array = format!("[{}] x", memory("1", 4, 8));
    assert!(message(array).ends_with("is damaged: trailing characters"));
    let cut = message("{\"traceEvents\": [");
    assert!(cut.contains("line 1, column 17: ends in the middle"), "{cut}");
    let deep = "[".repeat(100_000);
    assert!(message(format!("{{\"a\": {deep}")).starts_with("t: line 1, column "));
}
