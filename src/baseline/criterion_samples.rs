//! The samples in a Criterion home: one launch of every benchmark, under the name of a baseline.
//!
//! Criterion's files are private to it and change without notice, so only `sample.json` and the id in
//! `benchmark.json` are read, and what cannot be read is left out by name. Where only `estimates.json` is left, it
//! serves as critcmp's exports do, which are made of it.

use super::critcmp;
use super::input::{Input, InputKind, LeftOut};
use super::read::{ID_BYTES_MAX, check_id, read_file};
use super::resolve::InputError;
use crate::stats::{BenchmarkId, LaunchKey, ProcessTime, RawLaunch, Sample, SessionId, Side};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Folders below the home that are looked into: Criterion makes three and the baseline's.
const DEPTH_MAX: usize = 6;
/// Folders that are looked into at most: a path that is no Criterion home may lead to a whole disk.
const FOLDERS_MAX: usize = 100_000;
/// A sample of a million iterations' times takes about 20 MiB.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// A benchmark that is this much older than the newest is of another run.
const STALE_AFTER: Duration = Duration::from_secs(24 * 3600);
/// What Criterion puts beside baselines.
const NO_BASELINES: [&str; 2] = ["change", "report"];

#[derive(Deserialize)]
struct SampleFile {
    iters: Vec<f64>,
    times: Vec<f64>,
}

#[derive(Deserialize)]
struct BenchmarkFile {
    full_id: String,
}

/// One benchmark as its folder gives it.
struct Found {
    iters: Vec<f64>,
    times_ns: Vec<f64>,
    /// Where there are no samples: Criterion's own estimate.
    estimate: Option<ProcessTime>,
    written: Option<SystemTime>,
}

/// Reads the baseline `name` of a Criterion home.
pub(super) fn read(text: &str, home: &Path, name: &str) -> Result<Input, InputError> {
    let folders = folders_named(home, name);
    if folders.is_empty() {
        return Err(InputError::HomeBaseline {
            home: home.to_owned(),
            name: Some(name.to_owned()),
            there: baselines_in(home),
        });
    }
    let mut by_id: BTreeMap<String, Vec<Result<Found, String>>> = BTreeMap::new();
    for folder in &folders {
        let id = id_of(home, folder);
        by_id.entry(id).or_default().push(benchmark(folder));
    }
    let count = by_id.len();
    let mut input = Input {
        name: text.to_owned(),
        kind: InputKind::CriterionHome,
        manifest: None,
        side: Side::new(),
        process_times: BTreeMap::new(),
        left_out: Vec::new(),
        stale: 0,
    };
    let mut written = Vec::new();
    for (id, mut found) in by_id {
        let only = if found.len() == 1 { found.pop() } else { None };
        let only = only.unwrap_or_else(|| Err(String::from("several folders of the home hold this id")));
        match check_id(&id).and(only) {
            Ok(found) => {
                written.extend(found.written);
                let id = BenchmarkId::new(id);
                input.add(&id, &found.iters, &found.times_ns);
                input.process_times.extend(found.estimate.map(|time| (id, time)));
            }
            Err(reason) => input.leave_out(id, reason),
        }
    }
    let newest = written.iter().max();
    let age = |time: &SystemTime| newest.and_then(|newest| newest.duration_since(*time).ok());
    input.stale = written
        .iter()
        .filter(|time| age(time).is_some_and(|age| age > STALE_AFTER))
        .count();
    input.usable(count)
}

impl Input {
    /// Adds the one launch of a benchmark, which its reader has checked.
    pub(super) fn add(&mut self, id: &BenchmarkId, iters: &[f64], times_ns: &[f64]) {
        let key = LaunchKey {
            session: SessionId::new(self.name.as_str()),
            order: 0,
        };
        let raw = RawLaunch {
            iters,
            times_ns,
            probe_ns: None,
            flags: &[],
        };
        self.side.add(id, &key, &raw);
    }

    /// Leaves a benchmark out. It is skipped, not missing: it was there.
    pub(super) fn leave_out(&mut self, mut name: String, reason: String) {
        if name.len() > ID_BYTES_MAX {
            let starts = name.char_indices().map(|(at, _)| at);
            let end = starts.take_while(|at| *at <= ID_BYTES_MAX).last();
            name.truncate(end.unwrap_or(0));
            name.push('…');
        }
        self.side.leave_out(&BenchmarkId::new(name.as_str()), reason.as_str());
        self.left_out.push(LeftOut { name, reason });
    }

    /// Returns the input unless none of its benchmarks can be used.
    pub(super) fn usable(self, count: usize) -> Result<Input, InputError> {
        match self.left_out.first() {
            Some(first) if self.left_out.len() == count => Err(InputError::NothingUsable {
                name: first.name.clone(),
                reason: first.reason.clone(),
                input: self.name,
                count,
            }),
            _ => Ok(self),
        }
    }
}

/// Returns the names of the baselines in a Criterion home, sorted.
pub(super) fn baselines_in(home: &Path) -> Vec<String> {
    let mut names = BTreeSet::new();
    walk(home, |folder| {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        if let Some(name) =
            name.filter(|_| folder.join("sample.json").is_file() || folder.join("estimates.json").is_file())
            && !NO_BASELINES.contains(&name.as_str())
        {
            names.insert(name);
        }
    });
    names.into_iter().collect()
}

/// Returns the folders of this name that are a benchmark's baseline: they hold files of Criterion's, or
/// nothing at all, as caches leave them behind.
fn folders_named(home: &Path, name: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if NO_BASELINES.contains(&name) {
        return folders;
    }
    walk(home, |folder| {
        let is_named = folder.file_name().is_some_and(|found| found == name);
        if is_named && subfolders(folder).is_empty() {
            folders.push(folder.to_owned());
        }
    });
    folders
}

/// Visits the folders below one. Links are not followed: they may lead back.
fn walk(home: &Path, mut visit: impl FnMut(&Path)) {
    let mut waiting: Vec<(PathBuf, usize)> = vec![(home.to_owned(), 0)];
    let mut visited = 0;
    while let Some((folder, depth)) = waiting.pop() {
        if depth == DEPTH_MAX || visited >= FOLDERS_MAX {
            continue;
        }
        for below in subfolders(&folder) {
            visited += 1;
            visit(&below);
            waiting.push((below, depth + 1));
        }
    }
}

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// The id that Criterion wrote; where it is lost, the folder's place, which is the id wherever Criterion
/// did not have to change a character of it.
fn id_of(home: &Path, folder: &Path) -> String {
    let written = read_file(&folder.join("benchmark.json"), FILE_BYTES_MAX)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<BenchmarkFile>(&bytes).ok());
    written.map_or_else(
        || {
            let place = folder.parent().and_then(|parent| parent.strip_prefix(home).ok());
            place.unwrap_or(folder).to_string_lossy().into_owned()
        },
        |file| file.full_id,
    )
}

fn benchmark(folder: &Path) -> Result<Found, String> {
    let path = folder.join("sample.json");
    if !path.exists() {
        let hollow = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
        let estimates = folder.join("estimates.json");
        return match (hollow, estimates.exists()) {
            (true, _) => Err(String::from("the folder is empty")),
            (false, true) => estimated(&estimates),
            (false, false) => Err(String::from("neither sample.json nor estimates.json")),
        };
    }
    let bytes = read_file(&path, FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    // Criterion before 0.3.3 writes the two lists alone.
    let sample = if first == Some(&b'[') {
        serde_json::from_slice(&bytes).map(|(iters, times)| SampleFile { iters, times })
    } else {
        serde_json::from_slice(&bytes)
    };
    let SampleFile { iters, times } = sample.map_err(|error| format!("sample.json: {error}"))?;
    Sample::from_totals(&iters, &times).map_err(|error| format!("sample.json: {error}"))?;
    Ok(Found {
        iters,
        times_ns: times,
        estimate: None,
        written: written(&path),
    })
}

/// A benchmark of which only Criterion's estimates are left.
fn estimated(path: &Path) -> Result<Found, String> {
    let bytes = read_file(path, FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    let estimate = serde_json::from_slice(&bytes)
        .map_err(|error| error.to_string())
        .and_then(|estimates| critcmp::process_time(&estimates))
        .map_err(|reason| format!("estimates.json: {reason}"))?;
    Ok(Found {
        iters: vec![1.0],
        times_ns: vec![estimate.median_ns],
        estimate: Some(estimate),
        written: written(path),
    })
}

fn written(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}
