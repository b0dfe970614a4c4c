//! Sub-allocation from one block that was allocated before the loop: what a caching allocator costs.

use super::plan::{ArenaSize, UNIT_BYTES};
use super::{Plan, Request, Setup, Strategy, StrategyKind};
use crate::cuda::{DeviceBuffer, DevicePtr, Error, Result, Stream};
use offset_allocator::{Allocation, Allocator};
use std::collections::HashMap;

pub(super) const KIND: StrategyKind = StrategyKind {
    name: "arena",
    has_work: true,
    build,
};

struct Arena {
    block: DeviceBuffer,
    allocator: Allocator,
    /// A free names only the address, so an arena has to find the rest, as caching allocators do.
    live: HashMap<DevicePtr, Allocation>,
}

fn build(setup: &Setup<'_>) -> Result<Box<dyn Strategy>> {
    let size = match setup.plan {
        Some(plan) => plan.arena(fitting).ok_or_else(|| too_large(plan.peak().0))?,
        // One block at a time.
        None => {
            let size_bytes = setup.size.as_bytes() as u64;
            let units = units_of(size_bytes).and_then(with_room);
            ArenaSize {
                units: units.ok_or_else(|| too_large(size_bytes))?,
                blocks_max: BLOCKS_MIN,
            }
        }
    };
    let size_bytes = u64::from(size.units) * UNIT_BYTES;
    let length = usize::try_from(size_bytes).unwrap_or(usize::MAX) / size_of::<f32>();
    let block = DeviceBuffer::uninitialized(length)?;
    Ok(Box::new(Arena {
        block,
        allocator: Allocator::with_max_allocs(size.units, size.blocks_max),
        live: HashMap::new(),
    }))
}

/// Blocks that the smallest arena counts: what the allocator takes where nothing else is said.
const BLOCKS_MIN: u32 = 128 << 10;

/// The number of steps, so that 32-bit offsets reach a terabyte; `None` beyond.
fn units_of(size_bytes: u64) -> Option<u32> {
    u32::try_from(size_bytes.div_ceil(UNIT_BYTES)).ok()
}

fn too_large(size_bytes: u64) -> Error {
    Error::TooLarge {
        size_bytes: usize::try_from(size_bytes).unwrap_or(usize::MAX),
    }
}

/// An eighth more: the allocator keeps free memory in classes an eighth of an octave apart, and looks
/// for a request from the next class up.
fn with_room(units: u32) -> Option<u32> {
    units.checked_add(units / 8 + 1)
}

/// The smallest arena, in steps of an eighth from the peak on, that the sequence fits into. An arena
/// cannot grow, so this is found by trying.
fn fitting(plan: &Plan) -> Option<ArenaSize> {
    let (peak_bytes, peak_blocks) = plan.peak();
    // Each block has at most one gap beside it.
    let blocks_max = u32::try_from(peak_blocks.saturating_mul(2)).unwrap_or(u32::MAX);
    let mut size = ArenaSize {
        units: units_of(peak_bytes)?.max(1),
        blocks_max: blocks_max.clamp(BLOCKS_MIN, u32::MAX / 2),
    };
    while !fits(plan, size) {
        size.units = with_room(size.units)?;
    }
    Some(size)
}

fn fits(plan: &Plan, size: ArenaSize) -> bool {
    let mut allocator: Allocator = Allocator::with_max_allocs(size.units, size.blocks_max);
    let mut live = HashMap::new();
    for request in plan.requests() {
        match *request {
            Request::Alloc { slot, size_bytes } => {
                let Some(allocation) = units_of(size_bytes).and_then(|units| allocator.allocate(units)) else {
                    return false;
                };
                live.insert(slot, allocation);
            }
            Request::Free { slot } => {
                if let Some(allocation) = live.remove(&slot) {
                    allocator.free(allocation);
                }
            }
        }
    }
    true
}

impl Strategy for Arena {
    fn alloc(&mut self, _: &Stream, size_bytes: usize) -> Result<DevicePtr> {
        let allocation = units_of(size_bytes as u64).and_then(|units| self.allocator.allocate(units));
        let allocation = allocation.ok_or(Error::TooLarge { size_bytes })?;
        let pointer = self.block.pointer().offset(u64::from(allocation.offset) * UNIT_BYTES);
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

    fn serves_one_stream(&self) -> bool {
        true
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.block.close()
    }
}
