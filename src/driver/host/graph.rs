//! Graphs: what a capture recorded, made executable and submitted as one piece of work.

use super::capture::{Mode, Recorded};
use super::device::{HostDevice, State};
use super::device_streams::{DEFAULT_STREAM, StreamProgress};
use super::graph_memory::{Footprint, GraphMemory, Runs};
use super::memory::Memory;
use super::pool::{Position, Progress};
use super::stream::{Operation, StreamId};
use crate::driver::Code;
use std::collections::BTreeMap;
use std::sync::Arc;

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`.
const AUTO_FREE_ON_LAUNCH: u64 = 1;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY`, which means nothing to one line of work.
const USE_NODE_PRIORITY: u64 = 8;

/// The graphs of the device.
#[derive(Default)]
pub(super) struct Graphs {
    graphs: BTreeMap<u64, Arc<Graph>>,
    executables: BTreeMap<u64, GraphExec>,
    pub(super) memory: GraphMemory,
}

impl Graphs {
    /// How many graphs and executable graphs there are.
    pub(super) fn n_live(&self) -> usize {
        self.graphs.len() + self.executables.len()
    }
}

struct Graph {
    operations: Arc<[Operation]>,
    n_nodes: usize,
    footprint: Option<Footprint>,
}

#[derive(Clone)]
struct GraphExec {
    graph: Arc<Graph>,
    frees_on_launch: bool,
    /// Launches of one executable graph run one after the other, whatever their streams.
    last_launch: Option<Position>,
}

impl Runs for StreamProgress<'_> {
    fn has_run(&self, at: Position) -> bool {
        Progress::has_run(self, at.stream, at.position)
    }
    fn wait_until(&self, at: Position) {
        if let Some(stream) = self.unfinished(at.stream) {
            stream.wait_until(at.position);
        }
    }
}

impl HostDevice {
    pub(super) fn begin_capture(&self, stream: StreamId, mode: u32) -> Result<(), Code> {
        let mut state = self.for_stream(stream)?;
        let mode = Mode::from_number(mode)?;
        let stream = state.stream(stream, &self.memory)?;
        if stream.id == DEFAULT_STREAM {
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        // A blocking stream's capture forbids what the legacy default stream would order with it.
        if stream.is_blocking {
            return Err(Code::NOT_SUPPORTED);
        }
        state.captures.begin(stream.id, mode)
    }

    pub(super) fn end_capture(&self, stream: StreamId) -> Result<u64, Code> {
        let mut state = self.for_stream(stream)?;
        let Recorded {
            operations,
            n_nodes,
            footprint,
        } = state.captures.end(stream)?;
        let id = state.new_handle();
        let graph = Graph {
            operations: operations.into(),
            n_nodes,
            footprint,
        };
        state.graphs.graphs.insert(id, Arc::new(graph));
        Ok(id)
    }

    pub(super) fn capture_status(&self, stream: StreamId) -> Result<u32, Code> {
        let mut state = self.for_stream(stream)?;
        let stream = state.stream(stream, &self.memory)?.id;
        Ok(state.captures.status(stream))
    }

    pub(super) fn invalidate_capture(&self, stream: StreamId) {
        if let Ok(mut state) = self.for_stream(stream) {
            state.captures.invalidate(stream);
        }
    }

    pub(super) fn graph_node_count(&self, graph: u64) -> Result<usize, Code> {
        let state = self.in_context()?;
        let graph = state.graphs.graphs.get(&graph).ok_or(Code::INVALID_VALUE)?;
        Ok(graph.n_nodes)
    }

    pub(super) fn destroy_graph(&self, graph: u64) -> Result<(), Code> {
        let mut state = self.in_context()?;
        state.graphs.graphs.remove(&graph).map(drop).ok_or(Code::INVALID_VALUE)
    }

    pub(super) fn instantiate_graph(&self, graph: u64, flags: u64) -> Result<u64, Code> {
        let mut state = self.in_context()?;
        if flags & !(AUTO_FREE_ON_LAUNCH | USE_NODE_PRIORITY) != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let graph = state.graphs.graphs.get(&graph).ok_or(Code::INVALID_VALUE)?;
        let graph = Arc::clone(graph);
        // Two of them would run in the same memory.
        let is_of_graph = |exec: &GraphExec| Arc::ptr_eq(&exec.graph, &graph);
        if graph.footprint.is_some() && state.graphs.executables.values().any(is_of_graph) {
            return Err(Code::NOT_SUPPORTED);
        }
        let id = state.new_handle();
        let exec = GraphExec {
            graph,
            frees_on_launch: flags & AUTO_FREE_ON_LAUNCH != 0,
            last_launch: None,
        };
        state.graphs.executables.insert(id, exec);
        Ok(id)
    }

    /// Launches that were submitted still run.
    pub(super) fn destroy_graph_exec(&self, exec: u64) -> Result<(), Code> {
        let mut state = self.in_context()?;
        state
            .graphs
            .executables
            .remove(&exec)
            .map(drop)
            .ok_or(Code::INVALID_VALUE)
    }

    /// Gives an executable graph its memory ahead of its launch.
    pub(super) fn upload_graph(&self, exec: u64, stream: StreamId) -> Result<(), Code> {
        let mut state = self.for_stream(stream)?;
        let stream = state.stream(stream, &self.memory)?.id;
        state.captures.refuse(stream)?;
        let exec = state.graph_exec(exec)?;
        state.bind_graph(&exec.graph, stream, &self.memory)
    }

    pub(super) fn launch_graph(&self, id: u64, stream: StreamId) -> Result<(), Code> {
        let mut state = self.for_stream(stream)?;
        let stream = state.stream(stream, &self.memory)?.id;
        state.captures.refuse(stream)?;
        let exec = state.graph_exec(id)?;
        if let Some(footprint) = &exec.graph.footprint {
            let memory = &mut state.graphs.memory;
            if exec.frees_on_launch {
                memory.free_unfreed(footprint);
            } else if memory.has_unfreed(footprint) {
                return Err(Code::INVALID_VALUE);
            }
        }
        state.bind_graph(&exec.graph, stream, &self.memory)?;
        let target = state.ordered_stream(stream, &self.memory)?;
        if let Some(last) = exec.last_launch.filter(|last| last.stream != stream)
            && let Some(before) = state.progress().unfinished(last.stream)
        {
            target.submit(Operation::WaitFor {
                stream: Arc::clone(before),
                position: last.position,
            });
        }
        let position = target.submit(Operation::Graph(Arc::clone(&exec.graph.operations)));
        let at = Position { stream, position };
        if let Some(footprint) = &exec.graph.footprint {
            state.graphs.memory.use_until(footprint, at);
        }
        if let Some(exec) = state.graphs.executables.get_mut(&id) {
            exec.last_launch = Some(at);
        }
        Ok(())
    }

    pub(super) fn trim_graph_memory(&self) {
        let mut state = self.state();
        let State {
            graphs,
            streams,
            retired,
            ..
        } = &mut *state;
        graphs.memory.trim(&StreamProgress { streams, retired }, &self.memory);
    }

    pub(super) fn graph_memory_attribute(&self, number: u32) -> Result<u64, Code> {
        self.state().graphs.memory.attribute(number)
    }

    pub(super) fn set_graph_memory_attribute(&self, number: u32, value: u64) -> Result<(), Code> {
        self.state().graphs.memory.set_attribute(number, value)
    }
}

impl State {
    fn progress(&self) -> StreamProgress<'_> {
        StreamProgress {
            streams: &self.streams,
            retired: &self.retired,
        }
    }

    fn graph_exec(&self, id: u64) -> Result<GraphExec, Code> {
        self.graphs.executables.get(&id).cloned().ok_or(Code::INVALID_VALUE)
    }

    fn bind_graph(&mut self, graph: &Graph, stream: StreamId, memory: &Memory) -> Result<(), Code> {
        let Some(footprint) = &graph.footprint else {
            return Ok(());
        };
        match self.try_bind(footprint, stream, memory) {
            Err(Code::OUT_OF_MEMORY) => {
                self.reclaim();
                self.try_bind(footprint, stream, memory)
            }
            bound => bound,
        }
    }

    fn try_bind(&mut self, footprint: &Footprint, stream: StreamId, memory: &Memory) -> Result<(), Code> {
        let State {
            graphs,
            streams,
            retired,
            ..
        } = self;
        graphs
            .memory
            .bind(footprint, stream, &StreamProgress { streams, retired }, memory)
    }
}
