//! The device's pools do what an H200's did, call by call.
//!
//! `tests/data/pool_transcript_*.jsonl` holds seeded random sequences of pool calls with what a GPU
//! answered. They are replayed on whichever device is there; in CI that is the host device. To record
//! a transcript on another GPU or driver:
//! `POOLBENCH_RECORD_TRANSCRIPT=path cargo test --test pool_transcript`.

mod common;

use poolbench::cuda::{self, Device, DevicePtr, Event, MemoryPool, ReusePolicy, Stream};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;

const TRANSCRIPT: &str = "tests/data/pool_transcript_h200_580.159.04.jsonl";
const GRANULE: u64 = 32 << 20;
const MIB: u64 = 1 << 20;

/// The circumstances of one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Setup {
    seed: u64,
    streams: usize,
    /// In the order of `ReusePolicy::ALL`.
    policies: [bool; 3],
    release_threshold: u64,
}

impl Setup {
    /// Whether the pool's answers depend on nothing but the calls: with the opportunistic policy they
    /// also depend on how far the device happens to be, and with several streams on the order in which
    /// equal holes are taken.
    fn is_deterministic(&self) -> bool {
        self.streams == 1 && !self.policies[1]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
enum Call {
    Alloc { stream: usize, id: u32, size: u64 },
    Free { stream: usize, id: u32 },
    FreeSynchronously { id: u32 },
    Synchronize { stream: usize },
    SynchronizeContext,
    SetThreshold { bytes: u64 },
    Trim { keep: u64 },
    Wait { waiting: usize, stream: usize },
}

/// What the pool answered and said of itself afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Answer {
    code: i32,
    used: u64,
    used_high: u64,
    reserved: u64,
    reserved_high: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Setup { sequence: Setup },
    Step { step: Call, answer: Answer },
}

/// A pool under test, with the streams and allocations of a sequence.
struct Session {
    pool: MemoryPool,
    streams: Vec<Stream>,
    live: BTreeMap<u32, DevicePtr>,
    freed: BTreeMap<u32, DevicePtr>,
}

impl Session {
    fn new(device: &Device, setup: &Setup) -> cuda::Result<Session> {
        let pool = MemoryPool::create(device)?;
        for (policy, on) in ReusePolicy::ALL.into_iter().zip(setup.policies) {
            pool.set_reuse_policy(policy, on)?;
        }
        pool.set_release_threshold_bytes(setup.release_threshold)?;
        let streams = (0..setup.streams).map(|_| Stream::new()).collect::<cuda::Result<_>>()?;
        Ok(Session {
            pool,
            streams,
            live: BTreeMap::new(),
            freed: BTreeMap::new(),
        })
    }

    fn apply(&mut self, device: &Device, call: &Call) -> cuda::Result<()> {
        match *call {
            Call::Alloc { stream, id, size } => {
                let pointer = self
                    .pool
                    .alloc(&self.streams[stream], usize::try_from(size).expect("64 bits"))?;
                self.live.insert(id, pointer);
            }
            Call::Free { stream, id } => {
                let pointer = self.forget(id);
                MemoryPool::free(&self.streams[stream], pointer)?;
            }
            Call::FreeSynchronously { id } => cuda::free_plain(self.forget(id))?,
            Call::Synchronize { stream } => self.streams[stream].synchronize()?,
            Call::SynchronizeContext => device.synchronize()?,
            Call::SetThreshold { bytes } => self.pool.set_release_threshold_bytes(bytes)?,
            Call::Trim { keep } => self.pool.trim_to(usize::try_from(keep).expect("64 bits"))?,
            Call::Wait { waiting, stream } => {
                let event = Event::new()?;
                event.record(&self.streams[stream])?;
                self.streams[waiting].wait_event(&event)?;
                event.close()?;
            }
        }
        Ok(())
    }

    /// The pointer of an allocation; of one that was freed already, the old one, for a double free.
    fn forget(&mut self, id: u32) -> DevicePtr {
        let pointer = self
            .live
            .remove(&id)
            .or_else(|| self.freed.get(&id).copied())
            .expect("an id of the sequence");
        self.freed.insert(id, pointer);
        pointer
    }

    fn answer(&mut self, device: &Device, call: &Call) -> Answer {
        let code = self
            .apply(device, call)
            .err()
            .and_then(|error| error.code())
            .map_or(0, |code| code.0);
        let read = |value: cuda::Result<u64>| value.expect("attributes can be read");
        Answer {
            code,
            used: read(self.pool.used_bytes_current()),
            used_high: read(self.pool.used_bytes_high()),
            reserved: read(self.pool.reserved_bytes_current()),
            reserved_high: read(self.pool.reserved_bytes_high()),
        }
    }

    /// Everything freed and seen complete before the pool goes: drivers have crashed otherwise.
    fn close(mut self, device: &Device) -> cuda::Result<()> {
        for pointer in std::mem::take(&mut self.live).into_values() {
            MemoryPool::free(&self.streams[0], pointer)?;
        }
        device.synchronize()?;
        self.pool.close()?;
        self.streams.into_iter().try_for_each(Stream::close)
    }
}

/// A random sequence that depends only on its seed.
fn sequence(setup: &Setup, length: usize) -> Vec<Call> {
    let mut random = StdRng::seed_from_u64(setup.seed);
    let (mut live, mut freed): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
    let mut calls = Vec::new();
    let mut live_bytes = BTreeMap::new();
    for id in 0..u32::try_from(length).expect("a short sequence") {
        let stream = random.random_range(0..setup.streams);
        let total: u64 = live_bytes.values().sum();
        let kind = random.random_range(0..100);
        let call = match kind {
            0..=39 if total < 1024 * MIB => {
                let size = random_size(&mut random, !setup.is_deterministic());
                // A request beyond any device leaves nothing to free.
                if size < 1 << 40 {
                    live.push(id);
                    live_bytes.insert(id, size);
                }
                Call::Alloc { stream, id, size }
            }
            0..=69 if !live.is_empty() => {
                let id = live.swap_remove(random.random_range(0..live.len()));
                live_bytes.remove(&id);
                freed.push(id);
                Call::Free { stream, id }
            }
            70..=72 if !live.is_empty() => {
                let id = live.swap_remove(random.random_range(0..live.len()));
                live_bytes.remove(&id);
                Call::FreeSynchronously { id }
            }
            73..=85 => Call::Synchronize { stream },
            86..=88 => Call::SynchronizeContext,
            89..=92 => Call::SetThreshold {
                bytes: [0, 1, 31, 32, 64, 100, 1 << 20][random.random_range(0..7)] * MIB,
            },
            93..=95 => Call::Trim {
                keep: random.random_range(0..160) * MIB,
            },
            _ if setup.streams > 1 => Call::Wait {
                waiting: stream,
                stream: (stream + 1) % setup.streams,
            },
            _ => Call::Synchronize { stream },
        };
        calls.push(call);
    }
    calls
}

/// A size; with `absurd`, now and then one beyond any device. Such a request makes a GPU's pool reserve
/// all there is before it fails, after which what is reserved says nothing about the model.
fn random_size(random: &mut StdRng, absurd: bool) -> u64 {
    match random.random_range(0..6) {
        0 => random.random_range(0..2000),
        1 => random.random_range(1..20) * 100_000,
        2 | 3 => random.random_range(1..32) * MIB,
        5 if absurd => [1 << 45, u64::MAX][random.random_range(0..2)],
        _ => random.random_range(32..130) * MIB + random.random_range(0..2),
    }
}

fn setups() -> Vec<Setup> {
    let max = u64::MAX;
    let policies = [
        [true, false, true],
        [false, false, false],
        [true, true, true],
        [true, false, false],
    ];
    let mut setups = Vec::new();
    for (index, streams) in [1, 1, 1, 1, 1, 1, 2, 2, 2, 3].into_iter().enumerate() {
        let seed = 100 + index as u64;
        let policies = if index < 4 {
            policies[index % 2]
        } else {
            policies[index % 4]
        };
        let release_threshold = [0, max, 64 * MIB][index % 3];
        setups.push(Setup {
            seed,
            streams,
            policies,
            release_threshold,
        });
    }
    setups
}

#[test]
fn the_device_answers_as_the_recorded_gpu_did() {
    let guarded = common::device();
    let device = &guarded.device;
    if let Some(path) = std::env::var_os("POOLBENCH_RECORD_TRANSCRIPT") {
        record(device, &path).expect("the transcript can be written");
        println!("recorded {} on {device}", path.display());
        return;
    }
    let text = fs::read_to_string(TRANSCRIPT).expect("the recorded transcript");
    let mut session: Option<(Setup, Session)> = None;
    let (mut compared, mut exact) = (0, 0);
    for (number, line) in text.lines().enumerate() {
        match serde_json::from_str(line).expect("a line of the transcript") {
            Line::Setup { sequence } => {
                if let Some((_, session)) = session.take() {
                    session.close(device).expect("the pool goes");
                }
                session = Some((sequence, Session::new(device, &sequence).expect("a pool")));
            }
            Line::Step { step, answer: expected } => {
                let (setup, session) = session.as_mut().expect("a sequence begins with its setup");
                let actual = session.answer(device, &step);
                compare(setup, &expected, &actual).unwrap_or_else(|what| {
                    panic!(
                        "line {}: {step:?}: {what}\nrecorded {expected:?}\nseen     {actual:?}",
                        number + 1
                    )
                });
                compared += 1;
                exact += usize::from(setup.is_deterministic());
            }
        }
    }
    let (_, session) = session.expect("a transcript has a sequence");
    session.close(device).expect("the pool goes");
    println!("{compared} calls compared on {device}, {exact} of them to the last byte");
    assert!(compared > 1000 && exact > 500, "the transcript is cut short");
}

/// What must agree: codes, and what is used, always; what is reserved to the byte where it depends on
/// the calls alone, and within what the calls allow elsewhere.
fn compare(setup: &Setup, expected: &Answer, actual: &Answer) -> Result<(), &'static str> {
    let same = |what, same: bool| if same { Ok(()) } else { Err(what) };
    same("the codes differ", expected.code == actual.code)?;
    same(
        "the used bytes differ",
        expected.used == actual.used && expected.used_high == actual.used_high,
    )?;
    if setup.is_deterministic() {
        same("the reserved bytes differ", expected.reserved == actual.reserved)?;
        return same(
            "the reserved high marks differ",
            expected.reserved_high == actual.reserved_high,
        );
    }
    same(
        "reserved is no multiple of 32 MiB",
        actual.reserved.is_multiple_of(GRANULE),
    )?;
    same(
        "the high mark is below what is current",
        actual.reserved_high >= actual.reserved,
    )
}

fn record(device: &Device, path: &std::ffi::OsStr) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(fs::File::create(path)?);
    let mut write = |line: &Line| writeln!(file, "{}", serde_json::to_string(line)?);
    for setup in setups() {
        write(&Line::Setup { sequence: setup })?;
        let mut session = Session::new(device, &setup).expect("a pool");
        for step in sequence(&setup, 200) {
            // The device is idle at each call, so that the opportunistic policy always sees it so.
            std::thread::sleep(std::time::Duration::from_micros(200));
            let answer = session.answer(device, &step);
            write(&Line::Step { step, answer })?;
        }
        session.close(device).expect("the pool goes");
    }
    file.flush()
}
