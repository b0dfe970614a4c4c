//! The CUDA driver, bound when the program runs.
//!
//! cust links against `libcuda` by name. Here every driver function is declared once
//! (`functions.rs`); from that list come the symbols that satisfy cust, and the [`Table`] behind them,
//! which [`bind`] fills from `libcuda.so.1` or from the in-process [`host`] device. So one executable
//! runs with and without a GPU, and starts where no NVIDIA driver is installed.

mod code;
#[cfg(feature = "fault-injection")]
pub mod fault;
mod functions;
mod hint;
mod hooks;
pub mod host;
pub mod library;
pub mod log;
mod table;
mod version;

pub use code::{Code, take_first_failure};
pub use functions::{Function, Table, api};
pub use hint::{hint, no_device_remedy};
pub use library::BindError;

use library::Binding;
use std::sync::OnceLock;

static BOUND: OnceLock<Binding> = OnceLock::new();

/// What answers before [`bind`]: every call says that the driver is not initialised.
static UNBOUND: Table = Table::answering::<{ Code::NOT_INITIALIZED.0 }>();

/// The bound table.
#[inline]
fn table() -> &'static Table {
    match BOUND.get() {
        Some(binding) => &binding.table,
        None => &UNBOUND,
    }
}

/// Which device the user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The first CUDA device, or the host device where there is no driver or no device.
    Auto,
    /// The CUDA device of this ordinal, and nothing else.
    Cuda(u32),
    /// The host device.
    Host,
}

/// What the process is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A CUDA driver library, and the ordinal of the device to use.
    Cuda {
        /// Index as `cuDeviceGet` counts.
        ordinal: u32,
    },
    /// The in-process host device.
    Host,
}

/// Why the host device is measured although nobody asked for it.
#[derive(Debug)]
struct Fallback {
    /// There is a driver, which reports no device.
    has_driver: bool,
    /// The beginning of a run's first line.
    reason: String,
}

impl Fallback {
    fn no_driver() -> Fallback {
        Fallback {
            has_driver: false,
            reason: format!("no NVIDIA driver ({})", library::DEFAULT_LIBRARY),
        }
    }

    fn no_device() -> Fallback {
        let hidden_by = hint::hidden_by().map(|variable| format!(" ({variable})"));
        Fallback {
            has_driver: true,
            reason: format!("the NVIDIA driver reports no device{}", hidden_by.unwrap_or_default()),
        }
    }
}

/// Binds the driver table for the rest of the process and returns what it was bound to.
///
/// The first call decides; later calls return the same, whatever they ask for, because handles of one
/// driver mean nothing to another.
///
/// # Errors
///
/// A library that was named but is not there, a device that does not exist, or a driver that fails to
/// initialise, with its raw code. [`DeviceChoice::Auto`] takes the host device only where the library
/// is missing or reports no device.
pub fn bind(choice: DeviceChoice, library: Option<&std::path::Path>) -> Result<Backend, BindError> {
    if let Some(binding) = BOUND.get() {
        return Ok(binding.backend);
    }
    let binding = Binding::open(choice, library)?;
    Ok(BOUND.get_or_init(|| binding).backend)
}

/// Whether the process is bound to the host device.
#[must_use]
pub fn is_host() -> bool {
    BOUND.get().is_some_and(|binding| binding.backend == Backend::Host)
}

/// Why [`DeviceChoice::Auto`] took the host device, `None` where it did not.
#[must_use]
pub fn fallback_reason() -> Option<&'static str> {
    let fallback = BOUND.get().and_then(|binding| binding.fallback.as_ref());
    fallback.map(|fallback| fallback.reason.as_str())
}

/// Whether [`DeviceChoice::Auto`] took the host device although there is a driver, which reports no device.
#[must_use]
pub fn reports_no_device() -> bool {
    let fallback = BOUND.get().and_then(|binding| binding.fallback.as_ref());
    fallback.is_some_and(|fallback| fallback.has_driver)
}

/// The version of the bound driver library (`580.159.04`), from the file that was loaded.
#[must_use]
pub fn library_version() -> Option<&'static str> {
    BOUND.get().and_then(|binding| binding.version.as_deref())
}

/// The functions of the table that the bound library does not have.
#[must_use]
pub fn missing_functions() -> &'static [Function] {
    BOUND.get().map_or(&[], |binding| binding.missing.as_slice())
}
