//! The host device's state: contexts, streams, events, modules, pools and allocations.

use super::capture::Captures;
use super::event::Event;
use super::graph::Graphs;
use super::kernel::{self, Twin};
use super::memory::{Memory, Reservation};
use super::pool::{GRANULE_BYTES, Granules, Pool, Position, Progress};
use super::stream::{Clock, Operation, Stream, StreamId};
use crate::driver::Code;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// The one host device of the process.
pub(super) static DEVICE: LazyLock<HostDevice> = LazyLock::new(HostDevice::start);

/// The handle of the legacy default stream.
const DEFAULT_STREAM: StreamId = 0;
/// The handle of the default pool; other handles count up from here.
const DEFAULT_POOL: u64 = 0x1000;
/// The primary context's handle.
const CONTEXT: u64 = 0x10;

/// The device's memory, unless `POOLBENCH_HOST_MEMORY_MIB` says otherwise: half of what the system has
/// available, and no more than this.
const CAPACITY_BYTES_MAX: u64 = 4 << 30;

thread_local! {
    static CURRENT_CONTEXT: Cell<u64> = const { Cell::new(0) };
}

/// See the module.
pub(super) struct HostDevice {
    pub(super) memory: Arc<Memory>,
    state: Mutex<State>,
}

/// What an address was handed out by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Plain { size_bytes: u64 },
    Pool(u64),
}

pub(super) struct State {
    last_handle: u64,
    retained: u32,
    pub(super) streams: BTreeMap<StreamId, Arc<Stream>>,
    /// Destroyed with work in them: kept until that has run.
    pub(super) retired: Vec<Arc<Stream>>,
    pub(super) captures: Captures,
    pub(super) graphs: Graphs,
    events: BTreeMap<u64, Arc<Event>>,
    modules: BTreeMap<u64, Arc<str>>,
    functions: BTreeMap<u64, &'static Twin>,
    pools: BTreeMap<u64, HostPool>,
    current_pool: u64,
    allocations: BTreeMap<u64, Owner>,
    /// Plain memory freed in stream order: given back once the free is seen complete.
    freed_plain: Vec<(u64, u64, Position)>,
}

/// A pool with its addresses. A destroyed one lives on until its last allocation is freed.
struct HostPool {
    pool: Pool<MappedGranules>,
    base: u64,
    destroyed: bool,
}

/// Granules of real memory in a reservation.
#[derive(Debug)]
struct MappedGranules {
    reservation: Reservation,
    memory: Arc<Memory>,
}

impl MappedGranules {
    fn address(&self, index: u64) -> u64 {
        self.reservation.address + index * GRANULE_BYTES
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
        self.reservation.size_bytes / GRANULE_BYTES
    }
}

struct StreamProgress<'a> {
    streams: &'a BTreeMap<StreamId, Arc<Stream>>,
}

impl Progress for StreamProgress<'_> {
    fn has_run(&self, stream: StreamId, position: u64) -> bool {
        self.streams
            .get(&stream)
            .is_none_or(|stream| stream.completed() >= position)
    }
    fn is_ordered(&self, waiting: StreamId, stream: StreamId, position: u64) -> bool {
        self.streams
            .get(&waiting)
            .is_some_and(|waiting| waiting.known().covers(stream, position))
    }
    fn order(&mut self, waiting: StreamId, stream: StreamId, position: u64) {
        if let (Some(waiting), Some(stream)) = (self.streams.get(&waiting), self.streams.get(&stream)) {
            waiting.submit(Operation::WaitFor {
                stream: Arc::clone(stream),
                position,
            });
        }
    }
}

impl HostDevice {
    fn start() -> HostDevice {
        let memory = Arc::new(Memory::with_capacity(capacity_bytes()));
        let state = State {
            last_handle: DEFAULT_POOL,
            retained: 0,
            streams: BTreeMap::new(),
            retired: Vec::new(),
            captures: Captures::default(),
            graphs: Graphs::default(),
            events: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            pools: BTreeMap::new(),
            current_pool: DEFAULT_POOL,
            allocations: BTreeMap::new(),
            freed_plain: Vec::new(),
        };
        HostDevice {
            memory,
            state: Mutex::new(state),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, for a call that needs a context on its thread.
    pub(super) fn in_context(&self) -> Result<MutexGuard<'_, State>, Code> {
        if CURRENT_CONTEXT.get() == 0 {
            Err(Code::INVALID_CONTEXT)
        } else {
            Ok(self.state())
        }
    }

    pub(super) fn current_context() -> u64 {
        CURRENT_CONTEXT.get()
    }

    pub(super) fn set_current_context(context: u64) -> Result<(), Code> {
        if context != 0 && context != CONTEXT {
            return Err(Code::INVALID_CONTEXT);
        }
        CURRENT_CONTEXT.set(context);
        Ok(())
    }

    pub(super) fn retain_context(&self) -> u64 {
        self.state().retained += 1;
        CONTEXT
    }

    pub(super) fn release_context(&self) -> Result<(), Code> {
        let mut state = self.state();
        state.retained = state.retained.checked_sub(1).ok_or(Code::INVALID_CONTEXT)?;
        Ok(())
    }

    // Streams and events.

    pub(super) fn create_stream(&self, is_blocking: bool) -> Result<u64, Code> {
        let mut state = self.in_context()?;
        let id = state.new_handle();
        let stream = Stream::start(id, is_blocking, &self.memory)?;
        state.streams.insert(id, Arc::new(stream));
        Ok(id)
    }

    pub(super) fn stream(&self, id: StreamId) -> Result<Arc<Stream>, Code> {
        let mut state = self.in_context()?;
        state.stream(id, &self.memory)
    }

    /// Destroying a stream does not wait for it. What was freed in it is free once it has run.
    pub(super) fn destroy_stream(&self, id: StreamId) -> Result<(), Code> {
        let mut state = self.in_context()?;
        let stream = state.streams.remove(&id).ok_or(Code::CONTEXT_IS_DESTROYED)?;
        state.captures.forget(id);
        state.retired.push(stream);
        let finished = state.observe_retired();
        drop(state);
        // Joins workers that have nothing left to do.
        drop(finished);
        Ok(())
    }

    /// Waits for a stream, then takes note of what is known to be complete.
    pub(super) fn synchronize_stream(&self, id: StreamId) -> Result<(), Code> {
        let stream = self.uncaptured_stream(id)?;
        let position = stream.synchronize()?;
        let mut clock = stream.known();
        clock.advance(id, position);
        self.observe(&clock);
        Ok(())
    }

    pub(super) fn synchronize_event(&self, id: u64) -> Result<(), Code> {
        let event = self.uncaptured_event(id)?;
        let (generation, clock) = event.latest();
        event.wait(generation);
        self.observe(&clock);
        Ok(())
    }

    pub(super) fn synchronize_context(&self) -> Result<(), Code> {
        self.in_context()?.captures.refuse_any()?;
        let clock = self.wait_for_everything()?;
        self.observe(&clock);
        Ok(())
    }

    /// Waits for all streams and returns what has then run.
    fn wait_for_everything(&self) -> Result<Clock, Code> {
        let streams: Vec<Arc<Stream>> = {
            let state = self.state();
            state.streams.values().chain(&state.retired).cloned().collect()
        };
        let mut clock = Clock::default();
        for stream in streams {
            clock.advance(stream.id, stream.synchronize()?);
        }
        Ok(clock)
    }

    fn observe(&self, clock: &Clock) {
        let mut state = self.state();
        let finished = state.observe_retired();
        state.observe(clock, &self.memory);
        drop(state);
        drop(finished);
    }

    pub(super) fn create_event(&self, timing: bool) -> Result<u64, Code> {
        let mut state = self.in_context()?;
        let id = state.new_handle();
        state.events.insert(id, Arc::new(Event::new(timing)));
        Ok(id)
    }

    pub(super) fn event(&self, id: u64) -> Result<Arc<Event>, Code> {
        let state = self.in_context()?;
        let missing = if id == 0 {
            Code::INVALID_HANDLE
        } else {
            Code::CONTEXT_IS_DESTROYED
        };
        state.events.get(&id).cloned().ok_or(missing)
    }

    pub(super) fn destroy_event(&self, id: u64) -> Result<(), Code> {
        let mut state = self.in_context()?;
        state.events.remove(&id).map(drop).ok_or(Code::CONTEXT_IS_DESTROYED)
    }

    // Modules.

    pub(super) fn load_module(&self, image: &str) -> Result<u64, Code> {
        let mut state = self.in_context()?;
        kernel::check_ptx(image)?;
        let id = state.new_handle();
        state.modules.insert(id, Arc::from(image));
        Ok(id)
    }

    pub(super) fn unload_module(&self, id: u64) -> Result<(), Code> {
        let mut state = self.in_context()?;
        state.modules.remove(&id).map(drop).ok_or(Code::INVALID_HANDLE)
    }

    pub(super) fn function_of(&self, module: u64, name: &str) -> Result<u64, Code> {
        let mut state = self.in_context()?;
        let image = state.modules.get(&module).cloned().ok_or(Code::INVALID_HANDLE)?;
        let twin = kernel::twin(&image, name)?;
        let id = state.new_handle();
        state.functions.insert(id, twin);
        Ok(id)
    }

    pub(super) fn function(&self, id: u64) -> Result<&'static Twin, Code> {
        let state = self.in_context()?;
        state.functions.get(&id).copied().ok_or(Code::INVALID_HANDLE)
    }

    // Memory.

    pub(super) fn alloc_plain(&self, size_bytes: u64) -> Result<u64, Code> {
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
        let mut state = self.beside_no_capture()?;
        if address == 0 || state.graphs.memory.free(address, None) {
            return Ok(());
        }
        let owner = state.allocations.get(&address).copied().ok_or(Code::INVALID_VALUE)?;
        drop(state);
        if owner_is_plain(owner) {
            self.wait_for_everything()?;
        }
        let mut state = self.state();
        match state.allocations.remove(&address).ok_or(Code::INVALID_VALUE)? {
            Owner::Plain { size_bytes } => self.memory.unmap(address, size_bytes),
            Owner::Pool(id) => state.in_pool(id, |pool, base| pool.free_now(address - base))?,
        }
        Ok(())
    }

    /// Allocates from a pool, or from the device's current one.
    pub(super) fn alloc_async(&self, size_bytes: u64, pool: Option<u64>, stream: StreamId) -> Result<u64, Code> {
        let mut state = self.in_context()?;
        state.stream(stream, &self.memory)?;
        let id = pool.unwrap_or(state.current_pool);
        state.open_pool(id, &self.memory)?;
        if let Some(capture) = state.captures.of(stream)? {
            // The memory is the graph's, whichever pool was named.
            return capture.alloc(stream, size_bytes, &self.memory);
        }
        state.captures.refuse_unsafe()?;
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
        let mut state = self.in_context()?;
        let position = state.stream(stream, &self.memory)?.position();
        if state.captures.of(stream)?.is_some() {
            return state.capture_free(address, stream);
        }
        state.captures.refuse_unsafe()?;
        let at = Position { stream, position };
        if address == 0 || state.graphs.memory.free(address, Some(at)) {
            return Ok(());
        }
        match state.allocations.remove(&address).ok_or(Code::INVALID_VALUE)? {
            Owner::Plain { size_bytes } => state.freed_plain.push((address, size_bytes, at)),
            Owner::Pool(id) => state.in_pool(id, |pool, base| pool.free(address - base, at))?,
        }
        Ok(())
    }

    // Pools.

    pub(super) fn default_pool(&self) -> Result<u64, Code> {
        self.state().open_pool(DEFAULT_POOL, &self.memory).map(|_| DEFAULT_POOL)
    }

    pub(super) fn current_pool(&self) -> Result<u64, Code> {
        let mut state = self.state();
        let id = state.current_pool;
        state.open_pool(id, &self.memory).map(|_| id)
    }

    pub(super) fn set_current_pool(&self, id: u64) -> Result<(), Code> {
        let mut state = self.state();
        state.captures.refuse_unsafe()?;
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
    fn new(memory: &Arc<Memory>) -> Result<HostPool, Code> {
        // Room for every arrangement that leaves holes: addresses cost nothing.
        let addresses = (memory.capacity_bytes() * 64).next_multiple_of(GRANULE_BYTES);
        let reservation = Reservation::new(memory, addresses)?;
        let base = reservation.address;
        let granules = MappedGranules {
            reservation,
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
    pub(super) fn new_handle(&mut self) -> u64 {
        self.last_handle += 0x10;
        self.last_handle
    }

    pub(super) fn stream(&mut self, id: StreamId, memory: &Arc<Memory>) -> Result<Arc<Stream>, Code> {
        if id == DEFAULT_STREAM && !self.streams.contains_key(&id) {
            self.streams.insert(id, Arc::new(Stream::start(id, true, memory)?));
        }
        self.streams.get(&id).cloned().ok_or(Code::CONTEXT_IS_DESTROYED)
    }

    /// A pool that was not destroyed; the default pool is made when it is first needed.
    fn open_pool(&mut self, id: u64, memory: &Arc<Memory>) -> Result<&mut HostPool, Code> {
        if id == DEFAULT_POOL && !self.pools.contains_key(&id) {
            self.pools.insert(id, HostPool::new(memory)?);
        }
        self.pools
            .get_mut(&id)
            .filter(|pool| !pool.destroyed)
            .ok_or(Code::INVALID_VALUE)
    }

    /// Does something in a pool that may be destroyed already, and lets it go if it is now empty.
    fn in_pool(
        &mut self,
        id: u64,
        action: impl FnOnce(&mut Pool<MappedGranules>, u64) -> Result<(), Code>,
    ) -> Result<(), Code> {
        let pool = self.pools.get_mut(&id).ok_or(Code::INVALID_VALUE)?;
        action(&mut pool.pool, pool.base)
    }

    fn alloc_in(&mut self, id: u64, size_bytes: u64, stream: StreamId) -> Result<u64, Code> {
        let State { pools, streams, .. } = self;
        let pool = pools.get_mut(&id).ok_or(Code::INVALID_VALUE)?;
        let offset = pool.pool.alloc(stream, size_bytes, &mut StreamProgress { streams })?;
        Ok(pool.base + offset)
    }

    /// When memory is out, what every pool holds free goes back, whatever its threshold.
    pub(super) fn reclaim(&mut self) {
        for pool in self.pools.values_mut() {
            pool.pool.trim_to(0);
        }
    }

    fn observe(&mut self, clock: &Clock, memory: &Memory) {
        for pool in self.pools.values_mut() {
            pool.pool.observe(|stream, position| clock.covers(stream, position));
        }
        self.freed_plain.retain(|(address, size_bytes, at)| {
            let complete = clock.covers(at.stream, at.position);
            if complete {
                memory.unmap(*address, *size_bytes);
            }
            !complete
        });
        self.drop_empty_destroyed();
    }

    /// Takes note of destroyed streams that have run, and returns them for joining outside the lock.
    fn observe_retired(&mut self) -> Vec<Arc<Stream>> {
        let is_done = |stream: &Arc<Stream>| stream.is_idle().unwrap_or(true);
        let (done, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.retired).into_iter().partition(is_done);
        self.retired = left;
        for pool in self.pools.values_mut() {
            pool.pool.observe(|stream, _| done.iter().any(|done| done.id == stream));
        }
        done
    }

    fn drop_empty_destroyed(&mut self) {
        self.pools.retain(|_, pool| !(pool.destroyed && pool.pool.is_idle()));
    }
}

fn owner_is_plain(owner: Owner) -> bool {
    matches!(owner, Owner::Plain { .. })
}

fn capacity_bytes() -> u64 {
    let asked = std::env::var("POOLBENCH_HOST_MEMORY_MIB")
        .ok()
        .and_then(|text| text.parse::<u64>().ok());
    asked
        .and_then(|mib| mib.checked_mul(1 << 20))
        .unwrap_or_else(|| (available_bytes() / 2).min(CAPACITY_BYTES_MAX))
}

/// `MemAvailable`; where the system does not say, a size that every machine has.
fn available_bytes() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(1 << 30, |kib| kib * 1024)
}
