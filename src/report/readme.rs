//! The README's block of measured tables, from a baseline: every figure in it is computed.

use super::Printable;
use super::break_even::{BreakEven, Point, break_even};
use super::prose::wrapped;
use super::table::microseconds;
use super::timings::{Group, Timing, Timings, value_bytes};
use crate::baseline::{Input, Manifest};
use crate::command_line::CommandLine;
use crate::counted::{counted, grouped};
use std::fmt::Write as _;
use thiserror::Error;

/// From this size on the two kinds of allocation are compared in a sentence.
const LARGE_BYTES: usize = 1 << 20;
/// The sizes whose bytes held are shown.
const HELD_SIZES: [&str; 2] = ["32MiB", "256MiB"];

/// Why a baseline gives no README tables.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoReadmeTables {
    /// It does not say of which machine it is.
    #[error("{0}: is no baseline of poolbench record, so that nothing says of which machine its times are")]
    NoManifest(String),
    /// A workload is missing.
    #[error("{name}: holds no {group} benchmark beside its hoisted loop; record it without a filter")]
    NoGroup {
        /// The baseline.
        name: String,
        /// The workload.
        group: &'static str,
    },
}

/// Returns the block that stands between README's marks, in Markdown, with a line break at its end.
///
/// # Errors
///
/// A side that is no baseline, or lacks a workload of the tables.
pub fn readme_tables(input: &Input) -> Result<String, NoReadmeTables> {
    let name = Printable(&input.name).to_string();
    let Some(manifest) = &input.manifest else {
        return Err(NoReadmeTables::NoManifest(name));
    };
    let timings = Timings::of(&input.side);
    let group = |group: &'static str| {
        let found = timings
            .group(group)
            .filter(|found| found.functions.iter().any(|name| name == "hoisted"));
        found.ok_or_else(|| NoReadmeTables::NoGroup {
            name: name.clone(),
            group,
        })
    };
    let block = Block {
        manifest,
        timings: &timings,
    };
    let scratch = group("scratch_loop")?;
    let threshold = group("release_threshold")?;
    let variable = group("variable_size")?;
    let paragraphs = [
        wrapped(&block.introduction(&name, input)),
        block.table(scratch, "strategy"),
        wrapped(&block.after_scratch_loop(scratch)),
        wrapped(&block.before_thresholds()),
        block.thresholds(threshold),
        wrapped(&block.after_thresholds(threshold)),
        wrapped(&block.before_variable_sizes(variable)),
        block.table(variable, "strategy"),
        wrapped(
            &[block.graphs(), block.spread()]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" "),
        ),
    ];
    let paragraphs = paragraphs.iter().filter(|paragraph| !paragraph.is_empty());
    Ok(paragraphs.cloned().collect::<Vec<_>>().join("\n\n") + "\n")
}

struct Block<'a> {
    manifest: &'a Manifest,
    timings: &'a Timings,
}

impl Block<'_> {
    fn introduction(&self, name: &str, input: &Input) -> String {
        let device = &self.manifest.environment.device;
        let driver = device.driver_version.as_deref().unwrap_or("unknown");
        let keys = input.side.launch_keys();
        let sessions: std::collections::BTreeSet<_> = keys.iter().map(|key| &key.session).collect();
        let date = self.manifest.created.split('T').next().unwrap_or_default();
        format!(
            "On an {} (driver {}, CUDA {}), {}: {} in {}, the baseline `{name}`; \
             `{}` prints this block. Median over launches, µs per \
             iteration, and the ratio to `hoisted` at the same size. 100 iterations, then a synchronise; release \
             threshold max:",
            Printable(&device.name),
            Printable(driver),
            Printable(&device.cuda_version),
            Printable(date),
            counted(keys.len(), "launch"),
            counted(sessions.len(), "session"),
            CommandLine::through_cargo("report")
                .flag("--readme-tables")
                .operand(name)
        )
    }

    /// A row a function, a column a value.
    fn table(&self, group: &Group, heading: &str) -> String {
        let values: Vec<&str> = group.values.iter().map(String::as_str).collect();
        let mut rows = vec![head(heading, &values)];
        for function in group.functions.iter().filter(|function| function.as_str() != "noop") {
            let cells = group.values.iter().map(|value| self.cell(group, function, value));
            rows.push(format!(
                "| `{}` | {} |",
                Printable(function),
                cells.collect::<Vec<_>>().join(" | ")
            ));
        }
        rows.join("\n")
    }

    /// `14.9 (2.23x)`; the baseline's has no ratio, and what was not measured is a dash.
    fn cell(&self, group: &Group, function: &str, value: &str) -> String {
        let Some(time_ns) = self.timings.median_ns(&group.name, function, value) else {
            return String::from("-");
        };
        let time = microseconds(time_ns);
        match self.timings.ratio_to_hoisted(group, function, value) {
            Some(ratio) if function != "hoisted" => format!("{time} ({ratio:.2}x)"),
            _ => time,
        }
    }

    fn points(&self, group: &Group, function: &str) -> Vec<Point> {
        self.timings.break_even_points(group, function)
    }

    fn after_scratch_loop(&self, group: &Group) -> String {
        let noop = group
            .values
            .iter()
            .find_map(|value| self.timings.median_ns(&group.name, "noop", value));
        let noop = noop.map(|time_ns| format!("`noop`, the harness alone, took {} µs. ", microseconds(time_ns)));
        let even = ["stream_ordered", "sync"]
            .into_iter()
            .filter_map(|function| Some(format!("`{function}` is {}", evenness(&self.points(group, function))?)));
        let even: Vec<String> = even.collect();
        let mut text = noop.unwrap_or_default();
        if !even.is_empty() {
            let _ = write!(text, "Break-even: {}.", even.join("; "));
        }
        text.trim_end().to_owned()
    }

    fn held_bytes(&self, function: &str, value: &str) -> Option<u64> {
        let seen = self
            .manifest
            .observations
            .get(&format!("release_threshold/{function}/{value}"))?;
        Some(seen.reserved?.after_synchronize_bytes)
    }

    fn before_thresholds(&self) -> String {
        let held = self
            .manifest
            .observations
            .iter()
            .filter(|(id, _)| id.starts_with("release_threshold/"));
        let smallest = held
            .filter_map(|(_, seen)| Some(seen.reserved?.after_synchronize_bytes))
            .filter(|bytes| *bytes > 0)
            .min();
        let step = smallest.map_or_else(String::new, |bytes| {
            format!(
                " The pool kept {} bytes or more, or nothing, so that a threshold below that acted like 0.",
                grouped(bytes)
            )
        });
        format!("A synchronise after every iteration, by release threshold.{step}")
    }

    fn thresholds(&self, group: &Group) -> String {
        let mut headings: Vec<&str> = group.values.iter().map(String::as_str).collect();
        let held = format!("bytes held after a synchronise, at {}", HELD_SIZES.join(" and "));
        headings.push(&held);
        let mut rows = vec![head("threshold", &headings)];
        for function in &group.functions {
            let mut cells: Vec<String> = group
                .values
                .iter()
                .map(|value| self.cell(group, function, value))
                .collect();
            let held = HELD_SIZES.map(|value| {
                self.held_bytes(function, value)
                    .map_or_else(|| String::from("-"), grouped)
            });
            cells.push(if function == "hoisted" {
                String::new()
            } else {
                held.join("; ")
            });
            rows.push(format!("| {} | {} |", threshold_name(function), cells.join(" | ")));
        }
        rows.join("\n")
    }

    fn after_thresholds(&self, group: &Group) -> String {
        let sentence = |(function, name)| {
            Some(format!(
                "threshold {name} is {}",
                evenness(&self.points(group, function))?
            ))
        };
        let parts: Vec<String> = [("threshold=0", "0"), ("threshold=max", "max")]
            .into_iter()
            .filter_map(sentence)
            .collect();
        if parts.is_empty() {
            return String::new();
        }
        format!("Synchronised every time, {}.", parts.join("; "))
    }

    fn before_variable_sizes(&self, group: &Group) -> String {
        let range = |function: &str| {
            let large = group
                .values
                .iter()
                .filter(|value| value_bytes(value).is_some_and(|bytes| bytes >= LARGE_BYTES));
            let ratios: Vec<f64> = large
                .filter_map(|value| self.timings.ratio_to_hoisted(group, function, value))
                .collect();
            let low = ratios.iter().copied().reduce(f64::min)?;
            let high = ratios.iter().copied().reduce(f64::max)?;
            Some(format!("`{function}` costs {low:.2} to {high:.2} times the baseline"))
        };
        let ranges: Vec<String> = ["sync", "stream_ordered"].into_iter().filter_map(range).collect();
        let ranges = if ranges.is_empty() {
            String::new()
        } else {
            format!(" From 1 MiB on {}.", ranges.join(", "))
        };
        format!(
            "A size drawn anew each iteration, from 256 bytes to the size shown, where one buffer of the largest size \
             is the baseline.{ranges}"
        )
    }

    fn graphs(&self) -> Option<String> {
        let group = self.timings.group("graph_replay")?;
        let value = group.values.first()?;
        let part = |strategy: &str| {
            let time = |submission: &str| {
                let function = format!("{strategy},{submission}");
                Some(microseconds(self.timings.median_ns(&group.name, &function, value)?))
            };
            Some(format!(
                "`{strategy}` at {value} goes from {} to {} µs",
                time("eager")?,
                time("graph")?
            ))
        };
        let parts: Vec<String> = ["hoisted", "stream_ordered"].into_iter().filter_map(part).collect();
        (!parts.is_empty()).then(|| format!("Captured once and replayed as a graph, {}.", parts.join(", and ")))
    }

    /// How far apart the launches of host-bound benchmarks are.
    fn spread(&self) -> Option<String> {
        let spread = |timing: &Timing| {
            let times = || timing.launches.iter().map(|launch| launch.fast_ns);
            Some(times().reduce(f64::max)? / times().reduce(f64::min)? - 1.0)
        };
        let ids = self.manifest.host_bound.iter();
        let mut spreads: Vec<f64> = ids.filter_map(|id| spread(self.timings.get(id)?)).collect();
        spreads.sort_unstable_by(f64::total_cmp);
        let (middle, most) = (spreads.get(spreads.len() / 2)?, spreads.last()?);
        let host = match self.manifest.environment.host.virtualised {
            Some(true) => " on that virtualised host",
            _ => "",
        };
        Some(format!(
            "Between the fastest and the slowest launch lie {:.0} % for the host-bound benchmark in the middle, and \
             {:.0} % at most{host}.",
            middle * 100.0,
            most * 100.0
        ))
    }
}

fn head(first: &str, others: &[&str]) -> String {
    let names = others.iter().map(|name| Printable(name).to_string());
    format!(
        "| {first} | {} |\n|---|{}",
        names.collect::<Vec<_>>().join(" | "),
        "---:|".repeat(others.len())
    )
}

fn threshold_name(function: &str) -> String {
    match function {
        "hoisted" => String::from("(`hoisted`)"),
        "threshold=0" => String::from("0"),
        "threshold=half" => String::from("half the size"),
        "threshold=size" => String::from("the size"),
        "threshold=max" => String::from("max"),
        other => Printable(other).to_string(),
    }
}

/// From which loop body on a strategy is near the baseline, as the rest of a sentence; `None` without points.
fn evenness(points: &[Point]) -> Option<String> {
    let (five, one) = (break_even(points, 0.05)?, break_even(points, 0.01)?);
    let from = |found: BreakEven| match found {
        BreakEven::From(body_ns) => Some(format!("from a loop body of {:.0} µs", body_ns / 1e3)),
        BreakEven::FromTheShortest(body_ns) => Some(format!("at every size measured (from {:.1} µs)", body_ns / 1e3)),
        BreakEven::BeyondTheLongest(_) => None,
    };
    let longest_us = points.iter().map(|point| point.body_ns / 1e3).fold(0.0, f64::max);
    Some(match (from(five), from(one)) {
        (Some(five), Some(one)) => format!("within 5 % of `hoisted` {five} and within 1 % {one}"),
        (Some(five), None) => {
            format!("within 5 % of `hoisted` {five} and within 1 % at no size measured (up to {longest_us:.0} µs)")
        }
        (None, _) => format!("within 5 % of `hoisted` at no size measured (up to {longest_us:.0} µs)"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evenness_says_where_and_where_not() {
        let points = |overhead_us: f64| {
            [6.0, 45.0, 315.0].map(|body_us| Point {
                body_ns: body_us * 1e3,
                strategy_ns: (body_us + overhead_us) * 1e3,
            })
        };
        let says = |overhead_us| evenness(&points(overhead_us)).expect("points");
        // 0.7 µs is 5 % of 14 µs and 1 % of 70 µs; 5 µs is 5 % of 100 µs; 100 µs is too much everywhere.
        assert_eq!(
            says(0.7),
            "within 5 % of `hoisted` from a loop body of 14 µs and within 1 % from a loop body of 70 µs"
        );
        assert!(says(5.0).ends_with("from a loop body of 100 µs and within 1 % at no size measured (up to 315 µs)"));
        assert_eq!(
            says(100.0),
            "within 5 % of `hoisted` at no size measured (up to 315 µs)"
        );
        assert_eq!(evenness(&[]), None);
    }
}
