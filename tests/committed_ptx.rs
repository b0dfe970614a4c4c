//! The committed PTX is what nvcc makes of the kernels' sources.

use poolbench as _;
use std::fs;
use std::path::Path;
use std::process::Command;

#[path = "../kernels/nvcc.rs"]
mod nvcc;
#[path = "../kernels/ptx.rs"]
mod ptx;

/// The release whose output is committed. Another one may choose other registers.
const NVCC_RELEASE: &str = "release 13.0";

fn kernel_names() -> Vec<String> {
    let folder = fs::read_dir("kernels").expect("tests run in the package's folder");
    let mut names: Vec<String> = folder
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cu"))
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn committed_ptx_belongs_to_its_source() {
    let names = kernel_names();
    assert!(!names.is_empty());
    for name in &names {
        let source = fs::read_to_string(format!("kernels/{name}.cu")).expect("the source");
        let committed = fs::read_to_string(format!("kernels/ptx/{name}.ptx")).expect("a committed PTX for each source");
        assert_eq!(committed.lines().next(), Some(ptx::header(&source).as_str()), "{name}");
        let version = format!(".version {}", ptx::COMMITTED_PTX_VERSION);
        assert!(
            committed.lines().any(|line| line == version),
            "{name} declares {version}"
        );
    }
    let committed = fs::read_dir("kernels/ptx").expect("the folder").count();
    assert_eq!(committed, names.len(), "a PTX without a source");
}

/// With `POOLBENCH_BLESS=1` the committed copies are renewed instead of compared.
#[test]
fn committed_ptx_is_what_nvcc_makes() {
    let Some(nvcc) = nvcc::find().expect("NVCC names a compiler") else {
        println!("SKIPPED committed_ptx_is_what_nvcc_makes: no nvcc; .ci/run installs one");
        return;
    };
    let version = Command::new(&nvcc)
        .arg("--version")
        .output()
        .expect("nvcc starts")
        .stdout;
    if !String::from_utf8_lossy(&version).contains(NVCC_RELEASE) {
        println!(
            "SKIPPED committed_ptx_is_what_nvcc_makes: {} is not {NVCC_RELEASE}",
            nvcc.display()
        );
        return;
    }
    for name in kernel_names() {
        let source = format!("kernels/{name}.cu");
        let made = compile(&nvcc, Path::new(&source));
        let made = ptx::committed_form(&fs::read_to_string(&source).expect("the source"), &made);
        let path = format!("kernels/ptx/{name}.ptx");
        if std::env::var_os("POOLBENCH_BLESS").is_some() {
            fs::write(&path, &made).expect("kernels/ptx is writable");
        }
        let committed = fs::read_to_string(&path).expect("the committed PTX");
        assert!(
            committed == made,
            "{path} is not what nvcc makes: run POOLBENCH_BLESS=1 cargo test --test committed_ptx"
        );
        assemble(&nvcc, Path::new(&path));
    }
}

fn compile(nvcc: &Path, source: &Path) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let target = folder.path().join("kernel.ptx");
    let output = Command::new(nvcc)
        .args(ptx::NVCC_FLAGS)
        .arg("-arch=compute_75")
        .arg(source)
        .arg("-o")
        .arg(&target)
        .output()
        .expect("nvcc starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(target).expect("nvcc's output")
}

/// The lowered `.version` is legal: ptxas accepts it for the oldest and the measured architecture.
fn assemble(nvcc: &Path, committed: &Path) {
    let ptxas = nvcc.with_file_name("ptxas");
    for architecture in ["sm_75", "sm_90"] {
        let output = Command::new(&ptxas)
            .arg(format!("-arch={architecture}"))
            .arg(committed)
            .args(["-o", "/dev/null"])
            .output()
            .expect("ptxas stands beside nvcc");
        assert!(
            output.status.success(),
            "{architecture}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
