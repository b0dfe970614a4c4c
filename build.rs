//! Kernels: `kernels/*.cu` through nvcc to PTX in `OUT_DIR`, or the committed PTX where there is no
//! nvcc. Nothing else is built here; which compiler and commit this is goes into the recordings.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

#[path = "kernels/nvcc.rs"]
mod nvcc;
#[path = "kernels/ptx.rs"]
mod ptx;

/// The Tesla T4, the card that the suite is written for; every newer GPU runs its PTX too.
const DEFAULT_ARCHITECTURE: &str = "compute_75";

fn main() {
    println!("cargo::rerun-if-changed=kernels");
    println!("cargo::rerun-if-env-changed=POOLBENCH_CUDA_ARCH");
    for variable in nvcc::VARIABLES {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    if let Err(message) = build_kernels() {
        eprintln!("poolbench: {message}");
        exit(1);
    }
    name_the_build();
}

/// The compiler's version and the commit checked out now; empty where nobody says.
fn name_the_build() {
    let ask = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let rustc = env::var("RUSTC").unwrap_or_else(|_| String::from("rustc"));
    let version = ask(&rustc, &["--version"]).unwrap_or_default();
    println!(
        "cargo::rustc-env=POOLBENCH_RUSTC={}",
        version.split(' ').nth(1).unwrap_or_default()
    );
    let commit = ask("git", &["rev-parse", "--short=12", "HEAD"]).unwrap_or_default();
    println!("cargo::rustc-env=POOLBENCH_COMMIT={commit}");
    // Grows with every commit and checkout. A file that is not there would run this script each time.
    if let Some(log) = ask("git", &["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
}

fn build_kernels() -> Result<(), String> {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let compiler = nvcc::find()?;
    if compiler.is_none() {
        println!("cargo::warning=no nvcc found: using the PTX committed in kernels/ptx (see README, \"Kernels\")");
    }
    for source in sources()? {
        let name = source.file_stem().expect("a .cu file has a name");
        let target = out.join(name).with_extension("ptx");
        match &compiler {
            Some(nvcc) => compile(nvcc, &source, &target)?,
            None => take_committed(&source, &target)?,
        }
    }
    let origin = match &compiler {
        Some(nvcc) => format!("{} for {}", version(nvcc), architecture()?),
        None => String::from("committed PTX"),
    };
    println!("cargo::rustc-env=POOLBENCH_PTX_ORIGIN={origin}");
    Ok(())
}

fn sources() -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir("kernels").map_err(|error| format!("kernels: {error}"))?;
    let mut sources: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "cu"))
        .collect();
    sources.sort();
    Ok(sources)
}

/// `POOLBENCH_CUDA_ARCH` as nvcc wants it: `90`, `sm_90` and `compute_90` all mean `compute_90`.
fn architecture() -> Result<String, String> {
    let Some(asked) = env::var("POOLBENCH_CUDA_ARCH").ok().filter(|value| !value.is_empty()) else {
        return Ok(String::from(DEFAULT_ARCHITECTURE));
    };
    let digits = asked.trim_start_matches("compute_").trim_start_matches("sm_");
    let number = digits.trim_end_matches(['a', 'f']);
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "POOLBENCH_CUDA_ARCH={asked} is not an architecture; write it like compute_75 (a T4) or sm_90 (an H100)"
        ));
    }
    Ok(format!("compute_{digits}"))
}

fn compile(nvcc: &Path, source: &Path, target: &Path) -> Result<(), String> {
    let architecture = architecture()?;
    let output = Command::new(nvcc)
        .args(ptx::NVCC_FLAGS)
        .arg("-lineinfo")
        .arg(format!("-arch={architecture}"))
        .arg(source)
        .arg("-o")
        .arg(target)
        .output()
        .map_err(|error| format!("{} does not start: {error}", nvcc.display()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{} failed on {} for {architecture} ({}):\n{}{}\
         Set NVCC to another nvcc, POOLBENCH_CUDA_ARCH to another architecture, or NVCC=none to use the committed PTX.",
        nvcc.display(),
        source.display(),
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    ))
}

fn version(nvcc: &Path) -> String {
    let text = Command::new(nvcc)
        .arg("--version")
        .output()
        .map(|output| output.stdout)
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let release = text.split("release ").nth(1).and_then(|rest| rest.split(',').next());
    release.map_or_else(|| String::from("nvcc"), |release| format!("nvcc {}", release.trim()))
}

fn take_committed(source: &Path, target: &Path) -> Result<(), String> {
    let name = source
        .file_stem()
        .expect("a .cu file has a name")
        .to_string_lossy()
        .into_owned();
    let committed = Path::new("kernels/ptx").join(format!("{name}.ptx"));
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let text = read(&committed)?;
    let wanted = ptx::header(&read(source)?);
    if text.lines().next() != Some(wanted.as_str()) {
        return Err(format!(
            "{} was not made from this {}: install nvcc, or renew it as CONTRIBUTING.md says",
            committed.display(),
            source.display()
        ));
    }
    fs::write(target, text).map_err(|error| format!("{}: {error}", target.display()))
}
