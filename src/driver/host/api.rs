//! The host device behind the driver's signatures: pointers in, codes out. Here are the driver, the
//! device and its context; each kind of handle has a file of its own.
//!
//! What each call does stands in `device.rs` and its neighbours, or, where it is one operation in a
//! stream, beside the signature.

use super::device::{DEVICE, HostDevice};
use crate::driver::Code;
use cust::sys::{CUcontext, CUdevice, CUuuid};
use std::ffi::{CStr, c_char, c_int, c_uint};

implement! {
    cuInit, cuDriverGetVersion, cuGetErrorName, cuGetErrorString,
    cuDeviceGet, cuDeviceGetCount, cuDeviceGetName, cuDeviceGetUuid, cuDeviceTotalMem_v2, cuDeviceGetAttribute,
    cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRelease_v2, cuCtxSetCurrent, cuCtxGetCurrent, cuCtxGetDevice, cuCtxSynchronize,
}

/// What the host device calls itself, and the name that its results carry everywhere.
const NAME: &CStr = c"host";
/// The driver version it stands in for: CUDA 13.0, whose behaviour was recorded.
const VERSION: c_int = 13000;

pub(super) fn answer(result: Result<(), Code>) -> c_int {
    result.map_or_else(|code| code.0, |()| 0)
}

pub(super) fn answer_bool(result: Result<bool, Code>) -> c_int {
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
    let fits = usize::try_from(length).is_ok_and(|length| length >= bytes.len());
    if name.is_null() || !fits {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: the caller's buffer holds `length` bytes, as the driver demands, and the name with its end is no
    // longer; it lies in a constant, which no buffer of a caller overlaps.
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
