//! Page-locked host memory: on the host device, memory like any other.

use super::api::put;
use super::device::{DEVICE, HostDevice};
use crate::driver::Code;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

implement! { cuMemAllocHost_v2, cuMemFreeHost }

const ALIGNMENT_BYTES: usize = 4096;

/// What was handed out, by address.
static ALLOCATIONS: Mutex<BTreeMap<usize, Layout>> = Mutex::new(BTreeMap::new());

fn allocations() -> MutexGuard<'static, BTreeMap<usize, Layout>> {
    ALLOCATIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How much page-locked memory there is, in pieces.
pub(super) fn n_live() -> usize {
    allocations().len()
}

/// Frees what nobody freed.
#[cfg(feature = "fault-injection")]
pub(super) fn free_all() {
    for (address, layout) in std::mem::take(&mut *allocations()) {
        let pointer: *mut u8 = std::ptr::with_exposed_provenance_mut(address);
        // SAFETY: the memory was handed out with this layout, and nothing that lives knows it any more.
        unsafe { dealloc(pointer, layout) };
    }
}

/// Both calls need a context, and are unsafe beside a capture.
fn check_call() -> Result<(), Code> {
    HostDevice::check_context()?;
    DEVICE.beside_no_capture().map(drop)
}

fn layout(size_bytes: usize) -> Result<Layout, Code> {
    check_call()?;
    if size_bytes == 0 {
        return Err(Code::INVALID_VALUE);
    }
    Layout::from_size_align(size_bytes, ALIGNMENT_BYTES).map_err(|_| Code::OUT_OF_MEMORY)
}

unsafe extern "C" fn cuMemAllocHost_v2(place: *mut *mut c_void, size_bytes: usize) -> c_int {
    let layout = match layout(size_bytes) {
        Ok(layout) if !place.is_null() => layout,
        Ok(_) => return Code::INVALID_VALUE.0,
        Err(code) => return code.0,
    };
    // SAFETY: the layout is not empty.
    let pointer = unsafe { alloc_zeroed(layout) };
    if pointer.is_null() {
        return Code::OUT_OF_MEMORY.0;
    }
    allocations().insert(pointer.expose_provenance(), layout);
    // SAFETY: the caller's pointer.
    unsafe { put(place, Ok(pointer.cast::<c_void>())) }
}

unsafe extern "C" fn cuMemFreeHost(pointer: *mut c_void) -> c_int {
    if let Err(code) = check_call() {
        return code.0;
    }
    let Some(layout) = allocations().remove(&pointer.addr()) else {
        return Code::INVALID_VALUE.0;
    };
    // SAFETY: this call handed the memory out with this layout, and forgets it.
    unsafe { dealloc(pointer.cast::<u8>(), layout) };
    0
}
