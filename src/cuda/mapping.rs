//! Virtual memory management: addresses and memory apart.

use super::error::{Result, check, report_failed_drop};
use super::{Device, DevicePtr};
use crate::driver::{Function, api};
use cust::sys::{
    CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationHandleType, CUmemAllocationProp,
    CUmemAllocationProp_st__bindgen_ty_1, CUmemAllocationType, CUmemLocation, CUmemLocationType,
};

/// `CU_MEM_ALLOC_GRANULARITY_MINIMUM`.
const GRANULARITY_MINIMUM: u32 = 0;

fn location(device: &Device) -> CUmemLocation {
    CUmemLocation {
        type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        id: device.raw(),
    }
}

fn properties(device: &Device) -> CUmemAllocationProp {
    CUmemAllocationProp {
        type_: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: location(device),
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: CUmemAllocationProp_st__bindgen_ty_1::default(),
    }
}

/// What the sizes of mapped memory must be multiples of, in bytes.
///
/// # Errors
///
/// The driver's refusal; not supported where the device has no virtual memory management.
pub fn mapping_granularity_bytes(device: &Device) -> Result<usize> {
    let (mut bytes, properties) = (0_usize, properties(device));
    // SAFETY: both pointers are valid for the call.
    let code =
        unsafe { api::cuMemGetAllocationGranularity(&raw mut bytes, &raw const properties, GRANULARITY_MINIMUM) };
    check(Function::cuMemGetAllocationGranularity, code)?;
    Ok(bytes)
}

/// Memory mapped into a range of addresses of its own.
#[derive(Debug)]
pub struct MappedMemory {
    address: u64,
    size_bytes: usize,
    handle: Option<u64>,
    is_mapped: bool,
}

impl MappedMemory {
    /// Reserves addresses, creates memory, maps it there and makes it accessible to the device.
    /// `size_bytes` is a multiple of [`mapping_granularity_bytes`].
    ///
    /// # Errors
    ///
    /// The first call that the driver refuses; what was made before it is given back.
    pub fn map(device: &Device, size_bytes: usize) -> Result<MappedMemory> {
        let mut address = 0;
        // SAFETY: `address` is a valid place for an address.
        let code = unsafe { api::cuMemAddressReserve(&raw mut address, size_bytes, 0, 0, 0) };
        check(Function::cuMemAddressReserve, code)?;
        let mut memory = MappedMemory {
            address,
            size_bytes,
            handle: None,
            is_mapped: false,
        };
        let (mut handle, properties) = (0, properties(device));
        // SAFETY: both pointers are valid for the call.
        let code = unsafe { api::cuMemCreate(&raw mut handle, size_bytes, &raw const properties, 0) };
        check(Function::cuMemCreate, code)?;
        memory.handle = Some(handle);
        // SAFETY: the range was just reserved and the handle is live.
        check(Function::cuMemMap, unsafe {
            api::cuMemMap(address, size_bytes, 0, handle, 0)
        })?;
        memory.is_mapped = true;
        let access = CUmemAccessDesc {
            location: location(device),
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the range is mapped and `access` is one description.
        let code = unsafe { api::cuMemSetAccess(address, size_bytes, &raw const access, 1) };
        check(Function::cuMemSetAccess, code)?;
        Ok(memory)
    }

    /// Where the memory is.
    #[must_use]
    pub fn pointer(&self) -> DevicePtr {
        DevicePtr(self.address)
    }

    /// Gives back what there is, in order, and returns the first refusal.
    fn release(&mut self) -> Result<()> {
        let (address, size_bytes) = (std::mem::take(&mut self.address), self.size_bytes);
        if address == 0 {
            return Ok(());
        }
        let unmapped = if std::mem::take(&mut self.is_mapped) {
            // SAFETY: the range is mapped.
            check(Function::cuMemUnmap, unsafe { api::cuMemUnmap(address, size_bytes) })
        } else {
            Ok(())
        };
        let released = self.handle.take().map_or(Ok(()), |handle| {
            // SAFETY: the handle was live and is forgotten.
            check(Function::cuMemRelease, unsafe { api::cuMemRelease(handle) })
        });
        // SAFETY: the range was reserved and is forgotten.
        let freed = check(Function::cuMemAddressFree, unsafe {
            api::cuMemAddressFree(address, size_bytes)
        });
        unmapped.and(released).and(freed)
    }

    /// Unmaps the memory and gives memory and addresses back. Does not wait for the device.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn close(mut self) -> Result<()> {
        self.release()
    }
}

impl Drop for MappedMemory {
    fn drop(&mut self) {
        report_failed_drop("mapping", self.release());
    }
}
