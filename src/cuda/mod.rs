//! Safe owners over the CUDA driver.
//!
//! Devices, contexts, modules and plain device buffers go through cust. Streams, events, pools,
//! graphs and launches are ours: cust clears the non-blocking flag, keeps its raw event private and has
//! neither pools nor graphs.
//! Each owner frees what it made; `close` returns a failure to do so, and dropping reports it.

mod buffer;
mod device;
mod error;
mod event;
mod graph;
mod kernel;
mod mapping;
mod pool;
mod stream;

pub use buffer::{DeviceBuffer, DevicePtr, alloc_managed, alloc_plain, free_plain};
pub use device::{Attribute, Device, MemoryInfo, OpenError};
pub use error::{Error, Result, failed_release, forget_failures};
pub use event::Event;
pub use graph::{CaptureMode, CaptureStatus, Graph, GraphExec, GraphMemory, Unfreed};
pub use kernel::{Kernels, PTX, PTX_ORIGIN};
pub use mapping::{MappedMemory, mapping_granularity_bytes};
pub use pool::{MemoryPool, ReusePolicy};
pub use stream::Stream;

pub(crate) use error::{close_all, report_failed_drop};
