//! What a recording measures, in which order. Fixed when it begins; every later launch follows from it.

use super::executables::ExecutableIdentity;
use super::options::Intent;
use crate::baseline::{BaselineName, InvalidName, Settings};
use crate::environment::Environment;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The version of the plan's format. Another one is refused.
pub(super) const FORMAT: u32 = 1;

/// What a recording measures, in which order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The version of the format. Another one is refused.
    pub format: u32,
    /// The recording's name: the baseline's, or with two sides the beginning of both.
    pub name: String,
    /// What happens to a baseline that has the name already.
    pub destination: Destination,
    /// Launches of each side.
    pub launches: u64,
    /// How each benchmark is measured.
    pub settings: Settings,
    /// One side, or two that take turns.
    pub sides: Vec<Side>,
    /// What is run.
    pub executables: Vec<ExecutableIdentity>,
    /// The start of the machine that the recording began in.
    pub boot_id: String,
    /// When it began, as RFC 3339 in UTC. Names the session; nothing is computed from it.
    pub started: String,
    /// The seed of every shuffle.
    pub seed: u64,
}

/// What happens to a baseline that has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Destination {
    /// There must be none.
    New,
    /// It gets another session.
    Append,
    /// It is replaced.
    Replace,
}

impl Destination {
    /// What an intent that begins a recording means.
    pub(super) fn of(intent: Intent) -> Destination {
        match intent {
            Intent::New | Intent::Resume => Destination::New,
            Intent::Append => Destination::Append,
            Intent::Replace => Destination::Replace,
        }
    }
}

/// What a side's processes run under.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Treatment {
    /// What the side is called; `None` where it is the only one.
    pub label: Option<String>,
    /// The driver library that it binds; `None` for the usual one.
    pub libcuda: Option<PathBuf>,
    /// The fault that is injected.
    pub fault: Option<String>,
}

/// One side of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// What its processes run under.
    pub treatment: Treatment,
    /// The machine as its processes see it.
    pub environment: Environment,
    /// The only ids to measure, those of the baseline that it goes on with; `None` for all.
    pub only: Option<BTreeSet<String>>,
}

/// One launch of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Its place in the recording.
    pub(super) index: u64,
    /// Which side it measures.
    pub(super) side: usize,
    /// Whether it is the first of its side, which decides what the others measure.
    pub(super) is_first: bool,
    /// Shuffles executables and cases. The same for both sides of a pair, so that no order favours one.
    pub(super) order_seed: u64,
}

impl Plan {
    /// Launches of all sides.
    pub(super) fn total(&self) -> u64 {
        self.launches * self.sides.len() as u64
    }

    /// The launch at a place of the recording. Sides take turns; which of a pair is first is shuffled.
    pub(super) fn step(&self, index: u64) -> Step {
        let sides = self.sides.len();
        let (round, place) = (index / sides as u64, index % sides as u64);
        let mut rng = StdRng::seed_from_u64(self.seed.wrapping_add(round));
        // 32 bits, which every reader of JSON keeps.
        let order_seed = u64::from(rng.random::<u32>());
        let mut order: Vec<usize> = (0..sides).collect();
        order.shuffle(&mut rng);
        Step {
            index,
            side: order[usize::try_from(place).unwrap_or_default()],
            is_first: round == 0,
            order_seed,
        }
    }

    /// The baseline that a side is written to.
    pub(super) fn baseline_name(&self, side: usize) -> Result<BaselineName, InvalidName> {
        baseline_name(&self.name, self.sides[side].treatment.label.as_deref())
    }

    /// The session of a recording that began in this start of the machine.
    pub(super) fn session(&self) -> String {
        session(&self.boot_id, &self.started)
    }
}

/// The name of a side's baseline.
pub(super) fn baseline_name(name: &str, label: Option<&str>) -> Result<BaselineName, InvalidName> {
    match label {
        None => name.parse(),
        Some(label) => format!("{name}-{label}").parse(),
    }
}

/// A recording at one time, in one start of the machine.
pub(super) fn session(boot_id: &str, started: &str) -> String {
    format!("{boot_id}-{started}")
}

/// What tells one start of the machine from the next.
pub(super) fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let id = id.trim();
    if id.is_empty() {
        String::from("unknown")
    } else {
        id.to_owned()
    }
}

/// Now, as RFC 3339 in UTC.
pub(super) fn now() -> String {
    humantime::format_rfc3339_millis(std::time::SystemTime::now()).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::plan;
    use std::collections::BTreeSet;

    #[test]
    fn sides_take_turns_and_neither_is_always_first() {
        let plan = plan(2, 100);
        assert_eq!(plan.total(), 200);
        let steps: Vec<_> = (0..200).map(|index| plan.step(index)).collect();
        for pair in steps.chunks(2) {
            assert_ne!(pair[0].side, pair[1].side);
            assert_eq!(pair[0].order_seed, pair[1].order_seed);
        }
        // Of 100 fair coins, 30 to 70 heads: all but one seed in 10,000.
        let first = steps.chunks(2).filter(|pair| pair[0].side == 0).count();
        assert!((30..=70).contains(&first), "{first}");
        assert_eq!(steps.iter().filter(|step| step.is_first).count(), 2);
        let orders: BTreeSet<u64> = steps.iter().map(|step| step.order_seed).collect();
        assert_eq!(orders.len(), 100, "each pair has its own order");
        assert_eq!(
            plan.step(77),
            steps[77],
            "a resumed recording goes on with the same plan"
        );
    }

    #[test]
    fn one_side_has_every_turn() {
        let plan = plan(1, 5);
        assert!((0..5).all(|index| plan.step(index).side == 0 && plan.step(index).is_first == (index == 0)));
        assert_eq!(plan.baseline_name(0).expect("a name").as_str(), "planted");
    }
}
