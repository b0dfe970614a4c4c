//! What usually helps where a driver does not start or a device does not open.

use super::Code;
use std::borrow::Cow;

/// Hides devices from the driver: it sees only what the value lists.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// What usually helps, empty or beginning with `; `.
#[must_use]
pub fn hint(code: Code) -> Cow<'static, str> {
    let text = match code.0 {
        2 => {
            "; the GPU's memory is full: stop the processes that nvidia-smi lists, or take another GPU with POOLBENCH_DEVICE=cuda:N"
        }
        34 => {
            "; this is the CUDA toolkit's stub, not a driver: install the NVIDIA driver, or remove the stub from the library path"
        }
        46 => {
            "; another process has the GPU to itself: stop it (nvidia-smi lists it), or leave the exclusive compute mode (nvidia-smi -c DEFAULT)"
        }
        100 => {
            return Cow::Owned(format!(
                "; {}, or use POOLBENCH_DEVICE=host",
                where_are_devices(visible().as_deref())
            ));
        }
        101 => {
            "; check that nvidia-smi -L lists the GPU, and that CUDA_VISIBLE_DEVICES and MIG name what is there, or restart the machine"
        }
        102 => "; the GPU has no licence: a vGPU needs one from its licence server",
        304 => {
            "; the operating system refused the driver something: check that /dev/nvidia* can be opened (in a container: that it was given the GPU), the limits (ulimit -a) and the kernel log (dmesg)"
        }
        802 => "; the system is not ready (on NVSwitch machines the fabric manager must run)",
        803 => {
            "; this library does not belong to the kernel driver that runs: reboot after the upgrade, or choose the matching libcuda.so"
        }
        804 => "; forward compatibility is not supported on this device: use the driver's own libcuda.so",
        805..=807 | 810 => {
            "; the MPS server does not answer: start it again (nvidia-cuda-mps-control -d), or measure without it"
        }
        808 | 809 => "; the MPS server has as many clients as it takes: stop some, or measure without it",
        999 => "; look for driver messages in the kernel log (dmesg)",
        _ => "",
    };
    Cow::Borrowed(text)
}

/// What hides devices from this process, where something may: the variable with its value.
pub(super) fn hidden_by() -> Option<String> {
    visible().map(|value| format!("{VISIBLE}={value:?}"))
}

/// What to look at where the driver reports no device.
#[must_use]
pub fn no_device_remedy() -> String {
    where_are_devices(visible().as_deref())
}

fn visible() -> Option<String> {
    std::env::var_os(VISIBLE).map(|value| value.to_string_lossy().into_owned())
}

fn where_are_devices(visible: Option<&str>) -> String {
    match visible {
        Some(value) => format!("{VISIBLE}={value:?} hides every GPU that it does not list: unset it or list one"),
        None => String::from("check that nvidia-smi lists a GPU (in a container: that it was given one)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_a_device_from_opening_has_a_remedy() {
        for code in [
            2, 34, 46, 100, 101, 102, 304, 802, 803, 804, 805, 806, 807, 808, 809, 810, 999,
        ] {
            assert!(hint(Code(code)).starts_with("; "), "{code}");
        }
        assert_eq!(hint(Code(4711)), "");
    }

    #[test]
    fn a_variable_that_hides_devices_is_named_with_its_value() {
        let text = where_are_devices(Some(""));
        assert!(text.starts_with("CUDA_VISIBLE_DEVICES=\"\" hides"), "{text}");
        assert!(!where_are_devices(None).contains("CUDA_VISIBLE_DEVICES"));
    }
}
