//! Used, reserved, and their high watermarks.

use crate::subject::{Observed, Probe, Subject, documented, observed};
use poolbench::cuda::Stream;

pub const SUBJECTS: &[Subject] = &[
    documented(
        "marks/used_rises_and_falls",
        "Used is what is allocated, and 0 again when everything is freed and has run.",
        used_rises_and_falls,
    ),
    documented(
        "marks/high_never_below_current",
        "High watermarks hold the largest value since their reset.",
        high_never_below_current,
    ),
    observed(
        "marks/used_counts_requested_bytes",
        "Used is the sum of the bytes asked for, not of the bytes placed.",
        used_counts_requested_bytes,
    ),
    observed(
        "marks/used_falls_at_the_call",
        "Used falls when the free is called, also while the stream is busy.",
        used_falls_at_the_call,
    ),
    observed(
        "marks/reset_to_current",
        "A high watermark that is reset takes the current value.",
        reset_to_current,
    ),
    observed(
        "marks/reuse_does_not_count_twice",
        "A block that is freed and allocated again in the same stream does not raise the high watermark.",
        reuse_does_not_count_twice,
    ),
];

fn used_rises_and_falls(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    let [first, second] = pool.alloc_all(&stream, [10, 20])?;
    probe.expect("used MiB with 10 and 20 live", 30, pool.used_mib()?);
    pool.free_all(&stream, &[first, second])?;
    stream.synchronize()?;
    probe.expect("used bytes with nothing live", 0, pool.used_bytes_current()?);
    Ok(())
}

fn high_never_below_current(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    let first = pool.alloc(&stream, 100)?;
    let reserved = pool.reserved_mib()?;
    pool.free(&stream, first)?;
    stream.synchronize()?;
    pool.alloc(&stream, 20)?;
    probe.expect("used high MiB after 100, none, 20", 100, pool.used_high_mib()?);
    probe.expect(
        "reserved high MiB is that of the 100",
        reserved,
        pool.reserved_high_mib()?,
    );
    Ok(())
}

fn used_counts_requested_bytes(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    // 1 + 513 + 1_000_001 bytes.
    for (size, used) in [(1, 1), (513, 514), (1_000_001, 1_000_515)] {
        pool.alloc_bytes(&stream, size)?;
        probe.expect(
            format_args!("used bytes after {size} more"),
            used,
            pool.used_bytes_current()?,
        );
    }
    Ok(())
}

fn used_falls_at_the_call(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    let block = pool.alloc(&stream, 64)?;
    probe.occupy(&stream)?;
    pool.free(&stream, block)?;
    let seen = [pool.used_mib()?, pool.reserved_mib()?];
    probe.still_busy(&stream)?;
    probe.expect("used and reserved MiB after the free, the stream busy", [0, 64], seen);
    Ok(())
}

fn reset_to_current(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    let [large, _small] = pool.alloc_all(&stream, [100, 20])?;
    pool.free(&stream, large)?;
    stream.synchronize()?;
    probe.expect(
        "used and reserved high MiB",
        [120, 128],
        [pool.used_high_mib()?, pool.reserved_high_mib()?],
    );
    pool.reset_high_watermarks()?;
    // The 20 lie at 100..120, in the fourth unit, which alone is left.
    probe.expect(
        "the same after a reset",
        [20, 32],
        [pool.used_high_mib()?, pool.reserved_high_mib()?],
    );
    Ok(())
}

fn reuse_does_not_count_twice(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    for _ in 0..5 {
        pool.cache(&stream, 48)?;
    }
    probe.expect(
        "used and reserved high MiB",
        [48, 64],
        [pool.used_high_mib()?, pool.reserved_high_mib()?],
    );
    Ok(())
}
