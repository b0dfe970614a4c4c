//! A comparison for a pull request.

use super::rows::{HEADINGS, NUMBERS, Row, all_rows, changed_rows};
use super::{Compared, SideSummary};
use crate::baseline::{Difference, DifferenceKind};
use crate::command_line::CommandLine;
use crate::counted::counted;
use crate::report::Printable;
use std::fmt::Write as _;

/// The longest comment that GitHub takes, in characters; bytes are never fewer.
pub const COMMENT_BYTES_MAX: usize = 65_536;
/// What one list about the sides or the suite may take.
const LIST_BYTES_MAX: usize = 10_000;
/// What the changed benchmarks may leave for notes and the full table.
const KEPT_FOR_NOTES: usize = 20_000;
/// What the notes leave for the full table.
const KEPT_FOR_THE_TABLE: usize = 2_000;
/// What ends a report that was cut.
const KEPT_FOR_THE_END: usize = 400;
/// What of that a command line may take.
const COMMAND_BYTES_MAX: usize = 250;
/// Lines of one list before the rest is counted.
const LINES_MAX: usize = 20;
/// The longest text of an input that is shown in a cell.
const TEXT_CHARACTERS_MAX: usize = 200;

/// Returns the comparison as GitHub's Markdown, at most [`COMMENT_BYTES_MAX`] long: headline, changed
/// benchmarks, and the full table folded away, cut where it would not fit.
#[must_use]
pub fn comparison_markdown(compared: &Compared) -> String {
    let mut text = format!("### poolbench: {}\n\n", escaped(&compared.headline()));
    for (heading, side) in [("base", &compared.base), ("new", &compared.new)] {
        let _ = writeln!(text, "- {heading}: {}", side_line(side));
    }
    let differences = compared.differences.iter().map(difference_line).collect::<Vec<_>>();
    let limit = text.len() + LIST_BYTES_MAX;
    list(&mut text, "What differs", &differences, limit);
    let _ = writeln!(text, "\n{}", counts(compared));
    let limit = text.len() + LIST_BYTES_MAX;
    list(&mut text, "Suite", &escaped_lines(&compared.suite_lines()), limit);
    let changed = changed_rows(compared);
    if !changed.is_empty() {
        text.push('\n');
        let limit = COMMENT_BYTES_MAX - KEPT_FOR_NOTES;
        let left = table(&mut text, &changed, limit);
        if left > 0 {
            let _ = writeln!(text, "\n{} did not fit.", counted(left, "further changed benchmark"));
        }
    }
    let limit = COMMENT_BYTES_MAX - KEPT_FOR_THE_TABLE;
    list(&mut text, "Notes", &escaped_lines(&compared.doubt_lines()), limit);
    let all = all_rows(compared);
    let _ = writeln!(
        text,
        "\n<details><summary>All {}</summary>\n",
        counted(all.len(), "benchmark")
    );
    let left = table(&mut text, &all, COMMENT_BYTES_MAX - KEPT_FOR_THE_END);
    if left > 0 {
        let _ = writeln!(
            text,
            "\n{} left out, since a comment takes 65,536 characters: {} shows every one.",
            counted(left, "benchmark"),
            to_show_all(compared)
        );
    }
    text.push_str("\n</details>\n");
    text
}

/// The command that cuts nothing. Sides whose names are too long for the end of a comment are not named.
fn to_show_all(compared: &Compared) -> String {
    let compare = |base: &str, new: &str| {
        let line = CommandLine::through_cargo("compare").flag("--all");
        code(&line.operand(base).operand(new).to_string())
    };
    let named = compare(&compared.base.name, &compared.new.name);
    if named.len() <= COMMAND_BYTES_MAX {
        named
    } else {
        compare("BASE", "NEW")
    }
}

fn side_line(side: &SideSummary) -> String {
    format!("{}: {}", code(&side.name), escaped(&side.line()))
}

fn difference_line(difference: &Difference) -> String {
    let marked = match difference.kind {
        DifferenceKind::Treatment => " (what is judged)",
        DifferenceKind::Refused => " (does not compare)",
        DifferenceKind::Listed => "",
    };
    format!(
        "{}: {} → {}{marked}",
        difference.what,
        code(&difference.base),
        code(&difference.new)
    )
}

fn counts(compared: &Compared) -> String {
    let summary = compared.comparison.summary;
    format!(
        "| regressed | improved | suspected | equivalent | inconclusive | new | missing | skipped |\n\
         |---:|---:|---:|---:|---:|---:|---:|---:|\n\
         | {} | {} | {} | {} | {} | {} | {} | {} |",
        summary.regressed,
        summary.improved,
        summary.suspected,
        summary.equivalent,
        summary.inconclusive,
        summary.new,
        summary.missing,
        summary.skipped
    )
}

/// Appends a list as far as the text stays below the limit.
fn list(text: &mut String, heading: &str, lines: &[String], limit: usize) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n**{heading}**\n");
    let mut shown = 0;
    for line in lines.iter().take(LINES_MAX) {
        if text.len() + line.len() > limit {
            break;
        }
        let _ = writeln!(text, "- {line}");
        shown += 1;
    }
    if lines.len() > shown {
        let _ = writeln!(text, "- and {} more", lines.len() - shown);
    }
}

fn escaped_lines(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| escaped(line)).collect()
}

/// Appends a table of rows as far as the text stays below the limit; returns how many did not fit.
fn table(text: &mut String, rows: &[Row<'_>], limit: usize) -> usize {
    let _ = writeln!(text, "| {} |", HEADINGS.join(" | "));
    let alignment = (0..HEADINGS.len()).map(|index| if NUMBERS.contains(&index) { "---:" } else { "---" });
    let _ = writeln!(text, "| {} |", alignment.collect::<Vec<_>>().join(" | "));
    for (index, row) in rows.iter().enumerate() {
        let line = format!(
            "| {} | {} | {} | {} |\n",
            row.verdict,
            code(row.id),
            row.numbers.join(" | "),
            escaped(&row.note)
        );
        if text.len() + line.len() > limit {
            return rows.len() - index;
        }
        text.push_str(&line);
    }
    0
}

/// A foreign text as code, in which GitHub looks for no mention and no link.
fn code(text: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "_=,.-/+ ".contains(character);
    if !text.is_empty() && text.chars().count() <= TEXT_CHARACTERS_MAX && text.chars().all(is_plain) {
        format!("`{text}`")
    } else {
        format!("<code>{}</code>", escaped(&Printable(text).to_string()))
    }
}

/// A text without meaning to Markdown or HTML, cut where it is very long. Character references stand for
/// text alone, whatever they stand for.
fn escaped(text: &str) -> String {
    let mut shown = String::new();
    for (index, character) in text.chars().enumerate() {
        if index == TEXT_CHARACTERS_MAX * 2 {
            shown.push('…');
            break;
        }
        if "\\`*_{}[]<>#|~@&$".contains(character) {
            let _ = write!(shown, "&#{};", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_cannot_leave_their_cell() {
        assert_eq!(
            code("scratch_loop/sync,threshold=max/4KiB"),
            "`scratch_loop/sync,threshold=max/4KiB`"
        );
        assert_eq!(code("a|b`c"), "<code>a&#124;b&#96;c</code>");
        assert_eq!(
            code("@user </code><b>"),
            "<code>&#64;user &#60;/code&#62;&#60;b&#62;</code>"
        );
        assert_eq!(
            code("\u{1b}\u{202e}"),
            "<code>&#92;u&#123;1b&#125;&#92;u&#123;202e&#125;</code>"
        );
        assert!(code(&"x".repeat(100_000)).len() < 1000);
    }
}
