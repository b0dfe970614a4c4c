//! Profiler traces as Kineto writes them: names that are not escaped, and numbers that are none.

use poolbench::trace::{Format, Limits, Place, Trace, WarningKind, read_bytes};

use super::support::{message, trace, warnings};

/// A memory event in Kineto's own layout.
fn memory(ts: &str, bytes: i64, address: u64) -> String {
    format!(
        "  {{\n    \"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\", \"pid\": 7, \"tid\": 7,\n    \
         \"ts\": {ts},\n    \"args\": {{\n      \"Bytes\": {bytes}, \"Addr\": {address}, \"Device Id\": 0, \"Device Type\": 1\n    }}\n  }}"
    )
}

/// An event of Python code in Kineto's own layout, whose name and duration are written as they are.
fn python(name: &[u8], duration: &str) -> Vec<u8> {
    [
        b"  {\n    \"ph\": \"X\", \"cat\": \"python_function\", \"name\": \"",
        name,
        b"\", \"pid\": 7, \"tid\": 7,\n    \"ts\": 1, \"dur\": ",
        duration.as_bytes(),
        b",\n    \"args\": {\n      \"Python id\": 4, \"Shapes\": [{\"a\": 1}, {\"b\": 2}]\n    }\n  }",
    ]
    .concat()
}

fn file(events: &[Vec<u8>]) -> Vec<u8> {
    let events = events.join(&b",\n"[..]);
    [
        &b"{\n  \"schemaVersion\": 1,\n  \"traceEvents\": [\n"[..],
        &events,
        b"\n  ],\n  \"traceName\": \"t\"\n}\n",
    ]
    .concat()
}

fn names() -> Vec<Vec<u8>> {
    vec![
        b"lib = Library(\"_test\", \"IMPL\")\n(1): <module>".to_vec(),
        b"{\"device\": \"cpu\", \"dtype\": \"float32\"}(12): run".to_vec(),
        b"say \"\"\"(3): f".to_vec(),
        b"torch\\cuda\\__init__.py(219): _lazy_init".to_vec(),
        b"config.py(0): \x1f\x01".to_vec(),
        b"half of a character: \xf0\x9f".to_vec(),
        b"[{\"name\": 1}, {\"name\": 2, \"ph\": 3}]: dict".to_vec(),
        b"x}, {\"ph\": \"X\", \"name\": \"y\"}]}".to_vec(),
    ]
}

/// An allocation of 512 bytes and its free 10 us later, whatever stands around them.
fn is_whole(trace: &Trace, what: &str) {
    assert_eq!(trace.format(), Format::TorchProfiler, "{what}");
    let events: Vec<(u64, u64)> = trace
        .events()
        .iter()
        .map(|e| (e.time_ns, trace.size_bytes(e)))
        .collect();
    assert_eq!(events, [(0, 512), (10_000, 512)], "{what}");
    assert_eq!((trace.orphan_frees(), trace.live_before().blocks), (0, 0), "{what}");
}

#[test]
fn broken_events_are_left_out_and_memory_events_are_read() {
    let (alloc, free) = (
        memory("10.5", 512, 16).into_bytes(),
        memory("20.5", -512, 16).into_bytes(),
    );
    let mut broken: Vec<(Vec<u8>, &str)> = names().into_iter().map(|name| (name, "0")).collect();
    broken.extend(["N/A", "NaN", "inf", "-nan", ""].map(|duration| (b"f".to_vec(), duration)));
    for (name, duration) in broken {
        let what = format!("{} {duration}", name.escape_ascii());
        let odd = python(&name, duration);
        // First, between, last, and two in a row.
        for events in [
            [odd.clone(), alloc.clone(), free.clone()].as_slice(),
            &[alloc.clone(), odd.clone(), free.clone()],
            &[alloc.clone(), free.clone(), odd.clone()],
            &[alloc.clone(), odd.clone(), odd.clone(), free.clone()],
        ] {
            let trace = trace(file(events));
            is_whole(&trace, &what);
            let [(WarningKind::NoStreams, 1), (WarningKind::BrokenEvent, count)] = warnings(&trace)[..] else {
                panic!("{what}: {:?}", trace.warnings());
            };
            // A name may look like the beginning of further events.
            assert!(count >= events.len() as u64 - 2, "{what}: {count}");
        }
    }
}

#[test]
fn the_warning_counts_them_and_says_how_to_avoid_them() {
    let (alloc, free) = (
        memory("10.5", 512, 16).into_bytes(),
        memory("20.5", -512, 16).into_bytes(),
    );
    let odd = python(b"a \"quoted\" name", "0");
    let trace = trace(file(&[alloc, odd.clone(), odd, free]));
    // Above its brace are three lines of the file's and seven of the memory event's.
    assert_eq!(trace.warnings()[1].first, Some(Place::Text { line: 11, column: 3 }));
    assert_eq!(
        trace.warnings()[1].to_string(),
        "events that could not be read, none of them a [memory] event, left out (PyTorch did not escape their names; \
         with_stack=False avoids it): 2 (first: line 11, column 3)"
    );
}

/// An event that is broken and holds the memory events' name may be one.
#[test]
fn a_memory_event_is_never_left_out() {
    let (alloc, free) = (memory("10.5", 512, 16), memory("20.5", -512, 16));
    let odd = |text: &str| text.replace("\"tid\": 7", "\"tid\": N/A").into_bytes();
    for (events, line) in [
        ([alloc.clone().into_bytes(), odd(&free)], 11),
        ([odd(&alloc), free.clone().into_bytes()], 4),
        // Nothing behind a quote that is missing is an event of its own.
        (
            [
                alloc.replace("\"s\": \"t\"", "\"s\": \"t").into_bytes(),
                free.into_bytes(),
            ],
            4,
        ),
    ] {
        assert_eq!(
            message(file(&events)),
            format!(
                "t: line {line}, column 3: an event is broken and may be a [memory] event: PyTorch did not escape its \
                 names; record it again with with_stack=False"
            )
        );
    }
}

/// A file of broken events, cut anywhere before its last memory event is whole, is refused; behind it, what is read
/// is whole.
#[test]
fn a_cut_file_of_broken_events_is_refused() {
    let (alloc, free) = (
        memory("10.5", 512, 16).into_bytes(),
        memory("20.5", -512, 16).into_bytes(),
    );
    // A cut behind a name's own brackets would look like the file's end.
    for name in names().iter().filter(|name| !name.ends_with(b"}]}")) {
        let odd = python(name, "0");
        let whole = file(&[odd.clone(), alloc.clone(), odd.clone(), free.clone(), odd]);
        let end = whole.trim_ascii_end().len();
        for cut in 0..end {
            if let Ok(trace) = read_bytes(&whole[..cut], "t", &Limits::default()) {
                panic!("{}: cut at {cut}: {:?}", name.escape_ascii(), trace.warnings());
            }
        }
        assert!(read_bytes(&whole[..end], "t", &Limits::default()).is_ok());
    }
}

/// Events of 3 MiB in all, of which each tenth is broken: more than is kept at once.
#[test]
fn large_files_are_read_around_their_broken_events() {
    let mut events = Vec::new();
    for n in 0..6_000u32 {
        // Of different lengths, so that what is read at once ends anywhere in them.
        let time = format!("{n}.{}", "25".repeat(1 + n as usize % 7));
        events.push(memory(&time, 512, 4_096 + u64::from(n)).into_bytes());
        if n % 10 == 0 {
            events.push(python(b"print(\"n\")", "0"));
        }
    }
    // A broken event that is larger than any other.
    events.insert(
        3_000,
        python(&[&b"\"\n"[..], &b"long \"".repeat(500_000)].concat(), "0"),
    );
    let trace = trace(file(&events));
    assert_eq!((trace.events().len(), trace.peak_live_bytes()), (6_000, 6_000 * 512));
    let broken = &trace.warnings()[1];
    assert_eq!((broken.kind, broken.count), (WarningKind::BrokenEvent, 601));
}

#[test]
fn messages_name_no_type_of_this_program() {
    for text in [
        "{\"traceEvents\":[null]}",
        "{\"traceEvents\":[5]}",
        "[[1]]",
        "[\"a\"]",
        "5",
        "{\"traceEvents\":7}",
    ] {
        let message = message(text);
        assert!(
            !message.contains("struct") && !message.contains("RawEvent"),
            "{message}"
        );
    }
}
