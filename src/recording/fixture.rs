//! What the tests of this module share.

use super::plan::{Destination, FORMAT, Plan, Side, Treatment};
use super::state::FinishedLaunch;
use crate::baseline::{Launch, Samples, Settings, Skipped};
use crate::environment::{DeviceFacts, Environment};

/// A machine of which nothing is known but its name.
pub(super) fn environment() -> Environment {
    Environment {
        device: DeviceFacts {
            name: String::from("planted"),
            ..DeviceFacts::default()
        },
        gpu: None,
        host: Default::default(),
        build: Default::default(),
        toolkit: Default::default(),
        pool: None,
    }
}

/// A plan of one side, or of the sides `0` and `1`.
pub(super) fn plan(sides: usize, launches: u64) -> Plan {
    let side = |index: usize| Side {
        treatment: Treatment {
            label: (sides > 1).then(|| index.to_string()),
            ..Treatment::default()
        },
        environment: environment(),
        only: None,
    };
    Plan {
        format: FORMAT,
        name: String::from("planted"),
        destination: Destination::New,
        launches,
        settings: Settings::default(),
        sides: (0..sides).map(side).collect(),
        executables: Vec::new(),
        boot_id: String::from("boot"),
        started: String::from("2026-11-30T00:00:00Z"),
        seed: 4,
    }
}

/// A finished launch of `session` that measured `ids` at 100 ns an iteration, and skipped `skipped`.
pub(super) fn finished(session: &str, launch: u64, ids: &[&str], skipped: &[(&str, &str)]) -> FinishedLaunch {
    let samples = Samples {
        iters: vec![10.0; 4],
        times_ns: vec![900.0, 1000.0, 1000.0, 5000.0],
        ..Samples::default()
    };
    FinishedLaunch {
        side: 0,
        launch: Launch {
            launch,
            session: session.to_owned(),
            samples: ids.iter().map(|id| ((*id).to_owned(), samples.clone())).collect(),
            ..Launch::default()
        },
        executables: Default::default(),
        samples_per_turn: std::collections::BTreeMap::new(),
        samples_enough: std::collections::BTreeMap::new(),
        device_time_ns: Default::default(),
        observations: Default::default(),
        skipped: skipped
            .iter()
            .map(|(id, reason)| Skipped {
                id: (*id).to_owned(),
                reason: (*reason).to_owned(),
            })
            .collect(),
        repeated: 0,
    }
}
