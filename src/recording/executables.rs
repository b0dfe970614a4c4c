//! The bench executables: built by cargo, or taken from a bundle.

use super::bundle::Bundle;
use super::child;
use super::error::RecordingError;
use super::interrupt::Interrupt;
use crate::baseline::hexadecimal;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The profile that cargo builds the benches in where the user says nothing else.
pub const PROFILE: &str = "bench";

/// Where the bench executables come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Cargo builds them, in this profile.
    Cargo {
        /// [`PROFILE`], unless a test wants it otherwise.
        profile: String,
    },
    /// A folder that `poolbench bundle` made.
    Bundle(PathBuf),
}

/// A bench executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    /// What it is, without the place.
    pub identity: ExecutableIdentity,
    /// Where it is.
    pub path: PathBuf,
    /// The file there that the identity was read from.
    file: FileStamp,
}

/// What a file is told from another by that was put in its place, or was written over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    size_bytes: u64,
    modified: (i64, i64),
}

impl FileStamp {
    fn of(path: &Path) -> std::io::Result<FileStamp> {
        let metadata = fs::metadata(path)?;
        Ok(FileStamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size_bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

/// What makes a bench executable the same one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExecutableIdentity {
    /// Its name, as `scratch_loop`.
    pub name: String,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
}

impl Executable {
    /// Reads the executable at `path`.
    ///
    /// # Errors
    ///
    /// A file that cannot be read.
    pub fn read(name: &str, path: PathBuf) -> Result<Executable, RecordingError> {
        let unreadable = |error| RecordingError::file(&path, error);
        // Before its bytes: what changes while they are read shows later.
        let file = FileStamp::of(&path).map_err(unreadable)?;
        let bytes = fs::read(&path).map_err(unreadable)?;
        let identity = ExecutableIdentity {
            name: name.to_owned(),
            sha256: hexadecimal(&Sha256::digest(&bytes)),
        };
        Ok(Executable { identity, path, file })
    }

    /// Checks that the file is still the one that was read.
    ///
    /// # Errors
    ///
    /// Another file in its place, as after a build, or none.
    pub(super) fn check_unchanged(&self) -> Result<(), RecordingError> {
        match FileStamp::of(&self.path) {
            Ok(file) if file == self.file => Ok(()),
            Ok(_) => Err(RecordingError::Executables(format!(
                "{}: was built or copied anew while it was recorded; put back what it was, or begin anew with --replace",
                self.path.display()
            ))),
            Err(error) => Err(RecordingError::file(&self.path, error)),
        }
    }
}

impl Source {
    /// Builds or finds the executables. Sorted by name.
    ///
    /// # Errors
    ///
    /// A build that fails, a folder that is no bundle, a bundle that lacks one or has one too many.
    pub fn executables(&self, interrupt: &Interrupt) -> Result<Vec<Executable>, RecordingError> {
        match self {
            Source::Cargo { profile } => build_benches(profile, interrupt),
            Source::Bundle(folder) => Bundle::executables(folder),
        }
    }
}

/// Builds the suite's benches.
fn build_benches(profile: &str, interrupt: &Interrupt) -> Result<Vec<Executable>, RecordingError> {
    benches(&cargo(&["bench", "--no-run", "--profile", profile], interrupt)?)
}

/// Builds the suite's benches and the command, and returns where that is. In one go: apart, cargo would
/// build what both need twice, with and without the features of the tests.
pub(super) fn build_all(profile: &str, interrupt: &Interrupt) -> Result<(Vec<Executable>, PathBuf), RecordingError> {
    let arguments = ["build", "--benches", "--bin", "poolbench", "--profile", profile];
    let messages = cargo(&arguments, interrupt)?;
    let is_command = |message: &&Artifact| message.target.kind == ["bin"] && message.target.name == "poolbench";
    let command = messages
        .iter()
        .find(is_command)
        .and_then(|message| message.executable.clone());
    let missing = || RecordingError::Executables(String::from("cargo build did not say where poolbench is"));
    Ok((benches(&messages)?, command.ok_or_else(missing)?))
}

/// The suite's benches among what cargo built.
fn benches(messages: &[Artifact]) -> Result<Vec<Executable>, RecordingError> {
    let mut executables = Vec::new();
    for message in messages {
        if message.target.kind == ["bench"]
            && message.target.required_features.is_empty()
            && let Some(path) = &message.executable
        {
            executables.push(Executable::read(&message.target.name, path.clone())?);
        }
    }
    if executables.is_empty() {
        return Err(RecordingError::Executables(String::from(
            "cargo built no bench executable",
        )));
    }
    executables.sort_by(|a, b| a.identity.cmp(&b.identity));
    Ok(executables)
}

/// What cargo says of a finished artifact.
#[derive(Deserialize)]
struct Artifact {
    target: Target,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    #[serde(default, rename = "required-features")]
    required_features: Vec<String>,
}

/// Runs cargo in the package's folder. Its progress and its errors go straight to standard error.
fn cargo(arguments: &[&str], interrupt: &Interrupt) -> Result<Vec<Artifact>, RecordingError> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // `cargo run`, and so the alias `cargo poolbench`, names the package's folder.
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("."), PathBuf::from);
    if !is_package(&folder) {
        return Err(RecordingError::Executables(format!(
            "{}: is not poolbench's folder, so nothing can be built here; go there, or name a bundle with --executables DIR",
            folder.display()
        )));
    }
    let mut command = Command::new(cargo);
    command
        .args(arguments)
        .arg("--message-format=json-render-diagnostics")
        .current_dir(&folder)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    if cfg!(feature = "fault-injection") {
        command.args(["--features", "fault-injection"]);
    }
    // A target folder is relative to the folder that the user stands in, for us as for cargo.
    if let Some(target) = std::env::var_os("CARGO_TARGET_DIR").filter(|target| !target.is_empty()) {
        let target = std::path::absolute(&target).map_err(|error| RecordingError::file(Path::new(&target), error))?;
        command.env("CARGO_TARGET_DIR", target);
    }
    let ended = child::run(&mut command, interrupt, None)?;
    if !ended.status.success() {
        return Err(RecordingError::Executables(format!(
            "cargo {} {}",
            arguments.join(" "),
            ended.how()
        )));
    }
    // Messages of other kinds have other shapes.
    Ok(ended
        .stdout
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect())
}

fn is_package(folder: &Path) -> bool {
    fs::read_to_string(folder.join("Cargo.toml")).is_ok_and(|text| text.contains("name = \"poolbench\""))
}
