//! Failures of driver calls: which call, and the driver's own code.

use crate::driver::{self, Code, Function};
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use thiserror::Error;

/// A result of the safe layer.
pub type Result<T> = std::result::Result<T, Error>;

/// A driver call that failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Error {
    /// The driver returned an error code.
    #[error("{} failed: {code}{}", function.name(), hint(*function, *code))]
    Call {
        /// What was called.
        function: Function,
        /// What it returned.
        code: Code,
    },
    /// The bound driver does not have the function at all.
    #[error("{}", missing(*function, driver::is_host()))]
    Missing {
        /// What was to be called.
        function: Function,
    },
    /// More than an allocator can manage.
    #[error("{size_bytes} bytes are more than the allocator can manage")]
    TooLarge {
        /// What was asked for.
        size_bytes: usize,
    },
    /// More managed memory than poolbench allows itself.
    #[error(
        "{size_bytes} bytes of managed memory are more than the {share_bytes} (an eighth of the free memory) that poolbench allows itself"
    )]
    BeyondShare {
        /// What was asked for.
        size_bytes: usize,
        /// What is allowed.
        share_bytes: usize,
    },
    /// A free of what is not allocated.
    #[error("address {address:#x} is not allocated")]
    NotAllocated {
        /// What was to be freed.
        address: u64,
    },
    /// An attribute did not read back as it was set.
    #[error("pool attribute {attribute} was set to {set} but reads {read}")]
    ReadBack {
        /// The attribute's name.
        attribute: &'static str,
        /// The value that was set.
        set: u64,
        /// The value that was read afterwards.
        read: u64,
    },
}

impl Error {
    /// The driver's code, `None` for a failure that no call returned.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Error::Call { code, .. } => Some(*code),
            Error::Missing { .. } => Some(Code::NOT_SUPPORTED),
            Error::TooLarge { .. }
            | Error::BeyondShare { .. }
            | Error::NotAllocated { .. }
            | Error::ReadBack { .. } => None,
        }
    }

    /// Whether a case that fails so while it is set up is skipped instead of failed: the device cannot
    /// do it, or has not enough memory. What cannot be given back is no skip: the next case would find it.
    #[must_use]
    pub fn is_skip(&self) -> bool {
        match self {
            Error::Call { function, .. } if function.releases() => false,
            Error::TooLarge { .. } | Error::BeyondShare { .. } => true,
            _ => matches!(self.code(), Some(Code::NOT_SUPPORTED | Code::OUT_OF_MEMORY)),
        }
    }
}

/// Turns a driver code into a result.
#[inline]
pub(crate) fn check(function: Function, code: i32) -> Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(failure(function, Code(code)))
    }
}

#[cold]
fn failure(function: Function, code: Code) -> Error {
    let error = if code == Code::NOT_SUPPORTED && driver::missing_functions().contains(&function) {
        Error::Missing { function }
    } else {
        Error::Call { function, code }
    };
    let mut failures = failures();
    failures.calls += 1;
    if function.releases() {
        failures.first_release.get_or_insert(error.clone());
    }
    error
}

/// Runs `call`, which goes through cust, and gives its failure the code that the driver returned.
pub(crate) fn through_cust<T>(expected: Function, call: impl FnOnce() -> cust::error::CudaResult<T>) -> Result<T> {
    let _ = driver::take_first_failure();
    let returned = call();
    match (driver::take_first_failure(), returned) {
        // cust keeps some failures to itself, such as that of making a new context current.
        (Some((function, code)), _) => Err(failure(function, code)),
        (None, Ok(value)) => Ok(value),
        // cust itself refused, before any call.
        (None, Err(error)) => Err(failure(expected, Code(error as i32))),
    }
}

fn hint(function: Function, code: Code) -> String {
    match (function, code) {
        (Function::cuModuleLoadData | Function::cuModuleLoadDataEx, Code::UNSUPPORTED_PTX_VERSION) => {
            super::kernel::newer_driver_needed()
        }
        (_, Code::ILLEGAL_ADDRESS) => String::from("; the device is unusable until the process ends"),
        _ => String::new(),
    }
}

fn missing(function: Function, is_host: bool) -> String {
    if is_host {
        return format!("the host device has no {}", function.name());
    }
    format!("this driver has no {}{}", function.name(), since(function))
}

/// Which CUDA release brought the functions that a benchmark may find missing.
/// Source: release notes of the CUDA driver API.
fn since(function: Function) -> &'static str {
    let name = function.name();
    if name.contains("GraphMem") {
        "; it came with CUDA 11.4 (driver 470): upgrade the driver"
    } else if name.contains("MemPool") || name.contains("Async") && name.starts_with("cuMem") {
        "; it came with CUDA 11.2 (driver 460): upgrade the driver"
    } else {
        "; upgrade the driver"
    }
}

/// The failures since a case began.
struct Failures {
    calls: u64,
    /// The first call that should have given something back.
    first_release: Option<Error>,
}

static FAILURES: Mutex<Failures> = Mutex::new(Failures {
    calls: 0,
    first_release: None,
});

fn failures() -> MutexGuard<'static, Failures> {
    FAILURES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets the failures so far: what happens from here on is a new case's.
pub fn forget_failures() {
    *failures() = Failures {
        calls: 0,
        first_release: None,
    };
}

/// The first call since [`forget_failures`] that should have given something back and failed, also one
/// in a destructor, which cannot return it. The device is then not as it was.
#[must_use]
pub fn failed_release() -> Option<Error> {
    failures().first_release.clone()
}

/// Closes each, also after one that failed, and returns the first failure.
pub(crate) fn close_all<T>(owners: impl IntoIterator<Item = T>, close: impl Fn(T) -> Result<()>) -> Result<()> {
    let mut first = Ok(());
    for owner in owners {
        let closed = close(owner);
        first = first.and(closed);
    }
    first
}

/// Notes that something was not given back by a call that does more than that.
pub(crate) fn note_unreleased(error: Error) {
    failures().first_release.get_or_insert(error);
}

/// Reports what a destructor could not return, and notes that something was not given back, whichever call it
/// was that failed. Owners have `close`, which returns it. After another failure, which is on its way to be
/// reported, a destructor's mostly repeats it and is not.
pub(crate) fn report_failed_drop(what: &str, result: Result<()>) {
    if let Err(error) = result {
        if failures().calls <= 1 {
            // A destructor that panics while another panic unwinds would abort, so nobody may be listening.
            let _ = writeln!(std::io::stderr(), "poolbench: releasing a {what}: {error}");
        }
        note_unreleased(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_cust_folds_are_shown_by_number_and_name() {
        let message = |function, code| {
            Error::Call {
                function,
                code: Code(code),
            }
            .to_string()
        };
        assert_eq!(
            message(Function::cuStreamEndCapture, 901),
            "cuStreamEndCapture failed: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)"
        );
        assert_eq!(
            message(Function::cuInit, 803),
            "cuInit failed: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"
        );
        let too_new = message(Function::cuModuleLoadDataEx, 222);
        assert!(
            too_new.contains("CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)"),
            "{too_new}"
        );
        assert!(too_new.contains("NVCC=none"), "the remedy: {too_new}");
    }

    #[test]
    fn a_missing_function_is_named_with_the_release_that_brought_it() {
        assert_eq!(
            missing(Function::cuMemPoolCreate, false),
            "this driver has no cuMemPoolCreate; it came with CUDA 11.2 (driver 460): upgrade the driver"
        );
        assert_eq!(
            missing(Function::cuMemAllocManaged, true),
            "the host device has no cuMemAllocManaged"
        );
    }
}
