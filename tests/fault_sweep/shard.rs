//! A part of the sweep, in a process of its own: its runs, one after the other, under a watchdog.

use crate::cases::{self, Entry};
use crate::plan::{self, Extent, SetUpCalls};
use poolbench::cuda::Device;
use poolbench::driver::fault::{self, Fault};
use poolbench::driver::host::{self, Ledger};
use poolbench::suite::{self, Suite, SuiteError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Stands before the name of each run on standard error, so that what follows can be told to it.
pub const MARK: &str = "@ ";
/// A run takes milliseconds; one that takes this long hangs.
const RUN_TIME_MAX: Duration = Duration::from_secs(60);
const SUITE: &str = "fault_sweep";

/// What a part of the sweep came to.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Runs with a fault.
    pub runs: usize,
    /// Runs that ended with a failure, as they should.
    pub failed: usize,
    /// Runs that skipped the case and measured the next, as they should.
    pub skipped: usize,
    /// Driver functions that failed.
    pub functions: BTreeSet<String>,
    /// Cases.
    pub cases: usize,
    /// What went wrong, a line each.
    pub wrong: Vec<String>,
}

/// Runs every `n`th case from `index` on. The folder is where the suite writes.
pub fn run(index: usize, n: usize, extent: Extent, home: &Path) -> Tally {
    let watched = watchdog();
    let record = home.join("runs").join(format!("{SUITE}.json"));
    let sweep = Sweep {
        neighbours: cases::neighbours(),
        record,
        watched,
    };
    let mut tally = Tally::default();
    for entry in cases::all().into_iter().skip(index).step_by(n) {
        sweep.case(&entry, extent, &mut tally);
    }
    tally
}

type Watched = Arc<Mutex<(String, Instant)>>;

/// Ends the process when a run hangs; the name of the run is then the last on standard error.
fn watchdog() -> Watched {
    let watched: Watched = Arc::new(Mutex::new((String::new(), Instant::now())));
    let seen = Arc::clone(&watched);
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let started = seen.lock().unwrap_or_else(PoisonError::into_inner).1;
            if started.elapsed() > RUN_TIME_MAX {
                eprintln!("hangs");
                std::process::exit(1);
            }
        }
    });
    watched
}

/// How a run ended.
enum Ended {
    Measured,
    /// The case was left out, and the next one measured.
    Skipped,
    Failed(SuiteError),
    Panicked,
}

struct Sweep {
    neighbours: [Entry; 2],
    record: PathBuf,
    watched: Watched,
}

impl Sweep {
    fn case(&self, entry: &Entry, extent: Extent, tally: &mut Tally) {
        fault::count_calls();
        let ended = self.end_of(entry, "no fault", true);
        let calls = fault::calls();
        let live = Ledger::take();
        if !matches!(ended, Ended::Measured | Ended::Skipped) || !live.is_empty() {
            tally.wrong.push(format!(
                "{}, no fault: {}, leaves {live}",
                entry.id,
                told(&ended, &entry.id)
            ));
            host::take_everything_back();
            return;
        }
        tally.cases += 1;
        let set_up = Self::set_up_calls(entry);
        for planned in plan::faults(&calls, extent) {
            tally.functions.insert(planned.function.name().to_owned());
            self.fault(entry, &planned, set_up.as_ref(), tally);
        }
    }

    /// What the set-up calls; `None` for a case that the device cannot do without any fault.
    fn set_up_calls(entry: &Entry) -> Option<SetUpCalls> {
        fault::count_calls();
        let device = Device::from_environment().expect("it opened a moment ago");
        let before = fault::calls();
        let workload = (entry.set_up)(&device).ok()?;
        let after = fault::calls();
        workload.close().expect("it closed a moment ago");
        Some(SetUpCalls { before, after })
    }

    fn fault(&self, entry: &Entry, planned: &Fault, set_up: Option<&SetUpCalls>, tally: &mut Tally) {
        let nth = planned.nth.map_or_else(|| String::from("every"), |nth| nth.to_string());
        let name = format!("{}, {}#{nth} {:?}", entry.id, planned.function.name(), planned.effect);
        fault::inject(vec![*planned]);
        let ended = self.end_of(entry, &name, planned.nth.is_some());
        let met = fault::hits() > 0;
        fault::inject(Vec::new());
        let live = Ledger::take();
        tally.runs += 1;
        match ended {
            Ended::Failed(_) => tally.failed += 1,
            Ended::Skipped => tally.skipped += 1,
            Ended::Measured | Ended::Panicked => {}
        }
        let is_skip = matches!(ended, Ended::Skipped);
        let must_skip = set_up.and_then(|calls| Some(calls.meets(planned)? && plan::may_skip(planned)));
        let mut wrong = Vec::new();
        if must_skip.is_some_and(|must_skip| must_skip != is_skip) {
            wrong.push(format!("ends with a skip: {is_skip}"));
        }
        if !met {
            wrong.push(String::from("the fault was not met"));
        } else if let Some(what) = self.wrong_end(entry, planned, &ended) {
            wrong.push(what);
        }
        if !plan::is_within(&live, &plan::allowed(planned)) {
            wrong.push(format!("leaves {live}"));
        }
        if !live.is_empty() {
            host::take_everything_back();
        }
        tally
            .wrong
            .extend(wrong.into_iter().map(|what| format!("{name}: {what}")));
    }

    /// One run of the suite, as an executable makes it. Where the case is skipped, the next must be
    /// measured, unless the fault would be met there again.
    fn end_of(&self, entry: &Entry, name: &str, goes_on: bool) -> Ended {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = (name.to_owned(), Instant::now());
        eprintln!("{MARK}{name}");
        let _ = std::fs::remove_file(&self.record);
        let mut skipped = false;
        let ran = panic::catch_unwind(AssertUnwindSafe(|| {
            suite::run(SUITE, |suite| {
                let measured = |entry: &Entry, suite: &mut Suite| {
                    let outcomes = (entry.measure)(suite)?;
                    Ok::<bool, SuiteError>(!outcomes.is_empty())
                };
                if measured(entry, suite)? {
                    return Ok(());
                }
                skipped = true;
                // Where the case skips itself, the fault may be met only now, and no more after that.
                let next = measured(&self.neighbours[0], suite)? || measured(&self.neighbours[1], suite)?;
                if next || !goes_on {
                    return Ok(());
                }
                Err(SuiteError::Id(String::from("every case that followed was skipped")))
            })
        }));
        match ran {
            Ok(Ok(())) if skipped => Ended::Skipped,
            Ok(Ok(())) => Ended::Measured,
            Ok(Err(error)) => Ended::Failed(error),
            Err(_) => Ended::Panicked,
        }
    }

    /// Whether the reason is that the host device does not have the function, which is refused either way.
    fn is_missing(planned: &Fault, reason: &str) -> bool {
        reason.contains(&format!("the host device has no {}", planned.function.name()))
    }

    /// What is wrong with the end of a run that met the fault, if anything.
    fn wrong_end(&self, entry: &Entry, planned: &Fault, ended: &Ended) -> Option<String> {
        let (function, code) = (planned.function.name(), plan::code(planned));
        let said = format!("{function} failed: {code}");
        let record = std::fs::read_to_string(&self.record).unwrap_or_default();
        let record: serde_json::Value = serde_json::from_str(&record).unwrap_or_default();
        let recorded = |list: &str, id: &str| {
            let entries = record[list].as_array().into_iter().flatten();
            entries.into_iter().find(|entry| entry["id"] == id).cloned()
        };
        match ended {
            Ended::Panicked => Some(String::from("panics")),
            Ended::Measured => Some(String::from("ends as if nothing had failed")),
            Ended::Skipped => {
                let skipped = record["skipped"].as_array().into_iter().flatten();
                let reasons: Vec<String> = skipped.map(|skipped| skipped["reason"].to_string()).collect();
                let is_said = |reason: &String| reason.contains(&said) || Self::is_missing(planned, reason);
                if recorded("benchmarks", &entry.id).is_some() {
                    Some(String::from("is recorded with a number and skipped"))
                } else if !plan::may_skip(planned) {
                    Some(format!("is a skip: {reasons:?}"))
                } else if !reasons.iter().any(is_said) {
                    Some(format!("is skipped for another reason: {reasons:?}"))
                } else {
                    None
                }
            }
            Ended::Failed(error) => {
                let message = error.to_string();
                let is_case = matches!(error, SuiteError::Case { .. });
                let mut ids = std::iter::once(&entry.id).chain(self.neighbours.iter().map(|entry| &entry.id));
                let names_case = ids.any(|id| message.starts_with(id));
                if !message.contains(&said) || message.contains('\n') || is_case && !names_case {
                    Some(format!("says {message:?}"))
                } else if matches!(error, SuiteError::Case { id, .. } if recorded("benchmarks", &id.to_string()).is_some())
                {
                    Some(String::from("is recorded with a number and failed"))
                } else {
                    None
                }
            }
        }
    }
}

fn told(ended: &Ended, id: &str) -> String {
    match ended {
        Ended::Measured => format!("{id} is measured"),
        Ended::Skipped => format!("{id} is skipped"),
        Ended::Failed(error) => error.to_string(),
        Ended::Panicked => String::from("panics"),
    }
}
