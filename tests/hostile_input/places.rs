//! Names, ids and links that would lead elsewhere.

use super::recorded::Desk;
use super::{ESCAPES, ID, harmless, plant, read_by_all};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("it is there");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn names_and_ids_lead_nowhere_else() {
    let desk = Desk::new();
    let desk_names = |desk: &Desk| names(desk.path());
    for id in [
        "../../../out/a/b",
        "/tmp/poolbench-out/b",
        "a/../../../b",
        "a\\..\\b/c/d",
        "a/b/..",
    ] {
        plant(&desk, "old", |(manifest, launches)| {
            manifest["benchmarks"] = json!([id]);
            manifest["skipped"] = json!([{"id": format!("{id}x"), "reason": "../../reason"}]);
            for launch in launches {
                launch["samples"] = json!({id: launch["samples"][ID]});
            }
        });
        let ran = read_by_all(&desk, "old");
        assert!(ran[10].refused(3).contains("nothing was installed"), "{:?}", ran[10]);
        assert_eq!(desk_names(&desk), ["criterion-baselines", "poolbench-old.html"], "{id}");
    }
    for name in [
        "../old",
        "..",
        "criterion-baselines/old",
        "/etc",
        ".partial-1-x",
        ESCAPES,
    ] {
        assert!(
            desk.poolbench(&["install", name])
                .refused(3)
                .contains("is no name of a baseline"),
            "{name}"
        );
        let ran = desk.poolbench(&["record", "--name", name]);
        assert!(matches!(ran.code, Some(2 | 3)) && ran.stdout.is_empty(), "{ran:?}");
        harmless(&ran.stderr);
    }
    // A path of the user's own is read where it leads, and its report stays here.
    let ran = desk.poolbench(&["report", "criterion-baselines/../criterion-baselines/./old"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "poolbench-old.html\n"),
        "{ran:?}"
    );
    assert_eq!(desk_names(&desk), ["criterion-baselines", "poolbench-old.html"]);
}

#[test]
fn links_are_read_as_what_they_lead_to_and_never_written_through() {
    let desk = Desk::new();
    plant(&desk, "old", |_| {});
    let baselines = desk.baselines();
    for (name, file, target) in [
        ("zero", "manifest.json", "/dev/zero"),
        ("full", "launches.jsonl", "/dev/full"),
        ("loop", "manifest.json", "manifest.json"),
        ("gone", "launches.jsonl", "nowhere"),
        ("up", "manifest.json", ".."),
        ("text", "manifest.json", "/proc/self/status"),
    ] {
        plant(&desk, name, |_| {});
        fs::remove_file(baselines.join(name).join(file)).expect("it is there");
        symlink(target, baselines.join(name).join(file)).expect("a link");
        assert!(
            read_by_all(&desk, name)[2..].iter().all(|ran| ran.code == Some(3)),
            "{name}"
        );
    }
    symlink("old", baselines.join("linked")).expect("a link");
    symlink(".", baselines.join("self")).expect("a link");
    let listed = desk.poolbench(&["list"]).stdout;
    assert!(
        listed.contains("whole (link)") && !listed.contains("| self"),
        "{listed}"
    );
    assert_eq!(desk.poolbench(&["compare", "linked", "old"]).code, Some(0));
    // A Criterion home, or a folder in it, that leads elsewhere.
    let elsewhere = tempfile::tempdir().expect("a temporary folder");
    let home = desk.path().join("target/poolbench/nvidia-h200/criterion");
    fs::create_dir_all(home.join("scratch_loop")).expect("a folder");
    symlink(elsewhere.path(), home.join("scratch_loop/sync")).expect("a link");
    let ran = desk.poolbench(&["install", "old"]);
    assert!(
        ran.refused(3)
            .contains("a symbolic link, through which nothing is written"),
        "{ran:?}"
    );
    assert_eq!(names(elsewhere.path()), [""; 0]);
    // Links back into a home are not followed for ever.
    symlink(&home, home.join("scratch_loop/again")).expect("a link");
    let ran = desk.poolbench(&["compare", "target/poolbench/nvidia-h200/criterion@old", "old"]);
    assert!(
        ran.refused(3).contains("a Criterion home without a baseline"),
        "{ran:?}"
    );
}
