//! A baseline as Criterion's: one named baseline in a Criterion home, whose samples are launches.

use super::criterion_home::benchmark_folder;
use super::error::BaselineError;
use super::write::{Existing, remove_leftovers, replace, write_synced};
use super::{Baseline, BaselineName, hexadecimal};
use crate::case::{BenchmarkId, Size};
use crate::named_file;
use crate::stats::{BootstrapEstimate, bootstrap, quantile_of_sorted};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Names that Criterion gives itself.
const CRITERIONS_OWN: [&str; 4] = ["new", "base", "change", "report"];
/// Stands beside Criterion's files and says that they are not Criterion's.
const MARK: &str = "poolbench.json";
/// As many launches as Criterion needs samples.
const LAUNCHES_MIN: usize = 2;
/// Enough for a 95 % interval, and done in a second for a suite of hundreds.
const RESAMPLES: usize = 2_000;
const SEED: u64 = 20_240_607;
/// Makes the median absolute deviation that of a normal distribution's standard deviation.
const NORMAL_MAD: f64 = 1.4826;

/// Why a baseline is not installed. Nothing was written, unless a write itself failed.
#[derive(Debug, Error)]
pub enum InstallError {
    /// Criterion would write over it.
    #[error("{0:?} is a name that Criterion itself uses; rename the baseline's folder")]
    CriterionsName(String),
    /// Criterion needs two samples.
    #[error("{name} has {launches} launch: Criterion needs two samples, and a launch is one here")]
    FewLaunches {
        /// The baseline.
        name: String,
        /// Its launches.
        launches: usize,
    },
    /// An id that has no place in a Criterion home.
    #[error("{0:?} is no benchmark id of three parts of A-Z a-z 0-9 _ = , . -; nothing was installed")]
    Id(String),
    /// A baseline of Criterion's own.
    #[error("{}: recorded by Criterion itself; --replace writes over it; nothing was installed", .0.display())]
    NotOurs(PathBuf),
    /// It cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Unwritable {
        /// Where.
        path: PathBuf,
        /// The operating system's words.
        error: io::Error,
    },
    /// The baseline itself.
    #[error(transparent)]
    Baseline(#[from] BaselineError),
}

#[derive(Serialize)]
struct SampleFile {
    sampling_mode: &'static str,
    iters: Vec<f64>,
    times: Vec<f64>,
}

#[derive(Serialize)]
struct EstimatesFile {
    mean: EstimateField,
    median: EstimateField,
    median_abs_dev: EstimateField,
    slope: Option<EstimateField>,
    std_dev: EstimateField,
}

#[derive(Serialize)]
struct EstimateField {
    confidence_interval: IntervalField,
    point_estimate: f64,
    standard_error: f64,
}

#[derive(Serialize)]
struct IntervalField {
    confidence_level: f64,
    lower_bound: f64,
    upper_bound: f64,
}

impl EstimateField {
    fn of(estimate: &BootstrapEstimate) -> EstimateField {
        EstimateField {
            confidence_interval: IntervalField {
                confidence_level: 0.95,
                lower_bound: estimate.lower,
                upper_bound: estimate.upper,
            },
            point_estimate: estimate.point,
            standard_error: estimate.standard_error,
        }
    }
}

#[derive(Serialize)]
struct BenchmarkFile<'a> {
    group_id: &'a str,
    function_id: &'a str,
    value_str: &'a str,
    throughput: Option<ThroughputField>,
    full_id: String,
    directory_name: String,
    title: String,
}

#[derive(Serialize)]
enum ThroughputField {
    Bytes(u64),
}

/// What [`MARK`] holds.
#[derive(Serialize, Deserialize)]
struct Mark {
    baseline: String,
    launches: usize,
    /// Of `sample.json`: once Criterion has written over it, it is Criterion's.
    sample_sha256: String,
}

impl Baseline {
    /// Installs the baseline under a name in a Criterion home, so that `cargo bench -- --baseline NAME`
    /// and critcmp work with it, and returns the number of benchmarks. Each benchmark's sample has one
    /// value a launch, all its iterations and their total time, since launches are what is independent;
    /// the intervals of the estimates are percentile bootstraps over the launches. A benchmark appears
    /// whole or not at all.
    ///
    /// # Errors
    ///
    /// A name that Criterion uses itself, an id that could leave the home, fewer than two launches, a
    /// baseline that Criterion recorded (unless `existing` says to replace it), or the operating
    /// system's refusal.
    pub fn install(&self, home: &Path, name: &BaselineName, existing: Existing) -> Result<usize, InstallError> {
        let ids = self.check_home(home, name, existing)?;
        for id in &ids {
            let folder = benchmark_folder(home, id).join(name.as_str());
            self.install_benchmark(id, &folder, name)
                .map_err(|error| InstallError::Unwritable { path: folder, error })?;
        }
        Ok(ids.len())
    }

    /// Checks that [`Baseline::install`] may write into a home, and returns the ids of what it would.
    ///
    /// # Errors
    ///
    /// As there, but for the operating system's.
    pub fn check_home(
        &self,
        home: &Path,
        name: &BaselineName,
        existing: Existing,
    ) -> Result<Vec<BenchmarkId>, InstallError> {
        if CRITERIONS_OWN.contains(&name.as_str()) {
            return Err(InstallError::CriterionsName(name.to_string()));
        }
        if self.launches.len() < LAUNCHES_MIN {
            return Err(InstallError::FewLaunches {
                name: name.to_string(),
                launches: self.launches.len(),
            });
        }
        let ids = self
            .manifest
            .benchmarks
            .iter()
            .map(|id| parsed(id).ok_or_else(|| InstallError::Id(id.clone())))
            .collect::<Result<Vec<BenchmarkId>, _>>()?;
        let folder_of = |id: &BenchmarkId| benchmark_folder(home, id).join(name.as_str());
        if existing == Existing::Keep
            && let Some(folder) = ids.iter().map(folder_of).find(|folder| !is_ours(folder))
        {
            return Err(InstallError::NotOurs(folder));
        }
        Ok(ids)
    }

    fn install_benchmark(&self, id: &BenchmarkId, folder: &Path, name: &BaselineName) -> io::Result<()> {
        // A link would lead what is written out of the home.
        if folder.ancestors().take(4).any(Path::is_symlink) {
            return Err(io::Error::other("a symbolic link, through which nothing is written"));
        }
        let parent = folder.parent().unwrap_or(folder);
        fs::create_dir_all(parent)?;
        remove_leftovers(parent);
        let partial = parent.join(format!("{}{}-{name}", super::PARTIAL_PREFIX, std::process::id()));
        let written = self
            .write_benchmark(id, &partial, name)
            .and_then(|()| replace(&partial, folder));
        // Where it could not be written whole.
        let _ = fs::remove_dir_all(&partial);
        written
    }

    fn write_benchmark(&self, id: &BenchmarkId, folder: &Path, name: &BaselineName) -> io::Result<()> {
        let sample = self.pooled(&id.to_string());
        let times_ns: Vec<f64> = sample.times.iter().zip(&sample.iters).map(|(t, n)| t / n).collect();
        let estimates = estimates(&times_ns).ok_or_else(|| io::Error::other("no launch"))?;
        let directory = id.to_string();
        let benchmark = BenchmarkFile {
            group_id: id.group(),
            function_id: id.function(),
            value_str: id.value(),
            throughput: bytes_of(id).map(ThroughputField::Bytes),
            full_id: directory.clone(),
            // Criterion cuts titles here; the ids are ASCII.
            title: directory[..directory.len().min(100)].to_owned(),
            directory_name: directory,
        };
        let sample = serde_json::to_vec(&sample)?;
        let mark = Mark {
            baseline: name.to_string(),
            launches: self.launches.len(),
            sample_sha256: hexadecimal(&Sha256::digest(&sample)),
        };
        fs::create_dir(folder)?;
        write_synced(&folder.join("sample.json"), &sample)?;
        write_synced(&folder.join("estimates.json"), &serde_json::to_vec(&estimates)?)?;
        write_synced(&folder.join("tukey.json"), &serde_json::to_vec(&fences(&times_ns))?)?;
        write_synced(&folder.join("benchmark.json"), &serde_json::to_vec(&benchmark)?)?;
        write_synced(&folder.join(MARK), &serde_json::to_vec(&mark)?)
    }

    /// One value a launch: all its iterations, and their total time.
    fn pooled(&self, id: &str) -> SampleFile {
        let launches = || self.launches.iter().filter_map(|launch| launch.samples.get(id));
        SampleFile {
            sampling_mode: "Flat",
            iters: launches().map(|samples| samples.iters.iter().sum()).collect(),
            times: launches().map(|samples| samples.times_ns.iter().sum()).collect(),
        }
    }
}

fn parsed(id: &str) -> Option<BenchmarkId> {
    let mut parts = id.split('/');
    let (group, function, value) = (parts.next()?, parts.next()?, parts.next()?);
    let id = BenchmarkId::new(group, function, value).ok()?;
    parts.next().is_none().then_some(id)
}

/// What one iteration moves, where the value is a size, as the suite tells Criterion.
fn bytes_of(id: &BenchmarkId) -> Option<u64> {
    let size: Size = id.value().parse().ok()?;
    u64::try_from(size.as_bytes()).ok()
}

/// Whether a folder is not there, or holds what was installed and nothing that Criterion wrote since.
fn is_ours(folder: &Path) -> bool {
    if !folder.exists() {
        return true;
    }
    let mark = named_file::read(&folder.join(MARK))
        .ok()
        .and_then(|bytes| serde_json::from_slice::<Mark>(&bytes).ok());
    let sample = named_file::read(&folder.join("sample.json")).unwrap_or_default();
    mark.is_some_and(|mark| mark.sample_sha256 == hexadecimal(&Sha256::digest(sample)))
}

fn estimates(times_ns: &[f64]) -> Option<EstimatesFile> {
    let statistics: [fn(&[f64]) -> f64; 4] = [mean, median, median_abs_dev, std_dev];
    let [mean, median, median_abs_dev, std_dev] = bootstrap(times_ns, statistics, RESAMPLES, SEED)?;
    Some(EstimatesFile {
        mean: EstimateField::of(&mean),
        median: EstimateField::of(&median),
        median_abs_dev: EstimateField::of(&median_abs_dev),
        // Criterion fits none to flat samples.
        slope: None,
        std_dev: EstimateField::of(&std_dev),
    })
}

#[allow(clippy::cast_precision_loss, reason = "far fewer launches than 2^52")]
fn mean(sorted: &[f64]) -> f64 {
    sorted.iter().sum::<f64>() / sorted.len() as f64
}

fn median(sorted: &[f64]) -> f64 {
    quantile_of_sorted(sorted, 0.5)
}

fn median_abs_dev(sorted: &[f64]) -> f64 {
    let median = median(sorted);
    let mut deviations: Vec<f64> = sorted.iter().map(|value| (value - median).abs()).collect();
    deviations.sort_unstable_by(f64::total_cmp);
    NORMAL_MAD * quantile_of_sorted(&deviations, 0.5)
}

#[allow(clippy::cast_precision_loss, reason = "far fewer launches than 2^52")]
fn std_dev(sorted: &[f64]) -> f64 {
    let mean = mean(sorted);
    let squares: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (sorted.len() - 1).max(1) as f64).sqrt()
}

/// Tukey's fences, as Criterion orders them: far below, below, above, far above.
fn fences(times_ns: &[f64]) -> [f64; 4] {
    let mut sorted = times_ns.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (lower, upper) = (quantile_of_sorted(&sorted, 0.25), quantile_of_sorted(&sorted, 0.75));
    let range = upper - lower;
    [
        lower - 3.0 * range,
        lower - 1.5 * range,
        upper + 1.5 * range,
        upper + 3.0 * range,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_criterions() {
        // Mean 5, median 4.5; deviations from it 3.5 1.5 0.5 0.5 2.5 5.5: median 2; squares about the mean
        // 16 4 1 0 4 25 = 50, over 5.
        let sorted = [1.0, 3.0, 4.0, 5.0, 7.0, 10.0];
        assert_eq!((mean(&sorted), median(&sorted)), (5.0, 4.5));
        assert_eq!(median_abs_dev(&sorted), 2.0 * NORMAL_MAD);
        assert_eq!(std_dev(&sorted), 10f64.sqrt());
        // Quartiles at ranks 1.25 and 3.75: 3.25 and 6.5, range 3.25.
        assert_eq!(fences(&sorted), [-6.5, -1.625, 11.375, 16.25]);
    }

    #[test]
    fn only_ids_of_three_plain_parts_are_installed() {
        assert!(parsed("scratch_loop/sync/4KiB").is_some());
        for wrong in ["a/b", "a/b/c/d", "../b/c", "a//c", "/etc/x/y", "a/b/..", "a/b\0/c", ""] {
            assert!(parsed(wrong).is_none(), "{wrong:?}");
        }
    }
}
