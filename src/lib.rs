//! poolbench measures CUDA stream-ordered memory allocation, and judges what a driver upgrade changed.
//!
//! The benches under `benches/` and the command `poolbench` are built from this library; its interface
//! is theirs and may change with them. Arrows run one way: benches and command use [`suite`],
//! [`measure`] and [`workload`]; those use [`strategy`]; that uses [`cuda`]; that uses [`driver`].

pub mod api_summary;
pub mod baseline;
pub mod case;
pub mod command_line;
pub mod counted;
mod criterion_arguments;
#[allow(unsafe_code, reason = "safe owners over the driver's functions")]
pub mod cuda;
#[allow(unsafe_code, reason = "the driver's functions, and the host device behind them")]
pub mod driver;
pub mod environment;
pub mod host_probe;
pub mod kernel_work;
mod lock_file;
pub mod measure;
mod named_file;
pub mod observation;
pub mod recording;
pub mod replay;
pub mod report;
pub mod run_record;
pub mod slug;
pub mod stats;
pub mod strategy;
pub mod suite;
pub mod trace;
pub mod whole_file;
pub mod workload;
