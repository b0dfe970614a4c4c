//! The scratch loop captured once and replayed: one submission a loop, against the same loop submitted
//! call by call.

use super::ScratchLoop;
use super::scratch::Scratch;
use crate::case::{BenchmarkId, InvalidPart, Size, Submission};
use crate::cuda::{CaptureMode, Device, Graph, GraphExec, Unfreed};
use crate::driver::Code;
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
    scratch: Scratch,
    device: Device,
    replay: Replay,
    reserved_before_bytes: u64,
}

impl Captured {
    fn new(case: &ScratchLoop, device: &Device) -> Result<Captured, Failure> {
        // What another graph left would be used first and hide what this one needs.
        device.trim_graph_memory()?;
        let reserved_before_bytes = device.graph_memory()?.reserved_bytes_current;
        let mut scratch = Scratch::new(case, device)?;
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
fn instantiate(scratch: &mut Scratch) -> Result<(Graph, GraphExec, Replay), Failure> {
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

impl Workload for Captured {
    fn iterations_per_loop(&self) -> u64 {
        self.scratch.iterations_per_loop()
    }

    fn trial(&mut self) -> Result<Duration, Failure> {
        let first = self.scratch.time(1, |scratch| scratch.run_graph(&self.exec))?;
        self.replay.first_launch_ns = nanoseconds(first);
        self.replay.reserved_bytes = self.reserved_bytes()?;
        let mut launches = [Duration::ZERO; STEADY_LAUNCHES];
        for launch in &mut launches {
            *launch = self.scratch.time(1, |scratch| scratch.run_graph(&self.exec))?;
        }
        launches.sort_unstable();
        let steady = launches[STEADY_LAUNCHES / 2];
        self.replay.steady_launch_ns = nanoseconds(steady);
        self.check_graph_memory()?;
        self.scratch.reset_output()?;
        let iterations = u32::try_from(self.iterations_per_loop()).unwrap_or(u32::MAX);
        Ok(steady / iterations.max(1))
    }

    fn run(&mut self, loops: u64) -> Result<Duration, Failure> {
        let elapsed = self
            .scratch
            .time_checked(loops, |scratch| scratch.run_graph(&self.exec))?;
        self.check_graph_memory()?;
        Ok(elapsed)
    }

    /// Trims graph memory to see that it comes back; the next launch takes it again.
    fn check(&mut self) -> Result<Observation, Failure> {
        self.scratch.check()?;
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
        exec.close()?;
        graph.close()?;
        let closed = scratch.close();
        device.trim_graph_memory()?;
        closed
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
