//! Streams and events behind the driver's signatures.

use super::api::{answer, answer_bool, handle, number, put};
use super::device::DEVICE;
use crate::driver::Code;
use cust::sys::{CUevent, CUstream};
use std::ffi::{c_int, c_uint};

implement! {
    cuStreamCreate, cuStreamDestroy_v2, cuStreamSynchronize, cuStreamQuery, cuStreamWaitEvent,
    cuEventCreate, cuEventDestroy_v2, cuEventRecord, cuEventQuery, cuEventSynchronize, cuEventElapsedTime,
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
