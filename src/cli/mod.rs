//! The command line: one file a subcommand.

mod api_summary;
mod calibrate;
mod compare;
mod doctor;
mod install;
mod list;
mod output;
mod report;
mod request;
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
    after_help = "Exit codes: 0 done, 1 a regression was found, 2 wrong usage, 3 unreadable input or a device that failed."
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
    /// Says what changed between two recordings of the benchmarks.
    Compare(compare::Arguments),
    /// Writes one HTML file for a reviewer: of one baseline, or of a comparison.
    ///
    /// Prints where it is. The exit code is that of `compare`.
    Report(report::Arguments),
    /// Says how often the comparison would raise a false alarm on a baseline's own noise, and what it can find.
    Calibrate(calibrate::Arguments),
    /// Lists the baselines.
    List(list::Arguments),
    /// Makes a baseline available to `cargo bench -- --baseline NAME` and critcmp.
    Install(install::Arguments),
    /// Says what an allocation trace holds.
    Trace(trace::Arguments),
}

/// Runs the command that the arguments name.
pub(crate) fn run() -> ExitCode {
    match Arguments::parse().command {
        Command::Doctor => doctor::run(),
        Command::ApiSummary(arguments) => api_summary::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Calibrate(arguments) => calibrate::run(&arguments),
        Command::List(arguments) => list::run(&arguments),
        Command::Install(arguments) => install::run(&arguments),
        Command::Trace(arguments) => trace::run(&arguments),
    }
}
