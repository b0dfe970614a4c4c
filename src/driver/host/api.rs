//! The host device behind the driver's signatures: pointers in, codes out.
//!
//! What each call does stands in `device.rs`, or, where it is one operation in a stream, here.

use super::device::{DEVICE, HostDevice};
use super::kernel::Launch;
use super::stream::{Clock, HostTarget, Operation, Stream};
use crate::driver::Code;
use cust::sys::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUmemPoolProps, CUmemoryPool, CUmodule, CUstream, CUuuid,
};
use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::sync::Arc;

implement! {
    cuInit, cuDriverGetVersion, cuGetErrorName, cuGetErrorString,
    cuDeviceGet, cuDeviceGetCount, cuDeviceGetName, cuDeviceGetUuid, cuDeviceTotalMem_v2, cuDeviceGetAttribute,
    cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRelease_v2, cuCtxSetCurrent, cuCtxGetCurrent, cuCtxGetDevice, cuCtxSynchronize,
    cuModuleLoadData, cuModuleLoadDataEx, cuModuleGetFunction, cuModuleUnload, cuLaunchKernel,
    cuMemAlloc_v2, cuMemFree_v2, cuMemGetInfo_v2, cuMemAllocAsync, cuMemAllocFromPoolAsync, cuMemFreeAsync,
    cuMemcpyHtoDAsync_v2, cuMemcpyDtoHAsync_v2, cuMemcpyDtoDAsync_v2, cuMemsetD8Async, cuMemsetD32Async,
    cuStreamCreate, cuStreamDestroy_v2, cuStreamSynchronize, cuStreamQuery, cuStreamWaitEvent,
    cuEventCreate, cuEventDestroy_v2, cuEventRecord, cuEventQuery, cuEventSynchronize, cuEventElapsedTime,
    cuDeviceGetDefaultMemPool, cuDeviceGetMemPool, cuDeviceSetMemPool,
    cuMemPoolCreate, cuMemPoolDestroy, cuMemPoolTrimTo, cuMemPoolGetAttribute, cuMemPoolSetAttribute,
}

/// What the host device calls itself, and the name that its results carry everywhere.
const NAME: &CStr = c"host";
/// The driver version it stands in for: CUDA 13.0, whose behaviour was recorded.
const VERSION: c_int = 13000;

pub(super) fn answer(result: Result<(), Code>) -> c_int {
    result.map_or_else(|code| code.0, |()| 0)
}

fn answer_bool(result: Result<bool, Code>) -> c_int {
    answer(result.and_then(|ready| if ready { Ok(()) } else { Err(Code::NOT_READY) }))
}

/// Stores a result where the caller wants it.
///
/// # Safety
///
/// `place` is null or valid for writing a `T`.
pub(super) unsafe fn put<T>(place: *mut T, value: Result<T, Code>) -> c_int {
    if place.is_null() {
        return Code::INVALID_VALUE.0;
    }
    match value {
        Ok(value) => {
            // SAFETY: not null, so valid, as the caller says.
            unsafe { place.write(value) };
            0
        }
        Err(code) => code.0,
    }
}

/// Handles are numbers; nothing is behind the pointer that the driver's types make of them.
pub(super) fn handle<T>(number: u64) -> *mut T {
    std::ptr::without_provenance_mut(number as usize)
}

pub(super) fn number<T>(handle: *mut T) -> u64 {
    handle.addr() as u64
}

pub(super) fn only_device(device: CUdevice) -> Result<(), Code> {
    HostDevice::check_initialized()?;
    if device == 0 { Ok(()) } else { Err(Code::INVALID_DEVICE) }
}

/// What the calls on the current pool answer to an unknown device.
fn device_as_value(device: CUdevice) -> Result<(), Code> {
    only_device(device).map_err(|code| match code {
        Code::INVALID_DEVICE => Code::INVALID_VALUE,
        code => code,
    })
}

unsafe extern "C" fn cuInit(flags: c_uint) -> c_int {
    if flags != 0 {
        return Code::INVALID_VALUE.0;
    }
    HostDevice::initialize();
    0
}

unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_int {
    // SAFETY: the caller's pointer.
    unsafe { put(version, Ok(VERSION)) }
}

/// Names as C strings, made once a code, since the driver's live for ever.
fn static_name(code: c_uint) -> Result<*const c_char, Code> {
    use std::collections::BTreeMap;
    use std::ffi::CString;
    use std::sync::{Mutex, PoisonError};
    static NAMES: Mutex<BTreeMap<c_uint, &'static CStr>> = Mutex::new(BTreeMap::new());
    let name = Code(code.cast_signed()).name().ok_or(Code::INVALID_VALUE)?;
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = names
        .entry(code)
        .or_insert_with(|| Box::leak(CString::new(name).unwrap_or_default().into_boxed_c_str()));
    Ok(kept.as_ptr())
}

unsafe extern "C" fn cuGetErrorName(code: c_uint, name: *mut *const c_char) -> c_int {
    // SAFETY: the caller's pointer.
    unsafe { put(name, static_name(code)) }
}

unsafe extern "C" fn cuGetErrorString(code: c_uint, text: *mut *const c_char) -> c_int {
    // SAFETY: the caller's pointer.
    unsafe { put(text, static_name(code)) }
}

unsafe extern "C" fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) -> c_int {
    // SAFETY: the caller's pointer.
    unsafe { put(device, only_device(ordinal).map(|()| ordinal)) }
}

unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> c_int {
    // SAFETY: the caller's pointer.
    unsafe { put(count, HostDevice::check_initialized().map(|()| 1)) }
}

unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, length: c_int, device: CUdevice) -> c_int {
    let bytes = NAME.to_bytes_with_nul();
    if only_device(device).is_err() {
        return Code::INVALID_DEVICE.0;
    }
    if name.is_null() || usize::try_from(length).is_ok_and(|length| length < bytes.len()) {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: the caller's buffer holds `length` bytes, and the name is no longer.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().cast::<c_char>(), name, bytes.len()) };
    0
}

unsafe extern "C" fn cuDeviceGetUuid(uuid: *mut CUuuid, device: CUdevice) -> c_int {
    // SAFETY: the caller's pointer.
    unsafe { put(uuid, only_device(device).map(|()| CUuuid { bytes: [0; 16] })) }
}

unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice) -> c_int {
    // SAFETY: the caller's pointer.
    unsafe {
        put(
            bytes,
            only_device(device).map(|()| DEVICE.memory.capacity_bytes() as usize),
        )
    }
}

unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: CUdevice) -> c_int {
    let value_of = match attribute {
        1 | 2 => Ok(1024), // threads of a block, and its width
        5 => Ok(i32::MAX), // width of a grid
        16 => Ok(1),       // multiprocessors
        102 => Ok(1),      // virtual memory management
        115 => Ok(1),      // memory pools
        0 => Err(Code::INVALID_VALUE),
        // No ECC, no managed memory, compute capability 0.0.
        1..=130 => Ok(0),
        _ => Err(Code::INVALID_VALUE),
    };
    let answer = only_device(device).and(value_of);
    // SAFETY: the caller's pointer.
    unsafe { put(value, answer) }
}

unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) -> c_int {
    // SAFETY: the caller's pointer.
    unsafe { put(context, only_device(device).map(|()| handle(DEVICE.retain_context()))) }
}

unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) -> c_int {
    answer(only_device(device).and_then(|()| DEVICE.release_context()))
}

unsafe extern "C" fn cuCtxSetCurrent(context: CUcontext) -> c_int {
    answer(HostDevice::set_current_context(number(context)))
}

unsafe extern "C" fn cuCtxGetCurrent(context: *mut CUcontext) -> c_int {
    // SAFETY: the caller's pointer.
    unsafe { put(context, Ok(handle(HostDevice::current_context()))) }
}

unsafe extern "C" fn cuCtxGetDevice(device: *mut CUdevice) -> c_int {
    // SAFETY: the caller's pointer.
    unsafe { put(device, HostDevice::check_context().map(|()| 0)) }
}

unsafe extern "C" fn cuCtxSynchronize() -> c_int {
    answer(DEVICE.synchronize_context())
}

pub(super) unsafe extern "C" fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) -> c_int {
    if image.is_null() {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: an image that is text ends with a zero byte, as the driver demands.
    let text = unsafe { CStr::from_ptr(image.cast::<c_char>()) };
    let loaded = text
        .to_str()
        .map_err(|_| Code::INVALID_IMAGE)
        .and_then(|text| DEVICE.load_module(text));
    // SAFETY: the caller's pointer.
    unsafe { put(module, loaded.map(handle)) }
}

unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut CUmodule,
    image: *const c_void,
    _: c_uint,
    _: *mut c_uint,
    _: *mut *mut c_void,
) -> c_int {
    // The options steer the compiler, which the host device has no use for.
    // SAFETY: the same arguments.
    unsafe { cuModuleLoadData(module, image) }
}

unsafe extern "C" fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) -> c_int {
    if name.is_null() {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: a C string, as the driver demands.
    let name = unsafe { CStr::from_ptr(name) };
    let found = name
        .to_str()
        .map_err(|_| Code::NOT_FOUND)
        .and_then(|name| DEVICE.function_of(number(module), name));
    // SAFETY: the caller's pointer.
    unsafe { put(function, found.map(handle)) }
}

unsafe extern "C" fn cuModuleUnload(module: CUmodule) -> c_int {
    answer(DEVICE.unload_module(number(module)))
}

/// Shared memory of a block that a kernel gets without asking for more beforehand.
const SHARED_BYTES_MAX: c_uint = 48 << 10;

#[allow(clippy::too_many_arguments, reason = "the driver's own signature")]
unsafe extern "C" fn cuLaunchKernel(
    function: CUfunction,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: CUstream,
    parameters: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> c_int {
    let product = |factors: [c_uint; 3]| factors.into_iter().map(u64::from).product::<u64>();
    let (grid, block) = (product([grid_x, grid_y, grid_z]), product([block_x, block_y, block_z]));
    let twin = match DEVICE.function(number(function)) {
        Ok(twin) => twin,
        Err(code) => return code.0,
    };
    let is_too_large = block > 1024 || grid_x > i32::MAX.cast_unsigned() || shared_bytes > SHARED_BYTES_MAX;
    if grid == 0 || block == 0 || is_too_large || parameters.is_null() {
        // As the driver does, and only for this of all wrong arguments.
        DEVICE.invalidate_capture(number(stream));
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: `parameters` has a pointer for each of the kernel's arguments, as the driver demands.
    let launch = unsafe { Launch::new(twin, parameters, grid.saturating_mul(block)) };
    answer(DEVICE.submit(number(stream), Operation::Kernel(launch)).map(drop))
}

unsafe extern "C" fn cuMemAlloc_v2(address: *mut CUdeviceptr, size_bytes: usize) -> c_int {
    // SAFETY: the caller's pointer.
    unsafe {
        put(
            address,
            if address.is_null() {
                Err(Code::INVALID_VALUE)
            } else {
                DEVICE.alloc_plain(size_bytes as u64)
            },
        )
    }
}

unsafe extern "C" fn cuMemFree_v2(address: CUdeviceptr) -> c_int {
    answer(DEVICE.free(address))
}

unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int {
    let free_bytes = HostDevice::check_context().map(|()| DEVICE.memory.free_bytes() as usize);
    // SAFETY: the caller's pointer.
    let code = unsafe { put(free, free_bytes) };
    if code != 0 {
        return code;
    }
    // SAFETY: the caller's pointer.
    unsafe { put(total, Ok(DEVICE.memory.capacity_bytes() as usize)) }
}

unsafe extern "C" fn cuMemAllocAsync(address: *mut CUdeviceptr, size_bytes: usize, stream: CUstream) -> c_int {
    if address.is_null() {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: the caller's pointer.
    unsafe { put(address, DEVICE.alloc_async(size_bytes as u64, None, number(stream))) }
}

unsafe extern "C" fn cuMemAllocFromPoolAsync(
    address: *mut CUdeviceptr,
    size_bytes: usize,
    pool: CUmemoryPool,
    stream: CUstream,
) -> c_int {
    if address.is_null() {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: the caller's pointer.
    unsafe {
        put(
            address,
            DEVICE.alloc_async(size_bytes as u64, Some(number(pool)), number(stream)),
        )
    }
}

unsafe extern "C" fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) -> c_int {
    answer(DEVICE.free_async(address, number(stream)))
}

/// Submits work on ranges of one size, each of which must be allocated now, as the driver checks it.
/// Returns the stream that will run it, `None` where there is nothing to do or it was captured.
pub(super) fn submit_on(
    stream: CUstream,
    addresses: &[CUdeviceptr],
    size_bytes: u64,
    operation: impl FnOnce() -> Operation,
) -> Result<Option<Arc<Stream>>, Code> {
    HostDevice::check_context()?;
    let stream = number(stream);
    if size_bytes == 0 {
        return DEVICE.ordered_stream(stream).map(|_| None);
    }
    for address in addresses {
        if !DEVICE.can_use(stream, *address, size_bytes)? {
            return Err(Code::INVALID_VALUE);
        }
    }
    DEVICE.submit(stream, operation())
}

pub(super) unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    target: CUdeviceptr,
    source: *const c_void,
    size_bytes: usize,
    stream: CUstream,
) -> c_int {
    if source.is_null() && size_bytes != 0 {
        return Code::INVALID_VALUE.0;
    }
    // Bytes staged now would be those of the capture, not those of the launch.
    if DEVICE.capture_status(number(stream)) == Ok(1) {
        return Code::NOT_SUPPORTED.0;
    }
    let submitted = submit_on(stream, &[target], size_bytes as u64, || {
        // Pageable memory is staged before the call returns.
        // SAFETY: the caller's source holds as many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(source.cast::<u8>(), size_bytes) };
        Operation::CopyFromHost {
            target,
            bytes: bytes.into(),
        }
    });
    answer(submitted.map(drop))
}

pub(super) unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    target: *mut c_void,
    source: CUdeviceptr,
    size_bytes: usize,
    stream: CUstream,
) -> c_int {
    if target.is_null() && size_bytes != 0 {
        return Code::INVALID_VALUE.0;
    }
    let host = HostTarget {
        pointer: target.cast::<u8>(),
        size_bytes: size_bytes as u64,
    };
    let submitted = submit_on(stream, &[source], size_bytes as u64, || Operation::CopyToHost {
        source,
        target: host,
    });
    // A copy to pageable memory is complete when the call returns; pools take no note of it.
    let completed =
        submitted.and_then(|stream| stream.map_or_else(|| Ok(Clock::default()), |stream| stream.synchronize()));
    answer(completed.map(drop))
}

pub(super) unsafe extern "C" fn cuMemcpyDtoDAsync_v2(
    target: CUdeviceptr,
    source: CUdeviceptr,
    size_bytes: usize,
    stream: CUstream,
) -> c_int {
    let size_bytes = size_bytes as u64;
    let submitted = submit_on(stream, &[source, target], size_bytes, || Operation::CopyOnDevice {
        target,
        source,
        size_bytes,
    });
    answer(submitted.map(drop))
}

pub(super) unsafe extern "C" fn cuMemsetD8Async(
    target: CUdeviceptr,
    value: c_uchar,
    count: usize,
    stream: CUstream,
) -> c_int {
    let size_bytes = count as u64;
    let submitted = submit_on(stream, &[target], size_bytes, || Operation::SetBytes {
        target,
        value,
        size_bytes,
    });
    answer(submitted.map(drop))
}

pub(super) unsafe extern "C" fn cuMemsetD32Async(
    target: CUdeviceptr,
    value: c_uint,
    count: usize,
    stream: CUstream,
) -> c_int {
    let words = count as u64;
    let Some(size_bytes) = words.checked_mul(4).filter(|_| target.is_multiple_of(4)) else {
        return Code::INVALID_VALUE.0;
    };
    let submitted = submit_on(stream, &[target], size_bytes, || Operation::SetWords {
        target,
        value,
        words,
    });
    answer(submitted.map(drop))
}

/// `CU_STREAM_NON_BLOCKING`.
pub(super) const NON_BLOCKING: c_uint = 1;

pub(super) unsafe extern "C" fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) -> c_int {
    if flags > NON_BLOCKING || stream.is_null() {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: the caller's pointer.
    unsafe { put(stream, DEVICE.create_stream(flags != NON_BLOCKING).map(handle)) }
}

unsafe extern "C" fn cuStreamDestroy_v2(stream: CUstream) -> c_int {
    answer(DEVICE.destroy_stream(number(stream)))
}

unsafe extern "C" fn cuStreamSynchronize(stream: CUstream) -> c_int {
    answer(DEVICE.synchronize_stream(number(stream)))
}

unsafe extern "C" fn cuStreamQuery(stream: CUstream) -> c_int {
    answer_bool(DEVICE.is_stream_idle(number(stream)))
}

unsafe extern "C" fn cuStreamWaitEvent(stream: CUstream, event: CUevent, _flags: c_uint) -> c_int {
    answer(DEVICE.wait_event(number(stream), number(event)))
}

/// `CU_EVENT_DISABLE_TIMING`.
const DISABLE_TIMING: c_uint = 2;

unsafe extern "C" fn cuEventCreate(event: *mut CUevent, flags: c_uint) -> c_int {
    if flags > 7 || event.is_null() {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: the caller's pointer.
    unsafe { put(event, DEVICE.create_event(flags & DISABLE_TIMING == 0).map(handle)) }
}

unsafe extern "C" fn cuEventDestroy_v2(event: CUevent) -> c_int {
    answer(DEVICE.destroy_event(number(event)))
}

unsafe extern "C" fn cuEventRecord(event: CUevent, stream: CUstream) -> c_int {
    answer(DEVICE.record_event(number(event), number(stream)))
}

unsafe extern "C" fn cuEventQuery(event: CUevent) -> c_int {
    answer_bool(DEVICE.is_event_reached(number(event)))
}

unsafe extern "C" fn cuEventSynchronize(event: CUevent) -> c_int {
    answer(DEVICE.synchronize_event(number(event)))
}

unsafe extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent) -> c_int {
    let elapsed = || {
        DEVICE
            .event(number(end))?
            .elapsed_ms_since(&*DEVICE.event(number(start))?)
    };
    // SAFETY: the caller's pointer.
    unsafe { put(milliseconds, elapsed()) }
}

unsafe extern "C" fn cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: CUdevice) -> c_int {
    // SAFETY: the caller's pointer.
    unsafe {
        put(
            pool,
            only_device(device).and_then(|()| DEVICE.default_pool()).map(handle),
        )
    }
}

unsafe extern "C" fn cuDeviceGetMemPool(pool: *mut CUmemoryPool, device: CUdevice) -> c_int {
    // SAFETY: the caller's pointer.
    unsafe {
        put(
            pool,
            device_as_value(device).and_then(|()| DEVICE.current_pool()).map(handle),
        )
    }
}

unsafe extern "C" fn cuDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool) -> c_int {
    answer(device_as_value(device).and_then(|()| DEVICE.set_current_pool(number(pool))))
}

/// `CUmemPoolProps` of CUDA 13.0, with integers for its enums.
#[repr(C)]
#[derive(Clone, Copy)]
struct PoolProperties {
    allocation_type: c_uint,
    handle_types: c_uint,
    location_type: c_uint,
    location_id: c_int,
    security_attributes: *mut c_void,
    size_bytes_max: u64,
    rest: [u8; 56],
}

const _: () = assert!(size_of::<PoolProperties>() == size_of::<CUmemPoolProps>());

impl PoolProperties {
    /// Refuses what the driver refuses, and what the host device cannot do: memory other than the
    /// device's, and a pool of limited size.
    fn check(&self) -> Result<(), Code> {
        const PINNED: c_uint = 1;
        const MANAGED: c_uint = 2;
        const ON_DEVICE: c_uint = 1;
        const ON_HOST: std::ops::RangeInclusive<c_uint> = 2..=4;
        match (self.allocation_type, self.location_type) {
            (PINNED, ON_DEVICE) if self.location_id == 0 && self.size_bytes_max == 0 => Ok(()),
            (PINNED | MANAGED, ON_DEVICE) if self.location_id == 0 => Err(Code::NOT_SUPPORTED),
            (PINNED | MANAGED, location) if ON_HOST.contains(&location) => Err(Code::NOT_SUPPORTED),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

unsafe extern "C" fn cuMemPoolCreate(pool: *mut CUmemoryPool, properties: *const CUmemPoolProps) -> c_int {
    if pool.is_null() || properties.is_null() {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: not null, so valid, as the driver demands; every field takes any bits.
    let properties = unsafe { properties.cast::<PoolProperties>().read() };
    let made = properties.check().and_then(|()| DEVICE.create_pool());
    // SAFETY: the caller's pointer.
    unsafe { put(pool, made.map(handle)) }
}

unsafe extern "C" fn cuMemPoolDestroy(pool: CUmemoryPool) -> c_int {
    answer(DEVICE.destroy_pool(number(pool)))
}

unsafe extern "C" fn cuMemPoolTrimTo(pool: CUmemoryPool, keep_bytes: usize) -> c_int {
    answer(DEVICE.with_pool(number(pool), |pool| {
        pool.trim_to(keep_bytes as u64);
        Ok(())
    }))
}

/// Attributes 1 to 3, the reuse policies, are ints; the others have 64 bits.
fn is_policy(attribute: c_uint) -> bool {
    (1..=3).contains(&attribute)
}

unsafe extern "C" fn cuMemPoolGetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void) -> c_int {
    let read = DEVICE.with_pool(number(pool), |pool| pool.attribute(attribute));
    if is_policy(attribute) {
        // SAFETY: the caller's pointer is to an int, as the attribute demands.
        return unsafe { put(value.cast::<c_int>(), read.map(|value| c_int::from(value != 0))) };
    }
    // SAFETY: the caller's pointer is to 64 bits, as the attribute demands.
    unsafe { put(value.cast::<u64>(), read) }
}

unsafe extern "C" fn cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: c_uint, value: *mut c_void) -> c_int {
    if value.is_null() {
        return Code::INVALID_VALUE.0;
    }
    let wanted = if is_policy(attribute) {
        // SAFETY: not null, so a pointer to an int, as the attribute demands.
        u64::from(unsafe { value.cast::<c_int>().read() } != 0)
    } else {
        // SAFETY: not null, so a pointer to 64 bits, as the attribute demands.
        unsafe { value.cast::<u64>().read() }
    };
    answer(DEVICE.with_pool(number(pool), |pool| pool.set_attribute(attribute, wanted)))
}
