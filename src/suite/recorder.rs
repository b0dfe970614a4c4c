//! A bench executable under `poolbench record`: which cases, in which order, and what is kept of them.

use super::SuiteError;
use crate::baseline::{ProcessRecord, RecordRequest, Skipped};
use crate::case::BenchmarkId;
use crate::cuda::{self, Device};
use crate::environment::{Environment, Monitor};
use crate::host_probe::{HostProbe, Reading};
use crate::kernel_work::KernelWork;
use crate::measure::{Case, LOOP_TIME_MAX, Preparation};
use crate::observation::Observation;
use crate::suite::taken::Taken;
use crate::suite::turns::{Division, enough, worthwhile};
use crate::whole_file;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What this process was asked to record, and has so far.
pub(super) struct Recorder {
    request: RecordRequest,
    record: ProcessRecord,
    monitor: Monitor,
    probe: Option<HostProbe>,
    device_time_us: HashMap<KernelWork, f64>,
    glanced: Option<(Instant, Disturbance)>,
}

/// What disturbs measurements, in the words of the samples' flags.
pub(super) type Disturbance = BTreeSet<String>;

/// How long a glance at the device stands for the cases that follow. NVML takes tens of milliseconds on
/// some machines, several times what a short case takes.
const GLANCE_EVERY: Duration = Duration::from_secs(1);

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
        // After the device was opened: the threads that it has by then, and the host device's streams, keep to the
        // processors that they had. Those that are started later share this one: Criterion's, of which only one is
        // awake at a time, and what a driver may start.
        if let Some(processor) = request.processor {
            pin_to(processor).map_err(|error| SuiteError::Pin { processor, error })?;
        }
        Ok(Recorder {
            monitor: Monitor::of(environment.device.uuid.as_deref()),
            probe: request.probes.then(HostProbe::new),
            device_time_us: HashMap::new(),
            glanced: None,
            record: ProcessRecord {
                bench: bench.to_owned(),
                environment,
                samples: BTreeMap::new(),
                samples_per_turn: BTreeMap::new(),
                samples_enough: BTreeMap::new(),
                device_time_ns: BTreeMap::new(),
                observations: BTreeMap::new(),
                skipped: Vec::new(),
            },
            request,
        })
    }

    /// How the samples of a case are divided into turns.
    pub(super) fn division(&self, id: &BenchmarkId) -> Division {
        let id = id.to_string();
        let fewer = self.request.fewer_samples.get(&id).copied();
        let samples = fewer.unwrap_or(u64::MAX).min(self.request.sample_size).max(1);
        let samples_per_turn = self.request.samples_per_turn.get(&id).copied();
        Division {
            samples,
            samples_per_turn: samples_per_turn.unwrap_or(samples).clamp(1, samples),
            warm_up: Duration::try_from_secs_f64(self.request.warm_up_time_s).unwrap_or_default(),
        }
    }

    /// Notes what a turn of a case costs beside its samples, and what each of them takes.
    pub(super) fn note_turn(&mut self, id: &BenchmarkId, beside: Duration, sample: Duration) {
        let samples = self.request.sample_size.max(1);
        let worthwhile = worthwhile(samples, self.request.turns, beside, sample);
        self.record.samples_per_turn.insert(id.to_string(), worthwhile);
        self.record
            .samples_enough
            .insert(id.to_string(), enough(samples, sample));
    }

    /// Whether the request wants this case.
    pub(super) fn wants(&self, id: &BenchmarkId) -> bool {
        let only = self.request.only.as_ref();
        only.is_none_or(|ids| ids.contains(&id.to_string()))
    }

    /// How a case is prepared. Which ids are recorded is decided once: cases that are asked for by name
    /// have proven themselves in the launch that found them, and are not left out because the host was slow
    /// for a moment. What they leave is checked after their samples all the same.
    pub(super) fn preparation(&self) -> Preparation {
        if self.request.only.is_some() {
            return Preparation::Proven;
        }
        let limit = Duration::try_from_secs_f64(self.request.loop_time_max_s);
        Preparation::ToBeProven(limit.unwrap_or(LOOP_TIME_MAX))
    }

    /// Reads the host's speed, where that was asked for.
    pub(super) fn read_probe(&mut self) -> Option<Reading> {
        self.probe.as_mut().map(HostProbe::read)
    }

    /// Keeps a case that was measured, and returns the median time of an iteration in nanoseconds.
    pub(super) fn add(
        &mut self,
        id: &BenchmarkId,
        case: &dyn Case,
        taken: Taken,
        disturbance: Disturbance,
        observation: Observation,
    ) -> cuda::Result<Option<f64>> {
        let samples = taken.into_samples(disturbance.into_iter().collect());
        if let Err(reason) = samples.check() {
            self.skip(id, format!("its samples are no measurements: {reason}"));
            return Ok(None);
        }
        if self.request.device_times {
            let time_us = self.device_time_us(case)?;
            self.record.device_time_ns.insert(id.to_string(), time_us * 1e3);
        }
        let median_ns = samples.median_ns();
        self.record.samples.insert(id.to_string(), samples);
        self.record.observations.insert(id.to_string(), observation);
        Ok(median_ns)
    }

    /// What disturbs measurements at the moment.
    pub(super) fn disturbance(&mut self) -> Disturbance {
        if let Some((at, disturbance)) = &self.glanced
            && at.elapsed() < GLANCE_EVERY
        {
            return disturbance.clone();
        }
        let disturbance: Disturbance = self.monitor.glance().flags().into_iter().collect();
        self.glanced = Some((Instant::now(), disturbance.clone()));
        disturbance
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

    /// The seed of the order of cases.
    pub(super) fn order_seed(&self) -> u64 {
        self.request.order_seed
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

/// Pins the calling thread, and those that it starts from here on, to one processor.
fn pin_to(processor: usize) -> std::io::Result<()> {
    if processor >= rustix::thread::CpuSet::MAX_CPU {
        return Err(std::io::Error::other("no such processor"));
    }
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}
