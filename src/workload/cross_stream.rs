//! A block freed in one stream and wanted in another: whether it comes back, by reuse policy, with and
//! without events between the streams. Two streams take turns; each takes a block, works on it and
//! frees it.

use super::exact_loop::{ExactLoop, Lane, equal_lengths};
use super::exact_sum::scale;
use super::pool_check::{keeping_pool, reserved_after_loop};
use crate::case::{BenchmarkId, InvalidPart, Size};
use crate::cuda::{Device, DevicePtr, Event, Kernels, MemoryPool, ReusePolicy, close_all};
use crate::kernel_work::KernelWork;
use crate::measure::{Case, Failure, Observation, Reuse, Workload};
use std::time::Duration;

/// Which reuse policies are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policies {
    /// None of the three.
    None,
    /// One alone.
    Only(ReusePolicy),
    /// All: the driver's default.
    All,
}

impl Policies {
    /// Every combination that the suite measures.
    pub const ALL: [Policies; 5] = [
        Policies::None,
        Policies::Only(ReusePolicy::FollowEventDependencies),
        Policies::Only(ReusePolicy::AllowOpportunistic),
        Policies::Only(ReusePolicy::AllowInternalDependencies),
        Policies::All,
    ];

    /// The name in benchmark ids.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Policies::None => "none",
            Policies::Only(ReusePolicy::FollowEventDependencies) => "follow_event",
            Policies::Only(ReusePolicy::AllowOpportunistic) => "opportunistic",
            Policies::Only(ReusePolicy::AllowInternalDependencies) => "internal",
            Policies::All => "all",
        }
    }

    fn includes(self, policy: ReusePolicy) -> bool {
        self == Policies::All || self == Policies::Only(policy)
    }
}

/// A point on the axes: policies, event or not, size.
#[derive(Clone, Debug)]
pub struct CrossStream {
    /// The Criterion group.
    pub group: &'static str,
    /// The reuse policies.
    pub policies: Policies,
    /// Whether each stream waits for an event that the other records after its free.
    pub with_event: bool,
    /// The size of the block.
    pub size: Size,
    /// Iterations, then a synchronise of both streams.
    pub iterations: u64,
}

impl Case for CrossStream {
    fn id(&self) -> Result<BenchmarkId, InvalidPart> {
        let event = if self.with_event { "event" } else { "no_event" };
        BenchmarkId::new(
            self.group,
            &format!("policy={},{event}", self.policies.name()),
            &self.size.to_string(),
        )
    }

    fn size(&self) -> Size {
        self.size
    }

    fn iterations_per_loop(&self) -> u64 {
        self.iterations
    }

    /// As the policies may have it, the streams take turns or overlap; here they overlap.
    fn kernel_work(&self) -> Option<KernelWork> {
        Some(KernelWork {
            lengths: equal_lengths(self.size, self.iterations),
            n_streams: 2,
        })
    }

    fn prepare(&self, device: &Device) -> Result<Box<dyn Workload>, Failure> {
        device.require_free_bytes(self.size.as_bytes().saturating_mul(8))?;
        let pool = keeping_pool(device)?;
        for policy in ReusePolicy::ALL {
            pool.set_reuse_policy(policy, self.policies.includes(policy))?;
        }
        let lengths = equal_lengths(self.size, self.iterations);
        Ok(Box::new(Prepared {
            kernels: Kernels::shared()?,
            pool,
            lanes: [
                Lane::new(self.size.elements(), &lengths)?,
                Lane::new(self.size.elements(), &lengths)?,
            ],
            events: if self.with_event {
                Some([Event::new()?, Event::new()?])
            } else {
                None
            },
            iterations: self.iterations,
            size: self.size,
            reuse: Reuse { asked: 0, reused: 0 },
        }))
    }
}

struct Prepared {
    kernels: Kernels,
    pool: MemoryPool,
    lanes: [Lane; 2],
    /// One a lane, recorded after its free.
    events: Option<[Event; 2]>,
    iterations: u64,
    size: Size,
    reuse: Reuse,
}

impl Prepared {
    /// Work on a fresh block in one stream, and its free there.
    #[inline]
    fn work(&self, lane: &Lane, iteration: u64) -> Result<DevicePtr, Failure> {
        let length = self.size.elements();
        let scratch = self.pool.alloc(&lane.stream, self.size.as_bytes())?;
        let worked = self
            .kernels
            .fill(&lane.stream, scratch, lane.sum.input(), length, scale(iteration))
            .and_then(|()| {
                self.kernels
                    .accumulate(&lane.stream, lane.sum.output(), scratch, length)
            });
        // Also where the work failed: nobody else knows the block.
        let freed = MemoryPool::free(&lane.stream, scratch);
        worked.and(freed)?;
        Ok(scratch)
    }
}

impl ExactLoop for Prepared {
    fn iterations(&self) -> u64 {
        self.iterations
    }

    #[inline]
    fn run_loop(&mut self, iterations: u64) -> Result<(), Failure> {
        let mut before = None;
        for iteration in 0..iterations {
            for (lane, other) in [(0, 1), (1, 0)] {
                let block = self.work(&self.lanes[lane], iteration)?;
                if let Some(events) = &self.events {
                    events[lane].record(&self.lanes[lane].stream)?;
                    self.lanes[other].stream.wait_event(&events[lane])?;
                }
                if let Some(before) = before.replace(block) {
                    self.reuse.asked += 1;
                    self.reuse.reused += u64::from(before == block);
                }
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
        self.reuse = Reuse { asked: 0, reused: 0 };
        self.time_loops(loops)
    }

    fn check(&mut self) -> Result<Observation, Failure> {
        self.check_lanes()?;
        let reserved = reserved_after_loop(&self.pool, 0, u64::MAX)?;
        Ok(Observation {
            reserved: Some(reserved),
            reuse: Some(self.reuse),
            ..Observation::default()
        })
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        let lanes = close_all(self.lanes, Lane::close);
        let events = close_all(self.events.into_iter().flatten(), Event::close);
        let pool = self.pool.close();
        Ok(lanes.and(events).and(pool).and(self.kernels.close())?)
    }
}
