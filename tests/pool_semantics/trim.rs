//! `cuMemPoolTrimTo`.

use crate::subject::{Observed, Probe, Subject, documented, observed};
use poolbench::cuda::Stream;

pub const SUBJECTS: &[Subject] = &[
    documented(
        "trim/after_a_synchronise",
        "A trim to 0 after a synchronise gives everything back that no live allocation needs.",
        after_a_synchronise,
    ),
    documented(
        "trim/keeps_live_memory",
        "A trim leaves live allocations their memory and their contents.",
        keeps_live_memory,
    ),
    observed(
        "trim/before_a_synchronise",
        "A trim gives nothing back whose free the host has not seen complete, idle or queried though the device be.",
        before_a_synchronise,
    ),
    observed(
        "trim/rounds_up",
        "A trim keeps what was asked, rounded up to 32 MiB; used memory counts.",
        rounds_up,
    ),
    observed(
        "trim/high_marks_stay",
        "A trim leaves the reserved high watermark.",
        high_marks_stay,
    ),
];

fn after_a_synchronise(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    pool.keep_everything()?;
    pool.cache(&stream, 96)?;
    stream.synchronize()?;
    probe.expect("held by the threshold", true, pool.reserved_mib()? >= 96);
    pool.trim_to(0)?;
    probe.expect("reserved bytes after the trim", 0, pool.reserved_bytes_current()?);
    Ok(())
}

fn keeps_live_memory(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    pool.keep_everything()?;
    let [below, live, above] = pool.alloc_all(&stream, [64; 3])?;
    let mut seen = vec![0.0; 16 << 20];
    stream.set_words(live, 2.5_f32.to_bits(), seen.len())?;
    pool.free_all(&stream, &[below, above])?;
    stream.synchronize()?;
    pool.trim_to(0)?;
    probe.expect("the pool still covers the 64 MiB", true, pool.reserved_mib()? >= 64);
    stream.copy_to_host(&mut seen, live)?;
    probe.expect(
        "every element as it was",
        true,
        seen.iter().all(|element| *element == 2.5),
    );
    Ok(())
}

fn before_a_synchronise(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    pool.keep_everything()?;
    let block = pool.alloc(&stream, 96)?;
    probe.occupy(&stream)?;
    pool.free(&stream, block)?;
    pool.trim_to(0)?;
    let seen = pool.reserved_mib()?;
    probe.still_busy(&stream)?;
    probe.expect("reserved MiB, the free pending", 96, seen);
    probe.let_finish(&stream)?;
    pool.trim_to(0)?;
    probe.expect(
        "reserved MiB, the free complete and the stream queried",
        96,
        pool.reserved_mib()?,
    );
    stream.synchronize()?;
    pool.trim_to(0)?;
    probe.expect("reserved MiB after a synchronise and a trim", 0, pool.reserved_mib()?);
    Ok(())
}

fn rounds_up(probe: &mut Probe<'_>) -> Observed {
    let stream = Stream::new()?;
    // Live and cached MiB, what to keep, reserved MiB after.
    let cases = [
        (0, 96, 0, 0),
        (0, 96, 1, 32),
        (0, 96, 32, 32),
        (0, 96, 33, 64),
        (0, 96, 64, 64),
        (0, 96, 95, 96),
        (0, 96, 200, 96),
        (64, 64, 48, 64),
        (64, 64, 100, 128),
        (0, 100, 48, 64),
        (0, 100, 100, 128),
    ];
    for (live, cached, keep, reserved) in cases {
        let pool = probe.pool()?;
        pool.keep_everything()?;
        pool.alloc(&stream, live)?;
        pool.cache(&stream, cached)?;
        stream.synchronize()?;
        pool.trim_to(keep << 20)?;
        let what = format!("reserved MiB, {live} live and {cached} free, trimmed to {keep}");
        probe.expect(what, reserved, pool.reserved_mib()?);
    }
    Ok(())
}

fn high_marks_stay(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    pool.keep_everything()?;
    pool.cache(&stream, 96)?;
    stream.synchronize()?;
    pool.trim_to(0)?;
    probe.expect(
        "reserved and reserved high MiB",
        [0, 96],
        [pool.reserved_mib()?, pool.reserved_high_mib()?],
    );
    Ok(())
}
