//! Modules beyond loading from memory: from a file, their globals, and what kernels say of themselves.

use super::api::{cuModuleLoadData, number, put};
use super::device::DEVICE;
use crate::driver::Code;
use cust::sys::{CUdeviceptr, CUfunction, CUmodule};
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt as _;

implement! { cuModuleLoad, cuModuleGetGlobal_v2, cuFuncGetAttribute }

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
