//! The host device's state: contexts and handles, and who may look at what.
//!
//! What each kind of handle does stands in a file of its own: `device_streams.rs`, `device_pools.rs`,
//! `device_memory.rs`, `module.rs`, `graph.rs`.

use super::capture::Captures;
use super::device_memory::Owner;
use super::device_pools::{DEFAULT_POOL, HostPool};
use super::device_streams::PER_THREAD_STREAM;
use super::event::Event;
use super::graph::Graphs;
use super::mapping::Mappings;
use super::memory::Memory;
use super::module::Function;
use super::pool::Position;
use super::stream::{Stream, StreamId, note_processors};
use crate::driver::Code;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// The one host device of the process.
pub(super) static DEVICE: LazyLock<HostDevice> = LazyLock::new(HostDevice::start);

/// The primary context's handle.
const CONTEXT: u64 = 0x10;

/// The device's memory, unless `POOLBENCH_HOST_MEMORY_MIB` says otherwise: half of what the system has
/// available, and no more than this.
const CAPACITY_BYTES_MAX: u64 = 4 << 30;
/// The most memory that may be asked for: what a process can address.
const MIB_MAX: u64 = 1 << 27;

thread_local! {
    static CURRENT_CONTEXT: Cell<u64> = const { Cell::new(0) };
}

/// Whether `cuInit` was called.
static INITIALIZED: AtomicBool = AtomicBool::new(false);

/// See the module.
pub(super) struct HostDevice {
    pub(super) memory: Arc<Memory>,
    state: Mutex<State>,
}

pub(super) struct State {
    last_handle: u64,
    pub(super) retained: u32,
    pub(super) streams: BTreeMap<StreamId, Arc<Stream>>,
    /// Destroyed with work in them: kept until that has run.
    pub(super) retired: Vec<Arc<Stream>>,
    pub(super) captures: Captures,
    pub(super) graphs: Graphs,
    pub(super) events: BTreeMap<u64, Arc<Event>>,
    pub(super) modules: BTreeMap<u64, Arc<str>>,
    pub(super) functions: BTreeMap<u64, Function>,
    pub(super) pools: BTreeMap<u64, HostPool>,
    pub(super) current_pool: u64,
    pub(super) allocations: BTreeMap<u64, Owner>,
    /// Plain memory freed in stream order: given back once the free is seen complete.
    pub(super) freed_plain: Vec<(u64, u64, Position)>,
    pub(super) mappings: Mappings,
}

impl HostDevice {
    fn start() -> HostDevice {
        note_processors();
        HostDevice {
            memory: Arc::new(Memory::with_capacity(capacity_bytes())),
            state: Mutex::new(State::after(DEFAULT_POOL)),
        }
    }

    /// Gives back all that is live; handles go on from where they were.
    #[cfg(feature = "fault-injection")]
    pub(super) fn clear(&self) {
        let (mut plain, before) = {
            let mut state = self.state();
            let fresh = State::after(state.last_handle);
            let before = std::mem::replace(&mut *state, fresh);
            (before.plain_memory(), before)
        };
        // Streams first: their workers may still have addresses.
        drop(before);
        for (address, size_bytes) in plain.drain(..) {
            self.memory.unmap(address, size_bytes);
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
}

impl State {
    /// A device with nothing in it, whose handles count up from this one.
    fn after(last_handle: u64) -> State {
        State {
            last_handle,
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
        }
    }

    pub(super) fn new_handle(&mut self) -> u64 {
        self.last_handle += 0x10;
        self.last_handle
    }
}

fn capacity_bytes() -> u64 {
    // What cannot be read was refused when the device was chosen.
    let asked = asked_bytes().ok().flatten();
    asked.unwrap_or_else(|| (available_bytes() / 2).min(CAPACITY_BYTES_MAX))
}

/// The memory that `POOLBENCH_HOST_MEMORY_MIB` asks for; its text where that is no number of MiB.
pub(in crate::driver) fn asked_bytes() -> Result<Option<u64>, String> {
    let text = std::env::var_os("POOLBENCH_HOST_MEMORY_MIB").unwrap_or_default();
    let text = text.to_string_lossy();
    if text.is_empty() {
        return Ok(None);
    }
    let mib = text.parse::<u64>().ok().filter(|mib| (1..=MIB_MAX).contains(mib));
    mib.map(|mib| Some(mib << 20)).ok_or_else(|| text.into_owned())
}

/// `MemAvailable`; where the system does not say, a size that every machine has.
fn available_bytes() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(1 << 30, |kib| kib * 1024)
}
