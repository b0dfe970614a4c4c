//! poolbench's own command lines, as they are pasted into a shell.

use crate::driver::library;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

/// What decides which device is measured, which kernels are built, and where a recording lies while it is not
/// finished. Another shell, or a line that begins with its own variables, would not have them.
const VARIABLES: [&str; 7] = [
    "POOLBENCH_DEVICE",
    "POOLBENCH_HOST_MEMORY_MIB",
    "CUDA_VISIBLE_DEVICES",
    library::VARIABLE,
    "CARGO_TARGET_DIR",
    "NVCC",
    "POOLBENCH_CUDA_ARCH",
];

/// The file that lists the executables of a bundle, beside them.
pub(crate) const BUNDLE_LIST: &str = "bundle.json";

/// A command line of poolbench. Its text is what a shell takes, whatever the values hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// Variables, program, command and flags.
    words: Vec<String>,
    /// What follows the flags.
    operands: Vec<String>,
}

impl CommandLine {
    /// A command of poolbench, started as this process was: through cargo, or by its path.
    #[must_use]
    pub fn as_started(command: &str) -> CommandLine {
        // `cargo run`, and so the alias `cargo poolbench`, names the package.
        if env::var_os("CARGO_PKG_NAME").is_some_and(|name| name == env!("CARGO_PKG_NAME")) {
            return CommandLine::through_cargo(command);
        }
        let program = env::args_os().next().unwrap_or_else(|| OsString::from("poolbench"));
        CommandLine::of_program(Path::new(&program), command)
    }

    /// A recording, by a poolbench that was started as this one was. One that lies in a bundle takes the
    /// executables from there, since it has nothing to build.
    #[must_use]
    pub fn recording_as_started() -> CommandLine {
        let line = CommandLine::as_started("record");
        let program = env::args_os().next().map(PathBuf::from).unwrap_or_default();
        let is_bundle = |folder: &&Path| !folder.as_os_str().is_empty() && folder.join(BUNDLE_LIST).is_file();
        match program.parent().filter(is_bundle) {
            Some(bundle) => line.option("--executables", bundle),
            None => line,
        }
    }

    /// A command of poolbench for whoever has the sources.
    #[must_use]
    pub fn through_cargo(command: &str) -> CommandLine {
        CommandLine {
            words: ["cargo", "poolbench", command].map(str::to_owned).to_vec(),
            operands: Vec::new(),
        }
    }

    /// A command of the poolbench at a path.
    #[must_use]
    pub fn of_program(program: &Path, command: &str) -> CommandLine {
        CommandLine {
            words: vec![quoted(program.as_os_str()), command.to_owned()],
            operands: Vec::new(),
        }
    }

    /// With the variables of this process that the command needs again.
    #[must_use]
    pub(crate) fn with_variables(mut self) -> CommandLine {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let variables = VARIABLES
            .into_iter()
            .filter_map(|name| Some(format!("{name}={}", quoted(&set(name)?))));
        self.words.splice(..0, variables);
        self
    }

    /// With a flag that takes no value.
    #[must_use]
    pub fn flag(mut self, flag: &str) -> CommandLine {
        self.words.push(flag.to_owned());
        self
    }

    /// With a flag and its value.
    #[must_use]
    pub fn option(mut self, flag: &str, value: impl AsRef<OsStr>) -> CommandLine {
        let value = value.as_ref();
        // Apart, it would be taken for a flag.
        let separator = if is_like_a_flag(value) { "=" } else { " " };
        self.words.push(format!("{flag}{separator}{}", quoted(value)));
        self
    }

    /// With a value that has no flag.
    #[must_use]
    pub fn operand(mut self, value: impl AsRef<OsStr>) -> CommandLine {
        let value = value.as_ref();
        if is_like_a_flag(value) && !self.operands.iter().any(|operand| operand == "--") {
            self.operands.insert(0, String::from("--"));
        }
        self.operands.push(quoted(value));
        self
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.words.iter().chain(&self.operands).map(String::as_str).collect();
        f.write_str(&words.join(" "))
    }
}

fn is_like_a_flag(value: &OsStr) -> bool {
    value.as_encoded_bytes().starts_with(b"-")
}

/// A word as a shell takes it.
fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |character: char| character.is_ascii_alphanumeric() || "_./@+=:,-".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words that a shell makes of a line.
    fn words(line: &CommandLine) -> Vec<String> {
        let script = format!("printf '%s\\0' {line}");
        let output = std::process::Command::new("sh").args(["-c", &script]).output();
        let text = String::from_utf8(output.expect("a shell").stdout).expect("UTF-8");
        text.split_terminator('\0').map(str::to_owned).collect()
    }

    #[test]
    fn a_shell_gets_back_what_was_put_in() {
        let line = CommandLine::of_program(Path::new("/a b/poolbench"), "record")
            .option("--name", "it's")
            .option("--filter", "-a|b $(c) `d` \"e\"\n*")
            .flag("--resume");
        assert_eq!(
            words(&line),
            [
                "/a b/poolbench",
                "record",
                "--name",
                "it's",
                "--filter=-a|b $(c) `d` \"e\"\n*",
                "--resume"
            ]
        );
        let line = CommandLine::through_cargo("report")
            .operand("-x")
            .operand("")
            .flag("--strict");
        assert_eq!(
            words(&line),
            ["cargo", "poolbench", "report", "--strict", "--", "-x", ""]
        );
        assert_eq!(
            CommandLine::through_cargo("record")
                .option("--filter", "-x")
                .to_string(),
            "cargo poolbench record --filter=-x"
        );
    }
}
