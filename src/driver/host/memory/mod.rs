//! The host device's memory: mapped and unmapped with the operating system, so that giving memory
//! back and getting it again costs real time.

use crate::driver::Code;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

mod os;
mod span;

pub(super) use span::Span;

/// The step in which memory is mapped.
pub(super) const PAGE_BYTES: u64 = 4096;

/// All mappings, and how much of the device's capacity they take.
#[derive(Debug)]
pub(super) struct Memory {
    state: Mutex<State>,
    unpinned: Condvar,
    capacity_bytes: u64,
}

#[derive(Debug, Default)]
struct State {
    /// Mapped ranges, start to end; ranges that touch are one.
    mapped: BTreeMap<u64, u64>,
    mapped_bytes: u64,
    /// Ranges that operations are using, start and end. Unmapping waits for them.
    pinned: Vec<(u64, u64)>,
}

impl Memory {
    pub(super) fn with_capacity(capacity_bytes: u64) -> Memory {
        Memory {
            state: Mutex::default(),
            unpinned: Condvar::new(),
            capacity_bytes,
        }
    }

    pub(super) fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.capacity_bytes - self.state().mapped_bytes
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maps `size_bytes` (rounded up to a page) at an address of the system's choice.
    pub(super) fn map(&self, size_bytes: u64) -> Result<u64, Code> {
        let size_bytes = page_multiple(size_bytes)?;
        self.map_with(size_bytes, || os::map_anywhere(size_bytes))
    }

    /// Maps `size_bytes` at `address`, inside a reservation.
    pub(super) fn map_at(&self, address: u64, size_bytes: u64) -> Result<(), Code> {
        self.map_with(size_bytes, || os::map_fixed(address, size_bytes))
            .map(drop)
    }

    /// The capacity is checked here because the operating system would not refuse: it would kill.
    fn map_with(&self, size_bytes: u64, map: impl FnOnce() -> Result<u64, Code>) -> Result<u64, Code> {
        let mut state = self.state();
        let after = state
            .mapped_bytes
            .checked_add(size_bytes)
            .filter(|after| *after <= self.capacity_bytes);
        let after = after.ok_or(Code::OUT_OF_MEMORY)?;
        let address = map()?;
        state.mapped_bytes = after;
        state.insert(address, address + size_bytes);
        Ok(address)
    }

    /// Unmaps what [`map`](Memory::map) mapped.
    pub(super) fn unmap(&self, address: u64, size_bytes: u64) {
        let size_bytes = size_bytes.next_multiple_of(PAGE_BYTES);
        let mut state = self.exclusive(address, size_bytes);
        state.remove(address, address + size_bytes);
        os::unmap(address, size_bytes);
    }

    /// Unmaps what [`map_at`](Memory::map_at) mapped; the reservation stays.
    pub(super) fn unmap_at(&self, address: u64, size_bytes: u64) {
        let mut state = self.exclusive(address, size_bytes);
        state.remove(address, address + size_bytes);
        os::reserve_fixed(address, size_bytes);
    }

    /// Moves mapped memory to another place of a reservation; the one that it leaves stays reserved.
    pub(super) fn relocate(&self, from: u64, to: u64, size_bytes: u64) -> Result<(), Code> {
        let mut state = self.exclusive(from, size_bytes);
        os::relocate(from, to, size_bytes)?;
        state.remove(from, from + size_bytes);
        state.mapped_bytes += size_bytes;
        state.insert(to, to + size_bytes);
        Ok(())
    }

    /// Waits until no operation uses the range.
    fn exclusive(&self, address: u64, size_bytes: u64) -> MutexGuard<'_, State> {
        let (start, end) = (address, address + size_bytes);
        let in_use = |state: &mut State| state.pinned.iter().any(|(from, to)| *from < end && start < *to);
        self.unpinned
            .wait_while(self.state(), in_use)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The range, if all of it is mapped; otherwise what a GPU reports for a stray access.
    pub(super) fn span(&self, address: u64, size_bytes: u64) -> Result<Span<'_>, Code> {
        let end = address.checked_add(size_bytes).ok_or(Code::ILLEGAL_ADDRESS)?;
        let mut state = self.state();
        // A kernel that was given no elements touches nothing.
        if size_bytes != 0 && !state.contains(address, end) {
            return Err(Code::ILLEGAL_ADDRESS);
        }
        state.pinned.push((address, end));
        Ok(Span {
            address,
            size_bytes,
            memory: self,
        })
    }

    /// Whether all of a range is mapped.
    pub(super) fn contains(&self, address: u64, size_bytes: u64) -> bool {
        address
            .checked_add(size_bytes)
            .is_some_and(|end| self.state().contains(address, end))
    }
}

impl State {
    fn contains(&self, start: u64, end: u64) -> bool {
        self.mapped
            .range(..=start)
            .next_back()
            .is_some_and(|(_, mapped_end)| end <= *mapped_end)
    }

    fn insert(&mut self, mut start: u64, mut end: u64) {
        if let Some((&before, &before_end)) = self.mapped.range(..start).next_back()
            && before_end == start
        {
            start = before;
        }
        if let Some(after_end) = self.mapped.remove(&end) {
            end = after_end;
        }
        self.mapped.insert(start, end);
    }

    fn remove(&mut self, start: u64, end: u64) {
        let Some((&range_start, &range_end)) = self.mapped.range(..=start).next_back() else {
            return;
        };
        self.mapped.remove(&range_start);
        if range_start < start {
            self.mapped.insert(range_start, start);
        }
        if end < range_end {
            self.mapped.insert(end, range_end);
        }
        self.mapped_bytes -= end - start;
    }
}

fn page_multiple(size_bytes: u64) -> Result<u64, Code> {
    size_bytes
        .checked_next_multiple_of(PAGE_BYTES)
        .filter(|size| i64::try_from(*size).is_ok())
        .ok_or(Code::OUT_OF_MEMORY)
}

/// A range of addresses without memory; pools and virtual memory management map into it.
#[derive(Debug)]
pub(super) struct Reservation {
    pub(super) address: u64,
    pub(super) size_bytes: u64,
    memory: Arc<Memory>,
}

impl Reservation {
    pub(super) fn new(memory: &Arc<Memory>, size_bytes: u64) -> Result<Reservation, Code> {
        let size_bytes = page_multiple(size_bytes)?;
        Ok(Reservation {
            address: os::reserve_anywhere(size_bytes)?,
            size_bytes,
            memory: Arc::clone(memory),
        })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.memory.exclusive(self.address, self.size_bytes);
        let end = self.address + self.size_bytes;
        // A range that joined one before the reservation begins outside of it.
        let joined = state.mapped.range(..self.address).next_back();
        let inside = state.mapped.range(self.address..end);
        let inside: Vec<(u64, u64)> = joined.into_iter().chain(inside).map(|(s, e)| (*s, *e)).collect();
        for (start, range_end) in inside {
            let (start, range_end) = (start.max(self.address), range_end.min(end));
            if start < range_end {
                state.remove(start, range_end);
            }
        }
        os::unmap(self.address, self.size_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_a_limit_and_comes_back() {
        let memory = Memory::with_capacity(3 * PAGE_BYTES);
        let first = memory.map(2 * PAGE_BYTES).expect("two of three pages");
        assert_eq!(
            memory.map(PAGE_BYTES + 1),
            Err(Code::OUT_OF_MEMORY),
            "rounds up to two pages"
        );
        memory.unmap(first, 2 * PAGE_BYTES);
        assert_eq!(memory.free_bytes(), 3 * PAGE_BYTES);
        for absurd in [u64::MAX, 1 << 63, (1 << 63) - 1] {
            assert_eq!(memory.map(absurd), Err(Code::OUT_OF_MEMORY));
        }
    }

    #[test]
    fn stray_ranges_are_illegal() {
        let memory = Memory::with_capacity(1 << 20);
        let address = memory.map(PAGE_BYTES).expect("fits");
        assert!(memory.span(address + 8, PAGE_BYTES - 8).is_ok());
        assert_eq!(
            memory.span(address + 8, PAGE_BYTES - 7).err(),
            Some(Code::ILLEGAL_ADDRESS)
        );
        assert_eq!(memory.span(8, 1).err(), Some(Code::ILLEGAL_ADDRESS));
        assert_eq!(memory.span(address, u64::MAX).err(), Some(Code::ILLEGAL_ADDRESS));
    }

    /// Mapped ranges of neighbouring reservations join, and each ends with its own reservation.
    #[test]
    fn a_reservation_ends_where_it_joined_another() {
        let memory = Arc::new(Memory::with_capacity(8 * PAGE_BYTES));
        let whole = Reservation::new(&memory, 2 * PAGE_BYTES).expect("addresses are free");
        let half = |address| Reservation {
            address,
            size_bytes: PAGE_BYTES,
            memory: Arc::clone(&memory),
        };
        let (first, second) = (half(whole.address), half(whole.address + PAGE_BYTES));
        std::mem::forget(whole);
        memory.map_at(first.address, PAGE_BYTES).expect("fits");
        memory.map_at(second.address, PAGE_BYTES).expect("fits");
        let (first_address, second_address) = (first.address, second.address);
        drop(second);
        assert!(memory.contains(first_address, PAGE_BYTES));
        assert!(!memory.contains(second_address, 1));
        assert_eq!(memory.free_bytes(), 7 * PAGE_BYTES);
        drop(first);
        assert_eq!(memory.free_bytes(), 8 * PAGE_BYTES);
    }

    #[test]
    fn ranges_in_a_reservation_join_and_part() {
        let memory = Arc::new(Memory::with_capacity(8 * PAGE_BYTES));
        let reservation = Reservation::new(&memory, 16 * PAGE_BYTES).expect("addresses are free");
        let page = |index: u64| reservation.address + index * PAGE_BYTES;
        memory.map_at(page(0), PAGE_BYTES).expect("fits");
        memory.map_at(page(2), PAGE_BYTES).expect("fits");
        assert!(!memory.contains(page(0), 3 * PAGE_BYTES));
        memory.map_at(page(1), PAGE_BYTES).expect("fits");
        assert!(memory.contains(page(0), 3 * PAGE_BYTES));
        memory.span(page(1), PAGE_BYTES).expect("mapped").set(7);
        memory.relocate(page(1), page(9), PAGE_BYTES).expect("free addresses");
        assert!(!memory.contains(page(1), 1));
        assert_eq!(
            memory
                .span(page(9), PAGE_BYTES)
                .expect("mapped")
                .elements::<u8>()
                .get(4095),
            7,
            "contents move along"
        );
        memory.unmap_at(page(0), PAGE_BYTES);
        assert_eq!(memory.free_bytes(), 6 * PAGE_BYTES);
        drop(reservation);
        assert_eq!(memory.free_bytes(), 8 * PAGE_BYTES);
    }
}
