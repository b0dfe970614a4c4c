//! Pools come and go: the current pool, the default pool, and pools destroyed in use.

use crate::subject::{Observed, Probe, Stop, Subject, documented, observed};
use poolbench::cuda::{Device, MemoryPool, Stream};

pub const SUBJECTS: &[Subject] = &[
    documented(
        "lifetime/default_pool_is_current",
        "The current pool is the default pool until another is made current.",
        default_pool_is_current,
    ),
    documented(
        "lifetime/current_pool",
        "Allocations that name no pool come from the current one; when that is destroyed, the default pool is current again.",
        current_pool,
    ),
    observed(
        "lifetime/stream_destroyed_before_the_free",
        "An allocation outlives its stream, and is freed in another.",
        stream_destroyed_before_the_free,
    ),
    documented(
        "lifetime/destroyed_with_cached_memory",
        "Destroying a pool with nothing live gives all of its memory back.",
        destroyed_with_cached_memory,
    ),
    documented(
        "lifetime/destroyed_with_live_allocations",
        "Live allocations outlive their pool, can be used and freed, and then their memory is given back.",
        destroyed_with_live_allocations,
    ),
    documented(
        "lifetime/destroyed_with_a_free_pending",
        "Destroying a pool does not wait for pending frees; its memory is given back after them.",
        destroyed_with_a_free_pending,
    ),
];

/// Other processes may use the device: what is free is compared with this much room.
const ROOM_BYTES: usize = 8 << 20;

fn default_pool_is_current(probe: &mut Probe<'_>) -> Observed {
    let (default, current) = (
        MemoryPool::default_of(probe.device)?,
        MemoryPool::current_of(probe.device)?,
    );
    probe.expect(
        "the current pool is the default pool",
        true,
        default.is_same_as(&current),
    );
    Ok(())
}

fn current_pool(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    let default = MemoryPool::default_of(probe.device)?;
    pool.make_current(probe.device)?;
    probe.expect(
        "the own pool is current",
        true,
        pool.is_same_as(&MemoryPool::current_of(probe.device)?),
    );
    let block = MemoryPool::alloc_from_current(&stream, 8 << 20)?;
    let used = pool.used_mib()?;
    MemoryPool::free(&stream, block)?;
    stream.synchronize()?;
    probe.expect("used MiB of the own pool", 8, used);
    pool.destroy_as_it_is()?;
    let current = MemoryPool::current_of(probe.device)?;
    probe.expect("the default pool is current again", true, default.is_same_as(&current));
    Ok(())
}

fn stream_destroyed_before_the_free(probe: &mut Probe<'_>) -> Observed {
    let (pool, a, b) = (probe.pool()?, Stream::new()?, Stream::new()?);
    let block = pool.alloc(&a, 32)?;
    a.close()?;
    probe.expect(
        "used and reserved MiB",
        [32, 32],
        [pool.used_mib()?, pool.reserved_mib()?],
    );
    probe.expect_code("cuMemFreeAsync in another stream", 0, &pool.free(&b, block));
    b.synchronize()?;
    probe.expect(
        "used and reserved MiB after it",
        [0, 0],
        [pool.used_mib()?, pool.reserved_mib()?],
    );
    Ok(())
}

fn missing_since(device: &Device, before: usize) -> Result<usize, Stop> {
    Ok(before.saturating_sub(device.memory_info()?.free_bytes))
}

fn destroyed_with_cached_memory(probe: &mut Probe<'_>) -> Observed {
    let stream = Stream::new()?;
    let before = probe.device.memory_info()?.free_bytes;
    let pool = probe.pool()?;
    pool.keep_everything()?;
    pool.cache(&stream, 256)?;
    stream.synchronize()?;
    let held = missing_since(probe.device, before)?;
    probe.expect("the pool holds its memory", true, held >= 256 << 20);
    pool.destroy_as_it_is()?;
    let missing = missing_since(probe.device, before)?;
    probe.expect("it is all back", true, missing <= ROOM_BYTES);
    Ok(())
}

fn destroyed_with_live_allocations(probe: &mut Probe<'_>) -> Observed {
    let stream = Stream::new()?;
    let before = probe.device.memory_info()?.free_bytes;
    let pool = probe.pool()?;
    let block = pool.alloc(&stream, 64)?;
    let destroyed = pool.destroy_as_it_is();
    probe.expect_code("cuMemPoolDestroy with a live block", 0, &destroyed);
    let mut elements = vec![0.0; 16 << 20];
    stream.set_words(block, 42.0_f32.to_bits(), elements.len())?;
    stream.copy_to_host(&mut elements, block)?;
    probe.expect("the block works", true, elements.iter().all(|element| *element == 42.0));
    probe.expect_code("cuMemFreeAsync of it", 0, &MemoryPool::free(&stream, block));
    stream.synchronize()?;
    let missing = missing_since(probe.device, before)?;
    probe.expect("its memory is back", true, missing <= ROOM_BYTES);
    Ok(())
}

fn destroyed_with_a_free_pending(probe: &mut Probe<'_>) -> Observed {
    if !probe.device.is_host() {
        let reason = "driver 580.159.04 was seen to crash in later calls; free, synchronise, then destroy";
        return Err(Stop::Skipped(String::from(reason)));
    }
    let stream = Stream::new()?;
    let before = probe.device.memory_info()?.free_bytes;
    let pool = probe.pool()?;
    let block = pool.alloc(&stream, 64)?;
    probe.occupy(&stream)?;
    pool.free(&stream, block)?;
    let destroyed = pool.destroy_as_it_is();
    let held = missing_since(probe.device, before)?;
    probe.still_busy(&stream)?;
    probe.expect_code("cuMemPoolDestroy with a free pending", 0, &destroyed);
    probe.expect("the memory is still held", true, held >= 64 << 20);
    stream.synchronize()?;
    let missing = missing_since(probe.device, before)?;
    probe.expect("it is back after a synchronise", true, missing <= ROOM_BYTES);
    Ok(())
}
