//! A bench executable that takes no time: this test executable, started again through a script. What it
//! "measures" follows from its environment, and it writes down how often it was started.

use poolbench::baseline::{ProcessRecord, RecordRequest, Samples, Skipped};
use poolbench::environment::{DeviceFacts, Environment, HostFacts};
use poolbench::recording::{Bundle, Executable};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The ids of the stand-in named `first`, whose device time is 10 ns an iteration.
pub const IDS: [&str; 3] = ["first/fast/4KiB", "first/slow/4KiB", "first/wide/4KiB"];
/// The only id of the stand-in named `second`.
pub const OTHER: &str = "second/only/4KiB";

/// Writes a bundle of the two stand-ins.
pub fn bundle(folder: &Path) {
    let scripts = folder.with_extension("scripts");
    fs::create_dir_all(&scripts).expect("a folder");
    let own = std::env::current_exe().expect("this test");
    let executables = ["first", "second"].map(|name| {
        let path = scripts.join(name);
        let script = format!(
            "#!/bin/sh\nSTAND_IN={name} exec '{}' --exact stand_in::process --nocapture\n",
            own.display()
        );
        fs::write(&path, script).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a script can be run");
        Executable::read(name, path).expect("it was just written")
    });
    Bundle::write(folder, &executables, None).expect("a bundle");
}

/// A number that the environment gives to all stand-ins of a recording.
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The stand-in itself. Without a request it is no test of anything.
#[test]
fn process() {
    let (Some(request), Ok(bench)) = (std::env::var_os(RecordRequest::VARIABLE), std::env::var("STAND_IN")) else {
        return;
    };
    let request = fs::read(request).expect("the request");
    let request: RecordRequest = serde_json::from_slice(&request).expect("its format");
    eprintln!("poolbench: a stand-in");
    // Processes that only look at the machine do not count.
    let measures = request.only.as_ref().is_none_or(|only| !only.is_empty());
    let turn = if measures { count(&bench, &request) } else { 0 };
    if let Some(pause) = number("STAND_IN_PAUSE_MS").filter(|_| measures) {
        std::thread::sleep(std::time::Duration::from_millis(pause));
    }
    if number("STAND_IN_HANGS_AT").is_some_and(|at| at == turn) && bench == "first" {
        eprintln!("Benchmarking {}: Collecting 10 samples in estimated 10 ms", IDS[1]);
        std::thread::sleep(std::time::Duration::from_secs(3600));
    }
    if let Some(folder) = std::env::var_os("STAND_IN_BUILT_ANEW").filter(|_| measures && bench == "first") {
        // As cargo does: another file in the place of the first.
        let path = Path::new(&folder).join("second");
        let built = path.with_extension("built");
        fs::copy(&path, &built).expect("a copy");
        fs::rename(&built, &path).expect("its place");
    }
    if number("STAND_IN_FAILS_AT").is_some_and(|at| at == turn) && bench == "first" {
        eprintln!("poolbench: first/fast/4KiB: cuMemAllocAsync failed: CUDA_ERROR_ILLEGAL_ADDRESS (700)");
        std::process::exit(3);
    }
    let record = record(&bench, &request, turn);
    fs::write(&request.output, serde_json::to_vec(&record).expect("JSON")).expect("the record");
}

/// Writes down the start, and returns how many starts of this executable came before, from 1.
fn count(bench: &str, request: &RecordRequest) -> u64 {
    let path = Path::new(&std::env::var_os("STAND_IN_LOG").expect("a folder")).join(bench);
    let mut file = fs::File::options()
        .create(true)
        .append(true)
        .open(&path)
        .expect("the log");
    let side = std::env::var("POOLBENCH_LIBCUDA").unwrap_or_else(|_| String::from("-"));
    let only = request.only.as_ref().map_or(0, std::collections::BTreeSet::len);
    let line = format!("{side} {} {only} {}\n", request.order_seed, request.device_times);
    file.write_all(line.as_bytes()).expect("the log");
    fs::read_to_string(&path).expect("the log").lines().count() as u64
}

fn record(bench: &str, request: &RecordRequest, turn: u64) -> ProcessRecord {
    let mut record = ProcessRecord {
        bench: bench.to_owned(),
        environment: environment(turn),
        samples: BTreeMap::new(),
        samples_per_turn: BTreeMap::new(),
        samples_enough: BTreeMap::new(),
        device_time_ns: BTreeMap::new(),
        observations: BTreeMap::new(),
        skipped: Vec::new(),
    };
    let ids: &[&str] = if bench == "first" { &IDS } else { &[OTHER] };
    for id in ids {
        if request.only.as_ref().is_some_and(|only| !only.contains(*id)) {
            continue;
        }
        let skips = number("STAND_IN_SKIPS_FROM").is_some_and(|from| turn >= from)
            || number("STAND_IN_SKIPS_AT").is_some_and(|at| turn == at);
        if skips && *id == IDS[1] {
            record.skipped.push(Skipped {
                id: (*id).to_owned(),
                reason: String::from("needs more memory than is free"),
            });
            continue;
        }
        let flagged = number("STAND_IN_FLAGGED_UNTIL").is_some_and(|until| turn <= until) && *id == IDS[0];
        record.samples.insert((*id).to_owned(), samples(id, turn, flagged));
        if request.device_times {
            record.device_time_ns.insert((*id).to_owned(), 10.0);
        }
    }
    record
}

/// 15 ns an iteration for the fast one, of which the device's 10 ns are more than half, and 1000 ns for
/// the others. The total of each sample tells the turn.
fn samples(id: &str, turn: u64, flagged: bool) -> Samples {
    let time_ns = if id == IDS[0] { 15.0 } else { 1000.0 };
    Samples {
        iters: vec![100.0; 10],
        times_ns: (0..10u32)
            .map(|n| 100.0 * time_ns + f64::from(n) + turn as f64 / 1024.0)
            .collect(),
        probe_ns: None,
        flags: if flagged {
            vec![String::from("throttled")]
        } else {
            Vec::new()
        },
    }
}

fn environment(turn: u64) -> Environment {
    let library = std::env::var("POOLBENCH_LIBCUDA").unwrap_or_default();
    let changed = number("STAND_IN_CHANGES_AT").is_some_and(|at| turn >= at);
    Environment {
        device: DeviceFacts {
            name: std::env::var("STAND_IN_DEVICE").unwrap_or_else(|_| String::from("Stand-in")),
            driver_version: Some(if changed {
                String::from("2.0")
            } else {
                format!("1.0{library}")
            }),
            cuda_version: String::from("13.0"),
            ..DeviceFacts::default()
        },
        gpu: None,
        host: HostFacts {
            cpu: std::env::var("STAND_IN_CPU").ok(),
            ..HostFacts::default()
        },
        build: Default::default(),
        toolkit: Default::default(),
        pool: None,
    }
}
