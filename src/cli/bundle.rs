//! `poolbench bundle`: poolbench and the bench executables in one folder, for a machine without Rust.

use super::output;
use super::record::{failed, interrupt};
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
            let folder = arguments.folder.display();
            let text = format!(
                "{folder}: poolbench and {count} bench executables\n\
                 Copy it to the other machine, which needs only its NVIDIA driver, and run there:\n  \
                 {folder}/poolbench doctor\n  \
                 {folder}/poolbench record --executables {folder}\n\
                 Then copy criterion-baselines/ back.\n"
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
