//! `poolbench record`: a recording is launches, a launch is every bench executable once, each a fresh
//! process, in shuffled order.
//!
//! What a recording measures is fixed in a [`Plan`] when it begins. Each finished launch is a line on disk,
//! so that a recording which ends early goes on where it was; the baseline appears at its end, whole or not
//! at all.

mod assemble;
mod begin;
mod bundle;
mod child;
mod destination;
mod differences;
mod error;
mod executables;
#[cfg(test)]
mod fixture;
mod interrupt;
mod launch;
mod lock;
mod look;
mod options;
mod plan;
mod process;
mod progress;
mod state;

pub use bundle::Bundle;
pub use destination::Written;
pub use error::RecordingError;
pub use executables::{Executable, ExecutableIdentity, PROFILE, Source};
pub use interrupt::Interrupt;
pub use options::{Intent, LAUNCHES, Options, with_settings};
pub use plan::{Destination, Plan, Side, Treatment};
pub use progress::{Progress, spoken};
pub use state::FinishedLaunch;

use crate::baseline::FOLDER;
use crate::environment::Monitor;
use launch::{Known, Launcher};
use process::Starter;
use state::State;
use std::path::Path;
use std::time::Duration;

/// What a recording brought.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The baselines: one, or one for each side.
    pub written: Vec<Written>,
    /// Launches of each side that were planned.
    pub planned: u64,
    /// Launches that this run measured.
    pub launches: u64,
    /// How long it measured.
    pub elapsed: Duration,
}

/// Records, and writes the baseline into [`FOLDER`] under the current folder.
///
/// # Errors
///
/// Whatever keeps it from finishing. Baselines are then as they were, and the finished launches stay on
/// disk for [`Intent::Resume`].
pub fn record(options: &Options, interrupt: &Interrupt, progress: &mut Progress) -> Result<Summary, RecordingError> {
    options.check()?;
    let scratch = begin::scratch_folder()?;
    let mut begun = begin::begin(options, interrupt, scratch.path(), progress)?;
    let settings = begun.state.plan.settings.clone();
    let starter = Starter {
        scratch: scratch.path(),
        lock: Some(&begun.lock),
        interrupt,
        settings: &settings,
        silence_max: options.silence_max(&settings),
    };
    match measure(&mut begun.state, &begun.executables, starter, progress) {
        Ok(summary) => {
            if let Err(error) = begun.state.remove() {
                // The baseline is whole, which is what was asked for.
                progress.line(&format!(
                    "the baseline is written, but what the recording kept on the way cannot be removed: {error}; \
                     remove the folder"
                ));
            }
            Ok(summary)
        }
        Err(error) => {
            progress.end();
            let (done, total) = (begun.state.launches.len() as u64, begun.state.plan.total());
            let go_on = options.to_resume(&begun.state.plan.name);
            if done == 0 {
                let _ = begun.state.remove();
                return Err(error);
            }
            Err(RecordingError::Stopped {
                error: Box::new(error),
                done,
                total,
                go_on,
            })
        }
    }
}

fn measure(
    state: &mut State,
    executables: &[Executable],
    starter: Starter<'_>,
    progress: &mut Progress,
) -> Result<Summary, RecordingError> {
    let plan = state.plan.clone();
    let is_left = |state: &State| (state.launches.len() as u64) < plan.total();
    // What only waits to be written needs no session.
    let mut session = String::new();
    if is_left(state) {
        session = begin::session_of_next(state, progress)?;
    }
    let done = state.launches.len() as u64;
    let repeated = state::repeated(&state.launches);
    let mut launcher = Launcher {
        plan: &plan,
        executables,
        starter,
        monitor: Monitor::of(plan.sides[0].environment.device.uuid.as_deref()),
        repeated,
    };
    progress.begin(done, plan.total(), repeated);
    while is_left(state) {
        let step = plan.step(state.launches.len() as u64);
        let of_side = state.launches.iter().find(|finished| finished.side == step.side);
        let known = state.launches.first().zip(of_side);
        let known = known.map(|(first, of_side)| Known::from(first, of_side));
        let finished = launcher.launch(&step, known.as_ref(), &session, progress)?;
        match of_side {
            None => destination::check_first(&plan, &finished)?,
            Some(first) => {
                let was_measured = |id: &String| first.launch.samples.contains_key(id);
                destination::check_skips(&plan.name, was_measured, &finished)?;
            }
        }
        let marked = finished
            .launch
            .samples
            .values()
            .filter(|samples| !samples.flags.is_empty());
        let marked = marked.count();
        state.add(finished)?;
        progress.launched(marked);
        if is_left(state) {
            session = begin::session_of_next(state, progress)?;
        }
    }
    progress.end();
    Ok(Summary {
        written: destination::write(Path::new(FOLDER), &plan, &state.launches)?,
        planned: plan.launches,
        launches: plan.total() - done,
        elapsed: progress.elapsed(),
    })
}
