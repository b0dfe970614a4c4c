//! Pools behind the driver's signatures.

use super::api::{answer, handle, number, only_device, put};
use super::device::DEVICE;
use crate::driver::Code;
use cust::sys::{CUdevice, CUmemPoolProps, CUmemoryPool};
use std::ffi::{c_int, c_uint, c_void};

implement! {
    cuDeviceGetDefaultMemPool, cuDeviceGetMemPool, cuDeviceSetMemPool,
    cuMemPoolCreate, cuMemPoolDestroy, cuMemPoolTrimTo, cuMemPoolGetAttribute, cuMemPoolSetAttribute,
}

/// What the calls on the current pool answer to an unknown device.
fn device_as_value(device: CUdevice) -> Result<(), Code> {
    only_device(device).map_err(|code| match code {
        Code::INVALID_DEVICE => Code::INVALID_VALUE,
        code => code,
    })
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
