//! What happens when memory is short.

use crate::ground::{MIB, TestPool};
use crate::subject::{Observed, Probe, Stop, Subject, documented, observed};
use poolbench::cuda::{self, DevicePtr, Stream};

pub const SUBJECTS: &[Subject] = &[
    documented(
        "memory_pressure/beyond_the_device",
        "A request beyond the device's memory is refused as out of memory, and the pool and context stay usable.",
        beyond_the_device,
    ),
    observed(
        "memory_pressure/a_refusal_leaves_the_high_mark",
        "A refused request first takes all there is: at threshold 0 it is back at once, and the high watermark keeps it.",
        a_refusal_leaves_the_high_mark,
    ),
    documented(
        "memory_pressure/synchronise_and_retry",
        "A request that pending frees keep from being served succeeds after a synchronise.",
        synchronise_and_retry,
    ),
    observed(
        "memory_pressure/a_refusal_grows_the_pool",
        "A refused request leaves a pool at threshold max with all that was left, used unchanged.",
        a_refusal_grows_the_pool,
    ),
    observed(
        "memory_pressure/cached_memory_is_reclaimed",
        "What pools cache and the host has seen free serves other pools and cuMemAlloc, whatever the threshold.",
        cached_memory_is_reclaimed,
    ),
    observed(
        "memory_pressure/unseen_frees_are_not_reclaimed",
        "What the host has not seen free is not taken from a pool for another.",
        unseen_frees_are_not_reclaimed,
    ),
    observed(
        "memory_pressure/internal_dependencies",
        "With internal dependencies on, a pending block of another stream is handed out when memory is short, and waited for.",
        internal_dependencies,
    ),
    observed(
        "memory_pressure/free_units_move",
        "Free memory on both sides of a live block serves one larger request, without growth.",
        free_units_move,
    ),
];

fn beyond_the_device(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    pool.alloc(&stream, 8)?;
    let total = probe.device.memory_info()?.total_bytes as u64;
    for size in [2 * total, u64::MAX] {
        let refused = pool.alloc_bytes(&stream, size);
        probe.expect_code(format_args!("a request of {size} bytes"), 2, &refused);
    }
    let ordinary = cuda::alloc_plain(usize::try_from(2 * total).expect("64 bits"));
    probe.expect_code("cuMemAlloc of twice the device", 2, &ordinary);
    probe.expect("used MiB", 8, pool.used_mib()?);
    let next = pool.alloc(&stream, 8);
    probe.expect_code("the next request", 0, &next);
    probe.expect_code("the context", 0, &probe.device.synchronize());
    Ok(())
}

fn a_refusal_leaves_the_high_mark(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    pool.alloc(&stream, 8)?;
    let info = probe.device.memory_info()?;
    let refused = pool.alloc_bytes(&stream, 2 * info.total_bytes as u64);
    probe.expect_code("twice the device", 2, &refused);
    probe.expect("reserved MiB", 32, pool.reserved_mib()?);
    // Nine tenths of what was free: other processes may have taken some meanwhile.
    let high = pool.reserved_high_mib()?;
    probe.expect(
        "the high watermark came near what was free",
        true,
        high >= info.free_bytes as u64 / 10 * 9 / MIB,
    );
    Ok(())
}

/// Ordinary memory that leaves so much, rounded down to 64 MiB, free on the device.
struct Filler {
    block: DevicePtr,
    /// What pools can still reserve.
    left_mib: u64,
}

/// A GPU is left more, since its driver takes memory for its own ends.
fn fill(probe: &Probe<'_>) -> Result<Filler, Stop> {
    let is_asked_for = std::env::var("POOLBENCH_SEMANTICS_FILL").is_ok_and(|value| value == "1");
    if !probe.device.is_host() && !is_asked_for {
        let reason = "fills the GPU's memory; POOLBENCH_SEMANTICS_FILL=1 runs it";
        return Err(Stop::Skipped(String::from(reason)));
    }
    probe.device.synchronize()?;
    let leave_mib = if probe.device.is_host() { 256 } else { 2048 };
    let free_mib = probe.device.memory_info()?.free_bytes as u64 / MIB;
    if free_mib < leave_mib + 64 {
        return Err(Stop::Skipped(format!("only {free_mib} MiB are free")));
    }
    let block = cuda::alloc_plain(usize::try_from((free_mib - leave_mib) * MIB).expect("64 bits"))?;
    let left_mib = probe.device.memory_info()?.free_bytes as u64 / MIB / 64 * 64;
    Ok(Filler { block, left_mib })
}

impl Drop for Filler {
    fn drop(&mut self) {
        if let Err(error) = cuda::free_plain(self.block) {
            eprintln!("freeing the filler: {error}");
        }
    }
}

/// A pool at threshold max.
fn keeping_pool(probe: &Probe<'_>) -> Result<TestPool, Stop> {
    let pool = probe.pool()?;
    pool.keep_everything()?;
    Ok(pool)
}

fn synchronise_and_retry(probe: &mut Probe<'_>) -> Observed {
    let filler = fill(probe)?;
    let (pool, stream) = (keeping_pool(probe)?, Stream::new()?);
    let half = filler.left_mib / 2;
    let block = pool.alloc(&stream, half)?;
    probe.occupy(&stream)?;
    pool.free(&stream, block)?;
    let refused = pool.alloc(&stream, half + 64);
    probe.still_busy(&stream)?;
    probe.expect_code("more than the pending block, and more than is left", 2, &refused);
    stream.synchronize()?;
    probe.expect_code("the same after a synchronise", 0, &pool.alloc(&stream, half + 64));
    Ok(())
}

fn a_refusal_grows_the_pool(probe: &mut Probe<'_>) -> Observed {
    let filler = fill(probe)?;
    let (pool, stream) = (keeping_pool(probe)?, Stream::new()?);
    pool.alloc(&stream, 32)?;
    let refused = pool.alloc(&stream, 2 * filler.left_mib);
    probe.expect_code("twice what is left", 2, &refused);
    probe.expect("used MiB", 32, pool.used_mib()?);
    let grown = pool.reserved_mib()? + 64 >= filler.left_mib;
    probe.expect("the pool holds what was left, but for 64 MiB", true, grown);
    Ok(())
}

fn cached_memory_is_reclaimed(probe: &mut Probe<'_>) -> Observed {
    let filler = fill(probe)?;
    let stream = Stream::new()?;
    let most = filler.left_mib / 4 * 3 / 32 * 32;
    for taker in ["another pool", "cuMemAlloc"] {
        let pool = keeping_pool(probe)?;
        pool.cache(&stream, most)?;
        stream.synchronize()?;
        let held = pool.reserved_mib()?;
        let taken = if taker == "cuMemAlloc" {
            let bytes = usize::try_from(most * MIB).expect("64 bits");
            cuda::alloc_plain(bytes).and_then(cuda::free_plain)
        } else {
            keeping_pool(probe)?.alloc(&stream, most).map(drop)
        };
        probe.expect_code(
            format_args!("three quarters of what is left, cached in a pool, for {taker}"),
            0,
            &taken,
        );
        probe.expect(
            format_args!("the pool gave some of it up for {taker}"),
            true,
            pool.reserved_mib()? < held,
        );
    }
    Ok(())
}

fn unseen_frees_are_not_reclaimed(probe: &mut Probe<'_>) -> Observed {
    let filler = fill(probe)?;
    let (pool, a, b) = (keeping_pool(probe)?, Stream::new()?, Stream::new()?);
    let most = filler.left_mib / 4 * 3 / 32 * 32;
    pool.cache(&a, most)?;
    let other = probe.pool()?;
    let refused = other.alloc(&b, most);
    probe.expect_code(
        "three quarters of what is left, freed elsewhere and not seen",
        2,
        &refused,
    );
    probe.expect("reserved MiB of the pool that holds it", most, pool.reserved_mib()?);
    a.synchronize()?;
    probe.expect_code("the same once the host has seen the free", 0, &other.alloc(&b, most));
    Ok(())
}

fn internal_dependencies(probe: &mut Probe<'_>) -> Observed {
    let filler = fill(probe)?;
    let most = filler.left_mib / 4 * 3 / 32 * 32;
    for on in [false, true] {
        let (pool, a, b) = (keeping_pool(probe)?, Stream::new()?, Stream::new()?);
        pool.set_policies([false, false, on])?;
        let block = pool.alloc(&a, most)?;
        probe.occupy(&a)?;
        pool.free(&a, block)?;
        let again = pool.alloc(&b, most);
        if let Ok(again) = &again {
            b.set_words(*again, 0, 1)?;
        }
        // Time enough to set a word: if B is still busy after it, B waits for A.
        std::thread::sleep(std::time::Duration::from_millis(5));
        let waits = !b.is_idle()?;
        probe.still_busy(&a)?;
        let seen = again.as_ref().ok().map(|again| *again == block);
        let what = format!("internal dependencies {on}: whether it is served, by the pending block, and waited for");
        probe.expect(what, (on.then_some(true), on), (seen, waits));
        if !on {
            probe.expect_code("the refusal", 2, &again);
        }
    }
    Ok(())
}

fn free_units_move(probe: &mut Probe<'_>) -> Observed {
    let filler = fill(probe)?;
    let (pool, stream) = (keeping_pool(probe)?, Stream::new()?);
    let quarter = filler.left_mib / 4 / 32 * 32;
    let [below, _live, above] = pool.alloc_all(&stream, [quarter; 3])?;
    pool.free_all(&stream, &[below, above])?;
    stream.synchronize()?;
    let larger = pool.alloc(&stream, 2 * quarter);
    probe.expect_code("twice the block, half of it on each side", 0, &larger);
    probe.expect("reserved MiB", 3 * quarter, pool.reserved_mib()?);
    Ok(())
}
