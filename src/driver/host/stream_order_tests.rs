//! What pools may reuse, and what a synchronise lets them see, with streams held back at will.

use super::codes_tests::{DRIVER, call, made, new_pool, session};
use super::device::DEVICE;
use super::event::Event;
use super::stream::{Clock, Operation, Stream};
use cust::sys::{CUmemoryPool, CUstream};
use std::ffi::c_void;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;

const MIB: usize = 1 << 20;

/// Holds a stream back until it is opened.
pub(super) struct Gate(Arc<Event>);

impl Gate {
    pub(super) fn close(stream: CUstream) -> Gate {
        let event = Arc::new(Event::new(false));
        let generation = event.record(Clock::default());
        let wait = Operation::Wait {
            event: Arc::clone(&event),
            generation,
        };
        let stream = DEVICE.ordered_stream(stream.addr() as u64).expect("a live stream");
        stream.submit(wait);
        Gate(event)
    }

    pub(super) fn open(self) {
        self.0.reach(1);
    }
}

pub(super) fn attribute(pool: CUmemoryPool, number: u32) -> u64 {
    let mut value = 0_u64;
    assert_eq!(
        call!(cuMemPoolGetAttribute(pool, number, (&raw mut value).cast::<c_void>())),
        0
    );
    value
}

fn reserved_mib(pool: CUmemoryPool) -> usize {
    usize::try_from(attribute(pool, 5)).expect("64 bits") / MIB
}

pub(super) fn set_policies(pool: CUmemoryPool, policies: [i32; 3]) {
    for (number, mut on) in (1..).zip(policies) {
        assert_eq!(
            call!(cuMemPoolSetAttribute(pool, number, (&raw mut on).cast::<c_void>())),
            0
        );
    }
}

fn alloc(pool: CUmemoryPool, size_mib: usize, stream: CUstream) -> u64 {
    made!(cuMemAllocFromPoolAsync(size_mib * MIB, pool, stream) as 0)
}

fn free(pointer: u64, stream: CUstream) {
    assert_eq!(call!(cuMemFreeAsync(pointer, stream)), 0);
}

fn synchronize(stream: CUstream) {
    assert_eq!(call!(cuStreamSynchronize(stream)), 0);
}

pub(super) fn new_stream(flags: u32) -> CUstream {
    made!(cuStreamCreate(flags) as null_mut())
}

fn destroy(pool: CUmemoryPool, streams: &[CUstream]) {
    assert_eq!(call!(cuCtxSynchronize()), 0);
    assert_eq!(call!(cuMemPoolDestroy(pool)), 0);
    for stream in streams {
        assert_eq!(call!(cuStreamDestroy_v2(*stream)), 0);
    }
}

#[test]
fn a_synchronise_sees_only_what_it_waited_for() {
    let _serial = session();
    let (pool, a, b) = (new_pool(), new_stream(1), new_stream(1));
    // A stream in which nothing but the allocation and the free was submitted is no exception.
    free(alloc(pool, 64, a), a);
    synchronize(b);
    assert_eq!(reserved_mib(pool), 64, "another stream");
    let event = made!(cuEventCreate(0) as null_mut());
    assert_eq!(call!(cuEventSynchronize(event)), 0);
    assert_eq!(reserved_mib(pool), 64, "an event that was never recorded");
    synchronize(a);
    assert_eq!(reserved_mib(pool), 0);
    let block = alloc(pool, 64, a);
    assert_eq!(call!(cuEventRecord(event, a)), 0);
    free(block, a);
    assert_eq!(call!(cuEventSynchronize(event)), 0);
    assert_eq!(reserved_mib(pool), 64, "an event before the free");
    assert_eq!(call!(cuEventRecord(event, a)), 0);
    let gate = Gate::close(a);
    assert_eq!(call!(cuEventSynchronize(event)), 0);
    assert_eq!(reserved_mib(pool), 0, "an event after the free, the stream still busy");
    gate.open();
    destroy(pool, &[a, b]);
}

#[test]
fn an_event_before_the_free_orders_nothing() {
    let _serial = session();
    let (pool, a, b) = (new_pool(), new_stream(1), new_stream(1));
    let block = alloc(pool, 32, a);
    let gate = Gate::close(a);
    let event = made!(cuEventCreate(0) as null_mut());
    assert_eq!(call!(cuEventRecord(event, a)), 0);
    free(block, a);
    assert_eq!(call!(cuStreamWaitEvent(b, event, 0)), 0);
    let other = alloc(pool, 32, b);
    assert_ne!(other, block);
    assert_eq!(call!(cuEventRecord(event, a)), 0);
    assert_eq!(call!(cuStreamWaitEvent(b, event, 0)), 0);
    assert_eq!(alloc(pool, 32, b), block, "an event behind the free does");
    gate.open();
    free(block, b);
    free(other, b);
    destroy(pool, &[a, b]);
}

/// Pending in A, then allocated in B, where only the default stream's rule can stand between:
/// flags of A and B (0 is blocking, `None` the default stream), and whether the block comes back.
#[test]
fn the_default_stream_and_blocking_streams_order_each_other() {
    let _serial = session();
    for (flags_a, flags_b, is_ordered) in [
        (None, Some(0), true),
        (Some(0), None, true),
        (None, Some(1), false),
        (Some(1), None, false),
        (Some(0), Some(0), false),
    ] {
        for follow in [1, 0] {
            let pool = new_pool();
            set_policies(pool, [follow, 0, 0]);
            let [a, b] = [flags_a, flags_b].map(|flags| flags.map_or(null_mut(), new_stream));
            let block = alloc(pool, 32, a);
            let gate = Gate::close(a);
            free(block, a);
            let other = alloc(pool, 32, b);
            assert_eq!(
                other == block,
                is_ordered && follow == 1,
                "{flags_a:?} {flags_b:?} {follow}"
            );
            gate.open();
            free(other, b);
            let made: Vec<CUstream> = [a, b].into_iter().filter(|stream| !stream.is_null()).collect();
            destroy(pool, &made);
        }
    }
}

#[test]
fn waiting_for_the_default_stream_includes_blocking_streams() {
    let _serial = session();
    for (flags, reserved) in [(0, 0), (1, 64)] {
        let (pool, stream) = (new_pool(), new_stream(flags));
        free(alloc(pool, 64, stream), stream);
        synchronize(null_mut());
        assert_eq!(reserved_mib(pool), reserved, "flags {flags}");
        destroy(pool, &[stream]);
    }
    // Not the other way round.
    let (pool, stream) = (new_pool(), new_stream(0));
    free(alloc(pool, 64, null_mut()), null_mut());
    synchronize(stream);
    assert_eq!(reserved_mib(pool), 64);
    destroy(pool, &[stream]);
}

#[test]
fn a_destroyed_stream_keeps_its_memory_until_it_has_run() {
    let _serial = session();
    let (pool, a, b) = (new_pool(), new_stream(1), new_stream(1));
    let plain = made!(cuMemAlloc_v2(MIB) as 0);
    let free_bytes = || {
        let (mut free, mut total) = (0, 0);
        assert_eq!(call!(cuMemGetInfo_v2(&raw mut free, &raw mut total)), 0);
        free
    };
    let block = alloc(pool, 32, a);
    let gate = Gate::close(a);
    free(block, a);
    free(plain, a);
    let before = free_bytes();
    assert_eq!(call!(cuStreamDestroy_v2(a)), 0);
    let other = alloc(pool, 32, b);
    assert_ne!(other, block, "still in use, all policies on");
    synchronize(b);
    assert_eq!(reserved_mib(pool), 64);
    gate.open();
    assert_eq!(call!(cuCtxSynchronize()), 0);
    assert_eq!(reserved_mib(pool), 32);
    assert_eq!(
        free_bytes(),
        before + MIB,
        "less 32 MiB more for B, 32 MiB and the plain memory back"
    );
    free(other, b);
    destroy(pool, &[b]);
    // An idle one is seen at once.
    let (pool, stream) = (new_pool(), new_stream(1));
    free(alloc(pool, 64, stream), stream);
    assert_eq!(call!(cuStreamDestroy_v2(stream)), 0);
    assert_eq!(reserved_mib(pool), 0);
    destroy(pool, &[]);
}

/// Also one in which something failed: what it still has to run uses its memory all the same.
#[test]
fn a_destroyed_stream_that_failed_keeps_its_memory_until_it_has_run() {
    let _serial = session();
    let (pool, a, b) = (new_pool(), new_stream(1), new_stream(1));
    let block = alloc(pool, 32, a);
    let stray = Operation::SetBytes {
        target: 8,
        value: 0,
        size_bytes: 1,
    };
    let stream = DEVICE.ordered_stream(a.addr() as u64).expect("a live stream");
    stream.submit(stray);
    drop(stream);
    assert_eq!(call!(cuStreamSynchronize(a)), 700);
    let gate = Gate::close(a);
    free(block, a);
    let (opened, open) = std::sync::mpsc::channel();
    let opener = std::thread::spawn(move || {
        // A destroy that waited for the stream would wait for ever.
        let _ = open.recv_timeout(std::time::Duration::from_secs(10));
        gate.open();
    });
    assert_eq!(call!(cuStreamDestroy_v2(a)), 0);
    let other = alloc(pool, 32, b);
    assert_ne!(other, block, "still in use");
    opened.send(()).expect("it waits");
    opener.join().expect("it ends");
    DEVICE.settle();
    assert_eq!(reserved_mib(pool), 32, "it has run, and its memory is back");
    free(other, b);
    destroy(pool, &[b]);
}

/// Who submits may be pinned to a processor, as a recording's thread is; the work is the device's. On a machine of
/// one processor there is no difference.
#[test]
fn a_stream_is_not_pinned_with_its_submitter() {
    let _serial = session();
    let processors = |status: &Path| {
        let text = std::fs::read_to_string(status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.map(|list| list.trim().to_owned())
    };
    let before = processors(Path::new("/proc/thread-self/status")).expect("Linux says");
    let here = rustix::thread::sched_getaffinity(None).expect("Linux says");
    let mut first = rustix::thread::CpuSet::new();
    let usable = (0..rustix::thread::CpuSet::MAX_CPU).find(|processor| here.is_set(*processor));
    first.set(usable.expect("this runs on one"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            rustix::thread::sched_setaffinity(None, &first).expect("it may be used");
            // No handle is so small.
            let stream = Stream::start(7, false, &DEVICE.memory).expect("a thread");
            let event = Arc::new(Event::new(false));
            stream.record(&event);
            stream.synchronize().expect("nothing fails");
            let tasks = std::fs::read_dir("/proc/self/task").expect("Linux says").flatten();
            let worker = tasks
                .map(|task| task.path())
                .find(|task| std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "host stream 7\n"));
            let worker = worker.expect("it has a name");
            assert_eq!(processors(&worker.join("status")), Some(before));
        });
    });
}
