//! The host device used by several threads at once, through the public interface.
//!
//! Each thread has a stream and runs a random plan on the default pool: it fills blocks with a pattern of
//! its own and frees them, hands blocks to the next thread behind an event, synchronises, trims. Nothing
//! may hang, live blocks may not overlap, no pattern may be overwritten while its block is live (which is
//! what a block reused too early would show), and in the end nothing is used or reserved.

use poolbench::cuda::{self, Device, DeviceBuffer, DevicePtr, Event, MemoryPool, ReusePolicy, Stream};
use poolbench::driver::DeviceChoice;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Far longer than any plan takes, even on a busy machine.
const HANGS_AFTER: Duration = Duration::from_secs(120);
/// Words of a block that are looked at, spread over it.
const LOOKS: u64 = 16;
const STEPS_MAX: usize = 24;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Allocate, fill and look `fills` times, free in stream order.
    Use {
        size_kib: u64,
        fills: u32,
    },
    /// Allocate, fill, and hand it to the next thread with an event.
    HandOver {
        size_kib: u64,
    },
    /// Take what was handed over, look at it, and free it in the own stream.
    Take,
    /// Allocate, fill, synchronise, look, and free by the synchronous call.
    FreeSynchronously {
        size_kib: u64,
    },
    Synchronize,
    Trim,
}

#[derive(Clone, Debug)]
struct Plan {
    policies: [bool; 3],
    threshold: u64,
    threads: Vec<Vec<Step>>,
}

fn plans() -> impl Strategy<Value = Plan> {
    let size_kib = || prop_oneof![1_u64..64, 1024_u64..6 * 1024, 20 * 1024_u64..40 * 1024];
    let step = prop_oneof![
        8 => (size_kib(), 1_u32..4).prop_map(|(size_kib, fills)| Step::Use { size_kib, fills }),
        4 => size_kib().prop_map(|size_kib| Step::HandOver { size_kib }),
        4 => Just(Step::Take),
        1 => size_kib().prop_map(|size_kib| Step::FreeSynchronously { size_kib }),
        2 => Just(Step::Synchronize),
        1 => Just(Step::Trim),
    ];
    let threads = prop::collection::vec(prop::collection::vec(step, 1..STEPS_MAX), 2..5);
    let threshold = prop_oneof![Just(0), Just(32 << 20), Just(u64::MAX)];
    (any::<[bool; 3]>(), threshold, threads).prop_map(|(policies, threshold, threads)| Plan {
        policies,
        threshold,
        threads,
    })
}

/// A block in use, filled with its tag.
struct Block {
    pointer: DevicePtr,
    size_bytes: u64,
    tag: u32,
}

/// Live blocks of all threads, start to end.
type Live = Arc<Mutex<BTreeMap<u64, u64>>>;

struct Worker {
    pool: MemoryPool,
    stream: Stream,
    live: Live,
    /// Where the words that were looked at go, and what each must be.
    seen: DeviceBuffer,
    expected: Vec<u32>,
    /// Bytes freed by the synchronous call, which stay counted as used.
    stranded: u64,
    next_tag: u32,
}

impl Worker {
    fn new(device: &Device, index: usize, live: Live) -> cuda::Result<Worker> {
        // A thread takes at most everything that the others hand over, beside its own fills.
        let looks = LOOKS as usize * STEPS_MAX * 8;
        Ok(Worker {
            pool: MemoryPool::default_of(device)?,
            stream: Stream::new()?,
            live,
            seen: DeviceBuffer::uninitialized(looks)?,
            expected: Vec::new(),
            stranded: 0,
            next_tag: u32::try_from(index + 1).expect("few threads") << 16,
        })
    }

    fn live(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, u64>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alloc(&mut self, size_kib: u64) -> cuda::Result<Block> {
        let size_bytes = size_kib << 10;
        let pointer = self
            .pool
            .alloc(&self.stream, usize::try_from(size_bytes).expect("64 bits"))?;
        let (start, end) = (pointer.address(), pointer.address() + size_bytes);
        let mut live = self.live();
        let below = live.range(..end).next_back().map(|(start, end)| (*start, *end));
        assert!(
            below.is_none_or(|(_, other)| other <= start),
            "{start:#x}..{end:#x} overlaps {below:x?}"
        );
        live.insert(start, end);
        drop(live);
        self.next_tag += 1;
        Ok(Block {
            pointer,
            size_bytes,
            tag: self.next_tag,
        })
    }

    fn fill(&self, block: &Block) -> cuda::Result<()> {
        let words = usize::try_from(block.size_bytes / 4).expect("64 bits");
        self.stream.set_words(block.pointer, block.tag, words)
    }

    /// In stream order, so that the stream is not held up.
    fn look(&mut self, block: &Block) -> cuda::Result<()> {
        for look in 0..LOOKS {
            let word = (block.size_bytes / 4 - 1) * look / (LOOKS - 1);
            let target = self.seen.pointer().offset(4 * self.expected.len() as u64);
            self.stream.copy_on_device(target, block.pointer.offset(4 * word), 4)?;
            self.expected.push(block.tag);
        }
        Ok(())
    }

    /// Off the list before the free, after which another thread may have the block at once.
    fn forget(&self, block: &Block) {
        self.live().remove(&block.pointer.address());
    }

    fn free(&self, block: &Block) -> cuda::Result<()> {
        self.forget(block);
        MemoryPool::free(&self.stream, block.pointer)
    }

    fn take(&mut self, (block, event): (Block, Event)) -> cuda::Result<()> {
        self.stream.wait_event(&event)?;
        event.close()?;
        self.look(&block)?;
        self.free(&block)
    }

    fn step(
        &mut self,
        step: Step,
        inbox: &Receiver<(Block, Event)>,
        next: &Sender<(Block, Event)>,
    ) -> cuda::Result<()> {
        match step {
            Step::Use { size_kib, fills } => {
                let block = self.alloc(size_kib)?;
                for _ in 0..fills {
                    self.fill(&block)?;
                    self.look(&block)?;
                }
                self.free(&block)
            }
            Step::HandOver { size_kib } => {
                let (block, event) = (self.alloc(size_kib)?, Event::new()?);
                self.fill(&block)?;
                event.record(&self.stream)?;
                if let Err(refused) = next.send((block, event)) {
                    // The next thread is done: the block stays here.
                    self.take(refused.0)?;
                }
                Ok(())
            }
            Step::Take => inbox.try_recv().map_or(Ok(()), |given| self.take(given)),
            Step::FreeSynchronously { size_kib } => {
                let block = self.alloc(size_kib)?;
                self.fill(&block)?;
                self.look(&block)?;
                self.stream.synchronize()?;
                self.forget(&block);
                self.stranded += block.size_bytes;
                cuda::free_plain(block.pointer)
            }
            Step::Synchronize => self.stream.synchronize(),
            Step::Trim => self.pool.trim_to(0),
        }
    }

    /// Compares what was looked at, and returns what stays counted as used.
    fn finish(self) -> cuda::Result<u64> {
        let seen = self.seen.to_vec(&self.stream)?;
        for (index, (seen, expected)) in seen.iter().zip(&self.expected).enumerate() {
            assert_eq!(seen.to_bits(), *expected, "look {index}: another owner's pattern");
        }
        self.seen.close()?;
        self.stream.close()?;
        Ok(self.stranded)
    }
}

fn work(
    device: &Device,
    worker: Worker,
    steps: &[Step],
    inbox: &Receiver<(Block, Event)>,
    next: Sender<(Block, Event)>,
) -> cuda::Result<u64> {
    let mut worker = worker;
    for step in steps {
        worker.step(*step, inbox, &next)?;
    }
    // The others may still hand over; when all have come here, the channels end.
    drop(next);
    while let Ok(given) = inbox.recv() {
        worker.take(given)?;
    }
    device.synchronize()?;
    worker.finish()
}

/// Runs a plan and returns the bytes that its synchronous frees left counted.
fn run(plan: &Plan) -> u64 {
    let live = Live::default();
    let (senders, receivers): (Vec<_>, Vec<_>) = plan.threads.iter().map(|_| channel()).unzip();
    let mut next: Vec<Sender<(Block, Event)>> = senders.clone();
    next.rotate_left(1);
    drop(senders);
    let (done, finished) = channel();
    let threads: Vec<_> = plan
        .threads
        .iter()
        .cloned()
        .zip(receivers.into_iter().zip(next))
        .collect();
    let count = threads.len();
    for (index, (steps, (inbox, next))) in threads.into_iter().enumerate() {
        let (live, done) = (Arc::clone(&live), done.clone());
        std::thread::spawn(move || {
            let device = Device::open(DeviceChoice::Host, None).expect("the host device");
            device.make_current().expect("the device can be current on any thread");
            let worker = Worker::new(&device, index, live).expect("a stream and a buffer");
            let stranded = work(&device, worker, &steps, &inbox, next).expect("every call works");
            done.send(stranded).expect("the test waits");
        });
    }
    drop(done);
    (0..count)
        .map(|_| match finished.recv_timeout(HANGS_AFTER) {
            Ok(stranded) => stranded,
            Err(RecvTimeoutError::Timeout) => panic!("the threads hang"),
            Err(RecvTimeoutError::Disconnected) => panic!("a thread failed; its message stands above"),
        })
        .sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn threads_share_a_pool_without_harm(plan in plans()) {
        let device = Device::open(DeviceChoice::Host, None).expect("the host device");
        device.make_current().expect("the device can be current on any thread");
        let pool = MemoryPool::default_of(&device).expect("a default pool");
        for (policy, on) in ReusePolicy::ALL.into_iter().zip(plan.policies) {
            pool.set_reuse_policy(policy, on).expect("a policy can be set");
        }
        pool.set_release_threshold_bytes(plan.threshold).expect("any threshold can be set");
        let before = pool.used_bytes_current().expect("readable");
        let stranded = run(&plan);
        prop_assert_eq!(pool.used_bytes_current().expect("readable"), before + stranded);
        pool.set_release_threshold_bytes(0).expect("any threshold can be set");
        device.synchronize().expect("no stream has failed");
        prop_assert_eq!(pool.reserved_bytes_current().expect("readable"), 0);
    }
}
