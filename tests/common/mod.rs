//! What the integration tests share.

#![allow(dead_code, reason = "each test binary uses a part")]

pub mod graph;

use poolbench::cuda::Device;
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
