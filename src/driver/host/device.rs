//! The host device's state: contexts, streams, events, modules, pools and allocations.

use super::capture::Captures;
use super::event::Event;
use super::graph::Graphs;
use super::kernel::{self, Twin};
use super::mapping::Mappings;
use super::memory::{Memory, PAGE_BYTES, Reservation};
use super::pool::{GRANULE_BYTES, Granules, Pool, Position, Progress};
use super::stream::{Clock, Operation, Stream, StreamId};
use crate::driver::Code;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// The one host device of the process.
pub(super) static DEVICE: LazyLock<HostDevice> = LazyLock::new(HostDevice::start);

/// The handle of the legacy default stream.
pub(super) const DEFAULT_STREAM: StreamId = 0;
/// `CU_STREAM_LEGACY`, its other handle.
const LEGACY_STREAM: StreamId = 1;
/// `CU_STREAM_PER_THREAD`: a default stream for each thread.
const PER_THREAD_STREAM: StreamId = 2;
/// The handle of the default pool; other handles count up from here.
const DEFAULT_POOL: u64 = 0x1000;
/// What a pool's first address is a multiple of.
const BASE_ALIGNMENT_BYTES: u64 = 64 << 20;
/// The primary context's handle.
const CONTEXT: u64 = 0x10;

/// The device's memory, unless `POOLBENCH_HOST_MEMORY_MIB` says otherwise: half of what the system has
/// available, and no more than this.
const CAPACITY_BYTES_MAX: u64 = 4 << 30;

thread_local! {
    static CURRENT_CONTEXT: Cell<u64> = const { Cell::new(0) };
    static OWN_DEFAULT_STREAM: Cell<StreamId> = const { Cell::new(0) };
}

/// Whether `cuInit` was called.
static INITIALIZED: AtomicBool = AtomicBool::new(false);

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
    mappings: Mappings,
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

/// What streams have done and know of each other.
pub(super) struct StreamProgress<'a> {
    pub(super) streams: &'a BTreeMap<StreamId, Arc<Stream>>,
    pub(super) retired: &'a [Arc<Stream>],
}

impl StreamProgress<'_> {
    /// A stream, also one that was destroyed and still has work to do. One that is gone has run.
    pub(super) fn unfinished(&self, id: StreamId) -> Option<&Arc<Stream>> {
        let retired = || self.retired.iter().find(|stream| stream.id == id);
        self.streams.get(&id).or_else(retired)
    }
}

impl Progress for StreamProgress<'_> {
    fn has_run(&self, stream: StreamId, position: u64) -> bool {
        self.unfinished(stream)
            .is_none_or(|stream| stream.completed() >= position)
    }
    fn is_ordered(&self, waiting: StreamId, stream: StreamId, position: u64) -> bool {
        self.streams
            .get(&waiting)
            .is_some_and(|waiting| waiting.known().covers(stream, position))
    }
    fn order(&mut self, waiting: StreamId, stream: StreamId, position: u64) {
        if let (Some(waiting), Some(stream)) = (self.streams.get(&waiting), self.unfinished(stream)) {
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
            mappings: Mappings::default(),
        };
        HostDevice {
            memory,
            state: Mutex::new(state),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn initialize() {
        INITIALIZED.store(true, Ordering::Relaxed);
    }

    /// Refuses every call before `cuInit`.
    pub(super) fn check_initialized() -> Result<(), Code> {
        if INITIALIZED.load(Ordering::Relaxed) {
            Ok(())
        } else {
            Err(Code::NOT_INITIALIZED)
        }
    }

    /// Refuses a call that needs a context on its thread where there is none.
    pub(super) fn check_context() -> Result<(), Code> {
        HostDevice::check_initialized()?;
        if CURRENT_CONTEXT.get() == 0 {
            Err(Code::INVALID_CONTEXT)
        } else {
            Ok(())
        }
    }

    /// The state, for a call that needs no context: pools belong to the device, and handles know
    /// theirs.
    pub(super) fn initialized(&self) -> Result<MutexGuard<'_, State>, Code> {
        HostDevice::check_initialized().map(|()| self.state())
    }

    /// The state, for a call that needs a context on its thread.
    pub(super) fn in_context(&self) -> Result<MutexGuard<'_, State>, Code> {
        HostDevice::check_context().map(|()| self.state())
    }

    /// The state, for a call on a stream: the default streams are those of the thread's context.
    pub(super) fn for_stream(&self, id: StreamId) -> Result<MutexGuard<'_, State>, Code> {
        if id <= PER_THREAD_STREAM {
            self.in_context()
        } else {
            self.initialized()
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
        state.start_stream(id, is_blocking, &self.memory)?;
        Ok(id)
    }

    /// The stream, to ask it something.
    pub(super) fn stream(&self, id: StreamId) -> Result<Arc<Stream>, Code> {
        self.for_stream(id)?.stream(id, &self.memory)
    }

    /// The stream, to submit to it.
    pub(super) fn ordered_stream(&self, id: StreamId) -> Result<Arc<Stream>, Code> {
        self.for_stream(id)?.ordered_stream(id, &self.memory)
    }

    /// Destroying a stream does not wait for it. What was freed in it is free once it has run.
    pub(super) fn destroy_stream(&self, id: StreamId) -> Result<(), Code> {
        let mut state = self.initialized()?;
        if id <= PER_THREAD_STREAM {
            return Err(Code::INVALID_HANDLE);
        }
        let stream = state.streams.remove(&id).ok_or(Code::CONTEXT_IS_DESTROYED)?;
        state.captures.forget(id);
        state.retired.push(stream);
        let finished = state.observe_retired(&self.memory);
        drop(state);
        // Joins workers that have nothing left to do.
        drop(finished);
        Ok(())
    }

    /// Waits for a stream, then takes note of what is known to be complete.
    pub(super) fn synchronize_stream(&self, id: StreamId) -> Result<(), Code> {
        let stream = self.uncaptured_stream(id)?;
        // Waiting for the legacy default stream includes what it would wait for; other streams have
        // waited for it where that was needed.
        if stream.id == DEFAULT_STREAM {
            self.ordered_stream(id)?;
        }
        let clock = stream.synchronize()?;
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
            clock.merge(&stream.synchronize()?);
        }
        Ok(clock)
    }

    fn observe(&self, clock: &Clock) {
        let mut state = self.state();
        let finished = state.observe_retired(&self.memory);
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
        let state = self.initialized()?;
        state.events.get(&id).cloned().ok_or(missing_event(id))
    }

    pub(super) fn destroy_event(&self, id: u64) -> Result<(), Code> {
        let mut state = self.initialized()?;
        state.events.remove(&id).map(drop).ok_or(missing_event(id))
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

    pub(super) fn check_module(&self, id: u64) -> Result<(), Code> {
        let state = self.in_context()?;
        state.modules.get(&id).map(drop).ok_or(Code::INVALID_HANDLE)
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

    // Pools.

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
    fn contains(&self, address: u64) -> bool {
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
    pub(super) fn new_handle(&mut self) -> u64 {
        self.last_handle += 0x10;
        self.last_handle
    }

    fn start_stream(&mut self, id: StreamId, is_blocking: bool, memory: &Arc<Memory>) -> Result<(), Code> {
        let stream = Stream::start(id, is_blocking, memory)?;
        self.streams.insert(id, Arc::new(stream));
        Ok(())
    }

    /// The stream of a handle; default streams are made when they are first needed.
    pub(super) fn stream(&mut self, id: StreamId, memory: &Arc<Memory>) -> Result<Arc<Stream>, Code> {
        let id = match id {
            LEGACY_STREAM => DEFAULT_STREAM,
            PER_THREAD_STREAM => {
                if OWN_DEFAULT_STREAM.get() == 0 {
                    OWN_DEFAULT_STREAM.set(self.new_handle());
                    self.start_stream(OWN_DEFAULT_STREAM.get(), true, memory)?;
                }
                OWN_DEFAULT_STREAM.get()
            }
            id => id,
        };
        if id == DEFAULT_STREAM && !self.streams.contains_key(&id) {
            self.start_stream(id, false, memory)?;
        }
        self.streams.get(&id).cloned().ok_or(Code::CONTEXT_IS_DESTROYED)
    }

    /// The stream of a handle, behind what the rule of the legacy default stream puts before it: that
    /// stream and every blocking one wait for each other.
    pub(super) fn ordered_stream(&mut self, id: StreamId, memory: &Arc<Memory>) -> Result<Arc<Stream>, Code> {
        let stream = self.stream(id, memory)?;
        if stream.id == DEFAULT_STREAM {
            let others = self.streams.values().chain(&self.retired);
            others
                .filter(|other| other.is_blocking)
                .for_each(|other| stream.wait_stream(other));
        } else if stream.is_blocking
            && let Some(default) = self.streams.get(&DEFAULT_STREAM)
        {
            stream.wait_stream(default);
        }
        Ok(stream)
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

    fn observe(&mut self, clock: &Clock, memory: &Memory) {
        self.observe_where(memory, |stream, position| clock.covers(stream, position));
    }

    fn observe_where(&mut self, memory: &Memory, is_complete: impl Fn(StreamId, u64) -> bool) {
        for pool in self.pools.values_mut() {
            pool.pool.observe(&is_complete);
        }
        self.freed_plain.retain(|(address, size_bytes, at)| {
            let complete = is_complete(at.stream, at.position);
            if complete {
                memory.unmap(*address, *size_bytes);
            }
            !complete
        });
        self.drop_empty_destroyed();
    }

    /// Takes note of destroyed streams that have run, and returns them for joining outside the lock.
    fn observe_retired(&mut self, memory: &Memory) -> Vec<Arc<Stream>> {
        let is_done = |stream: &Arc<Stream>| stream.is_idle().unwrap_or(true);
        let (done, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.retired).into_iter().partition(is_done);
        self.retired = left;
        if !done.is_empty() {
            self.observe_where(memory, |stream, _| done.iter().any(|done| done.id == stream));
        }
        done
    }

    fn drop_empty_destroyed(&mut self) {
        self.pools.retain(|_, pool| !(pool.destroyed && pool.pool.is_idle()));
    }
}

fn missing_event(id: u64) -> Code {
    if id == 0 {
        Code::INVALID_HANDLE
    } else {
        Code::CONTEXT_IS_DESTROYED
    }
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
