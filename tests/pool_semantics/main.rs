//! What the driver does with memory pools, subject by subject, on whichever device is present.
//!
//! `cargo test --test pool_semantics [-- NAME...]`. A subject that comes out otherwise is a *semantic
//! drift*, reported with what was expected, what was seen and the driver. A drift of what NVIDIA
//! documents fails the test. A drift of what was only observed, on driver 580.159.04, fails on the host
//! device, which is held to that driver, and is reported on a GPU; with `POOLBENCH_SEMANTICS_STRICT=1`
//! it fails there too. `POOLBENCH_SEMANTICS_FILL=1` lets the subjects run on a GPU that fill its memory.

mod attributes;
mod freeing;
mod graph_memory;
mod ground;
mod growth;
mod lifetime;
mod marks;
mod memory_pressure;
mod reuse;
mod subject;
mod threshold;
mod trim;

use ground::Load;
use poolbench::cuda::Device;
use std::process::ExitCode;
use subject::{Outcome, Source, Subject};

/// Pools that are destroyed in use come last: a driver that crashes then has shown the rest.
const SUBJECTS: &[&[Subject]] = &[
    attributes::SUBJECTS,
    growth::SUBJECTS,
    marks::SUBJECTS,
    threshold::SUBJECTS,
    trim::SUBJECTS,
    reuse::SUBJECTS,
    freeing::SUBJECTS,
    memory_pressure::SUBJECTS,
    graph_memory::SUBJECTS,
    lifetime::SUBJECTS,
];

/// What of the test harness's command line has a meaning here.
#[derive(Default)]
struct Selection {
    list: bool,
    only_ignored: bool,
    exact: bool,
    names: Vec<String>,
    skipped: Vec<String>,
}

impl Selection {
    fn read(mut arguments: impl Iterator<Item = String>) -> Selection {
        let mut selection = Selection::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--list" => selection.list = true,
                "--ignored" => selection.only_ignored = true,
                "--exact" => selection.exact = true,
                "--skip" => selection.skipped.extend(arguments.next()),
                // Subjects run one at a time and are always printed; the value is passed over.
                "--test-threads" | "--format" | "--color" | "--logfile" | "-Z" => drop(arguments.next()),
                flag if flag.starts_with('-') => {}
                name => selection.names.push(name.to_owned()),
            }
        }
        selection
    }

    fn takes(&self, name: &str) -> bool {
        let matches = |wanted: &String| {
            if self.exact {
                name == wanted
            } else {
                name.contains(wanted.as_str())
            }
        };
        let is_wanted = self.names.is_empty() || self.names.iter().any(matches);
        is_wanted && !self.only_ignored && !self.skipped.iter().any(matches)
    }
}

#[derive(Default)]
struct Summary {
    holding: usize,
    comparisons: usize,
    drifts: Vec<&'static str>,
    failures: usize,
    inconclusive: Vec<&'static str>,
    skipped: Vec<&'static str>,
}

impl Summary {
    fn add(&mut self, subject: &Subject, outcome: Outcome, device: &Device) {
        let name = subject.name;
        match outcome {
            Outcome::Holds(comparisons) => {
                println!("holds         {name}");
                self.holding += 1;
                self.comparisons += comparisons;
            }
            Outcome::Drifts(differences) => {
                println!("{}", subject.report(&differences, what_is(device)));
                self.drifts.push(name);
                self.failures += usize::from(fails(subject.source, device));
            }
            Outcome::Inconclusive(reason) => {
                println!("INCONCLUSIVE  {name}: {reason}");
                self.inconclusive.push(name);
            }
            Outcome::Skipped(reason) => {
                println!("SKIPPED       {name}: {reason}");
                self.skipped.push(name);
            }
        }
    }

    fn print(&self, device: &Device) {
        let list = |names: &[&str]| match names {
            [] => String::from("none"),
            names => format!("{} ({})", names.len(), names.join(", ")),
        };
        println!(
            "\n{} semantics hold on {} ({} comparisons); drifts: {}; inconclusive: {}; skipped: {}",
            self.holding,
            what_is(device),
            self.comparisons,
            list(&self.drifts),
            list(&self.inconclusive),
            list(&self.skipped)
        );
    }
}

fn what_is(device: &Device) -> String {
    if device.is_host() {
        String::from("the host device")
    } else {
        device.to_string()
    }
}

fn is_set(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| !value.is_empty() && value != "0")
}

fn fails(source: Source, device: &Device) -> bool {
    source == Source::Documented || device.is_host() || is_set("POOLBENCH_SEMANTICS_STRICT")
}

fn run(selected: &[&Subject]) -> Result<Summary, String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let device = Device::from_environment().map_err(|error| text(&error))?;
    println!("pool semantics on {}\n", what_is(&device));
    let mut summary = Summary::default();
    if !device.supports_memory_pools() {
        for subject in selected {
            let reason = String::from("the device has no memory pools");
            summary.add(subject, Outcome::Skipped(reason), &device);
        }
        return Ok(summary);
    }
    let load = Load::new(&device).map_err(|error| text(&error))?;
    subject::check_reporting(&device, &load);
    for subject in selected {
        let outcome = subject.look(&device, &load);
        // A subject that ended early may have left work behind.
        device
            .synchronize()
            .map_err(|error| format!("after {}: {error}", subject.name))?;
        summary.add(subject, outcome, &device);
    }
    load.close().map_err(|error| text(&error))?;
    summary.print(&device);
    Ok(summary)
}

fn main() -> ExitCode {
    let selection = Selection::read(std::env::args().skip(1));
    let subjects = SUBJECTS.iter().flat_map(|file| file.iter());
    let selected: Vec<&Subject> = subjects.filter(|subject| selection.takes(subject.name)).collect();
    if selection.list {
        selected.iter().for_each(|subject| println!("{}: test", subject.name));
        return ExitCode::SUCCESS;
    }
    if selected.is_empty() {
        return ExitCode::SUCCESS;
    }
    match run(&selected) {
        Ok(summary) if summary.failures == 0 => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("pool_semantics: {message}");
            ExitCode::FAILURE
        }
    }
}
