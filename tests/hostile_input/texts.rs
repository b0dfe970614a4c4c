//! What a terminal would obey.

use super::recorded::Desk;
use super::{ESCAPES, ID, harmless, plant, read_by_all};
use serde_json::json;
use std::fs;

#[test]
fn no_text_of_an_input_reaches_a_terminal_as_it_is() {
    let desk = Desk::new();
    let id = format!("g/{ESCAPES}/4KiB");
    plant(&desk, "old", |(manifest, launches)| {
        for place in [
            "/created",
            "/name",
            "/environment/device/name",
            "/environment/device/driver_version",
            "/environment/device/cuda_version",
            "/environment/host/cpu",
            "/environment/build/version",
        ] {
            *manifest.pointer_mut(place).expect(place) = ESCAPES.into();
        }
        for setting in ["filter", "label", "injected_fault"] {
            manifest["settings"][setting] = ESCAPES.into();
        }
        manifest["benchmarks"] = json!([id]);
        manifest["skipped"] = json!([{"id": format!("{id}s"), "reason": ESCAPES}]);
        for launch in launches {
            launch["session"] = ESCAPES.into();
            launch["samples"] = json!({&id: launch["samples"][ID]});
            launch["samples"][&id]["flags"] = json!([ESCAPES]);
        }
    });
    let ran = read_by_all(&desk, "old");
    assert!(
        ran[..10].iter().filter(|ran| ran.code == Some(0)).count() >= 9,
        "{ran:?}"
    );
    assert!(ran[2].stdout.contains("\\u{1b}[2J"), "{}", ran[2].stdout);
    // In what is refused, the reason holds what the file held.
    plant(&desk, "bad", |(_, launches)| launches[1]["samples"] = json!({&id: 1}));
    read_by_all(&desk, "bad");
    plant(&desk, "bad", |(manifest, _)| manifest["format"] = ESCAPES.into());
    read_by_all(&desk, "bad");
    let harmless_refusal = |arguments: &[&str]| harmless(desk.poolbench(arguments).refused(3));
    fs::write(
        desk.path().join("e.json"),
        json!({"name": ESCAPES, "benchmarks": {ESCAPES: 1}}).to_string(),
    )
    .expect("a file");
    harmless_refusal(&["compare", "e.json", "old"]);
    harmless_refusal(&["compare", "e.json@x", "old"]);
    let folder = desk.path().join("home/g").join(ESCAPES).join("n");
    fs::create_dir_all(&folder).expect("a folder");
    harmless_refusal(&["compare", "home@n", "old"]);
    fs::rename(&folder, folder.with_file_name(ESCAPES)).expect("a name");
    fs::write(folder.with_file_name(ESCAPES).join("sample.json"), "{}").expect("a file");
    harmless_refusal(&["compare", "home@n", "old"]);
}

#[test]
fn a_traces_name_is_shown_harmlessly() {
    let desk = Desk::new();
    let log = "Thread,Time,Action,Pointer,Size,Stream\n\
        1,16:33:00.1,allocate,0x10,8,0\n1,16:33:00.2,free,0x10,8,0\n";
    let name = format!("{}.csv", ESCAPES.replace('/', ""));
    fs::write(desk.path().join(&name), log).expect("a file");
    for format in ["text", "json"] {
        let ran = desk.poolbench(&["trace", &name, "--format", format]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        harmless(&ran.stdout);
        let ran = desk.poolbench(&[
            "replay",
            &name,
            "--strategy",
            "sync",
            "--repeats",
            "1",
            "--format",
            format,
        ]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        harmless(&ran.stdout);
        harmless(&ran.stderr);
    }
    fs::write(desk.path().join(&name), log.replace("8,0", ESCAPES)).expect("a file");
    for command in ["trace", "replay"] {
        harmless(desk.poolbench(&[command, &name]).refused(3));
    }
}
