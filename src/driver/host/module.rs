//! Modules: loading, their kernels and globals, what kernels say of themselves, and their launch.

use super::api::{answer, handle, number, put};
use super::device::{DEVICE, HostDevice};
use super::kernel::{self, Launch, Twin};
use super::stream::Operation;
use crate::driver::Code;
use cust::sys::{CUdeviceptr, CUfunction, CUmodule, CUstream};
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

implement! {
    cuModuleLoad, cuModuleLoadData, cuModuleLoadDataEx, cuModuleGetFunction, cuModuleGetGlobal_v2, cuModuleUnload,
    cuFuncGetAttribute, cuLaunchKernel,
}

/// A kernel of a module, which goes with it.
#[derive(PartialEq)]
pub(super) struct Function {
    module: u64,
    twin: &'static Twin,
}

impl HostDevice {
    pub(super) fn load_module(&self, image: &str) -> Result<u64, Code> {
        let mut state = self.in_context()?;
        kernel::check_ptx(image)?;
        let id = state.new_handle();
        state.modules.insert(id, Arc::from(image));
        Ok(id)
    }

    pub(super) fn unload_module(&self, id: u64) -> Result<(), Code> {
        let mut state = self.in_context()?;
        state.modules.remove(&id).ok_or(Code::INVALID_HANDLE)?;
        state.functions.retain(|_, function| function.module != id);
        Ok(())
    }

    pub(super) fn check_module(&self, id: u64) -> Result<(), Code> {
        let state = self.in_context()?;
        state.modules.get(&id).map(drop).ok_or(Code::INVALID_HANDLE)
    }

    pub(super) fn function_of(&self, module: u64, name: &str) -> Result<u64, Code> {
        let mut state = self.in_context()?;
        let image = state.modules.get(&module).cloned().ok_or(Code::INVALID_HANDLE)?;
        let function = Function {
            module,
            twin: kernel::twin(&image, name)?,
        };
        let known = state.functions.iter().find(|(_, known)| **known == function);
        if let Some((id, _)) = known {
            return Ok(*id);
        }
        let id = state.new_handle();
        state.functions.insert(id, function);
        Ok(id)
    }

    pub(super) fn function(&self, id: u64) -> Result<&'static Twin, Code> {
        let state = self.in_context()?;
        let function = state.functions.get(&id).ok_or(Code::INVALID_HANDLE)?;
        Ok(function.twin)
    }
}

unsafe extern "C" fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) -> c_int {
    if image.is_null() {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: an image that is text ends with a zero byte, as the driver demands.
    let text = unsafe { CStr::from_ptr(image.cast::<c_char>()) };
    let loaded = text
        .to_str()
        .map_err(|_| Code::INVALID_IMAGE)
        .and_then(|text| DEVICE.load_module(text));
    // SAFETY: the caller's pointer.
    unsafe { put(module, loaded.map(handle)) }
}

unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut CUmodule,
    image: *const c_void,
    _: c_uint,
    _: *mut c_uint,
    _: *mut *mut c_void,
) -> c_int {
    // The options steer the compiler, which the host device has no use for.
    // SAFETY: the same arguments.
    unsafe { cuModuleLoadData(module, image) }
}

unsafe extern "C" fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) -> c_int {
    if name.is_null() {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: a C string, as the driver demands.
    let name = unsafe { CStr::from_ptr(name) };
    let found = name
        .to_str()
        .map_err(|_| Code::NOT_FOUND)
        .and_then(|name| DEVICE.function_of(number(module), name));
    // SAFETY: the caller's pointer.
    unsafe { put(function, found.map(handle)) }
}

unsafe extern "C" fn cuModuleUnload(module: CUmodule) -> c_int {
    answer(DEVICE.unload_module(number(module)))
}

unsafe extern "C" fn cuModuleLoad(module: *mut CUmodule, path: *const c_char) -> c_int {
    if path.is_null() || module.is_null() {
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: a C string, as the driver demands.
    let path = unsafe { CStr::from_ptr(path) };
    let Ok(text) = std::fs::read(OsStr::from_bytes(path.to_bytes())) else {
        return Code::FILE_NOT_FOUND.0;
    };
    let Ok(image) = CString::new(text) else {
        return Code::INVALID_IMAGE.0;
    };
    // SAFETY: the image ends with a zero byte.
    unsafe { cuModuleLoadData(module, image.as_ptr().cast::<c_void>()) }
}

/// The kernels have no globals: every name is unknown.
unsafe extern "C" fn cuModuleGetGlobal_v2(
    address: *mut CUdeviceptr,
    _size_bytes: *mut usize,
    module: CUmodule,
    _name: *const c_char,
) -> c_int {
    let found = DEVICE.check_module(number(module)).and(Err(Code::NOT_FOUND));
    // SAFETY: the caller's pointer.
    unsafe { put(address, found) }
}

unsafe extern "C" fn cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: CUfunction) -> c_int {
    let seen = DEVICE.function(number(function)).and(match attribute {
        0 => Ok(1024), // threads of a block
        // No shared, constant or local memory, no registers, no binary.
        1..=15 => Ok(0),
        _ => Err(Code::INVALID_VALUE),
    });
    // SAFETY: the caller's pointer.
    unsafe { put(value, seen) }
}

/// Shared memory of a block that a kernel gets without asking for more beforehand.
const SHARED_BYTES_MAX: c_uint = 48 << 10;

#[allow(clippy::too_many_arguments, reason = "the driver's own signature")]
unsafe extern "C" fn cuLaunchKernel(
    function: CUfunction,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: CUstream,
    parameters: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> c_int {
    let product = |factors: [c_uint; 3]| factors.into_iter().map(u64::from).product::<u64>();
    let (grid, block) = (product([grid_x, grid_y, grid_z]), product([block_x, block_y, block_z]));
    let twin = match DEVICE.function(number(function)) {
        Ok(twin) => twin,
        Err(code) => return code.0,
    };
    let is_too_large = block > 1024 || grid_x > i32::MAX.cast_unsigned() || shared_bytes > SHARED_BYTES_MAX;
    if grid == 0 || block == 0 || is_too_large || parameters.is_null() {
        // As the driver does, and only for this of all wrong arguments.
        DEVICE.invalidate_capture(number(stream));
        return Code::INVALID_VALUE.0;
    }
    // SAFETY: `parameters` has a pointer for each of the kernel's arguments, as the driver demands.
    let launch = unsafe { Launch::new(twin, parameters, grid.saturating_mul(block)) };
    answer(DEVICE.submit(number(stream), Operation::Kernel(launch)).map(drop))
}
