//! Recordings that end before their time: by a failure, by Ctrl-C, by `kill -9`; and two at once.

use super::support::{Place, refusal, run, stderr, succeed};
use poolbench::baseline::Launch;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const NAME: &str = "stand-in_1.0_cuda13.0";
const SIX: [&str; 4] = ["--launches", "6", "--filter", "scratch_loop/hoisted/4KiB"];

fn launches_of(lines: &[String]) -> Vec<Launch> {
    let launch = |line: &String| {
        let line: serde_json::Value = serde_json::from_str(line).expect("a whole line");
        serde_json::from_value(line["launch"].clone()).expect("a launch")
    };
    lines.iter().map(launch).collect()
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &child.id().to_string()])
        .status();
    assert!(sent.expect("kill is everywhere").success());
}

#[test]
fn a_failed_process_ends_the_recording_with_its_own_line_and_the_rest_is_kept() {
    let place = Place::with_stand_ins();
    let output = run(place.record(&["--launches", "4"]).env("STAND_IN_FAILS_AT", "3"));
    assert_eq!(output.status.code(), Some(3));
    let text = stderr(&output);
    let last = text.lines().last().expect("a line");
    assert!(
        last.starts_with(
            "poolbench: first: first/fast/4KiB: cuMemAllocAsync failed: CUDA_ERROR_ILLEGAL_ADDRESS (700); 2 of 4 launches are kept: go on with `"
        ),
        "{last}"
    );
    assert!(
        text.contains("running 1 test"),
        "all that the process printed is shown: {text}"
    );
    assert!(!place.has_baselines());
    let unfinished = refusal(&mut place.record(&["--launches", "4"]), 3);
    assert!(
        unfinished.contains("holds an unfinished recording (2 of 4 launches): go on with `")
            && unfinished.ends_with("`, or throw it away with --replace"),
        "{unfinished}"
    );
    let command = |message: &str| message.split('`').nth(1).map(str::to_owned);
    assert_eq!(command(&unfinished), command(last));
    let kept = launches_of(&place.lines(NAME));
    assert_eq!(kept.len(), 2);
    succeed(&mut place.paste(last));
    let baseline = place.baseline(NAME);
    assert_eq!(baseline.launches[..2], kept[..]);
    let sessions: BTreeSet<&str> = baseline.launches.iter().map(|launch| launch.session.as_str()).collect();
    assert_eq!((baseline.launches.len(), sessions.len()), (4, 1));
    let nothing = refusal(&mut place.record(&["--resume"]), 3);
    assert!(
        nothing.contains("holds no unfinished recording to --resume"),
        "{nothing}"
    );
}

#[test]
fn a_process_that_hangs_is_killed_and_the_recording_goes_on() {
    let place = Place::with_stand_ins();
    let mut command = place.record(&["--launches", "3", "--silence-max", "10"]);
    let last = refusal(command.env("STAND_IN_HANGS_AT", "2"), 3);
    assert!(
        last.starts_with("poolbench: first: printed nothing for 10s and was killed, in first/slow/4KiB; ")
            && last.contains("1 of 3 launches is kept: go on with `"),
        "{last}"
    );
    // The next start of this executable is its third.
    succeed(place.paste(&last).env("STAND_IN_HANGS_AT", "2"));
    assert_eq!(place.baseline(NAME).launches.len(), 3);
}

#[test]
fn a_recording_that_never_had_a_launch_leaves_nothing() {
    let place = Place::with_stand_ins();
    let last = refusal(place.record(&["--launches", "4"]).env("STAND_IN_FAILS_AT", "1"), 3);
    assert!(last.ends_with("CUDA_ERROR_ILLEGAL_ADDRESS (700)"), "{last}");
    assert!(!place.recording(NAME).exists());
    succeed(&mut place.record(&["--launches", "2"]));
}

#[test]
fn what_changed_in_between_is_named_and_refused() {
    let place = Place::with_stand_ins();
    let failing = |place: &Place| {
        refusal(
            place
                .record(&["--launches", "3", "--replace"])
                .env("STAND_IN_FAILS_AT", "2"),
            3,
        );
    };
    failing(&place);
    for (arguments, says) in [
        (&["--launches", "4"][..], "--launches 4, recorded with 3"),
        (
            &["--measurement-time", "1"],
            "--measurement-time 1.0, recorded with 0.01",
        ),
        (&["--no-probes"], "probes false, recorded with true"),
        (&["--pin", "1"], "--pin 1, recorded with none"),
    ] {
        let last = refusal(&mut place.record(&[&["--resume"], arguments].concat()), 3);
        assert!(
            last.contains("cannot go on with this recording") && last.contains(says),
            "{last}"
        );
    }
    let last = refusal(place.record(&["--resume"]).env("STAND_IN_CPU", "Another"), 3);
    assert!(
        last.contains(r#"host.cpu: null when it began, "Another" now"#),
        "{last}"
    );
    // Another build of one executable.
    let script = place.path().join("bundle.scripts/second");
    let text = fs::read_to_string(&script).expect("a script");
    fs::write(&script, format!("{text}# another build\n")).expect("a script");
    let executables = ["first", "second"].map(|name| {
        let path = place.path().join("bundle.scripts").join(name);
        poolbench::recording::Executable::read(name, path).expect("it is there")
    });
    poolbench::recording::Bundle::write(place.executables(), &executables, None).expect("a bundle");
    let last = refusal(&mut place.record(&["--resume"]), 3);
    assert!(last.contains(r#"the executable "second" is another build"#), "{last}");
    assert_eq!(place.lines(NAME).len(), 1, "what was recorded is still there");
}

/// The clock plays no part: a recording from the future goes on, in its own session.
/// What could not be written is said before the rest is measured, with what helps.
#[test]
fn a_baseline_that_came_or_went_meanwhile_stands_in_the_way_until_it_is_moved() {
    let place = Place::with_stand_ins();
    let stopped = |arguments: &[&str], fails_at: &str| {
        refusal(
            place
                .record(&[&["--name", "ours"], arguments].concat())
                .env("STAND_IN_FAILS_AT", fails_at),
            3,
        )
    };
    let resume = || place.record(&["--name", "ours", "--resume"]);
    let ours = place.path().join("criterion-baselines/ours");
    let aside = place.path().join("aside");
    stopped(&["--launches", "2"], "2");
    succeed(&mut place.record(&["--name", "theirs", "--launches", "1"]));
    fs::rename(ours.with_file_name("theirs"), &ours).expect("a baseline from elsewhere");
    let starts = place.starts("first").len();
    let came = refusal(&mut resume(), 3);
    assert!(
        came.contains("criterion-baselines/ours: a baseline of this name came after"),
        "{came}"
    );
    assert_eq!((place.starts("first").len(), place.lines("ours").len()), (starts, 1));
    fs::rename(&ours, &aside).expect("it can be moved");
    succeed(&mut resume());
    assert_eq!(place.baseline("ours").launches.len(), 2);

    fs::remove_dir_all(&aside).expect("it can go");
    let next = (place.starts("first").len() + 2).to_string();
    stopped(&["--append", "--launches", "2"], &next);
    fs::rename(&ours, &aside).expect("it can be moved");
    let gone = refusal(&mut resume(), 3);
    assert!(
        gone.contains("criterion-baselines/ours: the baseline that this is another session of is gone"),
        "{gone}"
    );
    fs::rename(&aside, &ours).expect("it can be put back");
    succeed(&mut resume());
    assert_eq!(place.baseline("ours").launches.len(), 4);
}

#[test]
fn an_executable_that_is_built_anew_meanwhile_ends_the_recording() {
    let place = Place::with_stand_ins();
    let mut record = place.record(&["--launches", "3"]);
    record.env("STAND_IN_BUILT_ANEW", place.executables());
    let changed = refusal(&mut record, 3);
    assert!(
        changed.contains("bundle/second: was built or copied anew while it was recorded"),
        "{changed}"
    );
    assert!(!place.has_baselines());
}

#[test]
fn a_recording_without_its_launches_says_how_to_throw_it_away() {
    let place = Place::with_stand_ins();
    refusal(place.record(&["--launches", "2"]).env("STAND_IN_FAILS_AT", "2"), 3);
    fs::remove_file(place.recording(NAME).join("launches.jsonl")).expect("it can go");
    for arguments in [&["--resume"][..], &["--launches", "2"]] {
        let missing = refusal(&mut place.record(arguments), 3);
        assert!(
            missing.contains("launches.jsonl: is missing") && missing.contains("by removing its folder"),
            "{missing}"
        );
    }
}

/// The folder of a recording and what locks another one could have the same name.
#[test]
fn any_two_names_are_two_recordings() {
    let place = Place::with_stand_ins();
    for name in ["x", "x.lock"] {
        refusal(
            place
                .record(&["--name", name, "--launches", "2"])
                .env("STAND_IN_FAILS_AT", "2"),
            3,
        );
        let _ = fs::remove_dir_all(place.path().join("log"));
        fs::create_dir(place.path().join("log")).expect("a folder");
    }
    for name in ["x", "x.lock"] {
        succeed(&mut place.record(&["--name", name, "--resume"]));
    }
}

/// A program that is stopped, as by Ctrl-Z, hears nothing of its child.
#[test]
fn a_recording_that_was_stopped_for_a_while_kills_nobody() {
    let place = Place::with_stand_ins();
    let mut command = place.record(&["--launches", "2", "--silence-max", "4"]);
    command.env("STAND_IN_PAUSE_MS", "2000");
    let (mut child, mut rest) = started(command, "poolbench: recording");
    std::thread::sleep(Duration::from_millis(500));
    signal(&child, "STOP");
    // Its child goes on, and ends; what it says meanwhile lies unread.
    std::thread::sleep(Duration::from_secs(6));
    signal(&child, "CONT");
    let status = child.wait().expect("it ends");
    let mut text = String::new();
    let _ = rest.read_to_string(&mut text);
    assert!(status.success(), "{text}");
}

#[test]
fn a_clock_that_jumped_changes_nothing() {
    let place = Place::with_stand_ins();
    refusal(place.record(&["--launches", "3"]).env("STAND_IN_FAILS_AT", "2"), 3);
    for file in ["recording.json", "launches.jsonl"] {
        let path = place.recording(NAME).join(file);
        let text = fs::read_to_string(&path).expect("the state");
        let year = text
            .find("\"started\"")
            .and_then(|at| text[at..].find("20").map(|digits| at + digits))
            .expect("a year");
        let edited = format!("{}2199{}", &text[..year], &text[year + 4..]);
        fs::write(&path, edited).expect("the state");
    }
    succeed(&mut place.record(&["--resume"]));
    let baseline = place.baseline(NAME);
    let sessions: BTreeSet<&str> = baseline.launches.iter().map(|launch| launch.session.as_str()).collect();
    assert_eq!((baseline.launches.len(), sessions.len()), (3, 1));
    assert!(baseline.launches[0].started.starts_with("2199-"));
    assert!(!baseline.launches[1].started.starts_with("2199-"));
}

#[test]
fn a_recording_goes_on_in_another_session_after_the_machine_was_started_anew() {
    let place = Place::with_stand_ins();
    refusal(place.record(&["--launches", "3"]).env("STAND_IN_FAILS_AT", "2"), 3);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux");
    for file in ["recording.json", "launches.jsonl"] {
        let path = place.recording(NAME).join(file);
        let text = fs::read_to_string(&path).expect("the state");
        assert!(text.contains(boot.trim()), "{file}: {text}");
        fs::write(&path, text.replace(boot.trim(), "00000000-0000-4000-8000-000000000000")).expect("the state");
    }
    succeed(&mut place.record(&["--resume"]));
    let baseline = place.baseline(NAME);
    let sessions: Vec<bool> = baseline
        .launches
        .iter()
        .map(|launch| launch.session.starts_with(boot.trim()))
        .collect();
    assert_eq!(sessions, [false, true, true]);
    assert_eq!(baseline.launches[1].session, baseline.launches[2].session);
}

/// Launches of one session lie close in time: half an hour after the last one, another session begins.
#[test]
fn a_recording_goes_on_in_another_session_after_a_long_pause() {
    for (pause_s, sessions) in [(600.0, 1), (1801.0, 2)] {
        let place = Place::with_stand_ins();
        refusal(place.record(&["--launches", "3"]).env("STAND_IN_FAILS_AT", "2"), 3);
        let path = place.recording(NAME).join("launches.jsonl");
        let text = fs::read_to_string(&path).expect("the state");
        let (before, end) = text.split_once("\"ended_uptime_s\":").expect("when it ended");
        let ended_s: f64 = end.trim_end_matches(['}', '\n']).parse().expect("a number");
        fs::write(
            &path,
            format!("{before}\"ended_uptime_s\":{:.2}}}\n", ended_s - pause_s),
        )
        .expect("the state");
        let output = succeed(&mut place.record(&["--resume"]));
        let launches = place.baseline(NAME).launches;
        let found: BTreeSet<&str> = launches.iter().map(|launch| launch.session.as_str()).collect();
        assert_eq!((launches.len(), found.len()), (3, sessions));
        assert_eq!(launches[1].session, launches[2].session);
        let says_so = stderr(&output).contains("the last launch ended 30m");
        assert_eq!(says_so, sessions == 2, "{}", stderr(&output));
    }
}

/// While it is measured somebody puts a folder in the place of the plan, which no file's removal removes.
#[test]
fn a_recording_that_cannot_be_cleared_away_is_done_all_the_same() {
    let place = Place::with_stand_ins();
    let plan = place.recording("n").join("recording.json");
    let script = format!(
        "#!/bin/sh\nif [ -f '{0}' ]; then rm '{0}'; mkdir '{0}'; fi\n",
        plan.display()
    );
    let scripts = place.path().join("bundle.scripts");
    let executables = ["first", "second"].map(|name| {
        let path = scripts.join(name);
        let text = fs::read_to_string(&path).expect("a script");
        fs::write(&path, text.replacen("#!/bin/sh\n", &script, 1)).expect("a script");
        poolbench::recording::Executable::read(name, path).expect("it is there")
    });
    poolbench::recording::Bundle::write(place.executables(), &executables, None).expect("an older bundle is replaced");
    let output = succeed(&mut place.record(&["--name", "n", "--launches", "1"]));
    let text = stderr(&output);
    assert!(
        text.contains("the baseline is written, but ") && text.contains("target/poolbench/recordings/n: "),
        "{text}"
    );
    assert_eq!(place.baseline("n").launches.len(), 1);
    assert!(super::support::stdout(&output).contains("criterion-baselines/n"));
}

#[test]
fn a_torn_last_line_costs_one_launch_and_a_torn_middle_is_refused() {
    let place = Place::with_stand_ins();
    refusal(place.record(&["--launches", "4"]).env("STAND_IN_FAILS_AT", "4"), 3);
    let path = place.recording(NAME).join("launches.jsonl");
    let whole = fs::read_to_string(&path).expect("the state");
    fs::write(&path, whole.replacen("\"side\"", "\"edis\"", 2)).expect("the state");
    let last = refusal(&mut place.record(&["--resume"]), 3);
    assert!(
        last.contains("launches.jsonl: line 1: ") && last.contains("throw the recording away"),
        "{last}"
    );
    fs::write(&path, &whole[..whole.len() - 9]).expect("the state");
    succeed(&mut place.record(&["--resume"]));
    let launches = place.baseline(NAME).launches;
    assert_eq!(
        launches[..2],
        launches_of(&whole.lines().take(2).map(str::to_owned).collect::<Vec<_>>())[..]
    );
    assert_eq!(launches.len(), 4);
}

/// Starts a recording, and returns it once a line says that launches are done.
fn started(mut command: Command, line: &str) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("poolbench starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut text = String::new();
    while !text.contains(line) {
        let read = stderr.read_line(&mut text).expect("lines");
        assert!(read > 0, "it ended before {line:?}: {text}");
    }
    (child, stderr)
}

/// A recording that another program starts, in the environment and the folder that it had. Its stand-ins take a while.
fn through(program: &[&str], recording: Command) -> Command {
    let mut command = Command::new(program[0]);
    command
        .args(&program[1..])
        .arg(recording.get_program())
        .args(recording.get_args());
    command.envs(
        recording
            .get_envs()
            .filter_map(|(variable, value)| Some((variable, value?))),
    );
    for (variable, _) in recording.get_envs().filter(|(_, value)| value.is_none()) {
        command.env_remove(variable);
    }
    if let Some(folder) = recording.get_current_dir() {
        command.current_dir(folder);
    }
    command.env("STAND_IN_PAUSE_MS", "200").stdin(Stdio::null());
    command
}

#[test]
fn ctrl_c_stops_at_once_and_says_how_to_go_on() {
    for signal_name in ["INT", "TERM", "HUP"] {
        let place = Place::with_stand_ins();
        // Whoever runs the tests may have them ignore SIGHUP.
        let command = through(&["env", "--default-signal=HUP"], place.record(&["--launches", "50"]));
        let (mut child, mut rest) = started(command, "launch 2 of 50 done");
        signal(&child, signal_name);
        let status = child.wait().expect("it ends");
        assert_eq!(status.code(), Some(130));
        let mut text = String::new();
        rest.read_to_string(&mut text).expect("text");
        let last = text.lines().last().expect("a line");
        let kept = place.lines(NAME).len();
        assert!(kept >= 2, "{kept}");
        assert!(
            last.starts_with(&format!(
                "poolbench: interrupted; {kept} of 50 launches are kept: go on with `"
            )),
            "{last}"
        );
        assert!(!place.has_baselines());
        let left = fs::read_dir(place.path().join("tmp")).expect("the folder").count();
        assert_eq!(left, 0, "the temporary folders are gone");
        let kept = launches_of(&place.lines(NAME));
        succeed(&mut place.paste(last));
        let launches = place.baseline(NAME).launches;
        assert_eq!((launches.len(), &launches[..kept.len()]), (50, &kept[..]));
    }
}

#[test]
fn a_recording_under_nohup_outlives_the_shell() {
    let place = Place::with_stand_ins();
    let command = through(&["nohup"], place.record(&["--launches", "4"]));
    let (mut child, mut rest) = started(command, "launch 1 of 4 done");
    signal(&child, "HUP");
    let status = child.wait().expect("it ends");
    let mut text = String::new();
    rest.read_to_string(&mut text).expect("text");
    assert!(status.success(), "{text}");
    assert_eq!(place.baseline(NAME).launches.len(), 4);
}

#[test]
fn two_recordings_of_one_name_are_one_too_many() {
    let place = Place::with_stand_ins();
    let mut command = place.record(&["--launches", "50", "--name", "n"]);
    command.env("STAND_IN_PAUSE_MS", "200");
    let (mut child, _rest) = started(command, "launch 1 of 50 done");
    for arguments in [&["--name", "n"][..], &["--name", "n", "--replace"], &["--resume"]] {
        let last = refusal(&mut place.record(arguments), 3);
        assert!(
            last.contains(&format!("process {} is recording under this name", child.id())),
            "{last}"
        );
    }
    succeed(&mut place.record(&["--launches", "1", "--name", "m"]));
    signal(&child, "INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

/// A bench executable that outlives its killed recording still measures, so the next one waits for it.
#[test]
fn what_a_killed_recording_left_running_is_waited_for() {
    let place = Place::with_stand_ins();
    let mut command = place.record(&["--launches", "3", "--name", "n"]);
    command.env("STAND_IN_PAUSE_MS", "1500");
    let (mut child, _rest) = started(command, "launch 1 of 3 done");
    std::thread::sleep(Duration::from_millis(300));
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let output = succeed(&mut place.record(&["--resume"]));
    assert!(
        stderr(&output)
            .starts_with("poolbench: waiting for the bench executable that a killed recording left behind\n"),
        "{}",
        stderr(&output)
    );
    assert_eq!(place.baseline("n").launches.len(), 3);
}

/// A terminal that is closed, or a `| head` that has seen enough.
#[test]
fn a_recording_that_nobody_listens_to_goes_on() {
    let place = Place::with_stand_ins();
    let (mut child, rest) = started(place.record(&["--launches", "3"]), "recording ");
    drop((rest, child.stdout.take()));
    assert!(child.wait().expect("it ends").success());
    assert_eq!(place.baseline(NAME).launches.len(), 3);
}

/// Kills recordings at random moments, again and again until each is finished. `POOLBENCH_KILLS` kills
/// more of them than a dozen.
#[test]
fn a_recording_that_is_killed_at_any_moment_loses_at_most_the_launch_in_flight() {
    let kills = std::env::var("POOLBENCH_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(12);
    let place = Place::with_scratch_loop();
    let (mut child, _rest) = started(place.record(&SIX), "recording host");
    let begun = Instant::now();
    assert!(child.wait().expect("it ends").success());
    // A busy machine must not make the test wait for what is long over.
    let measuring = begun.elapsed().min(Duration::from_secs(2));
    let mut rng = StdRng::seed_from_u64(4);
    let (mut killed, mut finished, mut lost) = (0, 0, 0);
    while killed < kills {
        fs::remove_dir_all(place.path().join("criterion-baselines")).expect("the last baseline");
        // What was seen on disk after each kill, which every later baseline must hold.
        let mut kept: Vec<String> = Vec::new();
        loop {
            let resumes = place.recording("host").join("recording.json").exists();
            let command = if resumes {
                place.record(&["--resume"])
            } else {
                place.record(&SIX)
            };
            // Mostly while it measures, but also while it begins.
            let begun = if rng.random_bool(0.8) { "recording host" } else { "" };
            let (mut child, mut rest) = started(command, begun);
            std::thread::sleep(measuring.mul_f64(rng.random_range(0.0..1.1)));
            let _ = child.kill();
            let status = child.wait().expect("it ends");
            let lines = place.lines("host");
            if place.has_baselines() && !place.recording("host").join("recording.json").exists() {
                finished += 1;
                break;
            }
            let mut text = String::new();
            let _ = rest.read_to_string(&mut text);
            assert!(status.code().is_none(), "only a kill ends it early: {status}: {text}");
            killed += 1;
            assert!(
                lines.len() >= kept.len() && lines[..kept.len()] == kept[..],
                "a finished launch was lost"
            );
            lost += usize::from(lines.len() == kept.len());
            kept = lines;
            if killed >= kills && kept.len() < 6 {
                succeed(&mut if place.recording("host").join("recording.json").exists() {
                    place.record(&["--resume"])
                } else {
                    place.record(&SIX)
                });
                break;
            }
        }
        let baseline = place.baseline("host");
        let order: Vec<u64> = baseline.launches.iter().map(|launch| launch.launch).collect();
        assert_eq!(order, [0, 1, 2, 3, 4, 5]);
        assert_eq!(baseline.launches[..kept.len()], launches_of(&kept)[..]);
    }
    println!(
        "killed {killed} times ({lost} of them before a new launch), {finished} recordings finished before a kill"
    );
}
