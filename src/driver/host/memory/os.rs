//! The operating system's calls. Nothing here is known to Rust: ranges lie outside every allocation.

use crate::driver::Code;
use libc::{
    MADV_NOHUGEPAGE, MAP_ANONYMOUS, MAP_FAILED, MAP_FIXED, MAP_NORESERVE, MAP_PRIVATE, MREMAP_DONTUNMAP, MREMAP_FIXED,
    MREMAP_MAYMOVE, PROT_NONE, PROT_READ, PROT_WRITE,
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

/// Moves mapped memory to addresses that are reserved, and reserves those that it leaves. All of both ranges
/// stays mapped all the while: in a gap another thread's mapping, such as its stack, could land, which the next
/// mapping here would replace.
pub(super) fn relocate(from: u64, to: u64, size_bytes: u64) -> Result<(), Code> {
    if !remap(from, to, size_bytes) {
        copy(from, to, size_bytes)?;
    }
    reserve_fixed(from, size_bytes);
    Ok(())
}

/// Moves the pages, and leaves fresh ones where they were; false where the system does not, and nothing moved.
fn remap(from: u64, to: u64, size_bytes: u64) -> bool {
    let size = size_bytes as usize;
    let flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
    // SAFETY: the ranges do not overlap, and both lie in reservations of ours, which Rust knows nothing of: no
    // reference leads into the one, and what the other loses is a mapping that nothing uses.
    let moved = unsafe { libc::mremap(at(from), size, size, flags, at(to)) };
    moved != MAP_FAILED
}

/// Moves the contents, which takes longer and for a moment twice the memory, where the pages cannot be moved:
/// Linux before 5.7 knows no way that leaves no gap.
fn copy(from: u64, to: u64, size_bytes: u64) -> Result<(), Code> {
    if let Err(code) = map_fixed(to, size_bytes) {
        // A system that is short of memory may have let go of these addresses before it refused to move
        // anything to them.
        reserve_fixed(to, size_bytes);
        return Err(code);
    }
    let source = ptr::with_exposed_provenance::<u8>(from as usize);
    let target = ptr::with_exposed_provenance_mut::<u8>(to as usize);
    // SAFETY: both ranges are mapped, the one for reading and the other for writing, for this many bytes, and do
    // not overlap; the caller has them to itself.
    unsafe { ptr::copy_nonoverlapping(source, target, size_bytes as usize) };
    Ok(())
}

pub(super) fn unmap(address: u64, size_bytes: u64) {
    // SAFETY: the range is a mapping of ours that nothing uses any more.
    unsafe { libc::munmap(at(address), size_bytes as usize) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    const SIZE_BYTES: u64 = 16 << 20;

    /// Another thread maps as much, over and over, wherever the system likes; a gap would be the place.
    #[test]
    fn what_is_moved_leaves_no_gap_for_others() {
        let base = reserve_anywhere(2 * SIZE_BYTES).expect("addresses are free");
        let (first, second) = (base, base + SIZE_BYTES);
        let done = AtomicBool::new(false);
        let landed = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let mut landed = Vec::new();
                while !done.load(Ordering::Relaxed) {
                    let address = reserve_anywhere(SIZE_BYTES).expect("addresses are free");
                    if address < base + 2 * SIZE_BYTES && base < address + SIZE_BYTES {
                        // It stays: what is moved next takes its place.
                        landed.push(address);
                    } else {
                        unmap(address, SIZE_BYTES);
                    }
                }
                landed
            });
            map_fixed(first, SIZE_BYTES).expect("it is reserved");
            for _ in 0..2000 {
                relocate(first, second, SIZE_BYTES).expect("it is reserved");
                relocate(second, first, SIZE_BYTES).expect("it is reserved");
            }
            done.store(true, Ordering::Relaxed);
            other.join().expect("it ends")
        });
        unmap(base, 2 * SIZE_BYTES);
        assert!(landed.is_empty(), "inside a reservation: {landed:x?}");
    }

    /// As on a system that cannot move pages without a gap.
    #[test]
    fn contents_are_copied_where_pages_cannot_be_moved() {
        let base = reserve_anywhere(2 * 4096).expect("addresses are free");
        map_fixed(base, 4096).expect("it is reserved");
        let byte = |address: u64| ptr::with_exposed_provenance_mut::<u8>(address as usize);
        // SAFETY: the page is mapped.
        unsafe { byte(base + 7).write(42) };
        copy(base, base + 4096, 4096).expect("it is reserved");
        // SAFETY: the page is mapped.
        let read = unsafe { byte(base + 4096 + 7).read() };
        assert_eq!(read, 42);
        unmap(base, 2 * 4096);
    }
}
