//! What is live on the host device: what a program that gives everything back leaves at nothing.

use super::device::DEVICE;
use super::device_pools::DEFAULT_POOL;
use super::device_streams::DEFAULT_STREAM;
use super::pinned;
use std::fmt;

/// What is live on the host device, once all work in it has run. The legacy default stream and the
/// default pool are the device's own, and count only by what the pool holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Allocations, plain and of pools, page-locked host memory, and what graphs left unfreed.
    pub allocations: usize,
    /// Reservations and memory of virtual memory management.
    pub mappings: usize,
    /// Pools that were made, and pools that live on for the sake of an allocation.
    pub pools: usize,
    /// Streams.
    pub streams: usize,
    /// Events.
    pub events: usize,
    /// Captures that have not ended, graphs and executable graphs.
    pub graphs: usize,
    /// Modules.
    pub modules: usize,
    /// How often the context was retained and not released.
    pub contexts: usize,
    /// What the default pool and graphs hold, and all else that is mapped, in bytes.
    pub mapped_bytes: u64,
    /// The default pool's release threshold, in bytes.
    pub release_threshold_bytes: u64,
}

impl Ledger {
    /// Takes stock, after all work that was submitted.
    #[must_use]
    pub fn take() -> Ledger {
        DEVICE.settle();
        let state = DEVICE.state();
        let default_pool = state.pools.get(&DEFAULT_POOL);
        let streams = state.streams.keys().filter(|id| **id != DEFAULT_STREAM).count();
        Ledger {
            allocations: state.allocations.len()
                + state.freed_plain.len()
                + state.graphs.memory.n_unfreed()
                + pinned::n_live(),
            mappings: state.mappings.n_live(),
            pools: state.pools.len() - usize::from(default_pool.is_some()),
            streams: streams + state.retired.len(),
            events: state.events.len(),
            graphs: state.captures.n_open() + state.graphs.n_live(),
            modules: state.modules.len(),
            contexts: state.retained as usize,
            mapped_bytes: DEVICE.memory.capacity_bytes() - DEVICE.memory.free_bytes(),
            release_threshold_bytes: default_pool.map_or(0, |pool| pool.pool.attributes.release_threshold),
        }
    }

    /// Whether nothing is live.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Ledger::default()
    }
}

impl fmt::Display for Ledger {
    /// What there is, in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.allocations as u64, "allocations"),
            (self.mappings as u64, "mappings"),
            (self.pools as u64, "pools"),
            (self.streams as u64, "streams"),
            (self.events as u64, "events"),
            (self.graphs as u64, "graphs"),
            (self.modules as u64, "modules"),
            (self.contexts as u64, "retained contexts"),
            (self.mapped_bytes, "mapped bytes"),
            (
                self.release_threshold_bytes,
                "bytes of the default pool's release threshold",
            ),
        ];
        let live = counts.iter().filter(|(count, _)| *count != 0);
        let live: Vec<String> = live.map(|(count, what)| format!("{count} {what}")).collect();
        if live.is_empty() {
            f.write_str("nothing")
        } else {
            f.write_str(&live.join(", "))
        }
    }
}

/// Takes everything back, as the end of a process does. For a test that goes on after a failure.
///
/// Handles from before are unknown afterwards, also the calling thread's own default stream.
#[cfg(feature = "fault-injection")]
pub fn take_everything_back() {
    DEVICE.settle();
    super::device::HostDevice::forget_own_stream();
    pinned::free_all();
    DEVICE.clear();
}
