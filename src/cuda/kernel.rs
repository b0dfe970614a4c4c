//! The kernels of the scratch loop.

use super::error::{Result, check, report_failed_drop, through_cust};
use super::{DevicePtr, Stream};
use crate::driver::{Function, api};
use cust::module::Module;
use cust::sys::CUfunction;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// `kernels/scratch.cu` as PTX, by nvcc at build time or as committed.
pub const PTX: &str = include_str!(concat!(env!("OUT_DIR"), "/scratch.ptx"));

/// Where the PTX came from: the nvcc that made it, or `committed PTX`.
pub const PTX_ORIGIN: &str = env!("POOLBENCH_PTX_ORIGIN");

/// Threads of a block. Eight warps keep a multiprocessor's memory pipes full with few blocks.
const BLOCK_THREADS: u64 = 256;

/// The loaded kernels. Their effect is described in `kernels/scratch.cu`.
#[derive(Debug)]
pub struct Kernels {
    /// Unloaded with the last of those that share it.
    module: Arc<LoadedModule>,
    fill: CUfunction,
    accumulate: CUfunction,
}

/// A module, and the context that it was loaded into where it is shared.
#[derive(Debug)]
struct LoadedModule {
    /// `None` once it is unloaded.
    module: Option<Module>,
    context: Option<usize>,
}

impl LoadedModule {
    fn unload(&mut self) -> Result<()> {
        let Some(module) = self.module.take() else {
            return Ok(());
        };
        through_cust(Function::cuModuleUnload, || {
            Module::drop(module).map_err(|(error, module)| {
                // A second attempt from its destructor would only fail again.
                std::mem::forget(module);
                error
            })
        })
    }
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        report_failed_drop("kernel module", self.unload());
    }
}

/// The module that [`Kernels::shared`] gives out as long as somebody has it.
static SHARED: Mutex<Weak<LoadedModule>> = Mutex::new(Weak::new());

impl Kernels {
    /// Loads the kernels onto the current device.
    ///
    /// # Errors
    ///
    /// The driver's refusal; code 222 where the driver is older than the PTX, with the remedy.
    pub fn load() -> Result<Kernels> {
        Kernels::load_into(None)
    }

    /// The kernels that others in this process have loaded onto the current device, else loads them. Loading
    /// makes machine code of the PTX, which takes longer than most cases take to be measured.
    ///
    /// # Errors
    ///
    /// As [`Kernels::load`].
    pub fn shared() -> Result<Kernels> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let context = Some(current_context()?);
        if let Some(module) = shared.upgrade().filter(|module| module.context == context) {
            return Kernels::of(module);
        }
        let kernels = Kernels::load_into(context)?;
        *shared = Arc::downgrade(&kernels.module);
        Ok(kernels)
    }

    fn load_into(context: Option<usize>) -> Result<Kernels> {
        let module = through_cust(Function::cuModuleLoadDataEx, || Module::from_ptx(PTX, &[]))?;
        Kernels::of(Arc::new(LoadedModule {
            module: Some(module),
            context,
        }))
    }

    fn of(module: Arc<LoadedModule>) -> Result<Kernels> {
        let loaded = module.module.as_ref().expect("there until the last owner goes");
        let function = |name| {
            through_cust(Function::cuModuleGetFunction, || {
                loaded.get_function(name).map(|function| function.to_raw())
            })
        };
        let (fill, accumulate) = (function("fill")?, function("accumulate")?);
        Ok(Kernels {
            module,
            fill,
            accumulate,
        })
    }

    /// `scratch[i] = scale * input[i]` for `length` elements, in stream order.
    ///
    /// Both ranges are to be allocated until the kernel has run, and aligned to 16 bytes. Nobody checks that
    /// here: where it is not so, the device reports it in a later call
    /// ([`ILLEGAL_ADDRESS`](crate::driver::Code::ILLEGAL_ADDRESS) or
    /// [`MISALIGNED_ADDRESS`](crate::driver::Code::MISALIGNED_ADDRESS)), or the kernel works on what else the device
    /// has there.
    ///
    /// # Errors
    ///
    /// The driver's refusal of the launch.
    #[inline]
    pub fn fill(&self, stream: &Stream, scratch: DevicePtr, input: DevicePtr, length: usize, scale: f32) -> Result<()> {
        let (mut scratch, mut input, mut length, mut scale) = (scratch.raw(), input.raw(), length as u64, scale);
        let threads = threads_for(length);
        let mut arguments = [
            (&raw mut scratch).cast::<c_void>(),
            (&raw mut input).cast::<c_void>(),
            (&raw mut length).cast::<c_void>(),
            (&raw mut scale).cast::<c_void>(),
        ];
        launch(self.fill, stream, threads, &mut arguments)
    }

    /// `output[i] += scratch[i]` for `length` elements, in stream order. What is said of the ranges of
    /// [`fill`](Kernels::fill) is said of these.
    ///
    /// # Errors
    ///
    /// The driver's refusal of the launch.
    #[inline]
    pub fn accumulate(&self, stream: &Stream, output: DevicePtr, scratch: DevicePtr, length: usize) -> Result<()> {
        let (mut output, mut scratch, mut length) = (output.raw(), scratch.raw(), length as u64);
        let threads = threads_for(length);
        let mut arguments = [
            (&raw mut output).cast::<c_void>(),
            (&raw mut scratch).cast::<c_void>(),
            (&raw mut length).cast::<c_void>(),
        ];
        launch(self.accumulate, stream, threads, &mut arguments)
    }

    /// A planted fault: `fill` adds to what the scratch buffer holds instead of replacing it.
    #[cfg(test)]
    pub(crate) fn with_faulty_fill(self) -> Kernels {
        Kernels {
            fill: self.accumulate,
            ..self
        }
    }

    /// Unloads the kernels, unless others share them.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn close(self) -> Result<()> {
        Arc::into_inner(self.module).map_or(Ok(()), |mut last| last.unload())
    }
}

/// The current context, as a number to compare.
fn current_context() -> Result<usize> {
    let mut context = std::ptr::null_mut();
    // SAFETY: `context` is a valid place for a handle.
    check(Function::cuCtxGetCurrent, unsafe {
        api::cuCtxGetCurrent(&raw mut context)
    })?;
    Ok(context as usize)
}

/// One thread for each group of four elements and one for each that is left over; at least one, since
/// a launch of none is an error.
fn threads_for(length: u64) -> u64 {
    (length / 4 + length % 4).max(1)
}

/// Launches a kernel of `kernels/scratch.cu`, whose arguments these are.
#[inline]
fn launch(function: CUfunction, stream: &Stream, threads: u64, arguments: &mut [*mut c_void]) -> Result<()> {
    let blocks = threads.div_ceil(BLOCK_THREADS);
    // Beyond the grid's limit of 2^31 - 1 blocks the driver refuses, which is what is wanted.
    let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
    // SAFETY: the function is one of a module that is loaded, since the caller is its owner. `arguments` points
    // to one live value for each of the kernel's parameters, in their order and of their sizes, and the driver
    // copies them before it returns. What the kernel then reads and writes is the device's memory: an address is
    // a `DevicePtr`, which only the driver's allocations hand out, and to whose memory no Rust reference leads,
    // since the host gets at it by copies through the driver alone. So a range that was freed meanwhile, or that
    // another stream uses, spoils numbers, which every workload checks, or is an error of the device's, but nothing
    // of Rust's. Taken on trust is that offsets and lengths stay inside their allocations: beyond them a device
    // that reaches the host's memory as well (HMM, ATS) could come to what is Rust's. They are the workloads' own,
    // made of the sizes that they allocate, and the sanitizer checks them (CONTRIBUTING, "Check on a GPU").
    let code = unsafe {
        api::cuLaunchKernel(
            function,
            blocks,
            1,
            1,
            BLOCK_THREADS as u32,
            1,
            1,
            0,
            stream.raw(),
            arguments.as_mut_ptr(),
            std::ptr::null_mut(),
        )
    };
    check(Function::cuLaunchKernel, code)
}

/// What brought a version of PTX.
struct PtxRelease {
    /// As PTX says it in its `.version`.
    version: &'static str,
    /// The CUDA release.
    cuda: &'static str,
    /// The driver branch: older ones do not take it.
    driver: u32,
}

const fn release(version: &'static str, cuda: &'static str, driver: u32) -> PtxRelease {
    PtxRelease { version, cuda, driver }
}

/// Every version that nvcc gave PTX for the targets of this suite. Source: PTX ISA, release history; for 6.3 and
/// 7.0, whose branches there were never released, the driver of the CUDA toolkit's release notes.
const PTX_RELEASES: [PtxRelease; 25] = [
    release("6.3", "10.0", 410),
    release("6.4", "10.1", 418),
    release("6.5", "10.2", 440),
    release("7.0", "11.0", 450),
    release("7.1", "11.1", 455),
    release("7.2", "11.2", 460),
    release("7.3", "11.3", 465),
    release("7.4", "11.4", 470),
    release("7.5", "11.5", 495),
    release("7.6", "11.6", 510),
    release("7.7", "11.7", 515),
    release("7.8", "11.8", 520),
    release("8.0", "12.0", 525),
    release("8.1", "12.1", 530),
    release("8.2", "12.2", 535),
    release("8.3", "12.3", 545),
    release("8.4", "12.4", 550),
    release("8.5", "12.5", 555),
    release("8.6", "12.7", 565),
    release("8.7", "12.8", 570),
    release("8.8", "12.9", 575),
    release("9.0", "13.0", 580),
    release("9.1", "13.1", 590),
    release("9.2", "13.2", 595),
    release("9.3", "13.3", 610),
];

/// What PTX of a version needs, in words that follow it; nothing where nobody knows.
fn needed_for(version: &str) -> String {
    let known = PTX_RELEASES.iter().find(|release| release.version == version);
    known.map_or_else(String::new, |PtxRelease { cuda, driver, .. }| {
        format!(", which needs driver {driver} or newer (CUDA {cuda})")
    })
}

/// What a driver that is older than the PTX is told: which driver is needed, and how to do without.
pub(super) fn newer_driver_needed() -> String {
    let version = PTX
        .lines()
        .find_map(|line| line.strip_prefix(".version "))
        .unwrap_or("?")
        .trim();
    format!(
        "; the kernels are PTX {version} ({PTX_ORIGIN}){}: upgrade the driver, build with the nvcc of this driver's \
         CUDA release (NVCC=/path/to/nvcc cargo bench), or build with the committed PTX, which old drivers take (NVCC=none cargo bench)",
        needed_for(version)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::Device;

    #[test]
    fn threads_cover_every_length() {
        // Twelve elements: three groups. Fifteen: three groups and three left over.
        assert_eq!([0, 1, 3, 4, 12, 15].map(threads_for), [1, 1, 3, 1, 3, 6]);
    }

    /// Numbers of NVIDIA's release history; a version that is not there names no driver.
    #[test]
    fn the_driver_that_ptx_needs_is_that_of_its_own_release() {
        for (version, needed) in [
            ("8.3", ", which needs driver 545 or newer (CUDA 12.3)"),
            ("8.6", ", which needs driver 565 or newer (CUDA 12.7)"),
            ("8.8", ", which needs driver 575 or newer (CUDA 12.9)"),
            ("9.0", ", which needs driver 580 or newer (CUDA 13.0)"),
            ("8.9", ""),
            ("99.0", ""),
            ("?", ""),
        ] {
            assert_eq!(needed_for(version), needed, "{version}");
        }
        let committed = include_str!("../../kernels/ptx/scratch.ptx").lines();
        let version = committed.filter_map(|line| line.strip_prefix(".version ")).next();
        let version = version.expect("PTX says its version").trim();
        assert_ne!(needed_for(version), "", "{version}, as committed");
    }

    #[test]
    fn shared_kernels_are_one_module_as_long_as_somebody_has_them() {
        let _device = Device::from_environment().expect("a device, if only the host device");
        let first = Kernels::shared().expect("the kernels load");
        let second = Kernels::shared().expect("they are there");
        assert!(Arc::ptr_eq(&first.module, &second.module));
        let apart = Kernels::load().expect("the kernels load");
        assert!(!Arc::ptr_eq(&first.module, &apart.module));
        first.close().expect("others have them still");
        let third = Kernels::shared().expect("they are there");
        assert!(Arc::ptr_eq(&second.module, &third.module));
        for kernels in [second, third, apart] {
            kernels.close().expect("nothing runs");
        }
    }
}
