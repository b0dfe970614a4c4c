//! Injected faults (feature `fault-injection`): a chosen driver call returns an error code, or takes
//! longer. For tests of what a failure leaves behind, and to measure what the comparison can find.
//!
//! `POOLBENCH_FAULT` holds a plan, its parts separated by `;`:
//!
//! - `cuMemFree_v2#3=error:700`: the third call of the process returns 700 and does nothing;
//! - `cuMemAllocAsync=error:2`: every call does;
//! - `cuMemFree_v2#3=late:700`: the third call does its work and returns 700 all the same, as a call does
//!   that reports an earlier failure;
//! - `cuLaunchKernel#3=lost:700`: from the third call on, every call of every function returns 700;
//! - `cuMemAllocAsync=delay:500ns`: every call takes 500 ns longer (at most an hour);
//! - `cuLaunchKernel=slower:5%`: every call takes 5 % longer (at most a million percent).

use super::{Code, Function, hooks};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use thiserror::Error;

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    /// It is not made and returns this code.
    Fail(Code),
    /// It is made and returns this code all the same, as the report of an earlier failure.
    Late(Code),
    /// The context is lost: this call and every later one, of any function, returns this code. Calls that
    /// give something back or wait are made, so that what is live afterwards is what nobody gave back.
    Lost(Code),
    /// It takes this much longer.
    Delay(Duration),
    /// It takes longer by this share of its own time.
    Slower(f64),
}

/// One fault of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// The function concerned.
    pub function: Function,
    /// Which call of it, counted from 1 since the plan was made; `None` for every call.
    pub nth: Option<u64>,
    /// What happens.
    pub effect: Effect,
}

/// A plan that cannot be read.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "POOLBENCH_FAULT: {part:?} is no fault; write FUNCTION[#N]=error:CODE (or late:CODE, lost:CODE), FUNCTION[#N]=delay:TIME (ns or us, at most an hour) or FUNCTION[#N]=slower:PERCENT% (at most a million)"
)]
pub struct InvalidFault {
    part: String,
}

struct Plan {
    faults: Vec<Fault>,
    calls: BTreeMap<Function, u64>,
    hits: u64,
    lost: Option<Code>,
}

impl Plan {
    const fn of(faults: Vec<Fault>) -> Plan {
        Plan {
            faults,
            calls: BTreeMap::new(),
            hits: 0,
            lost: None,
        }
    }
}

/// The longest delay: what is added to a call's own time must stay a time.
const DELAY_MAX: Duration = Duration::from_secs(3600);
/// The largest share that a call may take longer by, for the same reason.
const SLOWER_PERCENT_MAX: f64 = 1e6;

static PLAN: Mutex<Plan> = Mutex::new(Plan::of(Vec::new()));

fn plan() -> MutexGuard<'static, Plan> {
    PLAN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Replaces the plan and starts counting calls anew. An empty plan ends the injection.
pub fn inject(faults: Vec<Fault>) {
    hooks::activate(hooks::FAULTS, !faults.is_empty());
    *plan() = Plan::of(faults);
}

/// Starts counting calls anew, with no fault among them.
pub fn count_calls() {
    hooks::activate(hooks::FAULTS, true);
    *plan() = Plan::of(Vec::new());
}

/// How often each function was called since the plan was made.
#[must_use]
pub fn calls() -> BTreeMap<Function, u64> {
    plan().calls.clone()
}

/// How many calls a fault of the plan was meant for and met, those after a lost context left out.
#[must_use]
pub fn hits() -> u64 {
    plan().hits
}

/// Takes the plan from `POOLBENCH_FAULT`, if that is set.
///
/// # Errors
///
/// A plan that cannot be read.
pub fn from_environment() -> Result<(), InvalidFault> {
    let Ok(text) = std::env::var("POOLBENCH_FAULT") else {
        return Ok(());
    };
    let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
    inject(parts.map(Fault::from_str).collect::<Result<_, _>>()?);
    Ok(())
}

pub(super) fn around(function: Function, call: impl FnOnce() -> c_int) -> c_int {
    let Some(effect) = effect_on(function) else {
        return call();
    };
    let start = Instant::now();
    let slower = match effect {
        Effect::Fail(code) => return code.0,
        Effect::Lost(code) if !gives_back(function) => return code.0,
        Effect::Late(code) | Effect::Lost(code) => {
            call();
            return code.0;
        }
        Effect::Delay(delay) => (0.0, delay),
        Effect::Slower(share) => (share, Duration::ZERO),
    };
    let code = call();
    let until = start.elapsed().mul_f64(1.0 + slower.0) + slower.1;
    // Sleeping is too coarse for the microseconds that matter here.
    while start.elapsed() < until {
        std::hint::spin_loop();
    }
    code
}

/// Whether something is less after a call than before it: something live, or work that still runs.
fn gives_back(function: Function) -> bool {
    let ends = matches!(
        function,
        Function::cuStreamEndCapture
            | Function::cuDeviceGraphMemTrim
            | Function::cuStreamSynchronize
            | Function::cuCtxSynchronize
    );
    ends || function.releases()
}

fn effect_on(function: Function) -> Option<Effect> {
    let mut plan = plan();
    let calls = plan.calls.entry(function).or_default();
    *calls += 1;
    let call = *calls;
    if let Some(code) = plan.lost {
        return Some(Effect::Lost(code));
    }
    let hit = plan
        .faults
        .iter()
        .find(|fault| fault.function == function && fault.nth.is_none_or(|nth| nth == call));
    let effect = hit?.effect;
    plan.hits += 1;
    if let Effect::Lost(code) = effect {
        plan.lost = Some(code);
    }
    Some(effect)
}

impl FromStr for Fault {
    type Err = InvalidFault;

    fn from_str(part: &str) -> Result<Fault, InvalidFault> {
        read(part).ok_or_else(|| InvalidFault { part: part.to_owned() })
    }
}

fn read(part: &str) -> Option<Fault> {
    let (target, effect) = part.split_once('=')?;
    let (name, nth) = match target.split_once('#') {
        Some((name, nth)) => (name, Some(nth.parse().ok().filter(|nth| *nth > 0)?)),
        None => (target, None),
    };
    let function = Function::ALL.iter().copied().find(|function| function.name() == name)?;
    let (kind, value) = effect.split_once(':')?;
    let effect = match kind {
        "error" => Effect::Fail(Code(value.parse().ok()?)),
        "late" => Effect::Late(Code(value.parse().ok()?)),
        "lost" => Effect::Lost(Code(value.parse().ok()?)),
        "delay" => Effect::Delay(read_time(value)?),
        "slower" => Effect::Slower(
            value
                .strip_suffix('%')?
                .parse::<f64>()
                .ok()
                .filter(|percent| (0.0..=SLOWER_PERCENT_MAX).contains(percent))?
                / 100.0,
        ),
        _ => return None,
    };
    Some(Fault { function, nth, effect })
}

fn read_time(value: &str) -> Option<Duration> {
    let (number, unit_ns) = match value.strip_suffix("ns") {
        Some(number) => (number, 1.0),
        None => (value.strip_suffix("us")?, 1e3),
    };
    let seconds = number.parse::<f64>().ok()? * unit_ns * 1e-9;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|delay| *delay <= DELAY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read() {
        let fault = |text: &str| text.parse::<Fault>();
        assert_eq!(
            fault("cuMemFree_v2#3=error:700"),
            Ok(Fault {
                function: Function::cuMemFree_v2,
                nth: Some(3),
                effect: Effect::Fail(Code(700))
            })
        );
        let effect = |text: &str| fault(text).map(|fault| fault.effect);
        assert_eq!(effect("cuMemFree_v2#3=late:700"), Ok(Effect::Late(Code(700))));
        assert_eq!(effect("cuMemFree_v2#3=lost:46"), Ok(Effect::Lost(Code(46))));
        let delay = Effect::Delay(Duration::from_nanos(1500));
        assert_eq!(
            fault("cuMemAllocAsync=delay:1.5us"),
            Ok(Fault {
                function: Function::cuMemAllocAsync,
                nth: None,
                effect: delay
            })
        );
        let slower = Effect::Slower(0.05);
        assert_eq!(
            fault("cuLaunchKernel=slower:5%"),
            Ok(Fault {
                function: Function::cuLaunchKernel,
                nth: None,
                effect: slower
            })
        );
        for wrong in [
            "",
            "cuNothing=error:1",
            "cuInit=error",
            "cuInit#0=error:1",
            "cuInit=delay:5",
            "cuInit=slower:-1%",
            "cuInit=slower:NaN%",
            "cuInit=slower:inf%",
            "cuInit=slower:1000001%",
            "cuInit=slower:1e300%",
            "cuInit=delay:-1ns",
            "cuInit=delay:NaNus",
            "cuInit=delay:3600000001us",
            "cuInit=delay:1e300ns",
        ] {
            assert!(fault(wrong).is_err(), "{wrong:?}");
        }
    }
}
