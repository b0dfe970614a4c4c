//! One process of one bench executable: a request in, a record out.

use super::child;
use super::error::RecordingError;
use super::executables::Executable;
use super::interrupt::Interrupt;
use super::lock::Lock;
use super::plan::Treatment;
use super::progress::spoken;
use crate::baseline::{ProcessRecord, RecordRequest, Settings};
use crate::driver::library;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A launch of ten thousand benchmarks takes about 8 MiB.
const RECORD_BYTES_MAX: u64 = 256 << 20;
/// What decides how a bench executable measures, and so is the plan's and not the user's shell's.
const CLEARED: [&str; 2] = ["POOLBENCH_ORDER_SEED", "POOLBENCH_API_SUMMARY"];

/// How bench executables are started.
pub(super) struct Starter<'a> {
    /// A folder for what lasts no longer than a process.
    pub(super) scratch: &'a Path,
    /// Held by every process too.
    pub(super) lock: Option<&'a Lock>,
    pub(super) interrupt: &'a Interrupt,
    pub(super) settings: &'a Settings,
    /// How long a process may print nothing before it is taken to hang.
    pub(super) silence_max: Duration,
}

/// What one process is asked for.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) order_seed: u64,
    pub(super) only: Option<BTreeSet<String>>,
    pub(super) loop_time_max_s: f64,
    pub(super) device_times: bool,
    pub(super) samples_per_turn: BTreeMap<String, u64>,
    pub(super) fewer_samples: BTreeMap<String, u64>,
}

/// A record, and the line that says what was measured.
pub(super) struct Recorded {
    pub(super) record: ProcessRecord,
    pub(super) device_line: String,
}

impl Starter<'_> {
    /// Runs one process to its end and reads its record.
    pub(super) fn run(
        &self,
        executable: &Executable,
        treatment: &Treatment,
        task: &Task,
    ) -> Result<Recorded, RecordingError> {
        executable.check_unchanged()?;
        let folder = tempfile::Builder::new().prefix("process-").tempdir_in(self.scratch);
        let folder = folder.map_err(|error| RecordingError::file(self.scratch, error))?;
        let request = RecordRequest {
            output: folder.path().join("record.json"),
            order_seed: task.order_seed,
            only: task.only.clone(),
            loop_time_max_s: task.loop_time_max_s,
            device_times: task.device_times,
            turns: self.settings.turns,
            samples_per_turn: task.samples_per_turn.clone(),
            sample_size: self.settings.sample_size,
            fewer_samples: task.fewer_samples.clone(),
            warm_up_time_s: self.settings.warm_up_time_s,
            probes: self.settings.probes,
            processor: self.settings.pinned_processor,
        };
        let mut command = self.command(executable, treatment, folder.path(), &request)?;
        let ended = child::run(&mut command, self.interrupt, Some(self.silence_max))?;
        let bench = &executable.identity.name;
        let failed = |reason: String| RecordingError::Process {
            bench: bench.clone(),
            reason,
            output: format!("{}{}", ended.stdout, ended.stderr),
        };
        if let Some(silence) = ended.hung {
            return Err(failed(format!(
                "printed nothing for {} and was killed, {}; --silence-max S waits longer",
                spoken(silence),
                ended.place()
            )));
        }
        if !ended.status.success() {
            // Wrong usage is ours, who wrote its command line.
            let reason = ended.own_line().filter(|_| matches!(ended.status.code(), Some(2 | 3)));
            return Err(failed(reason.map_or_else(|| ended.how(), str::to_owned)));
        }
        let record = read_record(&request.output).map_err(&failed)?;
        check(&record, bench, task.only.as_ref()).map_err(&failed)?;
        let device_line = ended.stderr.lines().find_map(|line| line.strip_prefix("poolbench: "));
        Ok(Recorded {
            record,
            device_line: device_line.unwrap_or_default().to_owned(),
        })
    }

    fn command(
        &self,
        executable: &Executable,
        treatment: &Treatment,
        folder: &Path,
        request: &RecordRequest,
    ) -> Result<Command, RecordingError> {
        let path = folder.join("request.json");
        let file = |error| RecordingError::file(&path, error);
        let text = serde_json::to_vec(request).map_err(|error| file(error.into()))?;
        fs::write(&path, text).map_err(file)?;
        let mut command = Command::new(&executable.path);
        command.args(["--bench", "--noplot"]);
        command.args(["--warm-up-time", &self.settings.warm_up_time_s.to_string()]);
        command.args(["--measurement-time", &self.settings.measurement_time_s.to_string()]);
        command.args(["--sample-size", &self.settings.sample_size.to_string()]);
        if let Some(filter) = &self.settings.filter {
            // What begins with a dash is a filter too.
            command.arg("--").arg(filter);
        }
        for variable in CLEARED {
            command.env_remove(variable);
        }
        command
            .env(RecordRequest::VARIABLE, &path)
            .env("CRITERION_HOME", folder.join("criterion"));
        command.env_remove(library::FLAG_VARIABLE);
        if let Some(path) = &treatment.libcuda {
            command
                .env(library::VARIABLE, path)
                .env(library::FLAG_VARIABLE, "--libcuda");
        }
        if let Some(fault) = &treatment.fault {
            command.env("POOLBENCH_FAULT", fault);
        }
        command.stdin(match self.lock {
            Some(lock) => lock.as_input().map_err(file)?,
            None => Stdio::null(),
        });
        command.stderr(Stdio::piped());
        Ok(command)
    }
}

fn read_record(path: &Path) -> Result<ProcessRecord, String> {
    let size_bytes = fs::metadata(path)
        .map_err(|error| format!("wrote no record ({error})"))?
        .len();
    if size_bytes > RECORD_BYTES_MAX {
        return Err(format!(
            "wrote a record of {size_bytes} bytes, more than any recording has"
        ));
    }
    let bytes = fs::read(path).map_err(|error| format!("its record cannot be read ({error})"))?;
    serde_json::from_slice(&bytes).map_err(|error| format!("wrote a record that cannot be read: {error}"))
}

/// Checks that the record is one of this executable, and that its numbers can be measurements.
fn check(record: &ProcessRecord, bench: &str, only: Option<&BTreeSet<String>>) -> Result<(), String> {
    if record.bench != bench {
        return Err(format!("wrote the record of {:?}", record.bench));
    }
    for (id, samples) in &record.samples {
        if only.is_some_and(|only| !only.contains(id)) {
            return Err(format!("measured {id:?}, which it was not asked for"));
        }
        samples.check().map_err(|reason| format!("{id}: {reason}"))?;
    }
    Ok(())
}
