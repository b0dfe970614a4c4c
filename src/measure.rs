//! From a case and a number of iterations to a duration, and what can go wrong on the way.

use crate::case::{BenchmarkId, InvalidPart, Size};
use crate::cuda::{self, Device};
use crate::driver::log::{self, Phase};
use crate::kernel_work::KernelWork;
pub use crate::observation::{CallTimes, Observation, Replay, Reserved, Reuse};
use std::time::{Duration, Instant};
use thiserror::Error;

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

    /// Runs whole loops, checks a sample of their effect outside the clock, and returns host
    /// wall-clock time, the last synchronise included.
    ///
    /// # Errors
    ///
    /// A failed call or a wrong result; then there is no time.
    fn run(&mut self, loops: u64) -> Result<Duration, Failure>;

    /// Checks the whole effect of the last run and what the pool holds.
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

/// Why a case has no number.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum Failure {
    /// A driver call failed.
    #[error(transparent)]
    Call(#[from] cuda::Error),
    /// The device has not enough memory for the size.
    #[error("needs {needed_bytes} bytes of device memory, {free_bytes} are free")]
    TooLarge {
        /// What the case would allocate.
        needed_bytes: usize,
        /// What there is.
        free_bytes: usize,
    },
    /// One loop takes so long that the case cannot be measured in its time.
    #[error("one loop of {iterations} iterations would take {:.1} s, more than the {:.1} s that a loop may take", loop_time.as_secs_f64(), limit.as_secs_f64())]
    TooSlow {
        /// Iterations of the loop.
        iterations: u64,
        /// Estimated from one iteration.
        loop_time: Duration,
        /// What it may take.
        limit: Duration,
    },
    /// One loop goes through more memory than the host device can in the case's time.
    #[error(
        "one loop goes through {loop_bytes} bytes, more than the {HOST_LOOP_SIZE_MAX} that a loop may on the host device"
    )]
    TooSlowOnHost {
        /// Size times iterations.
        loop_bytes: u64,
    },
    /// The output is not what the CPU computes.
    #[error("wrong result: element {index} of the output is {actual}, not {expected}")]
    WrongResult {
        /// Index of the first wrong element.
        index: usize,
        /// What the CPU computes.
        expected: f64,
        /// What the device holds.
        actual: f64,
    },
    /// A block lies over another that is live.
    #[error(
        "wrong reuse: block {block} ({size_bytes} bytes at {address:#x}) lies over block {other}, which is still live"
    )]
    Overlap {
        /// Number of the block, from 0 in the order of allocation.
        block: u64,
        /// Number of the block that it lies over.
        other: u64,
        /// Where the block begins.
        address: u64,
        /// Its size.
        size_bytes: u64,
    },
    /// Blocks did not hold at their free what was written after their allocation.
    #[error(
        "wrong reuse: blocks freed in stream {stream} do not hold what was written to them: element {index} of their sum is {actual}, not {expected}"
    )]
    WrongContent {
        /// Index of the stream.
        stream: usize,
        /// Index of the first wrong element.
        index: usize,
        /// What the CPU computes.
        expected: f64,
        /// What the device holds.
        actual: f64,
    },
    /// The pool counts memory as used that was freed.
    #[error("the pool's used bytes are {after} after the loop, {before} before it: memory was not given back")]
    UsedBytes {
        /// Before the first iteration.
        before: u64,
        /// After the last synchronise.
        after: u64,
    },
    /// Capture refuses what the loop does.
    #[error("the loop cannot be captured: {0}")]
    NotCapturable(cuda::Error),
    /// Launches of a graph take more and more memory.
    #[error("graphs hold {after} bytes after a launch, {first} after the first: a launch leaks")]
    GraphMemory {
        /// After the first launch.
        first: u64,
        /// After a later one.
        after: u64,
    },
    /// A trim leaves memory with graphs that are at rest.
    #[error("graphs hold {after} bytes after a graph trim, {before} before the case: memory was not given back")]
    GraphTrim {
        /// Before the case.
        before: u64,
        /// After the trim.
        after: u64,
    },
    /// The pool holds more than its threshold after a synchronise.
    #[error("the pool holds {reserved} bytes after a synchronise, more than its release threshold of {threshold}")]
    ReservedBytes {
        /// What it holds.
        reserved: u64,
        /// What it may keep.
        threshold: u64,
    },
    /// The pool's memory does not change as the case says, so that something else would be measured.
    #[error("the pool holds {reserved} bytes {when}, not {}", bounds(*at_least, *at_most))]
    PoolHolds {
        /// At which point of the iteration.
        when: &'static str,
        /// What it holds.
        reserved: u64,
        /// What it should hold at least.
        at_least: u64,
        /// What it should hold at most.
        at_most: u64,
    },
}

impl Failure {
    /// Whether a case that fails so while it is set up is skipped: the device cannot do it.
    #[must_use]
    pub fn is_skip(&self) -> bool {
        match self {
            Failure::Call(error) => error.is_skip(),
            Failure::TooLarge { .. }
            | Failure::TooSlow { .. }
            | Failure::TooSlowOnHost { .. }
            | Failure::NotCapturable(_) => true,
            Failure::WrongResult { .. }
            | Failure::Overlap { .. }
            | Failure::WrongContent { .. }
            | Failure::UsedBytes { .. }
            | Failure::GraphMemory { .. }
            | Failure::GraphTrim { .. }
            | Failure::ReservedBytes { .. }
            | Failure::PoolHolds { .. } => false,
        }
    }
}

fn bounds(at_least: u64, at_most: u64) -> String {
    match (at_least, at_most) {
        (0, at_most) => format!("at most {at_most}"),
        (at_least, u64::MAX) => format!("at least {at_least}"),
        (at_least, at_most) => format!("{at_least} to {at_most}"),
    }
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
    let loop_bytes = case.loop_bytes();
    if device.is_host() && loop_bytes > HOST_LOOP_SIZE_MAX.as_bytes() as u64 {
        return Err(Failure::TooSlowOnHost { loop_bytes });
    }
    let mut workload = case.prepare(device)?;
    let proven = match preparation {
        Preparation::ToBeProven(limit) => prove(workload.as_mut(), limit),
        Preparation::Proven => workload.trial().map(drop),
    };
    match proven {
        Ok(()) => Ok(workload),
        Err(failure) => {
            // The first failure is the one to report.
            let _ = workload.close();
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
    workload.check().map(drop)
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
