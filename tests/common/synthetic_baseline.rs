//! Baselines like those of an H200, made from a seed: the suite's ids, plausible times, the noise of a
//! virtualised host that its speed probe sees, and changes where a test wants them.

#![allow(dead_code, reason = "each test binary uses a part")]

use poolbench::baseline::{Baseline, Existing, Launch, Manifest, ProbeTimes, Samples, Settings, Skipped};
use poolbench::environment::{
    BuildFacts, DeviceFacts, DeviceState, Environment, GpuFacts, HostFacts, PoolFacts, ToolkitFacts,
};
use poolbench::observation::{Observation, Reserved};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub const SESSIONS: u64 = 2;
pub const LAUNCHES_PER_SESSION: u64 = 12;
const SAMPLES: usize = 10;
const ITERATIONS: f64 = 100.0;
/// Benchmarks below this time are paced by the host.
const HOST_BOUND_BELOW_US: f64 = 30.0;

/// What is recorded, and what is planted in it.
#[derive(Clone)]
pub struct Recording {
    pub name: &'static str,
    pub driver: &'static str,
    pub seed: u64,
    /// Factor on the times of an id.
    pub factor: fn(&str) -> f64,
}

impl Recording {
    pub fn base() -> Recording {
        Recording {
            name: "nvidia-h200_580.159.04_cuda13.0",
            driver: "580.159.04",
            seed: 1,
            factor: |_| 1.0,
        }
    }

    /// Every `stream_ordered` benchmark is 8 % slower.
    pub fn slower_stream_ordered() -> Recording {
        Recording {
            name: "nvidia-h200_590.44.01_cuda13.1",
            driver: "590.44.01",
            seed: 2,
            factor: |id| if id.contains("/stream_ordered") { 1.08 } else { 1.0 },
        }
    }

    /// Nothing changed but the noise.
    pub fn unchanged() -> Recording {
        Recording {
            factor: |_| 1.0,
            ..Recording::slower_stream_ordered()
        }
    }

    pub fn baseline(&self) -> Baseline {
        let mut random = StdRng::seed_from_u64(self.seed);
        let ids = ids();
        let mut launches = Vec::new();
        for session in 0..SESSIONS {
            // Sessions of one machine differ by several per cent, and the probe sees it.
            let session_speed = 1.0 + random.random_range(-0.02..0.02);
            for launch in 0..LAUNCHES_PER_SESSION {
                let samples = ids.iter().map(|(id, time_us)| {
                    let samples = samples(&mut random, time_us * (self.factor)(id), session_speed);
                    (id.clone(), samples)
                });
                launches.push(Launch {
                    launch,
                    session: format!("{}-{session}", self.name),
                    started: format!("2026-11-30T0{session}:{launch:02}:00Z"),
                    order_seed: launch,
                    device_before: DeviceState::default(),
                    device_after: DeviceState::default(),
                    samples: samples.collect(),
                });
            }
        }
        Baseline {
            manifest: self.manifest(&ids, launches.len() as u64),
            launches,
        }
    }

    /// Writes the baseline into a folder of its name, and returns that folder.
    pub fn write(&self, baselines: &Path) -> PathBuf {
        write(&mut self.baseline(), self.name, baselines)
    }

    fn manifest(&self, ids: &BTreeMap<String, f64>, launches: u64) -> Manifest {
        let host_bound = ids.iter().filter(|(_, time_us)| **time_us < HOST_BOUND_BELOW_US);
        let observations = ids.keys().filter_map(|id| Some((id.clone(), observation(id)?)));
        Manifest {
            format: 1,
            name: self.name.to_owned(),
            created: String::from("2026-11-30T02:00:00Z"),
            complete: true,
            environment: self.environment(),
            settings: Settings {
                warm_up_time_s: 0.02,
                measurement_time_s: 0.08,
                sample_size: SAMPLES as u64,
                loop_time_max_s: 1.0,
                probes: true,
                ..Settings::default()
            },
            benchmarks: ids.keys().cloned().collect(),
            host_bound: host_bound.map(|(id, _)| id.clone()).collect(),
            skipped: vec![Skipped {
                id: String::from("graph_replay/sync,graph/4KiB"),
                reason: String::from("cuMemAlloc_v2 failed: 900 (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)"),
            }],
            launches,
            observations: observations.collect(),
            sha256: BTreeMap::new(),
        }
    }

    fn environment(&self) -> Environment {
        Environment {
            device: DeviceFacts {
                name: String::from("NVIDIA H200"),
                uuid: Some(String::from("GPU-5d1f0c52-0000-0000-0000-000000000000")),
                compute_capability: Some(String::from("9.0")),
                memory_bytes: Some(150_754_820_096),
                driver_version: Some(self.driver.to_owned()),
                cuda_version: String::from("13.0"),
                memory_pools: true,
                managed_memory: true,
                virtual_memory_management: true,
            },
            gpu: Some(GpuFacts {
                kernel_driver_version: Some(self.driver.to_owned()),
                ecc_enabled: Some(true),
                mig_enabled: Some(false),
                persistence_mode: Some(true),
                power_limit_w: Some(700),
                sm_clock_max_mhz: Some(1980),
                memory_clock_max_mhz: Some(3201),
                sm_clock_mhz: Some(1980),
                temperature_c: Some(42),
                other_processes: Some(0),
            }),
            host: HostFacts {
                os: Some(String::from("Debian GNU/Linux 12 (bookworm)")),
                kernel: Some(String::from("6.1.0-28-cloud-amd64")),
                cpu: Some(String::from("Intel(R) Xeon(R) Platinum 8481C")),
                cores: Some(16),
                virtualised: Some(true),
            },
            build: BuildFacts {
                version: String::from("0.1.0"),
                commit: Some(String::from("bc6322b")),
                rustc: Some(String::from("1.95.0")),
                profile: String::from("release"),
                case_definitions: 1,
            },
            toolkit: ToolkitFacts {
                ptx_origin: String::from("committed PTX"),
                ptx_isa: Some(String::from("6.3")),
                ptx_sha256: "0".repeat(64),
            },
            pool: Some(PoolFacts {
                release_threshold_bytes: 0,
                reuse_follow_event_dependencies: true,
                reuse_allow_opportunistic: true,
                reuse_allow_internal_dependencies: true,
            }),
        }
    }
}

pub fn write(baseline: &mut Baseline, name: &str, baselines: &Path) -> PathBuf {
    let name = name.parse().expect("a name");
    baseline
        .write(baselines, &name, Existing::Replace)
        .expect("a folder that takes it")
}

fn samples(random: &mut StdRng, time_us: f64, session_speed: f64) -> Samples {
    let host_bound = time_us < HOST_BOUND_BELOW_US;
    let launch_speed = if host_bound {
        let slow = random.random_range(0.0..1.0) < 0.08;
        session_speed * (1.0 + random.random_range(-0.02..0.02) + if slow { 0.3 } else { 0.0 })
    } else {
        1.0 + random.random_range(-0.003..0.003)
    };
    let probe_speed = if host_bound { launch_speed } else { session_speed };
    // What no probe sees.
    let unseen = random.random_range(-1.0..1.0_f64).powi(3) * if host_bound { 0.04 } else { 0.004 };
    let times_ns = (0..SAMPLES).map(|_| {
        let weather = random.random_range(0.0_f64..1.0).powi(3) * 0.05;
        time_us * 1e3 * ITERATIONS * launch_speed * (1.0 + unseen) * (1.0 + weather)
    });
    let times_ns = times_ns.collect();
    let syscall = (0..SAMPLES).map(|_| 5e4 * probe_speed * (1.0 + random.random_range(-0.005..0.005)));
    Samples {
        iters: vec![ITERATIONS; SAMPLES],
        times_ns,
        probe_ns: Some(ProbeTimes {
            syscall: syscall.collect(),
            ..ProbeTimes::default()
        }),
        flags: Vec::new(),
    }
}

const SIZES: [(&str, u64); 6] = [
    ("4KiB", 4 << 10),
    ("64KiB", 64 << 10),
    ("1MiB", 1 << 20),
    ("8MiB", 8 << 20),
    ("32MiB", 32 << 20),
    ("256MiB", 256 << 20),
];

fn size_bytes(value: &str) -> u64 {
    SIZES
        .iter()
        .find(|(name, _)| *name == value)
        .map_or(0, |(_, bytes)| *bytes)
}

/// µs an iteration of the scratch loop on an H200, by size.
const SCRATCH_LOOP: [(&str, [f64; 6]); 7] = [
    ("hoisted", [6.7, 6.5, 6.4, 9.74, 45.1, 314.6]),
    ("sync", [14.9, 15.2, 97.3, 114.0, 139.7, 548.4]),
    ("stream_ordered", [8.36, 7.9, 7.3, 10.9, 45.7, 316.4]),
    ("owned_pool", [8.43, 8.2, 9.36, 10.9, 45.7, 316.4]),
    ("arena", [7.14, 7.1, 7.08, 9.76, 45.1, 314.7]),
    ("managed", [75.1, 90.0, 208.3, 633.5, 2126.9, 14664.3]),
    ("vmm", [69.3, 70.1, 70.4, 79.6, 157.9, 568.9]),
];
const THRESHOLD_SIZES: [&str; 4] = ["1MiB", "8MiB", "32MiB", "256MiB"];
const THRESHOLDS: [(&str, [f64; 4]); 5] = [
    ("hoisted", [14.0, 16.5, 50.5, 321.1]),
    ("threshold=0", [131.4, 103.3, 148.4, 881.6]),
    ("threshold=half", [123.6, 105.6, 146.4, 595.4]),
    ("threshold=size", [103.4, 107.8, 53.6, 324.4]),
    ("threshold=max", [15.4, 19.9, 53.8, 324.5]),
];
const VARIABLE: [(&str, [f64; 4]); 7] = [
    ("hoisted", [6.73, 6.55, 6.25, 11.2]),
    ("sync", [15.1, 30.4, 73.5, 84.2]),
    ("stream_ordered", [7.53, 7.51, 7.24, 12.3]),
    ("owned_pool", [7.6, 7.6, 7.3, 12.4]),
    ("arena", [6.66, 6.6, 6.43, 11.3]),
    ("managed", [76.0, 110.0, 260.0, 900.0]),
    ("vmm", [69.5, 70.2, 73.0, 90.0]),
];

/// The ids of the suite and their times in µs.
pub fn ids() -> BTreeMap<String, f64> {
    let mut ids = BTreeMap::new();
    let mut add = |id: String, time_us: f64| ids.insert(id, time_us);
    add(String::from("scratch_loop/noop/4KiB"), 0.006);
    for (strategy, times) in SCRATCH_LOOP {
        for ((size, _), time) in SIZES.iter().zip(times) {
            add(format!("scratch_loop/{strategy}/{size}"), time);
        }
    }
    for (function, times) in THRESHOLDS {
        for (size, time) in THRESHOLD_SIZES.iter().zip(times) {
            add(format!("release_threshold/{function}/{size}"), time);
        }
    }
    for (strategy, times) in VARIABLE {
        for (size, time) in ["64KiB", "1MiB", "8MiB", "64MiB"].iter().zip(times) {
            add(format!("variable_size/{strategy}/{size}"), time);
        }
    }
    for (strategy, times) in [SCRATCH_LOOP[0], SCRATCH_LOOP[2]] {
        for ((size, bytes), time) in SIZES.iter().zip(times) {
            add(format!("graph_replay/{strategy},eager/{size}"), time);
            let saved = if *bytes < 8 << 20 { 5.0 } else { 1.5 };
            add(format!("graph_replay/{strategy},graph/{size}"), time - saved);
        }
    }
    for (source, factor) in [("hoisted", 1.0), ("shared_pool", 1.25), ("own_pools", 1.22)] {
        for (size, time) in [("64KiB", 6.5), ("4MiB", 8.0)] {
            for streams in [1, 2, 4, 8] {
                add(
                    format!("streams/{source},{size}/streams={streams}"),
                    time * factor * f64::from(streams),
                );
            }
        }
    }
    for policy in ["none", "follow_event", "opportunistic", "internal", "all"] {
        for event in ["event", "no_event"] {
            for (size, time) in [("1MiB", 31.0), ("32MiB", 92.0)] {
                let grows = if policy == "none" { 2.0 } else { 1.0 };
                add(
                    format!("cross_stream_reuse/policy={policy},{event}/{size}"),
                    time * grows,
                );
            }
        }
    }
    call_latency(&mut add);
    ids
}

fn call_latency(add: &mut impl FnMut(String, f64) -> Option<f64>) {
    for (call, time) in [
        ("pool_create", 2.1),
        ("pool_destroy", 1.4),
        ("trim", 0.4),
        ("attribute_set", 0.2),
    ] {
        add(format!("call_latency/{call}/0B"), time);
    }
    let calls = [
        ("alloc,plain", [4.1, 52.0, 61.0, 130.0]),
        ("alloc,threshold=0", [1.2, 48.0, 66.0, 310.0]),
        ("alloc,threshold=max", [0.6, 0.6, 0.6, 0.7]),
        ("alloc,first", [55.0, 56.0, 64.0, 300.0]),
        ("alloc,growth", [50.0, 51.0, 60.0, 290.0]),
        ("free,plain", [3.2, 44.0, 70.0, 160.0]),
        ("free,threshold=0", [0.8, 0.8, 0.8, 0.9]),
        ("free,threshold=max", [0.5, 0.5, 0.5, 0.5]),
        ("sync,threshold=0", [38.0, 41.0, 62.0, 270.0]),
        ("sync,threshold=max", [3.1, 3.1, 3.2, 3.2]),
        ("pool_destroy", [40.0, 42.0, 64.0, 270.0]),
        ("trim", [36.0, 38.0, 60.0, 266.0]),
    ];
    for (call, times) in calls {
        for (size, time) in ["4KiB", "1MiB", "32MiB", "256MiB"].iter().zip(times) {
            add(format!("call_latency/{call}/{size}"), time);
        }
    }
}

/// What the pool holds after a synchronise: it grows in steps of 32 MiB, and keeps a step only whole.
fn observation(id: &str) -> Option<Observation> {
    let (function, value) = id.strip_prefix("release_threshold/")?.split_once('/')?;
    let bytes = size_bytes(value);
    let step = 32_u64 << 20;
    let grown = bytes.div_ceil(step) * step;
    let after_synchronize_bytes = match function {
        "threshold=0" => 0,
        "threshold=half" => bytes / 2 / step * step,
        "threshold=size" => bytes / step * step,
        "threshold=max" => grown,
        _ => return None,
    };
    Some(Observation {
        reserved: Some(Reserved {
            after_synchronize_bytes,
            high_bytes: grown,
            used_high_bytes: bytes,
        }),
        ..Observation::default()
    })
}
