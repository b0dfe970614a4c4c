//! From a case and a number of iterations to a duration, and what can go wrong on the way.

use crate::case::{BenchmarkId, InvalidPart, Size};
use crate::cuda::Device;
use crate::driver::log::{self, Phase};
use crate::kernel_work::KernelWork;
pub use crate::observation::{CallTimes, Observation, Replay, Reserved, Reuse};
use std::time::{Duration, Instant};

mod failure;

pub use failure::Failure;

/// A benchmark before anything is allocated for it.
pub trait Case {
    /// The benchmark's id.
    ///
    /// # Errors
    ///
    /// An id that Criterion would change.
    fn id(&self) -> Result<BenchmarkId, InvalidPart>;

    /// The size that the case is measured over, for Criterion's throughput and line charts.
    fn size(&self) -> Size;

    /// Iterations of one whole loop, which is never cut short.
    fn iterations_per_loop(&self) -> u64;

    /// What the buffers of one whole loop add up to.
    fn loop_bytes(&self) -> u64 {
        (self.size().as_bytes() as u64).saturating_mul(self.iterations_per_loop())
    }

    /// The kernels of one loop, from which the device's share of the time follows; `None` for a case
    /// without kernels, whose time is all the host's.
    fn kernel_work(&self) -> Option<KernelWork> {
        None
    }

    /// Allocates what the case needs, outside the measured time.
    ///
    /// # Errors
    ///
    /// A failure that is a skip means that the device cannot do this case.
    fn prepare(&self, device: &Device) -> Result<Box<dyn Workload>, Failure>;
}

/// A prepared case.
pub trait Workload {
    /// Iterations of one whole loop, which is never cut short.
    fn iterations_per_loop(&self) -> u64;

    /// The time of one iteration with a synchronise, to see whether the case can be measured in its
    /// time. Leaves the case as it was.
    ///
    /// # Errors
    ///
    /// What fails in a run fails here.
    fn trial(&mut self) -> Result<Duration, Failure>;

    /// Does each kind of work of a run at least once, unmeasured, so that what the device cannot do shows before
    /// the first run. Leaves the case as it was.
    ///
    /// # Errors
    ///
    /// What fails in a run fails here.
    fn rehearse(&mut self) -> Result<(), Failure> {
        self.trial().map(drop)
    }

    /// Runs whole loops, checks a sample of their effect outside the clock, and returns host
    /// wall-clock time, the last synchronise included.
    ///
    /// # Errors
    ///
    /// A failed call or a wrong result; then there is no time.
    fn run(&mut self, loops: u64) -> Result<Duration, Failure>;

    /// Tells which runs so far were samples: the last `samples` of them. Those before warmed up, and are no
    /// part of what the case shows beside its time.
    fn keep_samples(&mut self, _samples: usize) {}

    /// Checks the whole effect of the last run and leaves everything as the loop left it, since more runs
    /// follow.
    ///
    /// # Errors
    ///
    /// As [`Workload::check`].
    fn check_effect(&mut self) -> Result<(), Failure> {
        self.check().map(drop)
    }

    /// Checks the whole effect of the last run and what the pool holds. No run follows.
    ///
    /// # Errors
    ///
    /// A wrong result, memory that did not come back, or a pool that holds more than it may.
    fn check(&mut self) -> Result<Observation, Failure>;

    /// Frees what the case allocated and puts back what it changed.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    fn close(self: Box<Self>) -> Result<(), Failure>;
}

impl Device {
    /// Asks that the device has this much free memory, a little room for the driver's own included.
    ///
    /// # Errors
    ///
    /// [`Failure::TooLarge`], a skip.
    pub fn require_free_bytes(&self, needed_bytes: usize) -> Result<(), Failure> {
        let free_bytes = self.memory_info()?.free_bytes;
        // Pools reserve in steps of 32 MiB, and the driver keeps some memory for itself.
        let room_bytes = Size::mib(64).as_bytes();
        if needed_bytes.saturating_add(room_bytes) > free_bytes {
            return Err(Failure::TooLarge {
                needed_bytes,
                free_bytes,
            });
        }
        Ok(())
    }
}

/// How long one whole loop may take: ten samples of it then take a minute.
pub const LOOP_TIME_MAX: Duration = Duration::from_secs(6);

/// What the buffers of one whole loop may add up to on the host device, where memory is slower by two
/// orders of magnitude. A rule about sizes, so that which ids are measured never depends on the load.
pub const HOST_LOOP_SIZE_MAX: Size = Size::mib(1024);

/// Prepares a case and lets it prove itself: it is fast enough, and its result is right.
///
/// # Errors
///
/// See [`Failure::is_skip`] for what is a skip here; afterwards, nothing is.
pub fn prepare(case: &dyn Case, device: &Device) -> Result<Box<dyn Workload>, Failure> {
    prepare_as(case, device, Preparation::ToBeProven(LOOP_TIME_MAX))
}

/// What a case has to show before it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// That its loop takes this long at most, and that its result is right.
    ToBeProven(Duration),
    /// Nothing: it has shown both in another process of the same recording.
    Proven,
}

/// Prepares a case and has it show what is asked; see [`prepare`].
///
/// # Errors
///
/// As [`prepare`].
pub fn prepare_as(case: &dyn Case, device: &Device, preparation: Preparation) -> Result<Box<dyn Workload>, Failure> {
    if device.is_host() {
        let loop_bytes = case.loop_bytes();
        if loop_bytes > HOST_LOOP_SIZE_MAX.as_bytes() as u64 {
            return Err(Failure::TooSlowOnHost { loop_bytes });
        }
    }
    let mut workload = case.prepare(device)?;
    let proven = match preparation {
        Preparation::ToBeProven(limit) => prove(workload.as_mut(), limit),
        Preparation::Proven => workload.rehearse(),
    };
    match proven {
        Ok(()) => Ok(workload),
        Err(reason) => match abandon(workload, device) {
            Err(failure) if reason.is_skip() => Err(Failure::NotClosed {
                failure: Box::new(failure),
                reason: Box::new(reason),
            }),
            // The first failure is the one to report.
            _ => Err(reason),
        },
    }
}

/// Gives back what a case has that failed.
///
/// # Errors
///
/// What could not be given back.
pub fn abandon(workload: Box<dyn Workload>, device: &Device) -> Result<(), Failure> {
    // Work that was submitted before the failure may still use what goes now.
    let synchronized = device.synchronize();
    let closed = workload.close();
    Ok(synchronized?).and(closed)
}

/// Checks the whole effect of a case's last run, and closes the case.
///
/// # Errors
///
/// What the check finds, or what could not be given back.
pub fn finish(mut workload: Box<dyn Workload>, device: &Device) -> Result<Observation, Failure> {
    match workload.check() {
        Ok(observation) => workload.close().map(|()| observation),
        Err(failure) => {
            // The first failure is the one to report.
            let _ = abandon(workload, device);
            Err(failure)
        }
    }
}

fn prove(workload: &mut dyn Workload, limit: Duration) -> Result<(), Failure> {
    let iterations = workload.iterations_per_loop();
    let loop_time = workload
        .trial()?
        .saturating_mul(u32::try_from(iterations).unwrap_or(u32::MAX));
    if loop_time > limit {
        return Err(Failure::TooSlow {
            iterations,
            loop_time,
            limit,
        });
    }
    workload.run(1)?;
    workload.check_effect()
}

/// Runs at least `iterations` iterations as whole loops and returns the time of `iterations` of them.
///
/// Criterion chooses `iterations` freely. A loop that it cuts short would synchronise at other places
/// than the case says, which at threshold 0 is a different benchmark.
///
/// # Errors
///
/// What fails in the run.
pub fn run(workload: &mut dyn Workload, iterations: u64) -> Result<Duration, Failure> {
    let per_loop = workload.iterations_per_loop();
    let loops = iterations.div_ceil(per_loop).max(1);
    let elapsed = workload.run(loops)?;
    #[allow(clippy::cast_precision_loss, reason = "iteration counts stay far below 2^52")]
    let share = iterations as f64 / (loops * per_loop) as f64;
    Ok(elapsed.mul_f64(share))
}

/// Returns the host wall-clock time of a workload's loops. Every workload's loops run in here, so that
/// the call log can tell their driver calls from those of the set-up; without a log, that costs one
/// load before the clock starts and one after it has stopped.
///
/// # Errors
///
/// What fails in the loops; then there is no time.
#[inline]
pub fn timed<E>(loops: impl FnOnce() -> Result<(), E>) -> Result<Duration, E> {
    log::enter(Phase::Loop);
    let start = Instant::now();
    let done = loops();
    let elapsed = start.elapsed();
    log::enter(Phase::SetUp);
    done.map(|()| elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes one microsecond an iteration and counts whole loops.
    struct Counting {
        loops: u64,
    }

    impl Workload for Counting {
        fn iterations_per_loop(&self) -> u64 {
            100
        }
        fn trial(&mut self) -> Result<Duration, Failure> {
            Ok(Duration::from_micros(1))
        }
        fn run(&mut self, loops: u64) -> Result<Duration, Failure> {
            self.loops += loops;
            Ok(Duration::from_micros(loops * 100))
        }
        fn check(&mut self) -> Result<Observation, Failure> {
            Ok(Observation::default())
        }
        fn close(self: Box<Self>) -> Result<(), Failure> {
            Ok(())
        }
    }

    #[test]
    fn loops_are_whole_and_time_is_scaled() {
        for (iterations, loops) in [(1, 1), (100, 1), (101, 2), (1000, 10)] {
            let mut workload = Counting { loops: 0 };
            let elapsed = run(&mut workload, iterations).expect("nothing fails");
            assert_eq!(workload.loops, loops, "{iterations}");
            // One microsecond an iteration, whatever was run.
            assert_eq!(elapsed, Duration::from_micros(iterations));
        }
    }
}
