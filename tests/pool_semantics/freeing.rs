//! Frees: by the other call, of other memory, of nothing, and wrong ones.

use crate::ground::MIB;
use crate::subject::{Observed, Probe, Subject, documented, observed};
use poolbench::cuda::{self, DevicePtr, MemoryPool, Stream};

pub const SUBJECTS: &[Subject] = &[
    documented(
        "freeing/pool_memory_by_cumemfree",
        "cuMemFree takes memory of a pool, and does not wait for a busy stream.",
        pool_memory_by_cumemfree,
    ),
    documented(
        "freeing/ordinary_memory_in_stream_order",
        "cuMemFreeAsync takes memory of cuMemAlloc, which is back after a synchronise.",
        ordinary_memory_in_stream_order,
    ),
    documented(
        "freeing/in_another_stream",
        "Memory may be freed in a stream other than its own.",
        in_another_stream,
    ),
    observed(
        "freeing/cumemfree_leaves_used",
        "cuMemFree of pool memory gives it back at once and never lowers used: a quirk of the accounting.",
        cumemfree_leaves_used,
    ),
    observed(
        "freeing/cumemfree_serves_any_stream",
        "A block that cuMemFree freed goes to any stream at once, with every policy off.",
        cumemfree_serves_any_stream,
    ),
    observed(
        "freeing/ordinary_memory_waits",
        "cuMemFree of ordinary memory waits for the device, and pools take no note of it.",
        ordinary_memory_waits,
    ),
    observed(
        "freeing/ordinary_memory_twice",
        "Ordinary memory freed in stream order can be freed once more by cuMemFree while pending, not a third time.",
        ordinary_memory_twice,
    ),
    observed(
        "freeing/zero_bytes",
        "A request of 0 bytes succeeds with the null address, which both frees take; cuMemAlloc refuses it.",
        zero_bytes,
    ),
    observed(
        "freeing/wrong_addresses",
        "Double frees, interior, unallocated and garbage addresses are refused with code 1, and nothing is poisoned.",
        wrong_addresses,
    ),
    observed(
        "freeing/before_it_is_reached",
        "A free in another stream may come before the allocation's own stream has reached it.",
        before_it_is_reached,
    ),
    observed(
        "freeing/copies_from_freed_memory",
        "A copy from a freed block is refused with code 1, also while the pool retains the memory.",
        copies_from_freed_memory,
    ),
];

fn pool_memory_by_cumemfree(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    let block = pool.alloc(&stream, 32)?;
    stream.synchronize()?;
    probe.occupy(&stream)?;
    let freed = pool.free_synchronously(block);
    probe.still_busy(&stream)?;
    probe.expect_code(
        "cuMemFree of pool memory, its stream busy with something else",
        0,
        &freed,
    );
    Ok(())
}

fn cumemfree_leaves_used(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    let [by_cumemfree, second, third] = pool.alloc_all(&stream, [10; 3])?;
    pool.free_synchronously(by_cumemfree)?;
    pool.free_all(&stream, &[second, third])?;
    stream.synchronize()?;
    probe.expect(
        "used and reserved MiB after all frees",
        [10, 0],
        [pool.used_mib()?, pool.reserved_mib()?],
    );
    pool.trim_to(0)?;
    pool.reset_high_watermarks()?;
    probe.expect(
        "used and used high MiB after a trim and a reset",
        [10, 10],
        [pool.used_mib()?, pool.used_high_mib()?],
    );
    let fresh = probe.pool()?;
    let block = fresh.alloc(&stream, 40)?;
    fresh.free_synchronously(block)?;
    probe.expect(
        "used and reserved MiB at once",
        [40, 0],
        [fresh.used_mib()?, fresh.reserved_mib()?],
    );
    Ok(())
}

fn cumemfree_serves_any_stream(probe: &mut Probe<'_>) -> Observed {
    let (pool, a, b) = (probe.pool()?, Stream::new()?, Stream::new()?);
    pool.set_policies([false; 3])?;
    pool.keep_everything()?;
    let block = pool.alloc(&a, 32)?;
    probe.occupy(&a)?;
    pool.free_synchronously(block)?;
    let again = pool.alloc(&b, 32)?;
    probe.still_busy(&a)?;
    probe.expect("the same block in another stream, the first busy", true, again == block);
    Ok(())
}

/// Other processes may use the device: what is free is compared with this much room.
const ROOM_BYTES: usize = 8 << 20;

fn ordinary_memory_in_stream_order(probe: &mut Probe<'_>) -> Observed {
    let stream = Stream::new()?;
    let before = probe.device.memory_info()?.free_bytes;
    let block = cuda::alloc_plain(64 << 20)?;
    let freed = MemoryPool::free(&stream, block);
    probe.expect_code("cuMemFreeAsync of cuMemAlloc memory", 0, &freed);
    stream.synchronize()?;
    let missing = before.saturating_sub(probe.device.memory_info()?.free_bytes);
    probe.expect("the 64 MiB are back after a synchronise", true, missing <= ROOM_BYTES);
    Ok(())
}

fn in_another_stream(probe: &mut Probe<'_>) -> Observed {
    let (pool, a, b) = (probe.pool()?, Stream::new()?, Stream::new()?);
    let block = pool.alloc(&a, 32)?;
    a.synchronize()?;
    let freed = pool.free(&b, block);
    probe.expect_code("cuMemFreeAsync in another stream", 0, &freed);
    b.synchronize()?;
    probe.expect(
        "used and reserved MiB",
        [0, 0],
        [pool.used_mib()?, pool.reserved_mib()?],
    );
    Ok(())
}

fn ordinary_memory_waits(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    pool.cache(&stream, 64)?;
    let ordinary = cuda::alloc_plain(MIB as usize)?;
    probe.occupy(&stream)?;
    probe.still_busy(&stream)?;
    cuda::free_plain(ordinary)?;
    let seen = (stream.is_idle()?, pool.reserved_mib()?);
    probe.expect("the stream is idle, and reserved MiB", (true, 64), seen);
    Ok(())
}

fn ordinary_memory_twice(probe: &mut Probe<'_>) -> Observed {
    let stream = Stream::new()?;
    let block = cuda::alloc_plain(MIB as usize)?;
    probe.occupy(&stream)?;
    MemoryPool::free(&stream, block)?;
    probe.still_busy(&stream)?;
    probe.expect_code("cuMemFree after cuMemFreeAsync", 0, &cuda::free_plain(block));
    probe.expect_code("cuMemFree once more", 1, &cuda::free_plain(block));
    Ok(())
}

fn zero_bytes(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    let nothing = pool.alloc_bytes(&stream, 0);
    probe.expect("a pool's answer to 0 bytes", Ok(DevicePtr::NULL), nothing);
    probe.expect(
        "the current pool's",
        Ok(DevicePtr::NULL),
        MemoryPool::alloc_from_current(&stream, 0),
    );
    probe.expect(
        "used and reserved MiB",
        [0, 0],
        [pool.used_mib()?, pool.reserved_mib()?],
    );
    probe.expect_code("cuMemFreeAsync(0)", 0, &MemoryPool::free(&stream, DevicePtr::NULL));
    probe.expect_code("cuMemFree(0)", 0, &cuda::free_plain(DevicePtr::NULL));
    probe.expect_code("cuMemAlloc of 0 bytes", 1, &cuda::alloc_plain(0));
    Ok(())
}

fn wrong_addresses(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    pool.keep_everything()?;
    let [twice, mixed, live] = pool.alloc_all(&stream, [8, 8, 8])?;
    pool.free(&stream, twice)?;
    probe.expect_code("a second cuMemFreeAsync, pending", 1, &MemoryPool::free(&stream, twice));
    probe.expect_code("cuMemFree after cuMemFreeAsync", 1, &cuda::free_plain(twice));
    stream.synchronize()?;
    probe.expect_code(
        "a second cuMemFreeAsync, synchronised",
        1,
        &MemoryPool::free(&stream, twice),
    );
    pool.free_synchronously(mixed)?;
    probe.expect_code("a second cuMemFree", 1, &cuda::free_plain(mixed));
    probe.expect_code("cuMemFreeAsync after cuMemFree", 1, &MemoryPool::free(&stream, mixed));
    let wrong = [
        ("inside a block", live.offset(512)),
        ("never allocated in the pool", live.offset(10 << 20)),
        ("garbage", DevicePtr::NULL.offset(0x1234_5600)),
        ("non-canonical", DevicePtr::NULL.offset(0xdead_0000_0000_0000)),
    ];
    for (what, address) in wrong {
        probe.expect_code(
            format_args!("cuMemFreeAsync, {what}"),
            1,
            &MemoryPool::free(&stream, address),
        );
        probe.expect_code(format_args!("cuMemFree, {what}"), 1, &cuda::free_plain(address));
    }
    probe.expect_code("the context afterwards", 0, &probe.device.synchronize());
    // 8 live and 8 that cuMemFree leaves counted.
    probe.expect("used MiB", 16, pool.used_mib()?);
    Ok(())
}

fn before_it_is_reached(probe: &mut Probe<'_>) -> Observed {
    let (pool, a, b) = (probe.pool()?, Stream::new()?, Stream::new()?);
    probe.occupy(&a)?;
    let block = pool.alloc(&a, 32)?;
    let freed = pool.free(&b, block);
    probe.still_busy(&a)?;
    probe.expect_code("cuMemFreeAsync in another stream, the allocating one busy", 0, &freed);
    Ok(())
}

fn copies_from_freed_memory(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    pool.keep_everything()?;
    let block = pool.alloc(&stream, 8)?;
    stream.set_words(block, 0, 1024)?;
    let mut elements = vec![0.0; 1024];
    probe.expect_code("a copy while it is live", 0, &stream.copy_to_host(&mut elements, block));
    pool.free(&stream, block)?;
    stream.synchronize()?;
    probe.expect("reserved MiB", 32, pool.reserved_mib()?);
    probe.expect_code("a copy after the free", 1, &stream.copy_to_host(&mut elements, block));
    Ok(())
}
