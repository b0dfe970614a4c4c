//! Looks at the machine. Nothing here fails.

use super::monitor::other_processes;
use super::{BuildFacts, DeviceFacts, Environment, GpuFacts, HostFacts, PoolFacts, ToolkitFacts};
use crate::baseline::hexadecimal;
use crate::cuda::{Attribute, Device, MemoryPool, PTX, PTX_ORIGIN, ReusePolicy};
use crate::driver;
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::Clock;
use sha2::{Digest, Sha256};
use std::fs;

/// Raised whenever a case measures something else under its old id.
const CASE_DEFINITIONS: u32 = 1;

impl Environment {
    /// Looks at the machine.
    #[must_use]
    pub fn of(device: &Device) -> Environment {
        let facts = DeviceFacts::of(device);
        let gpu = if device.is_host() {
            None
        } else {
            facts.uuid.as_deref().and_then(GpuFacts::of)
        };
        Environment {
            device: facts,
            gpu,
            host: HostFacts::read(),
            build: BuildFacts::current(),
            toolkit: ToolkitFacts::current(),
            pool: PoolFacts::of(device),
        }
    }
}

impl DeviceFacts {
    fn of(device: &Device) -> DeviceFacts {
        let has = |attribute| device.attribute(attribute).is_ok_and(|value| value != 0);
        let capability = device
            .attribute(Attribute::ComputeCapabilityMajor)
            .ok()
            .zip(device.attribute(Attribute::ComputeCapabilityMinor).ok());
        let (major, minor) = device.cuda_version();
        DeviceFacts {
            name: device.name().to_owned(),
            uuid: device.uuid().ok().filter(|_| !device.is_host()),
            compute_capability: capability
                .filter(|_| !device.is_host())
                .map(|(major, minor)| format!("{major}.{minor}")),
            memory_bytes: device.memory_info().ok().map(|memory| memory.total_bytes),
            driver_version: driver::library_version().map(str::to_owned),
            cuda_version: format!("{major}.{minor}"),
            memory_pools: device.supports_memory_pools(),
            managed_memory: has(Attribute::ManagedMemory),
            virtual_memory_management: has(Attribute::VirtualMemoryManagement),
        }
    }
}

impl GpuFacts {
    fn of(uuid: &str) -> Option<GpuFacts> {
        let nvml = Nvml::init().ok()?;
        let gpu = nvml.device_by_uuid(uuid).ok()?;
        Some(GpuFacts {
            kernel_driver_version: nvml.sys_driver_version().ok(),
            ecc_enabled: gpu.is_ecc_enabled().ok().map(|state| state.currently_enabled),
            mig_enabled: gpu.mig_mode().ok().map(|mode| mode.current != 0),
            persistence_mode: gpu.is_in_persistent_mode().ok(),
            power_limit_w: gpu.power_management_limit().ok().map(|milliwatts| milliwatts / 1000),
            sm_clock_max_mhz: gpu.max_clock_info(Clock::SM).ok(),
            memory_clock_max_mhz: gpu.max_clock_info(Clock::Memory).ok(),
            sm_clock_mhz: gpu.clock_info(Clock::SM).ok(),
            temperature_c: gpu
                .temperature(nvml_wrapper::enum_wrappers::device::TemperatureSensor::Gpu)
                .ok(),
            other_processes: other_processes(&gpu),
        })
    }
}

impl HostFacts {
    fn read() -> HostFacts {
        let cpu_info = fs::read_to_string("/proc/cpuinfo").ok();
        let cpu_line = |key: &str| {
            let text = cpu_info.as_deref()?;
            let line = text
                .lines()
                .find(|line| line.split(':').next().is_some_and(|found| found.trim() == key))?;
            line.split_once(':').map(|(_, value)| value.trim().to_owned())
        };
        let release = fs::read_to_string("/etc/os-release").ok();
        let os = release.and_then(|text| {
            text.lines().find_map(|line| {
                line.strip_prefix("PRETTY_NAME=")
                    .map(|name| name.trim_matches('"').to_owned())
            })
        });
        HostFacts {
            os,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .ok()
                .map(|text| text.trim().to_owned()),
            cpu: cpu_line("model name"),
            cores: std::thread::available_parallelism().ok().map(usize::from),
            virtualised: cpu_line("flags").map(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")),
        }
    }
}

impl BuildFacts {
    fn current() -> BuildFacts {
        let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
        let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        BuildFacts {
            version: String::from(env!("CARGO_PKG_VERSION")),
            commit: known(env!("POOLBENCH_COMMIT")),
            rustc: known(env!("POOLBENCH_RUSTC")),
            profile: String::from(profile),
            case_definitions: CASE_DEFINITIONS,
        }
    }
}

impl ToolkitFacts {
    fn current() -> ToolkitFacts {
        let isa = PTX.lines().find_map(|line| line.strip_prefix(".version "));
        ToolkitFacts {
            ptx_origin: String::from(PTX_ORIGIN),
            ptx_isa: isa.map(|isa| isa.trim().to_owned()),
            ptx_sha256: ptx_sha256(PTX),
        }
    }
}

/// The hash of what a driver compiles. Comments and the line tables at the end name the folder of the
/// build; the version is kept apart, so that the committed PTX and its nvcc's output are the same code.
fn ptx_sha256(ptx: &str) -> String {
    let mut hash = Sha256::new();
    let code = ptx
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with(".section"))
        .filter(|line| {
            !line.is_empty()
                && ![".loc", ".file", ".version", "//"]
                    .iter()
                    .any(|start| line.starts_with(start))
        });
    for line in code {
        hash.update(line);
        hash.update("\n");
    }
    hexadecimal(&hash.finalize())
}

impl PoolFacts {
    fn of(device: &Device) -> Option<PoolFacts> {
        let pool = MemoryPool::default_of(device).ok()?;
        let policy = |policy| pool.reuse_policy(policy).ok();
        Some(PoolFacts {
            release_threshold_bytes: pool.release_threshold_bytes().ok()?,
            reuse_follow_event_dependencies: policy(ReusePolicy::FollowEventDependencies)?,
            reuse_allow_opportunistic: policy(ReusePolicy::AllowOpportunistic)?,
            reuse_allow_internal_dependencies: policy(ReusePolicy::AllowInternalDependencies)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_ptx_sees_code_and_no_folder() {
        let plain = "// made here\n.version 6.3\nret;\n";
        let with_lines = ".version 9.0\n.file 1 \"/a/b.cu\"\n.loc 1 2 3\nret;\n.section .debug_str\n{ .b8 47 }\n";
        assert_eq!(ptx_sha256(plain), ptx_sha256(with_lines));
        assert_ne!(ptx_sha256(plain), ptx_sha256(".version 6.3\nexit;\n"));
    }
}
