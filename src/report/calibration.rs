//! What the comparison does on a baseline's own noise, for people and for programs.

use super::ascii_json::ascii_json;
use super::commands::with_another_session;
use super::{Printable, class_name};
use crate::baseline::Input;
use crate::command_line::CommandLine;
use crate::counted::counted;
use crate::stats::{
    BenchmarkCalibration, BenchmarkId, Calibration, CalibrationPlan, Class, INTERVAL_LAUNCHES, Options, PowerEstimate,
    PowerPlan, Proportion, SessionId, calibrate, compare, estimate_power, minimum_launches,
};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use thiserror::Error;

/// The format's version.
const FORMAT: u32 = 1;
/// Slowdowns whose discovery is simulated.
const FACTORS: [f64; 2] = [1.03, 1.05];
/// Share of the benchmarks that a simulated slowdown touches.
const CHANGED_SHARE: f64 = 0.1;
/// Benchmarks that are named one by one.
const WORST: usize = 10;

/// What the comparison does on a baseline's own noise.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibrationReport {
    /// The baseline.
    pub name: String,
    /// Its launches.
    pub launches: usize,
    /// Those that are alone in their session, which halves cannot share.
    pub alone: usize,
    /// Sessions that they belong to.
    pub sessions: usize,
    /// How it was split.
    pub plan: CalibrationPlan,
    /// Launches of one half from which a single change can be declared.
    pub needed: usize,
    /// False alarms, and each benchmark's detectable effect.
    pub calibration: Calibration,
    /// What paces each benchmark.
    pub classes: BTreeMap<BenchmarkId, Class>,
    /// What is found of a slowdown by a factor.
    pub power: Vec<(f64, PowerEstimate)>,
}

/// A baseline that cannot be halved.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{name}: {} in {} cannot be halved: each half needs {INTERVAL_LAUNCHES}; record more with `{}`",
    counted(*launches, "launch"),
    counted(*sessions, "session"),
    with_another_session(CommandLine::recording_as_started(), name)
)]
pub struct TooFewLaunches {
    name: String,
    launches: usize,
    sessions: usize,
}

impl CalibrationReport {
    /// Splits a baseline's launches in two at random, many times, and counts what the whole comparison
    /// says of halves that differ by chance alone, and of halves with a simulated slowdown.
    ///
    /// # Errors
    ///
    /// Launches too few for two halves.
    pub fn new(input: &Input, options: &Options, plan: CalibrationPlan) -> Result<CalibrationReport, TooFewLaunches> {
        let keys = input.side.launch_keys();
        let mut by_session: BTreeMap<&SessionId, usize> = BTreeMap::new();
        for key in &keys {
            *by_session.entry(&key.session).or_default() += 1;
        }
        // Each session is halved on its own; the odd launches go either way, and those alone in theirs nowhere.
        let smallest: usize = by_session.values().map(|launches| launches / 2).sum();
        if smallest < INTERVAL_LAUNCHES {
            return Err(TooFewLaunches {
                name: input.name.clone(),
                launches: keys.len(),
                sessions: by_session.len(),
            });
        }
        let itself = compare(&input.side, &input.side, options);
        let classes = itself
            .benchmarks
            .into_iter()
            .filter_map(|benchmark| Some((benchmark.id, benchmark.measured?.class)))
            .collect::<BTreeMap<_, _>>();
        let power = FACTORS.map(|factor| {
            let plan = PowerPlan {
                splits: plan,
                factor,
                share: CHANGED_SHARE,
            };
            (factor, estimate_power(&input.side, options, plan))
        });
        Ok(CalibrationReport {
            name: input.name.clone(),
            launches: keys.len(),
            alone: by_session.values().filter(|&&launches| launches == 1).count(),
            sessions: by_session.len(),
            plan,
            needed: minimum_launches(classes.len(), options.false_discovery_rate()),
            calibration: calibrate(&input.side, options, plan),
            classes,
            power: power.into(),
        })
    }

    /// Returns the benchmarks with the largest detectable effects, those without one first.
    fn worst(&self) -> Vec<&BenchmarkCalibration> {
        let mut worst: Vec<&BenchmarkCalibration> = self.calibration.benchmarks.iter().collect();
        let size = |benchmark: &BenchmarkCalibration| benchmark.minimal_detectable_effect.unwrap_or(f64::INFINITY);
        worst.sort_by(|a, b| size(b).total_cmp(&size(a)));
        worst.truncate(WORST);
        worst
    }

    /// Returns the detectable effects of a class, ascending, and how many benchmarks have none.
    fn effects_of(&self, class: Class) -> (Vec<f64>, usize) {
        let of_class = |benchmark: &&BenchmarkCalibration| self.classes.get(&benchmark.id) == Some(&class);
        let members: Vec<_> = self.calibration.benchmarks.iter().filter(of_class).collect();
        let mut effects: Vec<f64> = members
            .iter()
            .filter_map(|benchmark| benchmark.minimal_detectable_effect)
            .collect();
        effects.sort_unstable_by(f64::total_cmp);
        let without = members.len() - effects.len();
        (effects, without)
    }
}

fn percent(share: Option<f64>) -> String {
    let shown = |share: f64| {
        // One alarm among thirty thousand is not none.
        let decimals = if share > 0.0 && share < 0.001 { 3 } else { 1 };
        format!("{:.decimals$} %", 100.0 * share)
    };
    share.map_or_else(|| String::from("-"), shown)
}

/// Without an interval: the benchmarks of one halving share its launches, so that their alarms come together.
fn share_of(proportion: &Proportion) -> String {
    let Proportion { hits, trials } = proportion;
    format!("{hits} of {trials} ({})", percent(proportion.share()))
}

/// Of halvings.
fn proportion(proportion: &Proportion) -> String {
    let Proportion { hits, trials } = proportion;
    let mut text = format!("{hits} of {trials} ({}", percent(proportion.share()));
    if let Some(interval) = proportion.interval() {
        let _ = write!(
            text,
            "; 95 % interval {} to {}",
            percent(Some(interval.lower)),
            percent(Some(interval.upper))
        );
    }
    text + ")"
}

/// Returns the report as text: false alarms, what is found by class, and the ten hardest benchmarks.
#[must_use]
pub fn calibration_text(report: &CalibrationReport) -> String {
    let CalibrationReport { calibration, .. } = report;
    let mut text = format!(
        "{}: {}, {} in {}, halved {} at random (seed {})\n\n",
        Printable(&report.name),
        counted(report.classes.len(), "benchmark"),
        counted(report.launches, "launch"),
        counted(report.sessions, "session"),
        counted(report.plan.splits, "time"),
        report.plan.seed
    );
    let _ = writeln!(
        text,
        "halves with a false alarm    {}",
        proportion(&calibration.alarming)
    );
    let _ = writeln!(text, "benchmarks falsely alarming  {}", share_of(&calibration.alarms));
    let _ = writeln!(
        text,
        "common shifts declared       {}",
        proportion(&calibration.common_shifts)
    );
    for (factor, power) in &report.power {
        let _ = writeln!(
            text,
            "wrong among the found        {} in the mean over the halvings ({} of {} in all), with {} on a tenth of \
             the benchmarks",
            percent(power.false_discovery_rate),
            power.false_discoveries.hits,
            power.false_discoveries.trials,
            change(*factor)
        );
    }
    if report.alone > 0 {
        let _ = writeln!(
            text,
            "! {} alone in a session: in neither half, which share their sessions",
            counted(report.alone, "launch")
        );
    }
    let half = report.launches / 2;
    if half < report.needed {
        let _ = writeln!(
            text,
            "! halves of {} cannot show a single change, {} can: the figures are those of fewer launches \
             than a comparison should have",
            counted(half, "launch"),
            report.needed
        );
    }
    let _ = write!(
        text,
        "\nby class: the effect that two recordings of {} can show, and what halves find of a slowdown, sessions shared \
         (as with `--libcuda` twice; recorded at two times, what sessions differ by comes on top)\n{}\n\n\
         the hardest\n{}\n",
        counted(report.launches, "launch"),
        class_table(report),
        worst_table(report)
    );
    text
}

fn change(factor: f64) -> String {
    format!("{:+.0} %", 100.0 * (factor - 1.0))
}

fn class_table(report: &CalibrationReport) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let mut header = ["class", "benchmarks", "detectable, median", "largest", "none"]
        .map(String::from)
        .to_vec();
    header.extend(
        report
            .power
            .iter()
            .map(|(factor, _)| format!("{} found", change(*factor))),
    );
    table.set_header(header);
    for class in classes(report) {
        let (effects, without) = report.effects_of(class);
        let mut row = vec![
            class_name(class).replace('_', "-"),
            (effects.len() + without).to_string(),
            percent(effects.get(effects.len() / 2).copied()),
            percent(effects.last().copied()),
            without.to_string(),
        ];
        row.extend(
            report
                .power
                .iter()
                .map(|(_, power)| percent(power.found.get(&class).and_then(Proportion::share))),
        );
        table.add_row(row);
    }
    right_aligned(table, 1)
}

fn classes(report: &CalibrationReport) -> BTreeSet<Class> {
    report.classes.values().copied().collect()
}

fn worst_table(report: &CalibrationReport) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["benchmark", "class", "detectable", "between halves", "false alarms"]);
    for benchmark in report.worst() {
        let class = report.classes.get(&benchmark.id);
        table.add_row([
            Printable(benchmark.id.as_str()).to_string(),
            class.map_or("-", |class| class_name(*class)).replace('_', "-"),
            percent(benchmark.minimal_detectable_effect),
            percent(benchmark.minimal_detectable_effect_halves),
            benchmark.alarms.to_string(),
        ]);
    }
    right_aligned(table, 2)
}

fn right_aligned(mut table: Table, from: usize) -> String {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    name: &'a str,
    launches: usize,
    sessions: usize,
    splits: usize,
    seed: u64,
    launches_needed: usize,
    alarming_splits: ProportionFields,
    alarms: ProportionFields,
    common_shifts: ProportionFields,
    power: Vec<PowerFields>,
    benchmarks: Vec<BenchmarkFields<'a>>,
}

#[derive(Serialize)]
struct ProportionFields {
    hits: usize,
    trials: usize,
    share: Option<f64>,
    ci_low: Option<f64>,
    ci_high: Option<f64>,
}

#[derive(Serialize)]
struct PowerFields {
    factor: f64,
    found: BTreeMap<&'static str, ProportionFields>,
    false_discoveries: ProportionFields,
    false_discovery_rate: Option<f64>,
}

#[derive(Serialize)]
struct BenchmarkFields<'a> {
    id: &'a str,
    class: Option<&'static str>,
    alarms: usize,
    mde: Option<f64>,
    mde_halves: Option<f64>,
}

impl ProportionFields {
    /// Of halvings, with an interval.
    fn of(proportion: &Proportion) -> ProportionFields {
        let interval = proportion.interval();
        ProportionFields {
            ci_low: interval.map(|interval| interval.lower),
            ci_high: interval.map(|interval| interval.upper),
            ..ProportionFields::together(proportion)
        }
    }

    /// Of benchmarks over all halvings, whose alarms come together: no interval.
    fn together(proportion: &Proportion) -> ProportionFields {
        ProportionFields {
            hits: proportion.hits,
            trials: proportion.trials,
            share: proportion.share(),
            ci_low: None,
            ci_high: None,
        }
    }
}

/// Returns the report as one JSON object; what is not known is null.
///
/// # Errors
///
/// None that these types can cause.
pub fn calibration_json(report: &CalibrationReport) -> serde_json::Result<String> {
    let CalibrationReport { calibration, .. } = report;
    let power = |(factor, power): &(f64, PowerEstimate)| PowerFields {
        factor: *factor,
        found: power
            .found
            .iter()
            .map(|(class, found)| (class_name(*class), ProportionFields::together(found)))
            .collect(),
        false_discoveries: ProportionFields::together(&power.false_discoveries),
        false_discovery_rate: power.false_discovery_rate,
    };
    let document = Document {
        format: FORMAT,
        name: &report.name,
        launches: report.launches,
        sessions: report.sessions,
        splits: report.plan.splits,
        seed: report.plan.seed,
        launches_needed: report.needed,
        alarming_splits: ProportionFields::of(&calibration.alarming),
        alarms: ProportionFields::together(&calibration.alarms),
        common_shifts: ProportionFields::of(&calibration.common_shifts),
        power: report.power.iter().map(power).collect(),
        benchmarks: calibration
            .benchmarks
            .iter()
            .map(|benchmark| BenchmarkFields {
                id: benchmark.id.as_str(),
                class: report.classes.get(&benchmark.id).copied().map(class_name),
                alarms: benchmark.alarms,
                mde: benchmark.minimal_detectable_effect,
                mde_halves: benchmark.minimal_detectable_effect_halves,
            })
            .collect(),
    };
    Ok(ascii_json(&serde_json::to_string_pretty(&document)?))
}
