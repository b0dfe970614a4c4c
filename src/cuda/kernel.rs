//! The kernels of the scratch loop.

use super::error::{Result, check, through_cust};
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
    module: Option<Module>,
    context: Option<usize>,
}

// SAFETY: a module's handle belongs to a context, not to a thread, and is only used to unload it, once.
unsafe impl Send for LoadedModule {}
// SAFETY: as above; nothing changes it while it is shared.
unsafe impl Sync for LoadedModule {}

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
    /// # Errors
    ///
    /// The driver's refusal of the launch. Both ranges must be allocated, and aligned to 16 bytes.
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

    /// `output[i] += scratch[i]` for `length` elements, in stream order.
    ///
    /// # Errors
    ///
    /// The driver's refusal of the launch. Both ranges must be allocated, and aligned to 16 bytes.
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
        let Some(mut last) = Arc::into_inner(self.module) else {
            return Ok(());
        };
        let module = last.module.take().expect("taken only here");
        through_cust(Function::cuModuleUnload, || {
            Module::drop(module).map_err(|(error, module)| {
                // A second attempt from its destructor would only fail again.
                std::mem::forget(module);
                error
            })
        })
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

#[inline]
fn launch(function: CUfunction, stream: &Stream, threads: u64, arguments: &mut [*mut c_void]) -> Result<()> {
    let blocks = threads.div_ceil(BLOCK_THREADS);
    // Beyond the grid's limit of 2^31 - 1 blocks the driver refuses, which is what is wanted.
    let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
    // SAFETY: `arguments` points to one live value for each of the kernel's parameters, in their order
    // and of their sizes, and the driver copies them before it returns.
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

/// PTX ISA versions, the CUDA release that brought each, and the oldest driver that takes it.
/// Source: PTX ISA release history; CUDA toolkit release notes.
const PTX_RELEASES: &[((u32, u32), &str, u32)] = &[
    ((6, 3), "10.0", 410),
    ((7, 0), "11.0", 450),
    ((7, 8), "11.8", 520),
    ((8, 0), "12.0", 525),
    ((8, 4), "12.4", 550),
    ((8, 5), "12.5", 555),
    ((8, 7), "12.8", 570),
    ((9, 0), "13.0", 580),
];

/// What a driver that is older than the PTX is told: which driver is needed, and how to do without.
pub(super) fn newer_driver_needed() -> String {
    let version = PTX
        .lines()
        .find_map(|line| line.strip_prefix(".version "))
        .unwrap_or("?")
        .trim();
    let parsed = version
        .split_once('.')
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let needed = parsed.and_then(|parsed: (u32, u32)| PTX_RELEASES.iter().find(|(release, ..)| *release >= parsed));
    let needed = needed.map_or_else(String::new, |(_, cuda, driver)| {
        format!(", which needs driver {driver} or newer (CUDA {cuda})")
    });
    format!(
        "; the kernels are PTX {version} ({PTX_ORIGIN}){needed}: upgrade the driver, build with the nvcc of this driver's \
         CUDA release (NVCC=/path/to/nvcc cargo bench), or build with the committed PTX, which old drivers take (NVCC=none cargo bench)"
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
