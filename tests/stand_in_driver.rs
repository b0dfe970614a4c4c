//! Drivers that refuse to start, are too old for a function or for the PTX, or report no device: a
//! stand-in for `libcuda.so.1`, built with the machine's C compiler, answers as its environment says.

use assert_cmd::Command;
use std::path::PathBuf;
use std::sync::OnceLock;
use tempfile::TempDir;

/// CUDA 10.2's driver as far as `doctor` goes: no pools, no newer functions.
const SOURCE: &str = r#"
#include <stdlib.h>
#include <string.h>
static int number(const char *name, int otherwise) { const char *text = getenv(name); return text ? atoi(text) : otherwise; }
int cuInit(unsigned flags) { return number("STAND_IN_INIT", 0); }
int cuDriverGetVersion(int *version) { *version = 10020; return 0; }
int cuDeviceGetCount(int *count) { *count = number("STAND_IN_COUNT", 1); return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int length, int device) { strncpy(name, "Stand-in <GPU>", length); return 0; }
int cuDeviceGetAttribute(int *value, unsigned attribute, int device) { *value = 0; return attribute > 101 ? 1 : 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)16; return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
static void *current;
int cuCtxSetCurrent(void *context) { current = context; return 0; }
int cuCtxGetCurrent(void **context) { *context = current; return 0; }
int cuModuleLoadDataEx(void **module, const void *image, unsigned n, unsigned *options, void **values) { return number("STAND_IN_LOAD", 222); }
"#;

fn library() -> Option<&'static PathBuf> {
    static LIBRARY: OnceLock<Option<(TempDir, PathBuf)>> = OnceLock::new();
    let built = LIBRARY.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (source, target) = (folder.path().join("driver.c"), folder.path().join("libcuda.so.10.2.89"));
        std::fs::write(&source, SOURCE).expect("a file");
        let compiler = std::process::Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(&target)
            .arg(&source)
            .status();
        compiler
            .is_ok_and(|status| status.success())
            .then_some((folder, target))
    });
    built.as_ref().map(|(_, path)| path)
}

struct Answer {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn doctor(device: &str, settings: &[(&str, &str)]) -> Option<Answer> {
    let Some(library) = library() else {
        println!("SKIPPED: no C compiler to build the stand-in driver with");
        return None;
    };
    let mut command = Command::cargo_bin("poolbench").expect("the binary is built with the tests");
    command
        .arg("doctor")
        .env("POOLBENCH_DEVICE", device)
        .env("POOLBENCH_LIBCUDA", library)
        .envs(settings.iter().copied());
    let output = command.output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Some(Answer {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    })
}

#[test]
fn a_driver_that_refuses_to_start_is_an_error_with_its_raw_code() {
    for (code, name) in [
        ("803", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"),
        ("34", "CUDA_ERROR_STUB_LIBRARY (34)"),
        ("999", "CUDA_ERROR_UNKNOWN (999)"),
        ("4711", "(4711)"),
    ] {
        let Some(answer) = doctor("auto", &[("STAND_IN_INIT", code)]) else {
            return;
        };
        assert_eq!(answer.code, Some(3), "{}", answer.stdout);
        assert!(
            answer.stderr.contains("cuInit failed") && answer.stderr.contains(name),
            "{}",
            answer.stderr
        );
        assert_eq!(answer.stderr.lines().count(), 1, "{}", answer.stderr);
    }
}

#[test]
fn without_a_device_only_auto_falls_back() {
    for settings in [("STAND_IN_INIT", "100"), ("STAND_IN_COUNT", "0")] {
        let Some(answer) = doctor("auto", &[settings]) else {
            return;
        };
        assert_eq!(answer.code, Some(0), "{}", answer.stderr);
        assert!(
            answer
                .stdout
                .starts_with("poolbench: the NVIDIA driver reports no device: measuring the host device"),
            "{}",
            answer.stdout
        );
        let Some(answer) = doctor("cuda:0", &[settings]) else {
            return;
        };
        assert_eq!(answer.code, Some(3), "asking for a GPU is never answered with the host");
    }
}

#[test]
fn a_driver_older_than_the_ptx_says_which_is_needed_and_what_to_do() {
    let Some(answer) = doctor("auto", &[]) else { return };
    assert_eq!(answer.code, Some(3));
    assert!(
        answer
            .stdout
            .starts_with("poolbench: Stand-in <GPU>, driver 10.2.89, CUDA 10.2"),
        "{}",
        answer.stdout
    );
    let line = answer
        .stdout
        .lines()
        .find(|line| line.contains("the kernels do not load"))
        .expect("a line about the kernels");
    for expected in [
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)",
        "needs driver",
        "NVCC=/path/to/nvcc",
        "NVCC=none",
    ] {
        assert!(line.contains(expected), "{expected}: {line}");
    }
    assert!(answer.stdout.contains("! no memory pools"), "{}", answer.stdout);
}

#[test]
fn a_driver_too_old_for_a_function_names_the_function() {
    let Some(answer) = doctor("auto", &[("STAND_IN_LOAD", "0")]) else {
        return;
    };
    assert_eq!(answer.code, Some(3));
    assert!(
        answer.stdout.contains("this driver has no cuModuleGetFunction"),
        "{}",
        answer.stdout
    );
}
