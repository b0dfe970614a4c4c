//! What proves that a loop did its work: an output whose every element is known exactly.
//!
//! Iteration `i` of a loop fills the scratch buffer with `scale(i)` times the input, and adds it to the
//! output. Inputs and scales are small whole numbers, so the sums are exact in `f32`, whatever the
//! strategy; a scratch buffer that was not filled again, was filled for another iteration, or was too
//! short, shows.

use crate::cuda::{self, DeviceBuffer, DevicePtr, Stream};
use crate::measure::Failure;
use approx::relative_eq;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::LazyLock;
use std::{mem, panic, thread};

/// Scales go from 1 to this, and begin again.
const SCALES: u64 = 4;
/// Inputs are whole numbers from 1 to this.
const INPUT_MAX: u8 = 8;
/// `f32` holds every whole number up to here.
const EXACT_MAX: u64 = 1 << 24;
/// Outputs up to this many elements are compared in whole after each sample; larger ones at both ends
/// then, and in whole before the first sample and after the last.
const FULL_CHECK_ELEMENTS: usize = (1 << 20) / size_of::<f32>();
/// Elements compared at each end of a large output.
const SPOT_ELEMENTS: usize = 8;
/// Elements that are copied to the host and compared at a time.
const COMPARED_ELEMENTS: usize = (4 << 20) / size_of::<f32>();
/// The input repeats itself after this many elements, which stay in the host's cache while an output is
/// compared with them. A prime, so that no step of a loop, and no size, is a multiple of it.
const PERIOD_ELEMENTS: usize = 262_139;
/// The seed of the input; the same for every case, so that all strategies must agree.
const INPUT_SEED: u64 = 0x5eed;
/// Bits of a random number that make one input: whole numbers from 1 to 8 take three.
const INPUT_BITS: u32 = INPUT_MAX.ilog2();

/// The scale of an iteration of a loop.
#[allow(clippy::cast_precision_loss, reason = "at most SCALES")]
#[inline]
pub(super) fn scale(iteration: u64) -> f32 {
    (1 + iteration % SCALES) as f32
}

/// Elements that the same iterations of a loop reach, and the sum of those iterations' scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    end: usize,
    scale_sum: u64,
}

/// Input and output of a loop, and what the output has to be.
pub(super) struct ExactSum {
    input: DeviceBuffer,
    output: DeviceBuffer,
    expected: Expected,
}

/// What an output has to be.
struct Expected {
    segments: Vec<Segment>,
    /// Loops whose scratch is in the output.
    loops: u64,
}

impl ExactSum {
    /// Buffers of `elements` for a loop whose iterations use these numbers of them at most. The output is zero.
    pub(super) fn new(stream: &Stream, elements: usize, lengths: &[usize]) -> Result<ExactSum, Failure> {
        let mut sum = ExactSum {
            input: device_input(stream, elements)?,
            output: DeviceBuffer::uninitialized(elements)?,
            expected: Expected {
                segments: segments(elements, lengths),
                loops: 0,
            },
        };
        sum.reset(stream)?;
        Ok(sum)
    }

    /// For a loop that runs no kernels: the output stays zero.
    pub(super) fn expect_no_work(&mut self) {
        self.expected.segments = vec![Segment {
            end: self.output.len(),
            scale_sum: 0,
        }];
    }

    pub(super) fn input(&self) -> DevicePtr {
        self.input.pointer()
    }

    pub(super) fn output(&self) -> DevicePtr {
        self.output.pointer()
    }

    /// How many loops may be accumulated before sums stop being exact.
    pub(super) fn loops_max(&self) -> u64 {
        let scale_sums = self.expected.segments.iter().map(|segment| segment.scale_sum);
        let per_loop = scale_sums.max().unwrap_or(0) * u64::from(INPUT_MAX);
        (EXACT_MAX / per_loop.max(1)).max(1)
    }

    /// Zeroes the output and waits for it.
    pub(super) fn reset(&mut self, stream: &Stream) -> Result<(), Failure> {
        self.expected.loops = 0;
        stream.set_words(self.output.pointer(), 0, self.output.len())?;
        Ok(stream.synchronize()?)
    }

    /// Notes that this many loops were added to the output.
    pub(super) fn add_loops(&mut self, loops: u64) {
        self.expected.loops += loops;
    }

    /// Compares a small output in whole, a large one at both ends.
    pub(super) fn check_sample(&self, stream: &Stream) -> Result<(), Failure> {
        let length = self.output.len();
        if length <= FULL_CHECK_ELEMENTS {
            return self.check(stream);
        }
        self.compare(stream, 0, SPOT_ELEMENTS)?;
        self.compare(stream, length - SPOT_ELEMENTS, SPOT_ELEMENTS)
    }

    /// Compares the whole output.
    pub(super) fn check(&self, stream: &Stream) -> Result<(), Failure> {
        self.compare(stream, 0, self.output.len())
    }

    /// Compares elements of the output, those of one part while the next is copied to the host.
    fn compare(&self, stream: &Stream, first: usize, elements: usize) -> Result<(), Failure> {
        let (output, expected) = (self.output.pointer(), &self.expected);
        let copy = |first: usize, part: &mut [f32]| {
            stream.copy_to_host(part, output.offset((first * size_of::<f32>()) as u64))
        };
        let end = first + elements;
        let length = |first: usize| COMPARED_ELEMENTS.min(end - first);
        let mut part = vec![0.0_f32; length(first)];
        copy(first, &mut part)?;
        let mut next = vec![0.0_f32; if elements > part.len() { COMPARED_ELEMENTS } else { 0 }];
        for from in (first..end).step_by(COMPARED_ELEMENTS) {
            let (to, compared) = (from + length(from), &part[..length(from)]);
            if to == end {
                return expected.compare_part(from, compared);
            }
            let next_part = &mut next[..length(to)];
            // Only comparing goes to another thread, where there is one: what calls the driver stays on this one.
            let compare = || expected.compare_part(from, compared);
            let (compared, copied) = thread::scope(|scope| {
                let comparing = thread::Builder::new().spawn_scoped(scope, compare);
                let copied = copy(to, next_part);
                let compared = comparing.map_or_else(
                    |_| compare(),
                    |thread| thread.join().unwrap_or_else(|payload| panic::resume_unwind(payload)),
                );
                (compared, copied)
            });
            compared?;
            copied?;
            mem::swap(&mut part, &mut next);
        }
        Ok(())
    }

    /// Frees the buffers.
    pub(super) fn close(self) -> cuda::Result<()> {
        let input = self.input.close();
        input.and(self.output.close())
    }
}

impl Expected {
    /// Compares the elements from `first` on.
    fn compare_part(&self, first: usize, actual: &[f32]) -> Result<(), Failure> {
        let mut start = 0;
        for segment in &self.segments {
            let (from, to) = (start.max(first), segment.end.min(first + actual.len()));
            if from < to {
                self.compare_segment(segment, from, &actual[from - first..to - first])?;
            }
            start = segment.end;
        }
        Ok(())
    }

    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "below 2^24 by loops_max"
    )]
    fn compare_segment(&self, segment: &Segment, first: usize, actual: &[f32]) -> Result<(), Failure> {
        let factor = (self.loops * segment.scale_sum) as f32;
        let (mut first, mut actual) = (first, actual);
        while !actual.is_empty() {
            let inputs = &input()[first % PERIOD_ELEMENTS..];
            let (part, rest) = actual.split_at(actual.len().min(inputs.len()));
            compare_part_of_period(first, part, inputs, factor)?;
            first += part.len();
            actual = rest;
        }
        Ok(())
    }
}

/// Compares elements with as many inputs times a factor. All numbers are whole and below 2^24, so that `f32`
/// holds inputs, factors and products exactly.
fn compare_part_of_period(first: usize, actual: &[f32], inputs: &[f32], factor: f32) -> Result<(), Failure> {
    // Without a way out of the middle, several elements are compared at a time.
    let pairs = || actual.iter().zip(inputs);
    if pairs().fold(true, |equal, (actual, input)| equal & (*actual == *input * factor)) {
        return Ok(());
    }
    // One unit in the last place is already generous.
    let wrong =
        pairs().position(|(actual, input)| !relative_eq!(*actual, *input * factor, max_relative = f32::EPSILON));
    match wrong {
        None => Ok(()),
        Some(index) => Err(Failure::WrongResult {
            index: first + index,
            expected: f64::from(inputs[index]) * f64::from(factor),
            actual: f64::from(actual[index]),
        }),
    }
}

/// One period of the input: whole numbers from 1 to [`INPUT_MAX`], the same in every case.
fn input() -> &'static [f32] {
    static INPUT: LazyLock<Vec<f32>> = LazyLock::new(|| random_input(PERIOD_ELEMENTS));
    &INPUT
}

/// The input on the device. Only one period crosses the bus; it is doubled there.
fn device_input(stream: &Stream, elements: usize) -> Result<DeviceBuffer, Failure> {
    let buffer = DeviceBuffer::uninitialized(elements)?;
    let mut filled = elements.min(PERIOD_ELEMENTS);
    stream.copy_to_device(buffer.pointer(), &input()[..filled])?;
    while filled < elements {
        // What is there is whole periods.
        let copied = filled.min(elements - filled);
        let target = buffer.pointer().offset((filled * size_of::<f32>()) as u64);
        stream.copy_on_device(target, buffer.pointer(), copied * size_of::<f32>())?;
        filled += copied;
    }
    stream.synchronize()?;
    Ok(buffer)
}

/// Elements from the bits of one sequence, so that a shorter input is the beginning of a longer one.
#[allow(clippy::cast_possible_truncation, reason = "INPUT_BITS bits fit any integer")]
fn random_input(length: usize) -> Vec<f32> {
    let mut random = StdRng::seed_from_u64(INPUT_SEED);
    let per_number = (u64::BITS / INPUT_BITS) as usize;
    let mut elements = Vec::with_capacity(length + per_number);
    while elements.len() < length {
        let mut bits: u64 = random.random();
        elements.extend((0..per_number).map(|_| {
            let element = 1 + (bits % u64::from(INPUT_MAX)) as u8;
            bits >>= INPUT_BITS;
            f32::from(element)
        }));
    }
    elements.truncate(length);
    elements
}

/// For a loop whose iterations use these numbers of so many elements: which elements get which sum of scales.
fn segments(elements: usize, lengths: &[usize]) -> Vec<Segment> {
    let mut scaled: Vec<(usize, u64)> = lengths
        .iter()
        .zip(0_u64..)
        .map(|(length, iteration)| (*length, 1 + iteration % SCALES))
        .collect();
    scaled.sort_unstable();
    let mut left: u64 = scaled.iter().map(|(_, scale)| scale).sum();
    let mut segments: Vec<Segment> = Vec::new();
    for (length, scale) in scaled {
        if segments.last().is_none_or(|segment| segment.end < length) {
            segments.push(Segment {
                end: length,
                scale_sum: left,
            });
        }
        left -= scale;
    }
    if segments.last().is_none_or(|segment| segment.end < elements) {
        segments.push(Segment {
            end: elements,
            scale_sum: 0,
        });
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::Device;

    #[test]
    fn equal_lengths_are_one_segment() {
        // 100 iterations: 25 cycles of 1 + 2 + 3 + 4.
        assert_eq!(segments(7, &[7; 100]), [Segment { end: 7, scale_sum: 250 }]);
    }

    #[test]
    fn longer_iterations_reach_further() {
        // Scales 1, 2, 3: elements below 2 get all, below 5 the scales 2 and 3, below 9 the scale 2, the rest none.
        let expected = [(2, 6), (5, 5), (9, 2), (11, 0)].map(|(end, scale_sum)| Segment { end, scale_sum });
        assert_eq!(segments(11, &[2, 9, 5]), expected);
        assert_eq!(segments(9, &[2, 9, 5]), expected[..3]);
    }

    #[test]
    fn inputs_are_all_the_whole_numbers_and_begin_alike() {
        let long = random_input(10_000);
        assert_eq!(long[..777], random_input(777));
        for number in 1..=INPUT_MAX {
            let share = long.iter().filter(|element| **element == f32::from(number)).count();
            // A binomial of 10,000 at one in eight: 1,250, give or take four standard deviations of 33.
            assert!(share.abs_diff(1250) < 132, "{number}: {share}");
        }
        assert_eq!(long.iter().filter(|element| !(1.0..=8.0).contains(*element)).count(), 0);
    }

    /// The output is compared in parts, of which the last is short.
    #[test]
    fn one_wrong_element_is_named_wherever_it_is() {
        let _device = Device::from_environment().expect("a device, if only the host device");
        let stream = Stream::new().expect("a stream");
        let elements = 2 * COMPARED_ELEMENTS + 1000;
        let mut sum = ExactSum::new(&stream, elements, &[elements]).expect("it fits any device");
        sum.check(&stream).expect("no loop has run: all zero");
        for wrong in [5, COMPARED_ELEMENTS + 7, 2 * COMPARED_ELEMENTS + 999] {
            let place = sum.output().offset((wrong * size_of::<f32>()) as u64);
            stream
                .set_words(place, 1.0_f32.to_bits(), 1)
                .expect("the element is there");
            let failure = sum.check(&stream).expect_err("one element is not zero");
            let expected = Failure::WrongResult {
                index: wrong,
                expected: 0.0,
                actual: 1.0,
            };
            assert_eq!(failure, expected);
            sum.reset(&stream).expect("the output can be zeroed");
        }
    }

    #[test]
    fn the_input_on_the_device_repeats_itself_and_ends_anywhere() {
        let _device = Device::from_environment().expect("a device, if only the host device");
        let stream = Stream::new().expect("a stream");
        for elements in [1, PERIOD_ELEMENTS, PERIOD_ELEMENTS + 1, 5 * PERIOD_ELEMENTS - 3] {
            let buffer = device_input(&stream, elements).expect("it fits any device");
            let expected: Vec<f32> = input().iter().copied().cycle().take(elements).collect();
            assert!(buffer.to_vec(&stream).expect("it is copied") == expected, "{elements}");
        }
    }

    #[test]
    fn scales_repeat() {
        assert_eq!([0, 3, 4, 99].map(scale), [1.0, 4.0, 1.0, 4.0]);
    }
}
