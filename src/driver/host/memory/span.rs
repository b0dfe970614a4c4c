//! Ranges of device memory that are in use.

use super::Memory;
use std::ptr;

/// A checked range of device memory that stays mapped while this lives.
pub(in crate::driver::host) struct Span<'a> {
    pub(super) address: u64,
    pub(in crate::driver::host) size_bytes: u64,
    pub(super) memory: &'a Memory,
}

impl Drop for Span<'_> {
    fn drop(&mut self) {
        let mut state = self.memory.state();
        let pin = (self.address, self.address + self.size_bytes);
        if let Some(index) = state.pinned.iter().position(|pinned| *pinned == pin) {
            state.pinned.swap_remove(index);
        }
        drop(state);
        self.memory.unpinned.notify_all();
    }
}

impl Span<'_> {
    fn pointer<T>(&self) -> *mut T {
        ptr::with_exposed_provenance_mut(self.address as usize)
    }

    fn len(&self) -> usize {
        self.size_bytes as usize
    }

    /// Copies `bytes` here. Both are as long.
    pub(in crate::driver::host) fn write(&self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.len());
        // SAFETY: the span is mapped and as long as `bytes`, which no mapping of the device overlaps.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.pointer(), self.len()) }
    }

    /// Copies the span to host memory.
    ///
    /// # Safety
    ///
    /// `target` is valid for writing as many bytes.
    pub(in crate::driver::host) unsafe fn read_to(&self, target: *mut u8) {
        // SAFETY: the span is mapped; the caller answers for the target.
        unsafe { ptr::copy_nonoverlapping(self.pointer(), target, self.len()) }
    }

    /// Copies the span to one that is as long, and that may overlap it.
    pub(in crate::driver::host) fn copy_to(&self, target: &Span<'_>) {
        assert_eq!(self.size_bytes, target.size_bytes);
        // SAFETY: both spans are mapped for this many bytes, and `copy` allows an overlap.
        unsafe { ptr::copy(self.pointer::<u8>(), target.pointer(), self.len()) }
    }

    /// Sets every byte.
    pub(in crate::driver::host) fn set(&self, value: u8) {
        // SAFETY: the span is mapped for as many bytes.
        unsafe { self.pointer::<u8>().write_bytes(value, self.len()) }
    }

    /// The span as elements of a plain type.
    pub(in crate::driver::host) fn elements<T: Copy>(&self) -> Elements<'_, T> {
        Elements {
            pointer: self.pointer(),
            length: self.len() / size_of::<T>(),
            _span: std::marker::PhantomData,
        }
    }
}

/// A span as elements of a plain type.
///
/// Streams are threads: two that use the same memory without an order race, as they would on a GPU.
pub(in crate::driver::host) struct Elements<'a, T> {
    pointer: *mut T,
    pub(in crate::driver::host) length: usize,
    _span: std::marker::PhantomData<&'a ()>,
}

impl<T: Copy> Elements<'_, T> {
    #[inline(always)]
    pub(in crate::driver::host) fn get(&self, index: usize) -> T {
        debug_assert!(index < self.length);
        // SAFETY: the address is inside the span.
        let address = unsafe { self.pointer.add(index) };
        // SAFETY: every bit pattern is a value of the plain types used here, and pages start zeroed.
        unsafe { address.read_unaligned() }
    }

    #[inline(always)]
    pub(in crate::driver::host) fn set(&self, index: usize, value: T) {
        debug_assert!(index < self.length);
        // SAFETY: the address is inside the span.
        let address = unsafe { self.pointer.add(index) };
        // SAFETY: the span is mapped for writing.
        unsafe { address.write_unaligned(value) }
    }
}
