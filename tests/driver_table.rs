//! The driver table and the executables around it.

mod common;

use poolbench::driver::{self, Function};
use std::path::Path;
use std::process::Command;

/// On a GPU every name of the table must be in its libcuda; the host device may lack what the suite
/// does not use.
#[test]
fn the_bound_driver_has_every_function() {
    let guarded = common::device();
    let missing: Vec<&str> = driver::missing_functions()
        .iter()
        .map(|function| function.name())
        .collect();
    if guarded.device.is_host() {
        println!(
            "host device: {} of {} functions are implemented",
            Function::ALL.len() - missing.len(),
            Function::ALL.len()
        );
        for needed in [
            Function::cuMemAllocAsync,
            Function::cuLaunchKernel,
            Function::cuMemPoolTrimTo,
        ] {
            assert!(!missing.contains(&needed.name()), "{}", needed.name());
        }
        return;
    }
    assert!(missing.is_empty(), "{} lacks {missing:?}", guarded.device);
}

fn output_of(program: &str, arguments: &[&str], file: &Path) -> Option<String> {
    let output = Command::new(program).args(arguments).arg(file).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A driver library must never bind its own calls to ours, and the program must start without one.
#[test]
fn executables_neither_need_nor_export_the_driver() {
    let executable = Path::new(env!("CARGO_BIN_EXE_poolbench"));
    let Some(exported) = output_of("nm", &["-D", "--defined-only"], executable) else {
        println!("SKIPPED executables_neither_need_nor_export_the_driver: no nm");
        return;
    };
    let ours: Vec<&str> = exported.lines().filter(|line| line.contains(" cu")).collect();
    assert!(ours.is_empty(), "exported: {ours:?}");
    let needed = output_of("ldd", &[], executable).expect("ldd stands beside nm");
    assert!(!needed.contains("libcuda"), "{needed}");
}
