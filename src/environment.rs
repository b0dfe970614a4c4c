//! What machine this is: the GPU and its settings, the driver, the host, the build.
//!
//! What a machine does not tell is `None`; nothing here fails.

use crate::cuda::{Attribute, Device, PTX_ORIGIN};
use crate::driver;
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::Clock;
use serde::Serialize;
use std::fs;

/// Everything that a result depends on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Environment {
    /// The device that is measured.
    pub device: DeviceFacts,
    /// What NVML says of the GPU; `None` on the host device and where NVML is not there.
    pub gpu: Option<GpuFacts>,
    /// The machine that submits the work.
    pub host: HostFacts,
    /// The program.
    pub build: BuildFacts,
}

/// What the driver says of the device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceFacts {
    /// The driver's name for it; `host` for the host device.
    pub name: String,
    /// `GPU-...`, as nvidia-smi prints it.
    pub uuid: Option<String>,
    /// As `9.0`.
    pub compute_capability: Option<String>,
    /// Device memory.
    pub memory_bytes: Option<usize>,
    /// The user-mode driver's version, from the library that is bound.
    pub driver_version: Option<String>,
    /// The highest CUDA version that the driver supports, as `13.0`.
    pub cuda_version: String,
    /// Whether stream-ordered allocation works.
    pub memory_pools: bool,
    /// Whether managed memory works.
    pub managed_memory: bool,
    /// Whether virtual memory management works.
    pub virtual_memory_management: bool,
}

/// What NVML says of the GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GpuFacts {
    /// The kernel driver's version.
    pub kernel_driver_version: Option<String>,
    /// Error correction.
    pub ecc_enabled: Option<bool>,
    /// Multi-instance mode.
    pub mig_enabled: Option<bool>,
    /// Whether the driver stays loaded between programs.
    pub persistence_mode: Option<bool>,
    /// Power limit in watts.
    pub power_limit_w: Option<u32>,
    /// Highest multiprocessor clock in MHz.
    pub sm_clock_max_mhz: Option<u32>,
    /// Highest memory clock in MHz.
    pub memory_clock_max_mhz: Option<u32>,
    /// Present multiprocessor clock in MHz.
    pub sm_clock_mhz: Option<u32>,
    /// Temperature in degrees Celsius.
    pub temperature_c: Option<u32>,
    /// Other processes with a context on the GPU.
    pub other_processes: Option<usize>,
}

/// The machine that submits the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostFacts {
    /// `PRETTY_NAME` of the system.
    pub os: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The processor's model.
    pub cpu: Option<String>,
    /// Processors that this process may use.
    pub cores: Option<usize>,
    /// Whether the processor says that it is a virtual one.
    pub virtualised: Option<bool>,
}

/// The program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BuildFacts {
    /// poolbench's version.
    pub version: &'static str,
    /// Whether the program is optimised.
    pub profile: &'static str,
    /// Where the kernels' PTX came from.
    pub ptx: &'static str,
}

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
        let own = std::process::id();
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
            other_processes: gpu
                .running_compute_processes()
                .ok()
                .map(|processes| processes.iter().filter(|process| process.pid != own).count()),
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
        BuildFacts {
            version: env!("CARGO_PKG_VERSION"),
            profile,
            ptx: PTX_ORIGIN,
        }
    }
}
