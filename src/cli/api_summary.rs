//! `poolbench api-summary`: the driver calls of one case of the scratch loop, set-up apart from the loop.

use super::output::{Format, conclude};
use clap::Args;
use poolbench::api_summary;
use poolbench::case::{Size, Threshold};
use poolbench::counted::counted;
use poolbench::cuda::Device;
use poolbench::driver::log;
use poolbench::report::{api_summary_json, api_summary_table};
use poolbench::strategy::{self, StrategyKind};
use poolbench::workload::ScratchLoop;
use std::process::ExitCode;

/// What to summarise, and how.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// How the loop gets its buffer; `poolbench doctor` lists the strategies.
    #[arg(long, default_value = "stream_ordered", value_parser = named_strategy)]
    strategy: &'static StrategyKind,
    /// The size of the buffer, as 4KiB, 1MiB or 1GiB.
    #[arg(long, default_value = "1MiB")]
    size: Size,
    /// The pool's release threshold: 0, half, size or max.
    #[arg(long, default_value = "max")]
    threshold: Threshold,
    /// Iterations of the loop, which ends with one synchronise.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    iterations: u64,
    /// How to print it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

fn named_strategy(name: &str) -> Result<&'static StrategyKind, String> {
    strategy::named(name).ok_or_else(|| {
        let names: Vec<&str> = strategy::ALL.iter().map(|kind| kind.name).collect();
        format!("the strategies are {}", names.join(", "))
    })
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    conclude(summary(arguments).map(|text| text + "\n"))
}

fn summary(arguments: &Arguments) -> Result<String, String> {
    let case = ScratchLoop {
        group: "scratch_loop",
        function: arguments.strategy.name.to_owned(),
        strategy: arguments.strategy,
        size_seed: None,
        size: arguments.size,
        release_threshold_bytes: arguments.threshold.bytes(arguments.size),
        iterations: arguments.iterations,
    };
    let id = format!("{}/{}/{}", case.group, case.function, case.size);
    // The log covers every call of the process, from the driver's start to the context's release, so
    // that another counter of the same process must come to the same numbers.
    log::start();
    let passed = pass(&case, &id);
    let summaries = log::stop();
    let device = passed?;
    match arguments.format {
        Format::Text => Ok(format!(
            "poolbench: {device}\n{id}, {}, {}, then a synchronise\n\n{}",
            arguments.threshold,
            counted(arguments.iterations, "iteration"),
            api_summary_table(&summaries)
        )),
        Format::Json => {
            api_summary_json(&id, &device, arguments.iterations, &summaries).map_err(|error| error.to_string())
        }
    }
}

/// Opens the device, runs the case and closes the device. Returns what the device is.
fn pass(case: &ScratchLoop, id: &str) -> Result<String, String> {
    let device = Device::from_environment().map_err(|error| error.to_string())?;
    api_summary::pass(case, &device).map_err(|failure| format!("{id}: {failure}"))?;
    Ok(device.to_string())
}
