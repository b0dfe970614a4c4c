//! Beginning a recording, or going on with one: everything that can be refused is refused here, before
//! anything is measured.

use super::destination::{check_names, check_names_again, check_writable, existing_for};
use super::differences::{difference_lines, same_machine, settings_differences};
use super::error::RecordingError;
use super::executables::{Executable, ExecutableIdentity};
use super::interrupt::Interrupt;
use super::lock::Lock;
use super::look::look;
use super::options::{Intent, LAUNCHES, Options};
use super::plan::{Destination, FORMAT, Plan, Side, Treatment, baseline_name, boot_id, now, session};
use super::process::Starter;
use super::progress::{Progress, spoken};
use super::state::{State, recordings_folder};
use crate::baseline::{BaselineName, FOLDER, LAUNCHES_MAX, Settings, restore_replaced};
use crate::counted::counted;
use crate::environment::Environment;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// A longer pause parts sessions: what the host does changes within the hour.
const PAUSE_MAX: Duration = Duration::from_secs(30 * 60);

/// A recording that can go on.
pub(super) struct Begun {
    pub(super) state: State,
    pub(super) executables: Vec<Executable>,
    pub(super) lock: Lock,
}

/// A folder for what the processes of a recording leave, removed with it.
pub(super) fn scratch_folder() -> Result<TempDir, RecordingError> {
    let scratch = tempfile::Builder::new().prefix("poolbench-").tempdir();
    scratch.map_err(|error| RecordingError::file(&std::env::temp_dir(), error))
}

/// Begins a recording, or goes on with one.
pub(super) fn begin(
    options: &Options,
    interrupt: &Interrupt,
    scratch: &Path,
    progress: &Progress,
) -> Result<Begun, RecordingError> {
    let beginning = Beginning {
        options,
        interrupt,
        scratch,
        recordings: recordings_folder(),
    };
    if options.intent == Intent::Resume {
        beginning.resume(progress)
    } else {
        beginning.begin(progress)
    }
}

/// What a recording begins with, before there is a state of it.
struct Beginning<'a> {
    options: &'a Options,
    interrupt: &'a Interrupt,
    scratch: &'a Path,
    /// Where recordings are kept while they are not finished.
    recordings: PathBuf,
}

impl Beginning<'_> {
    fn begin(&self, progress: &Progress) -> Result<Begun, RecordingError> {
        let destination = Destination::of(self.options.intent);
        // With a name, what is refused for it is refused before minutes of building.
        let mut lock = None;
        if let Some(name) = &self.options.name {
            lock = Some(self.take_name(name, destination)?);
        }
        let executables = self.options.source.executables(self.interrupt)?;
        let mut settings = self.options.settings();
        let (mut sides, device_lines) = look(
            &self.starter(lock.as_ref(), &settings),
            &executables[0],
            self.treatments(),
        )?;
        let name = match &self.options.name {
            Some(name) => name.clone(),
            None => self.default_name(&sides[0].environment),
        };
        let lock = match lock {
            Some(lock) => lock,
            None => self.take_name(&name, destination)?,
        };
        if destination == Destination::Append {
            settings = self.go_on_with_baselines(&name, &mut sides)?;
        }
        let (boot_id, started) = (boot_id(), now());
        let seed = seed_of(&session(&boot_id, &started));
        let plan = Plan {
            format: FORMAT,
            destination,
            launches: self.options.launches.unwrap_or(LAUNCHES),
            settings,
            sides,
            executables: identities(&executables),
            boot_id,
            started,
            seed,
            name,
        };
        announce(progress, &plan, &device_lines);
        let state = State::begin(&self.recordings.join(&plan.name), plan)?;
        Ok(Begun {
            state,
            executables,
            lock,
        })
    }

    /// Has each side measure what its baseline holds, and returns the settings, which are those of every session
    /// of the baselines.
    fn go_on_with_baselines(&self, name: &str, sides: &mut [Side]) -> Result<Settings, RecordingError> {
        let mut recorded = Vec::new();
        for side in sides {
            let name = baseline_name(name, side.treatment.label.as_deref())?;
            let existing = existing_for(Path::new(FOLDER), &name, side, self.options)?;
            let (held, more) = (existing.manifest.launches, self.options.launches.unwrap_or(LAUNCHES));
            if held + more > LAUNCHES_MAX {
                return Err(RecordingError::Usage(format!(
                    "{name} holds {}, and a baseline holds {LAUNCHES_MAX} at most: {more} more do not fit; give fewer \
                     --launches, or another --name",
                    counted(held, "launch")
                )));
            }
            recorded.push(Settings {
                label: None,
                injected_fault: None,
                repeated: 0,
                ..existing.manifest.settings
            });
            side.only = Some(existing.manifest.benchmarks.into_iter().collect());
        }
        if let [first, second] = recorded.as_slice() {
            let differences = settings_differences(first, second);
            if !differences.is_empty() {
                return Err(RecordingError::Differs {
                    what: format!(
                        "{name}: the baselines of the two sides were recorded in different ways, and no session can \
                         go on with both; record both anew with --replace or another --name"
                    ),
                    differences: difference_lines(&differences, "on the first side", "on the second"),
                });
            }
        }
        Ok(recorded.into_iter().next().unwrap_or_else(|| self.options.settings()))
    }

    fn resume(&self, progress: &Progress) -> Result<Begun, RecordingError> {
        let name = match &self.options.name {
            Some(name) => name.parse::<BaselineName>()?.to_string(),
            None => self.only_unfinished()?,
        };
        let folder = self.recordings.join(&name);
        if !State::is_in(&folder) {
            return Err(RecordingError::NothingToResume { folder });
        }
        let lock = self.lock(&name)?;
        let state = State::resume(&folder)?;
        restore_replaced(Path::new(FOLDER));
        check_names_again(Path::new(FOLDER), &state.plan, &state.launches)?;
        check_writable(Path::new(FOLDER))?;
        self.refuse_differences(&name, self.flag_differences(&state.plan))?;
        let executables = self.options.source.executables(self.interrupt)?;
        self.refuse_differences(
            &name,
            executable_differences(&state.plan.executables, &identities(&executables)),
        )?;
        let (sides, device_lines) = look(
            &self.starter(Some(&lock), &state.plan.settings),
            &executables[0],
            treatments_of(&state.plan),
        )?;
        for (recorded, here) in state.plan.sides.iter().zip(&sides) {
            let differences = same_machine(&recorded.environment, &here.environment);
            self.refuse_differences(&name, difference_lines(&differences, "when it began", "now"))?;
        }
        announce(progress, &state.plan, &device_lines);
        Ok(Begun {
            state,
            executables,
            lock,
        })
    }

    fn refuse_differences(&self, name: &str, differences: Vec<String>) -> Result<(), RecordingError> {
        if differences.is_empty() {
            return Ok(());
        }
        Err(RecordingError::Differs {
            what: format!(
                "{}: cannot go on with this recording; undo what changed, or begin anew with --replace or another --name",
                self.recordings.join(name).display()
            ),
            differences,
        })
    }

    /// Where flags were given that say otherwise than the plan.
    fn flag_differences(&self, plan: &Plan) -> Vec<String> {
        let mut differences = self.options.differences_from(&plan.settings);
        if let Some(launches) = self.options.launches.filter(|launches| *launches != plan.launches) {
            differences.push(format!("--launches {launches}, recorded with {}", plan.launches));
        }
        if !self.options.sides.is_empty() && self.treatments() != treatments_of(plan) {
            differences.push(String::from("other sides (--libcuda) than it began with"));
        }
        differences
    }

    /// Refuses a name that is taken, locks it, and refuses a recording of the name that is not finished.
    fn take_name(&self, name: &str, destination: Destination) -> Result<Lock, RecordingError> {
        let labels: Vec<Option<&str>> = match self.options.sides.as_slice() {
            [] => vec![None],
            sides => sides.iter().map(|side| side.label.as_deref()).collect(),
        };
        name.parse::<BaselineName>()?;
        let names: Vec<BaselineName> = labels
            .into_iter()
            .map(|label| baseline_name(name, label))
            .collect::<Result<_, _>>()?;
        restore_replaced(Path::new(FOLDER));
        check_names(Path::new(FOLDER), &names, destination)?;
        check_writable(Path::new(FOLDER))?;
        let lock = self.lock(name)?;
        let folder = self.recordings.join(name);
        if destination != Destination::Replace && State::is_in(&folder) {
            let (done, total) = State::progress_in(&folder)?;
            let remedy = match destination {
                Destination::New => ", or throw it away with --replace",
                _ => ", or throw it away by removing the folder",
            };
            return Err(RecordingError::Unfinished {
                folder,
                done,
                total,
                go_on: self.options.to_resume(name),
                remedy: remedy.to_owned(),
            });
        }
        Ok(lock)
    }

    fn lock(&self, name: &str) -> Result<Lock, RecordingError> {
        fs::create_dir_all(&self.recordings).map_err(|error| RecordingError::file(&self.recordings, error))?;
        Lock::acquire(&self.recordings.join(format!(".{name}.lock")), self.interrupt)
    }

    /// The name of the only unfinished recording.
    fn only_unfinished(&self) -> Result<String, RecordingError> {
        let entries = fs::read_dir(&self.recordings).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter(|entry| State::is_in(&entry.path()))
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        match names.as_slice() {
            [] => Err(RecordingError::NothingToResume {
                folder: self.recordings.clone(),
            }),
            [name] => Ok(name.clone()),
            _ => Err(RecordingError::Usage(format!(
                "there are {} unfinished recordings: say which with --name ({})",
                names.len(),
                names.join(", ")
            ))),
        }
    }

    /// The device's default name; for two drivers, the device alone.
    fn default_name(&self, environment: &Environment) -> String {
        let device = &environment.device;
        let name = if self.options.sides.is_empty() {
            BaselineName::of(&device.name, device.driver_version.as_deref(), &device.cuda_version)
        } else {
            BaselineName::of_device(&device.name)
        };
        name.to_string()
    }

    fn starter<'b>(&'b self, lock: Option<&'b Lock>, settings: &'b Settings) -> Starter<'b> {
        Starter {
            scratch: self.scratch,
            lock,
            interrupt: self.interrupt,
            settings,
            silence_max: self.options.silence_max(settings),
        }
    }

    /// What the sides run under. Whoever set the variable injects its fault into everything that is started.
    fn treatments(&self) -> Vec<Treatment> {
        let inherited = std::env::var("POOLBENCH_FAULT").ok();
        let inherited = inherited.filter(|fault| cfg!(feature = "fault-injection") && !fault.is_empty());
        let mut treatments = self.options.sides.clone();
        if treatments.is_empty() {
            treatments.push(Treatment::default());
        }
        for treatment in &mut treatments {
            treatment.fault = treatment.fault.take().or_else(|| inherited.clone());
        }
        treatments
    }
}

fn treatments_of(plan: &Plan) -> Vec<Treatment> {
    plan.sides.iter().map(|side| side.treatment.clone()).collect()
}

fn identities(executables: &[Executable]) -> Vec<ExecutableIdentity> {
    executables
        .iter()
        .map(|executable| executable.identity.clone())
        .collect()
}

fn executable_differences(recorded: &[ExecutableIdentity], here: &[ExecutableIdentity]) -> Vec<String> {
    let of = |list: &[ExecutableIdentity], name: &str| list.iter().find(|known| known.name == name).cloned();
    let mut differences = Vec::new();
    for known in recorded {
        match of(here, &known.name) {
            None => differences.push(format!("the executable {:?} is missing", known.name)),
            Some(found) if found != *known => {
                differences.push(format!("the executable {:?} is another build", known.name))
            }
            Some(_) => {}
        }
    }
    for found in here.iter().filter(|found| of(recorded, &found.name).is_none()) {
        differences.push(format!("the executable {:?} is new", found.name));
    }
    differences
}

/// Returns the session of the next launch, a new one where the machine was started anew since the last or the two
/// would lie too far apart: after a resume, or a program that was stopped for a while.
pub(super) fn session_of_next(state: &mut State, progress: &Progress) -> Result<String, RecordingError> {
    let (session, why_new) = resumed_session(state);
    if let Some(why) = why_new {
        state.forget_unpaired()?;
        progress.line(&format!("{why}: what follows is another session"));
    }
    Ok(session)
}

/// The session of a recording that goes on: still its own, or another with the reason. A session is launches at one
/// time.
fn resumed_session(state: &State) -> (String, Option<String>) {
    let boot_id = boot_id();
    let Some(last) = state.launches.last() else {
        let begun_here = state.plan.boot_id == boot_id;
        let session = if begun_here {
            state.plan.session()
        } else {
            session(&boot_id, &now())
        };
        return (session, None);
    };
    let why_new = if last.launch.session.starts_with(&boot_id) {
        let pause = state.pause().filter(|pause| *pause > PAUSE_MAX);
        pause.map(|pause| format!("the last launch ended {} ago", spoken(pause)))
    } else {
        Some(String::from("the machine was started anew since the last launch"))
    };
    match why_new {
        None => (last.launch.session.clone(), None),
        why => (session(&boot_id, &now()), why),
    }
}

/// The seed of a recording's shuffles: another one for each session.
fn seed_of(session: &str) -> u64 {
    Sha256::digest(session)
        .iter()
        .take(8)
        .fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}

/// The first line: what is measured.
fn announce(progress: &Progress, plan: &Plan, device_lines: &[String]) {
    for (side, line) in plan.sides.iter().zip(device_lines) {
        let label = side
            .treatment
            .label
            .as_ref()
            .map(|label| format!("{label}: "))
            .unwrap_or_default();
        progress.line(&format!("{label}{line}"));
    }
    let turns = if plan.sides.len() == 2 {
        " of each side, in turn"
    } else {
        ""
    };
    let launches = counted(plan.launches, "launch");
    progress.line(&format!("recording {}: {launches}{turns}", plan.name));
}
