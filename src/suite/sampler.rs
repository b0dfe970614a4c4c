//! Criterion in a thread of its own, which measures one case and sleeps between its samples.
//!
//! Criterion takes a case's samples one after the other. To have other cases in between, its thread asks for
//! each sample and waits until it is told how long the sample took. One thread is awake at a time, and it
//! never calls the driver: what is measured stays with the thread that asks.

use super::settings::defaults;
use crate::case::{BenchmarkId, Size};
use criterion::{SamplingMode, Throughput};
use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

/// What Criterion is to measure.
#[derive(Clone, Debug)]
pub(super) struct Sampled {
    pub(super) group: String,
    pub(super) id: BenchmarkId,
    pub(super) size: Size,
    /// Criterion's output folder.
    pub(super) home: PathBuf,
    /// Whether the device is the host device, which has defaults of its own.
    pub(super) on_host: bool,
}

/// What Criterion's thread asks for.
enum Request {
    /// To take a sample, at whatever time it suits.
    Turn,
    /// The time of this many iterations, now.
    Run(u64),
}

/// Criterion at work on one case.
pub(super) struct Sampler<'scope> {
    requests: Receiver<Request>,
    turns: Sender<()>,
    elapsed: Sender<Duration>,
    thread: ScopedJoinHandle<'scope, thread::Result<()>>,
}

impl<'scope> Sampler<'scope> {
    /// Starts Criterion on a case.
    pub(super) fn start(scope: &'scope Scope<'scope, '_>, sampled: Sampled) -> Sampler<'scope> {
        let (request, requests) = channel();
        let (turns, turn) = channel();
        let (elapsed, elapsed_of_run) = channel();
        let desk = Desk {
            request,
            turn,
            elapsed: elapsed_of_run,
        };
        Sampler {
            requests,
            turns,
            elapsed,
            thread: scope.spawn(move || sample(&sampled, &desk)),
        }
    }

    /// Waits until Criterion asks for a sample; false where it has ended.
    pub(super) fn waits(&self) -> bool {
        matches!(self.requests.recv(), Ok(Request::Turn))
    }

    /// Lets Criterion, which waits, take one sample, whose time `run` returns for a number of iterations.
    /// Returns whether it waits for another.
    ///
    /// # Errors
    ///
    /// What `run` fails with. Criterion then has no time to go on with, so the sampler is to be ended.
    pub(super) fn take<E>(&self, run: impl FnOnce(u64) -> Result<Duration, E>) -> Result<bool, E> {
        // Where the thread has ended, nobody asks.
        let _ = self.turns.send(());
        let Ok(Request::Run(iterations)) = self.requests.recv() else {
            return Ok(false);
        };
        let _ = self.elapsed.send(run(iterations)?);
        Ok(self.waits())
    }

    /// Ends Criterion, wherever it is.
    ///
    /// # Errors
    ///
    /// What it panicked with.
    pub(super) fn end(self) -> thread::Result<()> {
        let Sampler {
            requests,
            turns,
            elapsed,
            thread,
        } = self;
        drop((requests, turns, elapsed));
        thread.join().and_then(|ended| ended)
    }
}

/// The thread's side of the channels.
struct Desk {
    request: Sender<Request>,
    turn: Receiver<()>,
    elapsed: Receiver<Duration>,
}

/// Nobody listens any more: the way out of Criterion's loop, which is no panic and runs no panic hook.
struct Left;

impl Desk {
    fn await_turn(&self) {
        self.ask(Request::Turn, &self.turn);
    }

    fn time_of(&self, iterations: u64) -> Duration {
        self.ask(Request::Run(iterations), &self.elapsed)
    }

    fn ask<T>(&self, request: Request, answer: &Receiver<T>) -> T {
        let asked = self.request.send(request).ok();
        match asked.and_then(|()| answer.recv().ok()) {
            Some(answer) => answer,
            None => panic::resume_unwind(Box::new(Left)),
        }
    }
}

fn sample(sampled: &Sampled, desk: &Desk) -> thread::Result<()> {
    let mut criterion = defaults(sampled.on_host)
        .output_directory(&sampled.home)
        .configure_from_args();
    let mut group = criterion.benchmark_group(&sampled.group);
    group
        .sampling_mode(SamplingMode::Flat)
        .throughput(Throughput::Bytes(sampled.size.as_bytes() as u64));
    let id = criterion::BenchmarkId::new(sampled.id.function(), sampled.id.value());
    let measured = panic::catch_unwind(AssertUnwindSafe(|| {
        group.bench_function(id, |bencher| {
            // Outside Criterion's clock, by which it decides on the iterations of a sample.
            desk.await_turn();
            bencher.iter_custom(|iterations| desk.time_of(iterations));
        });
    }));
    measured.or_else(|payload: Box<dyn Any + Send>| if payload.is::<Left>() { Ok(()) } else { Err(payload) })
}
