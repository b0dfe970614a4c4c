//! What happens around a driver call when something watches it: the call log, and injected faults.
//!
//! In timed samples nothing watches, and a call costs one relaxed load more than the bare pointer.

use super::{Function, log};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bit of the call log.
pub(super) const LOG: u32 = 1;
/// Bit of fault injection.
#[cfg(feature = "fault-injection")]
pub(super) const FAULTS: u32 = 2;

static ACTIVE: AtomicU32 = AtomicU32::new(0);

/// Whether anything watches driver calls.
#[inline]
pub(super) fn any() -> bool {
    ACTIVE.load(Ordering::Relaxed) != 0
}

pub(super) fn is_active(hook: u32) -> bool {
    ACTIVE.load(Ordering::Relaxed) & hook != 0
}

pub(super) fn activate(hook: u32, on: bool) {
    if on {
        ACTIVE.fetch_or(hook, Ordering::Relaxed);
    } else {
        ACTIVE.fetch_and(!hook, Ordering::Relaxed);
    }
}

/// Makes the call, logged as far as the log is active. No faults: for the calls with which a driver is
/// bound, before the counted ones.
pub(super) fn logged(function: Function, call: impl FnOnce() -> c_int) -> c_int {
    if is_active(LOG) {
        log::timed(function, call)
    } else {
        call()
    }
}

/// Makes the call, logged and with faults, as far as those are active.
#[cold]
pub(super) fn around(function: Function, call: impl FnOnce() -> c_int) -> c_int {
    #[cfg(feature = "fault-injection")]
    let call = || {
        if is_active(FAULTS) {
            super::fault::around(function, call)
        } else {
            call()
        }
    };
    logged(function, call)
}
