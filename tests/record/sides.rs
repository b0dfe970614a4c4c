//! Two sides in alternating launches of one session.

use super::stand_in::IDS;
use super::support::{Place, refusal, run, stderr, stdout, succeed};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

#[test]
fn two_sides_share_a_session_and_one_order_of_launches() {
    let place = Place::with_scratch_loop();
    let output = succeed(&mut place.record(&[
        "--launches",
        "2",
        "--filter",
        "hoisted/4KiB",
        "--side",
        "a",
        "--side",
        "b",
    ]));
    assert!(
        stdout(&output).contains("next: ") && stdout(&output).ends_with("poolbench compare host-a host-b\n"),
        "{}",
        stdout(&output)
    );
    let sides = [place.baseline("host-a"), place.baseline("host-b")];
    for (side, label) in sides.iter().zip(["a", "b"]) {
        assert_eq!(side.manifest.settings.label.as_deref(), Some(label));
        assert_eq!(side.manifest.benchmarks, ["scratch_loop/hoisted/4KiB"]);
    }
    let launches: Vec<_> = sides.iter().flat_map(|side| &side.launches).collect();
    let sessions: BTreeSet<&str> = launches.iter().map(|launch| launch.session.as_str()).collect();
    assert_eq!(sessions.len(), 1);
    // Both sides count in one order, a pair after the other, and a pair has one order of cases.
    let order: BTreeSet<u64> = launches.iter().map(|launch| launch.launch).collect();
    assert_eq!(order, (0..4).collect());
    for (first, second) in sides[0].launches.iter().zip(&sides[1].launches) {
        assert_eq!(first.launch / 2, second.launch / 2);
        assert_eq!(first.order_seed, second.order_seed);
    }
}

#[test]
fn each_side_binds_its_own_library() {
    let place = Place::with_stand_ins();
    let libraries = ["--libcuda", "old=/one", "--libcuda", "new=/two"];
    let record = |arguments: &[&str]| {
        let mut command = place.record(&[&libraries[..], arguments].concat());
        command.env_remove("POOLBENCH_DEVICE");
        command
    };
    let last = refusal(record(&["--launches", "4"]).env("STAND_IN_FAILS_AT", "6"), 3);
    assert!(last.contains("5 of 8 launches are kept"), "{last}");
    let last = refusal(&mut place.record(&["--resume", "--side", "old", "--side", "new"]), 3);
    assert!(last.contains("other sides (--libcuda) than it began with"), "{last}");
    // The plan remembers the libraries.
    succeed(place.record(&["--resume"]).env_remove("POOLBENCH_DEVICE"));
    let mut starts = place.starts("first");
    // The failed start left no launch.
    starts.remove(5);
    let bound: Vec<&str> = starts.iter().filter_map(|start| start.split(' ').next()).collect();
    let mut expected = vec![""; 8];
    for (name, library) in [("stand-in-old", "/one"), ("stand-in-new", "/two")] {
        let baseline = place.baseline(name);
        assert_eq!(baseline.launches.len(), 4);
        assert_eq!(
            baseline.manifest.environment.device.driver_version.as_deref(),
            Some(format!("1.0{library}").as_str())
        );
        for launch in &baseline.launches {
            expected[usize::try_from(launch.launch).expect("small")] = library;
        }
    }
    assert_eq!(bound, expected);
    assert!(bound.chunks(2).all(|pair| pair[0] != pair[1]), "{bound:?}");
}

#[test]
fn sides_are_compared_with_each_other_for_the_driver_alone() {
    let place = Place::with_stand_ins();
    // The second side's process of looking is on another machine, as it were.
    let script = "#!/bin/sh\n[ -z \"$POOLBENCH_LIBCUDA\" ] || export STAND_IN_CPU=$POOLBENCH_LIBCUDA\n";
    let scripts = place.path().join("bundle.scripts");
    let executables = ["first", "second"].map(|name| {
        let path = scripts.join(name);
        let text = std::fs::read_to_string(&path).expect("a script");
        std::fs::write(&path, text.replacen("#!/bin/sh\n", script, 1)).expect("a script");
        poolbench::recording::Executable::read(name, path).expect("it is there")
    });
    poolbench::recording::Bundle::write(place.executables(), &executables, None).expect("an older bundle is replaced");
    let mut command = place.record(&["--libcuda", "old=/one", "--libcuda", "new=/two"]);
    let last = refusal(command.env_remove("POOLBENCH_DEVICE"), 3);
    assert!(
        last.contains("differ in more than the driver") && last.contains("host.cpu"),
        "{last}"
    );
    assert!(!last.contains("driver_version"), "{last}");
    assert!(place.starts("first").is_empty() && !place.has_baselines());
}

const SLOW_SIDE: [&str; 6] = [
    "--side",
    "plain",
    "--side",
    "slow",
    "--fault",
    "slow=cuMemFree_v2=delay:20us",
];

/// What measures the power of a comparison: the same suite with one side's calls made slower.
#[cfg(feature = "fault-injection")]
#[test]
fn a_fault_is_injected_into_its_side_alone_and_recorded() {
    let place = Place::with_scratch_loop();
    let filter = ["--launches", "1", "--filter", "scratch_loop/sync/4KiB"];
    succeed(&mut place.record(&[&SLOW_SIDE[..], &filter].concat()));
    let [plain, slow] = ["host-plain", "host-slow"].map(|name| place.baseline(name));
    assert_eq!(plain.manifest.settings.injected_fault, None);
    assert_eq!(
        slow.manifest.settings.injected_fault.as_deref(),
        Some("cuMemFree_v2=delay:20us")
    );
    // Every iteration frees once, so no sample can be faster than the delay.
    let fastest = |samples: &poolbench::baseline::Samples| {
        let times = samples.times_ns.iter().zip(&samples.iters);
        times
            .map(|(time_ns, iterations)| time_ns / iterations)
            .fold(f64::INFINITY, f64::min)
    };
    assert!(
        slow.launches[0]
            .samples
            .values()
            .all(|samples| fastest(samples) >= 20_000.0)
    );
}

#[cfg(not(feature = "fault-injection"))]
#[test]
fn a_fault_needs_a_poolbench_that_injects_it() {
    let place = Place::with_stand_ins();
    let last = refusal(&mut place.record(&SLOW_SIDE), 2);
    assert!(last.contains("--features fault-injection"), "{last}");
}

/// A driver that answers every start with 803, as one that does not fit the kernel's does.
fn refusing_driver(place: &Place) -> Option<PathBuf> {
    let (source, library) = (place.path().join("driver.c"), place.path().join("libcuda.so.1"));
    let text = "int cuInit(unsigned f) { return 803; }\nint cuDeviceGetCount(int *n) { return 803; }\n";
    std::fs::write(&source, text).expect("a file");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source)
        .status();
    built.is_ok_and(|status| status.success()).then_some(library)
}

#[test]
fn a_library_that_does_not_start_is_named_and_nothing_is_written() {
    let place = Place::with_scratch_loop();
    let record = |library: &str| {
        let mut command = place.record(&["--libcuda", "old=/nonexistent/libcuda.so", "--libcuda"]);
        command.arg(library).env_remove("POOLBENCH_DEVICE");
        run(&mut command)
    };
    let output = record("new=/nonexistent/other.so");
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    assert!(
        stderr(&output).starts_with("poolbench: --libcuda old=/nonexistent/libcuda.so: cannot load")
            && stderr(&output).ends_with("; correct --libcuda\n"),
        "{}",
        stderr(&output)
    );
    let Some(library) = refusing_driver(&place) else {
        println!("SKIPPED: no C compiler to build a refusing driver with");
        return;
    };
    let library = library.display();
    let mut command = place.record(&[
        "--libcuda",
        &format!("old={library}"),
        "--libcuda",
        &format!("new={library}"),
    ]);
    let last = refusal(command.env_remove("POOLBENCH_DEVICE"), 3);
    assert!(
        last.contains("--libcuda old=") && last.contains("cuInit failed: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"),
        "{last}"
    );
    assert!(!place.has_baselines() && !place.path().join("target/poolbench/recordings/host").exists());
}

/// Two baselines that were recorded apart have no settings that would be both's.
#[test]
fn sides_that_were_measured_in_different_ways_get_no_session_together() {
    let place = Place::with_stand_ins();
    for (name, warm_up) in [("n-a", "0.002"), ("n-b", "0.004")] {
        let arguments = ["--name", name, "--launches", "1", "--warm-up-time", warm_up];
        succeed(&mut place.record(&arguments));
    }
    let starts = place.starts("first").len();
    let append = [
        "--name",
        "n",
        "--append",
        "--launches",
        "1",
        "--side",
        "a",
        "--side",
        "b",
    ];
    let last = refusal(&mut place.record(&append), 3);
    assert!(
        last.contains("recorded in different ways")
            && last.ends_with("--name: warm_up_time_s: 0.002 on the first side, 0.004 on the second"),
        "{last}"
    );
    assert_eq!(place.starts("first").len(), starts, "nothing was measured");
    // In the same way they get one.
    succeed(&mut place.record(&["--name", "n-b", "--launches", "1", "--replace"]));
    succeed(&mut place.record(&append));
    assert_eq!(place.baseline("n-b").launches.len(), 2);
}

#[test]
fn a_side_that_is_taken_is_refused_before_either_is_measured() {
    let place = Place::with_stand_ins();
    let sides = ["--name", "n", "--launches", "1", "--side", "a", "--side", "b"];
    succeed(&mut place.record(&sides));
    std::fs::remove_dir_all(place.path().join("criterion-baselines/n-a")).expect("it is there");
    let starts = place.starts("first").len();
    let last = refusal(&mut place.record(&sides), 3);
    assert!(
        last.contains("criterion-baselines/n-b: there is a baseline of this name"),
        "{last}"
    );
    assert_eq!(place.starts("first").len(), starts);
    succeed(&mut place.record(&[&sides[..], &["--replace"]].concat()));
    assert!(place.baseline("n-b").manifest.benchmarks.iter().any(|id| id == IDS[0]));
}
