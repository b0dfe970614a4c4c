//! A folder to record in, and the command in it.

use super::stand_in;
use poolbench::baseline::Baseline;
use poolbench::recording::{Bundle, Executable};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;

/// A folder to record in.
pub struct Place {
    folder: TempDir,
    executables: PathBuf,
}

impl Place {
    /// Records stand-ins, which take no time.
    pub fn with_stand_ins() -> Place {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let executables = folder.path().join("bundle");
        stand_in::bundle(&executables);
        fs::create_dir(folder.path().join("log")).expect("a folder");
        fs::create_dir(folder.path().join("tmp")).expect("a folder");
        Place { folder, executables }
    }

    /// Records the real scratch loop.
    pub fn with_scratch_loop() -> Place {
        static BUNDLE: OnceLock<TempDir> = OnceLock::new();
        let bundle = BUNDLE.get_or_init(|| {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let path = super::common::bench_executable("scratch_loop");
            let executable = Executable::read("scratch_loop", path).expect("it was just built");
            Bundle::write(&folder.path().join("bundle"), &[executable], None).expect("a bundle");
            folder
        });
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join("tmp")).expect("a folder");
        Place {
            folder,
            executables: bundle.path().join("bundle"),
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn executables(&self) -> &Path {
        &self.executables
    }

    /// `poolbench` with arguments, in this folder and with nothing of the user's own environment.
    pub fn poolbench(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_poolbench"));
        command.args(arguments).current_dir(self.path());
        for variable in [
            "POOLBENCH_LIBCUDA",
            "POOLBENCH_FAULT",
            "POOLBENCH_ORDER_SEED",
            "POOLBENCH_HOST_MEMORY_MIB",
            "CRITERION_HOME",
            "CARGO_TARGET_DIR",
            // Cargo started this test, and not the command as a user's would be.
            "CARGO_PKG_NAME",
        ] {
            command.env_remove(variable);
        }
        command
            .env("POOLBENCH_DEVICE", "host")
            .env("TMPDIR", self.path().join("tmp"))
            .env("STAND_IN_LOG", self.path().join("log"));
        command
    }

    /// `poolbench record` of the executables of this place. A machine that is busy with other tests must not
    /// make a case too slow to measure.
    pub fn record(&self, arguments: &[&str]) -> Command {
        let mut command = self.poolbench(&["record", "--executables"]);
        command
            .arg(&self.executables)
            .args(["--loop-time-max", "60"])
            .args(arguments);
        command
    }

    /// The command line that a message puts between backquotes, run as it stands by a shell in this folder. The
    /// shell has nothing of the environment that the line itself should set.
    pub fn paste(&self, message: &str) -> Command {
        let line = message
            .split('`')
            .nth(1)
            .unwrap_or_else(|| panic!("no command in {message}"));
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(self.path());
        command
            .env_remove("POOLBENCH_DEVICE")
            .env_remove("CARGO_TARGET_DIR")
            .env("TMPDIR", self.path().join("tmp"))
            .env("STAND_IN_LOG", self.path().join("log"));
        command
    }

    /// Where the recording of a name is kept until it is finished.
    pub fn recording(&self, name: &str) -> PathBuf {
        self.path().join("target/poolbench/recordings").join(name)
    }

    /// The finished launches of a recording, a line each.
    pub fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.recording(name).join("launches.jsonl")).unwrap_or_default();
        text.split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .map(str::to_owned)
            .collect()
    }

    pub fn baseline(&self, name: &str) -> Baseline {
        Baseline::read(&self.path().join("criterion-baselines").join(name)).expect("a whole baseline")
    }

    /// Whether a baseline was written. What a killed process left half done is none.
    pub fn has_baselines(&self) -> bool {
        let entries = fs::read_dir(self.path().join("criterion-baselines"))
            .into_iter()
            .flatten();
        entries.flatten().any(|entry| {
            entry.path().join("manifest.json").is_file() && !entry.file_name().as_encoded_bytes().starts_with(b".")
        })
    }

    /// The starts of a stand-in that measured: driver library, order seed, ids asked for, device times.
    pub fn starts(&self, bench: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path().join("log").join(bench)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

pub fn run(command: &mut Command) -> Output {
    command.output().expect("poolbench starts")
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs what must work.
pub fn succeed(command: &mut Command) -> Output {
    let output = run(command);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    output
}

/// Runs what must fail with this exit code, and returns its last line.
pub fn refusal(command: &mut Command, code: i32) -> String {
    let output = run(command);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    assert_eq!(stdout(&output), "", "a failure has no result");
    let text = stderr(&output);
    assert!(!text.contains("panicked"), "{text}");
    text.lines().last().unwrap_or_default().to_owned()
}
