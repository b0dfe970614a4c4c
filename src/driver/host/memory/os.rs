//! The operating system's calls. Nothing here is known to Rust: ranges lie outside every allocation.

use crate::driver::Code;
use libc::{
    MADV_NOHUGEPAGE, MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED, MAP_NORESERVE, MAP_PRIVATE, MREMAP_FIXED, MREMAP_MAYMOVE,
    PROT_NONE, PROT_READ, PROT_WRITE,
};
use std::ffi::c_void;
use std::ptr;

fn at(address: u64) -> *mut c_void {
    ptr::with_exposed_provenance_mut(address as usize)
}

fn mmap(address: u64, size_bytes: u64, protection: i32, flags: i32) -> Result<u64, Code> {
    // SAFETY: an anonymous mapping, at an address of the system's choice or inside a reservation of
    // ours, replaces nothing that Rust knows of.
    let mapped = unsafe {
        libc::mmap(
            at(address),
            size_bytes as usize,
            protection,
            MAP_PRIVATE | MAP_ANONYMOUS | flags,
            -1,
            0,
        )
    };
    if mapped == MAP_FAILED {
        Err(Code::OUT_OF_MEMORY)
    } else {
        Ok(mapped.expose_provenance() as u64)
    }
}

/// With huge pages a fresh mapping costs next to nothing, or a lot, as the kernel pleases.
fn without_huge_pages(address: u64, size_bytes: u64) {
    // SAFETY: advice about a mapping that was just made. A kernel without huge pages refuses it,
    // which is as good.
    unsafe { libc::madvise(at(address), size_bytes as usize, MADV_NOHUGEPAGE) };
}

pub(super) fn map_anywhere(size_bytes: u64) -> Result<u64, Code> {
    let address = mmap(0, size_bytes, PROT_READ | PROT_WRITE, 0)?;
    without_huge_pages(address, size_bytes);
    Ok(address)
}

pub(super) fn map_fixed(address: u64, size_bytes: u64) -> Result<u64, Code> {
    mmap(address, size_bytes, PROT_READ | PROT_WRITE, MAP_FIXED)?;
    without_huge_pages(address, size_bytes);
    Ok(address)
}

pub(super) fn reserve_anywhere(size_bytes: u64) -> Result<u64, Code> {
    mmap(0, size_bytes, PROT_NONE, MAP_NORESERVE)
}

/// Gives the memory of a range back and keeps its addresses.
pub(super) fn reserve_fixed(address: u64, size_bytes: u64) {
    // Shrinking a range never needs memory; if the system refuses all the same, the range stays as
    // it is until the reservation ends.
    let _ = mmap(address, size_bytes, PROT_NONE, MAP_NORESERVE | MAP_FIXED);
}

pub(super) fn relocate(from: u64, to: u64, size_bytes: u64) -> Result<(), Code> {
    let size = size_bytes as usize;
    // SAFETY: both ranges lie in reservations of ours.
    let moved = unsafe { libc::mremap(at(from), size, size, MREMAP_MAYMOVE | MREMAP_FIXED, at(to)) };
    if moved == MAP_FAILED {
        Err(Code::OUT_OF_MEMORY)
    } else {
        Ok(())
    }
}

pub(super) fn unmap(address: u64, size_bytes: u64) {
    // SAFETY: the range is a mapping of ours that nothing uses any more.
    unsafe { libc::munmap(at(address), size_bytes as usize) };
}
