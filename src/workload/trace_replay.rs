//! A synthetic trace under one strategy: many blocks live at once, as programs have them.

use super::pool_check::reserved_after_loop;
use crate::case::{BenchmarkId, InvalidPart, Size};
use crate::cuda::{Device, MemoryPool};
use crate::measure::{self, Case, Failure, Observation, Workload};
use crate::replay::{Allocator, CompileOptions, Engine, NoWork, Program, Reuse, Touch, Work};
use crate::strategy::{Setup, StrategyKind};
use crate::trace::Synthetic;
use std::time::{Duration, Instant};

/// Of each block, so much at both ends is written and verified: whole blocks would take the host device
/// minutes.
const TOUCHED_EDGE_SIZE: Size = Size::kib(64);

/// A point on the axes: strategy and shape. One iteration is one event of the trace; one loop is the
/// whole trace.
#[derive(Clone, Debug)]
pub struct TraceReplay {
    /// The Criterion group.
    pub group: &'static str,
    /// How memory is got.
    pub strategy: &'static StrategyKind,
    /// The trace.
    pub synthetic: Synthetic,
    /// The release threshold of the strategy's pool, in bytes.
    pub release_threshold_bytes: u64,
}

impl TraceReplay {
    /// The program of a strategy that the driver serves, or of one that hands memory out itself. Synthetic
    /// traces always compile: they allocate, and no more than a GPU addresses.
    fn program(&self, reuse: Reuse) -> Program {
        let options = CompileOptions {
            reuse,
            ..CompileOptions::default()
        };
        Program::compile(&self.synthetic.generate(), &options).expect("a synthetic trace of few streams")
    }
}

impl Case for TraceReplay {
    fn id(&self) -> Result<BenchmarkId, InvalidPart> {
        BenchmarkId::new(self.group, self.strategy.name, self.synthetic.workload.name())
    }

    /// The mean that one event asks for, so that throughput is the bytes handed out in a time.
    fn size(&self) -> Size {
        let program = self.program(Reuse::Driver);
        let mean_bytes = program.allocated_bytes() / program.counts().events.max(1);
        Size::bytes(usize::try_from(mean_bytes).unwrap_or(usize::MAX))
    }

    fn iterations_per_loop(&self) -> u64 {
        self.program(Reuse::Driver).counts().events
    }

    /// The timed loop touches nothing, the check the ends of each block.
    fn loop_bytes(&self) -> u64 {
        self.program(Reuse::Driver).counts().allocations * 2 * TOUCHED_EDGE_SIZE.as_bytes() as u64
    }

    fn prepare(&self, device: &Device) -> Result<Box<dyn Workload>, Failure> {
        let mut program = self.program(Reuse::Driver);
        let peak_bytes = usize::try_from(program.peak_live_bytes()).unwrap_or(usize::MAX);
        // Fragmentation takes up to as much again.
        device.require_free_bytes(peak_bytes.saturating_mul(2))?;
        let setup = Setup {
            device,
            size: Size::bytes(peak_bytes),
            plan: None,
            release_threshold_bytes: self.release_threshold_bytes,
        };
        let allocator = Allocator::build(self.strategy, &setup, &program.plans())?;
        if allocator.reuse() == Reuse::Host {
            program = self.program(Reuse::Host);
        }
        let used_before_bytes = allocator.pool().map(MemoryPool::used_bytes_current).transpose()?;
        Ok(Box::new(Prepared {
            engine: Engine::new(device, &program)?,
            program,
            allocator,
            release_threshold_bytes: self.release_threshold_bytes,
            used_before_bytes,
        }))
    }
}

struct Prepared {
    engine: Engine,
    program: Program,
    allocator: Allocator,
    release_threshold_bytes: u64,
    used_before_bytes: Option<u64>,
}

impl Prepared {
    /// The whole trace and a synchronise. Memory that is missing is a failure here, since every strategy
    /// must do the same work.
    #[inline]
    fn replay(&mut self, work: &mut impl Work) -> Result<(), Failure> {
        let missed = self.engine.run(self.program.operations(), &mut self.allocator, work)?;
        if missed > 0 {
            return Err(Failure::MissedAllocations { missed });
        }
        Ok(self.engine.synchronize()?)
    }
}

impl Workload for Prepared {
    fn iterations_per_loop(&self) -> u64 {
        self.program.counts().events
    }

    fn trial(&mut self) -> Result<Duration, Failure> {
        // The first meets cold pages and an empty pool.
        self.replay(&mut NoWork)?;
        let start = Instant::now();
        self.replay(&mut NoWork)?;
        let events = u32::try_from(self.program.counts().events).unwrap_or(u32::MAX);
        Ok(start.elapsed() / events)
    }

    fn rehearse(&mut self) -> Result<(), Failure> {
        self.replay(&mut NoWork)
    }

    fn run(&mut self, loops: u64) -> Result<Duration, Failure> {
        measure::timed(|| (0..loops).try_for_each(|_| self.replay(&mut NoWork)))
    }

    /// Replays once more with the ends of each block written and verified, and looks at the pool.
    fn check(&mut self) -> Result<Observation, Failure> {
        let mut touch = Touch::new(self.engine.streams(), TOUCHED_EDGE_SIZE.as_bytes())?;
        let replayed = self.replay(&mut touch);
        let verified = replayed.and_then(|()| touch.verify(self.engine.streams()));
        self.engine.synchronize()?;
        touch.close()?;
        verified?;
        let (Some(pool), Some(before)) = (self.allocator.pool(), self.used_before_bytes) else {
            return Ok(Observation::default());
        };
        Ok(Observation {
            reserved: Some(reserved_after_loop(pool, before, self.release_threshold_bytes)?),
            ..Observation::default()
        })
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.allocator.close()?;
        Ok(self.engine.close()?)
    }
}
