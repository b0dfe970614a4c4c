//! Virtual memory management in the loop: reserve, create, map, set access; and back.

use super::{Setup, Strategy, StrategyKind};
use crate::cuda::Device;
use crate::cuda::{DevicePtr, Error, MappedMemory, Result, Stream, close_all, mapping_granularity_bytes};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

pub(super) const KIND: StrategyKind = StrategyKind {
    name: "vmm",
    has_work: true,
    build,
};

struct Vmm {
    device: Device,
    granularity_bytes: usize,
    live: HashMap<DevicePtr, MappedMemory>,
}

fn build(setup: &Setup<'_>) -> Result<Box<dyn Strategy>> {
    let granularity_bytes = mapping_granularity_bytes(setup.device)?;
    Ok(Box::new(Vmm {
        device: setup.device.clone(),
        granularity_bytes,
        live: HashMap::new(),
    }))
}

impl Strategy for Vmm {
    fn alloc(&mut self, _: &Stream, size_bytes: usize) -> Result<DevicePtr> {
        let memory = MappedMemory::map(&self.device, size_bytes.next_multiple_of(self.granularity_bytes))?;
        let pointer = memory.pointer();
        self.live.insert(pointer, memory);
        Ok(pointer)
    }

    /// Unmapping does not wait for the device, so the stream is waited for first. Where that fails the memory stays
    /// until the strategy is closed: what was submitted may still use it.
    fn free(&mut self, stream: &Stream, pointer: DevicePtr) -> Result<()> {
        let Entry::Occupied(memory) = self.live.entry(pointer) else {
            return Err(Error::NotAllocated {
                address: pointer.address(),
            });
        };
        stream.synchronize()?;
        memory.remove().close()
    }

    fn close(self: Box<Self>) -> Result<()> {
        close_all(self.live.into_values(), MappedMemory::close)
    }
}
