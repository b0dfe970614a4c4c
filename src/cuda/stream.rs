//! Streams: non-blocking ones, and the two kinds that order themselves with each other.

use super::error::{Result, check, report_failed_drop};
use super::{DevicePtr, Event};
use crate::driver::{Code, Function, api};
use cust::sys::CUstream;
use std::ffi::c_void;

/// `CU_STREAM_NON_BLOCKING`: no ordering with the legacy default stream.
const NON_BLOCKING: u32 = 1;

/// A stream; unless made otherwise, one that does not order itself with the legacy default stream.
///
/// cust's `Stream` is not used: it clears the flag, for the sake of pageable copies on the default
/// stream. Here every copy is ordered in a stream, so the reason does not apply.
#[derive(Debug)]
pub struct Stream {
    raw: CUstream,
}

impl Stream {
    /// Makes a stream on the current device.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn new() -> Result<Stream> {
        Stream::with_flags(NON_BLOCKING)
    }

    /// Makes a stream that waits for the legacy default stream, and that stream for it.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn blocking() -> Result<Stream> {
        Stream::with_flags(0)
    }

    /// The legacy default stream, which is the context's own.
    #[must_use]
    pub fn legacy_default() -> Stream {
        Stream {
            raw: std::ptr::null_mut(),
        }
    }

    fn with_flags(flags: u32) -> Result<Stream> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is a valid place for a handle.
        check(Function::cuStreamCreate, unsafe {
            api::cuStreamCreate(&raw mut raw, flags)
        })?;
        Ok(Stream { raw })
    }

    #[inline]
    pub(crate) fn raw(&self) -> CUstream {
        self.raw
    }

    /// Waits for everything submitted to the stream. Pools look at their release threshold here.
    ///
    /// # Errors
    ///
    /// An earlier asynchronous failure.
    #[inline]
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the handle is live.
        check(Function::cuStreamSynchronize, unsafe {
            api::cuStreamSynchronize(self.raw)
        })
    }

    /// Whether everything submitted to the stream has run.
    ///
    /// # Errors
    ///
    /// An earlier asynchronous failure.
    pub fn is_idle(&self) -> Result<bool> {
        // SAFETY: the handle is live.
        let code = unsafe { api::cuStreamQuery(self.raw) };
        if code == Code::NOT_READY.0 {
            return Ok(false);
        }
        check(Function::cuStreamQuery, code).map(|()| true)
    }

    /// Makes what is submitted from now on wait for what `event` recorded.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        // SAFETY: both handles are live.
        check(Function::cuStreamWaitEvent, unsafe {
            api::cuStreamWaitEvent(self.raw, event.raw(), 0)
        })
    }

    /// Copies `source` to device memory and waits for it.
    ///
    /// # Errors
    ///
    /// The driver's refusal. The target must hold as many elements, which is the caller's part.
    pub fn copy_to_device(&self, target: DevicePtr, source: &[f32]) -> Result<()> {
        // SAFETY: the driver checks the target; `source` outlives the copy, which is waited for.
        let code = unsafe {
            api::cuMemcpyHtoDAsync_v2(
                target.raw(),
                source.as_ptr().cast::<c_void>(),
                size_of_val(source),
                self.raw,
            )
        };
        check(Function::cuMemcpyHtoDAsync_v2, code)?;
        self.synchronize()
    }

    /// Copies device memory to `target` and waits for it.
    ///
    /// # Errors
    ///
    /// The driver's refusal. The source must hold as many elements, which is the caller's part.
    pub fn copy_to_host(&self, target: &mut [f32], source: DevicePtr) -> Result<()> {
        // SAFETY: the driver checks the source; `target` outlives the copy, which is waited for.
        let code = unsafe {
            api::cuMemcpyDtoHAsync_v2(
                target.as_mut_ptr().cast::<c_void>(),
                source.raw(),
                size_of_val(target),
                self.raw,
            )
        };
        check(Function::cuMemcpyDtoHAsync_v2, code)?;
        self.synchronize()
    }

    /// Copies between two places in device memory, in stream order.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn copy_on_device(&self, target: DevicePtr, source: DevicePtr, size_bytes: usize) -> Result<()> {
        // SAFETY: the driver checks both ranges.
        let code = unsafe { api::cuMemcpyDtoDAsync_v2(target.raw(), source.raw(), size_bytes, self.raw) };
        check(Function::cuMemcpyDtoDAsync_v2, code)
    }

    /// Sets `words` 32-bit words of device memory, in stream order.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn set_words(&self, target: DevicePtr, value: u32, words: usize) -> Result<()> {
        // SAFETY: the driver checks the range.
        let code = unsafe { api::cuMemsetD32Async(target.raw(), value, words, self.raw) };
        check(Function::cuMemsetD32Async, code)
    }

    fn destroy(&mut self) -> Result<()> {
        if self.raw.is_null() {
            return Ok(());
        }
        let raw = std::mem::replace(&mut self.raw, std::ptr::null_mut());
        // SAFETY: the handle was live and is forgotten.
        check(Function::cuStreamDestroy_v2, unsafe { api::cuStreamDestroy_v2(raw) })
    }

    /// Destroys the stream. Work in it still runs to its end.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn close(mut self) -> Result<()> {
        self.destroy()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        report_failed_drop("stream", self.destroy());
    }
}
