//! The codes that an H200's driver (580.159.04) answered, call by call, and the host device's.

use super::super::Table;
use super::table;
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

pub(super) static DRIVER: LazyLock<Table> = LazyLock::new(|| table().0);
static SERIAL: Mutex<()> = Mutex::new(());

/// One call; the tests share the device, so each holds it from [`session`] on.
macro_rules! call {
    ($name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: pointers are null or to locals of the right type, and handles are the device's own or
        // ones that it refuses.
        unsafe { (DRIVER.$name)($($argument),*) }
    };
}

/// Makes something through an out parameter.
macro_rules! made {
    ($name:ident($($argument:expr),* $(,)?) as $empty:expr) => {{
        let mut made = $empty;
        assert_eq!(call!($name(&raw mut made, $($argument),*)), 0, stringify!($name));
        made
    }};
}

pub(super) use {call, made};

const MIB: usize = 1 << 20;

/// The initialised device, with its context current on this thread, one test at a time.
pub(super) fn session() -> MutexGuard<'static, ()> {
    let serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(call!(cuInit(0)), 0);
    let context = made!(cuDevicePrimaryCtxRetain(0) as null_mut());
    assert_eq!(call!(cuCtxSetCurrent(context)), 0);
    serial
}

/// `CUmemPoolProps` of CUDA 13.0 with integers for its enums.
#[repr(C)]
struct Properties {
    allocation_type: c_uint,
    handle_types: c_uint,
    location_type: c_uint,
    location_id: c_int,
    rest: [u64; 9],
}

static ON_DEVICE: Properties = Properties {
    allocation_type: 1,
    handle_types: 0,
    location_type: 1,
    location_id: 0,
    rest: [0; 9],
};

pub(super) fn new_pool() -> cust::sys::CUmemoryPool {
    made!(cuMemPoolCreate((&raw const ON_DEVICE).cast()) as null_mut())
}

/// In a process of its own, since initialising cannot be undone.
#[test]
fn before_cuinit_calls_are_refused_with_3() {
    const MARK: &str = "POOLBENCH_TEST_BEFORE_INIT";
    if std::env::var_os(MARK).is_none() {
        let executable = std::env::current_exe().expect("the test's own executable");
        let name = "driver::host::codes_tests::before_cuinit_calls_are_refused_with_3";
        let output = std::process::Command::new(executable)
            .args(["--exact", name])
            .env(MARK, "1")
            .output()
            .expect("the test starts again");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let (mut int, mut pointer) = (0, 0);
    assert_eq!(call!(cuDeviceGetCount(&raw mut int)), 3);
    assert_eq!(call!(cuDeviceGet(&raw mut int, 0)), 3);
    assert_eq!(call!(cuMemAlloc_v2(&raw mut pointer, 64)), 3);
    assert_eq!(call!(cuCtxSynchronize()), 3);
    assert_eq!(call!(cuMemPoolTrimTo(null_mut(), 0)), 3);
    // These work.
    assert_eq!(call!(cuDriverGetVersion(&raw mut int)), 0);
    assert_eq!(int, 13000);
    let mut name = null();
    assert_eq!(call!(cuGetErrorName(3, &raw mut name)), 0);
    // SAFETY: the driver's names are C strings that live for ever.
    assert_eq!(unsafe { CStr::from_ptr(name) }, c"CUDA_ERROR_NOT_INITIALIZED");
    assert_eq!(call!(cuInit(1)), 1);
    assert_eq!(
        call!(cuDeviceGetCount(&raw mut int)),
        3,
        "a refused cuInit initialises nothing"
    );
}

/// Of no buffer more is written than it holds.
#[test]
fn a_device_name_needs_room() {
    let _serial = session();
    let mut name = [0; 5];
    for (length, code) in [(5, 0), (4, 1), (0, 1), (-1, 1), (c_int::MIN, 1)] {
        assert_eq!(
            call!(cuDeviceGetName(name.as_mut_ptr(), length, 0)),
            code,
            "room for {length}"
        );
    }
    assert_eq!(name.map(|letter| letter as u8), *b"host\0");
}

#[test]
fn devices_that_are_not_there() {
    let _serial = session();
    let (mut int, mut pool) = (0, null_mut());
    for ordinal in [99, -1] {
        assert_eq!(call!(cuDeviceGet(&raw mut int, ordinal)), 101);
    }
    assert_eq!(call!(cuDeviceGetDefaultMemPool(&raw mut pool, 99)), 101);
    assert_eq!(call!(cuDeviceGetMemPool(&raw mut pool, 99)), 1);
    assert_eq!(call!(cuDeviceSetMemPool(99, new_pool())), 1);
    assert_eq!(call!(cuDeviceSetMemPool(0, null_mut())), 1);
    assert_eq!(call!(cuDeviceGetAttribute(&raw mut int, 16, 99)), 101);
    for unknown in [0, 9999] {
        assert_eq!(call!(cuDeviceGetAttribute(&raw mut int, unknown, 0)), 1);
    }
    let mut name = null();
    for unknown in [917, 918, 919, 12345] {
        assert_eq!(call!(cuGetErrorName(unknown, &raw mut name)), 1);
    }
}

#[test]
fn a_thread_without_a_context() {
    let _serial = session();
    let stream = made!(cuStreamCreate(1) as null_mut()).expose_provenance();
    let without_context = move || {
        let (mut pointer, mut size) = (0, 0);
        assert_eq!(call!(cuMemAlloc_v2(&raw mut pointer, 64)), 201);
        assert_eq!(call!(cuMemGetInfo_v2(&raw mut size, &raw mut size)), 201);
        let (mut new_stream, mut new_event) = (null_mut(), null_mut());
        assert_eq!(call!(cuStreamCreate(&raw mut new_stream, 1)), 201);
        assert_eq!(call!(cuEventCreate(&raw mut new_event, 0)), 201);
        assert_eq!(call!(cuCtxSynchronize()), 201);
        // Pools belong to the device, and a stream knows its context.
        let pool = new_pool();
        let mut value = 0_u64;
        let place = (&raw mut value).cast::<c_void>();
        assert_eq!(call!(cuMemPoolGetAttribute(pool, 4, place)), 0);
        assert_eq!(call!(cuMemPoolSetAttribute(pool, 4, place)), 0);
        assert_eq!(call!(cuMemPoolTrimTo(pool, 0)), 0);
        assert_eq!(
            call!(cuMemAllocFromPoolAsync(&raw mut pointer, 64, pool, null_mut())),
            201
        );
        let stream = std::ptr::with_exposed_provenance_mut(stream);
        assert_eq!(call!(cuMemAllocFromPoolAsync(&raw mut pointer, 64, pool, stream)), 0);
        assert_eq!(call!(cuMemFreeAsync(pointer, stream)), 0);
        assert_eq!(call!(cuStreamSynchronize(stream)), 0);
        assert_eq!(call!(cuMemPoolDestroy(pool)), 0);
        assert_eq!(call!(cuStreamDestroy_v2(stream)), 0);
    };
    std::thread::spawn(without_context)
        .join()
        .expect("every code as expected");
}

#[test]
fn pool_handles_and_properties() {
    let _serial = session();
    let (mut pool, mut pointer, mut value) = (null_mut(), 0, 0_u64);
    assert_eq!(call!(cuMemPoolCreate(&raw mut pool, null())), 1);
    assert_eq!(call!(cuMemPoolCreate(null_mut(), (&raw const ON_DEVICE).cast())), 1);
    // Allocation type, location type, location: the code.
    for (allocation_type, location_type, location_id, code) in [
        (0, 1, 0, 1),
        (1, 0, 0, 1),
        (1, 9, 0, 1),
        (1, 1, 99, 1),
        (1, 1, -1, 1),
        (1, 1, 0, 0),
    ] {
        let properties = Properties {
            allocation_type,
            location_type,
            location_id,
            ..ON_DEVICE
        };
        assert_eq!(
            call!(cuMemPoolCreate(&raw mut pool, (&raw const properties).cast())),
            code
        );
    }
    // A driver makes these pools; here they are not implemented, and said to be so.
    let limited = Properties {
        rest: [0, 1 << 20, 0, 0, 0, 0, 0, 0, 0],
        ..ON_DEVICE
    };
    let managed = Properties {
        allocation_type: 2,
        ..ON_DEVICE
    };
    let on_host = Properties {
        location_type: 2,
        ..ON_DEVICE
    };
    for properties in [limited, managed, on_host] {
        assert_eq!(
            call!(cuMemPoolCreate(&raw mut pool, (&raw const properties).cast())),
            801
        );
    }
    let destroyed = new_pool();
    assert_eq!(call!(cuMemPoolDestroy(destroyed)), 0);
    let place = (&raw mut value).cast::<c_void>();
    for gone in [null_mut(), destroyed] {
        assert_eq!(call!(cuMemPoolGetAttribute(gone, 4, place)), 1);
        assert_eq!(call!(cuMemPoolSetAttribute(gone, 4, place)), 1);
        assert_eq!(call!(cuMemPoolTrimTo(gone, 0)), 1);
        assert_eq!(
            call!(cuMemAllocFromPoolAsync(&raw mut pointer, 64, gone, null_mut())),
            1
        );
        assert_eq!(call!(cuMemPoolDestroy(gone)), 1);
    }
    let pool = new_pool();
    assert_eq!(call!(cuMemPoolGetAttribute(pool, 4, null_mut())), 1);
    let default = made!(cuDeviceGetDefaultMemPool(0) as null_mut());
    assert_eq!(
        call!(cuMemPoolDestroy(default)),
        1,
        "the default pool cannot be destroyed"
    );
    assert_eq!(call!(cuDeviceSetMemPool(0, pool)), 0);
    assert_eq!(made!(cuDeviceGetMemPool(0) as null_mut()), pool);
    assert_eq!(call!(cuMemPoolDestroy(pool)), 0);
    assert_eq!(
        made!(cuDeviceGetMemPool(0) as null_mut()),
        default,
        "the current pool falls back"
    );
}

#[test]
fn allocating_and_freeing() {
    let _serial = session();
    let pool = new_pool();
    let stream = made!(cuStreamCreate(1) as null_mut());
    let mut pointer = 0xdead;
    for too_large in [1 << 40, 1 << 63, usize::MAX] {
        assert_eq!(
            call!(cuMemAllocFromPoolAsync(&raw mut pointer, too_large, pool, stream)),
            2
        );
        assert_eq!(call!(cuMemAlloc_v2(&raw mut pointer, too_large)), 2);
    }
    assert_eq!(pointer, 0xdead, "a refused request leaves the pointer alone");
    assert_eq!(call!(cuMemAlloc_v2(&raw mut pointer, 0)), 1);
    assert_eq!(call!(cuMemAllocFromPoolAsync(&raw mut pointer, 0, pool, stream)), 0);
    assert_eq!(pointer, 0, "nothing was asked for");
    assert_eq!(call!(cuMemFree_v2(0)), 0);
    assert_eq!(call!(cuMemFreeAsync(0, stream)), 0);
    // All three default streams take allocations.
    for default in [0, 1, 2] {
        let default = std::ptr::without_provenance_mut(default);
        let pointer = made!(cuMemAllocFromPoolAsync(64, pool, default) as 0);
        assert_eq!(call!(cuMemFreeAsync(pointer, default)), 0);
    }
    // Plain memory freed in stream order: one synchronous free is still taken, then no more.
    let plain = made!(cuMemAlloc_v2(MIB) as 0);
    assert_eq!(call!(cuMemFreeAsync(plain, stream)), 0);
    assert_eq!(call!(cuMemFreeAsync(plain, stream)), 1);
    assert_eq!(call!(cuMemFree_v2(plain)), 0);
    assert_eq!(call!(cuMemFree_v2(plain)), 1);
    let block = made!(cuMemAllocFromPoolAsync(MIB, pool, stream) as 0);
    assert_eq!(
        call!(cuMemFreeHost(std::ptr::without_provenance_mut(
            usize::try_from(block).expect("64 bits")
        ))),
        1
    );
    assert_eq!(call!(cuMemFreeAsync(block, stream)), 0);
    assert_eq!(call!(cuStreamSynchronize(stream)), 0);
    assert_eq!(call!(cuMemPoolDestroy(pool)), 0);
    assert_eq!(call!(cuStreamDestroy_v2(stream)), 0);
}

#[test]
fn copies_and_sets() {
    let _serial = session();
    let mut host = [0_u8; 4096];
    let host_place = host.as_mut_ptr().cast::<c_void>();
    let plain = made!(cuMemAlloc_v2(64) as 0);
    assert_eq!(call!(cuMemsetD8_v2(plain, 7, 64)), 0);
    assert_eq!(call!(cuMemsetD16_v2(plain + 2, 0x0102, 1)), 0);
    assert_eq!(call!(cuMemsetD32_v2(plain + 4, 0x0a0b_0c0d, 1)), 0);
    assert_eq!(call!(cuMemcpyDtoD_v2(plain + 32, plain, 8)), 0);
    assert_eq!(call!(cuMemcpyDtoH_v2(host_place, plain, 64)), 0);
    // Little-endian, as the device is.
    assert_eq!(host[..8], [7, 7, 2, 1, 0x0d, 0x0c, 0x0b, 0x0a]);
    assert_eq!(host[32..41], [7, 7, 2, 1, 0x0d, 0x0c, 0x0b, 0x0a, 7]);
    assert_eq!(call!(cuMemcpyDtoH_v2(host_place, plain, 4096)), 1, "past the end");
    assert_eq!(
        call!(cuMemcpyHtoD_v2(plain + 65, host_place, 1)),
        1,
        "on the page, and not allocated"
    );
    assert_eq!(call!(cuMemcpyHtoD_v2(0, null(), 0)), 0, "nothing to copy");
    assert_eq!(call!(cuMemsetD32_v2(plain + 1, 0, 1)), 1, "unaligned");
    assert_eq!(call!(cuMemsetD16_v2(plain + 1, 0, 1)), 1, "unaligned");
    assert_eq!(call!(cuMemFree_v2(plain)), 0);
    // The pool retains the memory, and copies may no longer touch it.
    let (pool, mut max) = (new_pool(), u64::MAX);
    assert_eq!(call!(cuMemPoolSetAttribute(pool, 4, (&raw mut max).cast())), 0);
    let block = made!(cuMemAllocFromPoolAsync(64, pool, null_mut()) as 0);
    assert_eq!(call!(cuMemcpyDtoH_v2(host_place, block, 64)), 0);
    assert_eq!(call!(cuMemFreeAsync(block, null_mut())), 0);
    assert_eq!(call!(cuMemcpyDtoH_v2(host_place, block, 64)), 1);
    assert_eq!(call!(cuStreamSynchronize(null_mut())), 0);
    assert_eq!(call!(cuMemPoolDestroy(pool)), 0);
}

#[test]
fn streams_and_events() {
    let _serial = session();
    let (mut stream, mut event, mut pointer) = (null_mut(), null_mut(), 0);
    assert_eq!(call!(cuStreamCreate(&raw mut stream, 7)), 1);
    assert_eq!(call!(cuEventCreate(&raw mut event, 64)), 1);
    assert_eq!(call!(cuStreamCreateWithPriority(&raw mut stream, 1, -99)), 0, "clamped");
    let mut flags = 0;
    assert_eq!(call!(cuStreamGetFlags(stream, &raw mut flags)), 0);
    assert_eq!(flags, 1, "not blocking, as asked");
    let event = made!(cuEventCreate(0) as null_mut());
    let untimed = made!(cuEventCreate(2) as null_mut());
    let mut ms = 0.0;
    assert_eq!(call!(cuEventQuery(event)), 0, "never recorded");
    assert_eq!(
        call!(cuEventElapsedTime(&raw mut ms, event, event)),
        400,
        "never recorded"
    );
    for recorded in [event, untimed] {
        assert_eq!(call!(cuEventRecord(recorded, stream)), 0);
        assert_eq!(call!(cuEventSynchronize(recorded)), 0);
    }
    assert_eq!(call!(cuEventElapsedTime(&raw mut ms, event, event)), 0);
    assert_eq!(call!(cuEventElapsedTime(&raw mut ms, event, untimed)), 400);
    assert_eq!(call!(cuEventSynchronize(null_mut())), 400);
    assert_eq!(call!(cuEventDestroy_v2(event)), 0);
    assert_eq!(call!(cuEventDestroy_v2(event)), 709);
    assert_eq!(call!(cuEventSynchronize(event)), 709);
    assert_eq!(call!(cuStreamDestroy_v2(stream)), 0);
    assert_eq!(call!(cuStreamSynchronize(stream)), 709);
    assert_eq!(call!(cuStreamQuery(stream)), 709);
    assert_eq!(call!(cuMemAllocAsync(&raw mut pointer, 64, stream)), 709);
    assert_eq!(call!(cuStreamDestroy_v2(stream)), 709);
}

#[test]
fn modules_and_launches() {
    let _serial = session();
    let ptx = concat!(include_str!("../../../kernels/ptx/scratch.ptx"), "\0");
    let image = ptx.as_ptr().cast::<c_void>();
    let mut module = null_mut();
    for (text, code) in [("no PTX\0", 200), ("\0", 200), (".version 9.1\n.target sm_75\0", 222)] {
        assert_eq!(
            call!(cuModuleLoadData(&raw mut module, text.as_ptr().cast())),
            code,
            "{text}"
        );
    }
    assert_eq!(call!(cuModuleLoad(&raw mut module, c"/nonexistent.ptx".as_ptr())), 301);
    let module = made!(cuModuleLoadData(image) as null_mut());
    let (mut function, mut address, mut size) = (null_mut(), 0, 0);
    assert_eq!(
        call!(cuModuleGetFunction(&raw mut function, module, c"absent".as_ptr())),
        500
    );
    assert_eq!(
        call!(cuModuleGetGlobal_v2(
            &raw mut address,
            &raw mut size,
            module,
            c"absent".as_ptr()
        )),
        500
    );
    let function = made!(cuModuleGetFunction(module, c"fill".as_ptr()) as null_mut());
    assert_eq!(made!(cuFuncGetAttribute(0, function) as 0), 1024, "threads of a block");
    let mut arguments = [0_u64; 4];
    let [a, b, c, d] = &mut arguments;
    let mut places = [a, b, c, d].map(|argument| std::ptr::from_mut(argument).cast::<c_void>());
    let mut launch = |function, grid, block, shared_bytes| {
        let places = places.as_mut_ptr();
        call!(cuLaunchKernel(
            function,
            grid,
            1,
            1,
            block,
            1,
            1,
            shared_bytes,
            null_mut(),
            places,
            null_mut()
        ))
    };
    let kib = 1 << 10;
    assert_eq!(launch(function, 1, 1024, 48 * kib), 0, "no elements, nothing touched");
    for (grid, block, shared_bytes) in [
        (0, 1, 0),
        (1, 0, 0),
        (1, 1025, 0),
        (1 << 31, 1, 0),
        (1, 1, 48 * kib + 1),
        (1, 1, 228 * kib),
    ] {
        assert_eq!(
            launch(function, grid, block, shared_bytes),
            1,
            "{grid} {block} {shared_bytes}"
        );
    }
    assert_eq!(launch(null_mut(), 1, 1, 0), 400);
    assert_eq!(call!(cuModuleUnload(module)), 0);
}

#[test]
fn functions_go_with_their_module() {
    let _serial = session();
    let image = concat!(include_str!("../../../kernels/ptx/scratch.ptx"), "\0").as_ptr();
    let [module, other] = [(); 2].map(|()| made!(cuModuleLoadData(image.cast::<c_void>()) as null_mut()));
    let fill = |module| made!(cuModuleGetFunction(module, c"fill".as_ptr()) as null_mut());
    let (function, of_other) = (fill(module), fill(other));
    assert_eq!(fill(module), function, "a module has each of its functions once");
    let mut arguments = [0_u64; 4];
    let mut places = arguments
        .each_mut()
        .map(|argument| std::ptr::from_mut(argument).cast::<c_void>());
    let mut launch = |function| {
        let (stream, places) = (null_mut(), places.as_mut_ptr());
        call!(cuLaunchKernel(
            function,
            1,
            1,
            1,
            1,
            1,
            1,
            0,
            stream,
            places,
            null_mut()
        ))
    };
    assert_eq!(
        (launch(function), launch(of_other)),
        (0, 0),
        "no elements, nothing touched"
    );
    assert_eq!(call!(cuModuleUnload(module)), 0);
    assert_eq!((launch(function), launch(of_other)), (400, 0));
    let mut value = 0;
    assert_eq!(call!(cuFuncGetAttribute(&raw mut value, 0, function)), 400);
    assert_eq!(call!(cuModuleUnload(module)), 400);
    assert_eq!(call!(cuModuleUnload(other)), 0);
}

#[test]
fn the_context_stack_and_pinned_memory() {
    let _serial = session();
    let context = made!(cuCtxGetCurrent() as null_mut());
    assert_eq!(call!(cuCtxPushCurrent_v2(context)), 0);
    assert_eq!(made!(cuCtxPopCurrent_v2() as null_mut()), context);
    assert_eq!(
        made!(cuCtxGetCurrent() as null_mut()),
        context,
        "what was below is current again"
    );
    assert_eq!(call!(cuCtxPushCurrent_v2(null_mut())), 201);
    let pinned = made!(cuMemAllocHost_v2(100) as null_mut());
    assert_eq!(call!(cuMemFreeHost(pinned)), 0);
    assert_eq!(call!(cuMemFreeHost(pinned)), 1);
}
