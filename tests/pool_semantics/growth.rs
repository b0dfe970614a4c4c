//! How a pool grows and where it puts things.

use crate::ground::{MIB, TestPool};
use crate::subject::{Observed, Probe, Stop, Subject, documented, observed};
use poolbench::cuda::{DevicePtr, Stream};

pub const SUBJECTS: &[Subject] = &[
    documented(
        "growth/reserved_covers_used",
        "A pool never holds less than is allocated from it, and live blocks do not overlap.",
        reserved_covers_used,
    ),
    observed(
        "growth/in_units_of_32_mib",
        "One request in a fresh pool reserves its size rounded up to 32 MiB.",
        in_units_of_32_mib,
    ),
    observed(
        "growth/requests_share_units",
        "Requests follow each other across units, and a unit is added where the last one ends.",
        requests_share_units,
    ),
    observed(
        "growth/exact_with_a_part_free",
        "A request larger than what is free grows the pool by what is missing, in units.",
        exact_with_a_part_free,
    ),
    observed(
        "growth/free_units_move",
        "Free units that do not adjoin serve one larger request: their memory moves, and nothing is added.",
        free_units_move,
    ),
    observed(
        "growth/placement_in_steps_of_512",
        "Blocks follow each other in steps of 512 bytes, in a pool that begins at a multiple of 32 MiB.",
        placement_in_steps_of_512,
    ),
    observed(
        "growth/best_fit",
        "Of the holes that a synchronise made free, the smallest that fits is taken.",
        best_fit,
    ),
];

fn distance(from: DevicePtr, to: DevicePtr) -> i128 {
    i128::from(to.address()) - i128::from(from.address())
}

fn reserved_covers_used(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    let mut live: Vec<(u64, u64)> = Vec::new();
    for (index, size) in [1, 4096, 3 * MIB + 1, 31 * MIB, 100 * MIB, 777].into_iter().enumerate() {
        let start = pool.alloc_bytes(&stream, size)?.address();
        let overlaps = live
            .iter()
            .any(|(other, length)| start < other + length && *other < start + size);
        probe.expect(format_args!("request {index} overlaps another"), false, overlaps);
        live.push((start, size));
        let covers = pool.reserved_bytes_current()? >= live.iter().map(|(_, size)| size).sum();
        probe.expect(format_args!("reserved covers {} requests", live.len()), true, covers);
    }
    Ok(())
}

fn in_units_of_32_mib(probe: &mut Probe<'_>) -> Observed {
    let stream = Stream::new()?;
    let sizes = [
        (1, 32),
        (MIB, 32),
        (32 * MIB, 32),
        (32 * MIB + 1, 64),
        (64 * MIB, 64),
        (65 * MIB, 96),
        (100 * MIB, 128),
        (256 * MIB, 256),
        (257 * MIB, 288),
    ];
    for (size, reserved) in sizes {
        let pool = probe.pool()?;
        pool.alloc_bytes(&stream, size)?;
        probe.expect(
            format_args!("reserved MiB after {size} bytes"),
            reserved,
            pool.reserved_mib()?,
        );
    }
    Ok(())
}

/// Reserved MiB after each of these requests, none of them freed.
fn reserved_after(pool: &TestPool, stream: &Stream, sizes_mib: &[u64]) -> Result<Vec<u64>, Stop> {
    let mut reserved = Vec::new();
    for size in sizes_mib {
        pool.alloc(stream, *size)?;
        reserved.push(pool.reserved_mib()?);
    }
    Ok(reserved)
}

fn requests_share_units(probe: &mut Probe<'_>) -> Observed {
    let stream = Stream::new()?;
    let cases: [(&[u64], &[u64]); 5] = [
        (&[20, 20], &[32, 64]),
        (&[33, 31], &[64, 64]),
        (&[100, 28], &[128, 128]),
        (&[100, 29], &[128, 160]),
        (&[40, 40, 40, 40], &[64, 96, 128, 160]),
    ];
    for (sizes, reserved) in cases {
        let pool = probe.pool()?;
        let seen = reserved_after(&pool, &stream, sizes)?;
        probe.expect(
            format_args!("reserved MiB after each of {sizes:?} MiB"),
            reserved.to_vec(),
            seen,
        );
    }
    Ok(())
}

fn exact_with_a_part_free(probe: &mut Probe<'_>) -> Observed {
    let stream = Stream::new()?;
    // 33 live take two units; 40 more end in the third.
    let pool = probe.pool()?;
    let seen = reserved_after(&pool, &stream, &[33, 40])?;
    probe.expect("reserved MiB after 33 and 40 live", vec![64, 96], seen);
    // 32 free and seen: 64 takes that unit and one more.
    let pool = probe.pool()?;
    pool.keep_everything()?;
    pool.cache(&stream, 32)?;
    stream.synchronize()?;
    pool.alloc(&stream, 64)?;
    probe.expect("reserved MiB after 64 with 32 free", 64, pool.reserved_mib()?);
    Ok(())
}

fn free_units_move(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    pool.keep_everything()?;
    let [first, _second, third, last] = pool.alloc_all(&stream, [32; 4])?;
    pool.free_all(&stream, &[first, third])?;
    stream.synchronize()?;
    let larger = pool.alloc(&stream, 64)?;
    probe.expect("reserved MiB", 128, pool.reserved_mib()?);
    probe.expect("the new block lies above the last", true, larger > last);
    Ok(())
}

fn placement_in_steps_of_512(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    // Sizes, and how far behind the block the next one begins.
    let sizes = [(1, 512), (512, 512), (513, 1024), (MIB + 1, MIB + 512)];
    let mut last: Option<(DevicePtr, u64, u64)> = None;
    for (size, step) in sizes.into_iter().chain([(1, 512)]) {
        let pointer = pool.alloc_bytes(&stream, size)?;
        match last {
            None => probe.expect("the first address modulo 32 MiB", 0, pointer.address() % (32 * MIB)),
            Some((before, size, step)) => {
                let what = format!("distance from a block of {size} bytes to the next");
                probe.expect(what, i128::from(step), distance(before, pointer));
            }
        }
        last = Some((pointer, size, step));
    }
    Ok(())
}

fn best_fit(probe: &mut Probe<'_>) -> Observed {
    let stream = Stream::new()?;
    // Holes in the order of their addresses, requests, and which hole each takes, in MiB.
    let cases: [([u64; 3], &[u64], &[usize]); 2] = [([8, 4, 2], &[2, 3], &[2, 1]), ([4, 8, 6], &[5], &[2])];
    for (holes, requests, taken) in cases {
        let pool = probe.pool()?;
        pool.keep_everything()?;
        let mut starts = Vec::new();
        for hole in holes {
            starts.push(pool.alloc(&stream, hole)?);
            // What keeps the holes apart.
            pool.alloc(&stream, 1)?;
        }
        pool.free_all(&stream, &starts)?;
        stream.synchronize()?;
        for (request, hole) in requests.iter().zip(taken) {
            let pointer = pool.alloc(&stream, *request)?;
            let seen = starts.iter().position(|start| *start == pointer);
            let what = format!("which of the holes {holes:?} MiB begins a block of {request} MiB");
            probe.expect(what, Some(*hole), seen);
        }
    }
    Ok(())
}
