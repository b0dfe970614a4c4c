//! The engine on the device: order, overlap, and faults that must be caught.

use std::sync::Mutex;

use poolbench::case::Size;
use poolbench::cuda::{self, DevicePtr, Event, MemoryPool, Stream, alloc_plain};
use poolbench::measure::Failure;
use poolbench::replay::{Allocator, CompileOptions, Engine, NoWork, Operation, Program, Touch, Work};
use poolbench::strategy::{self, Setup, Strategy, StrategyKind};
use poolbench::trace::Trace;

use crate::common::{self, Guarded};
use crate::trace;

/// Runs a trace once under a strategy, with work between the calls, and returns how often memory was short.
fn run(
    guarded: &Guarded,
    trace: &Trace,
    kind: &StrategyKind,
    work: impl FnOnce(&Engine) -> Result<Box<dyn DynWork>, Failure>,
) -> Result<u64, Failure> {
    let program = Program::compile(trace, &CompileOptions::default()).expect("it compiles");
    let mut engine = Engine::new(&guarded.device, &program)?;
    let setup = Setup {
        device: &guarded.device,
        size: Size::mib(64),
        plan: None,
        release_threshold_bytes: u64::MAX,
    };
    let mut allocator = Allocator::build(kind, &setup, &program.plans())?;
    let mut work = Adapter(work(&engine)?);
    let ran = engine.run(program.operations(), &mut allocator, &mut work);
    let left = engine.run(program.leaked(), &mut allocator, &mut work);
    let finished = ran.and_then(|missed| left.map(|_| missed)).and_then(|missed| {
        work.0.finish(engine.streams())?;
        Ok(missed)
    });
    engine.synchronize()?;
    // The first failure is the one to see.
    let _ = allocator.close();
    finished
}

/// Work that is checked at the end.
trait DynWork {
    fn after_alloc(&mut self, streams: &[Stream], operation: &Operation, block: DevicePtr) -> Result<(), Failure>;
    fn before_free(&mut self, streams: &[Stream], operation: &Operation, block: DevicePtr) -> Result<(), Failure>;
    fn finish(&mut self, _: &[Stream]) -> Result<(), Failure> {
        Ok(())
    }
}

struct Adapter(Box<dyn DynWork>);

impl Work for Adapter {
    fn after_alloc(&mut self, streams: &[Stream], operation: &Operation, block: DevicePtr) -> Result<(), Failure> {
        self.0.after_alloc(streams, operation, block)
    }
    fn before_free(&mut self, streams: &[Stream], operation: &Operation, block: DevicePtr) -> Result<(), Failure> {
        self.0.before_free(streams, operation, block)
    }
}

impl DynWork for NoWork {
    fn after_alloc(&mut self, _: &[Stream], _: &Operation, _: DevicePtr) -> Result<(), Failure> {
        Ok(())
    }
    fn before_free(&mut self, _: &[Stream], _: &Operation, _: DevicePtr) -> Result<(), Failure> {
        Ok(())
    }
}

impl DynWork for Touch {
    fn after_alloc(&mut self, streams: &[Stream], operation: &Operation, block: DevicePtr) -> Result<(), Failure> {
        Work::after_alloc(self, streams, operation, block)
    }
    fn before_free(&mut self, streams: &[Stream], operation: &Operation, block: DevicePtr) -> Result<(), Failure> {
        Work::before_free(self, streams, operation, block)
    }
    fn finish(&mut self, streams: &[Stream]) -> Result<(), Failure> {
        let touched = self.verify(streams)?;
        assert!(touched.blocks > 0);
        Ok(())
    }
}

fn nothing(_: &Engine) -> Result<Box<dyn DynWork>, Failure> {
    Ok(Box::new(NoWork))
}

fn touch(engine: &Engine) -> Result<Box<dyn DynWork>, Failure> {
    Ok(Box::new(Touch::new(engine.streams(), usize::MAX)?))
}

/// Two streams, whose blocks are live at the same time.
const TWO_STREAMS: [&str; 4] = [
    "1,allocate,0x10000000,67108864,1",
    "1,allocate,0x20000000,4096,2",
    "1,free,0x20000000,4096,2",
    "1,free,0x10000000,67108864,1",
];

/// Keeps the first block's stream at work, and asks whether that is done when the second block's is.
struct Overlap<'a> {
    first: Event,
    second: Event,
    seen: &'a Mutex<Option<bool>>,
}

impl DynWork for Overlap<'static> {
    fn after_alloc(&mut self, streams: &[Stream], operation: &Operation, block: DevicePtr) -> Result<(), Failure> {
        let stream = &streams[usize::from(operation.stream)];
        let words = operation.size_bytes as usize / 4;
        if operation.size_bytes > 4096 {
            for value in 0..20 {
                stream.set_words(block, value, words)?;
            }
            return Ok(self.first.record(stream)?);
        }
        stream.set_words(block, 1, words)?;
        self.second.record(stream)?;
        self.second.synchronize()?;
        *self.seen.lock().expect("one thread") = Some(!self.first.is_reached()?);
        Ok(())
    }
    fn before_free(&mut self, _: &[Stream], _: &Operation, _: DevicePtr) -> Result<(), Failure> {
        Ok(())
    }
}

fn overlaps(guarded: &Guarded, trace: &Trace) -> bool {
    static SEEN: Mutex<Option<bool>> = Mutex::new(None);
    let work = |_: &Engine| {
        Ok::<Box<dyn DynWork>, Failure>(Box::new(Overlap {
            first: Event::new()?,
            second: Event::new()?,
            seen: &SEEN,
        }))
    };
    let kind = strategy::named("owned_pool").expect("a strategy");
    run(guarded, trace, kind, work).unwrap_or_else(|failure| panic!("{failure}"));
    SEEN.lock()
        .expect("one thread")
        .take()
        .expect("both blocks were allocated")
}

/// In one stream the second block's work comes after the first's, always; in two it may be done before.
/// "May": a loaded machine can finish the first before it runs the second, so some tries are given.
#[test]
fn two_streams_overlap_and_one_does_not() {
    let guarded = common::device();
    let two = trace(&TWO_STREAMS);
    let one = two.with_streams(1);
    assert!((0..50).any(|_| overlaps(&guarded, &two)), "never in 50 replays");
    assert!((0..2).all(|_| !overlaps(&guarded, &one)));
}

static CALLS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Notes each call with the stream it was made in; memory is one block for all.
struct Recording(Vec<String>, DevicePtr);

impl Recording {
    fn note(&mut self, call: &str, stream: &Stream) {
        // A stream's address in the engine's array tells it from the others.
        let id = format!("{stream:?}");
        let index = self.0.iter().position(|known| *known == id).unwrap_or_else(|| {
            self.0.push(id);
            self.0.len() - 1
        });
        CALLS.lock().expect("one thread").push(format!("{call} {index}"));
    }
}

impl Strategy for Recording {
    fn alloc(&mut self, stream: &Stream, size_bytes: usize) -> cuda::Result<DevicePtr> {
        self.note(&format!("alloc {size_bytes}"), stream);
        Ok(self.1)
    }
    fn free(&mut self, stream: &Stream, _: DevicePtr) -> cuda::Result<()> {
        self.note("free", stream);
        Ok(())
    }
    fn close(self: Box<Self>) -> cuda::Result<()> {
        cuda::free_plain(self.1)
    }
}

static RECORDING: StrategyKind = StrategyKind {
    name: "recording",
    has_work: true,
    build: |_| Ok(Box::new(Recording(Vec::new(), alloc_plain(64 << 20)?))),
};

#[test]
fn calls_keep_their_order_and_their_streams() {
    let guarded = common::device();
    let calls = |trace: &Trace| {
        run(&guarded, trace, &RECORDING, nothing).unwrap_or_else(|failure| panic!("{failure}"));
        std::mem::take(&mut *CALLS.lock().expect("one thread"))
    };
    let two = trace(&TWO_STREAMS);
    assert_eq!(calls(&two), ["alloc 67108864 0", "alloc 4096 1", "free 1", "free 0"]);
    assert_eq!(
        calls(&two.with_streams(1)),
        ["alloc 67108864 0", "alloc 4096 0", "free 0", "free 0"]
    );
}

// Planted faults: a strategy with each, and what has to be said of it.

#[test]
fn a_block_over_a_live_one_is_caught() {
    let guarded = common::device();
    // Every block is at the same place.
    let failure = run(&guarded, &trace(&TWO_STREAMS), &RECORDING, touch).expect_err("wrong reuse");
    CALLS.lock().expect("one thread").clear();
    assert!(
        matches!(failure, Failure::Overlap { block: 1, other: 0, .. }),
        "{failure}"
    );
    assert!(!failure.is_skip());
}

/// Hands out good memory, and writes into the block before it: as if two blocks shared memory behind
/// different addresses.
struct Scribbling(MemoryPool, Option<DevicePtr>);

impl Strategy for Scribbling {
    fn alloc(&mut self, stream: &Stream, size_bytes: usize) -> cuda::Result<DevicePtr> {
        if let Some(before) = self.1 {
            stream.set_words(before.offset(4092), 0, 1)?;
        }
        let block = self.0.alloc(stream, size_bytes)?;
        self.1 = Some(block);
        Ok(block)
    }
    fn free(&mut self, stream: &Stream, pointer: DevicePtr) -> cuda::Result<()> {
        MemoryPool::free(stream, pointer)
    }
    fn close(self: Box<Self>) -> cuda::Result<()> {
        self.0.close()
    }
}

static SCRIBBLING: StrategyKind = StrategyKind {
    name: "scribbling",
    has_work: true,
    build: |setup| Ok(Box::new(Scribbling(MemoryPool::create(setup.device)?, None))),
};

#[test]
fn a_block_that_is_written_by_another_is_caught() {
    let guarded = common::device();
    let rows = [
        "1,allocate,0x1000,8192,1",
        "1,allocate,0x3000,8192,1",
        "1,free,0x1000,8192,1",
        "1,free,0x3000,8192,1",
    ];
    let failure = run(&guarded, &trace(&rows), &SCRIBBLING, touch).expect_err("wrong content");
    // The second allocation zeroes word 1023 of block 0, whose value is 1; block 1 adds its 2.
    assert_eq!(
        failure,
        Failure::WrongContent {
            stream: 0,
            index: 1023,
            expected: 3.0,
            actual: 2.0
        }
    );
}

/// Finds no memory for every second block.
struct Short(u32);

impl Strategy for Short {
    fn alloc(&mut self, _: &Stream, size_bytes: usize) -> cuda::Result<DevicePtr> {
        self.0 += 1;
        alloc_plain(if self.0.is_multiple_of(2) { 1 << 60 } else { size_bytes })
    }
    fn free(&mut self, _: &Stream, pointer: DevicePtr) -> cuda::Result<()> {
        cuda::free_plain(pointer)
    }
    fn close(self: Box<Self>) -> cuda::Result<()> {
        Ok(())
    }
}

static SHORT: StrategyKind = StrategyKind {
    name: "short",
    has_work: true,
    build: |_| Ok(Box::new(Short(0))),
};

#[test]
fn missing_memory_is_counted_and_the_rest_goes_on() {
    let guarded = common::device();
    let rows = [
        "1,allocate,0x1000,512,0",
        "1,allocate,0x2000,512,0",
        "1,free,0x2000,512,0",
        "1,allocate,0x3000,512,0",
        "1,free,0x1000,512,0",
        "1,free,0x3000,512,0",
    ];
    let before = guarded.device.memory_info().expect("readable").free_bytes;
    // A free of the null address, or of a block twice, would fail.
    assert_eq!(run(&guarded, &trace(&rows), &SHORT, touch), Ok(1));
    let after = guarded.device.memory_info().expect("readable").free_bytes;
    assert!(before.saturating_sub(after) < 4 << 20);
}

#[test]
fn every_value_is_exact_over_more_blocks_than_a_sum_holds() {
    let guarded = common::device();
    // 2^24 over the mean value of 126 is 133,000 blocks; what is beyond is checked in between.
    let mut rows = Vec::new();
    for _ in 0..140_000 {
        rows.push("1,allocate,0x1000,64,0");
        rows.push("1,free,0x1000,64,0");
    }
    let log = rows
        .iter()
        .fold(String::from("Thread,Time,Action,Pointer,Size,Stream\n"), |log, row| {
            log + "1,10:00:00.000000" + &row[1..] + "\n"
        });
    let trace = poolbench::trace::read_bytes(log.as_bytes(), "rows", &poolbench::trace::Limits::default());
    let trace = trace.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(run(&guarded, &trace, strategy::ARENA, touch), Ok(0));
}
