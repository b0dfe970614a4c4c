//! Copies and sets: in a stream, or, where the caller need not order them, in the legacy default
//! stream.
//!
//! A GPU's pools take no note of the waiting of the latter, and neither do these.

use super::api::{answer, number};
use super::device::{DEVICE, HostDevice};
use super::stream::{Clock, HostTarget, Operation, Stream};
use crate::driver::Code;
use cust::sys::{CUdeviceptr, CUstream};
use std::ffi::{c_int, c_uchar, c_uint, c_ushort, c_void};
use std::ptr;
use std::sync::Arc;

implement! {
    cuMemcpyHtoDAsync_v2, cuMemcpyDtoHAsync_v2, cuMemcpyDtoDAsync_v2, cuMemsetD8Async, cuMemsetD16Async, cuMemsetD32Async,
    cuMemcpyHtoD_v2, cuMemcpyDtoH_v2, cuMemcpyDtoD_v2, cuMemsetD8_v2, cuMemsetD16_v2, cuMemsetD32_v2,
}

/// Submits work on ranges of one size, each of which must be allocated now, as the driver checks it.
/// Returns the stream that will run it, `None` where there is nothing to do or it was captured.
fn submit_on(
    stream: CUstream,
    addresses: &[CUdeviceptr],
    size_bytes: u64,
    operation: impl FnOnce() -> Operation,
) -> Result<Option<Arc<Stream>>, Code> {
    HostDevice::check_context()?;
    let stream = number(stream);
    if size_bytes == 0 {
        return DEVICE.ordered_stream(stream).map(|_| None);
    }
    for address in addresses {
        if !DEVICE.can_use(stream, *address, size_bytes)? {
            return Err(Code::INVALID_VALUE);
        }
    }
    DEVICE.submit(stream, operation())
}

unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    target: CUdeviceptr,
    source: *const c_void,
    size_bytes: usize,
    stream: CUstream,
) -> c_int {
    if source.is_null() && size_bytes != 0 {
        return Code::INVALID_VALUE.0;
    }
    // Bytes staged now would be those of the capture, not those of the launch.
    if DEVICE.capture_status(number(stream)) == Ok(1) {
        return Code::NOT_SUPPORTED.0;
    }
    let submitted = submit_on(stream, &[target], size_bytes as u64, || {
        // Pageable memory is staged before the call returns.
        // SAFETY: the caller's source holds as many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(source.cast::<u8>(), size_bytes) };
        Operation::CopyFromHost {
            target,
            bytes: bytes.into(),
        }
    });
    answer(submitted.map(drop))
}

unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    target: *mut c_void,
    source: CUdeviceptr,
    size_bytes: usize,
    stream: CUstream,
) -> c_int {
    if target.is_null() && size_bytes != 0 {
        return Code::INVALID_VALUE.0;
    }
    let host = HostTarget {
        pointer: target.cast::<u8>(),
        size_bytes: size_bytes as u64,
    };
    let submitted = submit_on(stream, &[source], size_bytes as u64, || Operation::CopyToHost {
        source,
        target: host,
    });
    // A copy to pageable memory is complete when the call returns; pools take no note of it.
    let completed =
        submitted.and_then(|stream| stream.map_or_else(|| Ok(Clock::default()), |stream| stream.synchronize()));
    answer(completed.map(drop))
}

unsafe extern "C" fn cuMemcpyDtoDAsync_v2(
    target: CUdeviceptr,
    source: CUdeviceptr,
    size_bytes: usize,
    stream: CUstream,
) -> c_int {
    let size_bytes = size_bytes as u64;
    let submitted = submit_on(stream, &[source, target], size_bytes, || Operation::CopyOnDevice {
        target,
        source,
        size_bytes,
    });
    answer(submitted.map(drop))
}

unsafe extern "C" fn cuMemsetD8Async(target: CUdeviceptr, value: c_uchar, count: usize, stream: CUstream) -> c_int {
    let size_bytes = count as u64;
    let submitted = submit_on(stream, &[target], size_bytes, || Operation::SetBytes {
        target,
        value,
        size_bytes,
    });
    answer(submitted.map(drop))
}

unsafe extern "C" fn cuMemsetD32Async(target: CUdeviceptr, value: c_uint, count: usize, stream: CUstream) -> c_int {
    let words = count as u64;
    let Some(size_bytes) = words.checked_mul(4).filter(|_| target.is_multiple_of(4)) else {
        return Code::INVALID_VALUE.0;
    };
    let submitted = submit_on(stream, &[target], size_bytes, || Operation::SetWords {
        target,
        value,
        words,
    });
    answer(submitted.map(drop))
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
