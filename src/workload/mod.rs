//! What is measured: loops that allocate.

mod cross_stream;
mod exact_loop;
mod exact_sum;
mod multi_stream;
pub mod scratch_loop;

pub use cross_stream::{CrossStream, Policies};
pub use multi_stream::{MultiStream, Source};
pub use scratch_loop::ScratchLoop;
