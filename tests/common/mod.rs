//! What the integration tests share.

#![allow(dead_code, reason = "each test binary uses a part")]

pub mod graph;

use poolbench::cuda::Device;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

static SERIAL: Mutex<()> = Mutex::new(());

/// The device under test, one test at a time: all tests of a process share it.
pub struct Guarded {
    pub device: Device,
    _serial: MutexGuard<'static, ()>,
}

/// Opens the device that the environment names: the first GPU, or the host device.
pub fn device() -> Guarded {
    let serial = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let device = Device::from_environment().expect("a device, if only the host device");
    device.make_current().expect("the device can be current on any thread");
    Guarded {
        device,
        _serial: serial,
    }
}

/// Criterion's arguments for measurements that only have to be made.
pub const QUICK: [&str; 7] = [
    "--noplot",
    "--warm-up-time",
    "0.01",
    "--measurement-time",
    "0.02",
    "--nresamples",
    "1000",
];

/// A bench executable, built like the tests themselves.
pub fn bench_executable(name: &str) -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--bench", name, "--message-format=json"])
        .args(if cfg!(feature = "fault-injection") {
            &["--features", "fault-injection"][..]
        } else {
            &[]
        })
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let messages = String::from_utf8(output.stdout).expect("cargo prints UTF-8");
    let executable = messages.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_bench = message["target"]["name"] == name && message["target"]["kind"][0] == "bench";
        is_bench
            .then(|| message["executable"].as_str().map(PathBuf::from))
            .flatten()
    });
    executable.expect("cargo names what it built")
}
