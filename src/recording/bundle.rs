//! A folder that holds poolbench and its bench executables, for a machine without Rust.

use super::error::RecordingError;
use super::executables::{Executable, ExecutableIdentity, build_all};
use super::interrupt::Interrupt;
use crate::baseline::{PARTIAL_PREFIX, replace, write_synced};
use crate::command_line::{BUNDLE_LIST as LIST, CommandLine};
use crate::named_file;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The version of the bundle's format. Another one is refused.
const FORMAT: u32 = 1;
/// The command's file.
const COMMAND: &str = "poolbench";

/// What a bundle holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    format: u32,
    /// The poolbench that made it.
    version: String,
    /// The bench executables; each lies in a file of its name.
    executables: Vec<ExecutableIdentity>,
}

impl Bundle {
    /// Builds the command and the bench executables, and puts them into `folder`: whole or not at all.
    /// Returns their number.
    ///
    /// # Errors
    ///
    /// A build that fails, a folder that holds something else than an older bundle, or the operating
    /// system's refusal.
    pub fn make(folder: &Path, profile: &str, interrupt: &Interrupt) -> Result<usize, RecordingError> {
        Bundle::check_place(folder)?;
        let (executables, command) = build_all(profile, interrupt)?;
        Bundle::write(folder, &executables, Some(&command))?;
        Ok(executables.len())
    }

    /// Copies executables, and the command where there is one, into `folder`: whole or not at all.
    ///
    /// # Errors
    ///
    /// A folder that holds something else than an older bundle, or the operating system's refusal.
    pub fn write(folder: &Path, executables: &[Executable], command: Option<&Path>) -> Result<(), RecordingError> {
        Bundle::check_place(folder)?;
        let unwritable = |error| RecordingError::file(folder, error);
        let folder = std::path::absolute(folder).map_err(unwritable)?;
        let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
            return Err(unwritable(io::ErrorKind::InvalidInput.into()));
        };
        fs::create_dir_all(parent).map_err(unwritable)?;
        let mut partial = std::ffi::OsString::from(format!("{PARTIAL_PREFIX}{}-", std::process::id()));
        partial.push(name);
        let partial = parent.join(partial);
        let written = Bundle::write_files(&partial, executables, command).and_then(|()| {
            // An empty folder in its place would refuse the rename.
            let _ = fs::remove_dir(&folder);
            replace(&partial, &folder)?;
            File::open(parent)?.sync_all()
        });
        // Where it could not be written whole.
        let _ = fs::remove_dir_all(&partial);
        written.map_err(unwritable)
    }

    fn write_files(folder: &Path, executables: &[Executable], command: Option<&Path>) -> io::Result<()> {
        fs::create_dir(folder)?;
        let commands = command.map(|path| (COMMAND, path));
        let benches = executables
            .iter()
            .map(|executable| (executable.identity.name.as_str(), executable.path.as_path()));
        for (name, path) in benches.chain(commands) {
            let target = folder.join(name);
            fs::copy(path, &target)?;
            File::open(&target)?.sync_all()?;
        }
        let bundle = Bundle {
            format: FORMAT,
            version: String::from(env!("CARGO_PKG_VERSION")),
            executables: executables
                .iter()
                .map(|executable| executable.identity.clone())
                .collect(),
        };
        write_synced(&folder.join(LIST), &serde_json::to_vec_pretty(&bundle)?)?;
        File::open(folder)?.sync_all()
    }

    /// Refuses a place that holds something else than an older bundle.
    fn check_place(folder: &Path) -> Result<(), RecordingError> {
        let refused = |what: &str| {
            Err(RecordingError::Executables(format!(
                "{}: {what}; name an empty folder, a new one, or an older bundle",
                folder.display()
            )))
        };
        if folder.is_symlink() {
            return refused("is a symbolic link, through which nothing is written");
        }
        if !folder.exists() {
            return Ok(());
        }
        let mut entries = fs::read_dir(folder).map_err(|error| RecordingError::file(folder, error))?;
        if entries.next().is_some() && !folder.join(LIST).is_file() {
            return refused("holds something else than a bundle");
        }
        Ok(())
    }

    /// The executables of the bundle in `folder`, each checked against its hash.
    pub(super) fn executables(folder: &Path) -> Result<Vec<Executable>, RecordingError> {
        let refused = |what: String| RecordingError::Executables(format!("{}: {what}", folder.display()));
        let list = folder.join(LIST);
        let text = named_file::read(&list).map_err(|error| {
            refused(format!(
                "no bundle ({LIST}: {error}); make one with `{}`",
                to_bundle(folder)
            ))
        })?;
        let bundle: Bundle = serde_json::from_slice(&text).map_err(|error| {
            refused(format!(
                "{LIST}: {error}; make the bundle anew with `{}`",
                to_bundle(folder)
            ))
        })?;
        if bundle.format != FORMAT {
            let format = bundle.format;
            return Err(refused(format!(
                "{LIST} has format {format}, but this poolbench reads format {FORMAT}: use the poolbench in the bundle"
            )));
        }
        let mut executables = Vec::new();
        for identity in bundle.executables {
            // The list may say anything; a name never leads out of the folder.
            if Path::new(&identity.name).file_name() != Some(OsStr::new(&identity.name)) {
                return Err(refused(format!(
                    "{LIST} names {:?}, which is no executable",
                    identity.name
                )));
            }
            let path = folder.join(&identity.name);
            if !path.is_file() {
                return Err(refused(format!(
                    "lacks the executable {:?} that {LIST} lists; make the bundle anew",
                    identity.name
                )));
            }
            let executable = Executable::read(&identity.name, absolute(path)?)?;
            if executable.identity != identity {
                return Err(refused(format!(
                    "{:?} is not the executable that {LIST} lists; make the bundle anew",
                    identity.name
                )));
            }
            executables.push(executable);
        }
        if executables.is_empty() {
            return Err(refused(format!("{LIST} lists no executable; make the bundle anew")));
        }
        refuse_unknown(folder, &executables)?;
        executables.sort_by(|a, b| a.identity.cmp(&b.identity));
        Ok(executables)
    }
}

fn to_bundle(folder: &Path) -> CommandLine {
    CommandLine::as_started("bundle").operand(folder)
}

/// A process may not be started by a bare name.
fn absolute(path: PathBuf) -> Result<PathBuf, RecordingError> {
    std::path::absolute(&path).map_err(|error| RecordingError::file(&path, error))
}

/// An executable that nobody lists would silently not be measured.
fn refuse_unknown(folder: &Path, executables: &[Executable]) -> Result<(), RecordingError> {
    let entries = fs::read_dir(folder).map_err(|error| RecordingError::file(folder, error))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_executable = entry
            .metadata()
            .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0);
        let known = name == COMMAND || executables.iter().any(|known| name == known.identity.name.as_str());
        if is_executable && !known {
            return Err(RecordingError::Executables(format!(
                "{}: holds the executable {name:?}, which {LIST} does not list; remove it, or make the bundle anew",
                folder.display()
            )));
        }
    }
    Ok(())
}
