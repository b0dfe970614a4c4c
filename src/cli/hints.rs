//! Every command line that poolbench tells somebody to type must be one that it takes.

use super::Arguments;
use super::report::record_commands;
use clap::Parser as _;
use clap::error::ErrorKind;
use poolbench::baseline::{InputKind, Settings};
use poolbench::command_line::CommandLine;
use poolbench::environment::{BuildFacts, DeviceFacts, Environment, HostFacts, ToolkitFacts};
use poolbench::recording::{Intent, Options, PROFILE, RecordingError, Source};
use poolbench::report::SideSummary;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Takes a line as a shell and then poolbench would, and returns the arguments. Variables in front and a
/// comment behind are the shell's.
fn parsed(line: &str) -> Vec<String> {
    let output = Command::new("sh")
        .args(["-c", &format!("printf '%s\\0' {line}")])
        .output();
    let text = String::from_utf8(output.expect("a shell").stdout).expect("UTF-8");
    let words = text.split_terminator('\0').map(str::to_owned);
    let is_poolbench = |word: &String| !word.contains('=') && (word == "poolbench" || word.ends_with("/poolbench"));
    let words: Vec<String> = words.skip_while(|word| !is_poolbench(word)).collect();
    assert!(words.len() > 1, "no command of poolbench: {line}");
    if let Err(error) = Arguments::try_parse_from(&words) {
        // A command alone is spoken of; with flags it is to be typed.
        let is_name = words.len() == 2 && error.kind() == ErrorKind::MissingRequiredArgument;
        assert!(is_name, "{line}\n{error}");
    }
    words
}

/// The files below a folder with one of these endings.
fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.extension().is_some_and(|found| found == ending) {
            found.push(path);
        }
    }
}

/// What stands between backquotes, and the lines of shell blocks: `poolbench compare OLD NEW`, through cargo
/// or by its path.
fn written_lines(text: &str) -> Vec<String> {
    let begins = |line: &&str| {
        let program = line.strip_prefix("cargo ").unwrap_or(line).split(' ').next();
        program.is_some_and(|program| program == "poolbench" || program.ends_with("/poolbench"))
            && line.contains("poolbench ")
    };
    let quoted = text.split('`').skip(1).step_by(2);
    // A backslash goes on with the next line.
    let joined = text.replace("\\\n", " ");
    let block = joined.lines().map(str::trim).filter(begins).map(str::to_owned);
    quoted.filter(begins).map(str::to_owned).chain(block).collect()
}

#[test]
fn the_documentation_and_the_messages_name_commands_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    files(&root.join("src"), "rs", &mut sources);
    let mut lines = Vec::new();
    for path in sources {
        let text = fs::read_to_string(&path).expect("a source file");
        let said = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        lines.extend(said.flat_map(written_lines).filter(|line| !line.contains('{')));
    }
    for name in ["README.md", "CONTRIBUTING.md"] {
        let found = written_lines(&fs::read_to_string(root.join(name)).expect("a text"));
        assert!(!found.is_empty(), "{name}");
        lines.extend(found);
    }
    for line in lines {
        // Placeholders of a synopsis.
        let line = line.replace(['<', '>', '[', ']', '|', '…'], " ").replace("...", " ");
        parsed(&line);
    }
}

fn options(source: Source) -> Options {
    Options {
        name: None,
        intent: Intent::New,
        launches: Some(7),
        filter: Some(String::from("a|b")),
        warm_up_time_s: None,
        measurement_time_s: Some(0.5),
        sample_size: None,
        turns: None,
        loop_time_max_s: None,
        pinned_processor: None,
        probes: None,
        silence_max_s: Some(900.0),
        source,
        sides: Vec::new(),
    }
}

#[test]
fn what_goes_on_with_a_recording_takes_the_executables_from_the_same_place() {
    let bundle = options(Source::Bundle(PathBuf::from("/media/a b's/bundle")));
    let words = parsed(&bundle.to_append("host", 7).to_string());
    let (given, folder) = ("--executables", "/media/a b's/bundle");
    assert!(words.windows(2).any(|pair| pair == [given, folder]), "{words:?}");
    assert!(words.windows(2).any(|pair| pair == ["--launches", "7"]), "{words:?}");
    assert!(
        words.windows(2).any(|pair| pair == ["--silence-max", "900"]),
        "{words:?}"
    );
    assert!(words.contains(&String::from("--append")), "{words:?}");
    for (profile, is_said) in [(PROFILE, false), ("dev", true)] {
        let profile = profile.to_owned();
        let words = parsed(&options(Source::Cargo { profile }).to_append("host", 60).to_string());
        assert_eq!(words.contains(&String::from("--profile")), is_said, "{words:?}");
    }
}

#[test]
fn messages_hold_lines_that_work_as_they_stand() {
    let go_on = CommandLine::as_started("record")
        .option("--name", "it's")
        .flag("--resume");
    let stopped = RecordingError::Stopped {
        error: Box::new(RecordingError::Interrupted),
        done: 1,
        total: 2,
        go_on,
    };
    let text = stopped.to_string();
    let line = text.split('`').nth(1).expect("a command");
    // The test itself stands where poolbench would.
    let words = line.split_once(" record ").expect("the command").1;
    parsed(&format!("poolbench record {words}"));
}

/// The page says how its sides were recorded: with every flag that is not the usual one.
#[test]
fn a_report_records_its_sides_again_with_their_settings() {
    let environment = Environment {
        device: DeviceFacts::default(),
        gpu: None,
        host: HostFacts::default(),
        build: BuildFacts::default(),
        toolkit: ToolkitFacts::default(),
        pool: None,
    };
    let settings = Settings {
        warm_up_time_s: 0.002,
        measurement_time_s: 0.5,
        turns: 3,
        sample_size: 20,
        loop_time_max_s: 0.25,
        filter: Some(String::from("-a|b")),
        probes: false,
        ..Settings::default()
    };
    let side = SideSummary {
        name: String::from("./elsewhere/host"),
        kind: InputKind::Baseline,
        created: None,
        environment: Some(environment),
        settings: Some(settings),
        benchmarks: 1,
        launches: 10,
        sessions: 2,
        host_bound: None,
        left_out: Vec::new(),
        observations: Default::default(),
    };
    let lines = record_commands(&side);
    assert_eq!(lines.len(), 2, "{lines:?}");
    let record = "poolbench record --name host --launches 5";
    let flags = "--filter='-a|b' --measurement-time 0.5 --sample-size 20 --turns 3 --loop-time-max 0.25 --no-probes";
    assert!(lines[0].contains(&format!("{record} {flags}  # driver")), "{lines:?}");
    assert!(
        lines[1].contains(&format!("{record} --append  # 1 more time")),
        "{lines:?}"
    );
    for line in &lines {
        parsed(line);
    }
}
