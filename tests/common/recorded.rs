//! Baselines on disk, made from the synthetic launches of `tests/noise`.
#![allow(dead_code, reason = "each test binary uses a part")]

use crate::noise::{self, Case, Kind, Recording};
use poolbench::baseline::{Baseline, Existing, Launch, Manifest, ProbeTimes, Samples, Settings};
use poolbench::environment::{BuildFacts, DeviceFacts, Environment, HostFacts, ToolkitFacts};
use poolbench::stats::{BenchmarkId, LaunchKey, Side};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A folder to call `poolbench` in, with its `criterion-baselines`.
pub struct Desk {
    pub folder: tempfile::TempDir,
}

impl Desk {
    pub fn new() -> Desk {
        Desk {
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn baselines(&self) -> PathBuf {
        self.path().join("criterion-baselines")
    }

    /// Writes a baseline under a name and returns its folder.
    pub fn keep(&self, name: &str, mut baseline: Baseline) -> PathBuf {
        let parsed = name.parse().expect("a name");
        name.clone_into(&mut baseline.manifest.name);
        baseline
            .write(&self.baselines(), &parsed, Existing::Replace)
            .expect("it can be written")
    }

    /// Runs `poolbench` in the folder.
    pub fn poolbench(&self, arguments: &[&str]) -> Ran {
        let mut command = assert_cmd::Command::cargo_bin("poolbench").expect("the binary is built with the tests");
        command
            .args(arguments)
            .current_dir(self.path())
            .env("POOLBENCH_DEVICE", "host")
            .env_remove("CRITERION_HOME")
            .env_remove("CARGO_TARGET_DIR");
        let output = command.output().expect("it starts");
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }
}

/// What a command did.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// The JSON that was printed.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// One line to standard error, nothing to standard output, and this exit code.
    pub fn refused(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!((self.stderr.lines().count(), self.stdout.as_str()), (1, ""), "{self:?}");
        self.stderr.trim_end()
    }
}

/// A machine with an H200 and this driver.
pub fn environment(driver: &str) -> Environment {
    Environment {
        device: DeviceFacts {
            name: String::from("NVIDIA H200"),
            uuid: Some(String::from("GPU-0")),
            compute_capability: Some(String::from("9.0")),
            driver_version: Some(driver.to_owned()),
            cuda_version: String::from("13.0"),
            ..DeviceFacts::default()
        },
        gpu: None,
        host: HostFacts::default(),
        build: BuildFacts {
            version: String::from("0.1.0"),
            profile: String::from("release"),
            case_definitions: 1,
            ..BuildFacts::default()
        },
        toolkit: ToolkitFacts {
            ptx_sha256: String::from("aa"),
            ..ToolkitFacts::default()
        },
        pool: None,
    }
}

/// The baseline that holds these launches.
pub fn baseline(side: &Side, driver: &str) -> Baseline {
    let mut launches: BTreeMap<LaunchKey, BTreeMap<String, Samples>> = BTreeMap::new();
    for (id, benchmark) in side.benchmarks() {
        for launch in benchmark.launches() {
            let times = launch.sample.times_ns();
            let samples = Samples {
                iters: vec![100.0; times.len()],
                times_ns: times.iter().map(|time| time * 100.0).collect(),
                probe_ns: launch.probe.as_ref().map(|probe| ProbeTimes {
                    syscall: probe.times_ns().to_vec(),
                    ..ProbeTimes::default()
                }),
                flags: launch.flags.iter().cloned().collect(),
            };
            let of_launch = launches.entry(launch.key.clone()).or_default();
            of_launch.insert(id.to_string(), samples);
        }
    }
    let host_bound = |bound: bool| {
        let ids = side.benchmarks();
        ids.filter(move |(_, benchmark)| !bound || benchmark.host_bound() == Some(true))
            .map(|(id, _)| id.to_string())
            .collect()
    };
    let launches: Vec<Launch> = launches
        .into_iter()
        .map(|(key, samples)| Launch {
            launch: key.order,
            session: key.session.as_str().to_owned(),
            started: String::from("2026-11-30T00:00:00Z"),
            order_seed: key.order,
            device_before: Default::default(),
            device_after: Default::default(),
            samples,
        })
        .collect();
    Baseline {
        manifest: Manifest {
            format: 1,
            name: String::new(),
            created: String::from("2026-11-30T00:00:00Z"),
            complete: true,
            environment: environment(driver),
            settings: Settings::default(),
            benchmarks: host_bound(false),
            host_bound: host_bound(true),
            skipped: Vec::new(),
            launches: launches.len() as u64,
            observations: BTreeMap::new(),
            sha256: BTreeMap::new(),
        },
        launches,
    }
}

/// Cases by strategy and size, all of one kind.
pub fn cases(group: &str, kind: Kind, strategies: &[&str], sizes: &[&str], seed: u64) -> Vec<Case> {
    let mut random = noise::seeded(seed);
    let mut cases = Vec::new();
    for strategy in strategies {
        for size in sizes {
            let id = BenchmarkId::new(format!("{group}/{strategy}/{size}"));
            cases.push(noise::case(id, kind, &mut random));
        }
    }
    cases
}

/// A suite of 24 GPU-bound and 24 host-bound cases.
pub fn suite() -> Vec<Case> {
    let strategies = ["hoisted", "sync", "stream_ordered", "arena"];
    let sizes = ["4KiB", "64KiB", "1MiB", "8MiB", "32MiB", "256MiB"];
    let mut cases = cases("scratch_loop", Kind::GpuBound, &strategies, &sizes, 1);
    cases.extend(self::cases("call_latency", Kind::HostBound, &strategies, &sizes, 2));
    cases
}

/// A baseline of these recordings of the cases.
pub fn recorded(cases: &[Case], recordings: &[Recording<'_>], driver: &str, seed: u64) -> Baseline {
    let mut side = Side::new();
    let mut random = noise::seeded(seed);
    for recording in recordings {
        noise::record(&mut side, cases, recording, &mut random);
    }
    baseline(&side, driver)
}

/// Effects of the cases: what the closure says of each id, as a factor.
pub fn effects(cases: &[Case], factor: impl Fn(&str) -> f64) -> Vec<f64> {
    cases.iter().map(|case| factor(case.id.as_str()).ln()).collect()
}
