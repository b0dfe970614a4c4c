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

impl Baseline {
    /// Writes the baseline into a folder of its name, whole or not at all, and returns that folder. The
    /// number of launches and the hashes in its manifest are set here.
    ///
    /// # Errors
    ///
    /// A baseline that exists and is to be kept, a symbolic link in its place, or the operating system's
    /// refusal; what was there before is still there.
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
            .and_then(|()| File::open(baselines)?.sync_all());
        // After an exchange it holds the old one.
        let _ = fs::remove_dir_all(&partial);
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
/// moment there is none.
pub(crate) fn put_in_place(partial: &Path, folder: &Path, existing: Existing) -> io::Result<()> {
    let flags = if existing == Existing::Replace && folder.exists() {
        RenameFlags::EXCHANGE
    } else {
        RenameFlags::NOREPLACE
    };
    match renameat_with(CWD, partial, CWD, folder, flags) {
        // A file system without these flags.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::OPNOTSUPP) => {
            rename_without_flags(partial, folder, existing)
        }
        renamed => Ok(renamed?),
    }
}

fn rename_without_flags(partial: &Path, folder: &Path, existing: Existing) -> io::Result<()> {
    if existing == Existing::Replace && folder.exists() {
        let mut replaced = partial.as_os_str().to_owned();
        replaced.push(".replaced");
        fs::rename(folder, &replaced)?;
        let renamed = fs::rename(partial, folder);
        if renamed.is_err() {
            fs::rename(&replaced, folder)?;
        } else {
            let _ = fs::remove_dir_all(&replaced);
        }
        return renamed;
    }
    // Refused by the system where the folder holds something.
    fs::rename(partial, folder)
}

/// Removes what killed processes left.
pub(super) fn remove_leftovers(baselines: &Path) {
    let Ok(entries) = fs::read_dir(baselines) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name
            .to_str()
            .and_then(|name| name.strip_prefix(PARTIAL_PREFIX))
            .and_then(|rest| rest.split('-').next())
            .filter(|process| process.parse::<u32>().is_ok());
        let Some(process) = process else { continue };
        if !Path::new("/proc").join(process).exists() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
