//! What is measured: loops that allocate.

pub mod call_latency;
pub mod scratch_loop;

pub use call_latency::CallLatency;
pub use scratch_loop::ScratchLoop;
