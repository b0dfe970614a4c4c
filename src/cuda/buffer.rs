//! Device memory by the synchronous calls.

use super::Stream;
use super::error::{Result, check, report_failed_drop, through_cust};
use crate::driver::{Function, api};

/// An address in device memory: one that an allocation returned, or an offset from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DevicePtr(pub(super) u64);

impl DevicePtr {
    /// The address that nothing has.
    pub const NULL: DevicePtr = DevicePtr(0);

    pub(crate) fn raw(self) -> u64 {
        self.0
    }

    /// The address as a number.
    #[must_use]
    pub fn address(self) -> u64 {
        self.0
    }

    /// The address `bytes` further on.
    #[must_use]
    pub fn offset(self, bytes: u64) -> DevicePtr {
        DevicePtr(self.0 + bytes)
    }
}

/// `cuMemAlloc`: memory that is ready when the call returns.
///
/// # Errors
///
/// The driver's refusal.
#[inline]
pub fn alloc_plain(size_bytes: usize) -> Result<DevicePtr> {
    let mut raw = 0;
    // SAFETY: `raw` is a valid place for an address.
    check(Function::cuMemAlloc_v2, unsafe {
        api::cuMemAlloc_v2(&raw mut raw, size_bytes)
    })?;
    Ok(DevicePtr(raw))
}

/// `CU_MEM_ATTACH_GLOBAL`: accessible from every stream.
const ATTACH_GLOBAL: u32 = 1;

/// `cuMemAllocManaged`: memory that host and device share and that moves to whoever touches it.
///
/// # Errors
///
/// The driver's refusal. More than what is free is not refused, and must not be asked for.
#[inline]
pub fn alloc_managed(size_bytes: usize) -> Result<DevicePtr> {
    let mut raw = 0;
    // SAFETY: `raw` is a valid place for an address.
    let code = unsafe { api::cuMemAllocManaged(&raw mut raw, size_bytes, ATTACH_GLOBAL) };
    check(Function::cuMemAllocManaged, code)?;
    Ok(DevicePtr(raw))
}

/// `cuMemFree`: gives memory back, after the device has come to rest.
///
/// # Errors
///
/// The driver's refusal, also of an address that it did not hand out.
#[inline]
pub fn free_plain(pointer: DevicePtr) -> Result<()> {
    // SAFETY: the driver checks the address.
    check(Function::cuMemFree_v2, unsafe { api::cuMemFree_v2(pointer.raw()) })
}

/// A buffer of `f32` elements that lives across the loop.
pub struct DeviceBuffer {
    inner: Option<cust::memory::DeviceBuffer<f32>>,
}

impl DeviceBuffer {
    /// Allocates `length` elements, at least one, and does not set them.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn uninitialized(length: usize) -> Result<DeviceBuffer> {
        let inner = through_cust(Function::cuMemAlloc_v2, || {
            // SAFETY: device memory is only read after it was written, by the kernels or a copy.
            unsafe { cust::memory::DeviceBuffer::<f32>::uninitialized(length.max(1)) }
        })?;
        Ok(DeviceBuffer { inner: Some(inner) })
    }

    /// Allocates a buffer with these elements.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn from_slice(stream: &Stream, elements: &[f32]) -> Result<DeviceBuffer> {
        let buffer = DeviceBuffer::uninitialized(elements.len())?;
        stream.copy_to_device(buffer.pointer(), elements)?;
        Ok(buffer)
    }

    fn inner(&self) -> &cust::memory::DeviceBuffer<f32> {
        self.inner.as_ref().expect("taken only when the buffer ends")
    }

    /// Where the buffer begins.
    #[must_use]
    pub fn pointer(&self) -> DevicePtr {
        DevicePtr(self.inner().as_device_ptr().as_raw())
    }

    /// Number of elements.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a buffer is never empty")]
    pub fn len(&self) -> usize {
        self.inner().len()
    }

    /// The elements, after everything in `stream`.
    ///
    /// # Errors
    ///
    /// The driver's refusal, or an earlier asynchronous failure.
    pub fn to_vec(&self, stream: &Stream) -> Result<Vec<f32>> {
        let mut elements = vec![0.0; self.len()];
        stream.copy_to_host(&mut elements, self.pointer())?;
        Ok(elements)
    }

    fn free(&mut self) -> Result<()> {
        let Some(inner) = self.inner.take() else { return Ok(()) };
        through_cust(Function::cuMemFree_v2, || {
            cust::memory::DeviceBuffer::drop(inner).map_err(|(error, buffer)| {
                // A second attempt from its destructor would only fail again.
                std::mem::forget(buffer);
                error
            })
        })
    }

    /// Frees the buffer.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn close(mut self) -> Result<()> {
        self.free()
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        report_failed_drop("device buffer", self.free());
    }
}
