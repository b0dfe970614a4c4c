//! A recording on disk while it is not finished: the plan, and a line for each finished launch.
//!
//! Each line is synced before the next launch begins, so a recording that is killed loses at most the
//! launch in flight. A last line that was cut short is dropped.

use super::error::RecordingError;
use super::plan::{FORMAT, Plan};
use crate::baseline::{LAUNCHES_MAX, Launch, Skipped};
use crate::counted::counted;
use crate::observation::Observation;
use crate::whole_file;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file of the plan.
const PLAN: &str = "recording.json";
/// The file of the finished launches.
const LAUNCHES: &str = "launches.jsonl";

/// A finished launch: a line of the state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FinishedLaunch {
    /// Which side it measured.
    pub side: usize,
    /// What it measured.
    pub launch: Launch,
    /// The ids that each executable measured.
    pub executables: BTreeMap<String, BTreeSet<String>>,
    /// Device time of one iteration in nanoseconds, by id; in the first launch of each side.
    #[serde(default)]
    pub device_time_ns: BTreeMap<String, f64>,
    /// Samples of each turn that would be worth its cost, by id.
    #[serde(default)]
    pub samples_per_turn: BTreeMap<String, u64>,
    /// Samples that are enough of a case whose pace the device sets, by id.
    #[serde(default)]
    pub samples_enough: BTreeMap<String, u64>,
    /// What was seen beside the time, by id.
    #[serde(default)]
    pub observations: BTreeMap<String, Observation>,
    /// What was skipped, and why.
    #[serde(default)]
    pub skipped: Vec<Skipped>,
    /// Measurements that were thrown away and repeated.
    #[serde(default)]
    pub repeated: u64,
}

/// Measurements that these launches repeated. What a file says of itself may be any number.
pub(super) fn repeated<'a>(launches: impl IntoIterator<Item = &'a FinishedLaunch>) -> u64 {
    let counts = launches.into_iter().map(|finished| finished.repeated);
    counts.fold(0, u64::saturating_add)
}

/// A line of the file.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    launch: &'a FinishedLaunch,
    ended_uptime_s: Option<f64>,
}

/// When the launch of a line ended, in seconds since the machine was started: a clock that nobody sets.
#[derive(Deserialize)]
struct End {
    #[serde(default)]
    ended_uptime_s: Option<f64>,
}

/// Seconds since the machine was started, those asleep included; `None` where it does not say.
pub(super) fn uptime_s() -> Option<f64> {
    let text = fs::read_to_string("/proc/uptime").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// A recording on disk.
#[derive(Debug)]
pub(super) struct State {
    folder: PathBuf,
    pub(super) plan: Plan,
    pub(super) launches: Vec<FinishedLaunch>,
    file: File,
    /// The length of the file's whole lines.
    length: u64,
    /// When the last launch had ended, in seconds since the machine was started.
    ended_uptime_s: Option<f64>,
}

/// Where recordings are kept while they are not finished.
pub(super) fn recordings_folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").filter(|target| !target.is_empty());
    let target = target.map_or_else(|| PathBuf::from("target"), PathBuf::from);
    target.join("poolbench").join("recordings")
}

impl State {
    /// Whether `folder` holds a recording.
    pub(super) fn is_in(folder: &Path) -> bool {
        folder.join(PLAN).is_file()
    }

    /// Begins a recording in `folder`, and throws away one that is there.
    pub(super) fn begin(folder: &Path, plan: Plan) -> Result<State, RecordingError> {
        let refused = |error| RecordingError::file(folder, error);
        if folder.exists() {
            State::remove_files(folder).map_err(refused)?;
        }
        fs::create_dir_all(folder).map_err(refused)?;
        let launches = folder.join(LAUNCHES);
        let file = File::create_new(&launches).map_err(|error| RecordingError::file(&launches, error))?;
        let begun = (|| {
            // The plan comes last and at once: a folder without one holds no recording.
            whole_file::write(&folder.join(PLAN), &serde_json::to_vec_pretty(&plan)?)?;
            File::open(folder)?.sync_all()
        })();
        if let Err(error) = begun {
            let _ = fs::remove_dir_all(folder);
            return Err(refused(error));
        }
        Ok(State {
            folder: folder.to_owned(),
            plan,
            launches: Vec::new(),
            file,
            length: 0,
            ended_uptime_s: None,
        })
    }

    /// Goes on with the recording in `folder`.
    pub(super) fn resume(folder: &Path) -> Result<State, RecordingError> {
        let plan = State::read_plan(folder)?;
        let path = folder.join(LAUNCHES);
        let unreadable = |error| RecordingError::file(&path, error);
        let bytes = State::read_launches(&path)?;
        let (launches, length) = whole_lines(&bytes, &plan).map_err(|reason| RecordingError::State {
            path: path.clone(),
            reason,
        })?;
        let file = File::options().append(true).open(&path).map_err(unreadable)?;
        if length < bytes.len() as u64 {
            file.set_len(length)
                .and_then(|()| file.sync_all())
                .map_err(unreadable)?;
        }
        let last = launches.len().checked_sub(1);
        let last = last.and_then(|last| bytes.split(|byte| *byte == b'\n').nth(last));
        let end = last.and_then(|line| serde_json::from_slice::<End>(line).ok());
        Ok(State {
            folder: folder.to_owned(),
            plan,
            launches,
            file,
            length,
            ended_uptime_s: end.and_then(|end| end.ended_uptime_s),
        })
    }

    /// How long ago the last launch ended, in this start of the machine; `None` without a
    /// launch, or where nobody knows.
    pub(super) fn pause(&self) -> Option<Duration> {
        Duration::try_from_secs_f64(uptime_s()? - self.ended_uptime_s?).ok()
    }

    fn read_launches(path: &Path) -> Result<Vec<u8>, RecordingError> {
        fs::read(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => RecordingError::State {
                path: path.to_owned(),
                reason: String::from("is missing"),
            },
            _ => RecordingError::file(path, error),
        })
    }

    fn read_plan(folder: &Path) -> Result<Plan, RecordingError> {
        let path = folder.join(PLAN);
        let damaged = |reason: String| RecordingError::State {
            path: path.clone(),
            reason,
        };
        let bytes = fs::read(&path).map_err(|error| RecordingError::file(&path, error))?;
        let plan: Plan = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if plan.format != FORMAT {
            return Err(damaged(format!("format {} is not {FORMAT}", plan.format)));
        }
        if plan.sides.is_empty() || plan.launches == 0 {
            return Err(damaged(String::from("plans no launch")));
        }
        if plan.sides.len() > 2 || plan.launches > LAUNCHES_MAX {
            return Err(damaged(format!(
                "plans {} of each of {}, more than any recording has",
                counted(plan.launches, "launch"),
                counted(plan.sides.len() as u64, "side")
            )));
        }
        Ok(plan)
    }

    /// How far the recording in `folder` is: finished launches, and launches in all.
    pub(super) fn progress_in(folder: &Path) -> Result<(u64, u64), RecordingError> {
        let plan = State::read_plan(folder)?;
        let bytes = State::read_launches(&folder.join(LAUNCHES))?;
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        Ok((lines.min(plan.total()), plan.total()))
    }

    /// Keeps a finished launch.
    pub(super) fn add(&mut self, launch: FinishedLaunch) -> Result<(), RecordingError> {
        let ended_uptime_s = uptime_s();
        let line = Line {
            launch: &launch,
            ended_uptime_s,
        };
        let written = serde_json::to_vec(&line)
            .map_err(std::io::Error::from)
            .and_then(|mut line| {
                line.push(b'\n');
                self.file.write_all(&line)?;
                self.file.sync_data()?;
                Ok(line.len() as u64)
            });
        match written {
            Ok(length) => {
                self.length += length;
                self.ended_uptime_s = ended_uptime_s;
                self.launches.push(launch);
                Ok(())
            }
            Err(error) => {
                let _ = self.file.set_len(self.length);
                Err(RecordingError::file(&self.folder.join(LAUNCHES), error))
            }
        }
    }

    /// Forgets a launch whose partner of the other side is missing. In another session the partner would compare
    /// with nothing, and with sessions of their own the sides would lose what taking turns is for.
    pub(super) fn forget_unpaired(&mut self) -> Result<(), RecordingError> {
        if self.plan.sides.len() < 2 || self.launches.len().is_multiple_of(self.plan.sides.len()) {
            return Ok(());
        }
        let path = self.folder.join(LAUNCHES);
        let forgotten = fs::read(&path).and_then(|bytes| {
            let lines = bytes.split_inclusive(|byte| *byte == b'\n');
            let kept: usize = lines.take(self.launches.len() - 1).map(<[u8]>::len).sum();
            self.file.set_len(kept as u64)?;
            self.file.sync_all()?;
            Ok(kept as u64)
        });
        self.length = forgotten.map_err(|error| RecordingError::file(&path, error))?;
        self.launches.pop();
        Ok(())
    }

    /// Removes the recording, once its baseline is written.
    pub(super) fn remove(self) -> Result<(), RecordingError> {
        State::remove_files(&self.folder).map_err(|error| RecordingError::file(&self.folder, error))
    }

    /// The plan goes first: without it the rest is no recording.
    fn remove_files(folder: &Path) -> std::io::Result<()> {
        if folder.join(PLAN).exists() {
            fs::remove_file(folder.join(PLAN))?;
        }
        fs::remove_dir_all(folder)
    }
}

/// The finished launches, and the length of their lines. A last line without its end was being written when the
/// recording was killed.
fn whole_lines(bytes: &[u8], plan: &Plan) -> Result<(Vec<FinishedLaunch>, u64), String> {
    let mut launches = Vec::new();
    let mut length = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        // Only the last can be without its end.
        let Some(text) = line.strip_suffix(b"\n") else { break };
        let number = launches.len() + 1;
        let launch: FinishedLaunch = serde_json::from_slice(text).map_err(|error| format!("line {number}: {error}"))?;
        let step = plan.step(launches.len() as u64);
        if launch.launch.launch != step.index || launch.side != step.side || step.index >= plan.total() {
            return Err(format!("line {number} is not the launch of its place"));
        }
        launches.push(launch);
        length += line.len();
    }
    Ok((launches, length as u64))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{finished, plan};
    use super::*;

    fn lines(launches: &[FinishedLaunch]) -> Vec<u8> {
        let line = |launch| {
            let mut line = serde_json::to_vec(launch).expect("JSON");
            line.push(b'\n');
            line
        };
        launches.iter().flat_map(line).collect()
    }

    /// Cut at every byte: the whole lines before the cut are kept, and nothing else.
    #[test]
    fn a_file_that_is_cut_short_keeps_its_whole_lines() {
        let launches: Vec<FinishedLaunch> = (0..3).map(|launch| finished("s", launch, &["a"], &[])).collect();
        let bytes = lines(&launches);
        for cut in 0..=bytes.len() {
            let (kept, length) = whole_lines(&bytes[..cut], &plan(1, 3)).expect("only the end is missing");
            let newlines = bytes[..cut].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(kept, launches[..newlines]);
            assert!(
                length <= cut as u64
                    && bytes[..usize::try_from(length).expect("small")].ends_with(if newlines > 0 {
                        b"\n"
                    } else {
                        b""
                    })
            );
        }
    }

    /// Whatever the place: what was written whole is no sign of a recording that was killed.
    #[test]
    fn a_whole_line_that_is_no_launch_is_refused() {
        let launches: Vec<FinishedLaunch> = (0..2).map(|launch| finished("s", launch, &["a"], &[])).collect();
        let whole = lines(&launches);
        let end_of_first = whole.iter().position(|byte| *byte == b'\n').expect("two lines") + 1;
        for (place, line) in [(0, 1), (end_of_first, 2), (whole.len(), 3)] {
            for wrong in ["{\n", "\n", "{}\n"] {
                let bytes = [&whole[..place], wrong.as_bytes(), &whole[place..]].concat();
                let reason = whole_lines(&bytes, &plan(1, 3)).expect_err("it is no launch");
                assert!(reason.starts_with(&format!("line {line}: ")), "{reason}");
            }
        }
    }

    #[test]
    fn launches_out_of_their_place_are_refused() {
        let launch = |number| finished("s", number, &["a"], &[]);
        for (launches, planned) in [
            (vec![launch(1)], 3),
            (vec![launch(0), launch(0)], 3),
            (vec![launch(0), launch(1)], 1),
        ] {
            let reason = whole_lines(&lines(&launches), &plan(1, planned)).expect_err("it is out of place");
            assert!(reason.contains("is not the launch of its place"), "{reason}");
        }
    }

    #[test]
    fn a_plan_beyond_any_recording_is_refused() {
        for (sides, launches) in [(3, 1), (1, LAUNCHES_MAX + 1), (2, u64::MAX)] {
            let folder = tempfile::tempdir().expect("a folder");
            let folder = folder.path().join("recording");
            drop(State::begin(&folder, plan(sides, launches)).expect("a new one"));
            let error = State::resume(&folder).expect_err("nobody records so much");
            assert!(error.to_string().contains("more than any recording has"), "{error}");
        }
    }

    #[test]
    fn a_launch_without_its_partner_is_forgotten() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("recording");
        let mut state = State::begin(&folder, plan(2, 3)).expect("a new one");
        for index in 0..3 {
            let step = state.plan.step(index);
            let mut launch = finished("s", step.index, &["a"], &[]);
            launch.side = step.side;
            state.add(launch).expect("room");
        }
        for _ in 0..2 {
            state.forget_unpaired().expect("it can be shortened");
            assert_eq!(state.launches.len(), 2);
        }
        drop(state);
        assert_eq!(State::resume(&folder).expect("it is whole").launches.len(), 2);
    }

    #[test]
    fn what_was_added_is_there_after_a_resume() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("recording");
        let mut state = State::begin(&folder, plan(1, 3)).expect("a new one");
        assert!(State::is_in(&folder));
        state.add(finished("s", 0, &["a"], &[])).expect("room");
        drop(state);
        let mut state = State::resume(&folder).expect("it is there");
        assert_eq!((&state.plan, state.launches.len()), (&plan(1, 3), 1));
        assert!(state.pause().is_some(), "the end of the launch is known");
        state.add(finished("s", 1, &["a"], &[])).expect("room");
        assert_eq!(State::progress_in(&folder).expect("it is there"), (2, 3));
        state.remove().expect("it can go");
        assert!(!folder.exists());
    }
}
