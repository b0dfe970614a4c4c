//! The release threshold: what a pool gives back at a synchronise, and what counts as one.

use crate::ground::{MIB, TestPool};
use crate::subject::{Observed, Probe, Stop, Subject, documented, observed};
use poolbench::cuda::{self, Event, Kernels, Stream};

pub const SUBJECTS: &[Subject] = &[
    documented(
        "threshold/stream_synchronize",
        "At threshold 0 a stream synchronise gives back what was freed in the stream.",
        stream_synchronize,
    ),
    documented(
        "threshold/event_synchronize",
        "So does the synchronise of an event behind the free.",
        event_synchronize,
    ),
    documented(
        "threshold/context_synchronize",
        "So does a context synchronise.",
        context_synchronize,
    ),
    documented(
        "threshold/holds_up_to_it",
        "What does not exceed the threshold is kept at a synchronise, and serves the next request.",
        holds_up_to_it,
    ),
    documented(
        "threshold/live_allocation",
        "A live allocation keeps its memory, and so keeps the pool from emptying.",
        live_allocation,
    ),
    observed(
        "threshold/in_parts",
        "A synchronise leaves the threshold rounded down to 32 MiB, or what live blocks pin, whatever the allocations were.",
        in_parts,
    ),
    observed(
        "threshold/a_byte_pins_a_unit",
        "One live byte keeps 32 MiB wherever it lies, and nothing else.",
        a_byte_pins_a_unit,
    ),
    observed(
        "threshold/no_more_than_asked",
        "Of several free units only as many go as the threshold asks, in whichever order they were freed.",
        no_more_than_asked,
    ),
    observed(
        "threshold/behind_an_event",
        "The synchronise of a stream that waited for an event behind the free gives back too.",
        behind_an_event,
    ),
    observed(
        "threshold/default_stream",
        "The synchronise of the legacy default stream covers blocking streams, not the others, nor the other way round.",
        default_stream,
    ),
    observed(
        "threshold/stream_destroyed",
        "Destroying an idle stream gives back what was freed in it.",
        stream_destroyed,
    ),
    observed(
        "threshold/no_synchronise",
        "Queries, other streams and events, copies elsewhere, allocations, frees, trims and loads do not count as one.",
        no_synchronise,
    ),
    observed(
        "threshold/only_what_was_waited_for",
        "A synchronise releases nothing that was freed in a stream it did not wait for.",
        only_what_was_waited_for,
    ),
    observed(
        "threshold/event_while_the_stream_is_busy",
        "An event between the free and further work is enough, though the stream stay busy.",
        event_while_the_stream_is_busy,
    ),
    observed(
        "threshold/lowered_later",
        "A threshold that is lowered acts at the next synchronise of a stream that used the pool, though it frees nothing.",
        lowered_later,
    ),
];

/// A pool with 64 MiB freed in a stream and not seen, the device idle.
fn with_64_cached(probe: &Probe<'_>, stream: &Stream) -> Result<TestPool, Stop> {
    let pool = probe.pool()?;
    pool.cache(stream, 64)?;
    probe.let_finish(stream)?;
    Ok(pool)
}

fn stream_synchronize(probe: &mut Probe<'_>) -> Observed {
    let stream = Stream::new()?;
    let pool = with_64_cached(probe, &stream)?;
    probe.expect("held before", true, pool.reserved_mib()? >= 64);
    stream.synchronize()?;
    probe.expect(
        "reserved bytes after cuStreamSynchronize",
        0,
        pool.reserved_bytes_current()?,
    );
    Ok(())
}

fn event_synchronize(probe: &mut Probe<'_>) -> Observed {
    let (stream, event) = (Stream::new()?, Event::new()?);
    let pool = with_64_cached(probe, &stream)?;
    event.record(&stream)?;
    event.synchronize()?;
    probe.expect(
        "reserved bytes after cuEventSynchronize",
        0,
        pool.reserved_bytes_current()?,
    );
    Ok(())
}

fn context_synchronize(probe: &mut Probe<'_>) -> Observed {
    let stream = Stream::new()?;
    let pool = with_64_cached(probe, &stream)?;
    probe.device.synchronize()?;
    probe.expect(
        "reserved bytes after cuCtxSynchronize",
        0,
        pool.reserved_bytes_current()?,
    );
    Ok(())
}

fn holds_up_to_it(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    pool.keep_everything()?;
    let first = pool.cache(&stream, 64)?;
    let reserved = pool.reserved_mib()?;
    stream.synchronize()?;
    probe.expect("reserved MiB after a synchronise", reserved, pool.reserved_mib()?);
    let second = pool.alloc(&stream, 64)?;
    probe.expect(
        "reserved MiB after the same request again",
        reserved,
        pool.reserved_mib()?,
    );
    probe.expect("the same block", first, second);
    Ok(())
}

fn live_allocation(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    let [live, freed] = pool.alloc_all(&stream, [64, 64])?;
    let mut seen = vec![0.0; 16 << 20];
    stream.set_words(live, 1.5_f32.to_bits(), seen.len())?;
    pool.free(&stream, freed)?;
    stream.synchronize()?;
    probe.expect(
        "the pool still covers the live 64 MiB",
        true,
        pool.reserved_mib()? >= 64,
    );
    stream.copy_to_host(&mut seen, live)?;
    probe.expect(
        "every element as it was",
        true,
        seen.iter().all(|element| *element == 1.5),
    );
    Ok(())
}

/// Live MiB, freed MiB block by block, then pairs of threshold and reserved MiB after a synchronise.
type Parts = (u64, &'static [u64], &'static [(u64, u64)]);

fn in_parts(probe: &mut Probe<'_>) -> Observed {
    let stream = Stream::new()?;
    let cases: [Parts; 4] = [
        (
            0,
            &[32, 32, 32],
            &[
                (0, 0),
                (31, 0),
                (32, 32),
                (63, 32),
                (64, 64),
                (95, 64),
                (96, 96),
                (500, 96),
            ],
        ),
        (
            0,
            &[100],
            &[(0, 0), (32, 32), (64, 64), (96, 96), (127, 96), (128, 128)],
        ),
        (0, &[256, 32], &[(100, 96)]),
        (64, &[64], &[(0, 64), (65, 64), (96, 96), (127, 96), (128, 128)]),
    ];
    for (live, freed, thresholds) in cases {
        for (threshold, reserved) in thresholds {
            let pool = probe.pool()?;
            pool.set_threshold_mib(*threshold)?;
            pool.alloc(&stream, live)?;
            let blocks = freed.iter().map(|size| pool.alloc(&stream, *size));
            let blocks = blocks.collect::<cuda::Result<Vec<_>>>()?;
            pool.free_all(&stream, &blocks)?;
            stream.synchronize()?;
            let what = format!("reserved MiB, {live} live, {freed:?} freed, threshold {threshold} MiB");
            probe.expect(what, *reserved, pool.reserved_mib()?);
        }
    }
    Ok(())
}

fn a_byte_pins_a_unit(probe: &mut Probe<'_>) -> Observed {
    let stream = Stream::new()?;
    // The byte lies behind so many MiB, and as many follow as make it 128.
    for before in [0, 60, 127] {
        let pool = probe.pool()?;
        let first = pool.alloc(&stream, before)?;
        pool.alloc_bytes(&stream, 1)?;
        let last = pool.alloc_bytes(&stream, (128 - before) * MIB - 512)?;
        let reserved = pool.reserved_mib()?;
        pool.free_all(&stream, &[first, last])?;
        stream.synchronize()?;
        let what = format!("reserved MiB before and after, one byte live behind {before} MiB");
        probe.expect(what, [128, 32], [reserved, pool.reserved_mib()?]);
    }
    Ok(())
}

fn no_more_than_asked(probe: &mut Probe<'_>) -> Observed {
    let stream = Stream::new()?;
    for lower_first in [true, false] {
        let pool = probe.pool()?;
        // Two live units, and room for one of the two free ones.
        pool.set_threshold_mib(96)?;
        let [lower, _live, upper, _last] = pool.alloc_all(&stream, [32; 4])?;
        let order = if lower_first { [lower, upper] } else { [upper, lower] };
        pool.free_all(&stream, &order)?;
        stream.synchronize()?;
        let reserved = pool.reserved_mib()?;
        // Which of the two it is was seen to differ between runs on the same driver.
        let what = format!("reserved MiB, the lower unit freed first: {lower_first}");
        probe.expect(what, 96, reserved);
    }
    Ok(())
}

fn behind_an_event(probe: &mut Probe<'_>) -> Observed {
    let (stream, other, event) = (Stream::new()?, Stream::new()?, Event::new()?);
    let pool = with_64_cached(probe, &stream)?;
    event.record(&stream)?;
    other.wait_event(&event)?;
    other.synchronize()?;
    probe.expect(
        "reserved MiB after the other stream's synchronise",
        0,
        pool.reserved_mib()?,
    );
    Ok(())
}

fn default_stream(probe: &mut Probe<'_>) -> Observed {
    let default = Stream::legacy_default();
    let (blocking, other) = (Stream::blocking()?, Stream::new()?);
    let cases = [
        ("blocking", &blocking, "default", &default, 0),
        ("non-blocking", &other, "default", &default, 64),
        ("default", &default, "blocking", &blocking, 64),
    ];
    for (freed_in, freed, waited_for, waited, reserved) in cases {
        let pool = with_64_cached(probe, freed)?;
        waited.synchronize()?;
        let what = format!("reserved MiB, freed in a {freed_in} stream, the {waited_for} stream synchronised");
        probe.expect(what, reserved, pool.reserved_mib()?);
    }
    Ok(())
}

fn stream_destroyed(probe: &mut Probe<'_>) -> Observed {
    let stream = Stream::new()?;
    let pool = with_64_cached(probe, &stream)?;
    stream.close()?;
    probe.expect("reserved MiB after cuStreamDestroy", 0, pool.reserved_mib()?);
    Ok(())
}

/// What an action that is no synchronise may use.
struct Elsewhere<'a> {
    pool: &'a TestPool,
    stream: &'a Stream,
    other: &'a Stream,
    probe: &'a Probe<'a>,
}

type Action = fn(&Elsewhere<'_>) -> Result<(), Stop>;

const NO_SYNCHRONISES: &[(&str, Action)] = &[
    ("cuStreamQuery", |at| Ok(at.stream.is_idle().map(drop)?)),
    ("cuEventQuery of an event behind the free", |at| {
        let event = Event::new()?;
        event.record(at.stream)?;
        while !event.is_reached()? {}
        Ok(())
    }),
    ("synchronise of another stream", |at| Ok(at.other.synchronize()?)),
    ("synchronise of an event of another stream", |at| {
        let event = Event::new()?;
        event.record(at.other)?;
        Ok(event.synchronize()?)
    }),
    ("synchronise of an event that was never recorded", |_| {
        Ok(Event::new()?.synchronize()?)
    }),
    ("cuMemAlloc and cuMemFree of ordinary memory", |_| {
        Ok(cuda::free_plain(cuda::alloc_plain(1 << 20)?)?)
    }),
    ("cuMemGetInfo", |at| Ok(at.probe.device.memory_info().map(drop)?)),
    ("cuMemPoolTrimTo(0)", |at| Ok(at.pool.trim_to(0)?)),
    ("setting the threshold", |at| Ok(at.pool.set_threshold_mib(0)?)),
    ("a pool made and destroyed", |at| at.probe.pool().map(drop_unused)),
    // Kept, since unloading is another matter.
    ("a module loaded", |_| Ok(Kernels::load().map(std::mem::forget)?)),
    ("allocation, copy, free and synchronise in another stream", |at| {
        // So that it gets a unit of its own, which its own synchronise gives back.
        at.pool.set_policies([false; 3])?;
        let block = at.pool.alloc(at.other, 1)?;
        at.other.copy_on_device(block, block.offset(4096), 4096)?;
        at.pool.free(at.other, block)?;
        Ok(at.other.synchronize()?)
    }),
];

/// A pool's usual end synchronises, which here would be the thing itself.
fn drop_unused(pool: TestPool) {
    pool.destroy_as_it_is().expect("an empty pool can be destroyed");
}

fn no_synchronise(probe: &mut Probe<'_>) -> Observed {
    for (name, action) in NO_SYNCHRONISES {
        let (stream, other) = (Stream::new()?, Stream::new()?);
        let pool = with_64_cached(probe, &stream)?;
        action(&Elsewhere {
            pool: &pool,
            stream: &stream,
            other: &other,
            probe,
        })?;
        probe.expect(format_args!("reserved MiB after {name}"), 64, pool.reserved_mib()?);
    }
    Ok(())
}

fn only_what_was_waited_for(probe: &mut Probe<'_>) -> Observed {
    let (a, b) = (Stream::new()?, Stream::new()?);
    let (of_a, of_b) = (with_64_cached(probe, &a)?, with_64_cached(probe, &b)?);
    a.synchronize()?;
    let seen = [of_a.reserved_mib()?, of_b.reserved_mib()?];
    probe.expect(
        "reserved MiB of the pools freed in A and in B, A synchronised",
        [0, 64],
        seen,
    );
    let pool = probe.pool()?;
    let [pending, seen_by_b] = pool.alloc_all(&a, [64, 64])?;
    a.synchronize()?;
    probe.occupy(&a)?;
    pool.free(&a, pending)?;
    pool.free(&b, seen_by_b)?;
    b.synchronize()?;
    let reserved = pool.reserved_mib()?;
    probe.still_busy(&a)?;
    probe.expect(
        "reserved MiB, 64 pending in busy A and 64 freed in B, B synchronised",
        64,
        reserved,
    );
    Ok(())
}

fn event_while_the_stream_is_busy(probe: &mut Probe<'_>) -> Observed {
    let (stream, event) = (Stream::new()?, Event::new()?);
    let pool = probe.pool()?;
    pool.cache(&stream, 64)?;
    event.record(&stream)?;
    probe.occupy(&stream)?;
    event.synchronize()?;
    let reserved = pool.reserved_mib()?;
    probe.still_busy(&stream)?;
    probe.expect("reserved MiB after cuEventSynchronize, the stream busy", 0, reserved);
    Ok(())
}

fn lowered_later(probe: &mut Probe<'_>) -> Observed {
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    pool.keep_everything()?;
    pool.cache(&stream, 64)?;
    stream.synchronize()?;
    pool.set_threshold_mib(0)?;
    probe.expect("reserved MiB at once", 64, pool.reserved_mib()?);
    // A stream in which nothing was ever submitted was seen to count on some runs and not on others.
    stream.synchronize()?;
    probe.expect("reserved MiB after the synchronise", 0, pool.reserved_mib()?);
    Ok(())
}
