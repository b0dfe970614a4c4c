//! `cuMemAllocManaged` and `cuMemFree` in the loop: memory that moves on first touch.

use super::{Setup, Strategy, StrategyKind};
use crate::cuda::{DevicePtr, Error, Result, Stream, alloc_managed, free_plain};

pub(super) const KIND: StrategyKind = StrategyKind {
    name: "managed",
    has_work: true,
    build,
};

/// Managed memory beyond what is free is evicted instead of refused, which can bring a GPU to a halt;
/// a loop never asks for more than this part of the free memory.
const FREE_SHARE: usize = 8;

struct Managed;

fn build(setup: &Setup<'_>) -> Result<Box<dyn Strategy>> {
    let (size_bytes, free_bytes) = (setup.size.as_bytes(), setup.device.memory_info()?.free_bytes);
    if size_bytes > free_bytes / FREE_SHARE {
        return Err(Error::BeyondShare {
            size_bytes,
            share_bytes: free_bytes / FREE_SHARE,
        });
    }
    Ok(Box::new(Managed))
}

impl Strategy for Managed {
    fn alloc(&mut self, _: &Stream, size_bytes: usize) -> Result<DevicePtr> {
        alloc_managed(size_bytes)
    }

    fn free(&mut self, _: &Stream, pointer: DevicePtr) -> Result<()> {
        free_plain(pointer)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
