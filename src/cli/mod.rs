//! The command line: one file a subcommand.

mod api_summary;
mod bundle;
mod doctor;
mod record;
mod trace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Measures CUDA stream-ordered memory allocation, and judges what a driver upgrade changed.
///
/// The benchmarks themselves run with `cargo bench`. `POOLBENCH_DEVICE` (auto, cuda:N, host) chooses the device and
/// `POOLBENCH_LIBCUDA` the driver library.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Exit codes: 0 done, 1 a regression was found, 2 wrong usage, 3 unreadable input or a device that failed, 130 interrupted."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Says what is measured, what is supported, and what would spoil a measurement.
    Doctor,
    /// Prints the driver calls of one case of the scratch loop: how many and how long, set-up apart.
    ///
    /// The call log is on, so these are not the times that the benchmarks measure.
    ApiSummary(api_summary::Arguments),
    /// Measures the whole suite in fresh processes, launch after launch, and writes a baseline.
    Record(Box<record::Arguments>),
    /// Collects poolbench and the bench executables in a folder, for a machine without Rust.
    Bundle(bundle::Arguments),
    /// Says what an allocation trace holds.
    Trace(trace::Arguments),
}

/// Runs the command that the arguments name.
pub(crate) fn run() -> ExitCode {
    match Arguments::parse().command {
        Command::Doctor => doctor::run(),
        Command::ApiSummary(arguments) => api_summary::run(&arguments),
        Command::Record(arguments) => record::run(&arguments),
        Command::Bundle(arguments) => bundle::run(&arguments),
        Command::Trace(arguments) => trace::run(&arguments),
    }
}
