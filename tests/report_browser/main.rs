//! Reports in a real browser: `check.py` opens them, sorts, filters, and looks for what must not be there.
//!
//! It takes a minute or two, so it runs only where `POOLBENCH_BROWSER` names a Chromium, as `.ci/run` does.
//! `POOLBENCH_SCREENSHOTS` names a folder that keeps pages and pictures for a look; they are never committed.

#[path = "../common/hostile.rs"]
mod hostile;
#[path = "../common/synthetic_baseline.rs"]
mod synthetic_baseline;

use assert_cmd::Command;
use hostile::hostile;
use std::path::{Path, PathBuf};
use synthetic_baseline::{Recording, write};

fn in_path(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

fn report(folder: &Path, arguments: &[&str], page: &str) -> PathBuf {
    let mut command = Command::cargo_bin("poolbench").expect("the binary is built with the tests");
    let command = command
        .current_dir(folder)
        .arg("report")
        .args(arguments)
        .args(["--out", page]);
    let output = command.output().expect("it starts");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{stderr}");
    folder.join(page)
}

#[test]
fn a_browser_shows_sorts_and_filters_without_a_complaint_or_a_request() {
    let Some(browser) = std::env::var_os("POOLBENCH_BROWSER") else {
        println!("SKIPPED: POOLBENCH_BROWSER names no Chromium, so no report was opened");
        return;
    };
    let Some(python) = in_path("python3") else {
        println!("SKIPPED: no python3 in PATH, so no report was opened");
        return;
    };
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let kept = std::env::var_os("POOLBENCH_SCREENSHOTS").map(PathBuf::from);
    let folder = kept.as_deref().unwrap_or(temporary.path());
    let baselines = folder.join("criterion-baselines");
    let [base, slower, unchanged] = [
        Recording::base(),
        Recording::slower_stream_ordered(),
        Recording::unchanged(),
    ];
    base.write(&baselines);
    slower.write(&baselines);
    write(&mut unchanged.baseline(), "unchanged", &baselines);
    write(&mut hostile(&base), "hostile-base", &baselines);
    write(&mut hostile(&slower), "hostile-new", &baselines);
    for (recording, name) in [(&base, "one-launch-base"), (&slower, "one-launch-new")] {
        let mut single = recording.baseline();
        single.launches.truncate(1);
        write(&mut single, name, &baselines);
    }
    let pages = [
        report(folder, &[base.name, slower.name], "slower.html"),
        report(folder, &[base.name, "unchanged"], "unchanged.html"),
        report(folder, &[base.name], "alone.html"),
        report(folder, &["hostile-base", "hostile-new"], "hostile.html"),
        report(folder, &["one-launch-base", "one-launch-new"], "one_launch.html"),
    ];
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report_browser/check.py");
    let extent = if kept.is_some() { "slices" } else { "tops" };
    let mut command = Command::new(python);
    let command = command
        .arg(script)
        .arg(browser)
        .arg(folder.join("screenshots"))
        .arg(extent);
    let output = command.args(pages).output();
    let output = output.expect("python starts");
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
