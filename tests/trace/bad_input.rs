//! Files that cannot be right: one line that names the place, and never a panic.

use std::io::Write as _;

use poolbench::trace::{self, Limits, Place, Problem, Synthetic, Workload, write_rmm_csv};

use super::support::{
    CsvLayout, Entry, Step, csv, entries, gzip, message, nsys_sqlite, one_line, pickle, profiler_json, read, refusal,
};

fn log(rows: &[&str]) -> String {
    let mut text = "Thread,Time,Action,Pointer,Size,Stream\n".to_owned();
    for row in rows {
        text.push_str(row);
        text.push('\n');
    }
    text
}

const ALLOC: &str = "1,16:33:00.100000,allocate,0x10,8,0";
const FREE: &str = "1,16:33:00.200000,free,0x10,8,0";

/// Rows, and what the line says of them behind the file's name.
#[test]
fn csv_rows_are_refused_by_number() {
    for (rows, expected) in [
        (
            vec![ALLOC, FREE, FREE],
            "row 4: frees 0x10 a second time (first at row 3): a bug of the program, or rows are missing",
        ),
        (
            vec![ALLOC, "1,16:33:00.2,free,0x20,8,0"],
            "row 3: frees 0x20, which was never allocated: start the log before the program's first allocation",
        ),
        (
            vec![ALLOC, ALLOC],
            "row 3: allocates 0x10, which is live since row 2: a free is missing, or two runs share this file",
        ),
        (
            vec!["1,16:33:00.1,allocate,0x10,-8,0"],
            "row 2: size `-8` is not a size: it is negative",
        ),
        (
            vec!["1,16:33:00.1,allocate,0x10,18446744073709551616,0"],
            "row 2: size `18446744073709551616` is not a size: it is 2^64 or more",
        ),
        (
            vec!["1,16:33:00.1,allocate,0x10,18446744073709551615,0"],
            "row 2: size 18446744073709551615 is larger than any GPU's address space (2^56): the log is damaged",
        ),
        (
            vec!["1,16:33:00.1,allocate,0x10,8 MB,0"],
            "row 2: size `8 MB` is not a number of bytes",
        ),
        (
            vec!["1,16:33:00.1,allocate,(nil),8,0"],
            "row 2: allocates 8 bytes at the null address: a failed call logged as done",
        ),
        (
            vec!["1,16:33:00.1,allocate,pointer,8,0"],
            "row 2: pointer `pointer` is not a hexadecimal address or (nil)",
        ),
        (
            vec!["1,16:33:00.1,allocate,0x10,8,0xg"],
            "row 2: stream `0xg` is not a number or a hexadecimal handle",
        ),
        (
            vec!["main,16:33:00.1,allocate,0x10,8,0"],
            "row 2: thread `main` is not a number",
        ),
        (
            vec!["1,1589302020.1,allocate,0x10,8,0"],
            "row 2: time `1589302020.1` is not a time of day (HH:MM:SS.ffffff)",
        ),
        (
            vec!["1,16:33:00.1,deallocate,0x10,8,0"],
            "row 2: action `deallocate` is none of allocate, free, allocate failure (or Alloc, Free, Realloc in logs to 2020)",
        ),
        (
            vec![ALLOC, "1,16:33:00.2,free,0x10", FREE],
            "row 3: has 4 fields where the header has 6",
        ),
        (
            vec![ALLOC, FREE, "Thread,Time,Action,Pointer,Size,Stream", ALLOC, FREE],
            "row 4: is a second header: two logs in one file; split it there",
        ),
        (
            vec!["1, 16:33:00.1, allocate, 0x10, 8, 0"],
            "row 2: has spaces around its fields; separate them by commas alone, as RMM writes them",
        ),
    ] {
        assert_eq!(message(log(&rows)), format!("t: {expected}"));
    }
}

#[test]
fn live_bytes_do_not_overflow() {
    // 2^56 each: 256 blocks are 2^64 bytes.
    let rows: Vec<String> = (1..=256)
        .map(|n| format!("1,16:33:00.1,allocate,{n:#x},72057594037927936,0"))
        .collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    assert_eq!(
        read(log(&rows[..255])).map(|t| t.peak_live_bytes()).ok(),
        Some(255 << 56)
    );
    assert_eq!(
        message(log(&rows)),
        "t: row 257: the live blocks add up to more than 2^64 bytes: a size is wrong, or frees are missing"
    );
}

#[test]
fn headers_say_what_is_missing() {
    for (text, expected) in [
        (
            "Time,Action,Size,Stream\n15:37:08:123456,allocate,,1024,0\n",
            "t: has no column Pointer: frees cannot be matched with allocations; record with RMM 0.13 or later",
        ),
        (
            "1,16:33:00.1,allocate,0x10,8,0\n",
            "t: has no header line (Thread,Time,Action,Pointer,Size,Stream): give the whole file, with the header that RMM wrote",
        ),
        (
            "Thread,Time,Action,Pointer\n",
            "t: has no column Size: give the whole file, with the header that RMM wrote",
        ),
        (
            "Thread,Time,Action,Pointer,Size,Stream\n",
            "t: has no allocation or free: record while the program allocates; the logger buffers, so call its flush() or let the program end",
        ),
        (
            "",
            "t: is empty; if a logger is writing it, call its flush() or let the program end, since loggers buffer",
        ),
        (
            "Thread;Time;Action;Pointer;Size;Stream\n",
            "t: is an RMM log separated by semicolons; separate its fields by commas, as RMM writes them",
        ),
        (
            "Thread\tTime\tAction\tPointer\tSize\tStream\n",
            "t: is an RMM log separated by tabs; separate its fields by commas, as RMM writes them",
        ),
        (
            "[ 24740][16:33:00:198816][info  ] ----- RMM LOG BEGIN [PTDS DISABLED] -----\n",
            "t: is RMM's debug log, not its CSV log; record with rmm.reinitialize(logging=True) or a logging_resource_adaptor",
        ),
        (
            "[2026-01-05 10:00:00.123] [RMM] [info] Thread,Time,Action,Pointer,Size,Stream\n",
            "t: is an RMM log with a prefix of spdlog's; remove the brackets before its header",
        ),
        (
            "{\"segments\": [], \"device_traces\": [[]]}",
            "t: is a PyTorch memory snapshot saved as JSON; save it with torch.cuda.memory._dump_snapshot, which pickles it",
        ),
        (
            "timestamp,message\n",
            "t: is no allocation trace (it begins with `timestamp,message\\n`); expected an RMM CSV log, a PyTorch memory snapshot (pickle), a PyTorch profiler trace (JSON) or an Nsight Systems export (SQLite)",
        ),
        (
            "PK\u{3}\u{4}",
            "t: is a ZIP archive; save the snapshot with torch.cuda.memory._dump_snapshot, not torch.save; unpack other archives",
        ),
    ] {
        assert_eq!(message(text), expected);
    }
}

#[test]
fn the_file_is_named_and_the_line_stays_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("two\nlines.csv");
    std::fs::write(&path, "not a trace\n").expect("a temporary file");
    let error = trace::read(&path).expect_err("it is no trace");
    assert!(one_line(&error).contains("two\\nlines.csv: is no allocation trace"));
    assert_eq!(error.path(), path);
    let absent = trace::read(&folder.path().join("absent")).expect_err("there is no such file");
    assert!(one_line(&absent).ends_with("cannot be read: No such file or directory (os error 2)"));
}

/// Ten gigabytes without a line feed, compressed to ten megabytes, and the same as plain bytes of a file.
#[test]
fn a_line_of_ten_gigabytes_ends_after_one_megabyte() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("long.csv");
    let mut file = std::fs::File::create(&path).expect("a temporary file");
    file.write_all(log(&[ALLOC]).as_bytes())
        .and_then(|()| file.set_len(10 << 30))
        .expect("a file with a hole");
    let error = trace::read(&path).expect_err("a line of zeros");
    assert_eq!(error.place(), Some(Place::Row(3)));
    assert!(matches!(
        error.problem(),
        Problem::LineTooLong { limit_bytes: 1_048_576 }
    ));
    one_line(&error);

    let text = format!("{{\"traceEvents\": [{{\"name\": \"{}", "x".repeat(17 << 20));
    assert!(message(text).contains("a text of more than 16777216 bytes"));
}

#[test]
fn decompression_bombs_end_early() {
    let zeros = gzip(&vec![0; 80 << 20]);
    // A pickled string of zeros, so that the whole would have to be read.
    let bomb = gzip(&[&b"\x80\x04\x8d\x00\x00\x00\x00\x01\x00\x00\x00"[..], &vec![0; 80 << 20]].concat());
    assert!(bomb.len() < 100_000);
    assert_eq!(
        message(&bomb),
        format!(
            "t: decompresses to more than 67108864 bytes from {}: no trace compresses so well; if it is a real one, decompress it first",
            bomb.len()
        )
    );
    assert!(message(zeros).contains("is no allocation trace"));
    assert!(message(gzip(&gzip(b"x"))).contains("gzip within gzip"));
    let limits = Limits {
        snapshot_bytes: 1_000,
        ..Limits::default()
    };
    let snapshot = pickle(&[vec![Entry::new("alloc", 16, 8, 1); 100]]);
    let error = trace::read_bytes(&snapshot, "t", &limits).expect_err("it is larger");
    assert!(matches!(error.problem(), Problem::TooLarge { .. }));
}

/// Archives: one with tar's magic, and one of before it was agreed on.
#[test]
fn archives_are_to_be_unpacked() {
    let text = log(&[ALLOC, FREE]);
    let archive = |magic: &[u8]| {
        let mut header = vec![0; 512];
        header[..8].copy_from_slice(b"rmm.csv\0");
        header[257..257 + magic.len()].copy_from_slice(magic);
        [header, text.clone().into_bytes(), vec![0; 1_024]].concat()
    };
    for magic in [&b"ustar\0"[..], b"ustar  \0", b""] {
        let archive = archive(magic);
        assert_eq!(message(&archive), "t: is a tar archive; unpack it");
        assert_eq!(message(gzip(&archive)), "t: is a tar archive; unpack it");
    }
}

#[test]
fn gzip_cut_or_damaged_is_said() {
    let mut csv = Vec::new();
    write_rmm_csv(&Synthetic::new(Workload::Inference, 1, 2_000).generate(), &mut csv)
        .expect("writing to memory does not fail");
    let whole = gzip(&csv);
    for cut in [2, 12, 100, whole.len() / 2, whole.len() - 1] {
        let message = message(&whole[..cut]);
        assert!(message.contains("was cut short"), "{cut}: {message}");
    }
    let mut damaged = whole.clone();
    let half = damaged.len() / 2;
    damaged[half] ^= 0xff;
    assert!(read(&damaged).is_err());
}

#[test]
fn pickles_that_call_or_nest_are_refused_by_byte() {
    let call =
        b"\x80\x04\x95\x1d\0\0\0\0\0\0\0\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x94\x85\x94R\x94.";
    assert_eq!(
        message(call),
        "t: byte 28: asks to call or to build something (STACK_GLOBAL): no memory snapshot needs that, and nothing was executed; do not open this file in Python"
    );
    let n = 100_000;
    let lists = [&b"\x80\x04"[..], &b"]".repeat(n), &b"a".repeat(n - 1), b"."].concat();
    let marks = [&b"\x80\x04"[..], &b"(".repeat(n)].concat();
    let tuples = [&b"\x80\x04)"[..], &b"\x85".repeat(n), b"."].concat();
    for pickle in [lists, marks, tuples] {
        let message = message(pickle);
        assert!(message.contains("nests deeper than 128 levels"), "{message}");
    }
    assert_eq!(
        message(b"\x80\x04}"),
        "t: byte 3: ends in the middle of the data: the file was cut short; copy or record it again"
    );
}

#[test]
fn pickles_of_something_else_say_what_is_missing() {
    for (pickle, expected) in [
        (&b"\x80\x04]."[..], "has no device_traces"),
        (b"\x80\x04}.", "has no device_traces"),
        (b"\x80\x04K\x01.", "is damaged"),
        (b"\x80\x04}\x8c\x0ddevice_tracesK\x01s.", "is damaged"),
        (
            b"\x80\x04}\x8c\x0ddevice_traces]]as.",
            "has no alloc or free_requested entry: call torch.cuda.memory._record_memory_history()",
        ),
    ] {
        let message = message(pickle);
        assert!(message.contains(expected), "{message}");
    }
}

/// Libraries quote what they do not like; a fuzzer found quotations of any length.
#[test]
fn quotations_of_the_file_are_short() {
    let literal = [b"\x80\x04I", &b"\0".repeat(900)[..], b"\n."].concat();
    let text = format!("{{\"traceEvents\":\"{}\"}}", "b".repeat(5_000));
    let row = format!("1,16:33:00.1,{},0x10,8,0", "x".repeat(5_000));
    for message in [message(literal), message(text), message(log(&[&row]))] {
        assert!(message.len() < 400 && message.contains("..."), "{message}");
    }
}

#[test]
fn snapshot_entries_are_refused_by_index() {
    let alloc = || Entry::new("alloc", 16, 8, 1_000_000_000);
    let at = |device, index| Some(Place::Entry { device, index });
    let refused = |devices: &[Vec<Entry>]| refusal(pickle(devices));

    let negative = refused(&[vec![alloc()], vec![alloc(), Entry::new("alloc", 32, -8, 1)]]);
    assert!(matches!(negative, Some((place, Problem::Invalid { field: "size", .. })) if place == at(1, 1)));
    // 2^64 as a Python integer: opcode LONG1, 9 bytes.
    let mut large =
        b"\x80\x04}\x8c\x0ddevice_traces]]}(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x10\x8c\x04size\x8a\x09".to_vec();
    large.extend([0, 0, 0, 0, 0, 0, 0, 0, 1]);
    large.extend(b"uaas.");
    let message = message(large);
    assert!(message.starts_with("t: device 0, entry 0: "), "{message}");
    assert!(message.contains("integer too large"), "{message}");
}

fn small_steps() -> Vec<Step> {
    use poolbench::trace::EventKind::{Alloc, Free};
    let step = |kind, block, time_us| Step {
        kind,
        block,
        address: 0x7f00_0000_0000 + u64::from(block) * 512,
        size_bytes: 100 + u64::from(block),
        thread: 7,
        stream: 2,
        time_us,
    };
    vec![
        step(Alloc, 0, 10),
        step(Alloc, 1, 20),
        step(Free, 0, 30),
        step(Free, 1, 45),
    ]
}

/// Small samples of every format, cut at every byte, and with every byte changed: read or refused in one line.
#[test]
fn no_cut_and_no_changed_byte_panics() {
    let steps = small_steps();
    let mut samples: Vec<Vec<u8>> = CsvLayout::ALL
        .iter()
        .map(|&layout| csv(&steps, layout).into_bytes())
        .collect();
    samples.push(gzip(csv(&steps, CsvLayout::PrintfNil).as_bytes()));
    samples.push(profiler_json(&steps).into_bytes());
    samples.push(pickle(&[entries(&steps), entries(&steps)]));
    for sample in samples {
        assert!(read(&sample).is_ok());
        for cut in 0..sample.len() {
            if let Err(error) = read(&sample[..cut]) {
                one_line(&error);
            }
            for flip in [0x01, 0x10, 0x80, 0xff] {
                let mut changed = sample.clone();
                changed[cut] ^= flip;
                if let Err(error) = read(&changed) {
                    one_line(&error);
                }
            }
        }
    }
}

/// A snapshot or a profiler trace that is cut anywhere is refused: neither can lose its tail in normal use.
#[test]
fn cut_documents_are_refused() {
    let steps = small_steps();
    for sample in [
        pickle(&[entries(&steps)]),
        profiler_json(&steps).into_bytes(),
        gzip(&pickle(&[entries(&steps)])),
    ] {
        for cut in 0..sample.len() {
            assert!(read(&sample[..cut]).is_err(), "{cut}");
        }
    }
}

#[test]
fn a_cut_database_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("report.sqlite");
    nsys_sqlite(&path, &small_steps()).expect("a fixture");
    let whole = std::fs::read(&path).expect("it was written above");
    assert!(trace::read(&path).is_ok());
    // Pages are 4,096 bytes.
    for cut in (0..whole.len()).step_by(509) {
        std::fs::write(&path, &whole[..cut]).expect("a temporary file");
        let error = trace::read(&path).expect_err("it is cut");
        one_line(&error);
    }
    // Changed bytes may hit unused parts.
    for at in (0..whole.len()).step_by(97) {
        let mut changed = whole.clone();
        changed[at] ^= 0xff;
        std::fs::write(&path, &changed).expect("a temporary file");
        if let Err(error) = trace::read(&path) {
            one_line(&error);
        }
    }
}

#[test]
fn more_events_than_allowed_are_refused() {
    let limits = Limits {
        events: 3,
        ..Limits::default()
    };
    let steps = small_steps();
    for bytes in [
        csv(&steps, CsvLayout::PrintfNil).into_bytes(),
        profiler_json(&steps).into_bytes(),
        pickle(&[entries(&steps)]),
    ] {
        let error = trace::read_bytes(&bytes, "t", &limits).expect_err("it has four events");
        assert!(matches!(error.problem(), Problem::TooManyEvents { limit: 3 }));
    }
}
