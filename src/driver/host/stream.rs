//! Streams of the host device: in-order worker threads.

use super::event::Event;
use super::kernel::Launch;
use super::memory::Memory;
use crate::driver::Code;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Identifies a stream for as long as the process lives; never reused.
pub(super) type StreamId = u64;

/// For each stream, the number of its operations that are known to come before.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock(BTreeMap<StreamId, u64>);

impl Clock {
    /// Whether the first `position` operations of `stream` are known to come before.
    pub(super) fn covers(&self, stream: StreamId, position: u64) -> bool {
        position == 0 || self.0.get(&stream).is_some_and(|known| *known >= position)
    }

    pub(super) fn merge(&mut self, other: &Clock) {
        for (stream, position) in &other.0 {
            self.advance(*stream, *position);
        }
    }

    pub(super) fn advance(&mut self, stream: StreamId, position: u64) {
        let known = self.0.entry(stream).or_default();
        *known = (*known).max(position);
    }
}

/// One piece of work in a stream. Graphs keep operations and submit them again.
#[derive(Clone)]
pub(super) enum Operation {
    Kernel(Launch),
    CopyFromHost {
        target: u64,
        bytes: Arc<[u8]>,
    },
    CopyOnDevice {
        target: u64,
        source: u64,
        size_bytes: u64,
    },
    CopyToHost {
        source: u64,
        target: HostTarget,
    },
    SetBytes {
        target: u64,
        value: u8,
        size_bytes: u64,
    },
    SetWords {
        target: u64,
        value: u32,
        words: u64,
    },
    Record {
        event: Arc<Event>,
        generation: u64,
    },
    Wait {
        event: Arc<Event>,
        generation: u64,
    },
    WaitFor {
        stream: Arc<Stream>,
        position: u64,
    },
    /// A graph's nodes in their order: one submission, however many they are.
    Graph(Arc<[Operation]>),
}

/// Where a copy to the host goes.
#[derive(Clone)]
pub(super) struct HostTarget {
    pub(super) pointer: *mut u8,
    pub(super) size_bytes: u64,
}

// SAFETY: the caller of the copy keeps the target valid, and untouched, until the copy is done.
unsafe impl Send for HostTarget {}
// SAFETY: sharing the address shares nothing behind it; whoever launches a graph that holds it answers
// for the target as the caller of the copy does.
unsafe impl Sync for HostTarget {}

impl Operation {
    fn run(&self, memory: &Memory) -> Result<(), Code> {
        match self {
            Operation::Kernel(launch) => launch.run(memory)?,
            Operation::CopyFromHost { target, bytes } => memory.span(*target, bytes.len() as u64)?.write(bytes),
            Operation::CopyOnDevice {
                target,
                source,
                size_bytes,
            } => {
                memory
                    .span(*source, *size_bytes)?
                    .copy_to(&memory.span(*target, *size_bytes)?);
            }
            Operation::CopyToHost { source, target } => {
                // SAFETY: the caller of the copy answers for the target.
                unsafe { memory.span(*source, target.size_bytes)?.read_to(target.pointer) }
            }
            Operation::SetBytes {
                target,
                value,
                size_bytes,
            } => memory.span(*target, *size_bytes)?.set(*value),
            Operation::SetWords { target, value, words } => {
                let span = memory.span(*target, words * 4)?;
                let words = span.elements::<u32>();
                for index in 0..words.length {
                    words.set(index, *value);
                }
            }
            Operation::Record { event, generation } => event.reach(*generation),
            Operation::Wait { event, generation } => event.wait(*generation),
            Operation::WaitFor { stream, position } => stream.wait_until(*position),
            Operation::Graph(nodes) => nodes.iter().try_for_each(|node| node.run(memory))?,
        }
        Ok(())
    }
}

/// The processors that the process could use when the device was opened; `None` where the system does not say.
static PROCESSORS: LazyLock<Option<CpuSet>> = LazyLock::new(|| sched_getaffinity(None).ok());

/// Takes note of the processors that streams may use, before anything is pinned to one.
pub(super) fn note_processors() {
    LazyLock::force(&PROCESSORS);
}

/// Lets the calling thread, which inherits where its starter may run, run on all of them again.
fn run_anywhere() {
    if let Some(processors) = &*PROCESSORS {
        // Where the system refuses, the stream is only slower.
        let _ = sched_setaffinity(None, processors);
    }
}

/// A stream and its worker.
pub(super) struct Stream {
    pub(super) id: StreamId,
    /// Whether the stream and the legacy default stream wait for each other.
    pub(super) is_blocking: bool,
    shared: Arc<Shared>,
    worker: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    queue: Mutex<Queue>,
    submitted: Condvar,
    completed: Condvar,
    completed_count: AtomicU64,
}

#[derive(Default)]
struct Queue {
    /// Operations that wait for the worker, with their positions.
    pending: VecDeque<(u64, Operation)>,
    is_running: bool,
    /// The last position given out. Not every position is an operation: see [`Stream::mark`].
    submitted: u64,
    completed: u64,
    known: Clock,
    error: Option<Code>,
    closing: bool,
}

impl Queue {
    fn push(&mut self, operation: Operation) -> u64 {
        self.submitted += 1;
        self.pending.push_back((self.submitted, operation));
        self.submitted
    }

    fn has_run(&self) -> bool {
        self.completed == self.submitted
    }

    /// How far the stream has come, now that nothing runs: up to the next operation.
    fn passed(&self) -> u64 {
        self.pending.front().map_or(self.submitted, |(next, _)| next - 1)
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, memory: &Memory) {
        let mut queue = self.queue();
        loop {
            let Some((_, operation)) = queue.pending.pop_front() else {
                if queue.closing {
                    return;
                }
                queue = self.submitted.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            queue.is_running = true;
            drop(queue);
            let result = operation.run(memory);
            queue = self.queue();
            queue.is_running = false;
            queue.completed = queue.passed();
            self.completed_count.store(queue.completed, Ordering::Release);
            if let Err(code) = result {
                queue.error.get_or_insert(code);
            }
            self.completed.notify_all();
        }
    }
}

impl Stream {
    /// Starts the worker. It runs where the device was opened, as a GPU's work does not take the processor that its
    /// submitter is pinned to.
    pub(super) fn start(id: StreamId, is_blocking: bool, memory: &Arc<Memory>) -> Result<Stream, Code> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            submitted: Condvar::new(),
            completed: Condvar::new(),
            completed_count: AtomicU64::new(0),
        });
        let (worker, memory) = (Arc::clone(&shared), Arc::clone(memory));
        let worker = std::thread::Builder::new()
            .name(format!("host stream {id}"))
            .spawn(move || {
                run_anywhere();
                worker.work(&memory);
            });
        let worker = worker.map_err(|_| Code::OUT_OF_MEMORY)?;
        Ok(Stream {
            id,
            is_blocking,
            shared,
            worker: Mutex::new(Some(worker)),
        })
    }

    /// Adds work at the end and returns its position.
    pub(super) fn submit(&self, operation: Operation) -> u64 {
        let position = self.shared.queue().push(operation);
        self.shared.submitted.notify_one();
        position
    }

    /// Takes a position of its own for something that needs no work, a free, and returns it. What was
    /// recorded before does not cover it; it is passed when everything before it has run.
    pub(super) fn mark(&self) -> u64 {
        let mut queue = self.shared.queue();
        queue.submitted += 1;
        if !queue.is_running {
            queue.completed = queue.passed();
            self.shared.completed_count.store(queue.completed, Ordering::Release);
        }
        queue.submitted
    }

    /// The position up to which everything has run.
    pub(super) fn completed(&self) -> u64 {
        self.shared.completed_count.load(Ordering::Acquire)
    }

    /// Blocks until everything up to `position` has run.
    pub(super) fn wait_until(&self, position: u64) {
        let queue = self.shared.queue();
        drop(
            self.shared
                .completed
                .wait_while(queue, |queue| queue.completed < position)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// Blocks until everything submitted so far has run; returns what is then known to have run, in
    /// all streams.
    pub(super) fn synchronize(&self) -> Result<Clock, Code> {
        // Taken before the wait: what other threads submit meanwhile is not waited for.
        let (position, clock) = self.progress();
        self.wait_until(position);
        self.shared.queue().error.map_or(Ok(clock), Err)
    }

    /// The last position given out, and what has run everywhere once the stream has passed it.
    fn progress(&self) -> (u64, Clock) {
        let queue = self.shared.queue();
        let mut clock = queue.known.clone();
        clock.advance(self.id, queue.submitted);
        (queue.submitted, clock)
    }

    /// Whether everything submitted has run; the error of what failed first comes before.
    pub(super) fn is_idle(&self) -> Result<bool, Code> {
        let queue = self.shared.queue();
        queue.error.map_or(Ok(queue.has_run()), Err)
    }

    /// Whether everything submitted has run, also where some of it failed.
    pub(super) fn has_run(&self) -> bool {
        self.shared.queue().has_run()
    }

    pub(super) fn record(&self, event: &Arc<Event>) {
        let mut queue = self.shared.queue();
        let mut clock = queue.known.clone();
        clock.advance(self.id, queue.submitted + 1);
        let generation = event.record(clock);
        queue.push(Operation::Record {
            event: Arc::clone(event),
            generation,
        });
        drop(queue);
        self.shared.submitted.notify_one();
    }

    pub(super) fn wait_event(&self, event: &Arc<Event>) {
        let (generation, clock) = event.latest();
        if generation == 0 {
            return;
        }
        self.submit_behind(
            &clock,
            Operation::Wait {
                event: Arc::clone(event),
                generation,
            },
        );
    }

    /// Makes what is submitted from now on wait for everything that `other` has been given.
    pub(super) fn wait_stream(&self, other: &Arc<Stream>) {
        let (position, clock) = other.progress();
        if self.known().covers(other.id, position) {
            return;
        }
        self.submit_behind(
            &clock,
            Operation::WaitFor {
                stream: Arc::clone(other),
                position,
            },
        );
    }

    /// Submits a wait, after which what `clock` says has run.
    fn submit_behind(&self, clock: &Clock, wait: Operation) {
        let mut queue = self.shared.queue();
        queue.push(wait);
        queue.known.merge(clock);
        drop(queue);
        self.shared.submitted.notify_one();
    }

    /// What is known, in this stream, of the progress of all streams.
    pub(super) fn known(&self) -> Clock {
        self.shared.queue().known.clone()
    }
}

impl Drop for Stream {
    /// Lets the work that is queued run to its end, as destroying a CUDA stream does.
    fn drop(&mut self) {
        self.shared.queue().closing = true;
        self.shared.submitted.notify_one();
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(worker) = worker {
            // A worker that drops the last handle of its own stream cannot wait for itself.
            if worker.thread().id() != std::thread::current().id() {
                let _ = worker.join();
            }
        }
    }
}
