//! The pool model against what an H200 was seen to do, and against its own invariants.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

/// Granules without memory, of which only so many can be mapped at a time.
#[derive(Debug)]
struct Counted {
    mapped: BTreeSet<u64>,
    limit: usize,
}

impl Granules for Counted {
    fn map(&mut self, index: u64) -> Result<(), Code> {
        if self.mapped.len() == self.limit {
            return Err(Code::OUT_OF_MEMORY);
        }
        assert!(self.mapped.insert(index), "granule {index} is mapped twice");
        Ok(())
    }
    fn unmap(&mut self, index: u64) {
        assert!(self.mapped.remove(&index), "granule {index} is not mapped");
    }
    fn relocate(&mut self, from: u64, to: u64) -> Result<(), Code> {
        assert!(
            self.mapped.remove(&from) && self.mapped.insert(to),
            "granule {from} cannot move to {to}"
        );
        Ok(())
    }
    fn index_end(&self) -> u64 {
        1 << 20
    }
}

/// Streams that run nothing until they are told to, and their order by events.
#[derive(Default)]
struct Streams {
    run: BTreeMap<StreamId, u64>,
    known: BTreeMap<(StreamId, StreamId), u64>,
}

impl Progress for Streams {
    fn has_run(&self, stream: StreamId, position: u64) -> bool {
        self.run.get(&stream).is_some_and(|run| *run >= position)
    }
    fn is_ordered(&self, waiting: StreamId, stream: StreamId, position: u64) -> bool {
        self.known
            .get(&(waiting, stream))
            .is_some_and(|known| *known >= position)
    }
    fn order(&mut self, waiting: StreamId, stream: StreamId, position: u64) {
        let known = self.known.entry((waiting, stream)).or_default();
        *known = (*known).max(position);
    }
}

fn pool_of(limit: usize) -> Pool<Counted> {
    Pool::new(Counted {
        mapped: BTreeSet::new(),
        limit,
    })
}

fn at(stream: StreamId, position: u64) -> Position {
    Position { stream, position }
}

/// Allocates these sizes in stream 1 and returns offsets and the reserved MiB after each.
fn build(pool: &mut Pool<Counted>, sizes_mib: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let mut streams = Streams::default();
    let allocate = |size: &u64| {
        let offset = pool.alloc(1, size * MIB, &mut streams).expect("fits");
        (offset, pool.reserved_bytes() / MIB)
    };
    sizes_mib.iter().map(allocate).unzip()
}

#[test]
fn growth_as_seen_on_an_h200() {
    // One request in a fresh pool: reserved in steps of 32 MiB.
    for (size_mib, reserved_mib) in [
        (1, 32),
        (32, 32),
        (33, 64),
        (64, 64),
        (65, 96),
        (100, 128),
        (1000, 1024),
    ] {
        let mut pool = pool_of(64);
        assert_eq!(build(&mut pool, &[size_mib]).1, [reserved_mib], "{size_mib} MiB");
    }
    // Requests follow each other across granules.
    let mut pool = pool_of(64);
    let (offsets, reserved) = build(&mut pool, &[48, 48, 48]);
    assert_eq!((offsets, reserved), (vec![0, 48 * MIB, 96 * MIB], vec![64, 96, 160]));
    let mut pool = pool_of(64);
    assert_eq!(build(&mut pool, &[1, 100, 31, 28]).1, [32, 128, 160, 160]);
    // Used is what was asked for; placement is in steps of 512 bytes.
    let mut pool = pool_of(64);
    let mut streams = Streams::default();
    let offsets = [1, 513, 1].map(|size| pool.alloc(1, size, &mut streams).expect("fits"));
    assert_eq!((offsets, pool.used_bytes()), ([0, 512, 1536], 515));
}

#[test]
fn free_granules_move_where_they_are_needed() {
    // Four of 32, the first and third free: 64 does not fit between, yet nothing new is reserved.
    let mut pool = pool_of(64);
    let (offsets, _) = build(&mut pool, &[32, 32, 32, 32]);
    for index in [0, 2] {
        pool.free(offsets[index], at(1, 1)).expect("live");
    }
    pool.attributes.release_threshold = u64::MAX;
    pool.observe(|_, _| true);
    let offset = pool.alloc(1, 64 * MIB, &mut Streams::default()).expect("fits");
    assert_eq!((offset, pool.reserved_bytes()), (128 * MIB, 128 * MIB));
}

#[test]
fn threshold_at_a_synchronise_as_seen_on_an_h200() {
    // Built, kept live by index, threshold in MiB: reserved MiB after free and synchronise.
    let cases: [(&[u64], &[usize], u64, u64); 12] = [
        (&[32, 32, 32], &[], 0, 0),
        (&[32, 32, 32], &[], 31, 0),
        (&[32, 32, 32], &[], 33, 32),
        (&[32, 32, 32], &[], 64, 64),
        (&[64, 32, 128], &[], 160, 160),
        (&[8; 12], &[5], 0, 32),
        (&[8; 12], &[5], 95, 64),
        (&[8; 12], &[0, 5], 0, 64),
        (&[1, 127], &[0], 127, 96),
        (&[60, 1, 67], &[1], 0, 32),
        (&[64, 64], &[0], 96, 96),
        (&[32, 32, 32, 32], &[0, 2], 127, 96),
    ];
    for (sizes, live, threshold, reserved) in cases {
        let mut pool = pool_of(64);
        pool.set_release_threshold(threshold * MIB);
        let (offsets, _) = build(&mut pool, sizes);
        for (index, offset) in offsets.iter().enumerate().filter(|(index, _)| !live.contains(index)) {
            pool.free(*offset, at(1, 1))
                .unwrap_or_else(|code| panic!("{index}: {code}"));
        }
        let before = pool.reserved_bytes();
        pool.observe(|_, _| false);
        assert_eq!(
            pool.reserved_bytes(),
            before,
            "nothing goes before the free is seen complete"
        );
        pool.observe(|_, _| true);
        assert_eq!(
            pool.reserved_bytes() / MIB,
            reserved,
            "{sizes:?} live {live:?} threshold {threshold}"
        );
    }
}

#[test]
fn trim_rounds_up_where_the_threshold_rounds_down() {
    for (keep_mib, reserved_mib) in [(0, 0), (1, 32), (32, 32), (33, 64), (95, 96), (200, 96)] {
        let mut pool = pool_of(64);
        pool.set_release_threshold(u64::MAX);
        let (offsets, _) = build(&mut pool, &[32, 32, 32]);
        offsets
            .iter()
            .for_each(|offset| pool.free(*offset, at(1, 1)).expect("live"));
        pool.trim_to(keep_mib * MIB);
        assert_eq!(
            pool.reserved_bytes(),
            96 * MIB,
            "trim before the synchronise releases nothing"
        );
        pool.observe(|_, _| true);
        pool.trim_to(keep_mib * MIB);
        assert_eq!(pool.reserved_bytes() / MIB, reserved_mib, "trim to {keep_mib} MiB");
    }
}

#[test]
fn reuse_across_streams_follows_the_policies() {
    // 32 MiB freed in stream 1; 32 MiB for stream 2: (ordered by an event, already run, policies) and
    // whether the block comes back.
    let cases = [
        (false, false, [true, true, true], false),
        (true, false, [true, false, false], true),
        (true, false, [false, true, true], false),
        (false, true, [false, true, false], true),
        (false, true, [true, false, true], false),
        (true, true, [true, false, false], true),
    ];
    for (ordered, run, [follow, opportunistic, internal], reused) in cases {
        let mut pool = pool_of(64);
        pool.attributes.follow_event_dependencies = follow;
        pool.attributes.allow_opportunistic = opportunistic;
        pool.attributes.allow_internal_dependencies = internal;
        let (offsets, _) = build(&mut pool, &[32]);
        pool.free(offsets[0], at(1, 5)).expect("live");
        let mut streams = Streams::default();
        if ordered {
            streams.order(2, 1, 5);
        }
        if run {
            streams.run.insert(1, 5);
        }
        let again = pool.alloc(2, 32 * MIB, &mut streams).expect("fits");
        assert_eq!(
            again == offsets[0],
            reused,
            "ordered {ordered} run {run} policies {follow} {opportunistic} {internal}"
        );
        assert_eq!(pool.reserved_bytes() / MIB, if reused { 32 } else { 64 });
    }
}

#[test]
fn internal_dependencies_serve_only_when_memory_is_out() {
    let mut pool = pool_of(1);
    let (offsets, _) = build(&mut pool, &[32]);
    pool.free(offsets[0], at(1, 5)).expect("live");
    let mut streams = Streams::default();
    assert_eq!(pool.alloc(2, 32 * MIB, &mut streams), Ok(offsets[0]));
    assert!(streams.is_ordered(2, 1, 5), "stream 2 waits for the free");
    pool.free(offsets[0], at(1, 6)).expect("live");
    pool.attributes.allow_internal_dependencies = false;
    assert_eq!(pool.alloc(2, 32 * MIB, &mut streams), Err(Code::OUT_OF_MEMORY));
    pool.observe(|_, _| true);
    assert!(
        pool.alloc(2, 32 * MIB, &mut streams).is_ok(),
        "out of memory, synchronise, retry"
    );
}

#[test]
fn the_synchronous_free_gives_memory_back_and_keeps_it_counted_as_used() {
    let mut pool = pool_of(64);
    let (offsets, _) = build(&mut pool, &[32]);
    pool.free_now(offsets[0]).expect("live");
    assert_eq!((pool.reserved_bytes(), pool.used_bytes()), (0, 32 * MIB));
    assert_eq!(
        pool.free_now(offsets[0]),
        Err(Code::INVALID_VALUE),
        "a double free is refused"
    );
}

#[test]
fn high_watermarks_fall_to_what_is_current() {
    let mut pool = pool_of(64);
    let (offsets, _) = build(&mut pool, &[100, 20]);
    pool.free(offsets[0], at(1, 1)).expect("live");
    assert_eq!(
        (pool.used_high_bytes() / MIB, pool.reserved_high_bytes() / MIB),
        (120, 128)
    );
    pool.observe(|_, _| true);
    pool.reset_used_high();
    pool.reset_reserved_high();
    assert_eq!(
        (pool.used_high_bytes() / MIB, pool.reserved_high_bytes() / MIB),
        (20, 32)
    );
}

#[test]
fn absurd_sizes_are_out_of_memory() {
    let mut pool = pool_of(64);
    for size in [u64::MAX, u64::MAX - 511, 1 << 63, 1 << 40] {
        assert_eq!(
            pool.alloc(1, size, &mut Streams::default()),
            Err(Code::OUT_OF_MEMORY),
            "{size}"
        );
    }
    assert!(pool.alloc(1, MIB, &mut Streams::default()).is_ok());
}

/// One call of a random sequence.
#[derive(Clone, Debug)]
enum Call {
    Alloc {
        stream: StreamId,
        size: u64,
    },
    Free {
        stream: StreamId,
        which: prop::sample::Index,
    },
    FreeNow {
        which: prop::sample::Index,
    },
    Synchronize {
        stream: StreamId,
    },
    SetThreshold {
        bytes: u64,
    },
    Trim {
        keep: u64,
    },
    Wait {
        waiting: StreamId,
        stream: StreamId,
    },
    Run {
        stream: StreamId,
    },
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let stream = 1_u64..4;
    let size = prop_oneof![
        1_u64..2000,
        (1_u64..80).prop_map(|mib| mib * MIB),
        (1_u64..40).prop_map(|mib| mib * MIB + 1)
    ];
    let call = prop_oneof![
        4 => (stream.clone(), size).prop_map(|(stream, size)| Call::Alloc { stream, size }),
        4 => (stream.clone(), any::<prop::sample::Index>()).prop_map(|(stream, which)| Call::Free { stream, which }),
        1 => any::<prop::sample::Index>().prop_map(|which| Call::FreeNow { which }),
        2 => stream.clone().prop_map(|stream| Call::Synchronize { stream }),
        1 => (0_u64..200).prop_map(|mib| Call::SetThreshold { bytes: mib * MIB }),
        1 => (0_u64..200).prop_map(|mib| Call::Trim { keep: mib * MIB }),
        1 => (stream.clone(), stream.clone()).prop_map(|(waiting, stream)| Call::Wait { waiting, stream }),
        1 => stream.prop_map(|stream| Call::Run { stream }),
    ];
    prop::collection::vec(call, 1..120)
}

/// The caller's own account of a pool.
struct Account {
    pool: Pool<Counted>,
    streams: Streams,
    live: Vec<(u64, u64)>,
    /// What the synchronous free left counted.
    stranded: u64,
    position: u64,
}

impl Account {
    fn apply(&mut self, call: &Call) {
        match call {
            Call::Alloc { stream, size } => self.alloc(*stream, *size),
            Call::Free { stream, which } if !self.live.is_empty() => {
                let (offset, _) = self.live.swap_remove(which.index(self.live.len()));
                self.position += 1;
                self.pool.free(offset, at(*stream, self.position)).expect("live");
            }
            Call::FreeNow { which } if !self.live.is_empty() => {
                let (offset, size) = self.live.swap_remove(which.index(self.live.len()));
                self.stranded += size;
                self.pool.free_now(offset).expect("live");
            }
            Call::Free { .. } | Call::FreeNow { .. } => {}
            Call::Synchronize { stream } => {
                self.streams.run.insert(*stream, self.position);
                let known = |freed, position| freed == *stream || self.streams.is_ordered(*stream, freed, position);
                self.pool.observe(known);
            }
            Call::SetThreshold { bytes } => self.pool.set_release_threshold(*bytes),
            Call::Trim { keep } => self.pool.trim_to(*keep),
            Call::Wait { waiting, stream } => self.streams.order(*waiting, *stream, self.position),
            Call::Run { stream } => {
                self.streams.run.insert(*stream, self.position);
            }
        }
    }

    fn alloc(&mut self, stream: StreamId, size: u64) {
        match self.pool.alloc(stream, size, &mut self.streams) {
            Ok(offset) => {
                let end = offset + size;
                for (other, other_size) in &self.live {
                    assert!(end <= *other || other + other_size <= offset, "live blocks overlap");
                }
                self.live.push((offset, size));
            }
            Err(code) => assert_eq!(code, Code::OUT_OF_MEMORY),
        }
    }

    fn check(&self) {
        let used: u64 = self.live.iter().map(|(_, size)| size).sum();
        assert_eq!(self.pool.used_bytes(), used + self.stranded);
        assert_eq!(
            self.pool.granules.mapped, self.pool.mapped,
            "the model and the memory agree"
        );
        for (offset, size) in &self.live {
            let granules = offset / GRANULE_BYTES..=(offset + size - 1) / GRANULE_BYTES;
            assert!(
                granules.clone().all(|index| self.pool.mapped.contains(&index)),
                "live memory is mapped"
            );
        }
        assert!(self.pool.reserved_bytes() >= used.next_multiple_of(GRANULE_BYTES));
        assert!(self.pool.reserved_high_bytes() >= self.pool.reserved_bytes());
        assert!(self.pool.used_high_bytes() >= self.pool.used_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn random_sequences_keep_the_invariants(calls in calls(), limit in 2_usize..40) {
        let streams = Streams::default();
        let mut account = Account { pool: pool_of(limit), streams, live: Vec::new(), stranded: 0, position: 0 };
        for call in &calls {
            account.apply(call);
            account.check();
        }
        // Everything freed and seen complete, at threshold 0: nothing is held.
        account.pool.set_release_threshold(0);
        for (offset, _) in std::mem::take(&mut account.live) {
            account.pool.free(offset, at(1, account.position)).expect("live");
        }
        account.pool.observe(|_, _| true);
        prop_assert_eq!(account.pool.reserved_bytes(), 0);
        prop_assert_eq!(account.pool.used_bytes(), account.stranded);
    }
}
