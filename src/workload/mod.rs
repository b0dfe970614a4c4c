//! What is measured: loops that allocate.

pub mod scratch_loop;

pub use scratch_loop::ScratchLoop;
