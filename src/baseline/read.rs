//! Reading a baseline, and refusing what is not one.

use super::error::BaselineError;
use super::launch::{Launch, Samples};
use super::manifest::{FORMAT, Manifest};
use super::{Baseline, hexadecimal};
use crate::counted::counted;
use crate::named_file;
use crate::stats::{InvalidSample, Sample};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The file of the manifest.
pub(super) const MANIFEST: &str = "manifest.json";
/// Launches of a baseline, at most: a comparison looks at the difference of every two, 16 bytes each. A day of launches
/// of the whole suite is fewer.
pub const LAUNCHES_MAX: u64 = 4096;
/// The file of the launches.
pub(super) const LAUNCHES: &str = "launches.jsonl";

/// A manifest of ten thousand benchmarks with their observations takes about 5 MiB.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;
/// A hundred launches of ten thousand benchmarks take about 800 MiB.
const LAUNCHES_BYTES_MAX: u64 = 2 << 30;
/// The longest id that is read: three parts of 64 bytes, with room for other suites'.
pub(super) const ID_BYTES_MAX: usize = 1024;

/// Read before the manifest itself, whose shape another version may have changed.
#[derive(Deserialize)]
struct Version {
    format: serde_json::Value,
}

impl Baseline {
    /// Reads the baseline in a folder.
    ///
    /// # Errors
    ///
    /// A folder or file that is missing, cut short, edited, of another format, or whose numbers are no
    /// measurements.
    pub fn read(folder: &Path) -> Result<Baseline, BaselineError> {
        let manifest = Manifest::read(folder)?;
        let path = folder.join(LAUNCHES);
        let bytes = read_file(&path, LAUNCHES_BYTES_MAX)?;
        let expected = manifest.sha256.get(LAUNCHES).map(String::as_str);
        if expected != Some(hexadecimal(&Sha256::digest(&bytes)).as_str()) {
            return Err(BaselineError::Hash { path });
        }
        let text = String::from_utf8(bytes).map_err(|_| malformed(&path, None, "is not UTF-8"))?;
        let launches = text
            .lines()
            .enumerate()
            .map(|(index, line)| {
                serde_json::from_str(line).map_err(|error| malformed(&path, Some(index + 1), without_line(&error)))
            })
            .collect::<Result<Vec<Launch>, _>>()?;
        let baseline = Baseline { manifest, launches };
        baseline.check(&path)?;
        Ok(baseline)
    }

    /// Checks that launches and manifest fit each other, and that every number can be a measurement.
    fn check(&self, path: &Path) -> Result<(), BaselineError> {
        if self.launches.len() as u64 != self.manifest.launches {
            let reason = format!(
                "{}, but manifest.json says {}",
                counted(self.launches.len(), "launch"),
                self.manifest.launches
            );
            return Err(malformed(path, None, reason));
        }
        let benchmarks: BTreeSet<&str> = self.manifest.benchmarks.iter().map(String::as_str).collect();
        let mut seen = BTreeSet::new();
        for (index, launch) in self.launches.iter().enumerate() {
            let wrong = |reason: String| malformed(path, Some(index + 1), reason);
            if !seen.insert((&launch.session, launch.launch)) {
                return Err(wrong(format!(
                    "launch {} of session {:?} is given twice",
                    launch.launch, launch.session
                )));
            }
            if let Some(id) = benchmarks.iter().find(|id| !launch.samples.contains_key(**id)) {
                return Err(wrong(format!("launch {} lacks the benchmark {id:?}", launch.launch)));
            }
            if let Some(id) = launch.samples.keys().find(|id| !benchmarks.contains(id.as_str())) {
                return Err(wrong(format!("{id:?} is not among the benchmarks of manifest.json")));
            }
            for (id, samples) in &launch.samples {
                samples.check().map_err(|reason| wrong(format!("{id:?}: {reason}")))?;
            }
        }
        Ok(())
    }
}

impl Samples {
    /// Checks that every number can be a measurement.
    ///
    /// # Errors
    ///
    /// Names the first that cannot.
    pub fn check(&self) -> Result<(), InvalidSample> {
        let count = Sample::from_totals(&self.iters, &self.times_ns)?.times_ns().len();
        let probes = self
            .probe_ns
            .iter()
            .flat_map(|probe| [&probe.syscall, &probe.user, &probe.memory]);
        for probe in probes.filter(|probe| !probe.is_empty()) {
            Sample::new(probe.clone())?;
            if probe.len() != count {
                return Err(InvalidSample::LengthMismatch {
                    iters: probe.len(),
                    times: count,
                });
            }
        }
        Ok(())
    }
}

impl Manifest {
    /// Reads the manifest of the baseline in a folder, and nothing else of it.
    ///
    /// # Errors
    ///
    /// A manifest that is missing, cut short, edited or of another format.
    pub fn read(folder: &Path) -> Result<Manifest, BaselineError> {
        if !folder.is_dir() {
            return Err(BaselineError::Missing {
                folder: folder.to_owned(),
            });
        }
        let path = folder.join(MANIFEST);
        let bytes = read_file(&path, MANIFEST_BYTES_MAX)?;
        let version: Version =
            serde_json::from_slice(&bytes).map_err(|error| malformed(&path, None, error.to_string()))?;
        if version.format != FORMAT {
            return Err(BaselineError::Format {
                path,
                found: version.format.to_string(),
            });
        }
        let manifest: Manifest =
            serde_json::from_slice(&bytes).map_err(|error| malformed(&path, None, error.to_string()))?;
        if !manifest.complete {
            return Err(BaselineError::Incomplete { path });
        }
        manifest.check(&path)?;
        Ok(manifest)
    }

    fn check(&self, path: &Path) -> Result<(), BaselineError> {
        let wrong = |reason: String| Err(malformed(path, None, reason));
        if self.launches == 0 {
            return wrong(String::from("holds no launch"));
        }
        if self.launches > LAUNCHES_MAX {
            return wrong(format!(
                "holds {}, more than the {LAUNCHES_MAX} that can be compared",
                counted(self.launches, "launch")
            ));
        }
        if self.benchmarks.is_empty() {
            return wrong(String::from("holds no benchmark"));
        }
        let skipped = self.skipped.iter().map(|skip| &skip.id);
        if let Some(reason) = self.benchmarks.iter().chain(skipped).find_map(|id| check_id(id).err()) {
            return wrong(reason);
        }
        for (what, ids) in [("benchmarks", &self.benchmarks), ("host_bound", &self.host_bound)] {
            if let Some(pair) = ids.windows(2).find(|pair| pair[0] >= pair[1]) {
                return wrong(format!(
                    "{what} are not sorted, each once: {:?} before {:?}",
                    pair[0], pair[1]
                ));
            }
        }
        if let Some(id) = self
            .host_bound
            .iter()
            .find(|id| self.benchmarks.binary_search(id).is_err())
        {
            return wrong(format!("host_bound names {id:?}, which is no benchmark of it"));
        }
        if let Some(both) = self
            .skipped
            .iter()
            .find(|skip| self.benchmarks.binary_search(&skip.id).is_ok())
        {
            return wrong(format!("{:?} is both measured and skipped", both.id));
        }
        Ok(())
    }
}

/// Checks the length of an id: a table is as wide as the longest in every row.
pub(super) fn check_id(id: &str) -> Result<(), String> {
    if id.is_empty() || id.len() > ID_BYTES_MAX {
        return Err(format!(
            "an id of {}, not 1 to {ID_BYTES_MAX}",
            counted(id.len(), "byte")
        ));
    }
    Ok(())
}

fn malformed(path: &Path, line: Option<usize>, reason: impl Into<String>) -> BaselineError {
    BaselineError::Malformed {
        path: path.to_owned(),
        line,
        reason: reason.into(),
    }
}

/// The parser's words; each launch is one line to it, so its own line number would mislead.
fn without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line 1 column ") {
        Some((what, column)) => format!("{what} at column {column}"),
        None => text,
    }
}

/// Reads a file that is not larger than any recording.
pub(super) fn read_file(path: &Path, limit_bytes: u64) -> Result<Vec<u8>, BaselineError> {
    read_opened(path, named_file::open(path), limit_bytes)
}

/// Reads a file that the user named, likewise, or what a shell pipes in its place.
pub(super) fn read_file_or_pipe(path: &Path, limit_bytes: u64) -> Result<Vec<u8>, BaselineError> {
    let opened = named_file::open_or_pipe(path).map(|(file, _)| file);
    read_opened(path, opened, limit_bytes)
}

fn read_opened(path: &Path, opened: io::Result<File>, limit_bytes: u64) -> Result<Vec<u8>, BaselineError> {
    let unreadable = |error| BaselineError::Unreadable {
        path: path.to_owned(),
        error,
    };
    let too_large = |size_bytes| BaselineError::TooLarge {
        path: PathBuf::from(path),
        size_bytes,
        limit_bytes,
    };
    let file = opened.map_err(unreadable)?;
    let size_bytes = file.metadata().map_err(unreadable)?.len();
    if size_bytes > limit_bytes {
        return Err(too_large(size_bytes));
    }
    let mut bytes = Vec::new();
    // A pipe does not say how much is to come.
    file.take(limit_bytes + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    match bytes.len() as u64 {
        size_bytes if size_bytes > limit_bytes => Err(too_large(size_bytes)),
        _ => Ok(bytes),
    }
}
