//! One test for each kind of fault that the sweep found. Needs the feature `fault-injection`.

#![cfg(feature = "fault-injection")]

mod common;

use common::Guarded;
use poolbench::case::{Size, Submission};
use poolbench::cuda::{self, Device, MemoryPool, Stream};
use poolbench::driver::fault::{self, Effect, Fault};
use poolbench::driver::host::Ledger;
use poolbench::driver::{Code, DeviceChoice, Function};
use poolbench::measure::{self, Case, Failure};
use poolbench::strategy;
use poolbench::trace::{self, Synthetic};
use poolbench::workload::call_latency::Call;
use poolbench::workload::{CallLatency, GraphReplay, ScratchLoop, TraceReplay};
use std::time::Duration;

/// The host device, with these faults until the end of the test; `None` where another is present.
struct Faulty {
    guarded: Guarded,
}

impl Faulty {
    fn new(faults: &[&str]) -> Option<Faulty> {
        let guarded = common::device();
        if !guarded.device.is_host() {
            println!("SKIPPED: injected faults and the ledger are the host device's");
            return None;
        }
        cuda::forget_failures();
        let faults = faults.iter().map(|fault| fault.parse().expect("a fault"));
        fault::inject(faults.collect());
        Some(Faulty { guarded })
    }

    fn device(&self) -> &Device {
        &self.guarded.device
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        fault::inject(Vec::new());
    }
}

fn scratch_loop(strategy: &str) -> ScratchLoop {
    ScratchLoop {
        group: "kinds",
        function: strategy.to_owned(),
        strategy: strategy::named(strategy).expect("a strategy"),
        size: Size::kib(4),
        size_seed: None,
        release_threshold_bytes: u64::MAX,
        iterations: 10,
    }
}

fn graph_replay(strategy: &str) -> GraphReplay {
    GraphReplay {
        group: "kinds",
        strategy: strategy::named(strategy).expect("a strategy"),
        submission: Submission::GraphReplay,
        size: Size::kib(4),
        release_threshold_bytes: u64::MAX,
        iterations: 10,
    }
}

fn trace_replay(strategy: &str) -> TraceReplay {
    TraceReplay {
        group: "kinds",
        strategy: strategy::named(strategy).expect("a strategy"),
        synthetic: Synthetic::new(trace::Workload::ManyTiny, 1, 100),
        release_threshold_bytes: u64::MAX,
    }
}

/// Prepares, runs and finishes a case.
fn run(case: &dyn Case, device: &Device) -> Result<(), Failure> {
    let mut workload = measure::prepare(case, device)?;
    if let Err(failure) = measure::run(workload.as_mut(), 10) {
        let _ = measure::abandon(workload, device);
        return Err(failure);
    }
    measure::finish(workload, device).map(drop)
}

fn call(function: Function, code: i32) -> Failure {
    let code = Code(code);
    cuda::Error::Call { function, code }.into()
}

/// What is live beside the context that the test itself holds.
fn live() -> Ledger {
    let ledger = Ledger::take();
    Ledger { contexts: 0, ..ledger }
}

#[test]
fn a_buffer_in_use_when_its_iteration_fails_is_given_back() {
    // The third iteration's second launch: `accumulate`.
    for strategy in ["sync", "stream_ordered", "owned_pool", "arena", "vmm"] {
        let Some(faulty) = Faulty::new(&["cuLaunchKernel#6=error:1"]) else {
            return;
        };
        let failure = run(&scratch_loop(strategy), faulty.device()).expect_err(strategy);
        assert_eq!(failure, call(Function::cuLaunchKernel, 1), "{strategy}");
        assert!(live().is_empty(), "{strategy} leaves {}", live());
    }
}

/// Kernels that take milliseconds are still at work when waiting for them fails.
#[test]
fn memory_stays_mapped_while_the_work_on_it_may_still_run() {
    let case = ScratchLoop {
        size: Size::mib(4),
        iterations: 2,
        ..scratch_loop("vmm")
    };
    for nth in 1..=8 {
        let Some(faulty) = Faulty::new(&[&format!("cuStreamSynchronize#{nth}=error:1")]) else {
            return;
        };
        let failure = run(&case, faulty.device()).expect_err("waiting fails");
        assert_eq!(failure, call(Function::cuStreamSynchronize, 1), "#{nth}");
        assert!(live().is_empty(), "#{nth} leaves {}", live());
        // A fault of the device's own, such as a kernel that lost its memory, would stay.
        faulty.device().synchronize().expect("nothing else went wrong");
    }
}

#[test]
fn a_free_that_fails_does_not_keep_the_others_from_being_freed() {
    let Some(faulty) = Faulty::new(&["cuMemFreeAsync#2=error:1"]) else {
        return;
    };
    // Growth allocates twice from each pool. One block goes before the case, for the step of growth.
    let case = CallLatency {
        group: "kinds",
        call: Call::Growth,
        size: Size::kib(4),
    };
    let failure = run(&case, faulty.device()).expect_err("a free fails");
    assert_eq!(failure, call(Function::cuMemFreeAsync, 1));
    // The block whose free was refused, and the pool that lives on for its sake.
    assert_eq!((live().allocations, live().pools), (1, 1));
    poolbench::driver::host::take_everything_back();
}

#[test]
fn of_several_failures_the_first_is_reported() {
    // Everything after it fails as well, on a context that is lost.
    for (fault, function) in [
        ("cuMemFree_v2#1=lost:700", Function::cuMemFree_v2),
        ("cuModuleUnload#1=lost:46", Function::cuModuleUnload),
        ("cuStreamDestroy_v2#1=lost:46", Function::cuStreamDestroy_v2),
        ("cuGraphExecDestroy#1=lost:46", Function::cuGraphExecDestroy),
    ] {
        let Some(faulty) = Faulty::new(&[fault]) else { return };
        let failure = run(&graph_replay("hoisted"), faulty.device()).expect_err(fault);
        let Failure::Call(cuda::Error::Call { function: first, .. }) = failure else {
            panic!("{fault}: {failure}")
        };
        assert_eq!(first, function);
    }
}

#[test]
fn a_module_is_unloaded_once_also_where_that_is_said_to_fail() {
    let Some(faulty) = Faulty::new(&["cuModuleUnload#1=late:700"]) else {
        return;
    };
    let failure = run(&scratch_loop("hoisted"), faulty.device()).expect_err("the unload fails");
    assert_eq!(failure, call(Function::cuModuleUnload, 700));
    assert_eq!(fault::calls()[&Function::cuModuleUnload], 1);
}

/// cust ignores what making the new context current returns.
#[test]
fn a_code_that_cust_keeps_to_itself_is_reported() {
    let Some(_faulty) = Faulty::new(&["cuCtxSetCurrent=error:803"]) else {
        return;
    };
    let retained = Ledger::take().contexts;
    let error = Device::open(DeviceChoice::Host, None).expect_err("the context is not current");
    let says = "cannot use the device: cuCtxSetCurrent failed: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803); ";
    assert!(error.to_string().starts_with(says), "{error}");
    assert_eq!(
        Ledger::take().contexts,
        retained,
        "the context that was retained is released"
    );
}

#[test]
fn a_context_that_cannot_be_given_back_is_told() {
    let Some(_faulty) = Faulty::new(&["cuDevicePrimaryCtxRelease_v2=late:1"]) else {
        return;
    };
    let device = Device::open(DeviceChoice::Host, None).expect("the host device");
    let other = device.clone();
    assert_eq!(device.close(), Ok(()), "not the last handle");
    let error = other.close().expect_err("the last");
    assert_eq!(
        error.to_string(),
        "cuDevicePrimaryCtxRelease_v2 failed: CUDA_ERROR_INVALID_VALUE (1)"
    );
}

/// An owner that is dropped tells of a failure as one that is closed does, also where cust would not.
#[test]
fn what_a_destructor_cannot_give_back_is_told() {
    let fault = |function: Function| format!("{}#1=late:1", function.name());
    let told = |function| {
        Some(cuda::Error::Call {
            function,
            code: Code(1),
        })
    };
    {
        let Some(_faulty) = Faulty::new(&[&fault(Function::cuModuleUnload)]) else {
            return;
        };
        drop(cuda::Kernels::load().expect("the kernels load"));
        assert_eq!(cuda::failed_release(), told(Function::cuModuleUnload));
    }
    let function = Function::cuDevicePrimaryCtxRelease_v2;
    let Some(_faulty) = Faulty::new(&[&fault(function)]) else {
        return;
    };
    drop(Device::open(DeviceChoice::Host, None).expect("the host device"));
    assert_eq!(cuda::failed_release(), told(function));
}

/// The setting of the threshold takes effect but does not read back, which is a skip, and putting it back fails:
/// the next case would find it.
#[test]
fn a_threshold_that_cannot_be_put_back_is_told() {
    // The third attribute that is set is the threshold, after the high watermarks.
    let Some(faulty) = Faulty::new(&["cuMemPoolGetAttribute#2=error:801", "cuMemPoolSetAttribute#4=error:1"]) else {
        return;
    };
    let reason = run(&scratch_loop("stream_ordered"), faulty.device()).expect_err("it does not read back");
    assert!(reason.is_skip(), "{reason}");
    let unreleased = cuda::failed_release().map(Failure::from);
    assert_eq!(
        unreleased,
        Some(call(Function::cuMemPoolSetAttribute, 1)),
        "the suite asks for this"
    );
    fault::inject(Vec::new());
    let pool = MemoryPool::default_of(faulty.device()).expect("a default pool");
    assert_eq!(pool.release_threshold_bytes(), Ok(u64::MAX), "it was left");
    pool.set_release_threshold_bytes(0).expect("any value can be set");
}

/// The first replay of a trace meets an empty pool, as the first iteration of other loops does; what decides
/// whether a case is too slow is the second.
#[test]
fn the_trial_of_a_trace_times_no_first_replay() {
    let Some(faulty) = Faulty::new(&["cuMemAllocAsync#1=delay:3000000us"]) else {
        return;
    };
    let case = trace_replay("stream_ordered");
    let mut workload = case.prepare(faulty.device()).expect("it fits any device");
    let per_event = workload.trial().expect("it runs");
    let events = u32::try_from(case.iterations_per_loop()).expect("few events");
    assert!(per_event * events < Duration::from_secs(3), "{per_event:?} an event");
    workload.close().expect("the case closes");
}

/// In the set-up that is a skip, which says how many it were.
#[test]
fn a_trace_that_finds_no_memory_says_how_often() {
    let Some(faulty) = Faulty::new(&["cuMemAllocAsync#5=error:2", "cuMemAllocAsync#6=error:2"]) else {
        return;
    };
    let failure = run(&trace_replay("stream_ordered"), faulty.device()).expect_err("memory is missing");
    assert_eq!(failure, Failure::MissedAllocations { missed: 2 });
    assert!(failure.is_skip());
    assert_eq!(
        failure.to_string(),
        "2 allocations of the trace found no memory, so the loop would do less than under the other strategies"
    );
    assert_eq!(cuda::failed_release(), None);
}

#[test]
fn what_cannot_be_given_back_is_no_skip() {
    for (function, is_skip) in [
        (Function::cuMemAlloc_v2, true),
        (Function::cuStreamCreate, true),
        (Function::cuMemFree_v2, false),
        (Function::cuMemFreeAsync, false),
        (Function::cuStreamDestroy_v2, false),
    ] {
        for code in [2, 801] {
            assert_eq!(call(function, code).is_skip(), is_skip, "{function:?} {code}");
        }
    }
    // Capture refuses `sync`, which is a skip, and the stream cannot be given back then.
    let Some(faulty) = Faulty::new(&["cuStreamDestroy_v2#1=late:1"]) else {
        return;
    };
    let reason = run(&graph_replay("sync"), faulty.device()).expect_err("capture refuses it");
    assert!(reason.is_skip(), "{reason}");
    let unreleased = cuda::failed_release().map(Failure::from);
    assert_eq!(
        unreleased,
        Some(call(Function::cuStreamDestroy_v2, 1)),
        "the suite asks for this"
    );
}

#[test]
fn a_case_that_is_skipped_and_cannot_be_closed_fails() {
    // The trial is out of memory; the synchronise before the case is closed fails as well.
    let Some(faulty) = Faulty::new(&["cuMemAlloc_v2#3=error:2", "cuCtxSynchronize#1=error:1"]) else {
        return;
    };
    let failure = run(&scratch_loop("sync"), faulty.device()).expect_err("no memory");
    assert!(!failure.is_skip());
    assert_eq!(
        failure.to_string(),
        "cuCtxSynchronize failed: CUDA_ERROR_INVALID_VALUE (1), while the case was closed that the device cannot do \
         (cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY (2))"
    );
}

#[test]
fn a_capture_whose_end_is_refused_is_ended_all_the_same() {
    let Some(_faulty) = Faulty::new(&["cuStreamEndCapture#1=error:2"]) else {
        return;
    };
    let stream = Stream::new().expect("a stream");
    // The synchronise invalidates the capture, whose end then fails for another reason.
    let captured = stream.capture(cuda::CaptureMode::Global, || stream.synchronize());
    let code = captured.expect_err("a synchronise cannot be captured").code();
    assert_eq!(code, Some(Code::STREAM_CAPTURE_UNSUPPORTED));
    assert_eq!(
        cuda::failed_release().and_then(|error| error.code()),
        Some(Code::OUT_OF_MEMORY)
    );
    assert_eq!(stream.capture_status(), Ok(cuda::CaptureStatus::None));
    stream.close().expect("the stream goes");
    assert!(live().is_empty(), "leaves {}", live());
}

#[test]
fn the_ledger_counts_what_is_live() {
    let Some(faulty) = Faulty::new(&[]) else { return };
    assert!(live().is_empty(), "{}", live());
    let stream = Stream::new().expect("a stream");
    let pool = MemoryPool::create(faulty.device()).expect("a pool");
    let block = pool.alloc(&stream, 1).expect("a byte");
    let seen = live();
    assert_eq!((seen.streams, seen.pools, seen.allocations), (1, 1, 1));
    assert_eq!(seen.mapped_bytes, 32 << 20, "a pool grows by 32 MiB");
    assert_eq!(
        seen.to_string(),
        "1 allocations, 1 pools, 1 streams, 33554432 mapped bytes"
    );
    // The free comes first in the stream, so that the pool goes with its handle.
    MemoryPool::free(&stream, block).expect("it is ours");
    stream.close().expect("the stream goes");
    pool.close().expect("the pool goes");
    assert!(live().is_empty(), "{}", live());
}

#[test]
fn a_fault_is_met_once_and_a_lost_context_stays_lost() {
    let Some(_faulty) = Faulty::new(&[]) else { return };
    let planned = Fault {
        function: Function::cuStreamCreate,
        nth: Some(2),
        effect: Effect::Lost(Code::ILLEGAL_ADDRESS),
    };
    fault::inject(vec![planned]);
    let first = Stream::new().expect("the first call is made");
    assert!(Stream::new().is_err() && Stream::new().is_err());
    assert_eq!(fault::hits(), 1);
    assert_eq!(
        first.synchronize().expect_err("lost").code(),
        Some(Code::ILLEGAL_ADDRESS)
    );
    assert!(first.close().is_err(), "the destroy is made, and fails");
    assert!(live().is_empty(), "{}", live());
}
