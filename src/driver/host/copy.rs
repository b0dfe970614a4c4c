//! Copies and sets that the caller need not order: they go through the legacy default stream.
//!
//! A GPU's pools take no note of their waiting, and neither do these.

use super::api::{
    answer, cuMemcpyDtoDAsync_v2, cuMemcpyDtoHAsync_v2, cuMemcpyHtoDAsync_v2, cuMemsetD8Async, cuMemsetD32Async,
    submit_on,
};
use super::device::DEVICE;
use super::stream::Operation;
use crate::driver::Code;
use cust::sys::{CUdeviceptr, CUstream};
use std::ffi::{c_int, c_uchar, c_uint, c_ushort, c_void};
use std::ptr;

implement! {
    cuMemcpyHtoD_v2, cuMemcpyDtoH_v2, cuMemcpyDtoD_v2,
    cuMemsetD8_v2, cuMemsetD16_v2, cuMemsetD32_v2, cuMemsetD16Async,
}

/// Waits for what `code` says was submitted to the legacy default stream.
fn waited_for(code: c_int) -> c_int {
    if code == 0 {
        answer(DEVICE.stream(0).and_then(|stream| stream.synchronize().map(drop)))
    } else {
        code
    }
}

unsafe extern "C" fn cuMemcpyHtoD_v2(target: CUdeviceptr, source: *const c_void, size_bytes: usize) -> c_int {
    // SAFETY: the same arguments, and the legacy default stream.
    waited_for(unsafe { cuMemcpyHtoDAsync_v2(target, source, size_bytes, ptr::null_mut()) })
}

unsafe extern "C" fn cuMemcpyDtoH_v2(target: *mut c_void, source: CUdeviceptr, size_bytes: usize) -> c_int {
    // SAFETY: as above.
    waited_for(unsafe { cuMemcpyDtoHAsync_v2(target, source, size_bytes, ptr::null_mut()) })
}

unsafe extern "C" fn cuMemcpyDtoD_v2(target: CUdeviceptr, source: CUdeviceptr, size_bytes: usize) -> c_int {
    // SAFETY: as above. Copies inside the device do not wait.
    unsafe { cuMemcpyDtoDAsync_v2(target, source, size_bytes, ptr::null_mut()) }
}

unsafe extern "C" fn cuMemsetD8_v2(target: CUdeviceptr, value: c_uchar, count: usize) -> c_int {
    // SAFETY: as above. Sets of device memory do not wait.
    unsafe { cuMemsetD8Async(target, value, count, ptr::null_mut()) }
}

unsafe extern "C" fn cuMemsetD16_v2(target: CUdeviceptr, value: c_ushort, count: usize) -> c_int {
    // SAFETY: as above.
    unsafe { cuMemsetD16Async(target, value, count, ptr::null_mut()) }
}

unsafe extern "C" fn cuMemsetD32_v2(target: CUdeviceptr, value: c_uint, count: usize) -> c_int {
    // SAFETY: as above.
    unsafe { cuMemsetD32Async(target, value, count, ptr::null_mut()) }
}

unsafe extern "C" fn cuMemsetD16Async(target: CUdeviceptr, value: c_ushort, count: usize, stream: CUstream) -> c_int {
    let Some(size_bytes) = (count as u64).checked_mul(2).filter(|_| target.is_multiple_of(2)) else {
        return Code::INVALID_VALUE.0;
    };
    let submitted = submit_on(stream, &[target], size_bytes, || Operation::CopyFromHost {
        target,
        bytes: value.to_le_bytes().repeat(count).into(),
    });
    answer(submitted.map(drop))
}
