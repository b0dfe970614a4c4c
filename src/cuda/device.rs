//! The device that is measured, and its context.

use super::error::{Error, Result, check, report_failed_drop, through_cust};
use crate::driver::{self, Backend, BindError, DeviceChoice, Function, api};
use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use thiserror::Error;

/// Why the device that was asked for cannot be used. One line each.
#[derive(Debug, Error)]
pub enum OpenError {
    /// `POOLBENCH_DEVICE` holds something else.
    #[error("POOLBENCH_DEVICE={0} is not a device; write auto, cuda:N (for example cuda:0) or host")]
    Choice(String),
    /// `POOLBENCH_FAULT` holds something else.
    #[cfg(feature = "fault-injection")]
    #[error(transparent)]
    Fault(#[from] driver::fault::InvalidFault),
    /// The driver cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The device is there but does not open.
    #[error("cannot use the device: {0}{hint}", hint = remedy(.0))]
    Device(#[from] Error),
}

/// What usually helps, as part of the line.
fn remedy(error: &Error) -> Cow<'static, str> {
    error.code().map_or(Cow::Borrowed(""), driver::hint)
}

/// Device attributes that decide what can be measured, by the driver's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Attribute {
    /// Compute capability, before the dot.
    ComputeCapabilityMajor = 75,
    /// Compute capability, after the dot.
    ComputeCapabilityMinor = 76,
    /// Number of multiprocessors.
    MultiprocessorCount = 16,
    /// Whether error correction is on.
    EccEnabled = 32,
    /// Whether managed memory works.
    ManagedMemory = 83,
    /// Whether host and device may use managed memory at the same time.
    ConcurrentManagedAccess = 89,
    /// Whether virtual memory management works.
    VirtualMemoryManagement = 102,
    /// Whether stream-ordered allocation works.
    MemoryPools = 115,
}

/// Device memory in bytes, as the driver counts it, other processes included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// What can still be allocated.
    pub free_bytes: usize,
    /// What there is.
    pub total_bytes: usize,
}

/// The measured device with its primary context, current on the thread that opened it. Cheap to clone.
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

struct Inner {
    backend: Backend,
    device: cust::device::Device,
    context: RetainedContext,
    name: String,
    cuda_version: i32,
}

/// The device's primary context, `None` once it was given back.
struct RetainedContext(Option<cust::context::Context>);

impl RetainedContext {
    fn release(&mut self) -> Result<()> {
        let Some(context) = self.0.take() else {
            return Ok(());
        };
        through_cust(Function::cuDevicePrimaryCtxRelease_v2, || {
            cust::context::Context::drop(context).map_err(|(error, context)| {
                // A second attempt from its destructor would only fail again.
                std::mem::forget(context);
                error
            })
        })
    }

    fn make_current(&self) -> Result<()> {
        through_cust(Function::cuCtxSetCurrent, || match &self.0 {
            Some(context) => cust::context::CurrentContext::set_current(context),
            // Nobody has a device whose context was given back.
            None => Err(cust::error::CudaError::ContextIsDestroyed),
        })
    }
}

impl Drop for RetainedContext {
    fn drop(&mut self) {
        report_failed_drop("device's context", self.release());
    }
}

impl Device {
    /// Opens the device that `POOLBENCH_DEVICE` asks for, through the library that `POOLBENCH_LIBCUDA`
    /// names.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]. Asking for a CUDA device is never answered with the host device.
    pub fn from_environment() -> std::result::Result<Device, OpenError> {
        #[cfg(feature = "fault-injection")]
        driver::fault::from_environment()?;
        let choice = std::env::var("POOLBENCH_DEVICE").unwrap_or_default();
        Device::open(parse_choice(&choice)?, driver::library::from_environment().as_deref())
    }

    /// Opens a device. The first call in a process decides which driver is bound.
    ///
    /// # Errors
    ///
    /// A driver that cannot be bound, or a device that does not open.
    pub fn open(choice: DeviceChoice, library: Option<&Path>) -> std::result::Result<Device, OpenError> {
        let backend = driver::bind(choice, library)?;
        Ok(Device::with_backend(backend)?)
    }

    fn with_backend(backend: Backend) -> Result<Device> {
        through_cust(Function::cuInit, || cust::init(cust::CudaFlags::empty()))?;
        let ordinal = match backend {
            Backend::Cuda { ordinal } => ordinal,
            Backend::Host => 0,
        };
        let device = through_cust(Function::cuDeviceGet, || cust::device::Device::get_device(ordinal))?;
        let name = through_cust(Function::cuDeviceGetName, || device.name())?;
        let context = through_cust(Function::cuDevicePrimaryCtxRetain, || {
            cust::context::Context::new(device)
        })?;
        let context = RetainedContext(Some(context));
        let mut cuda_version = 0;
        // SAFETY: `cuda_version` is a valid place for an int.
        check(Function::cuDriverGetVersion, unsafe {
            api::cuDriverGetVersion(&raw mut cuda_version)
        })?;
        Ok(Device {
            inner: Arc::new(Inner {
                backend,
                device,
                context,
                name,
                cuda_version,
            }),
        })
    }

    /// Gives the context back, if this is the device's last handle.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn close(self) -> Result<()> {
        Arc::into_inner(self.inner).map_or(Ok(()), |mut last| last.context.release())
    }

    /// Makes the device current on the calling thread; needed once on every other thread.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn make_current(&self) -> Result<()> {
        self.inner.context.make_current()
    }

    /// The device's name as the driver gives it; `host` for the host device.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The name as a folder: lower case, everything but letters and digits a dash (`nvidia-h200`).
    #[must_use]
    pub fn slug(&self) -> String {
        crate::slug::slug(&self.inner.name)
    }

    /// The device's UUID as nvidia-smi prints it: `GPU-` and 32 hexadecimal digits in five groups.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn uuid(&self) -> Result<String> {
        let mut uuid = cust::sys::CUuuid { bytes: [0; 16] };
        // SAFETY: `uuid` is a valid place for one.
        let code = unsafe { api::cuDeviceGetUuid(&raw mut uuid, self.raw()) };
        check(Function::cuDeviceGetUuid, code)?;
        let hex: String = uuid
            .bytes
            .iter()
            .map(|byte| format!("{:02x}", byte.cast_unsigned()))
            .collect();
        Ok(format!(
            "GPU-{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        ))
    }

    /// Whether this is the in-process host device.
    #[must_use]
    pub fn is_host(&self) -> bool {
        self.inner.backend == Backend::Host
    }

    /// The highest CUDA version that the driver supports, as (major, minor).
    #[must_use]
    pub fn cuda_version(&self) -> (i32, i32) {
        (self.inner.cuda_version / 1000, self.inner.cuda_version % 1000 / 10)
    }

    pub(crate) fn raw(&self) -> i32 {
        self.inner.device.as_raw()
    }

    /// The value of an attribute.
    ///
    /// # Errors
    ///
    /// The driver's refusal, for an attribute that it does not know.
    pub fn attribute(&self, attribute: Attribute) -> Result<i32> {
        let mut value = 0;
        // SAFETY: `value` is a valid place for an int.
        let code = unsafe { api::cuDeviceGetAttribute(&raw mut value, attribute as u32, self.raw()) };
        check(Function::cuDeviceGetAttribute, code)?;
        Ok(value)
    }

    /// Whether the device has stream-ordered allocation; false as well where the driver does not know
    /// the question.
    #[must_use]
    pub fn supports_memory_pools(&self) -> bool {
        self.attribute(Attribute::MemoryPools).is_ok_and(|value| value != 0)
    }

    /// Free and total device memory.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn memory_info(&self) -> Result<MemoryInfo> {
        let (free_bytes, total_bytes) = through_cust(Function::cuMemGetInfo_v2, cust::memory::mem_get_info)?;
        Ok(MemoryInfo {
            free_bytes,
            total_bytes,
        })
    }

    /// Waits for everything on the device.
    ///
    /// # Errors
    ///
    /// The driver's refusal, or an earlier asynchronous failure.
    pub fn synchronize(&self) -> Result<()> {
        through_cust(Function::cuCtxSynchronize, cust::context::CurrentContext::synchronize)
    }
}

impl fmt::Display for Device {
    /// What a run prints first: what is measured.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_host() {
            let reason = driver::fallback_reason().unwrap_or("POOLBENCH_DEVICE=host");
            return write!(f, "{reason}: measuring the host device; these are not GPU numbers");
        }
        let (major, minor) = self.cuda_version();
        write!(
            f,
            "{}, driver {}, CUDA {major}.{minor}",
            self.name(),
            driver::library_version().unwrap_or("of unknown version")
        )
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("name", &self.inner.name)
            .field("backend", &self.inner.backend)
            .finish_non_exhaustive()
    }
}

fn parse_choice(text: &str) -> std::result::Result<DeviceChoice, OpenError> {
    match text {
        "" | "auto" => Ok(DeviceChoice::Auto),
        "host" => Ok(DeviceChoice::Host),
        other => {
            let ordinal = other.strip_prefix("cuda:").and_then(|number| number.parse().ok());
            ordinal
                .map(DeviceChoice::Cuda)
                .ok_or_else(|| OpenError::Choice(other.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices() {
        assert_eq!(parse_choice("").expect("the default"), DeviceChoice::Auto);
        assert_eq!(parse_choice("cuda:3").expect("an ordinal"), DeviceChoice::Cuda(3));
        for wrong in ["cuda", "cuda:", "cuda:-1", "cuda:99999999999", "gpu", "Host"] {
            let error = parse_choice(wrong).expect_err(wrong).to_string();
            assert_eq!(
                error,
                format!("POOLBENCH_DEVICE={wrong} is not a device; write auto, cuda:N (for example cuda:0) or host")
            );
        }
    }
}
