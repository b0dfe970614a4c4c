//! What is measured: loops that allocate.

pub mod graph_replay;
mod scratch;
pub mod scratch_loop;

pub use graph_replay::GraphReplay;
pub use scratch_loop::ScratchLoop;
