//! One recording of a name at a time.
//!
//! Each bench executable inherits the lock: one that outlives a killed recording still measures, and whoever
//! resumes waits for its end.

use super::error::RecordingError;
use super::interrupt::Interrupt;
use super::progress::say;
use crate::lock_file;
use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// How long the last bench executable of a killed recording may take to end: 600 times 100 ms.
const ORPHAN_LOOKS: u32 = 600;
const ORPHAN_LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// A lock that is held.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Lock {
    /// Takes the lock at `path`.
    pub(super) fn acquire(path: &Path, interrupt: &Interrupt) -> Result<Lock, RecordingError> {
        let refused = |error| RecordingError::file(path, error);
        let mut file = lock_file::open(path).map_err(refused)?;
        for look in 0..ORPHAN_LOOKS {
            match file.try_lock() {
                Ok(()) => {
                    lock_file::sign(&mut file).map_err(refused)?;
                    return Ok(Lock(file));
                }
                Err(TryLockError::Error(error)) => return Err(refused(error)),
                Err(TryLockError::WouldBlock) => {}
            }
            let holder = lock_file::holder(&mut file);
            if is_alive(&holder) {
                return Err(RecordingError::Locked {
                    lock: path.to_owned(),
                    process: holder,
                });
            }
            if interrupt.is_raised() {
                return Err(RecordingError::Interrupted);
            }
            if look == 0 {
                say("waiting for the bench executable that a killed recording left behind");
            }
            std::thread::sleep(ORPHAN_LOOK_INTERVAL);
        }
        Err(RecordingError::Locked {
            lock: path.to_owned(),
            process: String::from("left behind by a killed recording"),
        })
    }

    /// The lock as the standard input of a child process, which holds it too from then on.
    pub(super) fn as_input(&self) -> std::io::Result<Stdio> {
        Ok(Stdio::from(self.0.try_clone()?))
    }
}

/// Whether a process runs. One that has ended but that nobody has waited for has no command line.
fn is_alive(process: &str) -> bool {
    fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|line| !line.is_empty())
}
