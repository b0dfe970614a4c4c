//! What a baseline's folder may hold, and that everything else is refused in one line.

use poolbench::baseline::{Baseline, BaselineError, Existing, Launch, Manifest, ProbeTimes, Samples, Settings};
use poolbench::environment::{BuildFacts, DeviceFacts, Environment, HostFacts, ToolkitFacts};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const IDS: [&str; 2] = ["scratch_loop/hoisted/4KiB", "scratch_loop/sync/4KiB"];

fn baseline(launches: u64) -> Baseline {
    let samples = |id: &str| Samples {
        iters: vec![100.0; 10],
        times_ns: (1..=10).map(|n| f64::from(n) * 1e3 + id.len() as f64).collect(),
        probe_ns: Some(ProbeTimes {
            syscall: vec![5e4; 10],
            ..ProbeTimes::default()
        }),
        flags: Vec::new(),
    };
    let launches: Vec<Launch> = (0..launches)
        .map(|launch| Launch {
            launch,
            session: String::from("boot-1"),
            started: String::from("2026-11-30T00:00:00Z"),
            order_seed: launch,
            device_before: Default::default(),
            device_after: Default::default(),
            samples: IDS.map(|id| (id.to_owned(), samples(id))).into(),
        })
        .collect();
    Baseline {
        manifest: Manifest {
            format: 1,
            name: String::from("planted"),
            created: String::from("2026-11-30T00:00:00Z"),
            complete: true,
            environment: Environment {
                device: DeviceFacts::default(),
                gpu: None,
                host: HostFacts::default(),
                build: BuildFacts::default(),
                toolkit: ToolkitFacts::default(),
                pool: None,
            },
            settings: Settings::default(),
            benchmarks: IDS.map(String::from).into(),
            host_bound: vec![IDS[0].to_owned()],
            skipped: Vec::new(),
            launches: launches.len() as u64,
            observations: BTreeMap::new(),
            sha256: BTreeMap::new(),
        },
        launches,
    }
}

fn written(folder: &Path) -> (Baseline, PathBuf) {
    let mut baseline = baseline(3);
    let name = "planted".parse().expect("a name");
    let path = baseline
        .write(folder, &name, Existing::Keep)
        .expect("an empty folder takes it");
    (baseline, path)
}

#[test]
fn what_is_written_is_read_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let (baseline, path) = written(folder.path());
    assert_eq!(Baseline::read(&path).expect("it is whole"), baseline);
    let entries: Vec<_> = fs::read_dir(folder.path()).expect("it is there").collect();
    assert_eq!(entries.len(), 1, "nothing is left beside it");
}

#[test]
fn a_name_that_exists_is_kept_or_replaced_as_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, path) = written(folder.path());
    let name = "planted".parse().expect("a name");
    let mut other = baseline(5);
    let refused = other
        .write(folder.path(), &name, Existing::Keep)
        .expect_err("it exists");
    assert!(matches!(refused, BaselineError::Exists { .. }), "{refused}");
    assert_eq!(Baseline::read(&path).expect("untouched").launches.len(), 3);
    other.write(folder.path(), &name, Existing::Replace).expect("replaced");
    assert_eq!(Baseline::read(&path).expect("whole").launches.len(), 5);
    assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 1);
}

#[test]
fn nothing_is_written_through_a_link() {
    let folder = tempfile::tempdir().expect("a folder");
    let elsewhere = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("planted")).expect("a link");
    for existing in [Existing::Keep, Existing::Replace] {
        let refused = baseline(2).write(folder.path(), &"planted".parse().expect("a name"), existing);
        assert!(matches!(refused, Err(BaselineError::Link { .. })), "{refused:?}");
    }
    assert_eq!(fs::read_dir(elsewhere.path()).expect("it is there").count(), 0);
}

/// Both files cut at every byte, and every byte of them changed: never read as a baseline.
#[test]
fn files_cut_short_or_edited_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, path) = written(folder.path());
    for file in ["launches.jsonl", "manifest.json"] {
        let file = path.join(file);
        let whole = fs::read(&file).expect("it is there");
        // The manifest's last byte is its newline, without which it is as whole as before.
        for length in 0..whole.len() - 1 {
            fs::write(&file, &whole[..length]).expect("it can be written");
            let refused = Baseline::read(&path).expect_err("it is cut short");
            assert_eq!(refused.to_string().lines().count(), 1, "{refused}");
        }
        fs::write(&file, &whole).expect("it can be written");
    }
    let file = path.join("launches.jsonl");
    let whole = fs::read(&file).expect("it is there");
    for index in (0..whole.len()).step_by(7) {
        let mut edited = whole.clone();
        edited[index] ^= 1;
        fs::write(&file, &edited).expect("it can be written");
        assert!(
            matches!(Baseline::read(&path), Err(BaselineError::Hash { .. })),
            "{index}"
        );
    }
}

/// An edit that the hash does not show: whoever writes the file makes the hash anew.
fn refusal_of(edit: impl Fn(&mut Baseline)) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let mut edited = baseline(3);
    edit(&mut edited);
    let path = edited
        .write(folder.path(), &"planted".parse().expect("a name"), Existing::Keep)
        .expect("writing does not check");
    let text = Baseline::read(&path).expect_err("it is no baseline").to_string();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn numbers_that_are_no_measurements_are_refused_with_their_line() {
    for (value, says) in [
        (0.0, "not above zero"),
        (-1.0, "not above zero"),
        (1e300, "cannot be a measurement"),
    ] {
        let text = refusal_of(|edited| {
            edited.launches[1]
                .samples
                .get_mut(IDS[0])
                .expect("it is there")
                .times_ns[3] = value;
        });
        assert!(
            text.contains("launches.jsonl:2: ") && text.contains(IDS[0]) && text.contains(says),
            "{text}"
        );
    }
    // JSON has no NaN; what the writer puts in its place is refused.
    let text = refusal_of(|edited| {
        edited.launches[0]
            .samples
            .get_mut(IDS[1])
            .expect("it is there")
            .times_ns[0] = f64::NAN;
    });
    assert!(text.contains("launches.jsonl:1: "), "{text}");
    let text = refusal_of(|edited| {
        edited.launches[0]
            .samples
            .get_mut(IDS[1])
            .expect("it is there")
            .iters
            .pop();
    });
    assert!(text.contains("9 iteration counts for 10 times"), "{text}");
}

#[test]
fn launches_and_manifest_must_fit() {
    type Edit = fn(&mut Baseline);
    let cases: [(&str, Edit); 7] = [
        ("lacks the benchmark", |edited| {
            edited.launches[2].samples.remove(IDS[1]);
        }),
        ("is not among the benchmarks", |edited| {
            let samples = edited.launches[0].samples[IDS[0]].clone();
            edited.launches[0].samples.insert(String::from("a/b/c"), samples);
        }),
        ("is given twice", |edited| edited.launches[2].launch = 0),
        ("not sorted", |edited| edited.manifest.benchmarks.reverse()),
        ("which is no benchmark", |edited| {
            edited.manifest.host_bound = vec![String::from("a/b/c")]
        }),
        ("format 2", |edited| edited.manifest.format = 2),
        ("not complete", |edited| edited.manifest.complete = false),
    ];
    for (says, edit) in cases {
        let text = refusal_of(edit);
        assert!(text.contains(says), "{text}");
    }
    let text = refusal_of(|edited| edited.launches.clear());
    assert!(text.contains("holds no launch"), "{text}");
}

#[test]
fn an_id_that_is_given_twice_in_a_launch_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, path) = written(folder.path());
    let line = fs::read_to_string(path.join("launches.jsonl")).expect("it is there");
    let twice = line.replacen(IDS[1], IDS[0], 1);
    // The hash is made to fit, so that the parser alone stands against it.
    use sha2::Digest as _;
    let hash = |text: &str| poolbench::baseline::hexadecimal(&sha2::Sha256::digest(text));
    let manifest = fs::read_to_string(path.join("manifest.json")).expect("it is there");
    fs::write(
        path.join("manifest.json"),
        manifest.replace(&hash(&line), &hash(&twice)),
    )
    .expect("it can be written");
    fs::write(path.join("launches.jsonl"), &twice).expect("it can be written");
    let text = Baseline::read(&path).expect_err("an id is given twice").to_string();
    assert!(
        text.contains("launches.jsonl:1: ") && text.contains("is given twice"),
        "{text}"
    );
}
