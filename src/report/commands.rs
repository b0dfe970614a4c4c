//! Command lines that a report names.

use crate::baseline::BaselineName;
use crate::command_line::CommandLine;

/// Returns the line of `record` with the name of the baseline that was given as `side`: of a folder its last
/// part, and `NAME` for what others wrote.
#[must_use]
pub fn with_name_of(record: CommandLine, side: &str) -> CommandLine {
    let last = side.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let is_baseline = last.parse::<BaselineName>().is_ok();
    record.option("--name", if is_baseline { last } else { "NAME" })
}

/// Returns the line of `record` that adds another session to the baseline that was given as `side`.
pub(super) fn with_another_session(record: CommandLine, side: &str) -> CommandLine {
    with_name_of(record, side).flag("--append")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_session_goes_to_the_baseline_of_the_side() {
        let line = |side| with_another_session(CommandLine::through_cargo("record"), side).to_string();
        assert_eq!(line("host"), "cargo poolbench record --name host --append");
        assert_eq!(line("./elsewhere/host/"), "cargo poolbench record --name host --append");
        assert_eq!(line("home@before"), "cargo poolbench record --name NAME --append");
    }
}
