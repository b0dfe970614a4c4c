//! What a trace compiles to.

use std::time::Duration;

use poolbench::replay::OperationKind::{Alloc, Free, Order, SynchronizeDevice, SynchronizeStream};
use poolbench::replay::{CompileError, CompileOptions, OperationKind, Program, Reuse, Synchronise};
use poolbench::trace::{Synthetic, Trace, Workload};

use crate::trace;

fn compile(trace: &Trace, options: CompileOptions) -> Program {
    match Program::compile(trace, &options) {
        Ok(program) => program,
        Err(error) => panic!("{error}"),
    }
}

/// (kind, stream, home, slot) of each operation.
fn steps(program: &Program) -> Vec<(OperationKind, u8, u8, u32)> {
    let operations = program.operations().iter();
    operations.map(|o| (o.kind, o.stream, o.home, o.slot)).collect()
}

/// A block of stream 1 that stream 2 frees.
const CROSSING: [&str; 4] = [
    "1,allocate,0x1000,512,1",
    "1,allocate,0x2000,1024,2",
    "1,free,0x1000,512,2",
    "1,free,0x2000,1024,2",
];

#[test]
fn a_free_in_another_stream_waits_for_what_it_frees() {
    let program = compile(&trace(&CROSSING), CompileOptions::default());
    let expected = [
        (Alloc, 0, 0, 0),
        (Alloc, 1, 1, 1),
        (Order, 1, 0, 0),
        (Free, 1, 0, 0),
        (Free, 1, 1, 1),
    ];
    assert_eq!(steps(&program), expected);
    let counts = program.counts();
    // The added wait is no event of the trace.
    assert_eq!(
        (counts.events, counts.cross_stream_frees, counts.added_waits),
        (4, 1, 1)
    );
    assert_eq!((program.n_streams(), program.n_slots()), (2, 2));
    assert_eq!((program.peak_live_bytes(), program.peak_operation()), (1536, 1));
}

#[test]
fn memory_that_the_host_hands_out_again_waits_for_the_free() {
    let options = CompileOptions {
        reuse: Reuse::Host,
        ..CompileOptions::default()
    };
    let program = compile(&trace(&CROSSING), options);
    // Stream 0 may hand the block out again once stream 1 is done with it.
    let expected = [
        (Alloc, 0, 0, 0),
        (Alloc, 1, 1, 1),
        (Order, 1, 0, 0),
        (Free, 1, 0, 0),
        (Order, 0, 1, 0),
        (Free, 1, 1, 1),
    ];
    assert_eq!(steps(&program), expected);
}

#[test]
fn one_wait_serves_all_that_came_before_it() {
    let rows = [
        "1,allocate,0x1000,512,1",
        "1,allocate,0x2000,512,1",
        "1,free,0x1000,512,2",
        "1,free,0x2000,512,2",
    ];
    let program = compile(&trace(&rows), CompileOptions::default());
    let kinds: Vec<_> = program.operations().iter().map(|o| o.kind).collect();
    assert_eq!(kinds, [Alloc, Alloc, Order, Free, Free]);
    // A wait of the host's, after both allocations, makes the stream's needless.
    let options = CompileOptions {
        synchronise: Synchronise::Every(2),
        ..CompileOptions::default()
    };
    let kinds: Vec<_> = compile(&trace(&rows), options)
        .operations()
        .iter()
        .map(|o| o.kind)
        .collect();
    assert_eq!(kinds, [Alloc, Alloc, SynchronizeDevice, Free, Free, SynchronizeDevice]);
}

#[test]
fn the_host_waits_where_it_is_told_to() {
    // Rows are a millisecond apart; the fourth comes 3 ms after the third.
    let log = "Thread,Time,Action,Pointer,Size,Stream\n\
               1,10:00:00.000000,allocate,0x1000,512,0\n\
               1,10:00:00.001000,free,0x1000,512,0\n\
               1,10:00:00.002000,allocate,0x1000,512,0\n\
               1,10:00:00.005000,free,0x1000,512,0\n";
    let trace = poolbench::trace::read_bytes(log.as_bytes(), "log", &poolbench::trace::Limits::default());
    let trace = trace.unwrap_or_else(|error| panic!("{error}"));
    let kinds = |synchronise| {
        let options = CompileOptions {
            synchronise,
            ..CompileOptions::default()
        };
        let program = compile(&trace, options);
        program.operations().iter().map(|o| o.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(Synchronise::AsTraced), [Alloc, Free, Alloc, Free]);
    assert_eq!(
        kinds(Synchronise::AtGaps(Duration::from_millis(3))),
        [Alloc, Free, Alloc, SynchronizeDevice, Free]
    );
    assert_eq!(
        kinds(Synchronise::Every(3)),
        [Alloc, Free, Alloc, SynchronizeDevice, Free]
    );
}

#[test]
fn the_traces_own_waits_are_kept_unless_others_are_asked_for() {
    let mut synthetic = Synthetic::new(Workload::Inference, 1, 200);
    synthetic.streams = 2;
    let trace = synthetic.generate();
    let waits = trace.summary().syncs;
    assert!(waits > 0);
    let program = compile(&trace, CompileOptions::default());
    let count = |program: &Program, kind| program.operations().iter().filter(|o| o.kind == kind).count() as u64;
    assert_eq!(count(&program, SynchronizeStream), waits);
    assert_eq!(program.counts().synchronises, waits);
    let options = CompileOptions {
        synchronise: Synchronise::Every(50),
        ..CompileOptions::default()
    };
    let program = compile(&trace, options);
    assert_eq!(count(&program, SynchronizeStream), 0);
    // Every fiftieth of all allocations and frees.
    assert_eq!(
        count(&program, SynchronizeDevice),
        2 * program.counts().allocations / 50
    );
}

#[test]
fn slots_are_used_again_and_what_is_left_is_freed_at_the_end() {
    let rows = [
        "1,allocate,0x1000,512,0",
        "1,free,0x1000,512,0",
        "2,allocate,0x2000,512,0",
        "2,allocate,0x3000,0,0",
        "2,allocate,0x4000,256,0",
        "1,free,0x3000,0,0",
    ];
    let program = compile(&trace(&rows), CompileOptions::default());
    // The block of 0 bytes makes no call.
    let expected = [(Alloc, 0, 0, 0), (Free, 0, 0, 0), (Alloc, 0, 0, 0), (Alloc, 0, 0, 1)];
    assert_eq!(steps(&program), expected);
    let leaked: Vec<_> = program.leaked().iter().map(|o| (o.kind, o.slot)).collect();
    assert_eq!(leaked, [(Free, 0), (Free, 1)]);
    let counts = program.counts();
    assert_eq!((counts.events, counts.zero_size_blocks, counts.live_at_end), (4, 1, 2));
    assert_eq!(program.allocated_bytes(), 512 + 512 + 256);
}

#[test]
fn sizes_are_scaled_and_stay_sizes() {
    let scaled = |scale| CompileOptions {
        scale,
        ..CompileOptions::default()
    };
    let trace = trace(&CROSSING);
    let sizes = |scale| -> Vec<u64> {
        let program = compile(&trace, scaled(scale));
        program
            .operations()
            .iter()
            .filter(|o| o.kind == Alloc)
            .map(|o| o.size_bytes)
            .collect()
    };
    assert_eq!(sizes(0.5), [256, 512]);
    assert_eq!(sizes(2.0), [1024, 2048]);
    assert_eq!(sizes(1e-9), [1, 1], "a block stays a block");
    let error = Program::compile(&trace, &scaled(1e15)).expect_err("512 PB");
    assert_eq!(error, CompileError::ScaledTooLarge { scale: 1e15 });
}

#[test]
fn what_cannot_be_compiled_says_why() {
    let nothing = trace(&["1,allocate,0x1000,0,0"]);
    let error = Program::compile(&nothing, &CompileOptions::default()).expect_err("nothing");
    assert_eq!(error, CompileError::Empty);
    let rows: Vec<String> = (0..257)
        .map(|n| format!("1,allocate,{:#x},16,{}", 4096 * (n + 1), n + 1))
        .collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let many = trace(&rows);
    let error = Program::compile(&many, &CompileOptions::default()).expect_err("257 streams");
    assert_eq!(error, CompileError::TooManyStreams { streams: 257 });
    assert!(error.to_string().contains("--streams"), "the remedy: {error}");
    // 256 are fine, and so are 257 that are spread.
    assert_eq!(
        compile(&trace(&rows[..256]), CompileOptions::default()).n_streams(),
        256
    );
    assert_eq!(compile(&many.with_streams(3), CompileOptions::default()).n_streams(), 3);
}

#[test]
fn the_same_trace_compiles_to_the_same_bytes() {
    let dump = || {
        let mut synthetic = Synthetic::new(Workload::TrainingStep, 7, 2_000);
        synthetic.streams = 3;
        let program = compile(&synthetic.generate(), CompileOptions::default());
        let mut bytes = Vec::new();
        program.dump(&mut bytes).expect("writing to memory does not fail");
        // 8 of magic, four numbers of 4 and three of 8, and 16 an operation.
        assert_eq!(
            bytes.len(),
            48 + 16 * (program.operations().len() + program.leaked().len())
        );
        bytes
    };
    assert_eq!(dump(), dump());
}
