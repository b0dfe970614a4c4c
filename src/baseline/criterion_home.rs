//! Criterion's output folder: where it is, and what stands in it.
//!
//! Criterion's files are private to it; only what is needed is read.

use crate::case::BenchmarkId;
use serde::Deserialize;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Criterion's output folder for a device: `CRITERION_HOME` where it is set, otherwise a folder of the
/// device's own under the target folder, so that one device never becomes the base of another.
#[must_use]
pub fn folder(device_slug: &str) -> PathBuf {
    folder_in(
        device_slug,
        std::env::var_os("CRITERION_HOME"),
        std::env::var_os("CARGO_TARGET_DIR"),
    )
}

fn folder_in(device_slug: &str, home: Option<OsString>, target: Option<OsString>) -> PathBuf {
    let set = |value: Option<OsString>| value.filter(|value| !value.is_empty()).map(PathBuf::from);
    set(home).unwrap_or_else(|| {
        let target = set(target).unwrap_or_else(|| PathBuf::from("target"));
        target.join("poolbench").join(device_slug).join("criterion")
    })
}

/// The folder of one benchmark. Criterion keeps an id's parts as they are, since [`BenchmarkId`]
/// allows only what it does not replace.
#[must_use]
pub fn benchmark_folder(home: &Path, id: &BenchmarkId) -> PathBuf {
    home.join(id.group()).join(id.function()).join(id.value())
}

#[derive(Deserialize)]
struct Estimates {
    median: Estimate,
}

#[derive(Deserialize)]
struct Estimate {
    point_estimate: f64,
}

/// The median time of an iteration in nanoseconds that Criterion saved since `started`; `None` where
/// it saved none, as with `--test`.
#[must_use]
pub fn median_ns_since(home: &Path, id: &BenchmarkId, started: SystemTime) -> Option<f64> {
    let path = benchmark_folder(home, id).join("new/estimates.json");
    if !changed_since(&path, started) {
        return None;
    }
    let estimates: Estimates = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    Some(estimates.median.point_estimate)
}

/// The samples of one benchmark as Criterion saves them. *Shape* `[n]` each.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct SavedSample {
    /// Iterations in each sample.
    pub iters: Vec<f64>,
    /// Total time of each sample. *Unit* ns.
    pub times: Vec<f64>,
}

/// The samples that Criterion saved last. No clock is asked whether they are of this run: in a home of its
/// own they are, and a clock that was set back must not cost a recording its benchmark.
///
/// # Errors
///
/// Why there are none, as after `--test`.
pub fn last_sample(home: &Path, id: &BenchmarkId) -> Result<SavedSample, String> {
    let path = benchmark_folder(home, id).join("new/sample.json");
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    serde_json::from_slice(&bytes).map_err(|error| error.to_string())
}

/// Removes what Criterion saved for a benchmark since `started`: `new`, and the named baseline that it
/// was saved under. Baselines from before stay.
pub fn discard_since(home: &Path, id: &BenchmarkId, started: SystemTime) {
    let Ok(entries) = fs::read_dir(benchmark_folder(home, id)) else {
        return;
    };
    for entry in entries.flatten() {
        if changed_since(&entry.path().join("estimates.json"), started) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn changed_since(path: &Path, started: SystemTime) -> bool {
    fs::metadata(path)
        .and_then(|metadata| metadata.modified())
        .is_ok_and(|modified| modified >= started)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn each_device_has_its_own_folder_unless_the_user_chose_one() {
        let folder = |home: Option<&str>, target: Option<&str>| {
            folder_in("nvidia-h200", home.map(OsString::from), target.map(OsString::from))
        };
        assert_eq!(folder(None, None), Path::new("target/poolbench/nvidia-h200/criterion"));
        assert_eq!(
            folder(None, Some("/t")),
            Path::new("/t/poolbench/nvidia-h200/criterion")
        );
        assert_eq!(folder(Some("/home"), Some("/t")), Path::new("/home"));
        assert_eq!(
            folder(Some(""), None),
            Path::new("target/poolbench/nvidia-h200/criterion")
        );
    }

    #[test]
    fn a_sample_counts_whatever_the_clock_said() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let id = BenchmarkId::new("g", "f", "1MiB").expect("a valid id");
        assert!(
            last_sample(home.path(), &id)
                .expect_err("nothing is there")
                .contains("No such file")
        );
        let folder = benchmark_folder(home.path(), &id).join("new");
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("sample.json");
        fs::write(&path, r#"{"sampling_mode":"Flat","iters":[2.0],"times":[7.0]}"#).expect("a file");
        let file = fs::File::options().write(true).open(&path).expect("the file");
        file.set_modified(SystemTime::UNIX_EPOCH).expect("a time");
        let sample = last_sample(home.path(), &id).expect("a sample");
        assert_eq!((sample.iters, sample.times), (vec![2.0], vec![7.0]));
        fs::write(&path, r#"{"iters":[2.0],"times":[null]}"#).expect("a file");
        assert!(
            last_sample(home.path(), &id)
                .expect_err("no time")
                .contains("invalid type: null")
        );
    }

    #[test]
    fn a_failed_case_loses_its_number_and_no_older_one() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let id = BenchmarkId::new("g", "f", "1MiB").expect("a valid id");
        let estimates = r#"{"median":{"point_estimate":1250.0}}"#;
        let save = |name: &str| {
            let folder = benchmark_folder(home.path(), &id).join(name);
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join("estimates.json"), estimates).expect("a file");
        };
        save("old");
        let earlier = fs::File::options()
            .write(true)
            .open(benchmark_folder(home.path(), &id).join("old/estimates.json"))
            .expect("the file");
        let now = SystemTime::now() - Duration::from_secs(5);
        earlier.set_modified(now - Duration::from_secs(60)).expect("a time");
        save("new");
        assert_eq!(median_ns_since(home.path(), &id, now), Some(1250.0));
        discard_since(home.path(), &id, now);
        assert_eq!(median_ns_since(home.path(), &id, now), None);
        assert!(benchmark_folder(home.path(), &id).join("old/estimates.json").is_file());
    }
}
