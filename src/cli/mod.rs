//! The command line: one file a subcommand.

mod api_summary;
mod bundle;
mod calibrate;
mod compare;
mod doctor;
#[cfg(test)]
mod hints;
mod install;
mod list;
mod output;
mod record;
mod replay;
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
    /// Replays an allocation trace under every strategy and threshold, and recommends one.
    ///
    /// One thread makes the calls in the log's order, in a stream for each logged stream; the program's kernels are
    /// not replayed. Each combination is replayed twice in each round: from an empty pool, and once more, which is
    /// what counts.
    Replay(replay::Arguments),
}

/// Runs the command that the arguments name.
pub(crate) fn run() -> ExitCode {
    match Arguments::parse().command {
        Command::Doctor => doctor::run(),
        Command::ApiSummary(arguments) => api_summary::run(&arguments),
        Command::Record(arguments) => record::run(&arguments),
        Command::Bundle(arguments) => bundle::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Calibrate(arguments) => calibrate::run(&arguments),
        Command::List(arguments) => list::run(&arguments),
        Command::Install(arguments) => install::run(&arguments),
        Command::Trace(arguments) => trace::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
    }
}
