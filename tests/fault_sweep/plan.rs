//! Which call fails how, and what that may leave behind.

use poolbench::driver::fault::{Effect, Fault};
use poolbench::driver::host::Ledger;
use poolbench::driver::{Code, Function};
use std::collections::BTreeMap;

/// Codes of a call that is refused: not made. Source: the driver API's "returns" of the calls concerned.
const REFUSALS: [Code; 4] = [
    Code::INVALID_VALUE,
    Code::OUT_OF_MEMORY,
    Code::NOT_SUPPORTED,
    SYSTEM_DRIVER_MISMATCH,
];
/// What else a driver may say of a call that it refuses: that it is not, or no longer, initialised, that
/// context or handle are not valid, and what no header names yet. For the full sweep.
const OTHER_REFUSALS: [Code; 5] = [
    Code::NOT_INITIALIZED,
    Code(4),
    Code::INVALID_CONTEXT,
    Code::INVALID_HANDLE,
    Code(4711),
];
/// Codes after which every call fails: an access to a stray address, and a device that is gone, for
/// which the driver has no name of its own.
const LOSSES: [Code; 2] = [Code::ILLEGAL_ADDRESS, DEVICE_UNAVAILABLE];

const SYSTEM_DRIVER_MISMATCH: Code = Code(803);
const DEVICE_UNAVAILABLE: Code = Code(46);

/// Calls up to here are all swept, those after it at growing distances.
const DENSE_CALLS: u64 = 50;

/// How much is swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The first two calls and the last of each function.
    Short,
    /// Every call up to the 50th, then spaced, and the last.
    Full,
}

impl Extent {
    /// Which of so many calls fail, each in a run of its own.
    fn positions(self, calls: u64) -> Vec<u64> {
        let mut positions: Vec<u64> = match self {
            Extent::Short => (1..=calls.min(2)).collect(),
            Extent::Full => (1..=calls.min(DENSE_CALLS)).collect(),
        };
        if self == Extent::Full {
            let spaced = std::iter::successors(Some(DENSE_CALLS), |position| Some(position + position / 4));
            positions.extend(spaced.take_while(|position| *position < calls));
        }
        positions.push(calls);
        positions.sort_unstable();
        positions.dedup();
        positions
    }
}

/// One fault for each run that a case's calls are worth. The last of each function is every call of it.
pub fn faults(calls: &BTreeMap<Function, u64>, extent: Extent) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (&function, calls) in calls {
        for position in extent.positions(*calls) {
            faults.extend(effects(function, extent).into_iter().map(|effect| Fault {
                function,
                nth: Some(position),
                effect,
            }));
        }
        faults.extend(REFUSALS.map(|code| Fault {
            function,
            nth: None,
            effect: Effect::Fail(code),
        }));
    }
    faults
}

fn effects(function: Function, extent: Extent) -> Vec<Effect> {
    let mut effects: Vec<Effect> = REFUSALS.map(Effect::Fail).to_vec();
    if extent == Extent::Full {
        effects.extend(OTHER_REFUSALS.map(Effect::Fail));
    }
    effects.extend(LOSSES.map(Effect::Lost));
    if function.releases() {
        effects.push(Effect::Late(Code::ILLEGAL_ADDRESS));
    }
    effects
}

pub fn code(fault: &Fault) -> Code {
    match fault.effect {
        Effect::Fail(code) | Effect::Late(code) | Effect::Lost(code) => code,
        Effect::Delay(_) | Effect::Slower(_) => Code::SUCCESS,
    }
}

/// How often each function was called before a case was set up, and once it was.
pub struct SetUpCalls {
    pub before: BTreeMap<Function, u64>,
    pub after: BTreeMap<Function, u64>,
}

impl SetUpCalls {
    /// Whether a fault is met while the case is set up; `None` where it may be met more than once.
    pub fn meets(&self, fault: &Fault) -> Option<bool> {
        let of = |calls: &BTreeMap<Function, u64>| calls.get(&fault.function).copied().unwrap_or_default();
        let nth = fault.nth?;
        Some(of(&self.before) < nth && nth <= of(&self.after))
    }
}

/// Whether a case that meets the fault while it is set up is skipped.
pub fn may_skip(fault: &Fault) -> bool {
    matches!(fault.effect, Effect::Fail(Code::OUT_OF_MEMORY | Code::NOT_SUPPORTED)) && !fault.function.releases()
}

/// The most that may be live after a run that met the fault: nothing, except for what the very call
/// that was refused would have given back.
pub fn allowed(fault: &Fault) -> Ledger {
    let mut allowed = Ledger::default();
    // Nothing can be given back by a call that is refused every time.
    let each = if fault.nth.is_none() { usize::MAX / 2 } else { 1 };
    match fault.effect {
        // The context is gone, and with it what its pools held.
        Effect::Lost(_) => (allowed.mapped_bytes, allowed.release_threshold_bytes) = (u64::MAX, u64::MAX),
        Effect::Fail(_) => {
            match fault.function {
                Function::cuMemFree_v2 => allowed.allocations = each,
                // Its pool lives on for its sake.
                Function::cuMemFreeAsync => (allowed.allocations, allowed.pools) = (each, each),
                Function::cuMemPoolDestroy => allowed.pools = each,
                // Addresses under which memory lies cannot be freed.
                Function::cuMemUnmap => allowed.mappings = 2 * each,
                Function::cuMemRelease | Function::cuMemAddressFree => allowed.mappings = each,
                Function::cuStreamDestroy_v2 => allowed.streams = each,
                Function::cuEventDestroy_v2 => allowed.events = each,
                Function::cuGraphDestroy | Function::cuGraphExecDestroy => allowed.graphs = each,
                Function::cuModuleUnload => allowed.modules = each,
                Function::cuDevicePrimaryCtxRelease_v2 => allowed.contexts = each,
                Function::cuMemPoolSetAttribute => allowed.release_threshold_bytes = u64::MAX,
                Function::cuDeviceGraphMemTrim => {}
                // Beside a capture that never ends, nothing can be freed.
                Function::cuStreamEndCapture if fault.nth.is_none() => {
                    (allowed.allocations, allowed.pools) = (each, each);
                    allowed.release_threshold_bytes = u64::MAX;
                }
                _ => return allowed,
            }
            allowed.mapped_bytes = u64::MAX;
        }
        Effect::Late(_) | Effect::Delay(_) | Effect::Slower(_) => {}
    }
    allowed
}

/// Whether nothing is live beyond what is allowed.
pub fn is_within(live: &Ledger, allowed: &Ledger) -> bool {
    live.allocations <= allowed.allocations
        && live.mappings <= allowed.mappings
        && live.pools <= allowed.pools
        && live.streams <= allowed.streams
        && live.events <= allowed.events
        && live.graphs <= allowed.graphs
        && live.modules <= allowed.modules
        && live.contexts <= allowed.contexts
        && live.mapped_bytes <= allowed.mapped_bytes
        && live.release_threshold_bytes <= allowed.release_threshold_bytes
}
