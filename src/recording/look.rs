//! What the machine is, before anything is measured.

use super::differences::{beside_the_driver, difference_lines};
use super::error::RecordingError;
use super::executables::Executable;
use super::plan::{Side, Treatment};
use super::process::{Starter, Task};
use std::collections::{BTreeMap, BTreeSet};

/// Looks at the machine as each side's processes see it: a process that measures nothing.
pub(super) fn look(
    starter: &Starter<'_>,
    executable: &Executable,
    treatments: Vec<Treatment>,
) -> Result<(Vec<Side>, Vec<String>), RecordingError> {
    let nothing = Task {
        order_seed: 0,
        only: Some(BTreeSet::new()),
        loop_time_max_s: starter.settings.loop_time_max_s,
        device_times: false,
        samples_per_turn: BTreeMap::new(),
        fewer_samples: BTreeMap::new(),
    };
    let (mut sides, mut device_lines) = (Vec::new(), Vec::new());
    for treatment in treatments {
        let seen = starter
            .run(executable, &treatment, &nothing)
            .map_err(|error| of_library(error, &treatment))?;
        if treatment.libcuda.is_some() && seen.record.environment.device.name == "host" {
            return Err(of_library(
                RecordingError::Nothing(String::from(
                    "reports no device, and the host device has no driver to compare",
                )),
                &treatment,
            ));
        }
        device_lines.push(seen.device_line);
        sides.push(Side {
            treatment,
            environment: seen.record.environment,
            only: None,
        });
    }
    if let [first, second] = sides.as_slice() {
        let differences = beside_the_driver(&first.environment, &second.environment);
        if !differences.is_empty() {
            return Err(RecordingError::Differs {
                what: String::from("the two sides differ in more than the driver"),
                differences: difference_lines(&differences, "on the first side", "on the second"),
            });
        }
    }
    Ok((sides, device_lines))
}

/// Names the library in the failure of a process that binds it, whichever executable that was.
fn of_library(error: RecordingError, treatment: &Treatment) -> RecordingError {
    let (Some(label), Some(library)) = (&treatment.label, &treatment.libcuda) else {
        return match error {
            // The line says all; the executable has printed nothing else.
            RecordingError::Process { bench, reason, .. } => RecordingError::Process {
                bench,
                reason,
                output: String::new(),
            },
            error => error,
        };
    };
    let reason = match error {
        RecordingError::Process { reason, .. } | RecordingError::Nothing(reason) => reason,
        error => return error,
    };
    RecordingError::Process {
        bench: format!("--libcuda {label}={}", library.display()),
        reason,
        output: String::new(),
    }
}
