//! Criterion in a thread of its own, which measures one case and sleeps between its samples.
//!
//! Criterion takes a case's samples one after the other. To have other cases in between, its thread asks for
//! each sample and waits until it is told how long the sample took. One thread is awake at a time, and it
//! never calls the driver: what is measured stays with the thread that asks.

use super::settings::defaults;
use crate::case::{BenchmarkId, Size};
use criterion::{SamplingMode, Throughput};
use std::any::Any;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

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
    /// To go on, now that the sample is taken; by Criterion's clock it took so long.
    GoOn(Duration),
}

/// Criterion at work on one case.
pub(super) struct Sampler<'scope> {
    requests: Receiver<Request>,
    /// Lets it take a turn, or go on.
    leave: Sender<()>,
    elapsed: Sender<Duration>,
    thread: ScopedJoinHandle<'scope, thread::Result<()>>,
}

impl<'scope> Sampler<'scope> {
    /// Starts Criterion on a case.
    ///
    /// # Errors
    ///
    /// The operating system has no thread for it.
    pub(super) fn start(scope: &'scope Scope<'scope, '_>, sampled: Sampled) -> io::Result<Sampler<'scope>> {
        let (request, requests) = channel();
        let (leave, given) = channel();
        let (elapsed, elapsed_of_run) = channel();
        let desk = Desk {
            request,
            leave: given,
            elapsed: elapsed_of_run,
        };
        let thread = thread::Builder::new().spawn_scoped(scope, move || sample(&sampled, &desk))?;
        Ok(Sampler {
            requests,
            leave,
            elapsed,
            thread,
        })
    }

    /// Waits until Criterion asks for a sample; false where it has ended.
    pub(super) fn waits(&self) -> bool {
        matches!(self.requests.recv(), Ok(Request::Turn))
    }

    /// Lets Criterion, which waits, take one sample, whose time `run` returns for a number of iterations. It
    /// then stands still. Returns how long the sample took by Criterion's clock, which decides on the end of
    /// its warm-up.
    ///
    /// # Errors
    ///
    /// What `run` fails with. Criterion then has no time to go on with, so the sampler is to be ended.
    pub(super) fn take<E>(&self, run: impl FnOnce(u64) -> Result<Duration, E>) -> Result<Duration, E> {
        self.give_leave();
        if let Ok(Request::Run(iterations)) = self.requests.recv() {
            let _ = self.elapsed.send(run(iterations)?);
        }
        match self.requests.recv() {
            Ok(Request::GoOn(elapsed)) => Ok(elapsed),
            _ => Ok(Duration::ZERO),
        }
    }

    /// Lets Criterion, which stands still after a sample, go on to the next or to its analysis. Returns whether
    /// it [waits](Sampler::waits) for another.
    pub(super) fn goes_on(&self) -> bool {
        self.give_leave();
        self.waits()
    }

    fn give_leave(&self) {
        // Where the thread has ended, nobody asks.
        let _ = self.leave.send(());
    }

    /// Ends Criterion, wherever it is.
    ///
    /// # Errors
    ///
    /// What it panicked with.
    pub(super) fn end(self) -> thread::Result<()> {
        let Sampler {
            requests,
            leave,
            elapsed,
            thread,
        } = self;
        drop((requests, leave, elapsed));
        thread.join().and_then(|ended| ended)
    }
}

/// The thread's side of the channels.
struct Desk {
    request: Sender<Request>,
    leave: Receiver<()>,
    elapsed: Receiver<Duration>,
}

/// Nobody listens any more: the way out of Criterion's loop, which is no panic and runs no panic hook.
struct Left;

impl Desk {
    fn await_turn(&self) {
        self.ask(Request::Turn, &self.leave);
    }

    fn await_end_of_sample(&self, elapsed: Duration) {
        self.ask(Request::GoOn(elapsed), &self.leave);
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
            let start = Instant::now();
            bencher.iter_custom(|iterations| desk.time_of(iterations));
            desk.await_end_of_sample(start.elapsed());
        });
    }));
    measured.or_else(|payload: Box<dyn Any + Send>| if payload.is::<Left>() { Ok(()) } else { Err(payload) })
}
