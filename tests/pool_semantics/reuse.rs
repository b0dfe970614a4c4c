//! Which freed block a pool hands to which stream, by policy and by how far the free has come.

use crate::ground::TestPool;
use crate::subject::{Observed, Probe, Stop, Subject, documented, observed};
use poolbench::cuda::{DevicePtr, Event, Stream};

pub const SUBJECTS: &[Subject] = &[
    documented(
        "reuse/never_without_permission",
        "A block freed in another stream, and not seen complete by the host, is never handed out where no policy that is on allows it.",
        never_without_permission,
    ),
    documented(
        "reuse/after_a_synchronise",
        "What the host has seen complete serves every stream, whatever the policies.",
        after_a_synchronise,
    ),
    documented(
        "reuse/stream_order_is_kept",
        "Work on a block that is reused behind an event runs after the old owner's work on it.",
        stream_order_is_kept,
    ),
    observed(
        "reuse/by_policy_and_state",
        "Each policy allows exactly its state: an event dependency, a completed free, or neither.",
        by_policy_and_state,
    ),
    observed(
        "reuse/event_variants",
        "A dependency counts through a third stream, with the event recorded anew or destroyed; one before the free does not.",
        event_variants,
    ),
    observed(
        "reuse/default_stream",
        "The legacy default stream and a blocking stream order each other as an event does; a non-blocking one does not.",
        default_stream,
    ),
    observed(
        "reuse/same_stream",
        "The same stream gets its block back at once, pending or not, with every policy off, and smaller pieces of it.",
        same_stream,
    ),
    observed(
        "reuse/larger_in_the_same_stream",
        "A larger request extends a freed block in place once the free is complete and the opportunistic policy is on.",
        larger_in_the_same_stream,
    ),
    observed(
        "reuse/where_it_was_freed",
        "A block freed in a stream other than its own is reusable in that stream, and not in its own.",
        where_it_was_freed,
    ),
    observed(
        "reuse/preferences",
        "The own stream's freed block is preferred to a free hole, a block behind an event to unused space, unused space to a pending block.",
        preferences,
    ),
    observed(
        "reuse/stream_destroyed_with_a_free_pending",
        "A free in a stream that is then destroyed stays pending until the stream's work is done.",
        stream_destroyed_with_a_free_pending,
    ),
];

/// How far the free in A has come when B asks, and what B knows of it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Pending, and B waits for nothing.
    Pending,
    /// Pending, and an event before the free is waited for.
    PendingBehindEarlierEvent,
    /// Pending, and B waits for an event behind the free.
    PendingBehindEvent,
    /// Complete on the device; the host has not looked.
    Done,
    /// Complete, and B waits for an event behind it.
    DoneBehindEvent,
    /// The host has synchronised with it.
    Synchronised,
}

impl State {
    const ALL: [State; 6] = [
        State::Pending,
        State::PendingBehindEarlierEvent,
        State::PendingBehindEvent,
        State::Done,
        State::DoneBehindEvent,
        State::Synchronised,
    ];

    fn is_pending(self) -> bool {
        matches!(
            self,
            State::Pending | State::PendingBehindEarlierEvent | State::PendingBehindEvent
        )
    }

    /// Whether B gets the block, by follow-event and opportunistic.
    fn is_reused(self, [follow, opportunistic, _]: [bool; 3]) -> bool {
        match self {
            State::Pending | State::PendingBehindEarlierEvent => false,
            State::PendingBehindEvent => follow,
            State::Done => opportunistic,
            State::DoneBehindEvent => follow || opportunistic,
            State::Synchronised => true,
        }
    }
}

/// The eight combinations, in the order of `ReusePolicy::ALL`.
fn all_policies() -> impl Iterator<Item = [bool; 3]> {
    (0..8).map(|bits| [bits & 4 != 0, bits & 2 != 0, bits & 1 != 0])
}

/// Whether B gets the block that A freed.
fn is_reused(probe: &Probe<'_>, state: State, policies: [bool; 3]) -> Result<bool, Stop> {
    let (pool, a, b) = (probe.pool()?, Stream::new()?, Stream::new()?);
    pool.set_policies(policies)?;
    pool.keep_everything()?;
    let event = Event::new()?;
    let block = pool.alloc(&a, 32)?;
    if state.is_pending() {
        probe.occupy(&a)?;
    }
    if state == State::PendingBehindEarlierEvent {
        event.record(&a)?;
    }
    pool.free(&a, block)?;
    match state {
        State::PendingBehindEvent | State::DoneBehindEvent => event.record(&a)?,
        State::Synchronised => a.synchronize()?,
        _ => {}
    }
    if !state.is_pending() {
        probe.let_finish(&a)?;
    }
    if !matches!(state, State::Pending | State::Done | State::Synchronised) {
        b.wait_event(&event)?;
    }
    let again = pool.alloc(&b, 32)?;
    if state.is_pending() {
        probe.still_busy(&a)?;
    }
    Ok(again == block)
}

fn never_without_permission(probe: &mut Probe<'_>) -> Observed {
    // With internal dependencies on, the driver may hand out pending memory and wait for it itself.
    let cases = [
        (State::Pending, [true, true, false]),
        (State::Pending, [false, false, false]),
        (State::PendingBehindEarlierEvent, [true, true, false]),
        (State::PendingBehindEvent, [false, true, false]),
        (State::Done, [true, false, false]),
    ];
    for (state, policies) in cases {
        let what = format!("{state:?}, policies {policies:?}: the same block");
        let seen = is_reused(probe, state, policies)?;
        probe.expect(what, false, seen);
    }
    Ok(())
}

fn after_a_synchronise(probe: &mut Probe<'_>) -> Observed {
    for policies in all_policies() {
        let seen = is_reused(probe, State::Synchronised, policies)?;
        probe.expect(format_args!("policies {policies:?}: the same block"), true, seen);
    }
    Ok(())
}

fn by_policy_and_state(probe: &mut Probe<'_>) -> Observed {
    for state in State::ALL {
        for policies in all_policies() {
            let seen = is_reused(probe, state, policies)?;
            let what = format!("{state:?}, policies {policies:?}: the same block");
            probe.expect(what, state.is_reused(policies), seen);
        }
    }
    Ok(())
}

fn stream_order_is_kept(probe: &mut Probe<'_>) -> Observed {
    let (pool, a, b, event) = (probe.pool()?, Stream::new()?, Stream::new()?, Event::new()?);
    pool.set_policies([true, false, false])?;
    let mut seen = vec![0.0; 8 << 20];
    let block = pool.alloc(&a, 32)?;
    probe.occupy(&a)?;
    a.set_words(block, 1.0_f32.to_bits(), seen.len())?;
    pool.free(&a, block)?;
    event.record(&a)?;
    b.wait_event(&event)?;
    let again = pool.alloc(&b, 32)?;
    b.set_words(again, 2.0_f32.to_bits(), seen.len())?;
    probe.still_busy(&a)?;
    probe.device.synchronize()?;
    b.copy_to_host(&mut seen, again)?;
    let old = seen.iter().filter(|element| **element != 2.0).count();
    probe.expect("elements that the new owner's work did not write last", 0, old);
    Ok(())
}

/// A pool at threshold max in which 32 MiB were freed in busy A.
fn with_pending(probe: &Probe<'_>, a: &Stream, policies: [bool; 3]) -> Result<(TestPool, DevicePtr), Stop> {
    let pool = probe.pool()?;
    pool.keep_everything()?;
    pool.set_policies(policies)?;
    let block = pool.alloc(a, 32)?;
    probe.occupy(a)?;
    pool.free(a, block)?;
    Ok((pool, block))
}

fn event_variants(probe: &mut Probe<'_>) -> Observed {
    let follow = [true, false, false];
    let variants = [
        "through a third stream",
        "recorded anew",
        "destroyed",
        "more work in A",
        "not waited for",
    ];
    for variant in variants {
        let (a, b, c) = (Stream::new()?, Stream::new()?, Stream::new()?);
        let (pool, block) = with_pending(probe, &a, follow)?;
        let event = Event::new()?;
        event.record(&a)?;
        match variant {
            "through a third stream" => {
                c.wait_event(&event)?;
                let second = Event::new()?;
                second.record(&c)?;
                b.wait_event(&second)?;
            }
            "not waited for" => {}
            _ => b.wait_event(&event)?,
        }
        match variant {
            "recorded anew" => event.record(&c)?,
            "destroyed" => event.close()?,
            "more work in A" => probe.occupy(&a)?,
            _ => {}
        }
        let again = pool.alloc(&b, 32)?;
        probe.still_busy(&a)?;
        let what = format!("an event behind the free, {variant}: the same block");
        probe.expect(what, variant != "not waited for", again == block);
    }
    Ok(())
}

fn default_stream(probe: &mut Probe<'_>) -> Observed {
    let default = Stream::legacy_default();
    let (blocking, other) = (Stream::blocking()?, Stream::new()?);
    let cases = [
        ("default to blocking", &default, &blocking, true),
        ("blocking to default", &blocking, &default, true),
        ("default to non-blocking", &default, &other, false),
        ("non-blocking to default", &other, &default, false),
    ];
    for (name, a, b, is_ordered) in cases {
        for follow in [true, false] {
            let (pool, block) = with_pending(probe, a, [follow, false, false])?;
            let again = pool.alloc(b, 32)?;
            probe.still_busy(a)?;
            let what = format!("{name}, follow-event {follow}: the same block");
            probe.expect(what, is_ordered && follow, again == block);
        }
    }
    Ok(())
}

fn same_stream(probe: &mut Probe<'_>) -> Observed {
    let stream = Stream::new()?;
    let (pool, block) = with_pending(probe, &stream, [false; 3])?;
    let first = pool.alloc(&stream, 10)?;
    let second = pool.alloc(&stream, 22)?;
    let reserved = pool.reserved_mib()?;
    probe.still_busy(&stream)?;
    let expected = (block, block.offset(10 << 20), 32);
    probe.expect(
        "10 and 22 MiB of 32 pending, and reserved MiB",
        expected,
        (first, second, reserved),
    );
    Ok(())
}

fn larger_in_the_same_stream(probe: &mut Probe<'_>) -> Observed {
    // Pending, opportunistic, and reserved MiB after 33 where 32 were freed: in place 64, beside it 96.
    for (pending, opportunistic, reserved) in [(true, true, 96), (false, true, 64), (false, false, 96)] {
        let stream = Stream::new()?;
        let (pool, block) = with_pending(probe, &stream, [false, opportunistic, false])?;
        if !pending {
            probe.let_finish(&stream)?;
        }
        let larger = pool.alloc(&stream, 33)?;
        let seen = (pool.reserved_mib()?, larger == block);
        if pending {
            probe.still_busy(&stream)?;
        }
        let what = format!("pending {pending}, opportunistic {opportunistic}: reserved MiB, and in place");
        probe.expect(what, (reserved, reserved == 64), seen);
    }
    Ok(())
}

fn where_it_was_freed(probe: &mut Probe<'_>) -> Observed {
    let (pool, a, b) = (probe.pool()?, Stream::new()?, Stream::new()?);
    pool.set_policies([false; 3])?;
    pool.keep_everything()?;
    let block = pool.alloc(&a, 32)?;
    pool.free(&b, block)?;
    let of_a = pool.alloc(&a, 32)?;
    let of_b = pool.alloc(&b, 32)?;
    probe.expect(
        "the same block in A, and in B",
        [false, true],
        [of_a == block, of_b == block],
    );
    Ok(())
}

fn preferences(probe: &mut Probe<'_>) -> Observed {
    // A hole that the host has seen, before it a block of the own stream, not seen.
    let (pool, stream) = (probe.pool()?, Stream::new()?);
    pool.keep_everything()?;
    pool.set_policies([false; 3])?;
    let [hole, _between, own, _after] = pool.alloc_all(&stream, [8; 4])?;
    pool.free(&stream, hole)?;
    stream.synchronize()?;
    pool.free(&stream, own)?;
    let first = pool.alloc(&stream, 8)?;
    let second = pool.alloc(&stream, 8)?;
    probe.expect("the own block, then the hole", (own, hole), (first, second));
    // 16 MiB of a unit pending, 16 never used.
    for waits in [true, false] {
        let (a, b, event) = (Stream::new()?, Stream::new()?, Event::new()?);
        let pool = probe.pool()?;
        pool.keep_everything()?;
        let block = pool.alloc(&a, 16)?;
        probe.occupy(&a)?;
        pool.free(&a, block)?;
        event.record(&a)?;
        if waits {
            b.wait_event(&event)?;
        }
        let again = pool.alloc(&b, 16)?;
        let reserved = pool.reserved_mib()?;
        probe.still_busy(&a)?;
        let what = format!("unused space beside a pending block, waited for {waits}: the block, and reserved MiB");
        probe.expect(what, (waits, 32), (again == block, reserved));
    }
    Ok(())
}

fn stream_destroyed_with_a_free_pending(probe: &mut Probe<'_>) -> Observed {
    let (a, b, event) = (Stream::new()?, Stream::new()?, Event::new()?);
    let pool = probe.pool()?;
    let block = pool.alloc(&a, 32)?;
    probe.occupy(&a)?;
    pool.free(&a, block)?;
    event.record(&a)?;
    let closed = a.close();
    let again = pool.alloc(&b, 32)?;
    b.synchronize()?;
    let reserved = pool.reserved_mib()?;
    if event.is_reached()? {
        return Err(Stop::Inconclusive(String::from(
            "the destroyed stream's work was over too early",
        )));
    }
    probe.expect_code("cuStreamDestroy with work in the stream", 0, &closed);
    probe.expect(
        "the same block, and reserved MiB",
        (false, 64),
        (again == block, reserved),
    );
    probe.device.synchronize()?;
    probe.expect(
        "reserved MiB once the work is done and the context synchronised",
        32,
        pool.reserved_mib()?,
    );
    Ok(())
}
