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
use std::fs;
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

/// Refuses a session that measured other benchmarks than the baseline which it is for. Skips are no
/// difference: they have their reason.
pub(super) fn check_benchmarks(plan: &Plan, first: &FinishedLaunch) -> Result<(), RecordingError> {
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
    let skipped: BTreeSet<&String> = first.skipped.iter().map(|skip| &skip.id).collect();
    let missing: Vec<String> = only
        .iter()
        .filter(|id| !first.launch.samples.contains_key(*id) && !skipped.contains(id))
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

/// Writes the baselines of a finished recording. All are made before the first is written.
pub(super) fn write(
    baselines: &Path,
    plan: &Plan,
    launches: &[FinishedLaunch],
) -> Result<Vec<Written>, RecordingError> {
    let mut made = Vec::new();
    for side in 0..plan.sides.len() {
        let name = plan.baseline_name(side)?;
        let folder = folder_of(baselines, &name);
        let session = baseline_of(plan, side, launches)?;
        let (baseline, existing) = match plan.destination {
            Destination::Append => (appended(Baseline::read(&folder)?, session), Existing::Replace),
            Destination::Replace => (session, Existing::Replace),
            // A run that was killed while it wrote them left its own.
            Destination::New if is_own(&folder, &session) => (session, Existing::Replace),
            Destination::New => (session, Existing::Keep),
        };
        if baseline.manifest.benchmarks.is_empty() {
            return Err(RecordingError::Nothing(format!(
                "{name}: no benchmark was measured in every launch"
            )));
        }
        made.push((name, baseline, existing));
    }
    // Told before the first is written, since both belong together.
    for (name, _, existing) in &made {
        let folder = folder_of(baselines, name);
        if *existing == Existing::Keep && folder.exists() {
            return Err(BaselineError::Exists { folder }.into());
        }
    }
    made.into_iter()
        .map(|(name, mut baseline, existing)| {
            let folder = baseline.write(baselines, &name, existing)?;
            Ok(Written { folder, name, baseline })
        })
        .collect()
}

fn is_own(folder: &Path, session: &Baseline) -> bool {
    let sessions = |baseline: &Baseline| -> BTreeSet<String> {
        baseline.launches.iter().map(|launch| launch.session.clone()).collect()
    };
    Baseline::read(folder).is_ok_and(|existing| sessions(&existing) == sessions(session))
}
