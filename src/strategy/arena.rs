//! Sub-allocation from one block that was allocated before the loop: what a caching allocator costs.

use super::{Setup, Strategy, StrategyKind};
use crate::cuda::{DeviceBuffer, DevicePtr, Error, Result, Stream};
use offset_allocator::{Allocation, Allocator};
use std::collections::HashMap;

pub(super) const KIND: StrategyKind = StrategyKind {
    name: "arena",
    has_work: true,
    build,
};

/// The step of the arena, so that 32-bit offsets reach a terabyte. CUDA's own allocations are aligned
/// to as much.
const UNIT_BYTES: usize = 256;

struct Arena {
    block: DeviceBuffer,
    allocator: Allocator,
    /// A free names only the address, so an arena has to find the rest, as caching allocators do.
    live: HashMap<DevicePtr, Allocation>,
}

fn build(setup: &Setup<'_>) -> Result<Box<dyn Strategy>> {
    let units = setup.size.as_bytes().div_ceil(UNIT_BYTES);
    // The allocator keeps free memory in classes an eighth of an octave apart, and looks for a request
    // from the next class up.
    let units = units + units / 8 + 1;
    let size_bytes = units.saturating_mul(UNIT_BYTES);
    let Ok(units) = u32::try_from(units) else {
        return Err(Error::TooLarge { size_bytes });
    };
    let block = DeviceBuffer::uninitialized(size_bytes / size_of::<f32>())?;
    Ok(Box::new(Arena {
        block,
        allocator: Allocator::new(units),
        live: HashMap::new(),
    }))
}

impl Strategy for Arena {
    fn alloc(&mut self, _: &Stream, size_bytes: usize) -> Result<DevicePtr> {
        let units = u32::try_from(size_bytes.div_ceil(UNIT_BYTES)).map_err(|_| Error::TooLarge { size_bytes })?;
        let allocation = self.allocator.allocate(units).ok_or(Error::TooLarge { size_bytes })?;
        let pointer = self
            .block
            .pointer()
            .offset(u64::from(allocation.offset) * UNIT_BYTES as u64);
        self.live.insert(pointer, allocation);
        Ok(pointer)
    }

    /// Work in the same stream may still use the memory; whoever gets it next comes after that.
    fn free(&mut self, _: &Stream, pointer: DevicePtr) -> Result<()> {
        let allocation = self.live.remove(&pointer).ok_or(Error::NotAllocated {
            address: pointer.address(),
        })?;
        self.allocator.free(allocation);
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.block.close()
    }
}
