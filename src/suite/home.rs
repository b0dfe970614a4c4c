//! Where a run keeps its results: found, tried and locked before the first case, since a measurement that cannot
//! be kept is lost time.

use super::SuiteError;
use crate::baseline::criterion_home::{self, benchmark_folder};
use crate::case::BenchmarkId;
use crate::cuda::Device;
use crate::lock_file;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

const LOCK: &str = ".poolbench-lock";
/// What a measurement may need at once: more than the smallest of its files.
const PROBE_BYTES: usize = 4096;

/// Criterion's output folder of a run.
#[derive(Debug)]
pub(super) struct Home {
    folder: PathBuf,
    /// Held to the run's end.
    _lock: Option<File>,
}

impl Home {
    /// The home of the device's results, which is not touched where there is no device.
    ///
    /// # Errors
    ///
    /// A folder that cannot be written, or one that another run measures into; only a run that measures locks it.
    pub(super) fn of(device: Option<&Device>, measures: bool) -> Result<Home, SuiteError> {
        let Some(device) = device else {
            let folder = criterion_home::folder("host");
            return Ok(Home { folder, _lock: None });
        };
        let uuid = if device.is_host() { None } else { device.uuid().ok() };
        let folder = criterion_home::folder_of_card(&device.slug(), uuid.as_deref());
        try_out(&folder).map_err(|error| SuiteError::Home {
            path: folder.clone(),
            error,
            remedy: if criterion_home::is_named() {
                "point CRITERION_HOME at a folder that can be written"
            } else {
                "free or allow that place, or point CRITERION_HOME at a folder that can be written"
            },
        })?;
        let lock = if measures { lock(&folder)? } else { None };
        Ok(Home { folder, _lock: lock })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Makes the folder and writes a file into it.
fn try_out(folder: &Path) -> io::Result<()> {
    if folder.exists() && !folder.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    fs::create_dir_all(folder)?;
    let probe = folder.join(format!(".poolbench-probe-{}", std::process::id()));
    let written = File::create(&probe).and_then(|mut file| file.write_all(&[0; PROBE_BYTES]));
    let _ = fs::remove_file(&probe);
    written
}

/// Takes the home, unless its file system has no locks.
fn lock(folder: &Path) -> Result<Option<File>, SuiteError> {
    let path = folder.join(LOCK);
    let Ok(mut file) = lock_file::open(&path) else {
        // A lock file of another user, in a folder that can be written all the same.
        return Ok(None);
    };
    match file.try_lock() {
        Ok(()) => {
            // Only for the message to whoever comes meanwhile.
            let _ = lock_file::sign(&mut file);
            Ok(Some(file))
        }
        Err(TryLockError::Error(_)) => Ok(None),
        Err(TryLockError::WouldBlock) => Err(SuiteError::HomeInUse {
            path: folder.to_owned(),
            process: lock_file::holder(&mut file),
        }),
    }
}

/// What Criterion reads of a saved measurement to compare with it.
#[derive(Deserialize)]
struct SavedEstimates {
    mean: SavedEstimate,
    median: SavedEstimate,
    median_abs_dev: SavedEstimate,
    std_dev: SavedEstimate,
}

#[derive(Deserialize)]
struct SavedEstimate {
    confidence_interval: SavedInterval,
    point_estimate: f64,
    standard_error: f64,
}

#[derive(Deserialize)]
struct SavedInterval {
    confidence_level: f64,
    lower_bound: f64,
    upper_bound: f64,
}

/// Checks that a case's saved measurement is one that Criterion can compare with: of a hollow one it would only
/// log, and compare nothing. Where it need not be there, it may be missing whole.
///
/// # Errors
///
/// The file that is missing or cannot be read.
pub(super) fn check_saved(home: &Path, id: &BenchmarkId, name: &str, strict: bool) -> Result<(), SuiteError> {
    let folder = benchmark_folder(home, id).join(name);
    if !folder.exists() {
        return if strict {
            let name = name.to_owned();
            Err(SuiteError::NoSaved { name, folder })
        } else {
            Ok(())
        };
    }
    check_sample(&folder.join("sample.json"))?;
    check_estimates(&folder.join("estimates.json"))
}

fn check_sample(path: &Path) -> Result<(), SuiteError> {
    let sample: criterion_home::SavedSample = read(path)?;
    let is_count = |count: &f64| count.is_finite() && *count > 0.0;
    let is_time = |time: &f64| time.is_finite() && *time >= 0.0;
    let right = sample.iters.len() > 1
        && sample.iters.len() == sample.times.len()
        && sample.iters.iter().all(is_count)
        && sample.times.iter().all(is_time);
    if right {
        Ok(())
    } else {
        Err(hollow(path, String::from("holds no two samples with a time each")))
    }
}

fn check_estimates(path: &Path) -> Result<(), SuiteError> {
    let saved: SavedEstimates = read(path)?;
    let numbers = [saved.mean, saved.median, saved.median_abs_dev, saved.std_dev].map(|estimate| {
        let interval = estimate.confidence_interval;
        [
            estimate.point_estimate,
            estimate.standard_error,
            interval.confidence_level,
            interval.lower_bound,
            interval.upper_bound,
        ]
    });
    if numbers.as_flattened().iter().all(|number| number.is_finite()) {
        Ok(())
    } else {
        Err(hollow(path, String::from("holds what is no number")))
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, SuiteError> {
    let bytes = fs::read(path).map_err(|error| hollow(path, error.to_string()))?;
    serde_json::from_slice(&bytes).map_err(|error| hollow(path, error.to_string()))
}

fn hollow(path: &Path, reason: String) -> SuiteError {
    SuiteError::Saved {
        path: path.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_serves_one_run_at_a_time() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let first = lock(folder.path()).expect("nobody has it");
        assert!(first.is_some());
        let refused = lock(folder.path()).expect_err("it is taken").to_string();
        assert!(
            refused.contains(&format!("(process {})", std::process::id())),
            "{refused}"
        );
        drop(first);
        assert!(lock(folder.path()).is_ok());
    }

    #[test]
    fn a_home_that_cannot_be_written_is_found_at_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let deep = folder.path().join("a/b");
        try_out(&deep).expect("it can be made");
        assert_eq!(fs::read_dir(&deep).expect("a folder").count(), 0, "nothing is left");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("a file");
        for wrong in [
            file.as_path(),
            &file.join("below"),
            Path::new("/dev/null"),
            Path::new("/proc/x"),
        ] {
            assert!(try_out(wrong).is_err(), "{}", wrong.display());
        }
    }
}
