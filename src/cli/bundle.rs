//! `poolbench bundle`: poolbench and the bench executables in one folder, for a machine without Rust.

use super::output;
use super::record::{failed, interrupt};
use poolbench::command_line::CommandLine;
use poolbench::counted::counted;
use poolbench::recording::{Bundle, RecordingError};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The folder: a new one, an empty one, or an older bundle, which is replaced.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The profile that cargo builds everything in.
    #[arg(long, default_value = "release", hide = true)]
    profile: String,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    match make(arguments) {
        Ok(count) => {
            let folder = &arguments.folder;
            let there = |command| CommandLine::of_program(&folder.join("poolbench"), command);
            let text = format!(
                "{}: poolbench and {}\n\
                 Copy it to the other machine, which needs only its NVIDIA driver, and run there:\n  {}\n  {}\n\
                 Then copy criterion-baselines/ back.\n",
                folder.display(),
                counted(count, "bench executable"),
                there("doctor"),
                there("record").option("--executables", folder)
            );
            match output::print(&text) {
                Ok(()) => ExitCode::SUCCESS,
                Err(message) => output::failed(&message),
            }
        }
        Err(error) => failed(&error),
    }
}

fn make(arguments: &Arguments) -> Result<usize, RecordingError> {
    Bundle::make(&arguments.folder, &arguments.profile, &interrupt()?)
}
