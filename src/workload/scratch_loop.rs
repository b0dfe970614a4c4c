//! The source's loop: get a scratch buffer, `fill` it, `accumulate` it into the output, give it back;
//! synchronise after a number of iterations.

use crate::case::{BenchmarkId, InvalidPart, Size};
use crate::cuda::{Device, DeviceBuffer, DevicePtr, Kernels, Stream};
use crate::measure::{self, Case, Failure, Observation, Reserved, Workload};
use crate::strategy::{Setup, Strategy, StrategyKind};
use approx::relative_eq;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::time::{Duration, Instant};

/// Iteration `i` scales the input by `1 + i % SCALES`, so that a scratch buffer that was not filled
/// again, or was filled for another iteration, shows in the output.
const SCALES: u64 = 4;
/// Sum of one cycle of scales.
const SCALE_CYCLE_SUM: u64 = SCALES * (SCALES + 1) / 2;
/// Inputs are whole numbers from 1 to this, so that sums of their multiples are exact in `f32`.
const INPUT_MAX: u8 = 8;
/// The longest run of iterations whose output is exact: `f32` holds every whole number up to 2^24,
/// and each cycle adds at most `INPUT_MAX * SCALE_CYCLE_SUM`.
const EXACT_ITERATIONS_MAX: u64 = (1 << 24) / (INPUT_MAX as u64 * SCALE_CYCLE_SUM) * SCALES;
/// Outputs up to this size are compared in whole after each sample; larger ones at both ends then,
/// and in whole before the first sample and after the last.
const FULL_CHECK_SIZE: Size = Size::mib(1);
/// Elements compared at each end of a large output.
const SPOT_ELEMENTS: usize = 8;
/// The seed of the input; the same for every case, so that all strategies must agree.
const INPUT_SEED: u64 = 0x5eed;

/// A point on the axes of the scratch loop.
#[derive(Clone, Debug)]
pub struct ScratchLoop {
    /// The Criterion group.
    pub group: &'static str,
    /// What is compared, as it stands in the id.
    pub function: String,
    /// How the loop gets its buffer.
    pub strategy: &'static StrategyKind,
    /// The size of the buffer.
    pub size: Size,
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

    fn prepare(&self, device: &Device) -> Result<Box<dyn Workload>, Failure> {
        Ok(Box::new(Prepared::new(self, device)?))
    }
}

struct Prepared {
    stream: Stream,
    kernels: Kernels,
    input: DeviceBuffer,
    output: DeviceBuffer,
    strategy: Box<dyn Strategy>,
    has_work: bool,
    size: Size,
    release_threshold_bytes: u64,
    iterations_per_loop: u64,
    /// Iterations whose scratch is in the output.
    accumulated: u64,
    host_input: Vec<f32>,
    used_before_bytes: Option<u64>,
}

impl Prepared {
    fn new(case: &ScratchLoop, device: &Device) -> Result<Prepared, Failure> {
        // Input, output and the scratch buffer.
        device.require_free_bytes(case.size.as_bytes().saturating_mul(3))?;
        let stream = Stream::new()?;
        let host_input = input(case.size.elements());
        let input = DeviceBuffer::from_slice(&stream, &host_input)?;
        let output = DeviceBuffer::uninitialized(case.size.elements())?;
        let setup = Setup {
            device,
            size: case.size,
            release_threshold_bytes: case.release_threshold_bytes,
        };
        let strategy = (case.strategy.build)(&setup)?;
        let used_before_bytes = strategy
            .pool()
            .map(crate::cuda::MemoryPool::used_bytes_current)
            .transpose()?;
        let mut prepared = Prepared {
            stream,
            kernels: Kernels::load()?,
            input,
            output,
            strategy,
            has_work: case.strategy.has_work,
            size: case.size,
            release_threshold_bytes: case.release_threshold_bytes,
            iterations_per_loop: case.iterations,
            accumulated: 0,
            host_input,
            used_before_bytes,
        };
        prepared.reset_output()?;
        Ok(prepared)
    }

    fn reset_output(&mut self) -> Result<(), Failure> {
        self.accumulated = 0;
        self.stream.set_words(self.output.pointer(), 0, self.output.len())?;
        Ok(self.stream.synchronize()?)
    }

    /// One loop: `iterations` iterations, then a synchronise.
    #[inline]
    fn run_loop(&mut self, iterations: u64) -> Result<(), Failure> {
        let (size_bytes, length) = (self.size.as_bytes(), self.size.elements());
        let (input, output) = (self.input.pointer(), self.output.pointer());
        for iteration in 0..iterations {
            let scratch = self.strategy.alloc(&self.stream, size_bytes)?;
            if self.has_work {
                self.kernels
                    .fill(&self.stream, scratch, input, length, scale(iteration))?;
                self.kernels.accumulate(&self.stream, output, scratch, length)?;
            }
            self.strategy.free(&self.stream, scratch)?;
        }
        Ok(self.stream.synchronize()?)
    }

    fn timed_loops(&mut self, loops: u64) -> Result<Duration, Failure> {
        let iterations = self.iterations_per_loop;
        let elapsed = measure::timed(|| (0..loops).try_for_each(|_| self.run_loop(iterations)))?;
        self.accumulated += loops;
        Ok(elapsed)
    }

    /// The factor of the input that `accumulated` whole loops leave in the output. Each loop starts
    /// its scales anew.
    fn expected_factor(&self) -> f64 {
        if !self.has_work {
            return 0.0;
        }
        #[allow(clippy::cast_precision_loss, reason = "below 2^24 by the length of a stretch")]
        let factor = (self.accumulated * scale_sum(self.iterations_per_loop)) as f64;
        factor
    }

    fn compare(&self, first: usize, elements: usize) -> Result<(), Failure> {
        let mut actual = vec![0.0_f32; elements];
        let from = DevicePtr::offset(self.output.pointer(), (first * size_of::<f32>()) as u64);
        self.stream.copy_to_host(&mut actual, from)?;
        let factor = self.expected_factor();
        let inputs = &self.host_input[first..first + elements];
        let wrong = actual.iter().zip(inputs).position(|(actual, input)| {
            // Exact as long as sums stay below 2^24, so one unit in the last place is already generous.
            !relative_eq!(
                f64::from(*actual),
                f64::from(*input) * factor,
                max_relative = f64::from(f32::EPSILON)
            )
        });
        match wrong {
            None => Ok(()),
            Some(index) => Err(Failure::WrongResult {
                index: first + index,
                expected: f64::from(inputs[index]) * factor,
                actual: f64::from(actual[index]),
            }),
        }
    }

    fn check_pool(&self) -> Result<Option<Reserved>, Failure> {
        let (Some(pool), Some(before)) = (self.strategy.pool(), self.used_before_bytes) else {
            return Ok(None);
        };
        let used = pool.used_bytes_current()?;
        if used != before {
            return Err(Failure::UsedBytes { before, after: used });
        }
        let reserved = pool.reserved_bytes_current()?;
        // What other code holds in a shared pool is in the way of giving back; here nothing else does.
        let threshold = self.release_threshold_bytes;
        if reserved > threshold.max(used) {
            return Err(Failure::ReservedBytes { reserved, threshold });
        }
        Ok(Some(Reserved {
            after_synchronize_bytes: reserved,
            high_bytes: pool.reserved_bytes_high()?,
        }))
    }
}

impl Workload for Prepared {
    fn iterations_per_loop(&self) -> u64 {
        self.iterations_per_loop
    }

    fn trial(&mut self) -> Result<Duration, Failure> {
        // The first iteration meets cold pages and an empty pool.
        self.run_loop(1)?;
        let start = Instant::now();
        self.run_loop(1)?;
        let elapsed = start.elapsed();
        self.reset_output()?;
        Ok(elapsed)
    }

    fn run(&mut self, loops: u64) -> Result<Duration, Failure> {
        let stretch = (EXACT_ITERATIONS_MAX / self.iterations_per_loop).max(1);
        let mut left = loops;
        let mut elapsed = Duration::ZERO;
        while left > 0 {
            self.reset_output()?;
            let now = left.min(stretch);
            elapsed += self.timed_loops(now)?;
            self.check_sample()?;
            left -= now;
        }
        Ok(elapsed)
    }

    fn check(&mut self) -> Result<Observation, Failure> {
        self.compare(0, self.output.len())?;
        Ok(Observation {
            reserved: self.check_pool()?,
            ..Observation::default()
        })
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.strategy.close()?;
        self.input.close()?;
        self.output.close()?;
        self.kernels.close()?;
        Ok(self.stream.close()?)
    }
}

impl Prepared {
    fn check_sample(&self) -> Result<(), Failure> {
        let length = self.output.len();
        if self.size <= FULL_CHECK_SIZE {
            return self.compare(0, length);
        }
        self.compare(0, SPOT_ELEMENTS)?;
        self.compare(length - SPOT_ELEMENTS, SPOT_ELEMENTS)
    }
}

/// The scale of an iteration of a loop.
#[allow(clippy::cast_precision_loss, reason = "at most SCALES")]
fn scale(iteration: u64) -> f32 {
    (1 + iteration % SCALES) as f32
}

/// Sum of the scales of a loop's iterations.
fn scale_sum(iterations: u64) -> u64 {
    let rest = iterations % SCALES;
    iterations / SCALES * SCALE_CYCLE_SUM + rest * (rest + 1) / 2
}

/// The input: whole numbers from 1 to [`INPUT_MAX`], the same for every case of a length.
fn input(length: usize) -> Vec<f32> {
    let mut random = StdRng::seed_from_u64(INPUT_SEED);
    (0..length)
        .map(|_| f32::from(random.random_range(1..=INPUT_MAX)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_sum_as_the_loop_adds_them() {
        for iterations in [1, 3, 4, 7, 100] {
            let sum: f32 = (0..iterations).map(scale).sum();
            assert_eq!(f64::from(sum), scale_sum(iterations) as f64, "{iterations}");
        }
    }

    #[test]
    fn a_stretch_stays_exact() {
        let largest = scale_sum(EXACT_ITERATIONS_MAX) * u64::from(INPUT_MAX);
        assert!(largest <= 1 << 24, "{largest}");
        // A stretch that is needlessly short would zero the output more often than samples are long.
        const { assert!(EXACT_ITERATIONS_MAX > 500_000) };
    }

    #[test]
    fn a_planted_kernel_fault_is_caught() {
        let device = Device::from_environment().expect("a device, if only the host device");
        let case = ScratchLoop {
            group: "planted",
            function: String::from("hoisted"),
            strategy: crate::strategy::HOISTED,
            size: Size::kib(4),
            release_threshold_bytes: 0,
            iterations: 10,
        };
        let mut prepared = Prepared::new(&case, &device).expect("the case fits any device");
        prepared.run(3).expect("sound kernels give the right result");
        prepared.kernels = Kernels::load().expect("the kernels load").with_faulty_fill();
        let failure = prepared.run(1).expect_err("the output is wrong");
        assert!(matches!(failure, Failure::WrongResult { index: 0, .. }), "{failure}");
    }
}
