//! `poolbench replay`: an allocation trace under every strategy and threshold, and what to use.

use super::output::{Format, conclude, say, spare_inputs, wrong_usage};
use clap::Args;
use poolbench::counted::counted;
use poolbench::cuda::Device;
use poolbench::replay::{
    Combination, CompileOptions, Program, ReplayThreshold, Report, Settings, Subject, Synchronise, replay, text,
};
use poolbench::report::ascii_json;
use poolbench::strategy::{self, StrategyKind};
use poolbench::trace::{self, Format as TraceFormat, Trace};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// What to replay, and how.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// An allocation trace, as `poolbench trace` reads it.
    trace: PathBuf,
    /// How memory is got, repeatable; all strategies where none is named. One that is named is also replayed
    /// where one replay takes over two seconds.
    #[arg(long = "strategy", value_name = "STRATEGY", value_parser = named_strategy)]
    strategies: Vec<&'static StrategyKind>,
    /// Release threshold of the strategies that have a pool, repeatable: 0, a size as 64MiB, half or peak (of the
    /// most bytes live at once), max. By default all five of these.
    #[arg(long = "threshold", value_name = "THRESHOLD")]
    thresholds: Vec<ReplayThreshold>,
    /// What the program uses at present, as sync or stream_ordered@0 (0 is the default threshold); the advice
    /// compares with it. By default sync, or arena for PyTorch's traces.
    #[arg(long, value_name = "STRATEGY[@THRESHOLD]", value_parser = combination)]
    present: Option<Combination>,
    /// Spreads the blocks over so many streams in turn; 1 collapses all streams to one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    streams: Option<u32>,
    /// Waits for the device after every N allocations and frees, and not where the trace waits.
    #[arg(long, value_name = "N", conflicts_with = "sync_at_gaps", value_parser = clap::value_parser!(u64).range(1..))]
    sync_every: Option<u64>,
    /// Waits for the device where the logged times leave a gap of at least this, as 500us or 2ms, and not where
    /// the trace waits.
    #[arg(long, value_name = "TIME", value_parser = time)]
    sync_at_gaps: Option<Duration>,
    /// Multiplies every size, so that a trace fits a smaller device.
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = factor)]
    scale: f64,
    /// The device of a trace that has several, as PROCESS:DEVICE.
    #[arg(long, value_name = "PROCESS:DEVICE", value_parser = process_and_device)]
    traced_device: Option<(u32, u32)>,
    /// Also replays each combination with every block written after its allocation and verified before its free.
    #[arg(long)]
    touch: bool,
    /// Timed replays of each combination; fewer than 6 prove nothing.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeats: u32,
    /// How to print it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Writes the compiled operations and replays nothing.
    #[arg(long, value_name = "FILE", hide = true)]
    dump_operations: Option<PathBuf>,
}

/// The strategies that serve a program: `noop` gives nothing.
fn served() -> impl Iterator<Item = &'static StrategyKind> {
    strategy::ALL.iter().filter(|kind| kind.has_work)
}

fn named_strategy(name: &str) -> Result<&'static StrategyKind, String> {
    served().find(|kind| kind.name == name).ok_or_else(|| {
        let names: Vec<&str> = served().map(|kind| kind.name).collect();
        format!("the strategies are {}", names.join(", "))
    })
}

fn combination(text: &str) -> Result<Combination, String> {
    let (name, threshold) = match text.split_once('@') {
        Some((name, threshold)) => (name, threshold.parse().map_err(|error| format!("{error}"))?),
        // The driver's default.
        None => (text, ReplayThreshold::Bytes(0)),
    };
    Ok(Combination {
        strategy: named_strategy(name)?,
        threshold: Some(threshold),
    })
}

fn time(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_ns = match unit {
        "ns" => 1_u64,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => 0,
    };
    let ns = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(unit_ns));
    ns.filter(|ns| *ns > 0)
        .map(Duration::from_nanos)
        .ok_or_else(|| "write a whole number above 0 with a unit, as 500us, 2ms or 1s".to_owned())
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text
        .parse::<f64>()
        .ok()
        .filter(|factor| factor.is_finite() && *factor > 0.0);
    factor.ok_or_else(|| "write a number above 0, as 0.5".to_owned())
}

fn process_and_device(text: &str) -> Result<(u32, u32), String> {
    let pair = text
        .split_once(':')
        .and_then(|(process, device)| Some((process.parse().ok()?, device.parse().ok()?)));
    pair.ok_or_else(|| "write two whole numbers, as 0:1".to_owned())
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    if let Some(path) = &arguments.dump_operations
        && let Err(message) = spare_inputs("--dump-operations", path, [arguments.trace.clone()])
    {
        return wrong_usage(&message);
    }
    conclude(report(arguments))
}

/// The report as it is printed; nothing where operations were only written.
fn report(arguments: &Arguments) -> Result<String, String> {
    let name = arguments.trace.display().to_string();
    let trace = trace::read(&arguments.trace).map_err(|error| error.to_string())?;
    let trace = chosen(trace, arguments).map_err(|message| format!("{name}: {message}"))?;
    let settings = settings(&trace, arguments);
    if let Some(path) = &arguments.dump_operations {
        return dump(&trace, &settings, path)
            .map(|()| String::new())
            .map_err(|message| format!("{name}: {message}"));
    }
    let device = Device::from_environment().map_err(|error| error.to_string())?;
    let replayed =
        replay(&device, &trace, &settings, &mut |step| say(&step)).map_err(|error| format!("{name}: {error}"))?;
    let subject = Subject {
        device: &device.to_string(),
        is_host: device.is_host(),
        trace_name: &name,
        trace: &trace,
        present_is_named: arguments.present.is_some(),
    };
    let report = Report::new(&subject, &settings, &replayed);
    match arguments.format {
        Format::Text => Ok(text(&report)),
        Format::Json => serde_json::to_string_pretty(&report)
            .map(|json| ascii_json(&json) + "\n")
            .map_err(|error| error.to_string()),
    }
}

/// The part of the trace that is replayed, or why none is.
fn chosen(trace: Trace, arguments: &Arguments) -> Result<Trace, String> {
    if let Some(obstacle) = trace.replay_obstacle() {
        return Err(obstacle.to_string());
    }
    let devices = trace.devices();
    let named = |(process, device): &(u32, u32)| format!("{process}:{device}");
    let names: Vec<String> = devices.iter().map(named).collect();
    let trace = match arguments.traced_device {
        Some(wanted) if devices.contains(&wanted) => trace.on_device(wanted.0, wanted.1),
        Some(wanted) => {
            let (wanted, names) = (named(&wanted), names.join(", "));
            return Err(format!("has no device {wanted}; --traced-device takes one of {names}"));
        }
        None if devices.len() > 1 => {
            let (n, names) = (names.len(), names.join(", "));
            return Err(format!(
                "has {}: choose one with --traced-device, of {names}",
                counted(n, "device")
            ));
        }
        None => trace,
    };
    Ok(match arguments.streams {
        Some(n) => trace.with_streams(n),
        None => trace,
    })
}

fn settings(trace: &Trace, arguments: &Arguments) -> Settings {
    let named = !arguments.strategies.is_empty();
    let strategies = if named {
        // In the order of the list, and each once.
        served()
            .filter(|kind| arguments.strategies.iter().any(|asked| asked.name == kind.name))
            .collect()
    } else {
        served().collect()
    };
    let thresholds = if arguments.thresholds.is_empty() {
        ReplayThreshold::DEFAULT.to_vec()
    } else {
        arguments.thresholds.clone()
    };
    Settings {
        strategies,
        thresholds,
        named,
        present: arguments.present.unwrap_or_else(|| assumed(trace.format())),
        repeats: arguments.repeats,
        scale: arguments.scale,
        synchronise: match (arguments.sync_every, arguments.sync_at_gaps) {
            (Some(n), _) => Synchronise::Every(n),
            (None, Some(gap)) => Synchronise::AtGaps(gap),
            (None, None) => Synchronise::AsTraced,
        },
        touch: arguments.touch,
    }
}

/// What a program of which nothing else is known uses: PyTorch's sub-allocates from blocks that it keeps.
fn assumed(format: TraceFormat) -> Combination {
    let caches = matches!(format, TraceFormat::TorchSnapshot | TraceFormat::TorchProfiler);
    Combination {
        strategy: if caches { strategy::ARENA } else { strategy::SYNC },
        threshold: Some(ReplayThreshold::Bytes(0)),
    }
}

fn dump(trace: &Trace, settings: &Settings, path: &Path) -> Result<(), String> {
    let options = CompileOptions {
        scale: settings.scale,
        synchronise: settings.synchronise,
        ..CompileOptions::default()
    };
    let program = Program::compile(trace, &options).map_err(|error| error.to_string())?;
    let written = File::create(path).and_then(|file| program.dump(BufWriter::new(file)));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}
