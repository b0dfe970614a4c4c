//! Where nvcc is: shared by `build.rs` and `tests/committed_ptx.rs`.

use std::env;
use std::path::{Path, PathBuf};

/// The environment variables that decide which nvcc is used, in order of precedence.
#[allow(dead_code, reason = "the build watches these, the test does not")]
pub const VARIABLES: [&str; 4] = ["NVCC", "CUDA_PATH", "CUDA_HOME", "PATH"];

/// Finds nvcc: `NVCC` (a path, or `none` for "do not use one"), then `bin/nvcc` under `CUDA_PATH` and
/// `CUDA_HOME`, then `PATH`, then the usual folders.
///
/// # Errors
///
/// Says so when `NVCC` names something that is not there: a user who asks for a compiler gets it.
pub fn find() -> Result<Option<PathBuf>, String> {
    if let Some(named) = env::var_os("NVCC").filter(|value| !value.is_empty()) {
        if named == "none" {
            return Ok(None);
        }
        let path = PathBuf::from(&named);
        let found = if path.components().count() > 1 {
            path.is_file().then_some(path)
        } else {
            on_path(&path)
        };
        return found.map(Some).ok_or_else(|| {
            format!(
                "NVCC={} is not a file; name nvcc's path, or set NVCC=none to use the committed PTX",
                named.to_string_lossy()
            )
        });
    }
    let roots = ["CUDA_PATH", "CUDA_HOME"]
        .into_iter()
        .filter_map(env::var_os)
        .map(PathBuf::from);
    let from_roots = roots.map(|root| root.join("bin/nvcc")).find(|path| path.is_file());
    let usual = [
        "/usr/local/cuda/bin/nvcc",
        "/opt/cuda/bin/nvcc",
        "/usr/lib/nvidia-cuda-toolkit/bin/nvcc",
    ];
    Ok(from_roots
        .or_else(|| on_path(Path::new("nvcc")))
        .or_else(|| usual.into_iter().map(PathBuf::from).find(|path| path.is_file())))
}

fn on_path(name: &Path) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}
