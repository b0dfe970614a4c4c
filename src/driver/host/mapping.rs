//! Virtual memory management of the host device: addresses are reserved, memory is created elsewhere
//! and moved to where it is mapped.
//!
//! Unlike a GPU's, mapped memory is accessible at once; `cuMemSetAccess` only checks its range.

use super::memory::{Memory, Reservation};
use crate::driver::Code;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What sizes must be multiples of: a GPU's 2 MiB.
pub(super) const GRANULARITY_BYTES: u64 = 2 << 20;

/// Memory that was created: where it rests while it is not mapped, and where it is mapped.
struct Physical {
    rest: Reservation,
    mapped_at: Option<u64>,
    released: bool,
}

/// All reservations and all memory of virtual memory management.
#[derive(Default)]
pub(super) struct Mappings {
    reservations: BTreeMap<u64, Reservation>,
    physical: BTreeMap<u64, Physical>,
}

fn check_size(size_bytes: u64) -> Result<(), Code> {
    if size_bytes == 0 || !size_bytes.is_multiple_of(GRANULARITY_BYTES) {
        Err(Code::INVALID_VALUE)
    } else {
        Ok(())
    }
}

impl Mappings {
    /// How many reservations there are, and how much memory, in pieces.
    pub(super) fn n_live(&self) -> usize {
        self.reservations.len() + self.physical.len()
    }

    pub(super) fn reserve(&mut self, memory: &Arc<Memory>, size_bytes: u64) -> Result<u64, Code> {
        check_size(size_bytes)?;
        let reservation = Reservation::new(memory, size_bytes)?;
        let address = reservation.address;
        self.reservations.insert(address, reservation);
        Ok(address)
    }

    pub(super) fn free_addresses(&mut self, address: u64, size_bytes: u64) -> Result<(), Code> {
        let reservation = self
            .reservations
            .get(&address)
            .filter(|reservation| reservation.size_bytes == size_bytes);
        let end = reservation
            .map(|reservation| reservation.address + size_bytes)
            .ok_or(Code::INVALID_VALUE)?;
        let in_use = self
            .physical
            .values()
            .any(|physical| physical.mapped_at.is_some_and(|at| (address..end).contains(&at)));
        if in_use {
            return Err(Code::INVALID_VALUE);
        }
        self.reservations.remove(&address);
        Ok(())
    }

    pub(super) fn create(&mut self, handle: u64, memory: &Arc<Memory>, size_bytes: u64) -> Result<(), Code> {
        check_size(size_bytes)?;
        let rest = Reservation::new(memory, size_bytes)?;
        memory.map_at(rest.address, size_bytes)?;
        self.physical.insert(
            handle,
            Physical {
                rest,
                mapped_at: None,
                released: false,
            },
        );
        Ok(())
    }

    /// Memory lives until it is both released and unmapped.
    pub(super) fn release(&mut self, handle: u64) -> Result<(), Code> {
        let physical = self
            .physical
            .get_mut(&handle)
            .filter(|physical| !physical.released)
            .ok_or(Code::INVALID_VALUE)?;
        physical.released = true;
        if physical.mapped_at.is_none() {
            self.physical.remove(&handle);
        }
        Ok(())
    }

    pub(super) fn map(&mut self, memory: &Memory, address: u64, size_bytes: u64, handle: u64) -> Result<(), Code> {
        let (base, reservation) = self
            .reservations
            .range(..=address)
            .next_back()
            .ok_or(Code::INVALID_VALUE)?;
        if address + size_bytes > base + reservation.size_bytes || memory.contains(address, 1) {
            return Err(Code::INVALID_VALUE);
        }
        let physical = self.physical.get_mut(&handle).ok_or(Code::INVALID_VALUE)?;
        if physical.mapped_at.is_some() || physical.rest.size_bytes != size_bytes {
            return Err(Code::INVALID_VALUE);
        }
        memory.relocate(physical.rest.address, address, size_bytes)?;
        physical.mapped_at = Some(address);
        Ok(())
    }

    pub(super) fn unmap(&mut self, memory: &Memory, address: u64, size_bytes: u64) -> Result<(), Code> {
        let mapped =
            |physical: &Physical| physical.mapped_at == Some(address) && physical.rest.size_bytes == size_bytes;
        let found = self.physical.iter_mut().find(|(_, physical)| mapped(physical));
        let (handle, physical) = found.ok_or(Code::INVALID_VALUE)?;
        let handle = *handle;
        memory.relocate(address, physical.rest.address, size_bytes)?;
        physical.mapped_at = None;
        if physical.released {
            self.physical.remove(&handle);
        }
        Ok(())
    }
}
