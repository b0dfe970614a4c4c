//! Single driver calls, timed apart: what each of allocating, freeing and synchronising costs, the
//! first allocation of a pool, its growth, and the calls on the pool itself.
//!
//! Events resolve half a microsecond, which is as much as some of these calls take, so the host's clock
//! is read around each call. What those two reads cost is reported beside the times
//! ([`CallTimes::clock_ns`](crate::measure::CallTimes)) and never subtracted.

mod fresh;
mod kept;
mod latencies;
mod steady;

use crate::case::{BenchmarkId, InvalidPart, Size, Threshold};
use crate::cuda::{Device, DevicePtr, Stream};
use crate::measure::{self, Case, Failure, Observation, Workload};
use fresh::Fresh;
use latencies::{Batch, Latencies};
use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use steady::Steady;

/// Where an allocation comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// `cuMemAllocAsync` on the default pool, at this release threshold.
    Pool(Threshold),
    /// `cuMemAlloc`.
    Plain,
}

/// The call that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The allocation in a loop that allocates, frees and synchronises.
    Alloc(Memory),
    /// The free in that loop.
    Free(Memory),
    /// The synchronise in that loop, with no work in the stream but the free.
    Synchronize(Threshold),
    /// The first allocation from a pool that was just made.
    FirstAlloc,
    /// An allocation that makes a pool reserve more.
    Growth,
    /// Making a pool.
    PoolCreate,
    /// Destroying a pool that holds the size, all of it free.
    PoolDestroy,
    /// Trimming a pool that holds the size, all of it free, to nothing.
    Trim,
    /// Setting a pool's release threshold.
    AttributeSet,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Alloc(memory) => write!(f, "alloc,{memory}"),
            Call::Free(memory) => write!(f, "free,{memory}"),
            Call::Synchronize(threshold) => write!(f, "sync,{threshold}"),
            Call::FirstAlloc => f.write_str("alloc,first"),
            Call::Growth => f.write_str("alloc,growth"),
            Call::PoolCreate => f.write_str("pool_create"),
            Call::PoolDestroy => f.write_str("pool_destroy"),
            Call::Trim => f.write_str("trim"),
            Call::AttributeSet => f.write_str("attribute_set"),
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Memory::Pool(threshold) => threshold.fmt(f),
            Memory::Plain => f.write_str("plain"),
        }
    }
}

/// One call at one size.
#[derive(Clone, Debug)]
pub struct CallLatency {
    /// The Criterion group.
    pub group: &'static str,
    /// What is timed.
    pub call: Call,
    /// What is allocated; 0 where nothing is.
    pub size: Size,
}

impl Case for CallLatency {
    fn id(&self) -> Result<BenchmarkId, InvalidPart> {
        BenchmarkId::new(self.group, &self.call.to_string(), &self.size.to_string())
    }

    fn size(&self) -> Size {
        self.size
    }

    /// Every iteration synchronises.
    fn iterations_per_loop(&self) -> u64 {
        1
    }

    fn prepare(&self, device: &Device) -> Result<Box<dyn Workload>, Failure> {
        device.require_free_bytes(self.size.as_bytes())?;
        let in_loop = |memory, timed| Steady::new(device, memory, self.size, timed).map(boxed);
        let fresh = |timed| Fresh::new(device, timed, self.size).map(boxed);
        let calls = match self.call {
            Call::Alloc(memory) => in_loop(memory, steady::Timed::Alloc)?,
            Call::Free(memory) => in_loop(memory, steady::Timed::Free)?,
            Call::Synchronize(threshold) => in_loop(Memory::Pool(threshold), steady::Timed::Synchronize)?,
            Call::FirstAlloc => fresh(fresh::Timed::First)?,
            Call::Growth => fresh(fresh::Timed::Growth)?,
            Call::PoolCreate => fresh(fresh::Timed::Create)?,
            Call::PoolDestroy => fresh(fresh::Timed::Destroy)?,
            Call::Trim => boxed(kept::Trim::new(device, self.size)?),
            Call::AttributeSet => boxed(kept::AttributeSet::new(device)?),
        };
        Ok(Box::new(Prepared {
            calls,
            latencies: Latencies::default(),
            batches: Vec::new(),
            batch_iterations: 0,
        }))
    }
}

/// The calls around the one that is timed.
trait Calls {
    /// Makes the calls of one iteration and returns the time of the one that is measured.
    fn once(&mut self) -> Result<Duration, Failure>;

    /// Checks what the last iterations left, after every sample.
    fn verify(&mut self) -> Result<(), Failure>;

    /// Shows that the memory is real, and returns what an iteration does to the pool.
    fn check(&mut self) -> Result<Observation, Failure>;

    fn close(self: Box<Self>) -> Result<(), Failure>;
}

fn boxed<C: Calls + 'static>(calls: C) -> Box<dyn Calls> {
    Box::new(calls)
}

struct Prepared {
    calls: Box<dyn Calls>,
    /// The calls of the run that is under way.
    latencies: Latencies,
    /// The calls of each run since their number of iterations last changed.
    batches: Vec<Batch>,
    batch_iterations: u64,
}

impl Workload for Prepared {
    fn iterations_per_loop(&self) -> u64 {
        1
    }

    fn trial(&mut self) -> Result<Duration, Failure> {
        self.calls.once()?;
        let start = Instant::now();
        self.calls.once()?;
        Ok(start.elapsed())
    }

    /// Returns the sum over the calls that the case measures, not the time of all calls.
    fn run(&mut self, loops: u64) -> Result<Duration, Failure> {
        // Criterion warms up with growing numbers of iterations and then asks for the same number for
        // every sample, so another number means that no sample was measured before.
        if self.batch_iterations != loops {
            self.batch_iterations = loops;
            self.batches.clear();
        }
        let mut sum = Duration::ZERO;
        measure::timed(|| {
            for _ in 0..loops {
                let elapsed = self.calls.once()?;
                self.latencies.record(elapsed);
                sum += elapsed;
            }
            Ok::<(), Failure>(())
        })?;
        self.batches.push(self.latencies.take());
        self.calls.verify()?;
        Ok(sum)
    }

    /// The last of the warm-up may have had as many iterations as a sample.
    fn keep_samples(&mut self, samples: usize) {
        let warm_up = self.batches.len().saturating_sub(samples);
        self.batches.drain(..warm_up);
    }

    fn check(&mut self) -> Result<Observation, Failure> {
        let observation = self.calls.check()?;
        Ok(Observation {
            call_times: Latencies::of(&self.batches).summary(clock_ns()),
            ..observation
        })
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.calls.close()
    }
}

/// Makes a call with the clock read before and after it.
#[inline]
fn clocked<T, E>(call: impl FnOnce() -> Result<T, E>) -> Result<(T, Duration), E> {
    let start = Instant::now();
    let returned = call();
    let elapsed = start.elapsed();
    Ok((returned?, elapsed))
}

/// What the clock reads around nothing, in nanoseconds: the median of many. Measured once a process.
fn clock_ns() -> u64 {
    const READINGS: usize = 10_000;
    static CLOCK_NS: OnceLock<u64> = OnceLock::new();
    *CLOCK_NS.get_or_init(|| {
        let mut latencies = Latencies::default();
        for _ in 0..READINGS {
            let Ok(((), elapsed)) = clocked(|| Ok::<(), std::convert::Infallible>(()));
            latencies.record(elapsed);
        }
        latencies.summary(0).map_or(0, |times| times.p50_ns)
    })
}

/// Elements that are read back at each end of an allocation.
const SPOT_ELEMENTS: usize = 8;

/// Writes all of an allocation and reads both ends back: it is memory, and as large as was asked for.
fn write_and_read(stream: &Stream, pointer: DevicePtr, size: Size) -> Result<(), Failure> {
    const WRITTEN: f32 = 1.5;
    let elements = size.elements();
    stream.set_words(pointer, WRITTEN.to_bits(), elements)?;
    let spot = SPOT_ELEMENTS.min(elements);
    for first in [0, elements - spot] {
        let mut read = vec![0.0_f32; spot];
        stream.copy_to_host(&mut read, pointer.offset((first * size_of::<f32>()) as u64))?;
        if let Some(index) = read.iter().position(|element| element.to_bits() != WRITTEN.to_bits()) {
            return Err(Failure::WrongResult {
                index: first + index,
                expected: f64::from(WRITTEN),
                actual: f64::from(read[index]),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_named_by_call_and_condition() {
        let names = [
            Call::Alloc(Memory::Pool(Threshold::Zero)),
            Call::Free(Memory::Plain),
            Call::Synchronize(Threshold::Max),
            Call::Growth,
            Call::PoolDestroy,
        ]
        .map(|call| call.to_string());
        assert_eq!(
            names,
            [
                "alloc,threshold=0",
                "free,plain",
                "sync,threshold=max",
                "alloc,growth",
                "pool_destroy"
            ]
        );
    }

    #[test]
    fn the_clock_costs_something_and_less_than_a_call() {
        // Two readings take tens of nanoseconds, or some hundreds where each is a system call. It is the median of
        // many, which a busy machine does not move. From a microsecond on no call of one could be measured.
        assert!((1..1_000).contains(&clock_ns()), "{}", clock_ns());
    }
}
