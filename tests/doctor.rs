//! `poolbench doctor`.

use assert_cmd::Command;

fn doctor(device: &str) -> std::process::Output {
    let mut command = Command::cargo_bin("poolbench").expect("the binary is built with the tests");
    command
        .arg("doctor")
        .env("POOLBENCH_DEVICE", device)
        .env_remove("POOLBENCH_LIBCUDA")
        .output()
        .expect("it starts")
}

#[test]
fn the_host_device_is_usable_and_called_no_gpu() {
    let output = doctor("host");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(
        text.starts_with("poolbench: POOLBENCH_DEVICE=host: measuring the host device; these are not GPU numbers"),
        "{text}"
    );
    for expected in [
        "device      host",
        "supports    memory pools",
        "! this is not a GPU: install the NVIDIA driver",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn a_device_that_cannot_be_used_is_exit_3_and_one_line() {
    let output = doctor("cuda:99");
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1);
}

#[test]
fn memory_that_the_host_device_cannot_have_is_refused_and_not_forgotten() {
    for wrong in ["x", "0", "-1", "1.5", "1GiB", "18446744073709551615"] {
        let mut command = Command::cargo_bin("poolbench").expect("the binary is built with the tests");
        command.arg("doctor").env("POOLBENCH_DEVICE", "host");
        let output = command
            .env("POOLBENCH_HOST_MEMORY_MIB", wrong)
            .output()
            .expect("it starts");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            (output.status.code(), stderr.lines().count()),
            (Some(3), 1),
            "{wrong}: {stderr}"
        );
        let says = format!("poolbench: POOLBENCH_HOST_MEMORY_MIB={wrong} is no memory for the host device");
        assert!(stderr.starts_with(&says), "{stderr}");
    }
}

#[test]
fn wrong_usage_is_exit_2() {
    let mut command = Command::cargo_bin("poolbench").expect("the binary is built with the tests");
    assert_eq!(
        command.arg("docter").output().expect("it starts").status.code(),
        Some(2)
    );
}
