//! What differs between two recordings, and what of it forbids a comparison.

use super::Settings;
use crate::environment::{Environment, FieldDifference, field_differences};
use serde::Serialize;
use serde_json::Value;

/// What a difference means for a comparison, in the order in which a reader wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// What is judged: the driver.
    Treatment,
    /// The two measured different things.
    Refused,
    /// May move times, and is said.
    Listed,
}

/// Something that the two sides do not share. Both texts are as recorded, and may hold anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What differs, as `driver` or `power limit`.
    pub what: &'static str,
    /// The base's; `unknown` where it was not recorded.
    pub base: String,
    /// The new side's.
    pub new: String,
    /// What it means.
    pub kind: DifferenceKind,
    /// What to do about it, where something can be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<&'static str>,
}

/// The one setting that is judged like a driver.
const INJECTED_FAULT: &str = "injected fault";

/// How a value is shown.
#[derive(Clone, Copy)]
enum Shown {
    /// As it is.
    Plain,
    /// A number with its unit.
    In(&'static str),
    /// A truth as one of two words: for true, for false.
    Truth(&'static str, &'static str),
    /// A part that is there or not, in two words.
    Presence(&'static str, &'static str),
}

/// What a field of the environment means for a comparison.
struct Field {
    /// Its place, as [`FieldDifference`] gives it.
    place: &'static str,
    what: &'static str,
    kind: DifferenceKind,
    shown: Shown,
    remedy: Option<&'static str>,
}

const fn field(kind: DifferenceKind, place: &'static str, what: &'static str, shown: Shown) -> Field {
    Field {
        place,
        what,
        kind,
        shown,
        remedy: None,
    }
}

const fn refused(place: &'static str, what: &'static str, remedy: &'static str) -> Field {
    Field {
        remedy: Some(remedy),
        ..field(DifferenceKind::Refused, place, what, Shown::Plain)
    }
}

const ON_OFF: Shown = Shown::Truth("on", "off");

/// The fields that are compared, in the order in which they are said.
const FIELDS: &[Field] = {
    use DifferenceKind::{Listed, Refused, Treatment};
    use Shown::{In, Plain, Presence, Truth};
    &[
        field(Treatment, "device.driver_version", "driver", Plain),
        field(Treatment, "device.cuda_version", "CUDA version", Plain),
        refused("device.name", "device", "record both sides on the same model of device"),
        field(Refused, "device.compute_capability", "compute capability", Plain),
        field(Listed, "device.uuid", "device UUID", Plain),
        field(Listed, "device.memory_bytes", "device memory bytes", Plain),
        field(Listed, "device.memory_pools", "memory pools", ON_OFF),
        field(Listed, "device.managed_memory", "managed memory", ON_OFF),
        field(
            Listed,
            "device.virtual_memory_management",
            "virtual memory management",
            ON_OFF,
        ),
        refused(
            "build.profile",
            "build profile",
            "record both sides with the same profile, release",
        ),
        refused(
            "build.case_definitions",
            "case definitions",
            "the same ids measure other things: record both sides with the same poolbench",
        ),
        field(Listed, "build.version", "poolbench", Plain),
        field(Listed, "build.commit", "commit", Plain),
        field(Listed, "build.rustc", "rustc", Plain),
        refused(
            "toolkit.ptx_sha256",
            "kernels (SHA-256 of the PTX)",
            "build both sides with NVCC=none, or with the same nvcc",
        ),
        field(Listed, "toolkit.ptx_origin", "kernels from", Plain),
        field(Listed, "toolkit.ptx_isa", "PTX version", Plain),
        field(Listed, "gpu", "NVML", Presence("answers", "does not answer")),
        field(Treatment, "gpu.kernel_driver_version", "kernel driver", Plain),
        field(Listed, "gpu.ecc_enabled", "ECC", ON_OFF),
        field(Listed, "gpu.mig_enabled", "MIG", ON_OFF),
        field(Listed, "gpu.persistence_mode", "persistence mode", ON_OFF),
        field(Listed, "gpu.power_limit_w", "power limit", In("W")),
        field(Listed, "gpu.sm_clock_max_mhz", "highest SM clock", In("MHz")),
        field(Listed, "gpu.memory_clock_max_mhz", "highest memory clock", In("MHz")),
        field(Listed, "gpu.other_processes", "other processes on the GPU", Plain),
        field(Listed, "host.os", "operating system", Plain),
        field(Listed, "host.kernel", "kernel", Plain),
        field(Listed, "host.cpu", "processor", Plain),
        field(Listed, "host.cores", "processors", Plain),
        field(Listed, "host.virtualised", "virtualised", Truth("yes", "no")),
        field(Listed, "pool", "default pool", Presence("there", "not there")),
        field(
            Listed,
            "pool.release_threshold_bytes",
            "default release threshold bytes",
            Plain,
        ),
        field(
            Listed,
            "pool.reuse_follow_event_dependencies",
            "reuse following event dependencies",
            ON_OFF,
        ),
        field(Listed, "pool.reuse_allow_opportunistic", "opportunistic reuse", ON_OFF),
        field(
            Listed,
            "pool.reuse_allow_internal_dependencies",
            "reuse by internal dependencies",
            ON_OFF,
        ),
    ]
};

/// Returns what differs between two environments: the treatment first, then what forbids a comparison,
/// then the rest. What changes from minute to minute, as the temperature, is left out.
#[must_use]
pub fn environment_differences(base: &Environment, new: &Environment) -> Vec<Difference> {
    let differing = field_differences(base, new);
    let said = |field: &Field| {
        let found = differing.iter().find(|found| found.field == field.place)?;
        Some(field.difference(found))
    };
    let mut found: Vec<Difference> = FIELDS.iter().filter_map(said).collect();
    found.sort_by_key(|difference| difference.kind);
    found
}

impl Field {
    fn difference(&self, found: &FieldDifference) -> Difference {
        Difference {
            what: self.what,
            base: self.shown.text(&found.first),
            new: self.shown.text(&found.second),
            kind: self.kind,
            remedy: self.remedy,
        }
    }
}

impl Shown {
    fn text(self, value: &Value) -> String {
        match (self, value) {
            (Shown::Presence(there, missing), value) => String::from(if value.is_null() { missing } else { there }),
            (_, Value::Null) => String::from("unknown"),
            (_, Value::String(text)) if text.is_empty() => String::from("unknown"),
            (_, Value::String(text)) => text.clone(),
            (Shown::Truth(yes, no), Value::Bool(truth)) => String::from(if *truth { yes } else { no }),
            (Shown::In(unit), value) => format!("{value} {unit}"),
            (_, value) => value.to_string(),
        }
    }
}

/// Returns what differs between the settings of two recordings. Labels and the number of repeated
/// measurements are none of it.
#[must_use]
pub fn settings_differences(base: &Settings, new: &Settings) -> Vec<Difference> {
    let sides = settings_facts(base).into_iter().zip(settings_facts(new));
    let differing = sides.filter(|(base, new)| base.value != new.value);
    let difference = |(base, new): (Fact, Fact)| Difference {
        kind: if base.what == INJECTED_FAULT {
            DifferenceKind::Treatment
        } else {
            DifferenceKind::Listed
        },
        what: base.what,
        base: base.value,
        new: new.value,
        remedy: None,
    };
    differing.map(difference).collect()
}

/// Something about a recording, in the words in which a difference of it is said. The value is as recorded, and may
/// hold anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// What it is, as `driver` or `power limit`.
    pub what: &'static str,
    /// The value; `unknown` where it was not recorded.
    pub value: String,
}

/// Returns what is compared of an environment, in the order in which it is said.
#[must_use]
pub fn environment_facts(environment: &Environment) -> Vec<Fact> {
    // Plain data always has a JSON value.
    let environment = serde_json::to_value(environment).unwrap_or_default();
    let value = |place: &str| place.split('.').try_fold(&environment, |value, part| value.get(part));
    let fact = |field: &Field| Fact {
        what: field.what,
        value: field.shown.text(value(field.place).unwrap_or(&Value::Null)),
    };
    FIELDS.iter().map(fact).collect()
}

/// Returns what is compared of the settings, in the order in which it is said.
#[must_use]
pub fn settings_facts(settings: &Settings) -> Vec<Fact> {
    let seconds = |value: f64| format!("{value} s");
    let or_none = |value: Option<String>| value.unwrap_or_else(|| String::from("none"));
    let processor = settings.pinned_processor.map(|processor| processor.to_string());
    let facts = [
        (INJECTED_FAULT, or_none(settings.injected_fault.clone())),
        ("warm-up", seconds(settings.warm_up_time_s)),
        ("measurement time", seconds(settings.measurement_time_s)),
        ("samples a launch", settings.sample_size.to_string()),
        // Zero counts as one.
        ("turns a benchmark", settings.turns.max(1).to_string()),
        ("longest loop", seconds(settings.loop_time_max_s)),
        ("filter", or_none(settings.filter.clone())),
        ("pinned processor", or_none(processor)),
        ("host-speed probes", on_off(settings.probes)),
    ];
    facts.map(|(what, value)| Fact { what, value }).into()
}

fn on_off(on: bool) -> String {
    String::from(if on { "on" } else { "off" })
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::environment::{BuildFacts, DeviceFacts, GpuFacts, HostFacts, PoolFacts, ToolkitFacts};

    fn environment() -> Environment {
        Environment {
            device: DeviceFacts {
                name: String::from("NVIDIA H200"),
                driver_version: Some(String::from("580.159.04")),
                cuda_version: String::from("13.0"),
                ..DeviceFacts::default()
            },
            gpu: Some(GpuFacts::default()),
            host: HostFacts::default(),
            build: BuildFacts {
                profile: String::from("release"),
                ..BuildFacts::default()
            },
            toolkit: ToolkitFacts::default(),
            pool: None,
        }
    }

    #[test]
    fn a_driver_is_the_treatment_and_a_profile_is_not() {
        let base = environment();
        assert_eq!(environment_differences(&base, &base), []);
        let mut new = environment();
        new.host.kernel = Some(String::from("6.8"));
        new.build.profile = String::from("debug");
        new.device.driver_version = Some(String::from("570.1"));
        // What changes by the minute is no difference.
        new.gpu = Some(GpuFacts {
            temperature_c: Some(40),
            sm_clock_mhz: Some(345),
            ..GpuFacts::default()
        });
        let found: Vec<_> = environment_differences(&base, &new)
            .iter()
            .map(|difference| (difference.what, difference.base.clone(), difference.kind))
            .collect();
        assert_eq!(
            found,
            [
                ("driver", String::from("580.159.04"), DifferenceKind::Treatment),
                ("build profile", String::from("release"), DifferenceKind::Refused),
                ("kernel", String::from("unknown"), DifferenceKind::Listed),
            ]
        );
    }

    /// Presence, units and truths in words, as reports have always had them.
    #[test]
    fn values_are_shown_in_words() {
        let base = environment();
        let mut new = environment();
        new.gpu = Some(GpuFacts {
            power_limit_w: Some(700),
            mig_enabled: Some(false),
            ..GpuFacts::default()
        });
        new.host.virtualised = Some(true);
        new.pool = Some(PoolFacts::default());
        new.toolkit.ptx_origin = String::from("nvcc");
        let texts = |base: &Environment, new: &Environment| -> Vec<[String; 3]> {
            let found = environment_differences(base, new);
            let texts = found.iter();
            texts
                .map(|found| [found.what.to_owned(), found.base.clone(), found.new.clone()])
                .collect()
        };
        assert_eq!(
            texts(&base, &new),
            [
                ["kernels from", "unknown", "nvcc"],
                ["MIG", "unknown", "off"],
                ["power limit", "unknown", "700 W"],
                ["virtualised", "unknown", "yes"],
                ["default pool", "not there", "there"],
            ]
        );
        new.gpu = None;
        assert_eq!(texts(&base, &new)[1], ["NVML", "answers", "does not answer"]);
    }

    /// The places of all leaves of a value.
    fn leaves(place: &str, value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(parts) => {
                for (key, part) in parts {
                    let place = if place.is_empty() {
                        key.clone()
                    } else {
                        format!("{place}.{key}")
                    };
                    leaves(&place, part, found);
                }
            }
            _ => found.push(place.to_owned()),
        }
    }

    /// A field that is added to the environment must be given its meaning here.
    #[test]
    fn every_field_of_the_environment_has_a_meaning() {
        let by_the_minute = ["gpu.sm_clock_mhz", "gpu.temperature_c"];
        let mut whole = environment();
        whole.pool = Some(PoolFacts::default());
        let mut places = Vec::new();
        leaves("", &serde_json::to_value(&whole).expect("plain data"), &mut places);
        places.extend(["gpu", "pool"].map(str::to_owned));
        places.retain(|place| !by_the_minute.contains(&place.as_str()));
        places.sort_unstable();
        let mut known: Vec<&str> = FIELDS.iter().map(|field| field.place).collect();
        known.sort_unstable();
        assert_eq!(known, places);
    }

    #[test]
    fn a_label_is_no_difference_and_what_was_asked_for_is() {
        let base = Settings::default();
        let new = Settings {
            label: Some(String::from("new")),
            repeated: 3,
            turns: 1,
            ..Settings::default()
        };
        assert_eq!(settings_differences(&base, &new), [], "no turn counts as one");
        let new = Settings {
            filter: Some(String::from("sync")),
            turns: 3,
            ..new
        };
        let found: Vec<_> = settings_differences(&base, &new)
            .iter()
            .map(|difference| (difference.what, difference.base.clone(), difference.new.clone()))
            .collect();
        let expected = [("turns a benchmark", "1", "3"), ("filter", "none", "sync")];
        assert_eq!(
            found,
            expected.map(|(what, base, new)| (what, base.to_owned(), new.to_owned()))
        );
    }
}
