//! The device's state while it is measured: clocks, heat, who else is there.

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::{Device, Nvml};
use serde::{Deserialize, Serialize};

/// The device at one moment. What it does not tell is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceState {
    /// Multiprocessor clock in MHz.
    pub sm_clock_mhz: Option<u32>,
    /// Memory clock in MHz.
    pub memory_clock_mhz: Option<u32>,
    /// Temperature in degrees Celsius.
    pub temperature_c: Option<u32>,
    /// Power draw in watts.
    pub power_w: Option<f64>,
    /// Why the clocks are below their highest, in NVML's words; empty where nothing holds them down.
    pub throttle_reasons: Vec<String>,
    /// Processes with a context on the GPU, this one aside.
    pub other_processes: Option<usize>,
    /// Processes that wanted a processor of the host over the last minute.
    pub load_average: Option<f64>,
}

/// Marks of a measurement that something disturbed.
impl DeviceState {
    /// What in this state spoils a measurement, as the marks of the samples taken in it.
    #[must_use]
    pub fn flags(&self) -> Vec<String> {
        let spoils = [
            "HW_SLOWDOWN",
            "HW_THERMAL_SLOWDOWN",
            "SW_THERMAL_SLOWDOWN",
            "HW_POWER_BRAKE_SLOWDOWN",
        ];
        let mut flags = Vec::new();
        if self
            .throttle_reasons
            .iter()
            .any(|reason| spoils.contains(&reason.as_str()))
        {
            flags.push(String::from("throttled"));
        }
        if self.other_processes.is_some_and(|processes| processes > 0) {
            flags.push(String::from("shared"));
        }
        flags
    }
}

/// Looks at one GPU through NVML; at nothing but the host where there is no GPU.
pub struct Monitor {
    nvml: Option<Nvml>,
    uuid: Option<String>,
}

impl Monitor {
    /// A monitor of the GPU with this UUID (`GPU-...`); without one, of the host alone.
    #[must_use]
    pub fn of(uuid: Option<&str>) -> Monitor {
        Monitor {
            nvml: uuid.and_then(|_| Nvml::init().ok()),
            uuid: uuid.map(str::to_owned),
        }
    }

    fn gpu(&self) -> Option<Device<'_>> {
        self.nvml.as_ref()?.device_by_uuid(self.uuid.as_deref()?).ok()
    }

    /// Looks at everything. Takes tens of milliseconds on some machines.
    #[must_use]
    pub fn look(&self) -> DeviceState {
        let mut state = self.glance();
        state.load_average = load_average();
        let Some(gpu) = self.gpu() else { return state };
        state.memory_clock_mhz = gpu.clock_info(Clock::Memory).ok();
        state.temperature_c = gpu.temperature(TemperatureSensor::Gpu).ok();
        state.power_w = gpu.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1000.0);
        state
    }

    /// Looks only at the clock and at what spoils a measurement: what holds the clock down, and who else is
    /// there. Takes tens of milliseconds on some machines.
    #[must_use]
    pub fn glance(&self) -> DeviceState {
        let Some(gpu) = self.gpu() else {
            return DeviceState::default();
        };
        let reasons = gpu.current_throttle_reasons().unwrap_or(ThrottleReasons::empty());
        DeviceState {
            sm_clock_mhz: gpu.clock_info(Clock::SM).ok(),
            throttle_reasons: reasons
                .iter_names()
                .map(|(name, _)| name.to_owned())
                .filter(|name| name != "GPU_IDLE" && name != "NONE")
                .collect(),
            other_processes: other_processes(&gpu),
            ..DeviceState::default()
        }
    }
}

/// Processes with a context on the GPU, this one aside; `None` where NVML does not tell.
pub(super) fn other_processes(gpu: &Device<'_>) -> Option<usize> {
    let own = std::process::id();
    let processes = gpu.running_compute_processes().ok()?;
    Some(processes.iter().filter(|process| process.pid != own).count())
}

fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg")
        .ok()?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_and_company_spoil_a_measurement_and_a_power_limit_does_not() {
        let flags = |reason: &str, other_processes| {
            let state = DeviceState {
                throttle_reasons: vec![reason.to_owned()],
                other_processes,
                ..DeviceState::default()
            };
            state.flags().join(" ")
        };
        // In NVML's words, so that a renamed constant is seen.
        for (reason, _) in ThrottleReasons::all().iter_names() {
            let spoils = reason.contains("SLOWDOWN");
            let expected = if spoils { "throttled" } else { "" };
            assert_eq!(flags(reason, None), expected, "{reason}");
        }
        assert_eq!(flags("SW_POWER_CAP", Some(0)), "");
        assert_eq!(flags("SW_THERMAL_SLOWDOWN", Some(2)), "throttled shared");
    }
}
