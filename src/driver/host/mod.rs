//! The host device: the driver's calls on host memory, in this process.
//!
//! A real allocator whose wall-clock time is real, not a mock: streams are in-order worker threads,
//! device memory is mapped and unmapped with the operating system, kernels are their Rust twins, and
//! pools behave as an H200's were seen to. It is the executable statement of what the suite believes
//! about pools, and is held to a recorded transcript of a GPU. A call that it does not implement
//! returns `CUDA_ERROR_NOT_SUPPORTED`.

#[allow(non_snake_case, reason = "the driver's own names")]
mod api;
#[allow(non_snake_case, reason = "the driver's own names")]
mod api_mapping;
mod device;
mod event;
mod kernel;
mod mapping;
mod memory;
mod pool;
mod stream;

use super::{Code, Function, Table};

/// The host device's table, and the functions that it does not implement.
pub(super) fn table() -> (Table, Vec<Function>) {
    let mut table = Table::answering::<{ Code::NOT_SUPPORTED.0 }>();
    let implemented = [api::install(&mut table), api_mapping::install(&mut table)].concat();
    let missing = Function::ALL
        .iter()
        .filter(|function| !implemented.contains(function))
        .copied()
        .collect();
    (table, missing)
}
