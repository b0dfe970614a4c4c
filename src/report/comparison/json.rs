//! A comparison for programs.

use super::words::{verdict_name, verdict_reason};
use super::{Compared, Conclusion, SideSummary};
use crate::baseline::{Difference, InputKind, LeftOut};
use crate::environment::Environment;
use crate::report::ascii_json::ascii_json;
use crate::stats::{BenchmarkComparison, Class, Correction, Direction, Effect, Measured};
use serde::Serialize;

/// The format's version.
const FORMAT: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    format: u32,
    conclusion: &'static str,
    exit_code: u8,
    headline: String,
    base: SideFields<'a>,
    new: SideFields<'a>,
    options: OptionFields<'a>,
    differences: &'a [Difference],
    summary: SummaryFields,
    common_shift: Option<CommonShiftFields>,
    group_shifts: Vec<GroupShiftFields<'a>>,
    findings: Vec<FindingFields<'a>>,
    renamings: Vec<RenamingFields>,
    benchmarks: Vec<BenchmarkFields<'a>>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct SideFields<'a> {
    name: &'a str,
    kind: InputKind,
    created: Option<&'a str>,
    benchmarks: usize,
    launches: usize,
    sessions: usize,
    host_bound: Option<usize>,
    environment: Option<&'a Environment>,
    left_out: &'a [LeftOut],
}

#[derive(Serialize)]
struct OptionFields<'a> {
    min_effect: f64,
    fdr: f64,
    strict: bool,
    allow_mismatch: bool,
    session_spread: Option<SpreadFields<'a>>,
}

#[derive(Serialize)]
struct SpreadFields<'a> {
    gpu_bound: f64,
    mixed: f64,
    host_bound: Option<f64>,
    pairs: usize,
    baselines: &'a [String],
}

#[derive(Serialize)]
struct SummaryFields {
    regressed: usize,
    improved: usize,
    suspected: usize,
    equivalent: usize,
    inconclusive: usize,
    new: usize,
    missing: usize,
    skipped: usize,
}

#[derive(Serialize)]
struct CommonShiftFields {
    #[serde(flatten)]
    effect: EffectFields,
    benchmarks: usize,
    declared: bool,
    established: bool,
    moved_apart: bool,
    in_proportion: bool,
    probe_ratio: Option<f64>,
}

#[derive(Serialize)]
struct GroupShiftFields<'a> {
    group: &'a str,
    #[serde(flatten)]
    effect: EffectFields,
    benchmarks: usize,
    established: bool,
    probe_ratio: Option<f64>,
}

#[derive(Serialize)]
struct FindingFields<'a> {
    label: String,
    direction: &'static str,
    ratio: f64,
    compared: usize,
    /// Of `benchmarks`; the others are suspected.
    proven: usize,
    benchmarks: Vec<&'a str>,
}

#[derive(Serialize)]
struct RenamingFields {
    from: String,
    to: String,
    benchmarks: usize,
}

/// Ratio and 95 % interval; what is not known is null.
#[derive(Serialize, Default)]
struct EffectFields {
    ratio: Option<f64>,
    ci_low: Option<f64>,
    ci_high: Option<f64>,
}

#[derive(Serialize)]
struct BenchmarkFields<'a> {
    id: &'a str,
    verdict: &'static str,
    #[serde(flatten)]
    effect: EffectFields,
    p_value: Option<f64>,
    q_value: Option<f64>,
    mde: Option<f64>,
    reason: Option<String>,
    class: Option<&'static str>,
    launches: Option<[usize; 2]>,
    raw: EffectFields,
    corrected: EffectFields,
    in_process: EffectFields,
    median_ratio: Option<f64>,
    probe_slope: Option<f64>,
    sessions_needed: Option<usize>,
}

impl EffectFields {
    fn of(effect: &Effect) -> EffectFields {
        EffectFields {
            ratio: Some(effect.ratio),
            ci_low: effect.interval.map(|interval| interval.lower),
            ci_high: effect.interval.map(|interval| interval.upper),
        }
    }
}

/// Returns the comparison as one JSON object. Undefined values are null; characters beyond ASCII are
/// escaped, so that an id cannot do anything to a terminal.
///
/// # Errors
///
/// None that these types can cause.
pub fn comparison_json(compared: &Compared) -> serde_json::Result<String> {
    let comparison = &compared.comparison;
    let summary = comparison.summary;
    let document = Document {
        format: FORMAT,
        conclusion: match compared.conclusion() {
            Conclusion::NoRegression if !compared.has_verdicts() => "no_verdict",
            Conclusion::NoRegression => "no_regression",
            Conclusion::Regression => "regression",
            Conclusion::Doubt => "doubt",
        },
        exit_code: compared.exit_code(),
        headline: compared.headline(),
        base: side(&compared.base),
        new: side(&compared.new),
        options: options(compared),
        differences: &compared.differences,
        summary: SummaryFields {
            regressed: summary.regressed,
            improved: summary.improved,
            suspected: summary.suspected,
            equivalent: summary.equivalent,
            inconclusive: summary.inconclusive,
            new: summary.new,
            missing: summary.missing,
            skipped: summary.skipped,
        },
        common_shift: comparison.common_shift.map(|shift| CommonShiftFields {
            effect: EffectFields::of(&shift.effect),
            benchmarks: shift.benchmarks,
            declared: shift.declared,
            established: shift.established,
            moved_apart: shift.correction == Correction::MovedApart,
            in_proportion: shift.correction == Correction::InProportion,
            probe_ratio: shift.probe_shift.map(|probe| probe.ratio),
        }),
        group_shifts: comparison
            .group_shifts
            .iter()
            .map(|group| GroupShiftFields {
                group: &group.group,
                effect: EffectFields::of(&group.effect),
                benchmarks: group.benchmarks,
                established: group.established,
                probe_ratio: group.probe_shift.map(|probe| probe.ratio),
            })
            .collect(),
        findings: findings(compared),
        renamings: comparison
            .renamings
            .iter()
            .map(|renaming| RenamingFields {
                from: renaming.from.to_string(),
                to: renaming.to.to_string(),
                benchmarks: renaming.benchmarks,
            })
            .collect(),
        benchmarks: comparison
            .benchmarks
            .iter()
            .map(|compared_benchmark| benchmark(compared, compared_benchmark))
            .collect(),
        warnings: compared.doubt_lines(),
    };
    Ok(ascii_json(&serde_json::to_string_pretty(&document)?))
}

fn side(side: &SideSummary) -> SideFields<'_> {
    SideFields {
        name: &side.name,
        kind: side.kind,
        created: side.created.as_deref(),
        benchmarks: side.benchmarks,
        launches: side.launches,
        sessions: side.sessions,
        host_bound: side.host_bound,
        environment: side.environment.as_ref(),
        left_out: &side.left_out,
    }
}

fn options(compared: &Compared) -> OptionFields<'_> {
    let request = &compared.request;
    OptionFields {
        min_effect: request.options.min_effect(),
        fdr: request.options.false_discovery_rate(),
        strict: request.strict,
        allow_mismatch: request.allow_mismatch,
        session_spread: request.known_spread.as_ref().map(|known| SpreadFields {
            gpu_bound: known.spread.gpu_bound,
            mixed: known.spread.mixed,
            host_bound: known.spread.host_bound,
            pairs: known.pairs,
            baselines: &known.baselines,
        }),
    }
}

fn findings(compared: &Compared) -> Vec<FindingFields<'_>> {
    compared
        .comparison
        .findings
        .iter()
        .map(|finding| FindingFields {
            label: finding.label.to_string(),
            direction: match finding.direction {
                Direction::Slower => "slower",
                Direction::Faster => "faster",
            },
            ratio: finding.ratio,
            compared: finding.compared,
            proven: finding.proven,
            benchmarks: finding.benchmarks.iter().map(|id| id.as_str()).collect(),
        })
        .collect()
}

fn benchmark<'a>(compared: &Compared, benchmark: &'a BenchmarkComparison) -> BenchmarkFields<'a> {
    let measured = benchmark.measured.as_ref();
    let in_process = compared.in_process.get(&benchmark.id);
    let effect_of = |of: fn(&Measured) -> &Effect| measured.map(|measured| EffectFields::of(of(measured)));
    BenchmarkFields {
        id: benchmark.id.as_str(),
        verdict: verdict_name(&benchmark.verdict),
        effect: effect_of(|measured| &measured.effect).unwrap_or_default(),
        p_value: measured.and_then(|measured| measured.p_value),
        // Without a p-value it is the placeholder of a benchmark that was not tested.
        q_value: measured
            .filter(|measured| measured.p_value.is_some())
            .map(|measured| measured.q_value),
        mde: measured.and_then(|measured| measured.minimal_detectable_effect),
        reason: verdict_reason(&benchmark.verdict),
        class: measured.map(|measured| class_name(measured.class)),
        launches: measured.map(|measured| [measured.launches.0, measured.launches.1]),
        raw: effect_of(|measured| &measured.raw).unwrap_or_default(),
        corrected: effect_of(|measured| &measured.corrected).unwrap_or_default(),
        in_process: in_process.map(EffectFields::of).unwrap_or_default(),
        median_ratio: measured.and_then(|measured| measured.median_ratio),
        probe_slope: measured
            .and_then(|measured| measured.probe_slope.as_ref())
            .map(|slope| slope.slope),
        sessions_needed: match benchmark.verdict {
            crate::stats::Verdict::Suspected { sessions_needed } => sessions_needed,
            _ => None,
        },
    }
}

/// Returns the word for a class.
#[must_use]
pub fn class_name(class: Class) -> &'static str {
    match class {
        Class::GpuBound => "gpu_bound",
        Class::Mixed => "mixed",
        Class::HostBound => "host_bound",
        Class::Unknown => "unknown",
    }
}
