//! Plain and stream-ordered allocation behind the driver's signatures.

use super::api::{answer, number, put};
use super::device::{DEVICE, HostDevice};
use crate::driver::Code;
use cust::sys::{CUdeviceptr, CUmemoryPool, CUstream};
use std::ffi::c_int;

implement! {
    cuMemAlloc_v2, cuMemFree_v2, cuMemGetInfo_v2, cuMemAllocAsync, cuMemAllocFromPoolAsync, cuMemFreeAsync,
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
