//! Memory pools: stream-ordered allocation and everything that decides what a pool keeps.

use super::error::{Error, Result, check, report_failed_drop};
use super::{Device, DevicePtr, Stream};
use crate::driver::{Function, api};
use cust::sys::{
    CUmemAllocationHandleType, CUmemAllocationType, CUmemLocation, CUmemLocationType, CUmemPoolProps, CUmemoryPool,
};
use std::ffi::c_void;

/// Which freed memory a pool may hand to another stream. Source: `CUmemPool_attribute`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ReusePolicy {
    /// Memory whose free is ordered before the allocation by an event.
    FollowEventDependencies = 1,
    /// Memory whose free has already run.
    AllowOpportunistic = 2,
    /// Memory whose free is still to run, by making the allocating stream wait for it.
    AllowInternalDependencies = 3,
}

impl ReusePolicy {
    /// Every policy, in the driver's order.
    pub const ALL: [ReusePolicy; 3] = [
        ReusePolicy::FollowEventDependencies,
        ReusePolicy::AllowOpportunistic,
        ReusePolicy::AllowInternalDependencies,
    ];

    fn name(self) -> &'static str {
        match self {
            ReusePolicy::FollowEventDependencies => "REUSE_FOLLOW_EVENT_DEPENDENCIES",
            ReusePolicy::AllowOpportunistic => "REUSE_ALLOW_OPPORTUNISTIC",
            ReusePolicy::AllowInternalDependencies => "REUSE_ALLOW_INTERNAL_DEPENDENCIES",
        }
    }
}

/// 64-bit attributes. Source: `CUmemPool_attribute`.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Bytes {
    ReleaseThreshold = 4,
    ReservedCurrent = 5,
    ReservedHigh = 6,
    UsedCurrent = 7,
    UsedHigh = 8,
}

/// A memory pool of a device: its default pool, or one of our own.
///
/// # Contract
///
/// An allocation is usable by work that follows it in its stream, and its free takes effect there. At
/// a synchronise of a stream, an event or the context, the pool gives back to the operating system
/// what it holds beyond the release threshold, as far as nothing live is in the way. The threshold is
/// 0 in a pool that nobody touched.
#[derive(Debug)]
pub struct MemoryPool {
    raw: CUmemoryPool,
    owned: bool,
}

impl MemoryPool {
    /// The device's default pool, which other code in the process shares.
    ///
    /// # Errors
    ///
    /// The driver's refusal; not supported where the device has no pools.
    pub fn default_of(device: &Device) -> Result<MemoryPool> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is a valid place for a handle.
        let code = unsafe { api::cuDeviceGetDefaultMemPool(&raw mut raw, device.raw()) };
        check(Function::cuDeviceGetDefaultMemPool, code)?;
        Ok(MemoryPool { raw, owned: false })
    }

    /// A new pool on the device, with the driver's default attributes.
    ///
    /// # Errors
    ///
    /// The driver's refusal; not supported where the device has no pools.
    pub fn create(device: &Device) -> Result<MemoryPool> {
        let properties = CUmemPoolProps {
            allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
            location: CUmemLocation {
                type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: device.raw(),
            },
            win32SecurityAttributes: std::ptr::null_mut(),
            // Newer drivers read a maximum size and a usage here; zero means none.
            reserved: [0; 64],
        };
        let mut raw = std::ptr::null_mut();
        // SAFETY: both pointers are valid for the call.
        check(Function::cuMemPoolCreate, unsafe {
            api::cuMemPoolCreate(&raw mut raw, &raw const properties)
        })?;
        Ok(MemoryPool { raw, owned: true })
    }

    /// The pool that allocations take which name none. Like the default pool, it is not ours to destroy.
    ///
    /// # Errors
    ///
    /// The driver's refusal; not supported where the device has no pools.
    pub fn current_of(device: &Device) -> Result<MemoryPool> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is a valid place for a handle.
        let code = unsafe { api::cuDeviceGetMemPool(&raw mut raw, device.raw()) };
        check(Function::cuDeviceGetMemPool, code)?;
        Ok(MemoryPool { raw, owned: false })
    }

    /// Makes this the pool that allocations take which name none.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn make_current(&self, device: &Device) -> Result<()> {
        // SAFETY: the handle is live.
        check(Function::cuDeviceSetMemPool, unsafe {
            api::cuDeviceSetMemPool(device.raw(), self.raw)
        })
    }

    /// Whether both are the same pool of the driver's.
    #[must_use]
    pub fn is_same_as(&self, other: &MemoryPool) -> bool {
        self.raw == other.raw
    }

    /// Allocates from this pool, in stream order.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    #[inline]
    pub fn alloc(&self, stream: &Stream, size_bytes: usize) -> Result<DevicePtr> {
        let mut raw = 0;
        // SAFETY: the handles are live and `raw` is a valid place for an address.
        let code = unsafe { api::cuMemAllocFromPoolAsync(&raw mut raw, size_bytes, self.raw, stream.raw()) };
        check(Function::cuMemAllocFromPoolAsync, code)?;
        Ok(DevicePtr(raw))
    }

    /// Allocates from the device's current pool, in stream order.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    #[inline]
    pub fn alloc_from_current(stream: &Stream, size_bytes: usize) -> Result<DevicePtr> {
        let mut raw = 0;
        // SAFETY: the handle is live and `raw` is a valid place for an address.
        let code = unsafe { api::cuMemAllocAsync(&raw mut raw, size_bytes, stream.raw()) };
        check(Function::cuMemAllocAsync, code)?;
        Ok(DevicePtr(raw))
    }

    /// Frees what any pool handed out, in stream order.
    ///
    /// # Errors
    ///
    /// The driver's refusal, also of an address that no pool handed out.
    #[inline]
    pub fn free(stream: &Stream, pointer: DevicePtr) -> Result<()> {
        // SAFETY: the handle is live and the driver checks the address.
        check(Function::cuMemFreeAsync, unsafe {
            api::cuMemFreeAsync(pointer.raw(), stream.raw())
        })
    }

    /// Gives unused memory back until the pool holds no more than `keep_bytes`. Memory whose free the
    /// host has not seen complete stays.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn trim_to(&self, keep_bytes: usize) -> Result<()> {
        // SAFETY: the handle is live.
        check(Function::cuMemPoolTrimTo, unsafe {
            api::cuMemPoolTrimTo(self.raw, keep_bytes)
        })
    }

    /// What a synchronise lets the pool keep, in bytes.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn release_threshold_bytes(&self) -> Result<u64> {
        self.read_bytes(Bytes::ReleaseThreshold)
    }

    /// Sets what a synchronise lets the pool keep, and reads it back.
    ///
    /// # Errors
    ///
    /// The driver's refusal, or a value that does not read back.
    pub fn set_release_threshold_bytes(&self, bytes: u64) -> Result<()> {
        self.write_release_threshold_bytes(bytes)?;
        self.expect_release_threshold_bytes(bytes)
    }

    /// Sets what a synchronise lets the pool keep in one driver call, for those who time that call.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    #[inline]
    pub fn write_release_threshold_bytes(&self, bytes: u64) -> Result<()> {
        self.write_bytes(Bytes::ReleaseThreshold, bytes)
    }

    /// Reads back what a synchronise lets the pool keep.
    ///
    /// # Errors
    ///
    /// The driver's refusal, or another value than `bytes`.
    pub fn expect_release_threshold_bytes(&self, bytes: u64) -> Result<()> {
        let read = self.release_threshold_bytes()?;
        if read == bytes {
            Ok(())
        } else {
            Err(Error::ReadBack {
                attribute: "RELEASE_THRESHOLD",
                set: bytes,
                read,
            })
        }
    }

    /// What the pool holds of the operating system's memory, in bytes.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn reserved_bytes_current(&self) -> Result<u64> {
        self.read_bytes(Bytes::ReservedCurrent)
    }

    /// High watermark of [`reserved_bytes_current`](Self::reserved_bytes_current) since its reset.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn reserved_bytes_high(&self) -> Result<u64> {
        self.read_bytes(Bytes::ReservedHigh)
    }

    /// What is allocated from the pool, in bytes.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn used_bytes_current(&self) -> Result<u64> {
        self.read_bytes(Bytes::UsedCurrent)
    }

    /// High watermark of [`used_bytes_current`](Self::used_bytes_current) since its reset.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn used_bytes_high(&self) -> Result<u64> {
        self.read_bytes(Bytes::UsedHigh)
    }

    /// Resets both high watermarks to what is current.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn reset_high_watermarks(&self) -> Result<()> {
        self.write_bytes(Bytes::ReservedHigh, 0)?;
        self.write_bytes(Bytes::UsedHigh, 0)
    }

    /// Whether a reuse policy is on.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn reuse_policy(&self, policy: ReusePolicy) -> Result<bool> {
        let mut value = 0_i32;
        // SAFETY: the handle is live and the attribute is an int.
        let code = unsafe { api::cuMemPoolGetAttribute(self.raw, policy as u32, (&raw mut value).cast::<c_void>()) };
        check(Function::cuMemPoolGetAttribute, code)?;
        Ok(value != 0)
    }

    /// Turns a reuse policy on or off, and reads it back.
    ///
    /// # Errors
    ///
    /// The driver's refusal, or a value that does not read back.
    pub fn set_reuse_policy(&self, policy: ReusePolicy, on: bool) -> Result<()> {
        let mut value = i32::from(on);
        // SAFETY: the handle is live and the attribute is an int.
        let code = unsafe { api::cuMemPoolSetAttribute(self.raw, policy as u32, (&raw mut value).cast::<c_void>()) };
        check(Function::cuMemPoolSetAttribute, code)?;
        let read = self.reuse_policy(policy)?;
        if read == on {
            Ok(())
        } else {
            Err(Error::ReadBack {
                attribute: policy.name(),
                set: on.into(),
                read: read.into(),
            })
        }
    }

    fn read_bytes(&self, attribute: Bytes) -> Result<u64> {
        self.attribute(attribute as u32)
    }

    fn write_bytes(&self, attribute: Bytes, value: u64) -> Result<()> {
        self.set_attribute(attribute as u32, value)
    }

    /// The attribute of this number, also one that the driver may not know; of an attribute with 32 bits
    /// the upper half is 0.
    ///
    /// # Errors
    ///
    /// The driver's refusal. Source: `CUmemPool_attribute`.
    pub fn attribute(&self, number: u32) -> Result<u64> {
        let mut value = 0_u64;
        // SAFETY: the handle is live and no attribute has more than 64 bits.
        let code = unsafe { api::cuMemPoolGetAttribute(self.raw, number, (&raw mut value).cast::<c_void>()) };
        check(Function::cuMemPoolGetAttribute, code)?;
        Ok(value)
    }

    /// Sets the attribute of this number, and does not read it back.
    ///
    /// # Errors
    ///
    /// The driver's refusal. Source: `CUmemPool_attribute`.
    pub fn set_attribute(&self, number: u32, mut value: u64) -> Result<()> {
        // SAFETY: the handle is live and no attribute has more than 64 bits.
        let code = unsafe { api::cuMemPoolSetAttribute(self.raw, number, (&raw mut value).cast::<c_void>()) };
        check(Function::cuMemPoolSetAttribute, code)
    }

    fn destroy(&mut self) -> Result<()> {
        let raw = std::mem::replace(&mut self.raw, std::ptr::null_mut());
        if !self.owned || raw.is_null() {
            return Ok(());
        }
        // SAFETY: the handle was live and is forgotten.
        check(Function::cuMemPoolDestroy, unsafe { api::cuMemPoolDestroy(raw) })
    }

    /// Destroys a pool of our own; the default pool stays.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn close(mut self) -> Result<()> {
        self.destroy()
    }
}

impl Drop for MemoryPool {
    fn drop(&mut self) {
        report_failed_drop("memory pool", self.destroy());
    }
}
