//! Random sequences of calls on the host device, with streams held back at will: what a pool counts, that
//! no two live blocks overlap, and that a block is never reused before its free, as far as the reuse
//! policies allow.

use super::codes_tests::{DRIVER, call, made, new_pool, session};
use super::device::DEVICE;
use super::stream_order_tests::{Gate, attribute, new_stream, set_policies};
use cust::sys::{CUmemoryPool, CUstream};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::ptr::null_mut;

const MIB: u64 = 1 << 20;
const GRANULE_BYTES: u64 = 32 * MIB;
const N_STREAMS: usize = 3;
/// Little enough that sequences run out of it.
const MEMORY_MIB: u64 = 256;

/// One call, or two that belong together.
#[derive(Clone, Debug)]
enum Call {
    Alloc { stream: usize, size: u64 },
    Free { stream: usize, which: prop::sample::Index },
    FreeNow { which: prop::sample::Index },
    Wait { waiting: usize, stream: usize },
    Hold { stream: usize },
    Release { stream: usize },
    Synchronize { stream: usize },
    SynchronizeContext,
    SetThreshold { bytes: u64 },
    Trim { keep: usize },
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let stream = 0..N_STREAMS;
    let size = prop_oneof![1_u64..2000, (1_u64..72).prop_map(|mib| mib * MIB), Just(GRANULE_BYTES)];
    let bytes = prop_oneof![Just(0), Just(u64::MAX), (0_u64..200).prop_map(|mib| mib * MIB)];
    let call = prop_oneof![
        6 => (stream.clone(), size).prop_map(|(stream, size)| Call::Alloc { stream, size }),
        5 => (stream.clone(), any::<prop::sample::Index>()).prop_map(|(stream, which)| Call::Free { stream, which }),
        1 => any::<prop::sample::Index>().prop_map(|which| Call::FreeNow { which }),
        2 => (stream.clone(), stream.clone()).prop_map(|(waiting, stream)| Call::Wait { waiting, stream }),
        2 => stream.clone().prop_map(|stream| Call::Hold { stream }),
        2 => stream.clone().prop_map(|stream| Call::Release { stream }),
        2 => stream.prop_map(|stream| Call::Synchronize { stream }),
        1 => Just(Call::SynchronizeContext),
        1 => bytes.prop_map(|bytes| Call::SetThreshold { bytes }),
        1 => (0_usize..200).prop_map(|mib| Call::Trim { keep: mib << 20 }),
    ];
    prop::collection::vec(call, 1..80)
}

/// The caller's own account of a stream.
#[derive(Clone, Default)]
struct StreamAccount {
    /// Frees in it so far.
    frees: u64,
    /// How many of each stream's frees its next work comes after, by events.
    known: [u64; N_STREAMS],
    /// Gates that its next work comes after.
    gates: BTreeSet<u64>,
}

struct Block {
    start: u64,
    size: u64,
    stream: usize,
    pattern: u32,
}

impl Block {
    fn end(&self) -> u64 {
        self.start + self.size.next_multiple_of(512)
    }
}

/// A freed range that nothing has been allocated over since.
#[derive(Clone)]
struct Freed {
    start: u64,
    end: u64,
    stream: usize,
    /// Which of its stream's frees it is, from 1.
    number: u64,
    gates: BTreeSet<u64>,
    /// Whether the host has seen the free complete.
    is_seen: bool,
}

#[derive(Clone, Copy, Debug)]
struct Policies {
    follow: bool,
    opportunistic: bool,
    internal: bool,
}

struct Account {
    pool: CUmemoryPool,
    streams: [CUstream; N_STREAMS],
    accounts: [StreamAccount; N_STREAMS],
    closed: BTreeMap<u64, (usize, Gate)>,
    last_gate: u64,
    policies: Policies,
    live: Vec<Block>,
    freed: Vec<Freed>,
    /// What the synchronous free left counted as used.
    stranded: u64,
    last_pattern: u32,
    /// What the device had free before there was a pool.
    free_before: u64,
}

impl Account {
    fn new([follow, opportunistic, internal]: [bool; 3]) -> Account {
        let pool = new_pool();
        set_policies(pool, [follow, opportunistic, internal].map(i32::from));
        Account {
            pool,
            streams: std::array::from_fn(|_| new_stream(1)),
            accounts: std::array::from_fn(|_| StreamAccount::default()),
            closed: BTreeMap::new(),
            last_gate: 0,
            policies: Policies {
                follow,
                opportunistic,
                internal,
            },
            live: Vec::new(),
            freed: Vec::new(),
            stranded: 0,
            last_pattern: 0,
            free_before: DEVICE.memory.free_bytes(),
        }
    }

    fn apply(&mut self, call: &Call) {
        match call {
            Call::Alloc { stream, size } => self.alloc(*stream, *size),
            Call::Free { stream, which } if !self.live.is_empty() => {
                let block = self.live.swap_remove(which.index(self.live.len()));
                self.free(&block, *stream);
            }
            Call::FreeNow { which } if !self.live.is_empty() => self.free_now(which.index(self.live.len())),
            Call::Free { .. } | Call::FreeNow { .. } => {}
            Call::Wait { waiting, stream } => self.wait(*waiting, *stream),
            Call::Hold { stream } => self.hold(*stream),
            Call::Release { stream } => self.release(*stream),
            Call::Synchronize { stream } if !self.is_held(*stream) => {
                assert_eq!(call!(cuStreamSynchronize(self.streams[*stream])), 0);
                let account = self.accounts[*stream].clone();
                self.see(|freed| freed.stream == *stream || account.known[freed.stream] >= freed.number);
            }
            Call::SynchronizeContext if self.closed.is_empty() => {
                assert_eq!(call!(cuCtxSynchronize()), 0);
                self.see(|_| true);
            }
            // It would wait for ever.
            Call::Synchronize { .. } | Call::SynchronizeContext => {}
            Call::SetThreshold { bytes } => self.set_threshold(*bytes),
            Call::Trim { keep } => assert_eq!(call!(cuMemPoolTrimTo(self.pool, *keep)), 0),
        }
    }

    fn set_threshold(&self, mut bytes: u64) {
        let value = (&raw mut bytes).cast::<c_void>();
        assert_eq!(call!(cuMemPoolSetAttribute(self.pool, 4, value)), 0);
    }

    /// Whether work in the stream waits for a gate.
    fn is_held(&self, stream: usize) -> bool {
        self.accounts[stream]
            .gates
            .iter()
            .any(|gate| self.closed.contains_key(gate))
    }

    fn see(&mut self, is_seen: impl Fn(&Freed) -> bool) {
        for freed in &mut self.freed {
            freed.is_seen |= is_seen(freed);
        }
    }

    fn hold(&mut self, stream: usize) {
        self.last_gate += 1;
        let gate = Gate::close(self.streams[stream]);
        self.closed.insert(self.last_gate, (stream, gate));
        self.accounts[stream].gates.insert(self.last_gate);
    }

    fn release(&mut self, stream: usize) {
        let own = self.closed.iter().find(|(_, (held, _))| *held == stream);
        if let Some(id) = own.map(|(id, _)| *id)
            && let Some((_, gate)) = self.closed.remove(&id)
        {
            gate.open();
        }
    }

    /// What `waiting` does next comes after what `stream` was given.
    fn wait(&mut self, waiting: usize, stream: usize) {
        let event = made!(cuEventCreate(0) as null_mut());
        assert_eq!(call!(cuEventRecord(event, self.streams[stream])), 0);
        assert_eq!(call!(cuStreamWaitEvent(self.streams[waiting], event, 0)), 0);
        assert_eq!(call!(cuEventDestroy_v2(event)), 0);
        let before = self.accounts[stream].clone();
        let after = &mut self.accounts[waiting];
        for (known, other) in after.known.iter_mut().zip(before.known) {
            *known = other.max(*known);
        }
        after.known[stream] = after.known[stream].max(before.frees);
        after.gates.extend(before.gates);
    }

    fn alloc(&mut self, stream: usize, size: u64) {
        let mut start = 0;
        let bytes = usize::try_from(size).expect("64 bits");
        let code = call!(cuMemAllocFromPoolAsync(
            &raw mut start,
            bytes,
            self.pool,
            self.streams[stream]
        ));
        if code != 0 {
            assert_eq!(code, 2, "of all failures only that memory is out");
            return;
        }
        self.last_pattern += 1;
        let block = Block {
            start,
            size,
            stream,
            pattern: self.last_pattern,
        };
        for other in &self.live {
            assert!(
                block.end() <= other.start || other.end() <= start,
                "live blocks overlap"
            );
        }
        let must_wait = self.take_freed(&block);
        self.write(&block, stream, block.pattern);
        if must_wait {
            let code = call!(cuStreamQuery(self.streams[stream]));
            assert_eq!(code, 600, "the stream waits for the free that it depends on");
        }
        self.live.push(block);
    }

    /// Takes what a block covers from the freed ranges, each of which it may. Returns whether the stream
    /// must now wait for one that cannot have run.
    fn take_freed(&mut self, block: &Block) -> bool {
        let mut must_wait = false;
        let (covered, mut left): (Vec<Freed>, Vec<Freed>) = std::mem::take(&mut self.freed)
            .into_iter()
            .partition(|freed| freed.start < block.end() && block.start < freed.end);
        for freed in covered {
            must_wait |= self.may_take(&freed, block.stream);
            for (start, end) in [(freed.start, block.start), (block.end(), freed.end)] {
                if start < end {
                    left.push(Freed {
                        start,
                        end,
                        ..freed.clone()
                    });
                }
            }
        }
        self.freed = left;
        must_wait
    }

    fn may_take(&mut self, freed: &Freed, stream: usize) -> bool {
        let account = &mut self.accounts[stream];
        let is_ordered = self.policies.follow && account.known[freed.stream] >= freed.number;
        if freed.stream == stream || freed.is_seen || is_ordered {
            return false;
        }
        let cannot_have_run = freed.gates.iter().any(|gate| self.closed.contains_key(gate));
        if self.policies.opportunistic && !cannot_have_run {
            return false;
        }
        assert!(
            self.policies.internal,
            "a block of stream {} is reused in stream {stream} before its free, under {:?}",
            freed.stream, self.policies
        );
        account.gates.extend(&freed.gates);
        cannot_have_run
    }

    /// The ends of a block, which are all that is written.
    fn ends(block: &Block) -> [u64; 2] {
        [
            block.start,
            block.start + (block.size - 1) / 4 * 4 - if block.size < 4 { 0 } else { 4 },
        ]
    }

    fn write(&self, block: &Block, stream: usize, pattern: u32) {
        if block.size >= 8 {
            for address in Account::ends(block) {
                assert_eq!(call!(cuMemsetD32Async(address, pattern, 1, self.streams[stream])), 0);
            }
        }
    }

    /// Reads a block back in its stream, unless that is held.
    fn verify(&self, block: &Block) {
        if block.size < 8 || self.is_held(block.stream) {
            return;
        }
        for address in Account::ends(block) {
            let mut read = 0_u32;
            let target = (&raw mut read).cast::<c_void>();
            let code = call!(cuMemcpyDtoHAsync_v2(target, address, 4, self.streams[block.stream]));
            assert_eq!((code, read), (0, block.pattern), "another block's work wrote here");
        }
    }

    /// Frees a block in a stream that comes after the block's own work, with work before the free that
    /// would show in whoever got the block too early.
    fn free(&mut self, block: &Block, stream: usize) {
        self.verify(block);
        if block.stream != stream {
            self.wait(stream, block.stream);
        }
        self.write(block, stream, u32::MAX);
        assert_eq!(call!(cuMemFreeAsync(block.start, self.streams[stream])), 0);
        let account = &mut self.accounts[stream];
        account.frees += 1;
        let freed = Freed {
            start: block.start,
            end: block.end(),
            stream,
            number: account.frees,
            gates: account.gates.clone(),
            is_seen: false,
        };
        self.freed.push(freed);
    }

    /// The synchronous free does not wait, so it is only right for a block that nothing uses.
    fn free_now(&mut self, index: usize) {
        if self.is_held(self.live[index].stream) {
            return;
        }
        let block = self.live.swap_remove(index);
        self.verify(&block);
        let mut read = 0_u8;
        let target = (&raw mut read).cast::<c_void>();
        let code = call!(cuMemcpyDtoHAsync_v2(target, block.start, 1, self.streams[block.stream]));
        assert_eq!(code, 0);
        assert_eq!(call!(cuMemFree_v2(block.start)), 0);
        self.stranded += block.size;
    }

    fn check(&self) {
        let live: u64 = self.live.iter().map(|block| block.size).sum();
        let [reserved, reserved_high, used, used_high] = [5, 6, 7, 8].map(|number| attribute(self.pool, number));
        assert_eq!(used, live + self.stranded);
        assert!(used_high >= used && reserved_high >= reserved);
        assert!(reserved.is_multiple_of(GRANULE_BYTES) && reserved >= live);
        assert!(reserved <= MEMORY_MIB * MIB);
        assert_eq!(self.free_before - DEVICE.memory.free_bytes(), reserved);
    }

    fn open_all(&mut self) {
        for (_, (_, gate)) in std::mem::take(&mut self.closed) {
            gate.open();
        }
    }

    /// Opens every gate, frees everything, and sees that nothing is left.
    fn close(mut self) {
        self.open_all();
        for block in std::mem::take(&mut self.live) {
            self.free(&block, block.stream);
        }
        self.set_threshold(0);
        assert_eq!(call!(cuCtxSynchronize()), 0);
        assert_eq!(attribute(self.pool, 7), self.stranded);
        assert_eq!(attribute(self.pool, 5), 0, "nothing is held at threshold 0");
        // All of the memory is there again, in one piece.
        let all = made!(cuMemAllocFromPoolAsync((MEMORY_MIB * MIB) as usize, self.pool, self.streams[0]) as 0);
        assert_eq!(call!(cuMemFreeAsync(all, self.streams[0])), 0);
    }
}

impl Drop for Account {
    /// Leaves the device empty for the next sequence, also after one that failed.
    fn drop(&mut self) {
        self.open_all();
        for block in &self.live {
            call!(cuMemFreeAsync(block.start, self.streams[block.stream]));
        }
        call!(cuCtxSynchronize());
        call!(cuMemPoolDestroy(self.pool));
        for stream in self.streams {
            call!(cuStreamDestroy_v2(stream));
        }
    }
}

/// In a process of its own, since it takes all of the device's memory, of which there is little.
#[test]
fn random_sequences_on_the_device_keep_the_invariants() {
    const MARK: &str = "POOLBENCH_TEST_POOL_PROPERTIES";
    if std::env::var_os(MARK).is_none() {
        let executable = std::env::current_exe().expect("the test's own executable");
        let name = "driver::host::pool_properties_tests::random_sequences_on_the_device_keep_the_invariants";
        let output = std::process::Command::new(executable)
            .args(["--exact", name])
            .env(MARK, "1")
            .env("POOLBENCH_HOST_MEMORY_MIB", MEMORY_MIB.to_string())
            .output()
            .expect("the test starts again");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let _serial = session();
    let config = ProptestConfig {
        cases: 400,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(2026),
        ..ProptestConfig::default()
    };
    proptest!(config, |(calls in calls(), policies in any::<[bool; 3]>())| {
        let mut account = Account::new(policies);
        for call in &calls {
            account.apply(call);
            account.check();
        }
        account.close();
    });
}
