//! What all loops with an exact result share: how they are timed, and checked outside the clock.

use super::exact_sum::ExactSum;
use crate::case::Size;
use crate::cuda::{self, Stream};
use crate::measure::{self, Failure};
use std::time::{Duration, Instant};

/// The number of elements of each of so many iterations, all of one size.
pub(super) fn equal_lengths(size: Size, iterations: u64) -> Vec<usize> {
    vec![size.elements(); usize::try_from(iterations).unwrap_or(usize::MAX)]
}

/// A stream and the sum that the work in it adds up to.
pub(super) struct Lane {
    pub(super) stream: Stream,
    pub(super) sum: ExactSum,
}

impl Lane {
    /// A new stream, for a loop whose iterations use these numbers of so many elements.
    pub(super) fn new(elements: usize, lengths: &[usize]) -> Result<Lane, Failure> {
        let stream = Stream::new()?;
        let sum = ExactSum::new(&stream, elements, lengths)?;
        Ok(Lane { stream, sum })
    }

    pub(super) fn close(self) -> cuda::Result<()> {
        let sum = self.sum.close();
        sum.and(self.stream.close())
    }
}

/// A loop over one or more lanes, each of which does the same work.
pub(super) trait ExactLoop {
    /// Iterations of one whole loop.
    fn iterations(&self) -> u64;

    /// Runs the first `iterations` iterations of a loop, then synchronises every lane.
    fn run_loop(&mut self, iterations: u64) -> Result<(), Failure>;

    /// The lanes, at least one.
    fn lanes(&mut self) -> &mut [Lane];

    /// Zeroes every output.
    fn reset(&mut self) -> Result<(), Failure> {
        self.lanes()
            .iter_mut()
            .try_for_each(|lane| lane.sum.reset(&lane.stream))
    }

    /// Compares every output in whole.
    fn check_lanes(&mut self) -> Result<(), Failure> {
        self.lanes().iter().try_for_each(|lane| lane.sum.check(&lane.stream))
    }

    /// The time of one iteration. The one before it meets cold pages and an empty pool.
    fn time_one(&mut self) -> Result<Duration, Failure> {
        self.run_loop(1)?;
        let start = Instant::now();
        self.run_loop(1)?;
        let elapsed = start.elapsed();
        self.reset()?;
        Ok(elapsed)
    }

    /// The time of this many whole loops. The clock stands still while outputs are zeroed and samples
    /// of them are checked, before and after each stretch that is short enough to stay exact.
    fn time_loops(&mut self, loops: u64) -> Result<Duration, Failure> {
        let iterations = self.iterations();
        let stretch_max = self.lanes()[0].sum.loops_max();
        let mut left = loops;
        let mut elapsed = Duration::ZERO;
        while left > 0 {
            self.reset()?;
            let stretch = left.min(stretch_max);
            elapsed += measure::timed(|| (0..stretch).try_for_each(|_| self.run_loop(iterations)))?;
            for lane in self.lanes() {
                lane.sum.add_loops(stretch);
                lane.sum.check_sample(&lane.stream)?;
            }
            left -= stretch;
        }
        Ok(elapsed)
    }
}
