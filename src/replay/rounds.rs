//! Replays of one trace under every combination of strategy and threshold, in turn.

use super::engine::{Allocator, Engine, NoWork};
use super::program::{CompileError, CompileOptions, Program, Reuse};
use super::session::{Combination, Measured, Replayed, SessionError, Settings, Skipped, SlowestCall};
use super::threshold::ReplayThreshold;
use super::touch::{Touch, Touched};
use crate::case::Size;
use crate::counted::counted;
use crate::cuda::{self, Device};
use crate::driver::log::{self, Phase};
use crate::measure::{self, Failure};
use crate::strategy::{Plan, Setup};
use crate::trace::Trace;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use std::time::Duration;

/// How long one replay of a combination may take that nobody asked for by name.
pub const REPLAY_TIME_MAX: Duration = Duration::from_secs(2);

/// The trace's two programs, and where blocks go that are planned ahead.
struct Script {
    for_driver: Program,
    for_host: Program,
    plans: Vec<Plan>,
}

impl Script {
    fn compile(trace: &Trace, settings: &Settings) -> Result<Script, CompileError> {
        let compile = |reuse| {
            let options = CompileOptions {
                scale: settings.scale,
                synchronise: settings.synchronise,
                reuse,
            };
            Program::compile(trace, &options)
        };
        let for_host = compile(Reuse::Host)?;
        Ok(Script {
            for_driver: compile(Reuse::Driver)?,
            plans: for_host.plans(),
            for_host,
        })
    }

    fn program(&self, reuse: Reuse) -> &Program {
        match reuse {
            Reuse::Driver => &self.for_driver,
            Reuse::Host => &self.for_host,
        }
    }

    fn peak_bytes(&self) -> u64 {
        self.for_driver.peak_live_bytes()
    }
}

/// Replays a trace of one device under all combinations, round after round in shuffled order, so that a
/// drift of the machine meets all alike. `progress` is told of each step.
///
/// # Errors
///
/// See [`SessionError`]; then there are no numbers.
pub fn replay(
    device: &Device,
    trace: &Trace,
    settings: &Settings,
    progress: &mut dyn FnMut(&str),
) -> Result<Replayed, SessionError> {
    let script = Script::compile(trace, settings)?;
    require_room(device, script.peak_bytes())?;
    let engine = Engine::new(device, &script.for_driver)?;
    let mut session = Session {
        device,
        script: &script,
        settings,
        engine,
        entries: Vec::new(),
    };
    session.entries = session.combinations()?;
    for round in 0..settings.repeats.max(1) {
        session.round(round)?;
        let of = settings.repeats.max(1);
        progress(&format!(
            "round {} of {of}: {}",
            round + 1,
            counted(session.entries.len(), "combination")
        ));
    }
    let Session { engine, entries, .. } = session;
    engine.close()?;
    let (mut measured, mut skipped) = (Vec::new(), Vec::new());
    for entry in entries {
        match entry.skipped {
            Some(reason) => skipped.push(Skipped {
                combination: entry.measured.combination,
                reason,
            }),
            None => measured.push(entry.measured),
        }
    }
    Ok(Replayed {
        program: script.for_driver,
        measured,
        skipped,
    })
}

/// Refuses a trace whose live blocks alone do not fit.
fn require_room(device: &Device, peak_bytes: u64) -> Result<(), SessionError> {
    let memory = device.memory_info()?;
    let needed = usize::try_from(peak_bytes).unwrap_or(usize::MAX);
    match device.require_free_bytes(needed) {
        Err(Failure::TooLarge { free_bytes, .. }) => {
            let share = free_bytes as f64 * 0.9 / peak_bytes as f64;
            // Two significant digits are as much as anyone wants to type.
            let digits = 10_f64.powf(1.0 - share.log10().floor());
            Err(SessionError::LargerThanDevice {
                peak_bytes,
                free_bytes: free_bytes as u64,
                total_bytes: memory.total_bytes as u64,
                scale: (share * digits).floor() / digits,
            })
        }
        other => Ok(other?),
    }
}

/// A combination and what is known of it.
struct Entry {
    measured: Measured,
    skipped: Option<String>,
}

struct Session<'a> {
    device: &'a Device,
    script: &'a Script,
    settings: &'a Settings,
    engine: Engine,
    entries: Vec<Entry>,
}

impl Session<'_> {
    /// The combinations that are asked for; a strategy that cannot be built is one that is skipped.
    fn combinations(&self) -> Result<Vec<Entry>, SessionError> {
        let present = self.settings.present;
        let mut entries: Vec<Entry> = Vec::new();
        let mut strategies = self.settings.strategies.clone();
        if !strategies.iter().any(|kind| kind.name == present.strategy.name) {
            strategies.push(present.strategy);
        }
        for strategy in strategies {
            let plain = Combination {
                strategy,
                threshold: None,
            };
            let has_pool = match self.build(&plain) {
                Ok(allocator) => {
                    let has_pool = allocator.pool().is_some();
                    allocator.close()?;
                    has_pool
                }
                Err(error) if error.is_skip() => {
                    entries.push(Entry::new(plain, Some(error.to_string())));
                    continue;
                }
                Err(error) => return Err(failed(&plain, error.into())),
            };
            if has_pool {
                let asked = present.strategy.name == strategy.name;
                let thresholds = self.thresholds(present.threshold.filter(|_| asked));
                entries.extend(thresholds.into_iter().map(|threshold| {
                    let threshold = Some(threshold);
                    Entry::new(Combination { strategy, threshold }, None)
                }));
            } else {
                entries.push(Entry::new(plain, None));
            }
        }
        Ok(entries)
    }

    /// The thresholds by size; of those that come to the same bytes, the first.
    fn thresholds(&self, also: Option<ReplayThreshold>) -> Vec<ReplayThreshold> {
        let peak_bytes = self.script.peak_bytes();
        // The present one keeps its name, so it comes first.
        let mut thresholds: Vec<_> = also
            .into_iter()
            .chain(self.settings.thresholds.iter().copied())
            .collect();
        thresholds.sort_by_key(|threshold| threshold.bytes(peak_bytes));
        thresholds.dedup_by_key(|threshold| threshold.bytes(peak_bytes));
        thresholds
    }

    fn build(&self, combination: &Combination) -> cuda::Result<Allocator> {
        let peak_bytes = self.script.peak_bytes();
        let threshold = combination.threshold.map_or(0, |threshold| threshold.bytes(peak_bytes));
        let setup = Setup {
            device: self.device,
            size: Size::bytes(usize::try_from(peak_bytes).unwrap_or(usize::MAX)),
            plan: None,
            release_threshold_bytes: threshold,
        };
        Allocator::build(combination.strategy, &setup, &self.script.plans)
    }

    fn round(&mut self, round: u32) -> Result<(), SessionError> {
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.shuffle(&mut StdRng::seed_from_u64(round.into()));
        for index in order {
            if self.entries[index].skipped.is_some() {
                continue;
            }
            let combination = self.entries[index].measured.combination;
            let visited = self.visit(index, round == 0);
            match visited {
                // Room for the touched blocks' sums, or for a strategy's own blocks.
                Err(failure) if failure.is_skip() => self.entries[index].skipped = Some(failure.to_string()),
                other => other.map_err(|failure| failed(&combination, failure))?,
            }
        }
        Ok(())
    }

    /// One turn of a combination, from an empty pool to an empty pool.
    fn visit(&mut self, index: usize, is_first: bool) -> Result<(), Failure> {
        cuda::forget_failures();
        let combination = self.entries[index].measured.combination;
        self.device.synchronize()?;
        let free_before = self.device.memory_info()?.free_bytes;
        let mut allocator = self.build(&combination)?;
        self.measure(index, is_first, free_before, &mut allocator)?;
        Ok(allocator.close()?)
    }

    fn measure(
        &mut self,
        index: usize,
        is_first: bool,
        free_before: usize,
        allocator: &mut Allocator,
    ) -> Result<(), Failure> {
        let program = self.script.program(allocator.reuse());
        let (engine, entry) = (&mut self.engine, &mut self.entries[index]);
        let measured = &mut entry.measured;
        let strategy = measured.combination.strategy.name;
        let used_before = allocator.pool().map(cuda::MemoryPool::used_bytes_current).transpose()?;
        if let Some(pool) = allocator.pool() {
            pool.reset_high_watermarks()?;
        }
        let (first, missed_at_first) = timed(engine, program, allocator)?;
        if is_first && first > REPLAY_TIME_MAX && !self.settings.named {
            entry.skipped = Some(format!(
                "one replay takes {:.1} s, more than {} s: ask for it with --strategy {strategy}",
                first.as_secs_f64(),
                REPLAY_TIME_MAX.as_secs()
            ));
            return Ok(());
        }
        let (steady, missed) = timed(engine, program, allocator)?;
        measured.first_times_ns.push(first.as_nanos() as f64);
        measured.times_ns.push(steady.as_nanos() as f64);
        measured.out_of_memory = measured.out_of_memory.max(missed_at_first).max(missed);
        if let (Some(pool), Some(before)) = (allocator.pool(), used_before) {
            let after = pool.used_bytes_current()?;
            if after != before {
                return Err(Failure::UsedBytes { before, after });
            }
            measured.keep_most(pool.reserved_bytes_high()?, pool.reserved_bytes_current()?);
        }
        if is_first {
            log_calls(engine, program, allocator, measured)?;
            // What is managed takes no memory before it is touched.
            if allocator.pool().is_none() && strategy != "managed" {
                weigh(self.device, free_before, engine, program, allocator, measured)?;
            }
            if self.settings.touch {
                measured.touched = Some(touch(engine, program, allocator)?);
            }
        }
        Ok(())
    }
}

impl Entry {
    fn new(combination: Combination, skipped: Option<String>) -> Entry {
        Entry {
            measured: Measured {
                combination,
                times_ns: Vec::new(),
                first_times_ns: Vec::new(),
                slowest_call: None,
                driver_calls: 0,
                peak_reserved_bytes: None,
                held_bytes: None,
                out_of_memory: 0,
                touched: None,
            },
            skipped,
        }
    }
}

impl Measured {
    fn keep_most(&mut self, peak_reserved_bytes: u64, held_bytes: u64) {
        self.peak_reserved_bytes = self.peak_reserved_bytes.max(Some(peak_reserved_bytes));
        self.held_bytes = self.held_bytes.max(Some(held_bytes));
    }
}

fn failed(combination: &Combination, failure: Failure) -> SessionError {
    SessionError::Combination {
        combination: combination.to_string(),
        failure,
    }
}

/// The time of one replay with its last synchronise, and how many allocations found no memory. What the
/// trace leaves live is freed when the clock stands.
fn timed(engine: &mut Engine, program: &Program, allocator: &mut Allocator) -> Result<(Duration, u64), Failure> {
    let mut out_of_memory = 0;
    let elapsed = measure::timed(|| {
        out_of_memory = engine.run(program.operations(), allocator, &mut NoWork)?;
        Ok::<(), Failure>(engine.synchronize()?)
    })?;
    free_leaked(engine, program, allocator)?;
    Ok((elapsed, out_of_memory))
}

fn free_leaked(engine: &mut Engine, program: &Program, allocator: &mut Allocator) -> Result<(), Failure> {
    engine.run(program.leaked(), allocator, &mut NoWork)?;
    Ok(engine.synchronize()?)
}

/// A replay under the call log: how many driver calls there are, and the slowest.
fn log_calls(
    engine: &mut Engine,
    program: &Program,
    allocator: &mut Allocator,
    measured: &mut Measured,
) -> Result<(), Failure> {
    log::start();
    let logged = timed(engine, program, allocator);
    let summaries = log::stop();
    logged?;
    let calls = || summaries.iter().filter(|summary| summary.phase == Phase::Loop);
    measured.driver_calls = calls().map(|summary| summary.calls as u64).sum();
    measured.slowest_call = calls().max_by_key(|summary| summary.max).map(|summary| SlowestCall {
        function: summary.function.name(),
        time_ns: u64::try_from(summary.max.as_nanos()).unwrap_or(u64::MAX),
    });
    Ok(())
}

/// A replay that stops at its peak to see what the device has left; for strategies without a pool, which
/// would say so itself.
fn weigh(
    device: &Device,
    free_before: usize,
    engine: &mut Engine,
    program: &Program,
    allocator: &mut Allocator,
    measured: &mut Measured,
) -> Result<(), Failure> {
    let taken = || Ok::<u64, Failure>(free_before.saturating_sub(device.memory_info()?.free_bytes) as u64);
    let (until_peak, rest) = program.operations().split_at(program.peak_operation() + 1);
    engine.run(until_peak, allocator, &mut NoWork)?;
    let at_peak = taken()?;
    engine.run(rest, allocator, &mut NoWork)?;
    free_leaked(engine, program, allocator)?;
    measured.keep_most(at_peak, taken()?);
    Ok(())
}

/// A replay whose blocks are written and verified.
fn touch(engine: &mut Engine, program: &Program, allocator: &mut Allocator) -> Result<Touched, Failure> {
    let mut touch = Touch::new(engine.streams(), usize::MAX)?;
    engine.run(program.operations(), allocator, &mut touch)?;
    engine.run(program.leaked(), allocator, &mut touch)?;
    let touched = touch.verify(engine.streams())?;
    engine.synchronize()?;
    touch.close()?;
    Ok(touched)
}
