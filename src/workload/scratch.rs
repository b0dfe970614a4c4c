//! What every submission of the scratch loop shares: its buffers, its input, what one loop submits, and
//! what the output and the pool must hold afterwards.

use super::ScratchLoop;
use crate::case::Size;
use crate::cuda::{self, CaptureMode, Device, DeviceBuffer, DevicePtr, Graph, GraphExec, Kernels, MemoryPool, Stream};
use crate::measure::{Failure, Reserved};
use crate::strategy::{Setup, Strategy};
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

/// What one loop submits, and to which buffers.
struct Body {
    kernels: Kernels,
    strategy: Box<dyn Strategy>,
    has_work: bool,
    size: Size,
    input: DevicePtr,
    output: DevicePtr,
}

impl Body {
    /// Submits `iterations` iterations of a loop.
    #[inline]
    fn submit(&mut self, stream: &Stream, iterations: u64) -> Result<(), cuda::Error> {
        let (size_bytes, length) = (self.size.as_bytes(), self.size.elements());
        for iteration in 0..iterations {
            let scratch = self.strategy.alloc(stream, size_bytes)?;
            if self.has_work {
                self.kernels
                    .fill(stream, scratch, self.input, length, scale(iteration))?;
                self.kernels.accumulate(stream, self.output, scratch, length)?;
            }
            self.strategy.free(stream, scratch)?;
        }
        Ok(())
    }
}

/// The loop's parts, and what they have done so far.
pub(super) struct Scratch {
    stream: Stream,
    body: Body,
    input: DeviceBuffer,
    output: DeviceBuffer,
    release_threshold_bytes: u64,
    iterations_per_loop: u64,
    /// Loops whose scratch is in the output.
    accumulated: u64,
    host_input: Vec<f32>,
    used_before_bytes: Option<u64>,
}

impl Scratch {
    pub(super) fn new(case: &ScratchLoop, device: &Device) -> Result<Scratch, Failure> {
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
        if let Some(pool) = strategy.pool() {
            // Other cases used the default pool before.
            pool.reset_high_watermarks()?;
        }
        let used_before_bytes = strategy.pool().map(MemoryPool::used_bytes_current).transpose()?;
        let body = Body {
            kernels: Kernels::load()?,
            strategy,
            has_work: case.strategy.has_work,
            size: case.size,
            input: input.pointer(),
            output: output.pointer(),
        };
        let mut scratch = Scratch {
            stream,
            body,
            input,
            output,
            release_threshold_bytes: case.release_threshold_bytes,
            iterations_per_loop: case.iterations,
            accumulated: 0,
            host_input,
            used_before_bytes,
        };
        scratch.reset_output()?;
        Ok(scratch)
    }

    /// Iterations of one whole loop, which is never cut short.
    pub(super) fn iterations_per_loop(&self) -> u64 {
        self.iterations_per_loop
    }

    /// Captures one whole loop, without its synchronise.
    pub(super) fn capture(&mut self, mode: CaptureMode) -> Result<Graph, cuda::Error> {
        let Scratch { stream, body, .. } = self;
        stream.capture(mode, || body.submit(stream, self.iterations_per_loop))
    }

    /// One loop, call by call: `iterations` iterations, then a synchronise.
    #[inline]
    pub(super) fn run_eagerly(&mut self, iterations: u64) -> Result<(), cuda::Error> {
        self.body.submit(&self.stream, iterations)?;
        self.stream.synchronize()
    }

    /// One loop as a graph: a launch, then a synchronise.
    #[inline]
    pub(super) fn run_graph(&mut self, exec: &GraphExec) -> Result<(), cuda::Error> {
        exec.launch(&self.stream)?;
        self.stream.synchronize()
    }

    /// The time of whole loops, which `run_loop` runs one by one.
    #[inline]
    pub(super) fn time(
        &mut self,
        loops: u64,
        run_loop: impl Fn(&mut Scratch) -> Result<(), cuda::Error>,
    ) -> Result<Duration, Failure> {
        let start = Instant::now();
        for _ in 0..loops {
            run_loop(self)?;
        }
        let elapsed = start.elapsed();
        self.accumulated += loops;
        Ok(elapsed)
    }

    /// As [`time`](Self::time), in stretches whose output is exact, a sample of which is checked
    /// outside the clock.
    #[inline]
    pub(super) fn time_checked(
        &mut self,
        loops: u64,
        run_loop: impl Fn(&mut Scratch) -> Result<(), cuda::Error>,
    ) -> Result<Duration, Failure> {
        let stretch = (EXACT_ITERATIONS_MAX / self.iterations_per_loop).max(1);
        let mut left = loops;
        let mut elapsed = Duration::ZERO;
        while left > 0 {
            self.reset_output()?;
            let now = left.min(stretch);
            elapsed += self.time(now, &run_loop)?;
            self.check_sample()?;
            left -= now;
        }
        Ok(elapsed)
    }

    pub(super) fn reset_output(&mut self) -> Result<(), Failure> {
        self.accumulated = 0;
        self.stream.set_words(self.output.pointer(), 0, self.output.len())?;
        Ok(self.stream.synchronize()?)
    }

    /// The factor of the input that `accumulated` whole loops leave in the output. Each loop starts
    /// its scales anew.
    fn expected_factor(&self) -> f64 {
        if !self.body.has_work {
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

    /// Checks that the pool holds what it may, outside the clock.
    pub(super) fn check_pool(&self) -> Result<Option<Reserved>, Failure> {
        let (Some(pool), Some(before)) = (self.body.strategy.pool(), self.used_before_bytes) else {
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

    /// Compares the whole output.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.compare(0, self.output.len())
    }

    /// Compares as much of the output as costs little after every sample.
    fn check_sample(&self) -> Result<(), Failure> {
        let length = self.output.len();
        if self.body.size <= FULL_CHECK_SIZE {
            return self.check();
        }
        self.compare(0, SPOT_ELEMENTS)?;
        self.compare(length - SPOT_ELEMENTS, SPOT_ELEMENTS)
    }

    /// Frees everything, the strategy first.
    pub(super) fn close(self) -> Result<(), Failure> {
        self.body.strategy.close()?;
        self.input.close()?;
        self.output.close()?;
        self.body.kernels.close()?;
        Ok(self.stream.close()?)
    }

    /// A planted fault: `fill` adds to what the scratch buffer holds instead of replacing it.
    #[cfg(test)]
    pub(super) fn plant_faulty_fill(&mut self) {
        self.body.kernels = Kernels::load().expect("the kernels load").with_faulty_fill();
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
}
