//! What of two environments must not differ in a recording.

use crate::baseline::Settings;
use crate::environment::{Environment, FieldDifference, field_differences};
use serde_json::Value;
use std::collections::BTreeSet;

/// What changes while a machine stays the same.
const VOLATILE: [&str; 3] = ["gpu.sm_clock_mhz", "gpu.temperature_c", "gpu.other_processes"];

/// The host device offers a share of the memory that is free when it opens.
const VOLATILE_ON_THE_HOST: [&str; 1] = ["device.memory_bytes"];

/// What the user-mode driver decides; two sides are there to differ in it.
const OF_THE_DRIVER: [&str; 7] = [
    "device.driver_version",
    "device.cuda_version",
    "device.memory_bytes",
    "device.memory_pools",
    "device.managed_memory",
    "device.virtual_memory_management",
    "pool",
];

/// What may differ between the sessions of one baseline: another card of the same model, a system that was
/// updated around the driver, a commit that left the case definitions as they were.
const BETWEEN_SESSIONS: [&str; 9] = [
    "device.uuid",
    "device.memory_bytes",
    "gpu.persistence_mode",
    "host.os",
    "host.kernel",
    "host.cores",
    "build.commit",
    "toolkit.ptx_origin",
    "toolkit.ptx_isa",
];

/// Differences that mean another machine, driver or build.
pub(super) fn same_machine(first: &Environment, second: &Environment) -> Vec<FieldDifference> {
    let is_host = first.device.name == "host";
    let of_the_host: &[&str] = if is_host { &VOLATILE_ON_THE_HOST } else { &[] };
    differences(first, second, &[&VOLATILE, of_the_host])
}

/// Differences of two sides of a recording that are not the driver's.
pub(super) fn beside_the_driver(first: &Environment, second: &Environment) -> Vec<FieldDifference> {
    differences(first, second, &[&VOLATILE, &OF_THE_DRIVER])
}

/// Differences that keep a session out of a baseline.
pub(super) fn between_sessions(first: &Environment, second: &Environment) -> Vec<FieldDifference> {
    differences(first, second, &[&VOLATILE, &BETWEEN_SESSIONS])
}

/// Where two ways to measure differ.
pub(super) fn settings_differences(first: &Settings, second: &Settings) -> Vec<FieldDifference> {
    // Plain data always has a JSON value.
    let [first, second] = [first, second].map(|settings| serde_json::to_value(settings).unwrap_or_default());
    let keys = |settings: &Value| -> BTreeSet<String> {
        let fields = settings.as_object().into_iter().flatten();
        fields.map(|(key, _)| key.clone()).collect()
    };
    let differs = |field: String| {
        let (first, second) = (first[&field].clone(), second[&field].clone());
        (first != second).then_some(FieldDifference { field, first, second })
    };
    let all = keys(&first).union(&keys(&second)).cloned().collect::<BTreeSet<_>>();
    all.into_iter().filter_map(differs).collect()
}

/// One line each, as `device.driver_version: "580" at first, "590" now`.
pub(super) fn difference_lines(differences: &[FieldDifference], first: &str, second: &str) -> Vec<String> {
    let line = |difference: &FieldDifference| {
        let FieldDifference {
            field,
            first: a,
            second: b,
        } = difference;
        format!("{field}: {a} {first}, {b} {second}")
    };
    differences.iter().map(line).collect()
}

fn differences(first: &Environment, second: &Environment, ignored: &[&[&str]]) -> Vec<FieldDifference> {
    let mut found = field_differences(first, second);
    found.retain(|difference| {
        !ignored
            .iter()
            .copied()
            .flatten()
            .any(|place| is_within(&difference.field, place))
    });
    found
}

/// Whether a field is the one at a place, or a part of what is there.
fn is_within(field: &str, place: &str) -> bool {
    let rest = field.strip_prefix(place);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::environment;
    use super::*;
    use crate::environment::{GpuFacts, PoolFacts};

    fn changed(change: impl FnOnce(&mut Environment)) -> Environment {
        let mut other = environment();
        change(&mut other);
        other
    }

    #[test]
    fn a_difference_is_named_with_both_values() {
        let other = changed(|other| other.device.driver_version = Some(String::from("590")));
        let found = same_machine(&environment(), &other);
        assert_eq!(
            difference_lines(&found, "before", "after"),
            [r#"device.driver_version: null before, "590" after"#]
        );
        assert_eq!(same_machine(&environment(), &environment()), []);
    }

    #[test]
    fn heat_is_no_difference_and_the_driver_is_the_treatment() {
        let gpu = |temperature_c| {
            changed(|other| {
                other.gpu = Some(GpuFacts {
                    temperature_c,
                    ..GpuFacts::default()
                })
            })
        };
        assert_eq!(same_machine(&gpu(Some(40)), &gpu(Some(70))), []);
        let newer = changed(|other| {
            other.device.driver_version = Some(String::from("590"));
            other.pool = Some(PoolFacts::default());
        });
        assert_eq!(beside_the_driver(&environment(), &newer), []);
        assert_eq!(between_sessions(&environment(), &newer).len(), 2);
        let card = changed(|other| other.device.uuid = Some(String::from("GPU-1")));
        assert_eq!(between_sessions(&environment(), &card), []);
        assert_eq!(same_machine(&environment(), &card).len(), 1);
        let memory = |name: &str, bytes| {
            changed(|other| {
                other.device.name = name.to_owned();
                other.device.memory_bytes = Some(bytes);
            })
        };
        assert_eq!(same_machine(&memory("host", 8 << 30), &memory("host", 7 << 30)), []);
        assert_eq!(
            same_machine(&memory("a GPU", 8 << 30), &memory("a GPU", 7 << 30)).len(),
            1
        );
        let larger = changed(|other| other.build.case_definitions = 7);
        assert_eq!(beside_the_driver(&environment(), &larger).len(), 1);
    }
}
