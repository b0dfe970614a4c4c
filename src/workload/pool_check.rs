//! Pools of the workloads' own, and what a pool must hold once a loop is done.

use crate::cuda::{self, Device, MemoryPool};
use crate::measure::{Failure, Reserved};

/// A new pool at the largest release threshold: it gives nothing back by itself.
pub(super) fn keeping_pool(device: &Device) -> cuda::Result<MemoryPool> {
    let pool = MemoryPool::create(device)?;
    pool.set_release_threshold_bytes(u64::MAX)?;
    Ok(pool)
}

/// What the pool holds after a synchronise; an error where its used bytes are not back at what they
/// were, or where it holds more than its threshold allows.
pub(super) fn reserved_after_loop(
    pool: &MemoryPool,
    used_before_bytes: u64,
    release_threshold_bytes: u64,
) -> Result<Reserved, Failure> {
    let used = pool.used_bytes_current()?;
    if used != used_before_bytes {
        return Err(Failure::UsedBytes {
            before: used_before_bytes,
            after: used,
        });
    }
    let reserved = pool.reserved_bytes_current()?;
    // What other code holds in a shared pool is in the way of giving back; here nothing else does.
    if reserved > release_threshold_bytes.max(used) {
        return Err(Failure::ReservedBytes {
            reserved,
            threshold: release_threshold_bytes,
        });
    }
    Ok(Reserved {
        after_synchronize_bytes: reserved,
        high_bytes: pool.reserved_bytes_high()?,
        used_high_bytes: pool.used_bytes_high()?,
    })
}
