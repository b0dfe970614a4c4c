//! A folder of baselines, for people and for programs.

use super::ascii_json::ascii_json;
use super::{OneLine, Printable};
use crate::baseline::{Holdings, Listed};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

/// The format's version.
const FORMAT: u32 = 1;

/// Returns a line a baseline, under headings; those that are none with their reason below.
#[must_use]
pub fn inventory_text(listed: &[Listed]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "name",
        "device",
        "driver",
        "CUDA",
        "launches",
        "sessions",
        "benchmarks",
        "created",
        "state",
    ]);
    let mut invalid = Vec::new();
    for Listed { name, is_link, state } in listed {
        let name = Printable(name).to_string();
        let mark = if *is_link { " (link)" } else { "" };
        match state {
            Ok(holdings) => table.add_row(cells(&name, holdings, &format!("whole{mark}"))),
            Err(reason) => {
                invalid.push(format!("{name}: {}", OneLine(reason)));
                let mut row = vec![String::from("-"); 9];
                (row[0], row[8]) = (name, format!("invalid{mark}"));
                table.add_row(row)
            }
        };
    }
    for column in table.column_iter_mut().skip(4).take(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text: String = table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    if !invalid.is_empty() {
        text.push_str("\ninvalid\n");
        text.extend(invalid.iter().map(|line| format!("  {line}\n")));
    }
    text
}

fn cells(name: &str, holdings: &Holdings, state: &str) -> Vec<String> {
    let device = &holdings.environment.device;
    let driver = device.driver_version.as_deref().unwrap_or("-");
    vec![
        name.to_owned(),
        OneLine(&device.name).to_string(),
        OneLine(driver).to_string(),
        OneLine(&device.cuda_version).to_string(),
        holdings.launches.to_string(),
        holdings.sessions.to_string(),
        holdings.benchmarks.to_string(),
        OneLine(&holdings.created).to_string(),
        state.to_owned(),
    ]
}

#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    baselines: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    valid: bool,
    reason: Option<&'a str>,
    link: bool,
    device: Option<&'a str>,
    driver: Option<&'a str>,
    cuda: Option<&'a str>,
    launches: Option<usize>,
    sessions: Option<usize>,
    benchmarks: Option<usize>,
    created: Option<&'a str>,
}

impl<'a> Entry<'a> {
    fn of(listed: &'a Listed) -> Entry<'a> {
        let holdings = listed.state.as_ref().ok();
        let device = holdings.map(|holdings| &holdings.environment.device);
        Entry {
            name: &listed.name,
            valid: holdings.is_some(),
            reason: listed.state.as_ref().err().map(String::as_str),
            link: listed.is_link,
            device: device.map(|device| device.name.as_str()),
            driver: device.and_then(|device| device.driver_version.as_deref()),
            cuda: device.map(|device| device.cuda_version.as_str()),
            launches: holdings.map(|holdings| holdings.launches),
            sessions: holdings.map(|holdings| holdings.sessions),
            benchmarks: holdings.map(|holdings| holdings.benchmarks),
            created: holdings.map(|holdings| holdings.created.as_str()),
        }
    }
}

/// Returns the same as one JSON object.
///
/// # Errors
///
/// None that these types can cause.
pub fn inventory_json(listed: &[Listed]) -> serde_json::Result<String> {
    let document = Document {
        format: FORMAT,
        baselines: listed.iter().map(Entry::of).collect(),
    };
    Ok(ascii_json(&serde_json::to_string_pretty(&document)?))
}
