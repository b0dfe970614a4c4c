//! Streams of the host device: in-order worker threads.

use super::event::Event;
use super::kernel::Launch;
use super::memory::Memory;
use crate::driver::Code;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
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

/// A stream and its worker.
pub(super) struct Stream {
    pub(super) id: StreamId,
    /// Whether it orders itself with the legacy default stream. Streams here never do, so a capture,
    /// which depends on it, is only for those that say so.
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
    pending: VecDeque<Operation>,
    submitted: u64,
    completed: u64,
    known: Clock,
    error: Option<Code>,
    closing: bool,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, memory: &Memory) {
        let mut queue = self.queue();
        loop {
            let Some(operation) = queue.pending.pop_front() else {
                if queue.closing {
                    return;
                }
                queue = self.submitted.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(queue);
            let result = operation.run(memory);
            queue = self.queue();
            queue.completed += 1;
            self.completed_count.store(queue.completed, Ordering::Release);
            if let Err(code) = result {
                queue.error.get_or_insert(code);
            }
            self.completed.notify_all();
        }
    }
}

impl Stream {
    /// Starts the worker.
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
            .spawn(move || worker.work(&memory));
        let worker = worker.map_err(|_| Code::OUT_OF_MEMORY)?;
        Ok(Stream {
            id,
            is_blocking,
            shared,
            worker: Mutex::new(Some(worker)),
        })
    }

    /// Adds work at the end.
    pub(super) fn submit(&self, operation: Operation) {
        let mut queue = self.shared.queue();
        queue.submitted += 1;
        queue.pending.push_back(operation);
        drop(queue);
        self.shared.submitted.notify_one();
    }

    /// The number of operations submitted so far.
    pub(super) fn position(&self) -> u64 {
        self.shared.queue().submitted
    }

    /// The number of operations that have run.
    pub(super) fn completed(&self) -> u64 {
        self.shared.completed_count.load(Ordering::Acquire)
    }

    /// Blocks until the first `position` operations have run.
    pub(super) fn wait_until(&self, position: u64) {
        let queue = self.shared.queue();
        drop(
            self.shared
                .completed
                .wait_while(queue, |queue| queue.completed < position)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// Blocks until everything submitted so far has run; returns how many operations that is.
    pub(super) fn synchronize(&self) -> Result<u64, Code> {
        let position = self.position();
        self.wait_until(position);
        self.shared.queue().error.map_or(Ok(position), Err)
    }

    /// Whether everything submitted has run.
    pub(super) fn is_idle(&self) -> Result<bool, Code> {
        let queue = self.shared.queue();
        queue.error.map_or(Ok(queue.completed == queue.submitted), Err)
    }

    pub(super) fn record(&self, event: &Arc<Event>) {
        let mut queue = self.shared.queue();
        queue.submitted += 1;
        let mut clock = queue.known.clone();
        clock.advance(self.id, queue.submitted);
        let generation = event.record(clock);
        queue.pending.push_back(Operation::Record {
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
        self.submit(Operation::Wait {
            event: Arc::clone(event),
            generation,
        });
        self.shared.queue().known.merge(&clock);
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
