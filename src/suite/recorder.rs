//! A bench executable under `poolbench record`: which cases, in which order, and what is kept of them.

use super::SuiteError;
use crate::baseline::criterion_home::SavedSample;
use crate::baseline::{ProbeTimes, ProcessRecord, RecordRequest, Samples, Skipped};
use crate::case::BenchmarkId;
use crate::cuda::{self, Device};
use crate::environment::{Environment, Monitor};
use crate::host_probe::{HostProbe, Reading};
use crate::kernel_work::KernelWork;
use crate::measure::{Case, LOOP_TIME_MAX, Preparation};
use crate::observation::Observation;
use crate::whole_file;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What this process was asked to record, and has so far.
pub(super) struct Recorder {
    request: RecordRequest,
    record: ProcessRecord,
    monitor: Monitor,
    probe: Option<HostProbe>,
    /// Readings beside Criterion's calls of the present case, warm-up included.
    readings: Vec<Reading>,
    device_time_us: HashMap<KernelWork, f64>,
    round: Round,
    glanced: Option<(Instant, Vec<String>)>,
}

/// How long a glance at the device stands for the cases that follow. NVML takes tens of milliseconds on
/// some machines, several times what a short case takes.
const GLANCE_EVERY: Duration = Duration::from_secs(1);

/// One pass through the cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Round {
    /// Every case.
    All,
    /// The host-bound cases once more.
    Visit,
}

/// The request that the environment names, if any.
pub(super) fn request() -> Result<Option<RecordRequest>, SuiteError> {
    let Some(path) = std::env::var_os(RecordRequest::VARIABLE).filter(|path| !path.is_empty()) else {
        return Ok(None);
    };
    let path = PathBuf::from(path);
    let unreadable = |reason: String| SuiteError::RecordRequest {
        path: path.clone(),
        reason,
    };
    let bytes = std::fs::read(&path).map_err(|error| unreadable(error.to_string()))?;
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| unreadable(error.to_string()))
}

impl Recorder {
    pub(super) fn new(bench: &str, request: RecordRequest, device: &Device) -> Result<Recorder, SuiteError> {
        let environment = Environment::of(device);
        // After the device was opened: the driver's own threads are not to share the processor.
        if let Some(processor) = request.processor {
            pin_to(processor).map_err(|error| SuiteError::Pin { processor, error })?;
        }
        Ok(Recorder {
            monitor: Monitor::of(environment.device.uuid.as_deref()),
            probe: request.probes.then(HostProbe::new),
            readings: Vec::new(),
            device_time_us: HashMap::new(),
            round: Round::All,
            glanced: None,
            record: ProcessRecord {
                bench: bench.to_owned(),
                environment,
                samples: BTreeMap::new(),
                device_time_ns: BTreeMap::new(),
                observations: BTreeMap::new(),
                skipped: Vec::new(),
            },
            request,
        })
    }

    /// The passes through the cases. The long one, with every case, comes in the middle of the visits to the
    /// host-bound ones, or first where it finds out which those are.
    pub(super) fn rounds(&self) -> Vec<Round> {
        let visits = self.request.visits.max(1) as usize;
        let before = if self.request.host_bound.is_some() {
            (visits - 1) / 2
        } else {
            0
        };
        let mut rounds = vec![Round::Visit; visits];
        rounds[before] = Round::All;
        rounds
    }

    /// A pass begins; its number shuffles the cases anew.
    pub(super) fn begin_round(&mut self, round: Round) {
        self.round = round;
        if round == Round::Visit && self.request.host_bound.is_none() {
            self.request.host_bound = Some(self.host_bound());
        }
    }

    fn host_bound(&self) -> BTreeSet<String> {
        let measured = self.record.samples.iter();
        measured
            .filter_map(|(id, samples)| {
                let device_ns = self.record.device_time_ns.get(id)?;
                samples.is_host_bound(*device_ns).then(|| id.clone())
            })
            .collect()
    }

    /// Whether the request wants this case in this pass.
    pub(super) fn wants(&self, id: &BenchmarkId) -> bool {
        let id = id.to_string();
        let among = |ids: &Option<BTreeSet<String>>| ids.as_ref().is_none_or(|ids| ids.contains(&id));
        match self.round {
            Round::All => among(&self.request.only),
            Round::Visit => among(&self.request.only) && among(&self.request.host_bound),
        }
    }

    /// How a case is prepared. Which ids are recorded is decided once: cases that are asked for by name
    /// have proven themselves in the launch that found them, and are not left out because the host was slow
    /// for a moment. What they leave is checked after their samples all the same.
    pub(super) fn preparation(&self) -> Preparation {
        if self.request.only.is_some() || self.round == Round::Visit {
            return Preparation::Proven;
        }
        let limit = Duration::try_from_secs_f64(self.request.loop_time_max_s);
        Preparation::ToBeProven(limit.unwrap_or(LOOP_TIME_MAX))
    }

    /// A case begins.
    pub(super) fn begin(&mut self) {
        self.readings.clear();
    }

    /// Reads the host's speed, where that was asked for.
    pub(super) fn read_probe(&mut self) -> Option<Reading> {
        self.probe.as_mut().map(HostProbe::read)
    }

    /// Keeps the readings before and after one of Criterion's calls.
    pub(super) fn keep(&mut self, before: Option<Reading>, after: Option<Reading>) {
        self.readings
            .extend(before.zip(after).map(|(before, after)| before.mean(after)));
    }

    /// Keeps a case that was measured; `saved` is what Criterion saved of it, or why that is nothing.
    pub(super) fn add(
        &mut self,
        id: &BenchmarkId,
        case: &dyn Case,
        saved: Result<SavedSample, String>,
        observation: Observation,
    ) -> cuda::Result<()> {
        let saved = match saved {
            Ok(saved) => saved,
            Err(reason) => {
                self.skip(id, format!("Criterion saved no sample of it: {reason}"));
                return Ok(());
            }
        };
        let flags = self.flags();
        // Criterion's last calls are the samples; those before warmed up.
        let probe_ns = self.readings.len().checked_sub(saved.iters.len()).map(|warm_up| {
            let readings = &self.readings[warm_up..];
            ProbeTimes {
                syscall: readings.iter().map(|reading| reading.syscall_ns).collect(),
                memory: readings.iter().map(|reading| reading.memory_ns).collect(),
            }
        });
        let samples = Samples {
            iters: saved.iters,
            times_ns: saved.times,
            probe_ns: probe_ns.filter(|_| self.probe.is_some()),
            flags,
        };
        if let Err(reason) = samples.check() {
            self.skip(id, format!("Criterion's samples are no measurements: {reason}"));
            return Ok(());
        }
        if self.request.device_times && !self.record.device_time_ns.contains_key(&id.to_string()) {
            let time_us = self.device_time_us(case)?;
            self.record.device_time_ns.insert(id.to_string(), time_us * 1e3);
        }
        match self.record.samples.entry(id.to_string()) {
            Entry::Vacant(first) => {
                first.insert(samples);
            }
            Entry::Occupied(mut earlier) => earlier.get_mut().extend(samples),
        }
        self.record.observations.insert(id.to_string(), observation);
        Ok(())
    }

    /// What disturbs measurements at the moment.
    fn flags(&mut self) -> Vec<String> {
        if let Some((at, flags)) = &self.glanced
            && at.elapsed() < GLANCE_EVERY
        {
            return flags.clone();
        }
        let mut flags = self.monitor.glance().flags();
        flags.sort_unstable();
        self.glanced = Some((Instant::now(), flags.clone()));
        flags
    }

    /// Device time of one iteration; cases of the same kernels share one measurement.
    fn device_time_us(&mut self, case: &dyn Case) -> cuda::Result<f64> {
        let Some(work) = case.kernel_work() else {
            return Ok(0.0);
        };
        if let Some(time_us) = self.device_time_us.get(&work) {
            return Ok(*time_us);
        }
        let time_us = work.device_time_us()?;
        self.device_time_us.insert(work, time_us);
        Ok(time_us)
    }

    /// Keeps a case that was skipped.
    pub(super) fn skip(&mut self, id: &BenchmarkId, reason: String) {
        self.record.skipped.push(Skipped {
            id: id.to_string(),
            reason,
        });
    }

    /// The seed of the order of cases in the pass of this number.
    pub(super) fn order_seed(&self, pass: usize) -> u64 {
        self.request.order_seed.wrapping_add(pass as u64)
    }

    /// Where the record goes.
    pub(super) fn output(&self) -> &Path {
        &self.request.output
    }

    /// Writes the record, whole or not at all.
    pub(super) fn write(&self) -> std::io::Result<()> {
        whole_file::write(&self.request.output, &serde_json::to_vec(&self.record)?)
    }
}

/// Pins the calling thread to one processor.
fn pin_to(processor: usize) -> std::io::Result<()> {
    if processor >= rustix::thread::CpuSet::MAX_CPU {
        return Err(std::io::Error::other("no such processor"));
    }
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder(visits: u32, host_bound: Option<BTreeSet<String>>) -> Recorder {
        let device = Device::from_environment().expect("a device, if only the host device");
        let request = RecordRequest {
            visits,
            host_bound,
            ..RecordRequest::default()
        };
        Recorder::new("planted", request, &device).expect("nothing is pinned")
    }

    #[test]
    fn the_long_pass_is_amid_the_visits_or_first_where_it_decides() {
        use Round::{All, Visit};
        for (visits, before_known) in [(0, vec![All]), (1, vec![All]), (3, vec![All, Visit, Visit])] {
            assert_eq!(recorder(visits, None).rounds(), before_known);
        }
        let known = Some(BTreeSet::new());
        assert_eq!(recorder(3, known.clone()).rounds(), [Visit, All, Visit]);
        assert_eq!(recorder(2, known).rounds(), [All, Visit]);
    }

    /// Device time 4 of 10 ns is host-bound, 6 of 10 is not; what was never timed by events is neither.
    #[test]
    fn the_first_pass_decides_what_is_visited_again() {
        let mut recorder = recorder(2, None);
        let samples = Samples {
            iters: vec![1.0],
            times_ns: vec![10.0],
            ..Samples::default()
        };
        let id = |name| BenchmarkId::new("g", name, "4KiB").expect("an id");
        for (name, device_ns) in [("fast", Some(4.0)), ("slow", Some(6.0)), ("unknown", None)] {
            recorder.record.samples.insert(id(name).to_string(), samples.clone());
            if let Some(device_ns) = device_ns {
                recorder.record.device_time_ns.insert(id(name).to_string(), device_ns);
            }
            assert!(recorder.wants(&id(name)), "the first pass is for all");
        }
        recorder.begin_round(Round::Visit);
        assert_eq!(
            ["fast", "slow", "unknown"].map(|name| recorder.wants(&id(name))),
            [true, false, false]
        );
    }
}
