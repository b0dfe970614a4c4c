//! Criterion's output folder: where it is, and what stands in it.
//!
//! Criterion's files are private to it; only what is needed is read.

use super::BaselineName;
use crate::case::BenchmarkId;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The folder of the records of runs.
const RUNS: &str = "runs";
/// The file in a model's folder that holds the UUID of the card whose results lie there.
const OWNER: &str = "device";

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

/// Whether the user named Criterion's output folder with `CRITERION_HOME`.
#[must_use]
pub fn is_named() -> bool {
    std::env::var_os("CRITERION_HOME").is_some_and(|home| !home.is_empty())
}

/// Where the runs of bench executables are recorded: beside Criterion's own folder, inside one that the user
/// named, whose surroundings are not ours.
#[must_use]
pub fn runs_folder(home: &Path) -> PathBuf {
    runs_folder_of(home, is_named())
}

fn runs_folder_of(home: &Path, is_named: bool) -> PathBuf {
    if is_named {
        home.join(RUNS)
    } else {
        home.with_file_name(RUNS)
    }
}

/// As [`folder`], for one card of several of a model: the first that measures has the model's folder for good,
/// and each other one of its own beside it. `None` stands for a device without a UUID.
#[must_use]
pub fn folder_of_card(device_slug: &str, uuid: Option<&str>) -> PathBuf {
    let plain = folder(device_slug);
    match (uuid, plain.parent()) {
        (Some(uuid), Some(of_model)) if !is_named() && !has_claimed(of_model, uuid) => {
            folder(&format!("{device_slug}-{}", card(uuid)))
        }
        _ => plain,
    }
}

/// Whether the folder of a model is the card's, which takes it where it is nobody's yet. Which card is the
/// driver's first depends on `CUDA_VISIBLE_DEVICES`, so the folder remembers.
fn has_claimed(of_model: &Path, uuid: &str) -> bool {
    let owner = of_model.join(OWNER);
    // Where it cannot be written, the first attempt to keep something says so.
    let _ = fs::create_dir_all(of_model)
        .and_then(|()| fs::File::create_new(&owner))
        .and_then(|mut file| file.write_all(uuid.as_bytes()));
    fs::read_to_string(&owner).is_ok_and(|owner| owner.trim() == uuid)
}

/// As [`folder`], and after it those of the other cards of the model that have measured.
#[must_use]
pub fn folders_of_model(device_slug: &str) -> Vec<PathBuf> {
    let plain = folder(device_slug);
    let others = if is_named() {
        Vec::new()
    } else {
        other_cards(&plain, device_slug)
    };
    std::iter::once(plain).chain(others).collect()
}

/// The folders that [`folder_of_card`] gave to cards beside the one that has `plain`.
fn other_cards(plain: &Path, device_slug: &str) -> Vec<PathBuf> {
    let (Some(of_model), Some(criterion)) = (plain.parent(), plain.file_name()) else {
        return Vec::new();
    };
    let Some(entries) = of_model.parent().and_then(|models| fs::read_dir(models).ok()) else {
        return Vec::new();
    };
    let is_card = |name: &str| {
        let digits = name.strip_prefix(device_slug).and_then(|rest| rest.strip_prefix('-'));
        digits.is_some_and(|digits| digits.len() == CARD_DIGITS && digits.chars().all(|c| c.is_ascii_hexdigit()))
    };
    let mut folders: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_card))
        .map(|entry| entry.path().join(criterion))
        .filter(|folder| folder.is_dir())
        .collect();
    folders.sort();
    folders
}

/// Digits of a UUID, which are enough to tell the cards of a machine apart.
const CARD_DIGITS: usize = 8;

/// The first part of a UUID.
fn card(uuid: &str) -> String {
    let digits = uuid.split_once('-').map_or(uuid, |(_, digits)| digits);
    digits
        .chars()
        .filter(char::is_ascii_hexdigit)
        .take(CARD_DIGITS)
        .collect()
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

/// Names of folders that Criterion keeps beside the baselines of a benchmark.
const RESERVED: [&str; 3] = ["new", "report", "change"];

/// Checks a name that a measurement is to be saved under.
///
/// # Errors
///
/// Why it cannot be, in a part of a line: Criterion would write over the measurement itself, or leave it where
/// nothing finds it.
pub fn check_new_name(name: &str) -> Result<(), String> {
    name.parse::<BaselineName>().map_err(|error| error.to_string())?;
    check_reserved(name)
}

/// Checks a name that something may have been saved under, by Criterion alone, too.
///
/// # Errors
///
/// Why nothing can have been, in a part of a line.
pub fn check_saved_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.contains('/') || [".", ".."].contains(&name) {
        return Err(format!("{name:?} is no name of a baseline"));
    }
    check_reserved(name)
}

fn check_reserved(name: &str) -> Result<(), String> {
    if RESERVED.contains(&name) {
        return Err(format!(
            "Criterion has a folder {name:?} of its own; choose another name"
        ));
    }
    Ok(())
}

/// The file of a saved measurement that is written last.
const ESTIMATES: &str = "estimates.json";

#[derive(Deserialize)]
struct Estimates {
    median: Estimate,
}

#[derive(Deserialize)]
struct Estimate {
    point_estimate: f64,
}

/// What stood in a benchmark's folder before it was measured, so that what is new is told by itself: the clocks
/// of a file system may lag, or count whole seconds.
#[derive(Clone, Debug, Default)]
pub struct Before {
    estimates: BTreeMap<OsString, FileState>,
}

/// A file as it was found. Criterion writes over files, so all of it is compared.
#[derive(Clone, Debug, PartialEq)]
struct FileState {
    modified: Option<SystemTime>,
    inode: u64,
    bytes: Vec<u8>,
}

impl FileState {
    fn of(path: &Path) -> Option<FileState> {
        let bytes = fs::read(path).ok()?;
        let metadata = fs::metadata(path).ok()?;
        Some(FileState {
            modified: metadata.modified().ok(),
            inode: metadata.ino(),
            bytes,
        })
    }
}

impl Before {
    /// Looks at what is saved of a benchmark.
    #[must_use]
    pub fn of(home: &Path, id: &BenchmarkId) -> Before {
        let entries = fs::read_dir(benchmark_folder(home, id));
        let estimates = entries.into_iter().flatten().flatten().filter_map(|entry| {
            let state = FileState::of(&entry.path().join(ESTIMATES))?;
            Some((entry.file_name(), state))
        });
        Before {
            estimates: estimates.collect(),
        }
    }

    /// Whether a folder of the benchmark has other estimates now.
    fn differs(&self, folder: &Path) -> bool {
        let Some(now) = FileState::of(&folder.join(ESTIMATES)) else {
            return false;
        };
        let before = folder.file_name().and_then(|name| self.estimates.get(name));
        before != Some(&now)
    }

    /// The median time of an iteration in nanoseconds that Criterion has saved since; `None` where it saved
    /// none, as with `--test`.
    #[must_use]
    pub fn median_ns_since(&self, home: &Path, id: &BenchmarkId) -> Option<f64> {
        let folder = benchmark_folder(home, id).join("new");
        if !self.differs(&folder) {
            return None;
        }
        let estimates: Estimates = serde_json::from_slice(&fs::read(folder.join(ESTIMATES)).ok()?).ok()?;
        Some(estimates.median.point_estimate)
    }

    /// Removes what Criterion has saved for the benchmark since: `new`, and the named baseline that it was saved
    /// under. Baselines from before stay.
    pub fn discard_since(&self, home: &Path, id: &BenchmarkId) {
        let Ok(entries) = fs::read_dir(benchmark_folder(home, id)) else {
            return;
        };
        for entry in entries.flatten() {
            if self.differs(&entry.path()) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_records_of_runs_stay_inside_a_folder_that_the_user_named() {
        assert_eq!(runs_folder_of(Path::new("/home"), true), Path::new("/home/runs"));
        let own = Path::new("target/poolbench/host/criterion");
        assert_eq!(runs_folder_of(own, false), Path::new("target/poolbench/host/runs"));
    }

    #[test]
    fn the_second_card_of_a_model_has_a_folder_of_its_own() {
        let target = tempfile::tempdir().expect("a temporary folder");
        let of_model = target.path().join("poolbench/nvidia-h200");
        let (first, second) = (
            "GPU-0a1b2c3d-0000-0000-0000-000000000000",
            "GPU-0a1b2c3e-0000-0000-0000-000000000000",
        );
        assert!(has_claimed(&of_model, first), "it was nobody's");
        assert!(!has_claimed(&of_model, second));
        assert!(has_claimed(&of_model, first), "in whatever order they come");
        assert_eq!((card(first), card(second)), ("0a1b2c3d".into(), "0a1b2c3e".into()));
    }

    #[test]
    fn the_folders_of_a_model_are_those_of_its_cards_that_measured() {
        let target = tempfile::tempdir().expect("a temporary folder");
        let folder = |name: &str| target.path().join(name).join("criterion");
        for name in [
            "h200",
            "h200-0a1b2c3e",
            "h200-0a1b2c3d",
            "h200-nvl",
            "h200-nvl-0a1b2c3f",
            "gh200",
        ] {
            fs::create_dir_all(folder(name)).expect("a folder");
        }
        // One whose run ended before it measured.
        fs::create_dir(target.path().join("h200-0a1b2c3c")).expect("a folder");
        let others = other_cards(&folder("h200"), "h200");
        assert_eq!(others, [folder("h200-0a1b2c3d"), folder("h200-0a1b2c3e")]);
        assert!(other_cards(&folder("a100"), "a100").is_empty());
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
    fn a_failed_case_loses_its_number_and_no_older_one_whatever_the_clock_says() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let id = BenchmarkId::new("g", "f", "1MiB").expect("a valid id");
        // Every file has the same time, as on a file system whose clock stands still.
        let save = |name: &str, median_ns: f64| {
            let folder = benchmark_folder(home.path(), &id).join(name);
            fs::create_dir_all(&folder).expect("a folder");
            let path = folder.join(ESTIMATES);
            fs::write(&path, format!(r#"{{"median":{{"point_estimate":{median_ns}}}}}"#)).expect("a file");
            let file = fs::File::options().write(true).open(&path).expect("the file");
            file.set_modified(SystemTime::UNIX_EPOCH).expect("a time");
        };
        let before = Before::of(home.path(), &id);
        assert_eq!(before.median_ns_since(home.path(), &id), None);
        save("new", 1250.0);
        assert_eq!(before.median_ns_since(home.path(), &id), Some(1250.0));
        save("old", 1250.0);
        let before = Before::of(home.path(), &id);
        assert_eq!(before.median_ns_since(home.path(), &id), None, "it is from before");
        save("new", 1251.0);
        assert_eq!(before.median_ns_since(home.path(), &id), Some(1251.0));
        before.discard_since(home.path(), &id);
        assert_eq!(before.median_ns_since(home.path(), &id), None);
        let folder = benchmark_folder(home.path(), &id);
        assert!(!folder.join("new").exists() && folder.join("old").join(ESTIMATES).is_file());
    }

    #[test]
    fn names_that_criterion_has_for_itself_are_no_baselines() {
        for name in ["new", "report", "change"] {
            let refused = check_new_name(name).expect_err("Criterion's own");
            assert!(refused.contains("Criterion"), "{refused}");
            assert!(check_saved_name(name).is_err(), "{name}");
        }
        for name in ["", ".", "..", "a/b", "../../x", "/x", "a/"] {
            assert!(
                check_new_name(name).is_err() && check_saved_name(name).is_err(),
                "{name:?}"
            );
        }
        assert!(check_new_name("base").is_ok() && check_saved_name("base").is_ok());
        // Criterion alone would have saved it.
        assert!(check_new_name("my base").is_err() && check_saved_name("my base").is_ok());
    }
}
