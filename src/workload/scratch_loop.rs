//! The source's loop: get a scratch buffer, `fill` it, `accumulate` it into the output, give it back;
//! synchronise after a number of iterations.

use super::exact_loop::{ExactLoop, Lane, equal_lengths};
use super::exact_sum::scale;
use super::pool_check::reserved_after_loop;
use crate::case::{BenchmarkId, InvalidPart, Size};
use crate::cuda::{self, CaptureMode, Device, Graph, Kernels, MemoryPool};
use crate::kernel_work::KernelWork;
use crate::measure::{Case, Failure, Observation, Reserved, Workload};
use crate::strategy::{Setup, Strategy, StrategyKind};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::SplitMix64;
use std::time::Duration;

/// The smallest size that a loop of varying sizes draws.
pub const VARIABLE_SIZE_MIN: Size = Size::bytes(256);

/// A point on the axes of the scratch loop.
#[derive(Clone, Debug)]
pub struct ScratchLoop {
    /// The Criterion group.
    pub group: &'static str,
    /// What is compared, as it stands in the id.
    pub function: String,
    /// How the loop gets its buffer.
    pub strategy: &'static StrategyKind,
    /// The size of the buffer; with `size_seed`, the largest.
    pub size: Size,
    /// With a seed, each iteration draws its size log-uniformly from [`VARIABLE_SIZE_MIN`] to `size`.
    /// The sizes depend on nothing but the seed and the axes, and are the same in each loop.
    pub size_seed: Option<u64>,
    /// The release threshold of the strategy's pool, in bytes.
    pub release_threshold_bytes: u64,
    /// Iterations after which the loop synchronises: one whole loop.
    pub iterations: u64,
}

impl Case for ScratchLoop {
    fn id(&self) -> Result<BenchmarkId, InvalidPart> {
        BenchmarkId::new(self.group, &self.function, &self.size.to_string())
    }

    fn size(&self) -> Size {
        self.size
    }

    fn iterations_per_loop(&self) -> u64 {
        self.iterations
    }

    fn loop_bytes(&self) -> u64 {
        self.lengths()
            .iter()
            .map(|length| (length * size_of::<f32>()) as u64)
            .sum()
    }

    fn kernel_work(&self) -> Option<KernelWork> {
        self.strategy.has_work.then(|| KernelWork {
            lengths: self.lengths(),
            n_streams: 1,
        })
    }

    fn prepare(&self, device: &Device) -> Result<Box<dyn Workload>, Failure> {
        Ok(Box::new(Prepared::new(self, device)?))
    }
}

impl ScratchLoop {
    /// The number of elements of each iteration of a loop.
    fn lengths(&self) -> Vec<usize> {
        let Some(seed) = self.size_seed else {
            return equal_lengths(self.size, self.iterations);
        };
        // A generator of three lines, so that the C++ peer draws the same sizes.
        let mut random = SplitMix64::from_seed(seed.to_le_bytes());
        (0..self.iterations)
            .map(|_| log_uniform(&mut random, VARIABLE_SIZE_MIN, self.size).elements())
            .collect()
    }
}

/// A size whose logarithm is uniform between the two.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes are positive and far below 2^52"
)]
fn log_uniform(random: &mut SplitMix64, min: Size, max: Size) -> Size {
    let (low, high) = ((min.as_bytes() as f64).ln(), (max.as_bytes() as f64).ln());
    let drawn = (low + (high - low) * random.random::<f64>()).exp().round() as usize;
    Size::bytes(drawn.clamp(min.as_bytes(), max.as_bytes()))
}

/// What a loop submits, whether call by call or while it is captured.
struct Body {
    kernels: Kernels,
    strategy: Box<dyn Strategy>,
    has_work: bool,
    lengths: Vec<usize>,
}

impl Body {
    /// Submits the first `iterations` iterations of a loop.
    #[inline]
    fn submit(&mut self, lane: &Lane, iterations: u64) -> cuda::Result<()> {
        let (stream, kernels) = (&lane.stream, &self.kernels);
        let (input, output) = (lane.sum.input(), lane.sum.output());
        for (iteration, length) in (0..iterations).zip(&self.lengths) {
            let scratch = self.strategy.alloc(stream, *length * size_of::<f32>())?;
            let worked = if self.has_work {
                kernels
                    .fill(stream, scratch, input, *length, scale(iteration))
                    .and_then(|()| kernels.accumulate(stream, output, scratch, *length))
            } else {
                Ok(())
            };
            // Also where the work failed: nobody else knows the buffer.
            let freed = self.strategy.free(stream, scratch);
            worked.and(freed)?;
        }
        Ok(())
    }
}

/// The loop with its buffers, and what its pool may hold.
pub(super) struct Prepared {
    pub(super) lane: Lane,
    body: Body,
    release_threshold_bytes: u64,
    used_before_bytes: Option<u64>,
}

impl Prepared {
    pub(super) fn new(case: &ScratchLoop, device: &Device) -> Result<Prepared, Failure> {
        // Input, output and the scratch buffer.
        device.require_free_bytes(case.size.as_bytes().saturating_mul(3))?;
        let lengths = case.lengths();
        // As long as the largest size whatever is drawn: plain allocations of up to 1 MiB seem to share
        // blocks of 2 MiB on the H200, and what input and output leave of one decides on sync's time.
        let mut lane = Lane::new(case.size.elements(), &lengths)?;
        if !case.strategy.has_work {
            lane.sum.expect_no_work();
        }
        let setup = Setup {
            device,
            size: case.size,
            plan: None,
            release_threshold_bytes: case.release_threshold_bytes,
        };
        let strategy = (case.strategy.build)(&setup)?;
        let used_before_bytes = strategy.pool().map(MemoryPool::used_bytes_current).transpose()?;
        Ok(Prepared {
            lane,
            body: Body {
                kernels: Kernels::shared()?,
                strategy,
                has_work: case.strategy.has_work,
                lengths,
            },
            release_threshold_bytes: case.release_threshold_bytes,
            used_before_bytes,
        })
    }

    /// Captures one whole loop, without its synchronise.
    pub(super) fn capture(&mut self, mode: CaptureMode) -> cuda::Result<Graph> {
        let iterations = self.iterations();
        let (lane, body) = (&self.lane, &mut self.body);
        lane.stream.capture(mode, || body.submit(lane, iterations))
    }

    /// Checks that the pool holds what it may, outside the clock.
    pub(super) fn check_pool(&self) -> Result<Option<Reserved>, Failure> {
        let (Some(pool), Some(before)) = (self.body.strategy.pool(), self.used_before_bytes) else {
            return Ok(None);
        };
        reserved_after_loop(pool, before, self.release_threshold_bytes).map(Some)
    }

    /// Frees everything, the strategy first.
    pub(super) fn close(self) -> Result<(), Failure> {
        let strategy = self.body.strategy.close();
        let lane = self.lane.close();
        let kernels = self.body.kernels.close();
        Ok(strategy.and(lane).and(kernels)?)
    }
}

impl ExactLoop for Prepared {
    fn iterations(&self) -> u64 {
        self.body.lengths.len() as u64
    }

    #[inline]
    fn run_loop(&mut self, iterations: u64) -> Result<(), Failure> {
        self.body.submit(&self.lane, iterations)?;
        Ok(self.lane.stream.synchronize()?)
    }

    fn lanes(&mut self) -> &mut [Lane] {
        std::slice::from_mut(&mut self.lane)
    }
}

impl Workload for Prepared {
    fn iterations_per_loop(&self) -> u64 {
        self.iterations()
    }

    fn trial(&mut self) -> Result<Duration, Failure> {
        self.time_one()
    }

    fn run(&mut self, loops: u64) -> Result<Duration, Failure> {
        self.time_loops(loops)
    }

    fn check(&mut self) -> Result<Observation, Failure> {
        self.check_lanes()?;
        Ok(Observation {
            reserved: self.check_pool()?,
            ..Observation::default()
        })
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Prepared::close(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(size_seed: Option<u64>) -> ScratchLoop {
        ScratchLoop {
            group: "planted",
            function: String::from("hoisted"),
            strategy: crate::strategy::HOISTED,
            size: Size::kib(64),
            size_seed,
            release_threshold_bytes: 0,
            iterations: 10,
        }
    }

    #[test]
    fn a_planted_kernel_fault_is_caught() {
        let device = Device::from_environment().expect("a device, if only the host device");
        let mut prepared = Prepared::new(&case(None), &device).expect("the case fits any device");
        prepared.run(3).expect("sound kernels give the right result");
        prepared.body.kernels = Kernels::load().expect("the kernels load").with_faulty_fill();
        let failure = prepared.run(1).expect_err("the output is wrong");
        assert!(matches!(failure, Failure::WrongResult { index: 0, .. }), "{failure}");
    }

    /// The first output of SplitMix64 for seed 0 is 0xe220a8397b1dcdaf (Steele, Lea and Flood's
    /// reference program): 0.8833108082136426 of the way in the logarithm from 256 B to 64 KiB.
    #[test]
    fn drawn_sizes_are_those_of_the_reference_generator() {
        let first = 256.0 * 256_f64.powf(0.883_310_808_213_642_6);
        assert_eq!(case(Some(0)).lengths()[0], (first.round() as usize) / 4);
    }

    #[test]
    fn drawn_sizes_depend_on_the_seed_alone_and_fill_the_range() {
        let lengths = |seed| {
            ScratchLoop {
                iterations: 2000,
                ..case(Some(seed))
            }
            .lengths()
        };
        assert_eq!(lengths(1), lengths(1));
        assert_ne!(lengths(1), lengths(2));
        let drawn = lengths(1);
        let (min, max) = (VARIABLE_SIZE_MIN.elements(), Size::kib(64).elements());
        assert!(drawn.iter().all(|length| (min..=max).contains(length)));
        // 256 B to 64 KiB is eight octaves; log-uniform means half the draws are below 4 KiB, within
        // four standard deviations of a binomial of 2000: 89.
        let below = drawn.iter().filter(|length| **length < Size::kib(4).elements()).count();
        assert!(below.abs_diff(1000) < 89, "{below}");
    }
}
