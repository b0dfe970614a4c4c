//! The driver's result codes, kept raw.
//!
//! cust's enum is CUDA 11.4's: a code it lacks would be undefined behaviour, and many that it has it
//! folds into `UnknownError`. Here a code stays the number that the driver returned.

use super::Function;
use std::cell::Cell;
use std::ffi::c_int;
use std::fmt;

/// A `CUresult` as the driver returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Code(pub i32);

impl Code {
    /// `CUDA_SUCCESS`.
    pub const SUCCESS: Code = Code(0);
    /// `CUDA_ERROR_INVALID_VALUE`.
    pub const INVALID_VALUE: Code = Code(1);
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    pub const OUT_OF_MEMORY: Code = Code(2);
    /// `CUDA_ERROR_NOT_INITIALIZED`.
    pub const NOT_INITIALIZED: Code = Code(3);
    /// `CUDA_ERROR_NO_DEVICE`.
    pub const NO_DEVICE: Code = Code(100);
    /// `CUDA_ERROR_INVALID_DEVICE`.
    pub const INVALID_DEVICE: Code = Code(101);
    /// `CUDA_ERROR_INVALID_IMAGE`.
    pub const INVALID_IMAGE: Code = Code(200);
    /// `CUDA_ERROR_INVALID_CONTEXT`.
    pub const INVALID_CONTEXT: Code = Code(201);
    /// `CUDA_ERROR_INVALID_PTX`.
    pub const INVALID_PTX: Code = Code(218);
    /// `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`.
    pub const UNSUPPORTED_PTX_VERSION: Code = Code(222);
    /// `CUDA_ERROR_FILE_NOT_FOUND`.
    pub const FILE_NOT_FOUND: Code = Code(301);
    /// `CUDA_ERROR_INVALID_HANDLE`.
    pub const INVALID_HANDLE: Code = Code(400);
    /// `CUDA_ERROR_ILLEGAL_STATE`.
    pub const ILLEGAL_STATE: Code = Code(401);
    /// `CUDA_ERROR_NOT_FOUND`.
    pub const NOT_FOUND: Code = Code(500);
    /// `CUDA_ERROR_NOT_READY`: an answer, not a failure.
    pub const NOT_READY: Code = Code(600);
    /// `CUDA_ERROR_ILLEGAL_ADDRESS`.
    pub const ILLEGAL_ADDRESS: Code = Code(700);
    /// `CUDA_ERROR_CONTEXT_IS_DESTROYED`: also what a destroyed stream or event answers.
    pub const CONTEXT_IS_DESTROYED: Code = Code(709);
    /// `CUDA_ERROR_MISALIGNED_ADDRESS`.
    pub const MISALIGNED_ADDRESS: Code = Code(716);
    /// `CUDA_ERROR_NOT_PERMITTED`.
    pub const NOT_PERMITTED: Code = Code(800);
    /// `CUDA_ERROR_NOT_SUPPORTED`.
    pub const NOT_SUPPORTED: Code = Code(801);
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`.
    pub const STREAM_CAPTURE_UNSUPPORTED: Code = Code(900);
    /// `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED`.
    pub const STREAM_CAPTURE_INVALIDATED: Code = Code(901);
    /// `CUDA_ERROR_CAPTURED_EVENT`.
    pub const CAPTURED_EVENT: Code = Code(907);
    /// `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD`.
    pub const STREAM_CAPTURE_WRONG_THREAD: Code = Code(908);
    /// `CUDA_ERROR_UNKNOWN`.
    pub const UNKNOWN: Code = Code(999);

    /// Whether a call was refused because of a stream capture.
    #[must_use]
    pub fn refuses_capture(self) -> bool {
        (Code::STREAM_CAPTURE_UNSUPPORTED.0..=Code::STREAM_CAPTURE_WRONG_THREAD.0).contains(&self.0)
    }

    /// The driver header's name for this code, `None` for one that CUDA 13.0's lacks.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        NAMES
            .binary_search_by_key(&self.0, |(code, _)| *code)
            .ok()
            .map(|index| NAMES[index].1)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({})",
            self.name().unwrap_or("a code that poolbench does not know"),
            self.0
        )
    }
}

thread_local! {
    static FIRST_FAILURE: Cell<Option<(Function, Code)>> = const { Cell::new(None) };
}

/// Turns the driver's code into one that cust's enum holds, and remembers the original.
pub(super) fn for_cust(function: Function, code: c_int) -> c_int {
    if code == 0 {
        return code;
    }
    // Of several, as when a destructor tries again, the first is the one to report.
    let first = FIRST_FAILURE.get().unwrap_or((function, Code(code)));
    FIRST_FAILURE.set(Some(first));
    if UNKNOWN_TO_CUST.contains(&code) || Code(code).name().is_none() {
        Code::UNKNOWN.0
    } else {
        code
    }
}

/// Takes the first code other than success that a call made through cust returned on this thread since
/// this was last asked.
///
/// cust's own error has lost which call failed and often with which code.
pub fn take_first_failure() -> Option<(Function, Code)> {
    FIRST_FAILURE.take()
}

/// Codes of CUDA 13.0 that cust_raw's enum (CUDA 11.4) lacks.
const UNKNOWN_TO_CUST: &[c_int] = &[36, 46, 225, 226, 402, 721, 810, 811, 812, 912, 913, 914, 915, 916];

/// Ascending by code. Source: `cuda.h` of CUDA 13.0, `enum cudaError_enum`.
const NAMES: &[(i32, &str)] = &[
    (0, "CUDA_SUCCESS"),
    (1, "CUDA_ERROR_INVALID_VALUE"),
    (2, "CUDA_ERROR_OUT_OF_MEMORY"),
    (3, "CUDA_ERROR_NOT_INITIALIZED"),
    (4, "CUDA_ERROR_DEINITIALIZED"),
    (5, "CUDA_ERROR_PROFILER_DISABLED"),
    (6, "CUDA_ERROR_PROFILER_NOT_INITIALIZED"),
    (7, "CUDA_ERROR_PROFILER_ALREADY_STARTED"),
    (8, "CUDA_ERROR_PROFILER_ALREADY_STOPPED"),
    (34, "CUDA_ERROR_STUB_LIBRARY"),
    (36, "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER"),
    (46, "CUDA_ERROR_DEVICE_UNAVAILABLE"),
    (100, "CUDA_ERROR_NO_DEVICE"),
    (101, "CUDA_ERROR_INVALID_DEVICE"),
    (102, "CUDA_ERROR_DEVICE_NOT_LICENSED"),
    (200, "CUDA_ERROR_INVALID_IMAGE"),
    (201, "CUDA_ERROR_INVALID_CONTEXT"),
    (202, "CUDA_ERROR_CONTEXT_ALREADY_CURRENT"),
    (205, "CUDA_ERROR_MAP_FAILED"),
    (206, "CUDA_ERROR_UNMAP_FAILED"),
    (207, "CUDA_ERROR_ARRAY_IS_MAPPED"),
    (208, "CUDA_ERROR_ALREADY_MAPPED"),
    (209, "CUDA_ERROR_NO_BINARY_FOR_GPU"),
    (210, "CUDA_ERROR_ALREADY_ACQUIRED"),
    (211, "CUDA_ERROR_NOT_MAPPED"),
    (212, "CUDA_ERROR_NOT_MAPPED_AS_ARRAY"),
    (213, "CUDA_ERROR_NOT_MAPPED_AS_POINTER"),
    (214, "CUDA_ERROR_ECC_UNCORRECTABLE"),
    (215, "CUDA_ERROR_UNSUPPORTED_LIMIT"),
    (216, "CUDA_ERROR_CONTEXT_ALREADY_IN_USE"),
    (217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"),
    (218, "CUDA_ERROR_INVALID_PTX"),
    (219, "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT"),
    (220, "CUDA_ERROR_NVLINK_UNCORRECTABLE"),
    (221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND"),
    (222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"),
    (223, "CUDA_ERROR_JIT_COMPILATION_DISABLED"),
    (224, "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY"),
    (225, "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC"),
    (226, "CUDA_ERROR_CONTAINED"),
    (300, "CUDA_ERROR_INVALID_SOURCE"),
    (301, "CUDA_ERROR_FILE_NOT_FOUND"),
    (302, "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND"),
    (303, "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED"),
    (304, "CUDA_ERROR_OPERATING_SYSTEM"),
    (400, "CUDA_ERROR_INVALID_HANDLE"),
    (401, "CUDA_ERROR_ILLEGAL_STATE"),
    (402, "CUDA_ERROR_LOSSY_QUERY"),
    (500, "CUDA_ERROR_NOT_FOUND"),
    (600, "CUDA_ERROR_NOT_READY"),
    (700, "CUDA_ERROR_ILLEGAL_ADDRESS"),
    (701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
    (702, "CUDA_ERROR_LAUNCH_TIMEOUT"),
    (703, "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING"),
    (704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"),
    (705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED"),
    (708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE"),
    (709, "CUDA_ERROR_CONTEXT_IS_DESTROYED"),
    (710, "CUDA_ERROR_ASSERT"),
    (711, "CUDA_ERROR_TOO_MANY_PEERS"),
    (712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"),
    (713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"),
    (714, "CUDA_ERROR_HARDWARE_STACK_ERROR"),
    (715, "CUDA_ERROR_ILLEGAL_INSTRUCTION"),
    (716, "CUDA_ERROR_MISALIGNED_ADDRESS"),
    (717, "CUDA_ERROR_INVALID_ADDRESS_SPACE"),
    (718, "CUDA_ERROR_INVALID_PC"),
    (719, "CUDA_ERROR_LAUNCH_FAILED"),
    (720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"),
    (721, "CUDA_ERROR_TENSOR_MEMORY_LEAK"),
    (800, "CUDA_ERROR_NOT_PERMITTED"),
    (801, "CUDA_ERROR_NOT_SUPPORTED"),
    (802, "CUDA_ERROR_SYSTEM_NOT_READY"),
    (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
    (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"),
    (805, "CUDA_ERROR_MPS_CONNECTION_FAILED"),
    (806, "CUDA_ERROR_MPS_RPC_FAILURE"),
    (807, "CUDA_ERROR_MPS_SERVER_NOT_READY"),
    (808, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED"),
    (809, "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED"),
    (810, "CUDA_ERROR_MPS_CLIENT_TERMINATED"),
    (811, "CUDA_ERROR_CDP_NOT_SUPPORTED"),
    (812, "CUDA_ERROR_CDP_VERSION_MISMATCH"),
    (900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
    (901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"),
    (902, "CUDA_ERROR_STREAM_CAPTURE_MERGE"),
    (903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"),
    (904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"),
    (905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"),
    (906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"),
    (907, "CUDA_ERROR_CAPTURED_EVENT"),
    (908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"),
    (909, "CUDA_ERROR_TIMEOUT"),
    (910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"),
    (911, "CUDA_ERROR_EXTERNAL_DEVICE"),
    (912, "CUDA_ERROR_INVALID_CLUSTER_SIZE"),
    (913, "CUDA_ERROR_FUNCTION_NOT_LOADED"),
    (914, "CUDA_ERROR_INVALID_RESOURCE_TYPE"),
    (915, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION"),
    (916, "CUDA_ERROR_KEY_ROTATION"),
    (999, "CUDA_ERROR_UNKNOWN"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_so_that_the_search_finds_them() {
        assert!(NAMES.is_sorted_by_key(|(code, _)| *code));
        assert_eq!(Code(901).to_string(), "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901)");
        assert_eq!(Code(4711).to_string(), "a code that poolbench does not know (4711)");
    }

    #[test]
    fn cust_gets_999_for_what_its_enum_lacks_and_the_original_is_kept() {
        assert_eq!(for_cust(Function::cuInit, 721), 999);
        assert_eq!(take_first_failure(), Some((Function::cuInit, Code(721))));
        assert_eq!(for_cust(Function::cuInit, 2), 2);
        assert_eq!(take_first_failure(), Some((Function::cuInit, Code(2))));
        assert_eq!(for_cust(Function::cuInit, 4711), 999);
        assert_eq!(for_cust(Function::cuModuleUnload, 400), 400, "what follows from it");
        assert_eq!(take_first_failure(), Some((Function::cuInit, Code(4711))));
        assert_eq!(take_first_failure(), None);
    }
}
