//! Stream-ordered allocation from a pool of our own.

use super::{Setup, Strategy, StrategyKind};
use crate::cuda::{DevicePtr, MemoryPool, Result, Stream};

pub(super) const KIND: StrategyKind = StrategyKind {
    name: "owned_pool",
    has_work: true,
    build,
};

struct OwnedPool {
    pool: MemoryPool,
}

fn build(setup: &Setup<'_>) -> Result<Box<dyn Strategy>> {
    let pool = MemoryPool::create(setup.device)?;
    pool.set_release_threshold_bytes(setup.release_threshold_bytes)?;
    Ok(Box::new(OwnedPool { pool }))
}

impl Strategy for OwnedPool {
    fn alloc(&mut self, stream: &Stream, size_bytes: usize) -> Result<DevicePtr> {
        self.pool.alloc(stream, size_bytes)
    }

    fn free(&mut self, stream: &Stream, pointer: DevicePtr) -> Result<()> {
        MemoryPool::free(stream, pointer)
    }

    fn pool(&self) -> Option<&MemoryPool> {
        Some(&self.pool)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.pool.close()
    }
}
