//! A summary as text.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use super::summary::{Quantiles, Summary};
use crate::counted::{counted, grouped};

/// Streams and threads shown one by one; the rest are counted.
const ROWS_MAX: usize = 16;

/// The summary as `poolbench trace FILE` prints it.
pub fn text(summary: &Summary) -> String {
    let mut sections = vec![overview(summary).to_string()];
    if summary.sizes_known {
        sections.push(sizes(summary));
        if let Some(table) = lifetimes(summary) {
            sections.push(table);
        }
    }
    sections.push(streams(summary));
    sections.push(threads(summary));
    if !summary.warnings.is_empty() {
        let mut notes = "notes".to_owned();
        for warning in &summary.warnings {
            // Writing to a string does not fail.
            let _ = write!(notes, "\n  {warning}");
        }
        sections.push(notes);
    }
    let trimmed: Vec<String> = sections.iter().map(|section| trim_lines(section)).collect();
    trimmed.join("\n\n") + "\n"
}

/// The table pads its last column; text that is compared or pasted has no use for it.
pub(crate) fn trim_lines(section: &str) -> String {
    let lines: Vec<&str> = section.lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// A table without lines, all columns but the first to the right.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if !header.is_empty() {
        table.set_header(header.iter().copied());
    }
    table
}

pub(crate) fn finish(mut table: Table) -> String {
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

fn overview(summary: &Summary) -> String {
    let mut rows = vec![
        ("source", summary.source.name().to_owned()),
        ("events", grouped(summary.events)),
        ("allocations", grouped(summary.allocations)),
        ("frees", grouped(summary.frees)),
    ];
    if summary.syncs > 0 {
        rows.push(("waits", grouped(summary.syncs)));
    }
    if let Some(duration_ns) = summary.duration_ns {
        rows.push(("duration", time(duration_ns)));
    }
    if summary.sizes_known {
        let peak = summary.peak;
        rows.push(("peak live bytes", bytes(peak.bytes)));
        rows.push(("peak live blocks", grouped(peak.blocks)));
        let before = summary.live_before;
        if before.blocks > 0 {
            rows.push((
                "live before the trace",
                format!(
                    "{} in {}; the peak leaves it out",
                    bytes(before.bytes),
                    counted(grouped(before.blocks), "block")
                ),
            ));
        }
        rows.push(("distinct sizes", grouped(summary.distinct_sizes)));
        let live = summary.live_at_end;
        rows.push((
            "blocks never freed",
            format!("{}, of {}", grouped(live.blocks), bytes(live.bytes)),
        ));
        rows.push(("orphan frees", grouped(summary.orphan_frees)));
        rows.push(("cross-thread frees", grouped(summary.cross_thread_frees)));
        rows.push(("cross-stream frees", grouped(summary.cross_stream_frees)));
    } else {
        rows.push((
            "sizes",
            "not recorded: record with nsys --cuda-memory-usage=true".to_owned(),
        ));
    }
    let mut overview = table(&[]);
    for (name, value) in rows {
        overview.add_row([name.to_owned(), value]);
    }
    for column in overview.column_iter_mut() {
        column.set_padding((0, 2));
    }
    overview.to_string()
}

fn sizes(summary: &Summary) -> String {
    const BAR_WIDTH: u64 = 40;
    let most = summary.sizes.iter().map(|bucket| bucket.blocks).max();
    let most = most.unwrap_or(1).max(1);
    let mut table = table(&["size from", "blocks", "share"]);
    table.set_header(["size from", "blocks", "share", ""]);
    for bucket in &summary.sizes {
        let share = bucket.blocks as f64 / summary.allocations.max(1) as f64;
        // At least one mark for a bucket that is not empty.
        let bar = (bucket.blocks * BAR_WIDTH).div_ceil(most) as usize;
        table.add_row([
            short_bytes(bucket.from_bytes),
            grouped(bucket.blocks),
            format!("{:.1} %", share * 100.0),
            "#".repeat(bar),
        ]);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if (1..3).contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

fn lifetimes(summary: &Summary) -> Option<String> {
    let events = summary.lifetimes.events?;
    let mut table = table(&["lifetime", "min", "median", "90 %", "99 %", "max"]);
    let row = |name: &str, quantiles: Quantiles, show: fn(u64) -> String| {
        let Quantiles {
            min,
            median,
            p90,
            p99,
            max,
        } = quantiles;
        let shown = [min, median, p90, p99, max].map(show);
        std::iter::once(name.to_owned()).chain(shown).collect::<Vec<_>>()
    };
    table.add_row(row("events", events, grouped));
    if let Some(times) = summary.lifetimes.time_ns {
        table.add_row(row("time", times, time));
    }
    Some(finish(table))
}

fn streams(summary: &Summary) -> String {
    let several = summary.streams.iter().any(|s| s.stream.process > 0);
    let mut table = table(&["stream", "device", "allocations", "frees", "waits", "allocated"]);
    for stream in summary.streams.iter().take(ROWS_MAX) {
        let name = match stream.stream.id {
            id @ 0..1_000_000 => id.to_string(),
            handle => format!("{handle:#x}"),
        };
        let name = if several {
            format!("{name} (process {})", stream.stream.process)
        } else {
            name
        };
        table.add_row([
            name,
            stream.stream.device.to_string(),
            grouped(stream.allocations),
            grouped(stream.frees),
            grouped(stream.syncs),
            bytes(stream.allocated_bytes),
        ]);
    }
    finish(table) + &more(summary.streams.len())
}

fn threads(summary: &Summary) -> String {
    let mut table = table(&["thread", "allocations", "frees", "waits"]);
    for thread in summary.threads.iter().take(ROWS_MAX) {
        table.add_row([
            thread.thread.to_string(),
            grouped(thread.allocations),
            grouped(thread.frees),
            grouped(thread.syncs),
        ]);
    }
    finish(table) + &more(summary.threads.len())
}

fn more(n: usize) -> String {
    match n.saturating_sub(ROWS_MAX) {
        0 => String::new(),
        more => format!("\n... and {more} more"),
    }
}

const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// A power of two, exact: `64KiB`.
fn short_bytes(n: u64) -> String {
    if n == 0 {
        return "0B".to_owned();
    }
    let unit = (n.ilog2() / 10) as usize;
    format!("{}{}", n >> (10 * unit), UNITS[unit])
}

/// A number of bytes: `2.36 GiB (2,532,893,696)`.
pub(crate) fn bytes(n: u64) -> String {
    if n < 1024 {
        return format!("{n} B");
    }
    let unit = (n.ilog2() / 10) as usize;
    let scaled = n as f64 / (1u64 << (10 * unit)) as f64;
    format!("{scaled:.2} {} ({})", UNITS[unit], grouped(n))
}

/// A time with three significant digits or so.
pub(crate) fn time(ns: u64) -> String {
    let (scale, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (1e3, "us"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{:.2} {unit}", ns as f64 / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_people_read_them() {
        assert_eq!(short_bytes(1 << 16), "64KiB");
        assert_eq!(short_bytes(512), "512B");
        // 2,532,893,696 / 2^30 = 2.3589...
        assert_eq!(bytes(2_532_893_696), "2.36 GiB (2,532,893,696)");
        assert_eq!(bytes(u64::MAX), "16.00 EiB (18,446,744,073,709,551,615)");
        assert_eq!(time(999), "999 ns");
        assert_eq!(time(1_720_000_000), "1.72 s");
    }
}
