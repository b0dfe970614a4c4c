//! Writing a baseline: whole or not at all.

use super::error::BaselineError;
use super::read::{LAUNCHES, MANIFEST};
use super::{Baseline, BaselineName, folder_of, hexadecimal};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// What may happen to a baseline that has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It is kept, and the new one refused.
    Keep,
    /// It is replaced.
    Replace,
}

/// How the folders begin that hold what is being written or was replaced. No name of a baseline begins
/// so, and nothing reads them; one that a killed process left is removed by the next that writes.
pub const PARTIAL_PREFIX: &str = ".partial-";
/// How the folder begins in which a baseline lies for the moment between two renames, where the file system
/// cannot exchange folders: the only one of it, should the process be killed then.
const REPLACED_PREFIX: &str = ".replaced-";

impl Baseline {
    /// Writes the baseline into a folder of its name, whole or not at all, and returns that folder. The
    /// number of launches and the hashes in its manifest are set here.
    ///
    /// # Errors
    ///
    /// A baseline that exists and is to be kept, a symbolic link in its place, or the operating system's
    /// refusal; what was there before is still there. Files that are none of a baseline's stay in the folder.
    pub fn write(
        &mut self,
        baselines: &Path,
        name: &BaselineName,
        existing: Existing,
    ) -> Result<PathBuf, BaselineError> {
        let folder = folder_of(baselines, name);
        if folder.is_symlink() {
            return Err(BaselineError::Link { folder });
        }
        if existing == Existing::Keep && folder.exists() {
            return Err(BaselineError::Exists { folder });
        }
        let unwritable = |error| BaselineError::Unwritable {
            path: folder.clone(),
            error,
        };
        fs::create_dir_all(baselines).map_err(unwritable)?;
        remove_leftovers(baselines);
        let partial = baselines.join(format!("{PARTIAL_PREFIX}{}-{name}", std::process::id()));
        let written = self
            .write_files(&partial)
            .and_then(|()| put_in_place(&partial, &folder, existing))
            .and_then(|replaced| {
                if let Some(replaced) = replaced {
                    carry_over(&replaced, &folder);
                    remove(&replaced);
                }
                File::open(baselines)?.sync_all()
            });
        remove(&partial);
        match written {
            Ok(()) => Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(BaselineError::Exists { folder }),
            Err(error) => Err(unwritable(error)),
        }
    }

    fn write_files(&mut self, folder: &Path) -> io::Result<()> {
        let mut lines = Vec::new();
        for launch in &self.launches {
            serde_json::to_writer(&mut lines, launch)?;
            lines.push(b'\n');
        }
        self.manifest.launches = self.launches.len() as u64;
        self.manifest.sha256 = [(String::from(LAUNCHES), hexadecimal(&Sha256::digest(&lines)))].into();
        let mut manifest = serde_json::to_vec_pretty(&self.manifest)?;
        manifest.push(b'\n');
        fs::create_dir(folder)?;
        write_synced(&folder.join(LAUNCHES), &lines)?;
        write_synced(&folder.join(MANIFEST), &manifest)?;
        File::open(folder)?.sync_all()
    }
}

pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// One rename puts the folder in its place; one that was there is exchanged with it, so that at no
/// moment there is none. Returns where what was there lies now.
fn put_in_place(partial: &Path, folder: &Path, existing: Existing) -> io::Result<Option<PathBuf>> {
    let exchanges = existing == Existing::Replace && folder.exists();
    let flags = if exchanges {
        RenameFlags::EXCHANGE
    } else {
        RenameFlags::NOREPLACE
    };
    match renameat_with(CWD, partial, CWD, folder, flags) {
        // A file system without these flags.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::OPNOTSUPP) => {
            rename_without_flags(partial, folder, exchanges)
        }
        renamed => Ok(renamed.map(|()| exchanges.then(|| partial.to_owned()))?),
    }
}

/// Puts the folder in its place, and removes what was there. The partial folder is gone afterwards in any case.
pub(crate) fn replace(partial: &Path, folder: &Path) -> io::Result<()> {
    let replaced = put_in_place(partial, folder, Existing::Replace);
    remove(partial);
    replaced?.iter().for_each(|replaced| remove(replaced));
    Ok(())
}

fn rename_without_flags(partial: &Path, folder: &Path, exchanges: bool) -> io::Result<Option<PathBuf>> {
    if !exchanges {
        // Refused by the system where the folder holds something.
        return fs::rename(partial, folder).map(|()| None);
    }
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let replaced = folder.with_file_name(format!("{REPLACED_PREFIX}{}-{name}", std::process::id()));
    fs::rename(folder, &replaced)?;
    match fs::rename(partial, folder) {
        Ok(()) => Ok(Some(replaced)),
        Err(error) => {
            fs::rename(&replaced, folder)?;
            Err(error)
        }
    }
}

/// Moves what a user keeps beside a baseline's own files from the folder that was replaced.
fn carry_over(replaced: &Path, folder: &Path) {
    let Ok(entries) = fs::read_dir(replaced) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if ![MANIFEST, LAUNCHES].iter().any(|own| name == *own) {
            let _ = fs::rename(entry.path(), folder.join(name));
        }
    }
}

/// Removes what killed processes left, after [`restore_replaced`].
pub(super) fn remove_leftovers(baselines: &Path) {
    restore_replaced(baselines);
    for (path, _) in left_by_killed(baselines, PARTIAL_PREFIX) {
        remove(&path);
    }
}

/// Puts back the baselines that processes were about to replace when they were killed.
pub(crate) fn restore_replaced(baselines: &Path) {
    for (path, name) in left_by_killed(baselines, REPLACED_PREFIX) {
        let folder = baselines.join(name);
        if folder.exists() {
            remove(&path);
        } else {
            let _ = fs::rename(&path, &folder);
        }
    }
}

/// What killed processes left with this prefix, and the name of what it was or should have been.
fn left_by_killed(baselines: &Path, prefix: &str) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(baselines).into_iter().flatten().flatten();
    let left = entries.filter_map(|entry| {
        let file_name = entry.file_name();
        let (process, name) = file_name.to_str()?.strip_prefix(prefix)?.split_once('-')?;
        process.parse::<u32>().ok()?;
        let is_dead = !Path::new("/proc").join(process).exists();
        is_dead.then(|| (entry.path(), name.to_owned()))
    });
    left.collect()
}

/// Removes a folder or a file, if it can.
fn remove(path: &Path) {
    let _ = if path.is_dir() && !path.is_symlink() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No Linux process has so high a number.
    const DEAD: u32 = u32::MAX;

    fn baseline_at(folder: &Path, mark: &str) {
        fs::create_dir(folder).expect("a new folder");
        fs::write(folder.join(MANIFEST), mark).expect("a file");
    }

    #[test]
    fn a_kill_between_the_renames_loses_neither_baseline() {
        let baselines = tempfile::tempdir().expect("a folder");
        let at = |name: &str| baselines.path().join(name);
        // Killed before the new one was in its place: the old one comes back.
        baseline_at(&at(&format!("{REPLACED_PREFIX}{DEAD}-a-b")), "old");
        baseline_at(&at(&format!("{PARTIAL_PREFIX}{DEAD}-a-b")), "half");
        // Killed after it: the new one stays.
        baseline_at(&at(&format!("{REPLACED_PREFIX}{DEAD}-c")), "old");
        baseline_at(&at("c"), "new");
        // Not killed at all.
        let ours = format!("{REPLACED_PREFIX}{}-d", std::process::id());
        baseline_at(&at(&ours), "ours");
        remove_leftovers(baselines.path());
        let manifest = |name: &str| fs::read_to_string(at(name).join(MANIFEST)).ok();
        assert_eq!(
            (manifest("a-b").as_deref(), manifest("c").as_deref()),
            (Some("old"), Some("new"))
        );
        let mut left: Vec<_> = fs::read_dir(baselines.path())
            .expect("it is there")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
            .collect();
        left.sort();
        assert_eq!(left, [ours.as_str(), "a-b", "c"]);
    }

    #[test]
    fn without_an_exchange_the_old_one_is_kept_until_the_new_one_is_there() {
        let baselines = tempfile::tempdir().expect("a folder");
        let (partial, folder) = (baselines.path().join("partial"), baselines.path().join("a"));
        baseline_at(&folder, "old");
        rename_without_flags(&partial, &folder, true).expect_err("there is nothing to put in its place");
        assert_eq!(fs::read_to_string(folder.join(MANIFEST)).expect("it is back"), "old");
        baseline_at(&partial, "new");
        let replaced = rename_without_flags(&partial, &folder, true)
            .expect("it can")
            .expect("one was there");
        assert_eq!(fs::read_to_string(folder.join(MANIFEST)).expect("it is there"), "new");
        assert_eq!(fs::read_to_string(replaced.join(MANIFEST)).expect("it is kept"), "old");
    }
}
