//! What machine this is: the GPU and its settings, the driver, the host, the build.
//!
//! What a machine does not tell is `None`. The types are plain data, which baselines carry; only
//! [`Environment::of`] and [`Monitor`] look at a machine.

mod difference;
mod look;
mod monitor;

pub use difference::{FieldDifference, field_differences};
pub use monitor::{DeviceState, Monitor};

use serde::{Deserialize, Serialize};

/// Everything that a result depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The device that is measured.
    pub device: DeviceFacts,
    /// What NVML says of the GPU; `None` on the host device and where NVML is not there.
    pub gpu: Option<GpuFacts>,
    /// The machine that submits the work.
    pub host: HostFacts,
    /// The program.
    pub build: BuildFacts,
    /// Where the kernels come from.
    #[serde(default)]
    pub toolkit: ToolkitFacts,
    /// The default pool as the driver gives it; `None` without pools.
    #[serde(default)]
    pub pool: Option<PoolFacts>,
}

/// What the driver says of the device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BuildFacts {
    /// poolbench's version.
    pub version: String,
    /// The commit that was checked out when it was built; `None` outside a checkout.
    pub commit: Option<String>,
    /// The compiler, as `1.95.0`.
    pub rustc: Option<String>,
    /// `release` or `debug`.
    pub profile: String,
    /// The version of what the ids mean: it is raised whenever a case measures something else under its
    /// old id.
    pub case_definitions: u32,
}

/// Where the kernels come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolkitFacts {
    /// As `nvcc 13.0 for compute_75`, or `committed PTX`.
    pub ptx_origin: String,
    /// The PTX version, as `9.0`.
    pub ptx_isa: Option<String>,
    /// SHA-256 of the PTX's code, in hexadecimal; comments, the version, and line tables, which name the
    /// folder of the build, are left out.
    pub ptx_sha256: String,
}

/// The default pool's attributes, before anything has changed them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolFacts {
    /// What a synchronise lets the pool keep.
    pub release_threshold_bytes: u64,
    /// `CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES`.
    pub reuse_follow_event_dependencies: bool,
    /// `CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC`.
    pub reuse_allow_opportunistic: bool,
    /// `CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES`.
    pub reuse_allow_internal_dependencies: bool,
}
