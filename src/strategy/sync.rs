//! `cuMemAlloc` and `cuMemFree` in the loop: what most programs begin with.

use super::{Setup, Strategy, StrategyKind};
use crate::cuda::{DevicePtr, Result, Stream, alloc_plain, free_plain};

pub(super) const KIND: StrategyKind = StrategyKind {
    name: "sync",
    has_work: true,
    build,
};

struct Sync;

fn build(_: &Setup<'_>) -> Result<Box<dyn Strategy>> {
    Ok(Box::new(Sync))
}

impl Strategy for Sync {
    fn alloc(&mut self, _: &Stream, size_bytes: usize) -> Result<DevicePtr> {
        alloc_plain(size_bytes)
    }

    fn free(&mut self, _: &Stream, pointer: DevicePtr) -> Result<()> {
        free_plain(pointer)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
