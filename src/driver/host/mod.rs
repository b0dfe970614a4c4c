//! The host device: the driver's calls on host memory, in this process.
//!
//! A real allocator whose wall-clock time is real, not a mock: streams are in-order worker threads,
//! device memory is mapped and unmapped with the operating system, kernels are their Rust twins, and
//! pools behave as an H200's were seen to. It is the executable statement of what the suite believes
//! about pools, and is held to a recorded transcript of a GPU. A call that it does not implement
//! returns `CUDA_ERROR_NOT_SUPPORTED`.
//!
//! Graphs are captures of one stream: kernels, copies, sets, and allocations with their frees. The same
//! code, 801, answers what goes beyond: a capture of a blocking stream, a wait for an event into or out
//! of a capture, a captured copy from host memory, a captured free of what another graph left, and
//! node handles.

use super::{Code, Function, Table};

/// Points the table's entries at the functions of the same names and returns which.
macro_rules! implement {
    ($($name:ident),* $(,)?) => {
        pub(super) fn install(table: &mut $crate::driver::Table) -> &'static [$crate::driver::Function] {
            $(table.$name = $name;)*
            &[$($crate::driver::Function::$name),*]
        }
    };
}

#[allow(non_snake_case, reason = "the driver's own names")]
mod api;
mod capture;
#[cfg(test)]
mod codes_tests;
#[allow(non_snake_case, reason = "the driver's own names")]
mod context;
#[allow(non_snake_case, reason = "the driver's own names")]
mod copy;
mod device;
mod device_memory;
mod device_pools;
mod device_streams;
mod event;
mod graph;
#[allow(non_snake_case, reason = "the driver's own names")]
mod graph_api;
mod graph_memory;
mod kernel;
mod ledger;
mod mapping;
#[allow(non_snake_case, reason = "the driver's own names")]
mod mapping_api;
mod memory;
#[allow(non_snake_case, reason = "the driver's own names")]
mod memory_api;
#[allow(non_snake_case, reason = "the driver's own names")]
mod module;
#[allow(non_snake_case, reason = "the driver's own names")]
mod pinned;
mod pool;
#[allow(non_snake_case, reason = "the driver's own names")]
mod pool_api;
#[cfg(test)]
mod pool_properties_tests;
mod stream;
#[allow(non_snake_case, reason = "the driver's own names")]
mod stream_api;
#[cfg(test)]
mod stream_order_tests;
mod submission;

pub(super) use device::asked_bytes;
pub use ledger::Ledger;
#[cfg(feature = "fault-injection")]
pub use ledger::take_everything_back;

/// The host device's table, and the functions that it does not implement.
pub(super) fn table() -> (Table, Vec<Function>) {
    let mut table = Table::answering::<{ Code::NOT_SUPPORTED.0 }>();
    let implemented = [
        api::install(&mut table),
        context::install(&mut table),
        copy::install(&mut table),
        graph_api::install(&mut table),
        mapping_api::install(&mut table),
        memory_api::install(&mut table),
        module::install(&mut table),
        pinned::install(&mut table),
        pool_api::install(&mut table),
        stream_api::install(&mut table),
    ]
    .concat();
    let missing = Function::ALL
        .iter()
        .filter(|function| !implemented.contains(function))
        .copied()
        .collect();
    (table, missing)
}
