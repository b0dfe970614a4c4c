//! The baselines that a recording ends in: what stands in its way before anything is measured, and writing
//! them at its end.

use super::assemble::{appended, baseline_of};
use super::differences::{between_sessions, difference_lines};
use super::error::RecordingError;
use super::options::Options;
use super::plan::{Destination, Plan, Side};
use super::state::FinishedLaunch;
use crate::baseline::{Baseline, BaselineError, BaselineName, Existing, PARTIAL_PREFIX, folder_of};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// A baseline that was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Its folder.
    pub folder: PathBuf,
    /// Its name.
    pub name: BaselineName,
    /// What it holds.
    pub baseline: Baseline,
}

/// Refuses names that are taken, or that lack the baseline to go on with.
pub(super) fn check_names(
    baselines: &Path,
    names: &[BaselineName],
    destination: Destination,
) -> Result<(), RecordingError> {
    for name in names {
        let folder = folder_of(baselines, name);
        if folder.is_symlink() {
            return Err(BaselineError::Link { folder }.into());
        }
        match destination {
            Destination::New if folder.exists() => return Err(BaselineError::Exists { folder }.into()),
            Destination::Append if !folder.is_dir() => return Err(BaselineError::Missing { folder }.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Refuses to go on with a recording whose baseline could not be written: another of the name has come since it
/// began, or the one that it goes on with has gone.
pub(super) fn check_names_again(
    baselines: &Path,
    plan: &Plan,
    launches: &[FinishedLaunch],
) -> Result<(), RecordingError> {
    for side in 0..plan.sides.len() {
        let folder = folder_of(baselines, &plan.baseline_name(side)?);
        match plan.destination {
            Destination::New if folder.exists() && !is_own(&folder, side, launches) => {
                return Err(RecordingError::Came { folder });
            }
            Destination::Append if !folder.is_dir() => return Err(RecordingError::Gone { folder }),
            _ => {}
        }
    }
    Ok(())
}

/// Tries to write where the baselines go, so that a full recording is not lost to a read-only folder.
pub(super) fn check_writable(baselines: &Path) -> Result<(), RecordingError> {
    let unwritable = |error| BaselineError::Unwritable {
        path: baselines.to_owned(),
        error,
    };
    let is_new = !baselines.exists();
    fs::create_dir_all(baselines).map_err(unwritable)?;
    let prefix = format!("{PARTIAL_PREFIX}{}-", std::process::id());
    let tried = tempfile::Builder::new().prefix(&prefix).tempdir_in(baselines);
    let tried = tried.and_then(tempfile::TempDir::close).map_err(unwritable);
    if is_new {
        let _ = fs::remove_dir(baselines);
    }
    Ok(tried?)
}

/// The baseline that a session is for, where it fits.
pub(super) fn existing_for(
    baselines: &Path,
    name: &BaselineName,
    side: &Side,
    options: &Options,
) -> Result<Baseline, RecordingError> {
    let existing = Baseline::read(&folder_of(baselines, name))?;
    let recorded = &existing.manifest;
    let mut differences = difference_lines(
        &between_sessions(&recorded.environment, &side.environment),
        "in the baseline",
        "here",
    );
    differences.extend(options.differences_from(&recorded.settings));
    let (then, now) = (&recorded.settings.injected_fault, &side.treatment.fault);
    if then != now {
        let said = |fault: &Option<String>| {
            fault
                .as_ref()
                .map_or_else(|| String::from("none"), |fault| format!("{fault:?}"))
        };
        differences.push(format!(
            "injected fault: {} in the baseline, {} here",
            said(then),
            said(now)
        ));
    }
    if differences.is_empty() {
        return Ok(existing);
    }
    Err(RecordingError::Differs {
        what: format!("{name}: this would be no other session of the same measurement, use another --name"),
        differences,
    })
}

/// Refuses a first launch that measured nothing, or other benchmarks than the baseline which it is for.
pub(super) fn check_first(plan: &Plan, first: &FinishedLaunch) -> Result<(), RecordingError> {
    let Some(only) = &plan.sides[first.side].only else {
        if first.launch.samples.is_empty() {
            return Err(RecordingError::Nothing(
                match (&plan.settings.filter, first.skipped.first()) {
                    (_, Some(skip)) => format!("every benchmark was skipped; {}: {}", skip.id, skip.reason),
                    (Some(filter), None) => format!("--filter {filter:?} matches no benchmark"),
                    (None, None) => String::from("the executables measured nothing"),
                },
            ));
        }
        return Ok(());
    };
    check_skips(&plan.name, |id| only.contains(id), first)?;
    let missing: Vec<String> = only
        .iter()
        .filter(|id| !first.launch.samples.contains_key(*id))
        .cloned()
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(RecordingError::Differs {
        what: format!(
            "{}: these executables do not measure {} of the benchmarks of the baseline; record another with --name",
            plan.name,
            missing.len()
        ),
        differences: missing,
    })
}

/// Refuses a launch that skipped what launches before it measured: the baseline could hold it no longer, and what
/// was measured of it would be lost.
pub(super) fn check_skips(
    name: &str,
    was_measured: impl Fn(&String) -> bool,
    finished: &FinishedLaunch,
) -> Result<(), RecordingError> {
    let lost = finished.skipped.iter().filter(|skip| was_measured(&skip.id));
    let differences: Vec<String> = lost.map(|skip| format!("{}: {}", skip.id, skip.reason)).collect();
    if differences.is_empty() {
        return Ok(());
    }
    Err(RecordingError::Differs {
        what: format!(
            "{name}: what was measured before was skipped now, so this launch is not kept; mend what keeps it from \
             being measured, or record under another --name"
        ),
        differences,
    })
}

/// Writes the baselines of a finished recording. All are made before the first is written, and nobody else writes
/// one meanwhile.
pub(super) fn write(
    baselines: &Path,
    plan: &Plan,
    launches: &[FinishedLaunch],
) -> Result<Vec<Written>, RecordingError> {
    let _alone = alone_in(baselines)?;
    // Told before the first is written, since both sides belong together.
    check_names_again(baselines, plan, launches)?;
    let mut made = Vec::new();
    for side in 0..plan.sides.len() {
        let name = plan.baseline_name(side)?;
        let folder = folder_of(baselines, &name);
        let session = baseline_of(plan, side, launches)?;
        let baseline = match plan.destination {
            Destination::Append => appended(Baseline::read(&folder)?, session),
            Destination::New | Destination::Replace => session,
        };
        if baseline.manifest.benchmarks.is_empty() {
            return Err(RecordingError::Nothing(format!(
                "{name}: no benchmark was measured in every launch"
            )));
        }
        made.push((name, baseline));
    }
    made.into_iter()
        .map(|(name, mut baseline)| {
            // One of a new name that is there is our own.
            let is_new = plan.destination == Destination::New && !folder_of(baselines, &name).exists();
            let existing = if is_new { Existing::Keep } else { Existing::Replace };
            let folder = baseline.write(baselines, &name, existing)?;
            Ok(Written { folder, name, baseline })
        })
        .collect()
}

/// Waits until no other recording writes baselines: two that read one and add a session to it would keep one of the
/// two. Not all file systems have locks.
fn alone_in(baselines: &Path) -> Result<File, RecordingError> {
    let refused = |error| RecordingError::file(baselines, error);
    fs::create_dir_all(baselines).map_err(refused)?;
    let folder = File::open(baselines).map_err(refused)?;
    let _ = folder.lock();
    Ok(folder)
}

/// Whether a baseline is what a run of the same recording wrote that was killed before it said so.
fn is_own(folder: &Path, side: usize, launches: &[FinishedLaunch]) -> bool {
    let of_side = launches.iter().filter(|finished| finished.side == side);
    let ours: BTreeSet<&String> = of_side.map(|finished| &finished.launch.session).collect();
    Baseline::read(folder).is_ok_and(|existing| {
        let theirs: BTreeSet<&String> = existing.launches.iter().map(|launch| &launch.session).collect();
        theirs == ours
    })
}
