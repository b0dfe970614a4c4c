//! Bundles for machines without Rust, and what is refused of them.

use super::support::{Place, refusal, stdout, succeed};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// The benches that measure a GPU, sorted: those of the manifest that need no feature.
fn suite_benches() -> Vec<&'static str> {
    let sections = include_str!("../../Cargo.toml").split("\n[[bench]]\n").skip(1);
    let sections = sections.map(|section| section.split("\n[").next().unwrap_or_default());
    let mut names: Vec<&str> = sections
        .filter(|section| !section.contains("required-features"))
        .filter_map(|section| section.split('"').nth(1))
        .collect();
    names.sort_unstable();
    assert!(
        names.contains(&"scratch_loop") && !names.contains(&"trace_reader"),
        "{names:?}"
    );
    names
}

/// Built by cargo as a user's are, though not optimised for release, which would take minutes.
#[test]
fn a_bundle_records_what_cargo_bench_would() {
    let place = Place::with_stand_ins();
    let filter = [
        "--launches",
        "1",
        "--filter",
        "scratch_loop/hoisted/4KiB",
        "--loop-time-max",
        "60",
    ];
    let mut command = place.poolbench(&["bundle", "far/away", "--profile", "dev"]);
    let target = super::common::bench_executable("scratch_loop");
    let target = target.ancestors().nth(3).expect("target/debug/deps/name");
    let output = succeed(
        command
            .env("CARGO_TARGET_DIR", target)
            .env("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR")),
    );
    assert!(
        stdout(&output).contains("far/away/poolbench record --executables far/away"),
        "{}",
        stdout(&output)
    );
    let bundle = place.path().join("far/away");
    let list = fs::read_to_string(bundle.join("bundle.json")).expect("the list");
    let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
    let names: Vec<&str> = list["executables"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    let benches = suite_benches();
    assert_eq!(names, benches);
    let mut files: Vec<String> = fs::read_dir(&bundle)
        .expect("the bundle")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    files.sort();
    let mut expected = [&benches[..], &["bundle.json", "poolbench"]].concat();
    expected.sort_unstable();
    assert_eq!(files, expected);
    let mut command = std::process::Command::new(bundle.join("poolbench"));
    command.args(["record", "--executables", "far/away"]).args(filter);
    command
        .current_dir(place.path())
        .env("POOLBENCH_DEVICE", "host")
        .env_remove("CARGO_TARGET_DIR");
    succeed(&mut command);
    let bundled = place.baseline("host");

    // Without a bundle, cargo builds the same executables.
    let mut command = place.poolbench(&["record", "--profile", "dev", "--name", "built"]);
    command
        .args(filter)
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR"));
    succeed(&mut command);
    let built = place.baseline("built");
    assert_eq!(built.manifest.benchmarks, bundled.manifest.benchmarks);
    assert_eq!(built.manifest.environment.build, bundled.manifest.environment.build);
    let _ = fs::remove_file(target.join("poolbench/recordings/built.lock"));
}

/// Where there is no cargo, what makes a baseline takes the executables that lie beside poolbench.
#[test]
fn a_bundled_poolbench_names_its_own_executables() {
    let place = Place::with_stand_ins();
    fs::copy(env!("CARGO_BIN_EXE_poolbench"), place.executables().join("poolbench")).expect("room");
    let mut list = std::process::Command::new("bundle/poolbench");
    list.arg("list").current_dir(place.path()).env_remove("CARGO_PKG_NAME");
    let said = stdout(&succeed(&mut list));
    let record = said.replace("/poolbench record", "/poolbench record --launches 1 --name n");
    succeed(&mut place.paste(&record));
    assert_eq!(place.baseline("n").launches.len(), 1);
}

#[test]
fn only_a_whole_bundle_is_taken() {
    let place = Place::with_stand_ins();
    let bundle = place.executables();
    let record = |says: &str| {
        let last = refusal(&mut place.record(&["--launches", "1"]), 3);
        assert!(last.contains(says), "{last}");
    };
    let second = bundle.join("second");
    let script = fs::read(&second).expect("a script");
    fs::write(&second, "#!/bin/sh\n").expect("a script");
    record("\"second\" is not the executable that bundle.json lists");
    fs::remove_file(&second).expect("it is there");
    record("lacks the executable \"second\"");
    fs::write(&second, script).expect("a script");
    let third = bundle.join("third");
    fs::write(&third, "#!/bin/sh\n").expect("a script");
    fs::set_permissions(&third, fs::Permissions::from_mode(0o755)).expect("it can be run");
    record("holds the executable \"third\", which bundle.json does not list");
    fs::remove_file(&third).expect("it is there");
    let list = fs::read_to_string(bundle.join("bundle.json")).expect("the list");
    fs::write(bundle.join("bundle.json"), list.replace("\"second\"", "\"../second\"")).expect("a file");
    record("names \"../second\", which is no executable");
    fs::write(
        bundle.join("bundle.json"),
        list.replace("\"format\": 1", "\"format\": 2"),
    )
    .expect("a file");
    record("has format 2, but this poolbench reads format 1");
    fs::write(bundle.join("bundle.json"), &list[..40]).expect("a file");
    record("bundle.json: EOF while parsing");
    fs::remove_file(bundle.join("bundle.json")).expect("it is there");
    record("no bundle (bundle.json: No such file");
    assert!(place.starts("first").is_empty());
}

#[test]
fn a_bundle_goes_only_where_nothing_else_is() {
    let place = Place::with_stand_ins();
    fs::write(place.path().join("log/mine"), "").expect("a file");
    let last = refusal(&mut place.poolbench(&["bundle", "log"]), 3);
    assert!(last.contains("log: holds something else than a bundle"), "{last}");
    std::os::unix::fs::symlink("log", place.path().join("link")).expect("a link");
    let last = refusal(&mut place.poolbench(&["bundle", "link"]), 3);
    assert!(last.contains("link: is a symbolic link"), "{last}");
    // Nothing can be built outside of the package's folder.
    let mut command = place.poolbench(&["bundle", "new"]);
    let last = refusal(command.env_remove("CARGO_MANIFEST_DIR"), 3);
    assert!(last.contains("is not poolbench's folder"), "{last}");
    assert!(!place.path().join("new").exists());
}
