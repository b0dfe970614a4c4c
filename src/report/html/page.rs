//! The page around the sections.

use super::format::{foreign, plain};
use super::view::View;
use super::{changes, even, facts, heat_map, lines, method, stacked, summary, table, threshold};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Nothing is requested from anywhere, and no script runs but the page's own.
fn policy() -> String {
    let hash = STANDARD.encode(Sha256::digest(SCRIPT));
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'"
    )
}

pub(super) fn page(view: &View) -> Markup {
    let headline = summary::headline(view);
    let sections = sections(view);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(concat!("poolbench ", env!("CARGO_PKG_VERSION")));
                title { (title(view)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    p.eyebrow { (eyebrow(view)) }
                    h1 { (headline) }
                    (summary::counts(view))
                    nav aria-label="Sections" { @for (anchor, name, section) in &sections { @if !section.0.is_empty() { a href=(format!("#{anchor}")) { (name) } } } }
                }
                main {
                    (summary::findings(view))
                    @for (_, _, section) in &sections { (section) }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

/// The sections below the findings, in order: the anchor of each, its short name, and what it holds.
fn sections(view: &View) -> Vec<(&'static str, &'static str, Markup)> {
    let measured = ("measured", "Measured", facts::section(view));
    let mut sections = vec![
        ("changes", "Changed", changes::section(view)),
        ("change", "Change map", heat_map::change_section(view)),
        ("cost", "Cost", heat_map::cost_section(view)),
        ("size", "Sizes", lines::section(view)),
        ("threshold", "Threshold", threshold::section(view)),
        ("calls", "Calls", stacked::section(view)),
        ("break-even", "Break-even", even::section(view)),
        ("benchmarks", "All benchmarks", table::section(view)),
        ("skipped", "Skipped", table::skips(view)),
        ("method", "Method", method::section(view)),
        ("commands", "Commands", method::commands(view)),
    ];
    // A comparison is believed or not for what differs beside the driver; one baseline is read for its times.
    let place = if view.compared.is_some() { 2 } else { 7 };
    sections.insert(place, measured);
    sections
}

fn title(view: &View) -> String {
    let base = plain(&view.base.summary.name);
    match &view.new {
        Some(new) => format!("poolbench: {} against {base}", plain(&new.summary.name)),
        None => format!("poolbench: {base}"),
    }
}

fn eyebrow(view: &View) -> Markup {
    let driver = |side: &super::view::SideView| {
        let device = side.summary.environment.as_ref().map(|environment| &environment.device);
        let driver = device.and_then(|device| device.driver_version.clone());
        driver.map(|driver| format!(", driver {driver}")).unwrap_or_default()
    };
    let device = view
        .base
        .summary
        .environment
        .as_ref()
        .map(|environment| environment.device.name.clone());
    html! {
        "poolbench"
        @if let Some(device) = device { " · " (foreign(&device)) }
        " · " (foreign(&view.base.summary.name)) (foreign(&driver(&view.base)))
        @if let Some(new) = &view.new { " → " (foreign(&new.summary.name)) (foreign(&driver(new))) }
    }
}
