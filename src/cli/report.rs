//! `poolbench report`: one HTML file for a reviewer.

use super::output::{failed, print, write_file, wrong_usage};
use super::request::{RequestArguments, read, spare_sides};
use poolbench::baseline::Input;
use poolbench::command_line::CommandLine;
use poolbench::counted::counted;
use poolbench::recording::with_settings;
use poolbench::report::{Compared, HtmlReport, SideSummary, readme_tables, with_name_of};
use poolbench::stats::{Calibration, CalibrationPlan, Options, Side, calibrate};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How often the base's launches are halved: as often as `poolbench calibrate` does it, so that the numbers agree.
const SPLITS: usize = 200;
/// Longest part of a file's name that a side's name gives.
const NAME_CHARACTERS_MAX: usize = 80;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A baseline in criterion-baselines, the folder of one, criterion-home@baseline-name, or a file of
    /// `critcmp --export`.
    base: String,
    /// What is compared with it, likewise. Without it the report is of one baseline.
    new: Option<String>,
    /// The file, or the folder that it goes to; by default the current folder. A file that is there is replaced.
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// Print the block of measured tables for the README, in Markdown, instead of writing a report.
    #[arg(long, conflicts_with_all = ["new", "out"])]
    readme_tables: bool,
    #[command(flatten)]
    request: RequestArguments,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let options = match arguments.request.options() {
        Ok(options) => options,
        Err(message) => return wrong_usage(&message),
    };
    if arguments.out.is_some()
        && let Err(message) = spare_sides(&path(arguments), [&arguments.base].into_iter().chain(&arguments.new))
    {
        return wrong_usage(&message);
    }
    match report(arguments, options) {
        Ok(code) => ExitCode::from(code),
        Err(message) => failed(&message),
    }
}

fn report(arguments: &Arguments, options: Options) -> Result<u8, String> {
    let base = read(&arguments.base)?;
    if arguments.readme_tables {
        let tables = readme_tables(&base).map_err(|error| error.to_string())?;
        return print(&tables).map(|()| 0);
    }
    let path = path(arguments);
    let Some(new) = &arguments.new else {
        let page = one_page(&base, &arguments.base, options);
        write_file(&path, &page)?;
        print(&format!("{}\n", path.display()))?;
        return Ok(0);
    };
    let compared = arguments.request.compare(base, read(new)?, options)?;
    let page = comparison_page(&compared, (&arguments.base, new), &arguments.request);
    write_file(&path, &page)?;
    print(&format!("{}\n{}\n", path.display(), compared.headline()))?;
    Ok(compared.exit_code())
}

fn one_page(base: &Input, name: &str, options: Options) -> String {
    let summary = SideSummary::of(base);
    let calibration = calibration(&base.side, options);
    let mut commands = record_commands(&summary);
    for command in ["calibrate", "report"] {
        commands.push(CommandLine::through_cargo(command).operand(name).to_string());
    }
    HtmlReport::of_one(&summary, &base.side)
        .with_calibration(&calibration)
        .with_commands(&commands)
        .page()
}

/// The page of a comparison whose sides were given as `names`.
pub(super) fn comparison_page(compared: &Compared, names: (&str, &str), request: &RequestArguments) -> String {
    let calibration = calibration(&compared.base_side, compared.request.options);
    let mut commands = record_commands(&compared.base);
    commands.extend(record_commands(&compared.new));
    commands.push(CommandLine::through_cargo("calibrate").operand(names.0).to_string());
    let report = request.with_flags(CommandLine::through_cargo("report"));
    commands.push(report.operand(names.0).operand(names.1).to_string());
    HtmlReport::of_comparison(compared)
        .with_calibration(&calibration)
        .with_commands(&commands)
        .page()
}

fn calibration(base: &Side, options: Options) -> Calibration {
    let plan = CalibrationPlan {
        splits: SPLITS,
        ..CalibrationPlan::default()
    };
    calibrate(base, &options, plan)
}

/// The commands that record a side: one, and one for each further session. None for what others wrote.
pub(super) fn record_commands(side: &SideSummary) -> Vec<String> {
    let (Some(environment), Some(settings)) = (&side.environment, &side.settings) else {
        return Vec::new();
    };
    let driver = environment.device.driver_version.as_deref().unwrap_or("unknown");
    let fault = settings
        .injected_fault
        .as_ref()
        .map_or("", |_| ", under an injected fault");
    let record = with_name_of(CommandLine::through_cargo("record"), &side.name)
        .option("--launches", side.launches.div_ceil(side.sessions.max(1)).to_string());
    let mut commands = vec![format!(
        "{}  # driver {driver}{fault}",
        with_settings(record.clone(), settings)
    )];
    if side.sessions > 1 {
        commands.push(format!(
            "{}  # {}",
            record.flag("--append"),
            counted(side.sessions - 1, "more time")
        ));
    }
    commands
}

/// Where the report goes: the file that was named, or one in the folder that was.
fn path(arguments: &Arguments) -> PathBuf {
    let names = [Some(arguments.base.as_str()), arguments.new.as_deref()];
    let parts: Vec<String> = names.into_iter().flatten().map(file_part).collect();
    let name = format!("poolbench-{}.html", parts.join("-to-"));
    match &arguments.out {
        None => PathBuf::from(name),
        Some(out) if out.is_dir() || out.as_os_str().to_string_lossy().ends_with('/') => out.join(name),
        Some(out) => out.clone(),
    }
}

/// What a side's name gives to a file's: its last part, and nothing that a shell or a mail would trip over.
fn file_part(name: &str) -> String {
    let last = Path::new(name)
        .file_name()
        .map_or(name.into(), |last| last.to_string_lossy());
    let allowed = |character: char| character.is_ascii_alphanumeric() || "._+=-".contains(character);
    let characters = last
        .chars()
        .map(|character| if allowed(character) { character } else { '-' });
    characters.take(NAME_CHARACTERS_MAX).collect()
}
