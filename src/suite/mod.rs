//! A bench executable: opens the device, hands cases to Criterion, and reports what they found.

mod arguments;
mod error;
mod home;
mod output;
mod recorder;
mod sampler;
mod settings;
mod taken;
mod turns;

pub use error::SuiteError;

use crate::api_summary;
use crate::baseline::criterion_home::{self, Before};
use crate::case::BenchmarkId;
use crate::counted::counted;
use crate::cuda::{Device, Kernels};
use crate::measure::{self, Case, Failure, Observation, Workload};
use crate::report::api_summary_table;
use crate::run_record::RunRecord;
use arguments::{Arguments, configured};
use criterion::{Criterion, SamplingMode, Throughput};
use home::Home;
use output::{nobody_listens, quiet_panics, say};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use recorder::Recorder;
use settings::{api_summary_wanted, defaults, order_seed, wants_no_color};
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::process::ExitCode;

/// The exit code of inputs that cannot be read and of a device that failed.
const EXIT_FAILED: u8 = 3;

/// What a case brought.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The case's id.
    pub id: BenchmarkId,
    /// Median time of an iteration in nanoseconds, as Criterion estimates it; `None` where this run
    /// made no estimate (as with `--test`).
    pub median_ns: Option<f64>,
    /// What was seen beside the time.
    pub observation: Observation,
}

/// A running bench executable.
pub struct Suite {
    device: Option<Device>,
    arguments: Arguments,
    criterion: Criterion,
    home: PathBuf,
    /// Held to the run's end.
    _locked: Home,
    order_seed: Option<u64>,
    api_summary: bool,
    record: RunRecord,
    recorder: Option<Recorder>,
    /// Keeps them loaded from case to case, once one was prepared.
    kernels: Option<Kernels>,
}

/// Runs a bench executable: first line, cases, Criterion's summary, last line, exit code.
#[must_use]
pub fn main(name: &'static str, cases: impl FnMut(&mut Suite) -> Result<(), SuiteError>) -> ExitCode {
    quiet_panics();
    let finished = panic::catch_unwind(AssertUnwindSafe(|| run(name, cases)));
    match finished {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            // Of the one nobody would hear, and the other was said.
            if !matches!(error, SuiteError::NobodyListens | SuiteError::Refused) {
                say(&error);
            }
            ExitCode::from(error.exit_code())
        }
        Err(payload) if nobody_listens(payload.as_ref()) => ExitCode::SUCCESS,
        // The panic hook has printed its line.
        Err(_) => ExitCode::from(EXIT_FAILED),
    }
}

/// Runs a bench executable up to its exit code, for those who print what went wrong themselves.
///
/// # Errors
///
/// What ended the run early. A case that was skipped did not.
pub fn run(name: &'static str, cases: impl FnMut(&mut Suite) -> Result<(), SuiteError>) -> Result<(), SuiteError> {
    Suite::run(name, cases)
}

impl Suite {
    fn run(name: &'static str, mut cases: impl FnMut(&mut Suite) -> Result<(), SuiteError>) -> Result<(), SuiteError> {
        // What the user wrote comes first: no driver is needed to say what is wrong with it.
        let arguments = Arguments::of_process()?;
        let request = recorder::request()?;
        let order_seed = order_seed()?;
        let api_summary = api_summary_wanted()?;
        // A list of ids needs no device.
        let device = if arguments.lists() {
            None
        } else {
            Some(Device::from_environment()?)
        };
        if let Some(device) = &device {
            say(device);
        }
        let home = Home::of(device.as_ref(), arguments.measures())?;
        let on_host = device.as_ref().is_none_or(Device::is_host);
        let mut criterion = configured(defaults(on_host).output_directory(home.folder()))?;
        if arguments.leaves_color_to_environment() && wants_no_color() {
            criterion = criterion.with_output_color(false);
        }
        let recorder = match (request, &device) {
            (Some(request), Some(device)) => Some(Recorder::new(name, request, device)?),
            _ => None,
        };
        let record = RunRecord::new(name, device.as_ref());
        let mut suite = Suite {
            device,
            arguments,
            criterion,
            home: home.folder().to_owned(),
            _locked: home,
            order_seed,
            api_summary,
            record,
            recorder,
            kernels: None,
        };
        if let Some(recorder) = &suite.recorder {
            suite.order_seed = Some(recorder.order_seed());
            // What another run left there must not be taken for this one's.
            suite.home = suite.home.join("recorded");
            let _ = std::fs::remove_dir_all(&suite.home);
        }
        let result = unless_nobody_listens(|| cases(&mut suite));
        let summarised = unless_nobody_listens(|| {
            suite.criterion.final_summary();
            Ok(())
        });
        let result = result.and(summarised);
        suite.close(result)
    }

    fn close(mut self, result: Result<(), SuiteError>) -> Result<(), SuiteError> {
        let unloaded = self.kernels.take().map_or(Ok(()), Kernels::close);
        let result = result.and_then(|()| unloaded.map_err(SuiteError::Unload));
        let Some(device) = self.device.take() else {
            return result;
        };
        let written = self.write_record(&result);
        let released = device.close().map_err(SuiteError::Release);
        result.and(written).and(released)
    }

    /// Writes what was seen beside the times, and says where the report is.
    fn write_record(&self, result: &Result<(), SuiteError>) -> Result<(), SuiteError> {
        if let Some(recorder) = &self.recorder {
            // A run that failed leaves no record, so that nothing of it is taken for whole.
            if result.is_err() {
                return Ok(());
            }
            return recorder.write().map_err(|error| SuiteError::Record {
                path: recorder.output().to_owned(),
                error,
            });
        }
        if self.record.is_empty() {
            return Ok(());
        }
        let path = criterion_home::runs_folder(&self.home).join(format!("{}.json", self.record.bench));
        let written = self
            .record
            .write(&path)
            .map_err(|error| SuiteError::Record { path, error });
        let report = self.home.join("report/index.html");
        // One that an earlier run left is not this one's.
        if result.is_ok() && self.arguments.makes_report() && report.is_file() {
            say(format_args!("report: {}", report.display()));
        }
        written
    }

    /// Measures the cases of one group and returns what each brought, in the order given.
    ///
    /// # Errors
    ///
    /// The first case that fails ends the run; what was measured before it stays.
    pub fn group<C: Case>(&mut self, name: &str, cases: &[C]) -> Result<Vec<Outcome>, SuiteError> {
        let ids: Vec<BenchmarkId> = cases
            .iter()
            .map(Case::id)
            .collect::<Result<_, _>>()
            .map_err(|error| SuiteError::Id(error.to_string()))?;
        for (index, id) in ids.iter().enumerate() {
            if ids[..index].contains(id) {
                return Err(SuiteError::Id(format!("two cases are called {id}")));
            }
        }
        let mut order: Vec<usize> = (0..cases.len()).collect();
        if let Some(seed) = self.order_seed {
            order.shuffle(&mut StdRng::seed_from_u64(seed));
        }
        if self.recorder.is_none() && self.device.is_some() {
            self.check_baselines(&ids)?;
        }
        let outcomes = if self.recorder.is_some() {
            let cases: Vec<_> = ids.iter().zip(cases.iter().map(|case| case as &dyn Case)).collect();
            self.group_in_turns(name, &cases, order)?
        } else {
            let mut outcomes = vec![None; cases.len()];
            for index in order {
                outcomes[index] = self.case(name, &ids[index], &cases[index])?;
            }
            outcomes
        };
        Ok(outcomes.into_iter().flatten().collect())
    }

    /// Looks at the baselines that are to be compared with, before anything is measured for nothing.
    fn check_baselines(&self, ids: &[BenchmarkId]) -> Result<(), SuiteError> {
        for (name, strict) in self.arguments.needed_baselines() {
            for id in ids.iter().filter(|id| self.arguments.selects(id)) {
                home::check_saved(&self.home, id, name, strict)?;
            }
        }
        Ok(())
    }

    fn case(&mut self, group: &str, id: &BenchmarkId, case: &dyn Case) -> Result<Option<Outcome>, SuiteError> {
        let before = Before::of(&self.home, id);
        crate::cuda::forget_failures();
        let device = self.device.clone();
        let device = device.as_ref();
        let mut prepared: Option<Box<dyn Workload>> = None;
        let mut criterion_group = self.criterion.benchmark_group(group);
        criterion_group
            .sampling_mode(SamplingMode::Flat)
            .throughput(Throughput::Bytes(case.size().as_bytes() as u64));
        let measured = panic::catch_unwind(AssertUnwindSafe(|| {
            criterion_group.bench_function(criterion::BenchmarkId::new(id.function(), id.value()), |bencher| {
                let workload = prepared.get_or_insert_with(|| {
                    let device = device.expect("only --list goes without a device, and it runs no closure");
                    measure::prepare(case, device).unwrap_or_else(|failure| interrupt(Interrupt::SetUp(failure)))
                });
                bencher.iter_custom(|iterations| {
                    measure::run(workload.as_mut(), iterations)
                        .unwrap_or_else(|failure| interrupt(Interrupt::Run(failure)))
                });
            });
        }));
        // The end of a group is printed, too, and must not hide how its case ended.
        let ended = panic::catch_unwind(AssertUnwindSafe(|| drop(criterion_group)));
        if let Err(payload) = measured.and(ended) {
            let failure = match payload.downcast::<Interrupt>() {
                Ok(interrupt) => *interrupt,
                Err(payload) => {
                    // Nothing has proven it.
                    before.discard_since(&self.home, id);
                    panic::resume_unwind(payload)
                }
            };
            if let (Some(workload), Some(device)) = (prepared, device) {
                // The first failure is the one to report.
                let _ = measure::abandon(workload, device);
            }
            return self.interrupted(id, failure, &before).map(|()| None);
        }
        // A case that the filter leaves out was never prepared.
        let (Some(mut workload), Some(device)) = (prepared, device) else {
            return Ok(None);
        };
        let median_ns = before.median_ns_since(&self.home, id);
        if let (Some(_), Ok(saved)) = (median_ns, criterion_home::last_sample(&self.home, id)) {
            workload.keep_samples(saved.iters.len());
        }
        let observation = self
            .finish(case, workload)
            .and_then(|observation| self.print_api_summary(id, case, device).map(|()| observation))
            .and_then(|observation| all_released().map(|()| observation))
            .map_err(|failure| self.fail(id, failure, &before))?;
        self.record.add(id, observation);
        Ok(Some(Outcome {
            id: id.clone(),
            median_ns,
            observation,
        }))
    }

    /// Checks and closes a case that was measured.
    fn finish(&mut self, case: &dyn Case, workload: Box<dyn Workload>) -> Result<Observation, Failure> {
        let workload = self.keep_kernels(case, workload)?;
        let observation = measure::finish(workload, &self.opened_device())?;
        all_released().map(|()| observation)
    }

    /// Closes a case of which more samples are to be taken later.
    fn close_case(&mut self, case: &dyn Case, workload: Box<dyn Workload>) -> Result<(), Failure> {
        self.keep_kernels(case, workload)?.close()?;
        all_released()
    }

    /// Keeps the kernels loaded from the first case that has them on.
    fn keep_kernels(&mut self, case: &dyn Case, workload: Box<dyn Workload>) -> Result<Box<dyn Workload>, Failure> {
        if self.kernels.is_none() && case.kernel_work().is_some() {
            // While the workload still has them.
            match Kernels::shared() {
                Ok(kernels) => self.kernels = Some(kernels),
                Err(error) => {
                    // The first failure is the one to report.
                    let _ = measure::abandon(workload, &self.opened_device());
                    return Err(error.into());
                }
            }
        }
        Ok(workload)
    }

    /// The device, which nothing but a list of ids goes without, and that runs no case.
    fn opened_device(&self) -> Device {
        self.device.clone().expect("cases run on a device")
    }

    /// What a recorded run keeps.
    fn recorder(&mut self) -> &mut Recorder {
        self.recorder.as_mut().expect("only a recorded run's cases take turns")
    }

    /// Prints the driver calls of one loop of the case, where that was asked for.
    fn print_api_summary(&self, id: &BenchmarkId, case: &dyn Case, device: &Device) -> Result<(), Failure> {
        if !self.api_summary {
            return Ok(());
        }
        let summaries = api_summary::of(case, device)?;
        let iterations = case.iterations_per_loop();
        println!(
            "{id}: driver calls of one loop of {}, in a pass of its own\n{}",
            counted(iterations, "iteration"),
            api_summary_table(&summaries)
        );
        Ok(())
    }

    /// Records a skip. What the case could not give back would be in the way of the next, so that is
    /// none.
    fn skip(&mut self, id: &BenchmarkId, reason: &Failure, before: &Before) -> Result<(), SuiteError> {
        all_released().map_err(|failure| self.fail(id, failure, before))?;
        say(format_args!("skipped {id}: {reason}"));
        self.record.skip(id, reason.to_string());
        if let Some(recorder) = &mut self.recorder {
            recorder.skip(id, reason.to_string());
        }
        Ok(())
    }

    /// Skips a case that the device cannot do; any other failure is the run's end.
    fn interrupted(&mut self, id: &BenchmarkId, interrupt: Interrupt, before: &Before) -> Result<(), SuiteError> {
        match interrupt {
            Interrupt::SetUp(failure) if failure.is_skip() => self.skip(id, &failure, before),
            Interrupt::SetUp(failure) | Interrupt::Run(failure) => Err(self.fail(id, failure, before)),
        }
    }

    /// Takes back what Criterion saved of a case that failed.
    fn fail(&self, id: &BenchmarkId, failure: Failure, before: &Before) -> SuiteError {
        before.discard_since(&self.home, id);
        SuiteError::Case {
            id: id.clone(),
            failure,
        }
    }
}

/// Whether every call of the case that should have given something back did, those of destructors
/// included.
fn all_released() -> Result<(), Failure> {
    crate::cuda::failed_release().map_or(Ok(()), |error| Err(error.into()))
}

/// Does what prints. Where nobody reads it, that is an early end like others: what was measured until then is kept.
fn unless_nobody_listens(work: impl FnOnce() -> Result<(), SuiteError>) -> Result<(), SuiteError> {
    match panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result,
        Err(payload) if nobody_listens(payload.as_ref()) => Err(SuiteError::NobodyListens),
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// How a case leaves Criterion's loop without a number.
enum Interrupt {
    SetUp(Failure),
    Run(Failure),
}

fn interrupt(interrupt: Interrupt) -> ! {
    // Runs no panic hook: this is no panic, only the one way out of Criterion's loop.
    panic::resume_unwind(Box::new(interrupt))
}
