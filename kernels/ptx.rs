//! What `build.rs` and `tests/committed_ptx.rs` both know about the committed PTX.
//!
//! `kernels/ptx/NAME.ptx` is nvcc's output for `kernels/NAME.cu` under an older `.version`, so that
//! drivers long before nvcc's own load it, headed by one line that ties it to its source.

use sha2::{Digest, Sha256};

/// The PTX version that the committed copy declares: CUDA 10.0's, driver 410 and newer.
pub const COMMITTED_PTX_VERSION: &str = "6.3";

/// nvcc's flags for every kernel, whoever compiles them; `-lineinfo` comes on top in a build, but
/// writes absolute paths and so stays out of the committed copy.
pub const NVCC_FLAGS: [&str; 3] = ["-ptx", "-std=c++17", "-O3"];

/// The first line of the committed PTX for this source text.
pub fn header(source: &str) -> String {
    let digest = Sha256::digest(source.replace("\r\n", "\n"));
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("// poolbench: source sha256 {hex}")
}

/// nvcc's output as it is committed: headed by the source's hash, under the older `.version`.
#[allow(dead_code, reason = "the build only checks the header")]
pub fn committed_form(source: &str, nvcc_output: &str) -> String {
    let mut text = header(source);
    text.push('\n');
    for line in nvcc_output.lines() {
        if line.starts_with(".version ") {
            text.push_str(".version ");
            text.push_str(COMMITTED_PTX_VERSION);
        } else {
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}
