//! What a capture refuses, allows and survives, on whichever device is there. Expected codes are those
//! seen on an H200 (driver 580.159.04, CUDA 13.0).

mod common;

use common::graph::{MIB, allocating, code, run, start};
use poolbench::cuda::{
    self, CaptureMode, CaptureStatus, Device, DevicePtr, Event, Graph, GraphExec, Kernels, MemoryPool, Stream, Unfreed,
    alloc_plain, free_plain,
};
use poolbench::measure::Failure;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What the calls below are made with.
struct Setting<'a> {
    device: &'a Device,
    capturing: &'a Stream,
    other: Stream,
    event: Event,
    pool: MemoryPool,
    exec: GraphExec,
}

type Attempt<'a> = &'a dyn Fn() -> cuda::Result<()>;
type Call = fn(&Setting<'_>) -> cuda::Result<()>;

/// Refused by a global and by a thread-local capture, allowed by a relaxed one.
const UNSAFE: [(&str, Call); 12] = [
    ("cuMemAlloc_v2", |_| alloc_plain(4096).and_then(free_plain)),
    ("cuMemFree_v2", |_| free_plain(DevicePtr::NULL)),
    ("cuMemPoolGetAttribute", |with| with.pool.used_bytes_current().map(drop)),
    ("cuMemPoolSetAttribute", |with| with.pool.reset_high_watermarks()),
    ("cuMemPoolTrimTo", |with| with.pool.trim_to(0)),
    ("cuMemPoolCreate", |with| MemoryPool::create(with.device)?.close()),
    ("cuMemAllocFromPoolAsync", |with| {
        let block = with.pool.alloc(&with.other, 4096)?;
        MemoryPool::free(&with.other, block)
    }),
    ("cuMemAllocAsync", |with| {
        let block = MemoryPool::alloc_from_current(&with.other, 4096)?;
        MemoryPool::free(&with.other, block)
    }),
    ("cuStreamSynchronize", |with| with.other.synchronize()),
    ("cuStreamQuery", |with| with.other.is_idle().map(drop)),
    ("cuEventSynchronize", |with| with.event.synchronize()),
    ("cuEventQuery", |with| with.event.is_reached().map(drop)),
];

/// Refused by every capture.
const WAITING: [(&str, Call); 4] = [
    ("cuStreamSynchronize", |with| with.capturing.synchronize()),
    ("cuStreamQuery", |with| with.capturing.is_idle().map(drop)),
    ("cuCtxSynchronize", |with| with.device.synchronize()),
    ("cuGraphLaunch", |with| with.exec.launch(with.capturing)),
];

/// Allowed by every capture.
const ALLOWED: [(&str, Call); 6] = [
    ("cuMemGetInfo_v2", |with| with.device.memory_info().map(drop)),
    ("cuDeviceGetDefaultMemPool", |with| {
        MemoryPool::default_of(with.device).map(drop)
    }),
    ("cuDeviceGetGraphMemAttribute", |with| {
        with.device.graph_memory().map(drop)
    }),
    ("cuDeviceGraphMemTrim", |with| with.device.trim_graph_memory()),
    ("cuStreamCreate", |_| Stream::new()?.close()),
    ("cuEventRecord", |with| with.event.record(&with.other)),
];

/// Makes one call in a capture. Returns its result, the capture's status after it, and the codes of a
/// kernel launch that follows and of the capture's end.
fn during_capture(
    with: &Setting<'_>,
    mode: CaptureMode,
    call: impl FnOnce() -> cuda::Result<()>,
) -> (cuda::Result<()>, CaptureStatus, i32, i32) {
    let kernels = Kernels::load().expect("the kernels load");
    let stream = with.capturing;
    let mut seen = None;
    let ended = stream.capture(mode, || -> cuda::Result<()> {
        let result = call();
        let status = stream.capture_status()?;
        let next = MemoryPool::alloc_from_current(stream, 64)
            .and_then(|block| kernels.fill(stream, block, block, 1, 1.0).map(|()| block))
            .and_then(|block| MemoryPool::free(stream, block));
        seen = Some((result, status, code(next)));
        Ok(())
    });
    assert_eq!(stream.capture_status(), Ok(CaptureStatus::None), "left open");
    let (result, status, next) = seen.expect("the capture begins");
    (result, status, next, code(ended))
}

fn in_setting(check: impl FnOnce(&Setting<'_>)) {
    let (guarded, stream) = start();
    let device = &guarded.device;
    let other = Stream::new().expect("a stream");
    let event = Event::new().expect("an event");
    event.record(&other).expect("records");
    let graph = allocating(&stream, &[MIB]);
    let setting = Setting {
        device,
        capturing: &stream,
        pool: MemoryPool::create(device).expect("a pool"),
        exec: graph.instantiate(Unfreed::MustBeFreed).expect("can be made executable"),
        other,
        event,
    };
    check(&setting);
    device.synchronize().expect("no error is left behind");
    device.trim_graph_memory().expect("nothing runs");
}

#[track_caller]
fn assert_refused(name: &str, mode: CaptureMode, seen: (cuda::Result<()>, CaptureStatus, i32, i32), message: &str) {
    let (result, status, next, end) = seen;
    let error = result.expect_err(name).to_string();
    assert_eq!(error, format!("{name} failed: {message}"), "{mode:?}");
    assert_eq!(
        (status, next, end),
        (CaptureStatus::Invalidated, 901, 901),
        "{name} {mode:?}"
    );
}

const UNSUPPORTED: &str = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)";
const GOES_ON: (CaptureStatus, i32, i32) = (CaptureStatus::Active, 0, 0);

#[test]
fn unsafe_calls_invalidate_a_capture_that_is_not_relaxed() {
    in_setting(|with| {
        for (name, call) in UNSAFE {
            for mode in [CaptureMode::Global, CaptureMode::ThreadLocal] {
                assert_refused(name, mode, during_capture(with, mode, || call(with)), UNSUPPORTED);
            }
            let (result, status, next, end) = during_capture(with, CaptureMode::Relaxed, || call(with));
            assert_eq!((code(result), (status, next, end)), (0, GOES_ON), "{name} relaxed");
        }
    });
}

#[test]
fn waiting_for_what_is_captured_invalidates_every_capture() {
    in_setting(|with| {
        for (name, call) in WAITING {
            for mode in CaptureMode::ALL {
                assert_refused(name, mode, during_capture(with, mode, || call(with)), UNSUPPORTED);
            }
        }
        for mode in CaptureMode::ALL {
            let captured_event = || {
                with.event.record(with.capturing)?;
                with.event.synchronize()
            };
            let seen = during_capture(with, mode, captured_event);
            assert_refused("cuEventSynchronize", mode, seen, "CUDA_ERROR_CAPTURED_EVENT (907)");
            with.event.record(&with.other).expect("an event of its own again");
        }
    });
}

#[test]
fn harmless_calls_and_wrong_arguments_leave_a_capture_alone() {
    in_setting(|with| {
        for mode in CaptureMode::ALL {
            for (name, call) in ALLOWED {
                let (result, status, next, end) = during_capture(with, mode, || call(with));
                assert_eq!((code(result), (status, next, end)), (0, GOES_ON), "{name} {mode:?}");
            }
            let outside = with.pool.alloc(&with.other, 4096).expect("allocates");
            let stream = with.capturing;
            let wrong: [(&str, i32, Attempt<'_>); 4] = [
                ("free of what the capture did not allocate", 1, &|| {
                    MemoryPool::free(stream, outside)
                }),
                ("free of a stray address", 1, &|| {
                    MemoryPool::free(stream, outside.offset(12345))
                }),
                ("an allocation of a petabyte", 2, &|| {
                    MemoryPool::alloc_from_current(stream, 1 << 50).map(drop)
                }),
                ("a capture in a capture", 401, &|| {
                    stream.capture(mode, || Ok(())).map(drop)
                }),
            ];
            for (name, expected, call) in wrong {
                let (result, status, next, end) = during_capture(with, mode, call);
                assert_eq!(
                    (code(result), (status, next, end)),
                    (expected, GOES_ON),
                    "{name} {mode:?}"
                );
            }
            MemoryPool::free(&with.other, outside).expect("as before");
            with.other.synchronize().expect("runs");
        }
    });
}

#[test]
fn a_free_in_another_stream_is_refused_and_can_be_made_later() {
    in_setting(|with| {
        let block = with.pool.alloc(&with.other, 4096).expect("allocates");
        let free = || MemoryPool::free(&with.other, block);
        let seen = during_capture(with, CaptureMode::Global, free);
        assert_refused("cuMemFreeAsync", CaptureMode::Global, seen, UNSUPPORTED);
        free().expect("after the capture");
        with.other.synchronize().expect("runs");
    });
}

#[test]
fn a_global_capture_holds_other_threads_back_too() {
    in_setting(|with| {
        for (mode, expected) in [(CaptureMode::Global, 900), (CaptureMode::ThreadLocal, 0)] {
            let device = with.device.clone();
            let elsewhere = || {
                let call = || {
                    device.make_current()?;
                    alloc_plain(4096).and_then(free_plain)
                };
                std::thread::scope(|scope| scope.spawn(call).join().expect("no panic"))
            };
            let (result, ..) = during_capture(with, mode, elsewhere);
            assert_eq!(code(result), expected, "{mode:?}");
        }
    });
}

#[test]
fn a_capture_is_over_whatever_happens_in_it() {
    let (guarded, stream) = start();
    let failed = stream.capture(CaptureMode::Global, || {
        MemoryPool::alloc_from_current(&stream, MIB)?;
        Err(Failure::TooLarge {
            needed_bytes: 1,
            free_bytes: 0,
        })
    });
    assert!(
        matches!(failed, Err(Failure::TooLarge { .. })),
        "the closure's own error"
    );
    assert_eq!(stream.capture_status(), Ok(CaptureStatus::None));
    let first: cuda::Result<Graph> = stream.capture(CaptureMode::Global, || stream.synchronize());
    assert_eq!(code(first), 900, "the refusal, not the code of the capture's end");
    assert_eq!(stream.capture_status(), Ok(CaptureStatus::None));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let panics = || -> cuda::Result<()> { std::panic::resume_unwind(Box::new("in the capture")) };
        stream.capture(CaptureMode::Global, panics).map(drop)
    }));
    assert!(panicked.is_err());
    assert_eq!(stream.capture_status(), Ok(CaptureStatus::None));
    // The stream works as before.
    run(
        &allocating(&stream, &[MIB])
            .instantiate(Unfreed::MustBeFreed)
            .expect("can be made executable"),
        &stream,
    );
    guarded.device.trim_graph_memory().expect("nothing runs");
}

#[cfg(feature = "fault-injection")]
#[test]
fn a_capture_whose_end_fails_is_ended_again() {
    use poolbench::driver::{Code, Function, fault};
    let (_guarded, stream) = start();
    fault::inject(vec![fault::Fault {
        function: Function::cuStreamEndCapture,
        nth: Some(1),
        effect: fault::Effect::Fail(Code(999)),
    }]);
    let ended = stream.capture(CaptureMode::Global, || Ok::<(), cuda::Error>(()));
    fault::inject(Vec::new());
    assert_eq!(code(ended), 999);
    assert_eq!(stream.capture_status(), Ok(CaptureStatus::None));
    stream.synchronize().expect("not capturing");
}
