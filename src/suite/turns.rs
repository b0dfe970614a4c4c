//! A recorded group: its cases take turns, so that the samples of each are spread over the whole group.
//!
//! What a shared host does to host-bound cases lasts for seconds, so ten samples in ten milliseconds are
//! hardly more than one. Measured on the H200 (16 processes, 15 cases of `scratch_loop`, the probe taken
//! out): launch values of ten samples of one moment spread by 4.4 to 4.7 % between processes, of ten
//! moments by 2.5 to 3.9 %, of 120 samples in twelve moments by 2.1 to 3.3 %.
//!
//! Between turns a case holds nothing, so what is measured next never meets another case's memory. Each
//! turn therefore prepares the case, runs one loop that nobody measures, and closes it after its samples.

use super::output::say_plainly;
use super::recorder::Disturbance;
use super::sampler::{Sampled, Sampler};
use super::taken::Taken;
use super::{Interrupt, Outcome, Suite, SuiteError, all_released};
use crate::baseline::criterion_home::Before;
use crate::case::BenchmarkId;
use crate::cuda::{Device, Kernels};
use crate::host_probe::Reading;
use crate::measure::{self, Case, Failure, Observation, Preparation, Workload};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::panic;
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

/// How the samples of a case are divided into turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Division {
    /// Samples of a case.
    pub(super) samples: u64,
    /// Samples of each of its turns.
    pub(super) samples_per_turn: u64,
    /// Criterion's warm-up, which the first turn takes too.
    pub(super) warm_up: Duration,
}

/// What a turn may cost beside its samples however short they are.
const TURN_FREE: Duration = Duration::from_millis(3);

/// Samples of a turn, from what a turn costs beside them and what each takes: as few as `turns_max` turns
/// allow while the turn costs no more than half of what its samples take.
pub(super) fn worthwhile(samples: u64, turns_max: u32, beside: Duration, sample: Duration) -> u64 {
    let least = samples.div_ceil(u64::from(turns_max.max(1))).max(1);
    let worth = if beside <= TURN_FREE {
        1
    } else {
        let sample_ns = sample.as_nanos().max(1);
        u64::try_from((2 * beside.as_nanos()).div_ceil(sample_ns)).unwrap_or(u64::MAX)
    };
    worth.clamp(least, samples.max(least))
}

/// What samples have to take together to be enough where the device sets the pace, and the fewest of them.
/// Measured on the H200, 24 launches: values of launches of four samples of 30 ms to 75 ms spread as those of
/// ten do (0.05 to 0.14 % in `scratch_loop` at 256 MiB, 11 to 13 % where `sync` and `vmm` take half the time).
const ENOUGH: Duration = Duration::from_millis(50);
const FEWEST: u64 = 4;

/// Samples of a case whose pace the device sets, from what each takes.
pub(super) fn enough(samples: u64, sample: Duration) -> u64 {
    let enough = ENOUGH.as_nanos().div_ceil(sample.as_nanos().max(1));
    u64::try_from(enough).unwrap_or(u64::MAX).max(FEWEST).min(samples)
}

/// What Criterion asked for, and what it took.
#[derive(Clone, Copy, Debug)]
struct Call {
    iterations: u64,
    /// Of these iterations.
    time: Duration,
    reading: Option<Reading>,
    cost: Cost,
}

/// What a call took.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// In all, with the probes.
    whole: Duration,
    /// By Criterion's clock: what ran, what is not timed included.
    run: Duration,
    /// Whole loops that ran.
    loops: u32,
}

/// A case between its first turn and its last.
struct Entry<'scope, 'case> {
    index: usize,
    id: &'case BenchmarkId,
    case: &'case dyn Case,
    sampler: Sampler<'scope>,
    before: Before,
    division: Division,
    /// It has had its first turn.
    begun: bool,
    /// Criterion waits, and another sample is wanted.
    waits: bool,
    taken: Taken,
    disturbance: Disturbance,
    observation: Observation,
}

impl Entry<'_, '_> {
    fn samples_left(&self) -> u64 {
        self.division.samples.saturating_sub(self.taken.count())
    }
}

impl Suite {
    /// Measures the cases of a group in turns and returns what each brought, in the order given.
    pub(super) fn group_in_turns(
        &mut self,
        group: &str,
        cases: &[(&BenchmarkId, &dyn Case)],
        order: Vec<usize>,
    ) -> Result<Vec<Option<Outcome>>, SuiteError> {
        let mut random = StdRng::seed_from_u64(self.order_seed.unwrap_or_default());
        if self.kernels.is_none() && cases.iter().any(|(_, case)| case.kernel_work().is_some()) {
            // Not in the first case's turn, whose cost it would be. Where it fails, it fails there as well.
            self.kernels = Kernels::shared().ok();
        }
        thread::scope(|scope| {
            let mut outcomes: Vec<Option<Outcome>> = vec![None; cases.len()];
            let mut entries = Vec::new();
            for index in order {
                if let Some(entry) = self.enter(scope, group, index, cases[index])? {
                    entries.extend(self.advance(entry, &mut outcomes)?);
                }
            }
            let turns: Vec<u64> = entries
                .iter()
                .map(|entry| entry.samples_left().div_ceil(entry.division.samples_per_turn).max(1))
                .collect();
            let mut entries: Vec<Option<Entry<'_, '_>>> = entries.into_iter().map(Some).collect();
            for place in interleaved(&turns, &mut random) {
                if let Some(entry) = entries[place].take() {
                    entries[place] = self.advance(entry, &mut outcomes)?;
                }
            }
            // Where Criterion's warm-up took longer than its turn.
            for mut waiting in entries {
                while let Some(entry) = waiting {
                    waiting = self.advance(entry, &mut outcomes)?;
                }
            }
            Ok(outcomes)
        })
    }

    /// Starts Criterion on a case that the recording wants, and has the case prove itself where that is
    /// asked; `None` where it is not to be measured.
    fn enter<'scope, 'case>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        group: &str,
        index: usize,
        (id, case): (&'case BenchmarkId, &'case dyn Case),
    ) -> Result<Option<Entry<'scope, 'case>>, SuiteError> {
        if !self.recorder().wants(id) {
            return Ok(None);
        }
        let before = Before::of(&self.home, id);
        let sampler = Sampler::start(
            scope,
            Sampled {
                group: group.to_owned(),
                id: id.clone(),
                size: case.size(),
                home: self.home.clone(),
                on_host: self.device.as_ref().is_none_or(Device::is_host),
            },
        )
        .map_err(SuiteError::Thread)?;
        if !sampler.waits() {
            // The filter of the command line leaves it out.
            end(sampler);
            return Ok(None);
        }
        let preparation = self.recorder().preparation();
        if preparation != Preparation::Proven
            && let Err(failure) = self.prove(case, preparation)
        {
            end(sampler);
            return self.interrupted(id, Interrupt::SetUp(failure), &before).map(|()| None);
        }
        let division = self.recorder().division(id);
        Ok(Some(Entry {
            index,
            id,
            case,
            sampler,
            before,
            division,
            begun: false,
            waits: true,
            taken: Taken::default(),
            disturbance: Disturbance::default(),
            observation: Observation::default(),
        }))
    }

    /// Has a case show that it can be measured, apart from its turns.
    fn prove(&mut self, case: &dyn Case, preparation: Preparation) -> Result<(), Failure> {
        crate::cuda::forget_failures();
        let workload = measure::prepare_as(case, &self.opened_device(), preparation)?;
        self.finish(case, workload).map(drop)
    }

    /// Gives a case one turn, and returns it if it needs another.
    fn advance<'scope, 'case>(
        &mut self,
        mut entry: Entry<'scope, 'case>,
        outcomes: &mut [Option<Outcome>],
    ) -> Result<Option<Entry<'scope, 'case>>, SuiteError> {
        match self.turn(&mut entry) {
            Ok(()) if entry.waits => Ok(Some(entry)),
            Ok(()) => {
                let index = entry.index;
                outcomes[index] = Some(self.leave(entry)?);
                Ok(None)
            }
            Err(interrupt) => {
                end(entry.sampler);
                self.interrupted(entry.id, interrupt, &entry.before).map(|()| None)
            }
        }
    }

    /// Prepares a case, has the samples of one turn taken, and closes it, checked where they were its last.
    fn turn(&mut self, entry: &mut Entry<'_, '_>) -> Result<(), Interrupt> {
        crate::cuda::forget_failures();
        let device = self.opened_device();
        let start = Instant::now();
        let mut workload = measure::prepare_as(entry.case, &device, Preparation::Proven).map_err(Interrupt::SetUp)?;
        let prepared = start.elapsed();
        let sample = match self.samples(entry, workload.as_mut()) {
            Ok(sample) => sample,
            Err(failure) => {
                // The first failure is the one to report.
                let _ = measure::abandon(workload, &device);
                return Err(Interrupt::Run(failure));
            }
        };
        // The whole effect is checked after the last sample, as everywhere; each sample has looked at a part of
        // its own.
        if entry.waits {
            self.close_case(entry.case, workload).map_err(Interrupt::Run)?;
        } else {
            entry.observation = self.finish(entry.case, workload).map_err(Interrupt::Run)?;
        }
        let recorder = self.recorder();
        let disturbance = recorder.disturbance();
        entry.disturbance.extend(disturbance);
        if !entry.begun {
            // To close a case takes about as long as to prepare it, and later turns begin with a loop.
            let beside = prepared * 2 + sample.run / sample.loops.max(1);
            recorder.note_turn(entry.id, beside, sample.whole);
            entry.begun = true;
        }
        Ok(())
    }

    /// Takes the samples of one turn, after Criterion's warm-up or a loop that nobody measures, and returns what
    /// the last cost.
    fn samples(&mut self, entry: &mut Entry<'_, '_>, workload: &mut dyn Workload) -> Result<Cost, Failure> {
        if entry.begun {
            // Whoever waits for a sign of life, as `poolbench record` does, hears Criterion only at first.
            say_plainly(format_args!("Benchmarking {}: Another turn", entry.id));
            let loop_iterations = workload.iterations_per_loop();
            measure::run(workload, loop_iterations)?;
        } else {
            let mut warm = Duration::ZERO;
            while entry.waits && warm <= entry.division.warm_up {
                warm += self.call(entry, workload)?.cost.run;
                entry.waits = entry.sampler.goes_on();
            }
        }
        let mut cost = Cost::default();
        let mut samples = 0;
        for _ in 0..entry.division.samples_per_turn {
            if !entry.waits {
                break;
            }
            let call = self.call(entry, workload)?;
            entry.taken.add(call.iterations, call.time, call.reading);
            // The first may have been dropped.
            samples = entry.taken.count().min(samples + 1);
            cost = call.cost;
            // After the last, Criterion would only analyse what nobody asks for.
            entry.waits = entry.samples_left() > 0 && entry.sampler.goes_on();
        }
        workload.keep_samples(usize::try_from(samples).unwrap_or(usize::MAX));
        Ok(cost)
    }

    /// Runs what Criterion asks for, which then stands still.
    fn call(&mut self, entry: &mut Entry<'_, '_>, workload: &mut dyn Workload) -> Result<Call, Failure> {
        let start = Instant::now();
        let per_loop = workload.iterations_per_loop();
        // Outside Criterion's clock, by which it decides on the iterations of a sample.
        let before = self.recorder().read_probe();
        let (mut asked, mut time) = (0, Duration::ZERO);
        let run = entry.sampler.take(|iterations| {
            asked = iterations;
            let run = measure::run(workload, iterations);
            time = run.as_ref().copied().unwrap_or_default();
            run
        })?;
        let after = self.recorder().read_probe();
        Ok(Call {
            iterations: asked,
            time,
            reading: before.zip(after).map(|(before, after)| before.mean(after)),
            cost: Cost {
                whole: start.elapsed(),
                run,
                loops: u32::try_from(asked.div_ceil(per_loop)).unwrap_or(u32::MAX),
            },
        })
    }

    /// Keeps a case whose samples are all taken.
    fn leave(&mut self, entry: Entry<'_, '_>) -> Result<Outcome, SuiteError> {
        end(entry.sampler);
        let (id, observation) = (entry.id, entry.observation);
        self.record.add(id, observation);
        let kept = self
            .recorder()
            .add(id, entry.case, entry.taken, entry.disturbance, observation);
        let kept = kept.map_err(Failure::from).and_then(|median_ns| {
            all_released()?;
            Ok(median_ns)
        });
        let median_ns = kept.map_err(|failure| self.fail(id, failure, &entry.before))?;
        Ok(Outcome {
            id: id.clone(),
            median_ns,
            observation,
        })
    }
}

/// Ends Criterion on a case. What it panics with, a wrong argument of the command line, is the run's end.
fn end(sampler: Sampler<'_>) {
    if let Err(payload) = sampler.end() {
        panic::resume_unwind(payload);
    }
}

/// The order of turns in which each entry's, of which there are so many, are evenly spread: one at a random
/// moment of each of its equal parts of the whole.
#[allow(clippy::cast_precision_loss, reason = "turns are at most a few hundred")]
fn interleaved(turns: &[u64], random: &mut StdRng) -> Vec<usize> {
    let mut moments: Vec<(f64, usize)> = Vec::new();
    for (place, &count) in turns.iter().enumerate() {
        for turn in 0..count {
            moments.push(((turn as f64 + random.random::<f64>()) / count as f64, place));
        }
    }
    moments.sort_by(|a, b| a.0.total_cmp(&b.0));
    moments.into_iter().map(|(_, place)| place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_costs_half_of_its_samples_or_next_to_nothing() {
        let ms = Duration::from_millis;
        let ten = |beside, sample| worthwhile(10, 10, ms(beside), ms(sample));
        // Up to 3 ms are free.
        assert_eq!(ten(3, 1), 1);
        // 15 ms are worth three samples of 13 ms, 140 ms all ten of 5 ms.
        assert_eq!(ten(15, 13), 3);
        assert_eq!(ten(140, 5), 10);
        assert_eq!(ten(140, 0), 10);
    }

    #[test]
    fn what_the_device_paces_takes_fewer_samples_the_longer_they_are() {
        let of = |samples, ms| enough(samples, Duration::from_millis(ms));
        // 50 ms are ten samples of 5 ms, eight of 7 ms; never fewer than four, nor more than are asked for.
        assert_eq!([1, 5, 7, 14, 31, 60].map(|ms| of(10, ms)), [10, 10, 8, 4, 4, 4]);
        assert_eq!((of(3, 60), of(10, 0)), (3, 10));
    }

    #[test]
    fn the_user_limits_the_turns() {
        let free = |turns_max| worthwhile(10, turns_max, Duration::ZERO, Duration::ZERO);
        // No turn counts as one.
        assert_eq!([0, 1, 3, 10, 99].map(free), [10, 10, 4, 1, 1]);
    }

    #[test]
    fn turns_are_spread_evenly() {
        let order = interleaved(&[1, 10, 100], &mut StdRng::seed_from_u64(1));
        let count = |place| order.iter().filter(|other| **other == place).count();
        assert_eq!([0, 1, 2].map(count), [1, 10, 100]);
        // One of the ten in each tenth of the hundred, to within the one at a random moment of it.
        let mut hundred = 0;
        let mut before = Vec::new();
        for place in order {
            match place {
                1 => before.push(hundred),
                2 => hundred += 1,
                _ => {}
            }
        }
        for (tenth, &before) in before.iter().enumerate() {
            assert!((10 * tenth..=10 * tenth + 10).contains(&before), "{tenth}: {before}");
        }
    }
}
