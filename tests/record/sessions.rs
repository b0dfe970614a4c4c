//! What a recording leaves: a baseline, and another session of it.

use super::stand_in::{IDS, OTHER};
use super::support::{Place, refusal, run, stderr, stdout, succeed};
use std::collections::BTreeSet;
use std::fs;

const TWO: &str = "/(hoisted|sync)/4KiB";

#[test]
fn a_recording_is_read_back_and_goes_on_with_another_session() {
    let place = Place::with_scratch_loop();
    let output = succeed(&mut place.record(&["--launches", "2", "--filter", TWO, "--turns", "5"]));
    let text = stderr(&output);
    assert!(
        text.starts_with("poolbench: POOLBENCH_DEVICE=host: measuring the host device; these are not GPU numbers\n"),
        "{text}"
    );
    assert!(text.contains("launch 2 of 2 done"), "{text}");
    assert!(
        stdout(&output).starts_with("criterion-baselines/host: 2 benchmarks"),
        "{}",
        stdout(&output)
    );
    let baseline = place.baseline("host");
    let ids = ["scratch_loop/hoisted/4KiB", "scratch_loop/sync/4KiB"];
    assert_eq!(baseline.manifest.benchmarks, ids);
    assert_eq!(baseline.manifest.environment.device.name, "host");
    assert_eq!(baseline.manifest.settings.filter.as_deref(), Some(TWO));
    for launch in &baseline.launches {
        for samples in launch.samples.values() {
            let probes = samples.probe_ns.as_ref().expect("probes");
            assert_eq!((samples.times_ns.len(), probes.syscall.len()), (10, 10));
        }
    }
    let seeds: BTreeSet<u64> = baseline.launches.iter().map(|launch| launch.order_seed).collect();
    assert_eq!(seeds.len(), 2, "each launch has its own order");
    assert!(
        !place.recording("host").exists(),
        "a finished recording is only its baseline"
    );
    let left = fs::read_dir(place.path().join("tmp")).expect("the folder").count();
    assert_eq!(left, 0, "no temporary folder is left");

    // The settings of the second session are those of the first, without being given again.
    let text = stdout(&output);
    let next = text.lines().last().expect("what to do next");
    assert!(next.starts_with("next, an hour or more from now"), "{next}");
    let line = next.rsplit_once(": ").expect("a command").1;
    succeed(&mut place.paste(&format!("`{line}`").replace("--launches 2", "--launches 1")));
    let both = place.baseline("host");
    assert_eq!(both.launches[..2], baseline.launches, "the first session is as it was");
    assert_eq!(both.launches.len(), 3);
    assert_ne!(both.launches[2].session, both.launches[0].session);
    assert_eq!(both.manifest.benchmarks, ids);

    let taken = refusal(&mut place.record(&["--launches", "1"]), 3);
    assert!(
        taken.contains("there is a baseline of this name; use --append, --replace"),
        "{taken}"
    );
    assert_eq!(place.baseline("host"), both);
    succeed(&mut place.record(&["--replace", "--launches", "1", "--filter", TWO]));
    assert_eq!(place.baseline("host").launches.len(), 1);
}

#[test]
fn the_first_launch_decides_what_is_measured_and_what_the_host_bounds() {
    let place = Place::with_stand_ins();
    let output = succeed(place.record(&["--launches", "3"]).env("STAND_IN_SKIPS_AT", "1"));
    assert!(stdout(&output).contains("1 skipped"), "{}", stdout(&output));
    let baseline = place.baseline("stand-in_1.0_cuda13.0");
    assert_eq!(baseline.manifest.benchmarks, [IDS[0], IDS[2], OTHER]);
    let skip = &baseline.manifest.skipped[..];
    assert_eq!(skip.len(), 1);
    assert_eq!(skip[0].id, IDS[1]);
    assert_eq!(skip[0].reason, "needs more memory than is free");
    // 10 ns of the device are below half of 1000 ns, and not of 15 ns.
    assert_eq!(baseline.manifest.host_bound, [IDS[2], OTHER]);
    // Every case at first, with device times; then the three, without; both executables in one order.
    let starts: Vec<Vec<String>> = place
        .starts("first")
        .iter()
        .map(|start| start.split(' ').map(str::to_owned).collect())
        .collect();
    let asked: Vec<(&str, &str)> = starts
        .iter()
        .map(|start| (start[2].as_str(), start[3].as_str()))
        .collect();
    assert_eq!(asked, [("0", "true"), ("2", "false"), ("2", "false")]);
    let seeds: Vec<u64> = starts.iter().map(|start| start[1].parse().expect("a seed")).collect();
    let recorded: Vec<u64> = baseline.launches.iter().map(|launch| launch.order_seed).collect();
    assert_eq!(seeds, recorded);
}

/// One launch that skips a benchmark would take it from all the others.
#[test]
fn what_was_measured_before_is_not_lost_to_a_launch_that_skips_it() {
    let place = Place::with_stand_ins();
    let record = |arguments: &[&str]| place.record(&[&["--name", "ours"], arguments].concat());
    // Once is repeated at once: the second launch starts `first` twice.
    succeed(record(&["--launches", "2"]).env("STAND_IN_SKIPS_AT", "2"));
    let before = place.baseline("ours");
    assert_eq!(before.manifest.benchmarks, [IDS[0], IDS[1], IDS[2], OTHER]);
    assert_eq!(place.starts("first").len(), 3);
    // Another session neither shortens what is there, nor leaves a recording that cannot end.
    let lost = refusal(
        record(&["--append", "--launches", "2"]).env("STAND_IN_SKIPS_FROM", "4"),
        3,
    );
    assert!(
        lost.contains("ours: what was measured before was skipped now, so this launch is not kept")
            && lost.contains("first/slow/4KiB: needs more memory than is free"),
        "{lost}"
    );
    assert!(!place.recording("ours").exists());
    assert_eq!(place.baseline("ours"), before);
    // Later than at first, what is there can go on.
    let lost = refusal(
        record(&["--append", "--launches", "2"]).env("STAND_IN_SKIPS_FROM", "6"),
        3,
    );
    assert!(lost.contains("1 of 2 launches is kept"), "{lost}");
    succeed(&mut record(&["--resume"]));
    let both = place.baseline("ours");
    assert_eq!((both.launches.len(), both.manifest.benchmarks.len()), (4, 4));
}

#[test]
fn another_session_must_be_of_the_same_measurement() {
    let place = Place::with_stand_ins();
    let missing = refusal(&mut place.record(&["--append", "--name", "ours"]), 3);
    assert!(
        missing.contains("criterion-baselines/ours: no such baseline"),
        "{missing}"
    );
    let record = |arguments: &[&str]| {
        let mut command = place.record(arguments);
        command.env("STAND_IN_CPU", "Ours");
        command
    };
    succeed(&mut record(&["--name", "ours", "--launches", "2"]));
    let before = place.baseline("ours");
    let append = ["--name", "ours", "--append", "--launches", "1"];
    let other = refusal(record(&append).env("STAND_IN_CPU", "Theirs"), 3);
    assert!(
        other.contains(r#"host.cpu: "Ours" in the baseline, "Theirs" here"#),
        "{other}"
    );
    let other = refusal(record(&append).env("STAND_IN_CHANGES_AT", "0"), 3);
    assert!(
        other.contains(r#"device.driver_version: "1.0" in the baseline, "2.0" here"#),
        "{other}"
    );
    let settings = [&append[..], &["--sample-size", "20", "--filter", "fast"]].concat();
    let other = refusal(&mut record(&settings), 3);
    assert!(other.contains("--sample-size 20, recorded with 10"), "{other}");
    assert!(other.contains(r#"--filter "fast", recorded with none"#), "{other}");
    let long = refusal(&mut record(&["--name", "ours", "--append", "--launches", "4095"]), 2);
    assert!(
        long.contains("ours holds 2 launches, and a baseline holds 4096 at most: 4095 more do not fit"),
        "{long}"
    );
    assert_eq!(place.baseline("ours"), before);
    // What a driver function was made to do is part of what was measured.
    let manifest = place.path().join("criterion-baselines/ours/manifest.json");
    let plain = fs::read_to_string(&manifest).expect("it is there");
    let faulty = plain.replace(
        "\"settings\": {",
        "\"settings\": { \"injected_fault\": \"cuInit=delay:5us\",",
    );
    assert_ne!(faulty, plain);
    fs::write(&manifest, faulty).expect("it can be written");
    let other = refusal(&mut record(&append), 3);
    assert!(
        other.contains(r#"injected fault: "cuInit=delay:5us" in the baseline, none here"#),
        "{other}"
    );
}

#[test]
fn a_filter_that_matches_nothing_records_nothing() {
    let place = Place::with_scratch_loop();
    let output = run(&mut place.record(&["--filter", "no-such-benchmark", "--launches", "2"]));
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(
        stderr(&output).ends_with("poolbench: --filter \"no-such-benchmark\" matches no benchmark\n"),
        "{}",
        stderr(&output)
    );
    assert!(!place.has_baselines() && !place.recording("host").exists());
}
