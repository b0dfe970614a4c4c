//! The sweep: every driver call that a run makes fails once, in a run of its own, with each code, for
//! every strategy and workload on the host device. Each run must end with one line that names call,
//! code and case, or skip the case and measure the next; with no panic, no hang, no number for the case
//! that failed, and nothing live on the device.
//!
//! `POOLBENCH_SWEEP=full` makes every call up to the 50th fail, and later ones at growing distances;
//! without it, the first two and the last of each function.
//!
//! Runs share a process, and go through the suite as an executable's do, in Criterion's test mode. The
//! parts of the sweep are processes, one a processor, so that a hang or a crash is seen from outside.

mod cases;
mod plan;
mod shard;

use plan::Extent;
use shard::{MARK, Tally};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

const SHARD: &str = "POOLBENCH_SWEEP_SHARD";
/// Kinds of wrong runs that are shown, and of each kind so many.
const SHOWN: usize = 60;

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--list") {
        println!("fault_sweep: test\n\n1 test, 0 benchmarks");
        return ExitCode::SUCCESS;
    }
    let extent = match std::env::var("POOLBENCH_SWEEP").unwrap_or_default().as_str() {
        "full" => Extent::Full,
        _ => Extent::Short,
    };
    match std::env::var(SHARD) {
        Ok(shard) => child(&shard, extent),
        Err(_) => parent(extent),
    }
}

/// `INDEX/N/FOLDER`: this part of so many, and where its results go.
fn child(shard: &str, extent: Extent) -> ExitCode {
    let mut parts = shard.splitn(3, '/');
    let mut number = || parts.next().and_then(|part| part.parse::<usize>().ok());
    let (Some(index), Some(n)) = (number(), number()) else {
        eprintln!("{SHARD}={shard} is not INDEX/N/FOLDER");
        return ExitCode::from(2);
    };
    let folder = Path::new(parts.next().unwrap_or("."));
    let tally = shard::run(index, n, extent, &folder.join("criterion"));
    let text = serde_json::to_vec(&tally).expect("a tally is JSON");
    fs::write(folder.join("tally.json"), text).expect("the folder takes a file");
    ExitCode::SUCCESS
}

fn start(index: usize, n: usize, folder: &Path) -> Child {
    fs::create_dir_all(folder).expect("a temporary folder takes folders");
    let stderr = File::create(folder.join("stderr")).expect("the folder takes a file");
    Command::new(std::env::current_exe().expect("a test knows its executable"))
        .arg("--test")
        .env(SHARD, format!("{index}/{n}/{}", folder.display()))
        .env("POOLBENCH_DEVICE", "host")
        .env("POOLBENCH_HOST_MEMORY_MIB", "1024")
        .env("CRITERION_HOME", folder.join("criterion"))
        .env_remove("POOLBENCH_FAULT")
        .env_remove("POOLBENCH_ORDER_SEED")
        .env_remove("POOLBENCH_API_SUMMARY")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .expect("the test starts itself")
}

fn parent(extent: Extent) -> ExitCode {
    let started = Instant::now();
    let n = std::thread::available_parallelism().map_or(1, usize::from);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let parts: Vec<_> = (0..n).map(|index| folder.path().join(index.to_string())).collect();
    let children: Vec<Child> = parts
        .iter()
        .enumerate()
        .map(|(index, part)| start(index, n, part))
        .collect();
    let mut sum = Tally::default();
    for (part, mut child) in parts.iter().zip(children) {
        let status = child.wait().expect("the part ends");
        let (last, strays) = strays(&fs::read_to_string(part.join("stderr")).unwrap_or_default());
        if !status.success() {
            sum.wrong.push(format!("{last}: the process ends: {status}"));
        }
        sum.wrong.extend(strays);
        let tally = fs::read(part.join("tally.json")).unwrap_or_default();
        let tally: Tally = serde_json::from_slice(&tally).unwrap_or_default();
        sum.runs += tally.runs;
        sum.failed += tally.failed;
        sum.skipped += tally.skipped;
        sum.cases += tally.cases;
        sum.functions.extend(tally.functions);
        sum.wrong.extend(tally.wrong);
    }
    report(&sum, extent, started)
}

/// The last run that began, and the lines that none should have written.
fn strays(stderr: &str) -> (String, Vec<String>) {
    const EXPECTED: [&str; 3] = [
        "poolbench: POOLBENCH_DEVICE=host: measuring",
        "poolbench: skipped ",
        // Criterion's own, once.
        "Gnuplot not found, using plotters backend",
    ];
    let (mut run, mut strays) = (String::new(), Vec::new());
    for line in stderr.lines() {
        if let Some(name) = line.strip_prefix(MARK) {
            name.clone_into(&mut run);
        } else if !EXPECTED.iter().any(|expected| line.starts_with(expected)) {
            strays.push(format!("{run}: writes {line:?}"));
        }
    }
    (run, strays)
}

fn report(sum: &Tally, extent: Extent, started: Instant) -> ExitCode {
    for wrong in sum.wrong.iter().take(SHOWN) {
        println!("WRONG {wrong}");
    }
    if sum.wrong.len() > SHOWN {
        println!("and {} more", sum.wrong.len() - SHOWN);
    }
    println!(
        "fault_sweep ({extent:?}): {} runs over {} cases, in which one of {} driver functions failed: {} ended with a \
         failure, {} skipped the case and measured the next; {} went wrong ({:.0} s)",
        sum.runs,
        sum.cases,
        sum.functions.len(),
        sum.failed,
        sum.skipped,
        sum.wrong.len(),
        started.elapsed().as_secs_f64()
    );
    if sum.wrong.is_empty() && sum.runs > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
