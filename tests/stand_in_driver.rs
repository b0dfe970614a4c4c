//! Drivers that refuse to start, are too old for a function or for the PTX, or report no device: a
//! stand-in for `libcuda.so.1`, built with the machine's C compiler, answers as its environment says.

use assert_cmd::Command;
use std::path::{Path, PathBuf};
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
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)16; return number("STAND_IN_CONTEXT", 0); }
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
        let (source, target) = (
            folder.path().join("driver.c"),
            folder.path().join("libcuda.so.440.33.01"),
        );
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
    Some(doctor_of(library, device, settings))
}

fn doctor_of(library: &Path, device: &str, settings: &[(&str, &str)]) -> Answer {
    let mut command = Command::cargo_bin("poolbench").expect("the binary is built with the tests");
    command
        .arg("doctor")
        .env("POOLBENCH_DEVICE", device)
        .env("POOLBENCH_LIBCUDA", library)
        .env_remove("CUDA_VISIBLE_DEVICES")
        .envs(settings.iter().copied());
    let output = command.output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Answer {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
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
            .starts_with("poolbench: Stand-in <GPU>, driver 440.33.01, CUDA 10.2"),
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

/// A machine whose GPUs are hidden is not one without a driver, and its numbers are no GPU's.
#[test]
fn what_hides_a_device_is_named_with_its_value() {
    for hidden in [("STAND_IN_INIT", "100"), ("STAND_IN_COUNT", "0")] {
        for value in ["", "9"] {
            let settings = [hidden, ("CUDA_VISIBLE_DEVICES", value)];
            let Some(answer) = doctor("auto", &settings) else {
                return;
            };
            assert_eq!(answer.code, Some(0), "{}", answer.stderr);
            let variable = format!("CUDA_VISIBLE_DEVICES={value:?}");
            let first =
                format!("poolbench: the NVIDIA driver reports no device ({variable}): measuring the host device");
            assert!(answer.stdout.starts_with(&first), "{}", answer.stdout);
            assert!(
                answer.stdout.contains(&format!("{variable} hides every GPU")) && !answer.stdout.contains("install"),
                "{}",
                answer.stdout
            );
            let asked = doctor("cuda:0", &settings).expect("it was built");
            assert_eq!(asked.code, Some(3));
            assert!(asked.stderr.contains(&variable), "{}", asked.stderr);
        }
        let answer = doctor("auto", &[hidden]).expect("it was built");
        assert!(
            answer.stdout.contains("nvidia-smi lists a GPU") && !answer.stdout.contains("CUDA_VISIBLE_DEVICES"),
            "{}",
            answer.stdout
        );
    }
}

#[test]
fn a_device_that_does_not_open_has_a_remedy() {
    for (code, remedy) in [
        (
            "2",
            "(2); the GPU's memory is full: stop the processes that nvidia-smi lists",
        ),
        ("46", "(46); another process has the GPU to itself"),
        ("101", "(101); check that nvidia-smi -L lists the GPU"),
        ("304", "(304); the operating system refused"),
        ("805", "(805); the MPS server does not answer"),
        ("999", "(999); look for driver messages in the kernel log"),
    ] {
        for (variable, says) in [
            (
                "STAND_IN_CONTEXT",
                "cannot use the device: cuDevicePrimaryCtxRetain failed: ",
            ),
            ("STAND_IN_INIT", "cuInit failed: "),
        ] {
            let Some(answer) = doctor("cuda:0", &[(variable, code)]) else {
                return;
            };
            assert_eq!(answer.code, Some(3), "{}", answer.stdout);
            assert_eq!(answer.stderr.lines().count(), 1, "{}", answer.stderr);
            assert!(
                answer.stderr.contains(says) && answer.stderr.contains(remedy),
                "{}",
                answer.stderr
            );
        }
    }
}

/// `libcuda.so.1.1` is what WSL and Jetson call every version.
#[test]
fn a_driver_is_of_the_version_in_its_file_name_if_that_is_one() {
    let Some(library) = library() else {
        println!("SKIPPED: no C compiler to build the stand-in driver with");
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let with_spaces = folder.path().join("my  drivers (old)");
    std::fs::create_dir(&with_spaces).expect("a folder");
    for (name, says) in [
        ("libcuda.so.1.1", "driver of unknown version"),
        ("libcuda.so.555.42.06", "driver 555.42.06"),
    ] {
        let path = with_spaces.join(name);
        std::fs::copy(library, &path).expect("room");
        let answer = doctor_of(&path, "cuda:0", &[]);
        let first = answer.stdout.lines().next().unwrap_or_default();
        assert_eq!(first, format!("poolbench: Stand-in <GPU>, {says}, CUDA 10.2"));
    }
}
