//! Finding, loading and starting a driver library.

use super::hint::{hidden_by, hint};
use super::version::version;
use super::{Backend, Code, DeviceChoice, Fallback, Function, Table, hooks, host};
use crate::counted::counted;
use crate::named_file;
use libloading::Library;
use std::borrow::Cow;
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The name that every NVIDIA driver package installs.
pub const DEFAULT_LIBRARY: &str = "libcuda.so.1";

/// Names a library for the user. `poolbench record` sets it as well, for what was named with a flag.
pub const VARIABLE: &str = "POOLBENCH_LIBCUDA";

/// Set by `poolbench record` for the processes that it starts: the flag that named the library, so that what
/// goes wrong with it is said of that flag.
pub const FLAG_VARIABLE: &str = "POOLBENCH_LIBCUDA_FLAG";

/// Why no device could be bound. One line each, with the remedy.
#[derive(Debug, Error)]
pub enum BindError {
    /// The library cannot be loaded, and the host device was not an answer to the question.
    #[error("cannot load {library}: {reason}; {}", to_load(flag.as_deref()))]
    Library {
        /// The path or name that was tried.
        library: String,
        /// The dynamic linker's words.
        reason: String,
        /// The flag that named it, where one did.
        flag: Option<String>,
    },
    /// The library is no CUDA driver.
    #[error("{library} is not a CUDA driver: it has no {function}; correct {}", flag.as_deref().unwrap_or(VARIABLE))]
    NotADriver {
        /// The flag that named it, where one did.
        flag: Option<String>,
        /// The path or name that was loaded.
        library: String,
        /// The missing function.
        function: &'static str,
    },
    /// The driver refuses to start.
    #[error("{library}: {function} failed: {code}{hint}")]
    Start {
        /// The path or name that was loaded.
        library: String,
        /// The call that failed.
        function: &'static str,
        /// The driver's code.
        code: Code,
        /// What usually helps, empty or beginning with `; `.
        hint: Cow<'static, str>,
    },
    /// There are fewer devices.
    #[error(
        "POOLBENCH_DEVICE=cuda:{ordinal}, but {library} reports {}{}; use a smaller number, auto or host",
        counted(count, "device"),
        hidden_by().map(|variable| format!(" under {variable}")).unwrap_or_default()
    )]
    Ordinal {
        /// The path or name that was loaded.
        library: String,
        /// What was asked for.
        ordinal: u32,
        /// How many there are.
        count: c_int,
    },
    /// `POOLBENCH_HOST_MEMORY_MIB` holds something else.
    #[error(
        "POOLBENCH_HOST_MEMORY_MIB={0} is no memory for the host device; write a whole number of MiB, as 1024, or unset it"
    )]
    HostMemory(String),
}

fn to_load(flag: Option<&str>) -> String {
    match flag {
        Some(flag) => format!("correct {flag}"),
        None => format!(
            "install the NVIDIA driver, correct {VARIABLE}, or measure the host device with POOLBENCH_DEVICE=host"
        ),
    }
}

/// The flag that named the library, where one did.
fn flag() -> Option<String> {
    std::env::var(FLAG_VARIABLE).ok().filter(|flag| !flag.is_empty())
}

/// A filled table and what is known of where it came from.
pub(super) struct Binding {
    pub(super) table: Table,
    pub(super) backend: Backend,
    pub(super) missing: Vec<Function>,
    pub(super) version: Option<String>,
    pub(super) fallback: Option<Fallback>,
}

impl Binding {
    pub(super) fn open(choice: DeviceChoice, library: Option<&Path>) -> Result<Binding, BindError> {
        let name = library.unwrap_or(Path::new(DEFAULT_LIBRARY));
        match choice {
            DeviceChoice::Host => Binding::host(None),
            DeviceChoice::Cuda(ordinal) => Binding::cuda(name, ordinal),
            DeviceChoice::Auto => match Binding::cuda(name, 0) {
                Err(BindError::Library { .. }) if library.is_none() => Binding::host(Some(Fallback::no_driver())),
                Err(
                    BindError::Start {
                        code: Code::NO_DEVICE, ..
                    }
                    | BindError::Ordinal { count: 0, .. },
                ) => Binding::host(Some(Fallback::no_device())),
                bound => bound,
            },
        }
    }

    fn host(fallback: Option<Fallback>) -> Result<Binding, BindError> {
        host::asked_bytes().map_err(BindError::HostMemory)?;
        let (table, missing) = host::table();
        Ok(Binding {
            table,
            backend: Backend::Host,
            missing,
            version: None,
            fallback,
        })
    }

    fn cuda(name: &Path, ordinal: u32) -> Result<Binding, BindError> {
        let library = name.display().to_string();
        let loaded = load(name)?;
        let mut table = Table::answering::<{ Code::NOT_SUPPORTED.0 }>();
        let missing = table.load(&loaded);
        if let Some(function) = [Function::cuInit, Function::cuDeviceGetCount]
            .iter()
            .find(|needed| missing.contains(needed))
        {
            return Err(BindError::NotADriver {
                flag: flag(),
                library,
                function: function.name(),
            });
        }
        // The pointers in the table stay valid for the rest of the process.
        std::mem::forget(loaded);
        let count = start(&table, &library)?;
        if i64::from(ordinal) >= i64::from(count) {
            return Err(BindError::Ordinal {
                library,
                ordinal,
                count,
            });
        }
        let version = version(name == Path::new(DEFAULT_LIBRARY));
        Ok(Binding {
            table,
            backend: Backend::Cuda { ordinal },
            missing,
            version,
            fallback: None,
        })
    }
}

fn load(name: &Path) -> Result<Library, BindError> {
    let refused = |reason| BindError::Library {
        library: name.display().to_string(),
        reason,
        flag: flag(),
    };
    // The dynamic linker would wait for somebody who writes into a pipe. A bare name is its to find.
    let kind = std::fs::metadata(name).map(|metadata| metadata.file_type());
    if let (true, Ok(kind)) = (name.as_os_str().as_encoded_bytes().contains(&b'/'), kind)
        && let Err(error) = named_file::check(kind)
    {
        return Err(refused(error.to_string()));
    }
    // SAFETY: the library's constructors are trusted as every program that links to libcuda trusts them.
    unsafe { Library::new(name) }.map_err(|error| {
        // libloading's own message is only "dlopen failed"; the reason is its source.
        let reason = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        refused(reason)
    })
}

/// Initialises the driver and returns the number of devices.
fn start(table: &Table, library: &str) -> Result<c_int, BindError> {
    let check = |function: Function, code: c_int| match Code(code) {
        Code::SUCCESS => Ok(()),
        code => Err(BindError::Start {
            library: library.to_owned(),
            function: function.name(),
            code,
            hint: hint(code),
        }),
    };
    let code = hooks::logged(Function::cuInit, || {
        // SAFETY: cuInit takes only flags, which must be 0.
        unsafe { (table.cuInit)(0) }
    });
    check(Function::cuInit, code)?;
    let mut count = 0;
    let code = hooks::logged(Function::cuDeviceGetCount, || {
        // SAFETY: `count` is a valid place for an int.
        unsafe { (table.cuDeviceGetCount)(&raw mut count) }
    });
    check(Function::cuDeviceGetCount, code)?;
    Ok(count)
}

/// The library that the environment names, `None` for the default.
#[must_use]
pub fn from_environment() -> Option<PathBuf> {
    std::env::var_os(VARIABLE)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_library_is_never_replaced_by_the_host_device() {
        let missing = Path::new("/nonexistent/libcuda.so");
        let error = Binding::open(DeviceChoice::Auto, Some(missing))
            .err()
            .expect("no such file");
        assert!(error.to_string().contains("/nonexistent/libcuda.so"), "{error}");
        assert!(
            error.to_string().contains("No such file"),
            "the linker's reason is kept: {error}"
        );
    }

    #[test]
    fn a_library_without_cuinit_is_no_driver() {
        let error = Binding::open(DeviceChoice::Cuda(0), Some(Path::new("libm.so.6")))
            .err()
            .expect("libm is no driver");
        assert_eq!(
            error.to_string(),
            "libm.so.6 is not a CUDA driver: it has no cuInit; correct POOLBENCH_LIBCUDA"
        );
    }
}
