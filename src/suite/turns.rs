//! A recorded group: its cases take turns, so that the samples of each are spread over the whole group.
//!
//! What a shared host does to host-bound cases lasts for seconds, so ten samples in ten milliseconds are
//! hardly more than one. Measured on the H200 (16 processes, 15 cases of `scratch_loop`, the probe taken
//! out): launch values of ten samples of one moment spread by 4.4 to 4.7 % between processes, of ten
//! moments by 2.5 to 3.9 %, of 120 samples in twelve moments by 2.1 to 3.3 %.
//!
//! Between turns a case holds nothing, so what is measured next never meets another case's memory. Each
//! turn therefore prepares the case, runs one loop that nobody measures, and checks and closes it after its
//! samples.

use super::recorder::Disturbance;
use super::sampler::{Sampled, Sampler};
use super::{Outcome, Suite, SuiteError, all_released};
use crate::baseline::criterion_home;
use crate::case::BenchmarkId;
use crate::cuda::Device;
use crate::host_probe::Reading;
use crate::measure::{self, Case, Failure, Observation, Preparation, Workload};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::panic;
use std::thread::{self, Scope};
use std::time::{Duration, Instant, SystemTime};

/// How the samples of a case are divided into turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Division {
    /// Turns of a case at most; one takes all its samples at one moment.
    pub(super) turns_max: u32,
    /// Samples of a case.
    pub(super) samples: u64,
    /// Criterion's warm-up, which the first turn takes too.
    pub(super) warm_up: Duration,
}

/// What a turn may cost beside its samples however short they are.
const TURN_FREE: Duration = Duration::from_millis(3);

impl Division {
    /// Samples of a turn where the user's limit alone decides.
    fn least(&self) -> u64 {
        self.samples.div_ceil(u64::from(self.turns_max.max(1))).max(1)
    }

    /// Samples of a turn, from what a turn costs beside them and what each takes: as few as allowed while the
    /// turn costs no more than its samples take.
    fn samples_per_turn(&self, beside: Duration, sample: Duration) -> u64 {
        let worth = if beside <= TURN_FREE {
            1
        } else {
            let sample_ns = sample.as_nanos().max(1);
            u64::try_from(beside.as_nanos().div_ceil(sample_ns)).unwrap_or(u64::MAX)
        };
        worth.clamp(self.least(), self.samples.max(self.least()))
    }
}

/// What a sample took in all.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// With the probes.
    whole: Duration,
    /// As Criterion sees it, what is not timed included.
    run: Duration,
}

/// A case between its first turn and its last.
struct Entry<'scope, 'case> {
    index: usize,
    id: &'case BenchmarkId,
    case: &'case dyn Case,
    sampler: Sampler<'scope>,
    started: SystemTime,
    /// Criterion waits for another sample.
    waits: bool,
    samples_left: u64,
    /// Samples of each of its turns.
    samples_per_turn: u64,
    /// Beside each of Criterion's calls, the warm-up's included.
    readings: Vec<Reading>,
    disturbance: Disturbance,
    observation: Observation,
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
        thread::scope(|scope| {
            let mut outcomes: Vec<Option<Outcome>> = vec![None; cases.len()];
            let mut entries = Vec::new();
            for index in order {
                let Some(mut entry) = self.enter(scope, group, index, cases[index])? else {
                    continue;
                };
                self.first_turn(&mut entry)?;
                if entry.waits {
                    entries.push(Some(entry));
                } else {
                    outcomes[index] = Some(self.leave(entry)?);
                }
            }
            let turns: Vec<u64> = entries
                .iter()
                .flatten()
                .map(|entry| entry.samples_left.div_ceil(entry.samples_per_turn).max(1))
                .collect();
            for place in interleaved(&turns, &mut random) {
                let Some(mut entry) = entries[place].take() else {
                    continue;
                };
                self.later_turn(&mut entry)?;
                if entry.waits {
                    entries[place] = Some(entry);
                } else {
                    let index = entry.index;
                    outcomes[index] = Some(self.leave(entry)?);
                }
            }
            // Whom Criterion asked for more samples than the request said.
            for mut entry in entries.into_iter().flatten() {
                while entry.waits {
                    self.later_turn(&mut entry)?;
                }
                let index = entry.index;
                outcomes[index] = Some(self.leave(entry)?);
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
        let started = SystemTime::now();
        let sampler = Sampler::start(
            scope,
            Sampled {
                group: group.to_owned(),
                id: id.clone(),
                size: case.size(),
                home: self.home.clone(),
                on_host: self.device.as_ref().is_none_or(Device::is_host),
            },
        );
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
            return if failure.is_skip() {
                self.skip(id, &failure, started).map(|()| None)
            } else {
                Err(self.fail(id, failure, started))
            };
        }
        Ok(Some(Entry {
            index,
            id,
            case,
            sampler,
            started,
            waits: true,
            samples_left: 0,
            samples_per_turn: 1,
            readings: Vec::new(),
            disturbance: Disturbance::default(),
            observation: Observation::default(),
        }))
    }

    /// Has a case show that it can be measured, apart from its turns.
    fn prove(&mut self, case: &dyn Case, preparation: Preparation) -> Result<(), Failure> {
        crate::cuda::forget_failures();
        let device = self.opened_device();
        let workload = measure::prepare_as(case, &device, preparation)?;
        self.finish(case, workload).map(drop)
    }

    /// Criterion's warm-up, and as few samples as may be: only then is it known what a turn costs.
    fn first_turn(&mut self, entry: &mut Entry<'_, '_>) -> Result<(), SuiteError> {
        let division = self.recorder().division(entry.id);
        entry.samples_left = division.samples;
        entry.samples_per_turn = division.least();
        let (mut sample, mut sampled) = (Cost::default(), Duration::ZERO);
        let turn = self.turn(entry, |suite, entry, workload| {
            let start = Instant::now();
            let mut warm = Duration::ZERO;
            while entry.waits && warm <= division.warm_up {
                warm += suite.sample(entry, workload)?.run;
            }
            sample = suite.samples(entry, workload)?;
            sampled = start.elapsed();
            Ok(())
        })?;
        // Later turns begin with a loop that nobody measures.
        let beside = turn.saturating_sub(sampled) + sample.run;
        entry.samples_per_turn = division.samples_per_turn(beside, sample.whole);
        Ok(())
    }

    fn later_turn(&mut self, entry: &mut Entry<'_, '_>) -> Result<(), SuiteError> {
        let turn = self.turn(entry, |suite, entry, workload| {
            let loop_iterations = workload.iterations_per_loop();
            measure::run(workload, loop_iterations)?;
            suite.samples(entry, workload).map(drop)
        });
        turn.map(drop)
    }

    /// Takes the samples of one turn, and returns what the last cost.
    fn samples(&mut self, entry: &mut Entry<'_, '_>, workload: &mut dyn Workload) -> Result<Cost, Failure> {
        let mut cost = Cost::default();
        for _ in 0..entry.samples_per_turn {
            if !entry.waits {
                break;
            }
            cost = self.sample(entry, workload)?;
            entry.samples_left = entry.samples_left.saturating_sub(1);
        }
        Ok(cost)
    }

    /// Prepares a case, has its samples taken, and checks and closes it. Returns how long that took.
    fn turn(
        &mut self,
        entry: &mut Entry<'_, '_>,
        samples: impl FnOnce(&mut Suite, &mut Entry<'_, '_>, &mut dyn Workload) -> Result<(), Failure>,
    ) -> Result<Duration, SuiteError> {
        let start = Instant::now();
        crate::cuda::forget_failures();
        let device = self.opened_device();
        let taken = match measure::prepare_as(entry.case, &device, Preparation::Proven) {
            Err(failure) => Err(failure),
            Ok(mut workload) => match samples(self, entry, workload.as_mut()) {
                Ok(()) => self.finish(entry.case, workload),
                Err(failure) => {
                    // The first failure is the one to report.
                    let _ = measure::abandon(workload, &device);
                    Err(failure)
                }
            },
        };
        entry.observation = taken.map_err(|failure| self.fail(entry.id, failure, entry.started))?;
        let took = start.elapsed();
        let disturbance = self.recorder().disturbance();
        entry.disturbance.extend(disturbance);
        Ok(took)
    }

    /// Takes one sample.
    fn sample(&mut self, entry: &mut Entry<'_, '_>, workload: &mut dyn Workload) -> Result<Cost, Failure> {
        let start = Instant::now();
        // Outside Criterion's clock, by which it decides on the iterations of a sample.
        let before = self.recorder().read_probe();
        let mut run = Duration::ZERO;
        entry.waits = entry.sampler.take(|iterations| {
            let start = Instant::now();
            let elapsed = measure::run(workload, iterations)?;
            run = start.elapsed();
            Ok::<_, Failure>(elapsed)
        })?;
        let after = self.recorder().read_probe();
        let reading = before.zip(after).map(|(before, after)| before.mean(after));
        entry.readings.extend(reading);
        Ok(Cost {
            whole: start.elapsed(),
            run,
        })
    }

    /// Keeps a case whose samples are all taken.
    fn leave(&mut self, entry: Entry<'_, '_>) -> Result<Outcome, SuiteError> {
        end(entry.sampler);
        let (id, observation) = (entry.id, entry.observation);
        self.record.add(id, observation);
        let saved = criterion_home::last_sample(&self.home, id);
        let kept = self
            .recorder()
            .add(id, entry.case, saved, &entry.readings, entry.disturbance, observation);
        let kept = kept.map_err(Failure::from).and_then(|()| all_released());
        kept.map_err(|failure| self.fail(id, failure, entry.started))?;
        Ok(Outcome {
            id: id.clone(),
            median_ns: criterion_home::median_ns_since(&self.home, id, entry.started),
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

    const TEN: Division = Division {
        turns_max: 10,
        samples: 10,
        warm_up: Duration::from_millis(2),
    };

    #[test]
    fn a_turn_costs_no_more_than_its_samples_or_next_to_nothing() {
        let ms = Duration::from_millis;
        // Up to 3 ms are free.
        assert_eq!(TEN.samples_per_turn(ms(3), ms(1)), 1);
        // 15 ms are worth two samples of 13 ms, 140 ms all ten of 5 ms.
        assert_eq!(TEN.samples_per_turn(ms(15), ms(13)), 2);
        assert_eq!(TEN.samples_per_turn(ms(140), ms(5)), 10);
        assert_eq!(TEN.samples_per_turn(ms(140), Duration::ZERO), 10);
    }

    #[test]
    fn the_user_limits_the_turns() {
        let division = |turns_max| Division { turns_max, ..TEN };
        let free = |turns_max| division(turns_max).samples_per_turn(Duration::ZERO, Duration::ZERO);
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
