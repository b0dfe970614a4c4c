//! `cuMemAllocAsync` and `cuMemFreeAsync` on the device's default pool.

use super::{Setup, Strategy, StrategyKind};
use crate::cuda::{DevicePtr, MemoryPool, Result, Stream, report_failed_drop};

pub(super) const KIND: StrategyKind = StrategyKind {
    name: "stream_ordered",
    has_work: true,
    build,
};

/// The default pool outlives the case, and every case that uses it: what is changed is put back, and
/// it begins and ends empty, and its high watermarks begin there, so that no case finds another's memory.
struct StreamOrdered {
    pool: MemoryPool,
    threshold_before_bytes: Option<u64>,
}

fn build(setup: &Setup<'_>) -> Result<Box<dyn Strategy>> {
    let pool = MemoryPool::default_of(setup.device)?;
    let before = pool.release_threshold_bytes()?;
    let strategy = StreamOrdered {
        pool,
        threshold_before_bytes: Some(before),
    };
    setup.device.synchronize()?;
    strategy.pool.trim_to(0)?;
    strategy.pool.reset_high_watermarks()?;
    strategy
        .pool
        .set_release_threshold_bytes(setup.release_threshold_bytes)?;
    Ok(Box::new(strategy))
}

impl StreamOrdered {
    fn restore(&mut self) -> Result<()> {
        let Some(before) = self.threshold_before_bytes.take() else {
            return Ok(());
        };
        let trimmed = self.pool.trim_to(0);
        trimmed.and(self.pool.set_release_threshold_bytes(before))
    }
}

impl Strategy for StreamOrdered {
    fn alloc(&mut self, stream: &Stream, size_bytes: usize) -> Result<DevicePtr> {
        MemoryPool::alloc_from_current(stream, size_bytes)
    }

    fn free(&mut self, stream: &Stream, pointer: DevicePtr) -> Result<()> {
        MemoryPool::free(stream, pointer)
    }

    fn pool(&self) -> Option<&MemoryPool> {
        Some(&self.pool)
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.restore()
    }
}

impl Drop for StreamOrdered {
    fn drop(&mut self) {
        report_failed_drop("default pool's settings", self.restore());
    }
}
