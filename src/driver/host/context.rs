//! The context stack of a thread, and what streams say of themselves.

use super::api::{answer, handle, number, put};
use super::device::{DEVICE, HostDevice};
use super::stream_api::{NON_BLOCKING, cuStreamCreate};
use crate::driver::Code;
use cust::sys::{CUcontext, CUstream};
use std::cell::RefCell;
use std::ffi::{c_int, c_uint};

implement! {
    cuCtxPushCurrent_v2, cuCtxPopCurrent_v2, cuCtxGetStreamPriorityRange,
    cuStreamCreateWithPriority, cuStreamGetFlags, cuStreamGetPriority,
}

/// There is one priority: every other is clamped to it, as the driver clamps to its range.
const PRIORITY: c_int = 0;

thread_local! {
    /// The contexts below the current one.
    static BELOW: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

unsafe extern "C" fn cuCtxPushCurrent_v2(context: CUcontext) -> c_int {
    let below = HostDevice::current_context();
    let pushed = if context.is_null() {
        Err(Code::INVALID_CONTEXT)
    } else {
        HostDevice::set_current_context(number(context))
    };
    if pushed.is_ok() {
        BELOW.with_borrow_mut(|contexts| contexts.push(below));
    }
    answer(pushed)
}

unsafe extern "C" fn cuCtxPopCurrent_v2(context: *mut CUcontext) -> c_int {
    let popped = HostDevice::current_context();
    if popped == 0 {
        return Code::INVALID_CONTEXT.0;
    }
    let below = BELOW.with_borrow_mut(Vec::pop).unwrap_or(0);
    if let Err(code) = HostDevice::set_current_context(below) {
        return code.0;
    }
    if context.is_null() {
        return 0;
    }
    // SAFETY: the caller's pointer.
    unsafe { put(context, Ok(handle(popped))) }
}

unsafe extern "C" fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> c_int {
    if let Err(code) = HostDevice::check_context() {
        return code.0;
    }
    for place in [least, greatest].into_iter().filter(|place| !place.is_null()) {
        // SAFETY: not null, so valid, as the driver demands.
        unsafe { place.write(PRIORITY) };
    }
    0
}

unsafe extern "C" fn cuStreamCreateWithPriority(stream: *mut CUstream, flags: c_uint, _priority: c_int) -> c_int {
    // SAFETY: the same arguments.
    unsafe { cuStreamCreate(stream, flags) }
}

unsafe extern "C" fn cuStreamGetFlags(stream: CUstream, flags: *mut c_uint) -> c_int {
    let is_created = number(stream) > 2;
    let seen = DEVICE.stream(number(stream)).map(|stream| {
        if stream.is_blocking || !is_created {
            0
        } else {
            NON_BLOCKING
        }
    });
    // SAFETY: the caller's pointer.
    unsafe { put(flags, seen) }
}

unsafe extern "C" fn cuStreamGetPriority(stream: CUstream, priority: *mut c_int) -> c_int {
    let seen = DEVICE.stream(number(stream)).map(|_| PRIORITY);
    // SAFETY: the caller's pointer.
    unsafe { put(priority, seen) }
}
