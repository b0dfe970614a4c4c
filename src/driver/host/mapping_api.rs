//! Virtual memory management behind the driver's signatures.

use super::api::{answer, put};
use super::device::DEVICE;
use super::mapping::GRANULARITY_BYTES;
use crate::driver::Code;
use cust::sys::{CUdeviceptr, CUmemAccessDesc, CUmemAllocationProp, CUmemGenericAllocationHandle};
use std::ffi::{c_int, c_uint, c_ulonglong};

implement! {
    cuMemAddressReserve, cuMemAddressFree, cuMemCreate, cuMemRelease, cuMemMap, cuMemUnmap, cuMemSetAccess,
    cuMemGetAllocationGranularity,
}

unsafe extern "C" fn cuMemGetAllocationGranularity(
    bytes: *mut usize,
    _: *const CUmemAllocationProp,
    _: c_uint,
) -> c_int {
    // SAFETY: the caller's pointer.
    unsafe { put(bytes, Ok(GRANULARITY_BYTES as usize)) }
}

unsafe extern "C" fn cuMemAddressReserve(
    address: *mut CUdeviceptr,
    size_bytes: usize,
    _alignment: usize,
    _wanted: CUdeviceptr,
    _flags: c_ulonglong,
) -> c_int {
    if address.is_null() {
        return Code::INVALID_VALUE.0;
    }
    let reserved = DEVICE.with_mappings(|mappings, memory, _| mappings.reserve(memory, size_bytes as u64));
    // SAFETY: the caller's pointer.
    unsafe { put(address, reserved) }
}

unsafe extern "C" fn cuMemAddressFree(address: CUdeviceptr, size_bytes: usize) -> c_int {
    answer(DEVICE.with_mappings(|mappings, _, _| mappings.free_addresses(address, size_bytes as u64)))
}

unsafe extern "C" fn cuMemCreate(
    handle: *mut CUmemGenericAllocationHandle,
    size_bytes: usize,
    properties: *const CUmemAllocationProp,
    _flags: c_ulonglong,
) -> c_int {
    if properties.is_null() || handle.is_null() {
        return Code::INVALID_VALUE.0;
    }
    let created = DEVICE.with_mappings(|mappings, memory, new_handle| {
        mappings
            .create(new_handle, memory, size_bytes as u64)
            .map(|()| new_handle)
    });
    // SAFETY: the caller's pointer.
    unsafe { put(handle, created) }
}

unsafe extern "C" fn cuMemRelease(handle: CUmemGenericAllocationHandle) -> c_int {
    answer(DEVICE.with_mappings(|mappings, _, _| mappings.release(handle)))
}

unsafe extern "C" fn cuMemMap(
    address: CUdeviceptr,
    size_bytes: usize,
    offset: usize,
    handle: CUmemGenericAllocationHandle,
    _flags: c_ulonglong,
) -> c_int {
    if offset != 0 {
        return Code::INVALID_VALUE.0;
    }
    answer(DEVICE.with_mappings(|mappings, memory, _| mappings.map(memory, address, size_bytes as u64, handle)))
}

unsafe extern "C" fn cuMemUnmap(address: CUdeviceptr, size_bytes: usize) -> c_int {
    answer(DEVICE.with_mappings(|mappings, memory, _| mappings.unmap(memory, address, size_bytes as u64)))
}

unsafe extern "C" fn cuMemSetAccess(
    address: CUdeviceptr,
    size_bytes: usize,
    access: *const CUmemAccessDesc,
    count: usize,
) -> c_int {
    if access.is_null() || count == 0 || !DEVICE.memory.contains(address, size_bytes as u64) {
        return Code::INVALID_VALUE.0;
    }
    0
}
