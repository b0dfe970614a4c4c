//! A comparison for a terminal.

use super::Compared;
use super::rows::{HEADINGS, NUMBERS, Row, all_rows, changed_rows};
use super::words::verdict_reason;
use crate::baseline::{Difference, DifferenceKind};
use crate::counted::counted;
use crate::report::Printable;
use crate::stats::{BenchmarkComparison, Verdict};
use comfy_table::{CellAlignment, Table, presets};

/// Ids and entries that are named before the rest is counted.
const NAMED_MAX: usize = 10;

/// Returns the comparison as text. The changed benchmarks are in a table; `all` shows every one.
#[must_use]
pub fn comparison_text(compared: &Compared, all: bool) -> String {
    let mut sections = vec![compared.headline(), sides(compared)];
    sections.extend(differences(&compared.differences));
    sections.push(counts(compared));
    sections.extend(section("suite", compared.suite_lines()));
    sections.extend(section("only on one side or skipped", unmatched(compared)));
    // Without verdicts nothing counts as changed, and the ratios are all there is.
    let all = all || !compared.has_verdicts();
    let rows = if all {
        all_rows(compared)
    } else {
        changed_rows(compared)
    };
    if !rows.is_empty() {
        sections.push(table(&rows));
    }
    let others = compared.comparison.benchmarks.len() - rows.len();
    if others > 0 {
        sections.push(format!(
            "{} not shown: --all shows every one",
            counted(others, "other benchmark")
        ));
    }
    sections.extend(section("notes", compared.doubt_lines()));
    sections.join("\n\n") + "\n"
}

fn sides(compared: &Compared) -> String {
    let side =
        |heading: &str, side: &super::SideSummary| format!("{heading:<6}{}: {}", Printable(&side.name), side.line());
    format!("{}\n{}", side("base", &compared.base), side("new", &compared.new))
}

fn section(heading: &str, lines: Vec<String>) -> Option<String> {
    let indented = lines.iter().map(|line| format!("\n  {line}"));
    (!lines.is_empty()).then(|| format!("{heading}{}", indented.collect::<String>()))
}

fn differences(differences: &[Difference]) -> Option<String> {
    let width = differences.iter().map(|difference| difference.what.len()).max()?;
    let line = |difference: &Difference| {
        let marked = match difference.kind {
            DifferenceKind::Treatment => "  (what is judged)",
            DifferenceKind::Refused => "  (does not compare)",
            DifferenceKind::Listed => "",
        };
        format!(
            "{:<width$}  {} -> {}{marked}",
            difference.what,
            Printable(&difference.base),
            Printable(&difference.new),
        )
    };
    section("what differs", differences.iter().map(line).collect())
}

fn counts(compared: &Compared) -> String {
    let summary = compared.comparison.summary;
    let verdicts = [
        ("regressed", summary.regressed),
        ("improved", summary.improved),
        ("suspected", summary.suspected),
        ("equivalent", summary.equivalent),
        ("inconclusive", summary.inconclusive),
        ("new", summary.new),
        ("missing", summary.missing),
        ("skipped", summary.skipped),
    ];
    verdicts
        .map(|(verdict, number)| format!("{number} {verdict}"))
        .join(", ")
}

/// What takes no part, by id.
fn unmatched(compared: &Compared) -> Vec<String> {
    let mut lines = Vec::new();
    let plainly = [
        ("missing", Verdict::Missing { skipped_now: None }),
        ("new", Verdict::New { skipped_before: None }),
    ];
    for (heading, wanted) in plainly {
        let ids: Vec<&str> = compared
            .comparison
            .benchmarks
            .iter()
            .filter(|benchmark| benchmark.verdict == wanted)
            .map(|benchmark| benchmark.id.as_str())
            .collect();
        if !ids.is_empty() {
            let shown: Vec<String> = ids.iter().take(NAMED_MAX).map(|id| Printable(id).to_string()).collect();
            lines.push(format!("{heading}: {}{}", shown.join(", "), and_more(ids.len())));
        }
    }
    for heading in ["missing", "new", "skipped"] {
        let wanted = |benchmark: &&BenchmarkComparison| reasoned(&benchmark.verdict) == Some(heading);
        let wanted: Vec<&BenchmarkComparison> = compared.comparison.benchmarks.iter().filter(wanted).collect();
        lines.extend(wanted.iter().take(NAMED_MAX).map(|benchmark| {
            let reason = verdict_reason(&benchmark.verdict).unwrap_or_default();
            format!("{heading}: {}: {reason}", Printable(benchmark.id.as_str()))
        }));
        if wanted.len() > NAMED_MAX {
            lines.push(format!("{heading}:{}", and_more(wanted.len())));
        }
    }
    lines
}

/// The heading of a verdict that has its reason on a line of its own.
fn reasoned(verdict: &Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Missing { skipped_now: Some(_) } => Some("missing"),
        Verdict::New {
            skipped_before: Some(_),
        } => Some("new"),
        Verdict::Skipped(_) => Some("skipped"),
        _ => None,
    }
}

fn and_more(count: usize) -> String {
    match count.saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    }
}

fn table(rows: &[Row<'_>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(HEADINGS);
    for row in rows {
        let cells = [row.verdict.to_owned(), Printable(row.id).to_string()];
        table.add_row(
            cells
                .into_iter()
                .chain(row.numbers.iter().cloned())
                .chain([row.note.clone()]),
        );
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        if NUMBERS.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    // The table pads its last column; text that is compared or pasted has no use for it.
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}
