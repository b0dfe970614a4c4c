//! The device's allocations: plain ones, those of pools in stream order, and whose an address is.

use super::device::{HostDevice, State};
use super::mapping::Mappings;
use super::memory::{Memory, PAGE_BYTES};
use super::pool::Position;
use super::stream::StreamId;
use crate::driver::Code;
use std::sync::Arc;

/// What an address was handed out by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Plain { size_bytes: u64 },
    Pool(u64),
}

impl HostDevice {
    pub(super) fn alloc_plain(&self, size_bytes: u64) -> Result<u64, Code> {
        HostDevice::check_context()?;
        let mut state = self.beside_no_capture()?;
        if size_bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let address = match self.memory.map(size_bytes) {
            Err(Code::OUT_OF_MEMORY) => {
                state.reclaim();
                self.memory.map(size_bytes)?
            }
            mapped => mapped?,
        };
        state.allocations.insert(address, Owner::Plain { size_bytes });
        Ok(address)
    }

    /// Waits for the device, then unmaps; pool memory is freed at once and without waiting.
    pub(super) fn free(&self, address: u64) -> Result<(), Code> {
        HostDevice::check_context()?;
        let mut state = self.beside_no_capture()?;
        if address == 0 || state.graphs.memory.free(address, None) {
            return Ok(());
        }
        let is_pool_memory = matches!(state.allocations.get(&address), Some(Owner::Pool(_)));
        drop(state);
        if !is_pool_memory {
            self.wait_for_everything()?;
        }
        let mut state = self.state();
        match state.allocations.remove(&address) {
            Some(Owner::Plain { size_bytes }) => self.memory.unmap(address, size_bytes),
            Some(Owner::Pool(id)) => {
                state.in_pool(id, |pool, base| pool.free_now(address - base))?;
                state.drop_empty_destroyed();
            }
            // Freed in stream order, and not seen complete: the driver takes the second free for it.
            None => {
                let freed = state.freed_plain.iter().position(|(freed, ..)| *freed == address);
                let (_, size_bytes, _) = state.freed_plain.swap_remove(freed.ok_or(Code::INVALID_VALUE)?);
                self.memory.unmap(address, size_bytes);
            }
        }
        Ok(())
    }

    /// Allocates from a pool, or from the device's current one.
    pub(super) fn alloc_async(&self, size_bytes: u64, pool: Option<u64>, stream: StreamId) -> Result<u64, Code> {
        let mut state = self.for_stream(stream)?;
        let stream = state.stream(stream, &self.memory)?.id;
        let id = pool.unwrap_or(state.current_pool);
        state.open_pool(id, &self.memory)?;
        if let Some(capture) = state.captures.of(stream)? {
            // The memory is the graph's, whichever pool was named.
            return capture.alloc(stream, size_bytes, &self.memory);
        }
        state.captures.refuse_unsafe()?;
        state.ordered_stream(stream, &self.memory)?;
        if size_bytes == 0 {
            return Ok(0);
        }
        let address = match state.alloc_in(id, size_bytes, stream) {
            Err(Code::OUT_OF_MEMORY) => {
                state.reclaim();
                state.alloc_in(id, size_bytes, stream)?
            }
            placed => placed?,
        };
        state.allocations.insert(address, Owner::Pool(id));
        Ok(address)
    }

    pub(super) fn free_async(&self, address: u64, stream: StreamId) -> Result<(), Code> {
        let mut state = self.for_stream(stream)?;
        let id = state.stream(stream, &self.memory)?.id;
        if state.captures.of(id)?.is_some() {
            return state.capture_free(address, id);
        }
        state.captures.refuse_unsafe()?;
        let stream = state.ordered_stream(id, &self.memory)?;
        if address == 0 {
            return Ok(());
        }
        let at = Position {
            stream: id,
            position: stream.mark(),
        };
        if state.graphs.memory.free(address, Some(at)) {
            return Ok(());
        }
        match state.allocations.remove(&address).ok_or(Code::INVALID_VALUE)? {
            Owner::Plain { size_bytes } => state.freed_plain.push((address, size_bytes, at)),
            Owner::Pool(id) => state.in_pool(id, |pool, base| pool.free(address - base, at))?,
        }
        Ok(())
    }

    /// Does something in virtual memory management, given a handle that nothing has yet.
    pub(super) fn with_mappings<T>(
        &self,
        action: impl FnOnce(&mut Mappings, &Arc<Memory>, u64) -> Result<T, Code>,
    ) -> Result<T, Code> {
        let mut state = self.in_context()?;
        let handle = state.new_handle();
        action(&mut state.mappings, &self.memory, handle)
    }
}

impl State {
    /// Plain memory that nobody freed, or whose free was not seen complete: address and bytes.
    #[cfg(feature = "fault-injection")]
    pub(super) fn plain_memory(&self) -> Vec<(u64, u64)> {
        let live = self.allocations.iter().filter_map(|(address, owner)| match owner {
            Owner::Plain { size_bytes } => Some((*address, *size_bytes)),
            Owner::Pool(_) => None,
        });
        let freed = self
            .freed_plain
            .iter()
            .map(|(address, size_bytes, _)| (*address, *size_bytes));
        live.chain(freed).collect()
    }

    /// Whether copies may touch a range: all of it must belong to one allocation.
    pub(super) fn is_accessible(&self, address: u64, size_bytes: u64, memory: &Memory) -> bool {
        let Some(end) = address.checked_add(size_bytes) else {
            return false;
        };
        if let Some((start, owner)) = self.allocations.range(..=address).next_back() {
            let (allocated_bytes, mapped_bytes) = match owner {
                // The rest of its last page is mapped, and not the caller's.
                Owner::Plain { size_bytes } => (*size_bytes, size_bytes.next_multiple_of(PAGE_BYTES)),
                Owner::Pool(id) => (self.live_bytes(*id, *start), 0),
            };
            if end <= start + allocated_bytes {
                return true;
            }
            if address < start + mapped_bytes {
                return false;
            }
        }
        // What a pool retains is mapped, and nobody's.
        let is_in_pool = self.pools.values().any(|pool| pool.contains(address));
        !is_in_pool && memory.contains(address, size_bytes)
    }

    fn live_bytes(&self, pool: u64, address: u64) -> u64 {
        let pool = self.pools.get(&pool);
        pool.and_then(|pool| pool.pool.live_bytes(address - pool.base))
            .unwrap_or(0)
    }
}
