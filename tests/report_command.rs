//! `poolbench report` and `poolbench compare --format html`: one file that needs nothing beside it.

#[path = "common/hostile.rs"]
mod hostile;
#[path = "common/synthetic_baseline.rs"]
mod synthetic_baseline;

use assert_cmd::Command;
use hostile::{hostile, hostile_texts};
use std::fs;
use std::path::Path;
use std::process::Output;
use synthetic_baseline::{Recording, ids, write};
use tempfile::TempDir;

/// A working folder with baselines in it.
fn folder(recordings: &[Recording]) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for recording in recordings {
        recording.write(&folder.path().join("criterion-baselines"));
    }
    folder
}

fn poolbench(folder: &TempDir, arguments: &[&str]) -> Output {
    let mut command = Command::cargo_bin("poolbench").expect("the binary is built with the tests");
    command
        .current_dir(folder.path())
        .args(arguments)
        .output()
        .expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn page(folder: &TempDir, name: &str) -> String {
    fs::read_to_string(folder.path().join(name)).expect("the report was written")
}

fn compared() -> (TempDir, String) {
    let [base, new] = [Recording::base(), Recording::slower_stream_ordered()];
    let folder = folder(&[base.clone(), new.clone()]);
    let output = poolbench(&folder, &["report", base.name, new.name, "--out", "report.html"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let page = page(&folder, "report.html");
    (folder, page)
}

/// The page without its script, which has a NaN of its own for cells without a number.
fn shown(page: &str) -> &str {
    page.split("<script>").next().unwrap_or(page)
}

/// What stands between two marks, each time.
fn between<'a>(page: &'a str, open: &str, close: &str) -> Vec<&'a str> {
    let rest = page.split(open).skip(1);
    rest.filter_map(|rest| rest.split(close).next()).collect()
}

#[test]
fn the_file_is_small_and_refers_to_nothing_but_itself() {
    let (_folder, page) = compared();
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    assert!(!page.contains("http://") && !page.contains("https://"));
    for attribute in [" src=\"", " srcset=\"", " action=\"", " data=\"", " poster=\""] {
        assert!(!page.contains(attribute), "{attribute}");
    }
    for target in between(&page, " href=\"", "\"") {
        let anchor = target.strip_prefix('#').expect("a place on the page itself");
        assert!(page.contains(&format!(" id=\"{anchor}\"")), "{anchor}");
    }
    assert!(!page.contains("@import") && !page.contains("url("));
}

#[test]
fn no_script_runs_but_the_one_that_the_policy_names() {
    use sha2::Digest as _;
    let (_folder, page) = compared();
    let scripts = between(&page, "<script>", "</script>");
    assert_eq!((scripts.len(), page.matches("<script").count()), (1, 1));
    let policy = between(&page, "Content-Security-Policy\" content=\"", "\"");
    assert_eq!(policy.len(), 1);
    assert!(policy[0].starts_with("default-src 'none';"), "{}", policy[0]);
    // The hash in the policy, read back, is that of the script as it stands in the file.
    let named = between(policy[0], "'sha256-", "'");
    let hash = base64_bytes(named[0]);
    assert_eq!(hash, sha2::Sha256::digest(scripts[0]).to_vec());
    for handler in [" onclick", " onload", " onerror=\"", "javascript:", "eval("] {
        assert!(!page.contains(handler), "{handler}");
    }
}

/// The bytes that base64 stands for.
fn base64_bytes(text: &str) -> Vec<u8> {
    let alphabet: Vec<u8> = (b'A'..=b'Z')
        .chain(b'a'..=b'z')
        .chain(b'0'..=b'9')
        .chain(*b"+/")
        .collect();
    let digits = text.bytes().filter(|byte| *byte != b'=');
    let bits: Vec<bool> = digits
        .flat_map(|byte| {
            let digit = alphabet.iter().position(|known| *known == byte).expect("a digit");
            (0..6).rev().map(move |bit| digit >> bit & 1 == 1)
        })
        .collect();
    bits.chunks_exact(8)
        .map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit)))
        .collect()
}

#[test]
fn the_planted_change_is_told_first_and_every_benchmark_is_there() {
    let (_folder, page) = compared();
    let slower = ids().keys().filter(|id| id.contains("/stream_ordered")).count();
    let headline = between(&page, "<h1>", "</h1>");
    assert!(
        headline[0].contains(&format!("{slower} of {} benchmarks regressed", ids().len()))
            && headline[0].contains("(exit 1)"),
        "{headline:?}"
    );
    let first = page.find("slower, median +").expect("the finding is told");
    for later in [
        "id=\"changes\"",
        "id=\"change\"",
        "id=\"measured\"",
        "id=\"benchmarks\"",
    ] {
        assert!(page.find(later).expect("the section is there") > first, "{later}");
    }
    // One row a benchmark, and one for the skip.
    assert_eq!(page.matches("data-verdict=\"").count(), ids().len() + 1 + 8);
    assert!(page.contains("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"));
    // What differs is marked: what `compare` lists, and not the names.
    assert_eq!(page.matches("<tr class=\"differs\">").count(), 2);
    assert!(page.contains("2 differences, marked"));
    assert!(page.contains("590.44.01") && page.contains("(treatment)"));
    assert!(
        page.contains("unchanged benchmarks changed ("),
        "the false-alarm rate is there"
    );
    // What a comparison says that it can detect has its sessions in it.
    assert!(page.contains("of such recordings would find."));
    assert!(!shown(&page).contains("NaN"));
}

#[test]
fn the_same_input_gives_the_same_bytes_by_either_command() {
    let (folder, page_of_report) = compared();
    let [base, new] = [Recording::base(), Recording::slower_stream_ordered()];
    let again = poolbench(&folder, &["compare", base.name, new.name, "--format", "html"]);
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(text(&again.stdout), page_of_report);
}

#[test]
fn one_baseline_has_a_report_of_its_own() {
    let base = Recording::base();
    let folder = folder(std::slice::from_ref(&base));
    let output = poolbench(&folder, &["report", base.name]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let name = format!("poolbench-{}.html", base.name);
    assert_eq!(text(&output.stdout).trim_end(), name);
    let page = page(&folder, &name);
    for absent in ["id=\"changes\"", "id=\"change\"", "q-value", "regressed"] {
        assert!(
            !page
                .replace(between(&page, "<script>", "</script>")[0], "")
                .contains(absent),
            "{absent}"
        );
    }
    for present in [
        "id=\"cost\"",
        "id=\"size\"",
        "id=\"threshold\"",
        "id=\"calls\"",
        "id=\"break-even\"",
        "id=\"method\"",
    ] {
        assert!(page.contains(present), "{present}");
    }
    // The halves of a calibration share their sessions, as two recordings made at two times do not.
    assert!(page.contains(
        "would find, sessions shared (as with <code>--libcuda</code> twice; recorded at two times, what sessions differ \
         by comes on top)."
    ));
    assert!(page.contains("times, sessions shared, the procedure called"));
    assert!(!shown(&page).contains("NaN"));
    // 97.3 µs over 6.4 µs is 15.2, and noise that no probe sees moves either by 4 % at most.
    let worst: Vec<f64> = between(&page, "does not: sync ", "×")
        .iter()
        .filter_map(|cost| cost.parse().ok())
        .collect();
    assert!(worst.len() == 1 && (worst[0] / 15.2 - 1.0).abs() < 0.1, "{worst:?}");
}

#[test]
fn hostile_texts_appear_as_text() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let baselines = folder.path().join("criterion-baselines");
    for (recording, name) in [(Recording::base(), "a"), (Recording::unchanged(), "b")] {
        write(&mut hostile(&recording), name, &baselines);
    }
    let output = poolbench(&folder, &["report", "a", "b", "--out", "r.html"]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output.stderr));
    let page = page(&folder, "r.html");
    assert_eq!(page.matches("<script").count(), 1);
    assert_eq!(page.matches("<style").count(), 1);
    assert_eq!(
        page.matches("<title>").count() - page.matches("<svg").count().min(1),
        page.matches("</title>").count() - 1
    );
    assert!(!page.contains("<img") && !page.contains("<!--"));
    // Nothing that moves a cursor or turns the direction of writing is in the file at all.
    let invisible = |character: char| character.is_control() && character != '\n';
    assert!(!page.contains(invisible));
    assert!(!page.contains(['\u{202e}', '\u{2066}', '\u{200f}']));
    assert!(page.contains("\\u{202e}") && page.contains("&lt;img src=x onerror=window.planted=1&gt;"));
    assert!(page.contains(&hostile_texts()[4]));
}

#[test]
fn the_file_goes_where_it_is_wanted_or_nowhere() {
    let base = Recording::base();
    let folder = folder(std::slice::from_ref(&base));
    let made = |arguments: &[&str], path: &str| {
        let output = poolbench(&folder, &[&["report", base.name], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(folder.path().join(path).is_file(), "{path}");
    };
    fs::create_dir(folder.path().join("reports")).expect("a folder");
    made(&["--out", "reports"], &format!("reports/poolbench-{}.html", base.name));
    made(&["--out", "reports/named.html"], "reports/named.html");
    // Again: a report is made from data, and may be made anew.
    made(&["--out", "reports/named.html"], "reports/named.html");
    // A folder that is not there is made.
    made(&["--out", "reports/new/named.html"], "reports/new/named.html");
    made(
        &["--out", "reports/newer/"],
        &format!("reports/newer/poolbench-{}.html", base.name),
    );
    for (out, says) in [
        ("reports/named.html/x", "reports/named.html/x"),
        ("/dev/full", "/dev/full"),
    ] {
        let output = poolbench(&folder, &["report", base.name, "--out", out]);
        let stderr = text(&output.stderr);
        assert_eq!(
            (output.status.code(), stderr.lines().count()),
            (Some(3), 1),
            "{out}: {stderr}"
        );
        assert!(stderr.contains(says), "{stderr}");
        assert!(output.stdout.is_empty());
    }
    let left = fs::read_dir(folder.path()).expect("it is there").flatten();
    let left: Vec<_> = left
        .map(|entry| entry.file_name())
        .filter(|name| name != "reports")
        .collect();
    assert_eq!(left, ["criterion-baselines"], "nothing else is left");
}

#[test]
fn what_makes_no_report_is_refused_in_one_line() {
    let base = Recording::base();
    let folder = folder(std::slice::from_ref(&base));
    fs::write(
        folder
            .path()
            .join("criterion-baselines")
            .join(base.name)
            .join("launches.jsonl"),
        "{}\n",
    )
    .expect("a file");
    let cases: [(&[&str], i32, &str); 5] = [
        (&["report", "nowhere"], 3, "nowhere"),
        (&["report", base.name], 3, "launches.jsonl"),
        (&["report", base.name, "nowhere"], 3, "launches.jsonl"),
        (&["report", base.name, "--min-effect", "2"], 2, "minimum effect"),
        (&["report", base.name, "--fdr", "x"], 2, "--fdr x"),
    ];
    for (arguments, code, says) in cases {
        let output = poolbench(&folder, arguments);
        let stderr = text(&output.stderr);
        assert_eq!(
            (output.status.code(), stderr.lines().count()),
            (Some(code), 1),
            "{arguments:?}: {stderr}"
        );
        assert!(stderr.contains(says), "{stderr}");
        assert!(!Path::new(&folder.path().join(format!("poolbench-{}.html", base.name))).exists());
    }
    let usage = poolbench(&folder, &["report", "--readme-tables", "a", "b"]);
    assert_eq!(usage.status.code(), Some(2));
}

#[test]
fn few_launches_leave_dashes_with_their_reason_and_no_zeros() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let baselines = folder.path().join("criterion-baselines");
    for (recording, name) in [(Recording::base(), "a"), (Recording::unchanged(), "b")] {
        let mut baseline = recording.baseline();
        baseline.launches.truncate(2);
        write(&mut baseline, name, &baselines);
    }
    let output = poolbench(&folder, &["report", "a", "b", "--out", "r.html"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = page(&folder, "r.html");
    let why = "title=\"too few launches on a side: there is no test\">–<";
    assert_eq!(page.matches(why).count(), ids().len());
    assert!(page.contains("the base has too few launches to be split in two"));
    assert!(page.contains("<h1>No verdict"));
    assert!(!shown(&page).contains("NaN"));
}
