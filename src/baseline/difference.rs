//! What differs between two recordings, and what of it forbids a comparison.

use super::Settings;
use crate::environment::{BuildFacts, DeviceFacts, Environment, GpuFacts, HostFacts, PoolFacts, ToolkitFacts};
use serde::Serialize;

/// What a difference means for a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// What is judged: the driver.
    Treatment,
    /// May move times, and is said.
    Listed,
    /// The two measured different things.
    Refused,
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

/// Returns what differs between two environments: the treatment first, then what forbids a comparison,
/// then the rest. What changes from minute to minute, as the temperature, is left out.
#[must_use]
pub fn environment_differences(base: &Environment, new: &Environment) -> Vec<Difference> {
    let mut found = Collected(Vec::new());
    found.device(&base.device, &new.device);
    found.build(&base.build, &new.build);
    found.toolkit(&base.toolkit, &new.toolkit);
    found.gpu(base.gpu.as_ref(), new.gpu.as_ref());
    found.host(&base.host, &new.host);
    found.pool(base.pool.as_ref(), new.pool.as_ref());
    let rank = |kind| match kind {
        DifferenceKind::Treatment => 0,
        DifferenceKind::Refused => 1,
        DifferenceKind::Listed => 2,
    };
    found.0.sort_by_key(|difference| rank(difference.kind));
    found.0
}

/// Returns what differs between the settings of two recordings. Labels and the number of repeated
/// measurements are none of it.
#[must_use]
pub fn settings_differences(base: &Settings, new: &Settings) -> Vec<Difference> {
    let mut found = Collected(Vec::new());
    found.text(
        DifferenceKind::Treatment,
        "injected fault",
        base.injected_fault.as_deref().unwrap_or("none"),
        new.injected_fault.as_deref().unwrap_or("none"),
    );
    let mut listed = |what, base: String, new: String| found.text(DifferenceKind::Listed, what, &base, &new);
    let seconds = |value: f64| format!("{value} s");
    listed("warm-up", seconds(base.warm_up_time_s), seconds(new.warm_up_time_s));
    listed(
        "measurement time",
        seconds(base.measurement_time_s),
        seconds(new.measurement_time_s),
    );
    listed(
        "samples a launch",
        base.sample_size.to_string(),
        new.sample_size.to_string(),
    );
    // Zero counts as one.
    let turns = |settings: &Settings| settings.turns.max(1).to_string();
    listed("turns a benchmark", turns(base), turns(new));
    listed(
        "longest loop",
        seconds(base.loop_time_max_s),
        seconds(new.loop_time_max_s),
    );
    let none = |value: Option<String>| value.unwrap_or_else(|| String::from("none"));
    listed("filter", none(base.filter.clone()), none(new.filter.clone()));
    let processor = |settings: &Settings| none(settings.pinned_processor.map(|processor| processor.to_string()));
    listed("pinned processor", processor(base), processor(new));
    listed("host-speed probes", on_off(base.probes), on_off(new.probes));
    found.0
}

fn on_off(on: bool) -> String {
    String::from(if on { "on" } else { "off" })
}

fn known<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(|| String::from("unknown"), ToString::to_string)
}

struct Collected(Vec<Difference>);

impl Collected {
    fn text(&mut self, kind: DifferenceKind, what: &'static str, base: &str, new: &str) {
        self.with_remedy(kind, what, (base, new), None);
    }

    fn with_remedy(
        &mut self,
        kind: DifferenceKind,
        what: &'static str,
        (base, new): (&str, &str),
        remedy: Option<&'static str>,
    ) {
        if base == new {
            return;
        }
        let unknown = |text: &str| String::from(if text.is_empty() { "unknown" } else { text });
        self.0.push(Difference {
            what,
            base: unknown(base),
            new: unknown(new),
            kind,
            remedy,
        });
    }

    fn value<T: ToString>(&mut self, kind: DifferenceKind, what: &'static str, base: Option<&T>, new: Option<&T>) {
        self.text(kind, what, &known(base), &known(new));
    }

    fn device(&mut self, base: &DeviceFacts, new: &DeviceFacts) {
        use DifferenceKind::{Listed, Refused, Treatment};
        self.value(
            Treatment,
            "driver",
            base.driver_version.as_ref(),
            new.driver_version.as_ref(),
        );
        self.text(Treatment, "CUDA version", &base.cuda_version, &new.cuda_version);
        self.with_remedy(
            Refused,
            "device",
            (&base.name, &new.name),
            Some("record both sides on the same model of device"),
        );
        self.value(
            Refused,
            "compute capability",
            base.compute_capability.as_ref(),
            new.compute_capability.as_ref(),
        );
        self.value(Listed, "device UUID", base.uuid.as_ref(), new.uuid.as_ref());
        self.value(
            Listed,
            "device memory bytes",
            base.memory_bytes.as_ref(),
            new.memory_bytes.as_ref(),
        );
        for (what, base, new) in [
            ("memory pools", base.memory_pools, new.memory_pools),
            ("managed memory", base.managed_memory, new.managed_memory),
            (
                "virtual memory management",
                base.virtual_memory_management,
                new.virtual_memory_management,
            ),
        ] {
            self.text(Listed, what, &on_off(base), &on_off(new));
        }
    }

    fn build(&mut self, base: &BuildFacts, new: &BuildFacts) {
        use DifferenceKind::{Listed, Refused};
        self.with_remedy(
            Refused,
            "build profile",
            (&base.profile, &new.profile),
            Some("record both sides with the same profile, release"),
        );
        self.with_remedy(
            Refused,
            "case definitions",
            (&base.case_definitions.to_string(), &new.case_definitions.to_string()),
            Some("the same ids measure other things: record both sides with the same poolbench"),
        );
        self.text(Listed, "poolbench", &base.version, &new.version);
        self.value(Listed, "commit", base.commit.as_ref(), new.commit.as_ref());
        self.value(Listed, "rustc", base.rustc.as_ref(), new.rustc.as_ref());
    }

    fn toolkit(&mut self, base: &ToolkitFacts, new: &ToolkitFacts) {
        use DifferenceKind::{Listed, Refused};
        self.with_remedy(
            Refused,
            "kernels (SHA-256 of the PTX)",
            (&base.ptx_sha256, &new.ptx_sha256),
            Some("build both sides with NVCC=none, or with the same nvcc"),
        );
        self.text(Listed, "kernels from", &base.ptx_origin, &new.ptx_origin);
        self.value(Listed, "PTX version", base.ptx_isa.as_ref(), new.ptx_isa.as_ref());
    }

    fn gpu(&mut self, base: Option<&GpuFacts>, new: Option<&GpuFacts>) {
        use DifferenceKind::{Listed, Treatment};
        let (Some(base), Some(new)) = (base, new) else {
            let answers = |gpu: Option<&GpuFacts>| if gpu.is_some() { "answers" } else { "does not answer" };
            self.text(Listed, "NVML", answers(base), answers(new));
            return;
        };
        let driver = |gpu: &GpuFacts| known(gpu.kernel_driver_version.as_ref());
        self.text(Treatment, "kernel driver", &driver(base), &driver(new));
        for (what, base, new) in [
            ("ECC", base.ecc_enabled, new.ecc_enabled),
            ("MIG", base.mig_enabled, new.mig_enabled),
            ("persistence mode", base.persistence_mode, new.persistence_mode),
        ] {
            let (base, new) = (base.map(on_off), new.map(on_off));
            self.value(Listed, what, base.as_ref(), new.as_ref());
        }
        for (what, unit, base, new) in [
            ("power limit", "W", base.power_limit_w, new.power_limit_w),
            ("highest SM clock", "MHz", base.sm_clock_max_mhz, new.sm_clock_max_mhz),
            (
                "highest memory clock",
                "MHz",
                base.memory_clock_max_mhz,
                new.memory_clock_max_mhz,
            ),
        ] {
            let unit = |value: Option<u32>| value.map(|value| format!("{value} {unit}"));
            let (base, new) = (unit(base), unit(new));
            self.value(Listed, what, base.as_ref(), new.as_ref());
        }
        self.value(
            Listed,
            "other processes on the GPU",
            base.other_processes.as_ref(),
            new.other_processes.as_ref(),
        );
    }

    fn host(&mut self, base: &HostFacts, new: &HostFacts) {
        let listed = DifferenceKind::Listed;
        self.value(listed, "operating system", base.os.as_ref(), new.os.as_ref());
        self.value(listed, "kernel", base.kernel.as_ref(), new.kernel.as_ref());
        self.value(listed, "processor", base.cpu.as_ref(), new.cpu.as_ref());
        self.value(listed, "processors", base.cores.as_ref(), new.cores.as_ref());
        let virtualised = |host: &HostFacts| host.virtualised.map(|yes| String::from(if yes { "yes" } else { "no" }));
        self.value(
            listed,
            "virtualised",
            virtualised(base).as_ref(),
            virtualised(new).as_ref(),
        );
    }

    fn pool(&mut self, base: Option<&PoolFacts>, new: Option<&PoolFacts>) {
        let listed = DifferenceKind::Listed;
        let (Some(base), Some(new)) = (base, new) else {
            let there = |pool: Option<&PoolFacts>| if pool.is_some() { "there" } else { "not there" };
            self.text(listed, "default pool", there(base), there(new));
            return;
        };
        self.text(
            listed,
            "default release threshold bytes",
            &base.release_threshold_bytes.to_string(),
            &new.release_threshold_bytes.to_string(),
        );
        for (what, base, new) in [
            (
                "reuse following event dependencies",
                base.reuse_follow_event_dependencies,
                new.reuse_follow_event_dependencies,
            ),
            (
                "opportunistic reuse",
                base.reuse_allow_opportunistic,
                new.reuse_allow_opportunistic,
            ),
            (
                "reuse by internal dependencies",
                base.reuse_allow_internal_dependencies,
                new.reuse_allow_internal_dependencies,
            ),
        ] {
            self.text(listed, what, &on_off(base), &on_off(new));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
