//! `poolbench doctor`: what is measured, what is supported, and what would spoil a measurement.

use super::output::{failed, print};
use poolbench::counted::counted;
use poolbench::cuda::{Device, Kernels, MemoryPool};
use poolbench::driver;
use poolbench::environment::{DeviceFacts, Environment, GpuFacts, HostFacts};
use poolbench::strategy;
use std::fmt::Write as _;
use std::process::ExitCode;

pub(super) fn run() -> ExitCode {
    match examine() {
        Ok(code) => code,
        Err(message) => failed(&message),
    }
}

fn examine() -> Result<ExitCode, String> {
    let device = Device::from_environment().map_err(|error| error.to_string())?;
    let environment = Environment::of(&device);
    // Before the probe: should the device hang in it, what it is has been said.
    print(&format!("poolbench: {device}\n{}", facts(&environment)))?;
    let failures = probe(&device);
    let doubts = doubts(&environment);
    let mut found: String = failures
        .iter()
        .chain(&doubts)
        .map(|line| format!("! {line}\n"))
        .collect();
    if found.is_empty() {
        found.push_str("Nothing would spoil a measurement.\n");
    }
    print(&found)?;
    // Without pools the other strategies can still be measured; without kernels nothing can.
    Ok(if failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(3)
    })
}

fn facts(environment: &Environment) -> String {
    let Environment {
        device,
        gpu,
        host,
        build,
        toolkit,
        ..
    } = environment;
    let mut text = String::new();
    let mut line = |heading: &str, value: String| {
        let _ = writeln!(text, "{heading:<12}{value}");
    };
    line("device", device_line(device));
    if let Some(gpu) = gpu {
        line("settings", gpu_line(gpu));
    }
    line("supports", supports(device));
    line("host", host_line(host));
    line(
        "build",
        format!(
            "poolbench {}, {} profile, kernels from {}",
            build.version, build.profile, toolkit.ptx_origin
        ),
    );
    line(
        "strategies",
        strategy::ALL
            .iter()
            .map(|kind| kind.name)
            .collect::<Vec<_>>()
            .join(", "),
    );
    text
}

fn known<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(|| String::from("unknown"), ToString::to_string)
}

fn device_line(device: &DeviceFacts) -> String {
    #[allow(clippy::cast_precision_loss, reason = "for display")]
    let memory = device.memory_bytes.map_or_else(
        || String::from("unknown"),
        |bytes| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    );
    let mut line = format!("{}, {memory}", device.name);
    for (name, value) in [
        ("compute capability", &device.compute_capability),
        ("driver", &device.driver_version),
        ("", &device.uuid),
    ] {
        if let Some(value) = value {
            let _ = write!(line, ", {name}{}{value}", if name.is_empty() { "" } else { " " });
        }
    }
    line
}

fn on_off(value: Option<bool>) -> &'static str {
    match value {
        Some(true) => "on",
        Some(false) => "off",
        None => "unknown",
    }
}

fn gpu_line(gpu: &GpuFacts) -> String {
    format!(
        "ECC {}, MIG {}, persistence {}, power limit {} W, SM clock {} of {} MHz, {} °C",
        on_off(gpu.ecc_enabled),
        on_off(gpu.mig_enabled),
        on_off(gpu.persistence_mode),
        known(gpu.power_limit_w.as_ref()),
        known(gpu.sm_clock_mhz.as_ref()),
        known(gpu.sm_clock_max_mhz.as_ref()),
        known(gpu.temperature_c.as_ref()),
    )
}

fn supports(device: &DeviceFacts) -> String {
    let features = [
        ("memory pools", device.memory_pools),
        ("managed memory", device.managed_memory),
        ("virtual memory management", device.virtual_memory_management),
    ];
    features
        .map(|(name, has)| format!("{}{name}", if has { "" } else { "no " }))
        .join(", ")
}

fn host_line(host: &HostFacts) -> String {
    format!(
        "{}, {}, {}, kernel {}{}",
        known(host.cpu.as_ref()),
        counted(known(host.cores.as_ref()), "core"),
        known(host.os.as_ref()),
        known(host.kernel.as_ref()),
        if host.virtualised == Some(true) {
            ", virtualised"
        } else {
            ""
        }
    )
}

/// Tries what every benchmark needs. A line for each that fails.
fn probe(device: &Device) -> Vec<String> {
    let kernels = Kernels::load()
        .and_then(Kernels::close)
        .map_err(|error| format!("the kernels do not load: {error}"));
    let pools = if device.supports_memory_pools() {
        let made = MemoryPool::create(device).and_then(MemoryPool::close);
        made.map_err(|error| format!("the device says that it has memory pools, but: {error}"))
    } else {
        Ok(())
    };
    [kernels, pools].into_iter().filter_map(Result::err).collect()
}

/// What to do to measure a GPU instead of the host device.
fn not_a_gpu() -> String {
    if driver::reports_no_device() {
        return format!(
            "this is not a GPU: the NVIDIA driver is there, but reports no device; {}",
            driver::no_device_remedy()
        );
    }
    String::from("this is not a GPU: install the NVIDIA driver (nvidia-smi must list a device) to measure one")
}

/// What would spoil a measurement, each with the remedy.
fn doubts(environment: &Environment) -> Vec<String> {
    let Environment {
        device,
        gpu,
        host,
        build,
        ..
    } = environment;
    let mut doubts = Vec::new();
    let mut doubt = |applies: bool, text: &str| {
        if applies {
            doubts.push(text.to_owned());
        }
    };
    doubt(device.name == "host", &not_a_gpu());
    doubt(
        !device.memory_pools,
        "no memory pools: stream-ordered strategies are skipped; they need driver 460 or newer and a device that supports them (not every vGPU does)",
    );
    doubt(
        build.profile == "debug",
        "this is a debug build: measure with cargo bench, or run cargo poolbench",
    );
    doubt(
        host.virtualised == Some(true),
        "the host is virtualised: host-bound times (small sizes) vary by tens of percent; compare ratios of one run, not times of two",
    );
    doubt(
        host.cores == Some(1),
        "one processor: the submitting thread shares it with everything else",
    );
    if device.name != "host" && gpu.is_none() {
        doubt(
            true,
            "NVML does not answer: clocks, ECC and other processes cannot be seen; install libnvidia-ml.so.1",
        );
    }
    if let Some(gpu) = gpu {
        doubt(
            gpu.persistence_mode == Some(false),
            "persistence mode is off: the first call of each process is slow; an administrator can run nvidia-smi -pm 1",
        );
        doubt(
            gpu.mig_enabled == Some(true),
            "MIG is on: only a part of the GPU is measured",
        );
        doubt(
            gpu.other_processes.is_some_and(|count| count > 0),
            "other processes use the GPU: stop them (nvidia-smi lists them)",
        );
        doubt(
            gpu.temperature_c.is_some_and(|temperature| temperature >= 85),
            "the GPU is hot and may lower its clocks: let it cool",
        );
    }
    doubts
}
