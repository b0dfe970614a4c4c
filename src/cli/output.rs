//! Where a result goes: to standard output, or whole into a file.

use clap::ValueEnum;
use poolbench::report::OneLine;
use poolbench::whole_file;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
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

/// Writes a result into a file, as [`whole_file::write`].
///
/// # Errors
///
/// The operating system's refusal, in a line; a file that was there is unchanged.
pub(super) fn write_file(path: &Path, text: &str) -> Result<(), String> {
    whole_file::write(path, text.as_bytes())
        .map_err(|error| format!("cannot write {}: {error}; nothing was changed", path.display()))
}

/// Refuses a file to write that is one of the inputs or lies in one: the result would destroy what it came from.
///
/// # Errors
///
/// Which input, in a line.
pub(super) fn spare_inputs(flag: &str, out: &Path, inputs: impl IntoIterator<Item = PathBuf>) -> Result<(), String> {
    let target = resolved(out);
    for input in inputs {
        if fs::canonicalize(&input).is_ok_and(|input| target.starts_with(input)) {
            return Err(format!(
                "{flag} {} would write into {}, which is read; name another place",
                out.display(),
                input.display()
            ));
        }
    }
    Ok(())
}

/// Where a path leads, also one that does not exist yet.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for ancestor in path.ancestors() {
        if let Ok(there) = fs::canonicalize(ancestor) {
            let rest = path.strip_prefix(ancestor).unwrap_or(Path::new(""));
            return if rest.as_os_str().is_empty() {
                there
            } else {
                there.join(rest)
            };
        }
    }
    path
}
