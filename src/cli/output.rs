//! Where a result goes: to standard output, or whole into a file.

use clap::ValueEnum;
use poolbench::report::OneLine;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

/// How a result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Text,
    Json,
}

/// Prints a command's result, or its failure, and returns the exit code.
pub(super) fn conclude(result: Result<String, String>) -> ExitCode {
    match result.and_then(|text| print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => failed(&message),
    }
}

/// Prints a failure as one line, with whatever the inputs put into it made harmless, and returns exit
/// code 3.
pub(super) fn failed(message: &impl ToString) -> ExitCode {
    say(message);
    ExitCode::from(3)
}

/// Prints wrong usage as one line and returns exit code 2.
pub(super) fn wrong_usage(message: &impl ToString) -> ExitCode {
    say(message);
    ExitCode::from(2)
}

/// Says something in one line on standard error. Where that cannot be written, the exit code must do.
pub(super) fn say(message: &impl ToString) {
    let _ = writeln!(io::stderr(), "poolbench: {}", OneLine(&message.to_string()));
}

/// Prints a result. A reader that has seen enough, as `head`, is no failure.
///
/// # Errors
///
/// The operating system's refusal, in a line.
pub(super) fn print(text: &str) -> Result<(), String> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}"))
        }
        _ => Ok(()),
    }
}

/// Writes a file whole or not at all; what is no regular file, as `/dev/stdout`, is written as it is.
///
/// # Errors
///
/// The operating system's refusal, in a line; a file that was there is unchanged.
pub(super) fn write_file(path: &Path, text: &str) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot write {}: {error}; nothing was changed", path.display());
    // A link keeps its place, and what it leads to is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match fs::metadata(&target) {
        Ok(metadata) if metadata.is_dir() => return Err(failed(io::ErrorKind::IsADirectory.into())),
        Ok(metadata) if !metadata.is_file() => return fs::write(&target, text).map_err(failed),
        _ => {}
    }
    let Some(name) = target.file_name() else {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    };
    let mut partial_name = std::ffi::OsString::from(format!(".partial-{}-", std::process::id()));
    partial_name.push(name);
    let partial = target.with_file_name(partial_name);
    let written = File::create(&partial)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&partial, &target));
    written.map_err(|error| {
        let _ = fs::remove_file(&partial);
        failed(error)
    })
}
