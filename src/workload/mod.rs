//! What is measured: loops that allocate.

pub mod call_latency;
mod cross_stream;
mod exact_loop;
mod exact_sum;
pub mod graph_replay;
mod multi_stream;
mod pool_check;
pub mod scratch_loop;
mod trace_replay;

pub use call_latency::CallLatency;
pub use cross_stream::{CrossStream, Policies};
pub use graph_replay::GraphReplay;
pub use multi_stream::{MultiStream, Source};
pub use scratch_loop::ScratchLoop;
pub use trace_replay::TraceReplay;
