//! The scratch loop in several streams at once: each iteration allocates, works and frees in every
//! stream; all are synchronised at the end of the loop.

use super::exact_loop::{ExactLoop, Lane, equal_lengths};
use super::exact_sum::scale;
use super::pool_check::{keeping_pool, reserved_after_loop};
use crate::case::{BenchmarkId, InvalidPart, Size};
use crate::cuda::{Device, DeviceBuffer, Kernels, MemoryPool, close_all};
use crate::kernel_work::KernelWork;
use crate::measure::{Case, Failure, Observation, Reserved, Workload};
use std::time::Duration;

/// Where the streams' buffers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// One buffer a stream, allocated before the loop.
    Hoisted,
    /// One pool that all streams share.
    SharedPool,
    /// A pool for each stream.
    OwnPools,
}

impl Source {
    /// Every source, the baseline first.
    pub const ALL: [Source; 3] = [Source::Hoisted, Source::SharedPool, Source::OwnPools];

    /// The name in benchmark ids.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Source::Hoisted => "hoisted",
            Source::SharedPool => "shared_pool",
            Source::OwnPools => "own_pools",
        }
    }
}

/// A point on the axes: source, number of streams, size.
#[derive(Clone, Debug)]
pub struct MultiStream {
    /// The Criterion group.
    pub group: &'static str,
    /// Where buffers come from.
    pub source: Source,
    /// How many streams.
    pub n_streams: usize,
    /// The size of each stream's buffer.
    pub size: Size,
    /// Iterations of each stream, then a synchronise of all.
    pub iterations: u64,
}

impl Case for MultiStream {
    fn id(&self) -> Result<BenchmarkId, InvalidPart> {
        let function = format!("{},{}", self.source.name(), self.size);
        BenchmarkId::new(self.group, &function, &format!("streams={}", self.n_streams))
    }

    /// All streams' buffers together: what one iteration works on.
    fn size(&self) -> Size {
        Size::bytes(self.size.as_bytes() * self.n_streams)
    }

    fn iterations_per_loop(&self) -> u64 {
        self.iterations
    }

    fn kernel_work(&self) -> Option<KernelWork> {
        Some(KernelWork {
            lengths: equal_lengths(self.size, self.iterations),
            n_streams: self.n_streams,
        })
    }

    fn prepare(&self, device: &Device) -> Result<Box<dyn Workload>, Failure> {
        device.require_free_bytes(self.size().as_bytes().saturating_mul(3))?;
        let kernels = Kernels::shared()?;
        let pools = match self.source {
            Source::Hoisted => Vec::new(),
            Source::SharedPool => vec![keeping_pool(device)?],
            Source::OwnPools => (0..self.n_streams)
                .map(|_| keeping_pool(device))
                .collect::<Result<_, _>>()?,
        };
        let lengths = equal_lengths(self.size, self.iterations);
        let lanes = (0..self.n_streams)
            .map(|_| Lane::new(self.size.elements(), &lengths))
            .collect::<Result<_, _>>()?;
        let n_hoisted = if self.source == Source::Hoisted {
            self.n_streams
        } else {
            0
        };
        let hoisted = (0..n_hoisted)
            .map(|_| DeviceBuffer::uninitialized(self.size.elements()))
            .collect::<Result<_, _>>()?;
        Ok(Box::new(Prepared {
            kernels,
            pools,
            lanes,
            hoisted,
            iterations: self.iterations,
            size: self.size,
        }))
    }
}

struct Prepared {
    kernels: Kernels,
    /// None, one for all, or one a lane.
    pools: Vec<MemoryPool>,
    lanes: Vec<Lane>,
    /// One a lane, or none.
    hoisted: Vec<DeviceBuffer>,
    iterations: u64,
    size: Size,
}

impl Prepared {
    /// The pool of a lane, `None` where its buffer is hoisted.
    #[inline]
    fn pool(&self, lane: usize) -> Option<&MemoryPool> {
        self.pools.get(lane).or(self.pools.first())
    }

    #[inline]
    fn work(&self, index: usize, lane: &Lane, iteration: u64) -> Result<(), Failure> {
        let length = self.size.elements();
        let pool = self.pool(index);
        let scratch = match pool {
            Some(pool) => pool.alloc(&lane.stream, self.size.as_bytes())?,
            None => self.hoisted[index].pointer(),
        };
        let worked = self
            .kernels
            .fill(&lane.stream, scratch, lane.sum.input(), length, scale(iteration))
            .and_then(|()| {
                self.kernels
                    .accumulate(&lane.stream, lane.sum.output(), scratch, length)
            });
        // Also where the work failed: nobody else knows the buffer.
        let freed = match pool {
            Some(_) => MemoryPool::free(&lane.stream, scratch),
            None => Ok(()),
        };
        Ok(worked.and(freed)?)
    }
}

impl ExactLoop for Prepared {
    fn iterations(&self) -> u64 {
        self.iterations
    }

    #[inline]
    fn run_loop(&mut self, iterations: u64) -> Result<(), Failure> {
        for iteration in 0..iterations {
            for (index, lane) in self.lanes.iter().enumerate() {
                self.work(index, lane, iteration)?;
            }
        }
        self.lanes.iter().try_for_each(|lane| Ok(lane.stream.synchronize()?))
    }

    fn lanes(&mut self) -> &mut [Lane] {
        &mut self.lanes
    }
}

impl Workload for Prepared {
    fn iterations_per_loop(&self) -> u64 {
        self.iterations
    }

    fn trial(&mut self) -> Result<Duration, Failure> {
        self.time_one()
    }

    fn run(&mut self, loops: u64) -> Result<Duration, Failure> {
        self.time_loops(loops)
    }

    fn check(&mut self) -> Result<Observation, Failure> {
        self.check_lanes()?;
        let mut reserved: Option<Reserved> = None;
        for pool in &self.pools {
            let seen = reserved_after_loop(pool, 0, u64::MAX)?;
            let sum = reserved.get_or_insert_default();
            sum.after_synchronize_bytes += seen.after_synchronize_bytes;
            sum.high_bytes += seen.high_bytes;
            sum.used_high_bytes += seen.used_high_bytes;
        }
        Ok(Observation {
            reserved,
            ..Observation::default()
        })
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        let hoisted = close_all(self.hoisted, DeviceBuffer::close);
        let lanes = close_all(self.lanes, Lane::close);
        let pools = close_all(self.pools, MemoryPool::close);
        Ok(hoisted.and(lanes).and(pools).and(self.kernels.close())?)
    }
}
