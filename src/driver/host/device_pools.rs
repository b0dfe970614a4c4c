//! The device's pools: their handles and addresses, and what the attribute calls see of them.

use super::device::{HostDevice, State};
use super::device_streams::StreamProgress;
use super::memory::{Memory, Reservation};
use super::pool::{GRANULE_BYTES, Granules, Pool};
use super::stream::StreamId;
use crate::driver::Code;
use std::sync::Arc;

/// The handle of the default pool; other handles count up from here.
pub(super) const DEFAULT_POOL: u64 = 0x1000;
/// What a pool's first address is a multiple of.
const BASE_ALIGNMENT_BYTES: u64 = 64 << 20;

/// A pool with its addresses. A destroyed one lives on until its last allocation is freed.
pub(super) struct HostPool {
    pub(super) pool: Pool<MappedGranules>,
    pub(super) base: u64,
    destroyed: bool,
}

/// Granules of real memory in a reservation.
#[derive(Debug)]
pub(super) struct MappedGranules {
    base: u64,
    count: u64,
    _reservation: Reservation,
    memory: Arc<Memory>,
}

impl MappedGranules {
    fn address(&self, index: u64) -> u64 {
        self.base + index * GRANULE_BYTES
    }
}

impl Granules for MappedGranules {
    fn map(&mut self, index: u64) -> Result<(), Code> {
        self.memory.map_at(self.address(index), GRANULE_BYTES)
    }
    fn unmap(&mut self, index: u64) {
        self.memory.unmap_at(self.address(index), GRANULE_BYTES);
    }
    fn relocate(&mut self, from: u64, to: u64) -> Result<(), Code> {
        self.memory
            .relocate(self.address(from), self.address(to), GRANULE_BYTES)
    }
    fn index_end(&self) -> u64 {
        self.count
    }
}

impl HostDevice {
    pub(super) fn default_pool(&self) -> Result<u64, Code> {
        self.initialized()?
            .open_pool(DEFAULT_POOL, &self.memory)
            .map(|_| DEFAULT_POOL)
    }

    pub(super) fn current_pool(&self) -> Result<u64, Code> {
        let mut state = self.initialized()?;
        let id = state.current_pool;
        state.open_pool(id, &self.memory).map(|_| id)
    }

    pub(super) fn set_current_pool(&self, id: u64) -> Result<(), Code> {
        let mut state = self.beside_no_capture()?;
        state.open_pool(id, &self.memory)?;
        state.current_pool = id;
        Ok(())
    }

    pub(super) fn create_pool(&self) -> Result<u64, Code> {
        let mut state = self.beside_no_capture()?;
        let id = state.new_handle();
        let pool = HostPool::new(&self.memory)?;
        state.pools.insert(id, pool);
        Ok(id)
    }

    /// Destroys a pool; its allocations stay usable, and its memory goes with the last of them.
    pub(super) fn destroy_pool(&self, id: u64) -> Result<(), Code> {
        let mut state = self.beside_no_capture()?;
        if id == DEFAULT_POOL {
            return Err(Code::INVALID_VALUE);
        }
        state.open_pool(id, &self.memory)?.destroyed = true;
        if state.current_pool == id {
            state.current_pool = DEFAULT_POOL;
        }
        state.drop_empty_destroyed();
        Ok(())
    }

    pub(super) fn with_pool<T>(
        &self,
        id: u64,
        action: impl FnOnce(&mut PoolView<'_>) -> Result<T, Code>,
    ) -> Result<T, Code> {
        let mut state = self.beside_no_capture()?;
        let pool = state.open_pool(id, &self.memory)?;
        action(&mut PoolView { pool: &mut pool.pool })
    }
}

/// What the attribute calls may see and do.
pub(super) struct PoolView<'a> {
    pool: &'a mut Pool<MappedGranules>,
}

impl PoolView<'_> {
    pub(super) fn trim_to(&mut self, keep_bytes: u64) {
        self.pool.trim_to(keep_bytes);
    }

    /// The attribute of this number: policies and sizes alike.
    pub(super) fn attribute(&self, number: u32) -> Result<u64, Code> {
        let attributes = &self.pool.attributes;
        Ok(match number {
            1 => attributes.follow_event_dependencies.into(),
            2 => attributes.allow_opportunistic.into(),
            3 => attributes.allow_internal_dependencies.into(),
            4 => attributes.release_threshold,
            5 => self.pool.reserved_bytes(),
            6 => self.pool.reserved_high_bytes(),
            7 => self.pool.used_bytes(),
            8 => self.pool.used_high_bytes(),
            _ => return Err(Code::INVALID_VALUE),
        })
    }

    /// Sets an attribute. What is current cannot be set, and high watermarks only to zero.
    pub(super) fn set_attribute(&mut self, number: u32, value: u64) -> Result<(), Code> {
        let on = value != 0;
        match number {
            1 => self.pool.attributes.follow_event_dependencies = on,
            2 => self.pool.attributes.allow_opportunistic = on,
            3 => self.pool.attributes.allow_internal_dependencies = on,
            4 => self.pool.set_release_threshold(value),
            6 if !on => self.pool.reset_reserved_high(),
            8 if !on => self.pool.reset_used_high(),
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }
}

impl HostPool {
    pub(super) fn contains(&self, address: u64) -> bool {
        let size_bytes = self.pool.granules().count * GRANULE_BYTES;
        address.checked_sub(self.base).is_some_and(|offset| offset < size_bytes)
    }

    fn new(memory: &Arc<Memory>) -> Result<HostPool, Code> {
        // Room for every arrangement that leaves holes: addresses cost nothing.
        let addresses = (memory.capacity_bytes() * 64).next_multiple_of(GRANULE_BYTES);
        let reservation = Reservation::new(memory, addresses + BASE_ALIGNMENT_BYTES)?;
        let base = reservation.address.next_multiple_of(BASE_ALIGNMENT_BYTES);
        let granules = MappedGranules {
            base,
            count: addresses / GRANULE_BYTES,
            _reservation: reservation,
            memory: Arc::clone(memory),
        };
        Ok(HostPool {
            pool: Pool::new(granules),
            base,
            destroyed: false,
        })
    }
}

impl State {
    /// A pool that was not destroyed; the default pool is made when it is first needed.
    pub(super) fn open_pool(&mut self, id: u64, memory: &Arc<Memory>) -> Result<&mut HostPool, Code> {
        if id == DEFAULT_POOL && !self.pools.contains_key(&id) {
            self.pools.insert(id, HostPool::new(memory)?);
        }
        self.pools
            .get_mut(&id)
            .filter(|pool| !pool.destroyed)
            .ok_or(Code::INVALID_VALUE)
    }

    /// Does something in a pool, given with its first address; also in one that was destroyed and still has an
    /// allocation.
    pub(super) fn in_pool(
        &mut self,
        id: u64,
        action: impl FnOnce(&mut Pool<MappedGranules>, u64) -> Result<(), Code>,
    ) -> Result<(), Code> {
        let pool = self.pools.get_mut(&id).ok_or(Code::INVALID_VALUE)?;
        action(&mut pool.pool, pool.base)
    }

    pub(super) fn alloc_in(&mut self, id: u64, size_bytes: u64, stream: StreamId) -> Result<u64, Code> {
        let State {
            pools,
            streams,
            retired,
            ..
        } = self;
        let pool = pools.get_mut(&id).ok_or(Code::INVALID_VALUE)?;
        let mut progress = StreamProgress { streams, retired };
        let offset = pool.pool.alloc(stream, size_bytes, &mut progress)?;
        Ok(pool.base + offset)
    }

    /// When memory is out, what every pool holds free goes back, whatever its threshold.
    pub(super) fn reclaim(&mut self) {
        for pool in self.pools.values_mut() {
            pool.pool.trim_to(0);
        }
    }

    pub(super) fn drop_empty_destroyed(&mut self) {
        self.pools.retain(|_, pool| !(pool.destroyed && pool.pool.is_idle()));
    }
}
