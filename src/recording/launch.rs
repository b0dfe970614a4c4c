//! One launch: every bench executable once, each a fresh process, in shuffled order; then once more what
//! something disturbed.

use super::differences::{difference_lines, same_machine};
use super::error::RecordingError;
use super::executables::Executable;
use super::plan::{Plan, Side, Step, now};
use super::process::{Starter, Task};
use super::progress::Progress;
use super::state::FinishedLaunch;
use crate::baseline::{Launch, ProcessRecord};
use crate::environment::Monitor;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use std::collections::{BTreeMap, BTreeSet};

/// A case is left out for its slowness only in the first launch of a side; afterwards only if something is
/// very wrong.
const LATER_LOOP_TIME_MAX_S: f64 = 3600.0;
/// A disturbance that lasts longer than this many repeats is marked instead.
const REPEATS_PER_LAUNCH: u32 = 2;
/// Of all measurements of a recording, those that may be repeated: one in this many.
const REPEATED_ONE_IN: u64 = 10;

/// What a launch needs beside its step.
pub(super) struct Launcher<'a> {
    pub(super) plan: &'a Plan,
    pub(super) executables: &'a [Executable],
    pub(super) starter: Starter<'a>,
    pub(super) monitor: Monitor,
    /// Measurements that were repeated so far.
    pub(super) repeated: u64,
}

/// What the first launches found out for the others.
pub(super) struct Known<'a> {
    /// The ids of each executable, as the first launch of the side found them.
    executables: &'a BTreeMap<String, BTreeSet<String>>,
    /// Samples of each turn of the host-bound ids. What the device paces is the same at every moment, and each
    /// turn costs its preparation.
    samples_per_turn: BTreeMap<String, u64>,
    /// Samples of the ids whose pace the device sets, where fewer than of others are enough.
    fewer_samples: BTreeMap<String, u64>,
}

impl<'a> Known<'a> {
    /// `first` is the first launch of the whole recording: both sides are sampled in the same way, and no
    /// launch in another way than the others.
    pub(super) fn from(first: &FinishedLaunch, of_side: &'a FinishedLaunch) -> Known<'a> {
        let worthwhile = |id: &String| Some((id.clone(), *first.samples_per_turn.get(id)?));
        let enough = |id: &String| Some((id.clone(), *first.samples_enough.get(id)?));
        Known {
            executables: &of_side.executables,
            samples_per_turn: first.host_bound().filter_map(worthwhile).collect(),
            fewer_samples: first.paced_by_device().filter_map(enough).collect(),
        }
    }
}

impl Launcher<'_> {
    /// Measures one launch.
    pub(super) fn launch(
        &mut self,
        step: &Step,
        known: Option<&Known<'_>>,
        session: &str,
        progress: &mut Progress,
    ) -> Result<FinishedLaunch, RecordingError> {
        let side = &self.plan.sides[step.side];
        let device_before = self.monitor.look();
        let mut finished = FinishedLaunch {
            side: step.side,
            launch: Launch {
                launch: step.index,
                session: session.to_owned(),
                started: now(),
                order_seed: step.order_seed,
                device_before,
                ..Launch::default()
            },
            executables: BTreeMap::new(),
            device_time_ns: BTreeMap::new(),
            samples_per_turn: BTreeMap::new(),
            samples_enough: BTreeMap::new(),
            observations: BTreeMap::new(),
            skipped: Vec::new(),
            repeated: 0,
        };
        let mut order: Vec<&Executable> = self.executables.iter().collect();
        order.shuffle(&mut StdRng::seed_from_u64(step.order_seed));
        for executable in order {
            let only = match known {
                Some(known) => match known.executables.get(&executable.identity.name) {
                    Some(ids) => Some(ids.clone()),
                    // It measured nothing in the first launch, and would only cost its start.
                    None => continue,
                },
                None => side.only.clone(),
            };
            progress.process(step.index, &executable.identity.name);
            let record = self.process(executable, side, step, only, known)?;
            finished.add(&executable.identity.name, record)?;
        }
        if let Some(known) = known {
            self.repeat_skipped(&mut finished, step, known)?;
        }
        self.repeat_disturbed(&mut finished, step, known, progress)?;
        finished.launch.device_after = self.monitor.look();
        Ok(finished)
    }

    fn process(
        &self,
        executable: &Executable,
        side: &Side,
        step: &Step,
        only: Option<BTreeSet<String>>,
        known: Option<&Known<'_>>,
    ) -> Result<ProcessRecord, RecordingError> {
        let decides = step.is_first && side.only.is_none();
        let task = Task {
            order_seed: step.order_seed,
            only,
            loop_time_max_s: if decides {
                self.plan.settings.loop_time_max_s
            } else {
                LATER_LOOP_TIME_MAX_S
            },
            device_times: step.is_first,
            samples_per_turn: known.map(|known| known.samples_per_turn.clone()).unwrap_or_default(),
            fewer_samples: known.map(|known| known.fewer_samples.clone()).unwrap_or_default(),
        };
        let record = self.starter.run(executable, &side.treatment, &task)?.record;
        let differences = same_machine(&side.environment, &record.environment);
        if differences.is_empty() {
            return Ok(record);
        }
        Err(RecordingError::Differs {
            what: String::from("the machine changed while it was recorded; record anew with --replace"),
            differences: difference_lines(&differences, "at first", "now"),
        })
    }

    /// Measures again, in processes of their own, what was skipped though the first launch measured it: another
    /// process may have had the memory for a moment.
    fn repeat_skipped(
        &mut self,
        finished: &mut FinishedLaunch,
        step: &Step,
        known: &Known<'_>,
    ) -> Result<(), RecordingError> {
        for executable in self.executables {
            let Some(ids) = known.executables.get(&executable.identity.name) else {
                continue;
            };
            let is_missing = |id: &&String| !finished.launch.samples.contains_key(*id);
            let only: BTreeSet<String> = ids.iter().filter(is_missing).cloned().collect();
            if only.is_empty() {
                continue;
            }
            finished.skipped.retain(|skip| !only.contains(&skip.id));
            let record = self.process(executable, &self.plan.sides[step.side], step, Some(only), Some(known))?;
            finished.add(&executable.identity.name, record)?;
        }
        Ok(())
    }

    /// Measures again, in processes of their own, what the executables marked as disturbed. What the budget
    /// does not cover keeps its mark.
    fn repeat_disturbed(
        &mut self,
        finished: &mut FinishedLaunch,
        step: &Step,
        known: Option<&Known<'_>>,
        progress: &mut Progress,
    ) -> Result<(), RecordingError> {
        let side = &self.plan.sides[step.side];
        let budget = finished.launch.samples.len() as u64 * self.plan.total() / REPEATED_ONE_IN;
        for _ in 0..REPEATS_PER_LAUNCH {
            let left = usize::try_from(budget.saturating_sub(self.repeated)).unwrap_or(usize::MAX);
            let disturbed: BTreeSet<String> = finished.disturbed().take(left).cloned().collect();
            if disturbed.is_empty() {
                break;
            }
            progress.disturbed(&finished.launch, &disturbed);
            for executable in self.executables {
                let Some(ids) = finished.executables.get(&executable.identity.name) else {
                    continue;
                };
                let only: BTreeSet<String> = ids.intersection(&disturbed).cloned().collect();
                if only.is_empty() {
                    continue;
                }
                let record = self.process(executable, side, step, Some(only), known)?;
                let count = record.samples.len() as u64;
                finished.launch.samples.extend(record.samples);
                finished.repeated += count;
                self.repeated = self.repeated.saturating_add(count);
            }
        }
        Ok(())
    }
}

impl FinishedLaunch {
    /// The ids whose samples something disturbed.
    fn disturbed(&self) -> impl Iterator<Item = &String> {
        let samples = self.launch.samples.iter();
        samples
            .filter(|(_, samples)| !samples.flags.is_empty())
            .map(|(id, _)| id)
    }

    /// The ids whose device time is below half of their wall time. Where nobody could measure the device
    /// time, nothing is claimed.
    pub(super) fn host_bound(&self) -> impl Iterator<Item = &String> {
        self.ids_by_pace(true)
    }

    /// The other ids whose device time is known.
    fn paced_by_device(&self) -> impl Iterator<Item = &String> {
        self.ids_by_pace(false)
    }

    fn ids_by_pace(&self, host_bound: bool) -> impl Iterator<Item = &String> {
        self.launch.samples.iter().filter_map(move |(id, samples)| {
            let device_ns = self.device_time_ns.get(id)?;
            (samples.is_host_bound(*device_ns) == host_bound).then_some(id)
        })
    }

    fn add(&mut self, bench: &str, record: ProcessRecord) -> Result<(), RecordingError> {
        if let Some(id) = record.samples.keys().find(|id| self.launch.samples.contains_key(*id)) {
            return Err(RecordingError::Process {
                bench: bench.to_owned(),
                reason: format!("measured {id:?}, which another executable measures too"),
                output: String::new(),
            });
        }
        let ids: BTreeSet<String> = record.samples.keys().cloned().collect();
        if !ids.is_empty() {
            self.executables.entry(bench.to_owned()).or_default().extend(ids);
        }
        self.launch.samples.extend(record.samples);
        self.device_time_ns.extend(record.device_time_ns);
        self.samples_per_turn.extend(record.samples_per_turn);
        self.samples_enough.extend(record.samples_enough);
        self.observations.extend(record.observations);
        self.skipped.extend(record.skipped);
        Ok(())
    }
}
