//! The scratch loop captured once and replayed: one submission a loop, against the same loop submitted
//! call by call.

use super::exact_loop::{ExactLoop, Lane};
use super::scratch_loop::{Prepared, ScratchLoop};
use crate::case::{BenchmarkId, InvalidPart, Size, Submission};
use crate::cuda::{CaptureMode, Device, Graph, GraphExec, Unfreed};
use crate::driver::Code;
use crate::kernel_work::KernelWork;
use crate::measure::{Case, Failure, Observation, Replay, Workload};
use crate::strategy::StrategyKind;
use std::time::{Duration, Instant};

/// Launches whose median stands for all that follow the first.
const STEADY_LAUNCHES: usize = 5;

/// A point on the axes of graph replay.
#[derive(Clone, Debug)]
pub struct GraphReplay {
    /// The Criterion group.
    pub group: &'static str,
    /// How the loop gets its buffer. One that capture refuses is a skip.
    pub strategy: &'static StrategyKind,
    /// How the loop is submitted.
    pub submission: Submission,
    /// The size of the buffer.
    pub size: Size,
    /// The release threshold of the strategy's pool, in bytes; nothing to a graph's own memory.
    pub release_threshold_bytes: u64,
    /// Iterations of one whole loop: of one graph.
    pub iterations: u64,
}

impl GraphReplay {
    fn function(&self) -> String {
        format!("{},{}", self.strategy.name, self.submission)
    }

    fn scratch_loop(&self) -> ScratchLoop {
        ScratchLoop {
            group: self.group,
            function: self.function(),
            strategy: self.strategy,
            size: self.size,
            size_seed: None,
            release_threshold_bytes: self.release_threshold_bytes,
            iterations: self.iterations,
        }
    }
}

impl Case for GraphReplay {
    fn id(&self) -> Result<BenchmarkId, InvalidPart> {
        BenchmarkId::new(self.group, &self.function(), &self.size.to_string())
    }

    fn size(&self) -> Size {
        self.size
    }

    fn iterations_per_loop(&self) -> u64 {
        self.iterations
    }

    fn kernel_work(&self) -> Option<KernelWork> {
        self.scratch_loop().kernel_work()
    }

    fn prepare(&self, device: &Device) -> Result<Box<dyn Workload>, Failure> {
        match self.submission {
            Submission::Eager => self.scratch_loop().prepare(device),
            Submission::GraphReplay => Ok(Box::new(Captured::new(&self.scratch_loop(), device)?)),
        }
    }
}

/// A loop as a graph. The graph goes before what its nodes refer to.
struct Captured {
    exec: GraphExec,
    graph: Graph,
    scratch: Prepared,
    device: Device,
    replay: Replay,
    reserved_before_bytes: u64,
}

impl Captured {
    fn new(case: &ScratchLoop, device: &Device) -> Result<Captured, Failure> {
        // What another graph left would be used first and hide what this one needs.
        device.trim_graph_memory()?;
        let reserved_before_bytes = device.graph_memory()?.reserved_bytes_current;
        let mut scratch = Prepared::new(case, device)?;
        let (graph, exec, replay) = match instantiate(&mut scratch) {
            Ok(made) => made,
            Err(failure) => {
                // The first failure is the one to report.
                let _ = scratch.close();
                return Err(failure);
            }
        };
        Ok(Captured {
            exec,
            graph,
            scratch,
            device: device.clone(),
            replay,
            reserved_before_bytes,
        })
    }

    fn reserved_bytes(&self) -> Result<u64, Failure> {
        Ok(self.device.graph_memory()?.reserved_bytes_current)
    }

    /// The time of one launch with its synchronise.
    fn time_launch(&mut self) -> Result<Duration, Failure> {
        let iterations = self.iterations();
        let start = Instant::now();
        self.run_loop(iterations)?;
        Ok(start.elapsed())
    }

    /// However often the graph was launched, it holds what it held after the first time.
    fn check_graph_memory(&self) -> Result<(), Failure> {
        let first = self.replay.reserved_bytes;
        let after = self.reserved_bytes()?;
        if after == first {
            Ok(())
        } else {
            Err(Failure::GraphMemory { first, after })
        }
    }
}

/// Captures one loop and makes it executable; its launches are still to be seen.
fn instantiate(scratch: &mut Prepared) -> Result<(Graph, GraphExec, Replay), Failure> {
    let start = Instant::now();
    let graph = scratch.capture(CaptureMode::Global).map_err(|error| {
        if error.code().is_some_and(Code::refuses_capture) {
            Failure::NotCapturable(error)
        } else {
            error.into()
        }
    })?;
    let captured = Instant::now();
    let exec = graph.instantiate(Unfreed::MustBeFreed)?;
    let instantiated = Instant::now();
    let replay = Replay {
        nodes: graph.node_count()?,
        capture_ns: nanoseconds(captured - start),
        instantiate_ns: nanoseconds(instantiated - captured),
        first_launch_ns: 0,
        steady_launch_ns: 0,
        reserved_bytes: 0,
        reserved_after_trim_bytes: 0,
    };
    Ok((graph, exec, replay))
}

impl ExactLoop for Captured {
    fn iterations(&self) -> u64 {
        self.scratch.iterations()
    }

    /// Launches the graph: always a whole loop.
    #[inline]
    fn run_loop(&mut self, iterations: u64) -> Result<(), Failure> {
        debug_assert_eq!(iterations, self.iterations(), "a graph is never cut short");
        let stream = &self.scratch.lane.stream;
        self.exec.launch(stream)?;
        Ok(stream.synchronize()?)
    }

    fn lanes(&mut self) -> &mut [Lane] {
        self.scratch.lanes()
    }
}

impl Workload for Captured {
    fn iterations_per_loop(&self) -> u64 {
        self.iterations()
    }

    fn trial(&mut self) -> Result<Duration, Failure> {
        self.replay.first_launch_ns = nanoseconds(self.time_launch()?);
        self.replay.reserved_bytes = self.reserved_bytes()?;
        let mut launches = [Duration::ZERO; STEADY_LAUNCHES];
        for launch in &mut launches {
            *launch = self.time_launch()?;
        }
        launches.sort_unstable();
        let steady = launches[STEADY_LAUNCHES / 2];
        self.replay.steady_launch_ns = nanoseconds(steady);
        self.check_graph_memory()?;
        self.reset()?;
        let iterations = u32::try_from(self.iterations()).unwrap_or(u32::MAX);
        Ok(steady / iterations.max(1))
    }

    fn run(&mut self, loops: u64) -> Result<Duration, Failure> {
        let elapsed = self.time_loops(loops)?;
        self.check_graph_memory()?;
        Ok(elapsed)
    }

    /// Without the trim: memory that a graph takes anew after one can be slower, by 14 % at 1 MiB on an
    /// H200.
    fn check_effect(&mut self) -> Result<(), Failure> {
        self.check_lanes()?;
        self.scratch.check_pool().map(drop)
    }

    /// Trims graph memory to see that it comes back.
    fn check(&mut self) -> Result<Observation, Failure> {
        self.check_lanes()?;
        let reserved = self.scratch.check_pool()?;
        self.device.trim_graph_memory()?;
        let (before, after) = (self.reserved_before_bytes, self.reserved_bytes()?);
        if after > before {
            return Err(Failure::GraphTrim { before, after });
        }
        self.replay.reserved_after_trim_bytes = after;
        Ok(Observation {
            reserved,
            graph: Some(self.replay),
            ..Observation::default()
        })
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        let Captured {
            exec,
            graph,
            scratch,
            device,
            ..
        } = *self;
        let (exec, graph) = (exec.close(), graph.close());
        let scratch = scratch.close();
        let trimmed = device.trim_graph_memory();
        exec.and(graph)?;
        scratch?;
        Ok(trimmed?)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
