//! One value from which every form of a comparison is made: text, Markdown, JSON, HTML.

mod json;
mod markdown;
mod note;
mod rows;
mod text;
mod words;

pub use json::{class_name, comparison_json};
pub use markdown::{COMMENT_BYTES_MAX, comparison_markdown};
pub use note::{Note, Which};
pub(super) use rows::{changed, effect_notes, rank};
pub use text::comparison_text;
pub(in crate::report) use words::{moved_as, standing};
pub use words::{verdict_name, verdict_reason};

use crate::baseline::{
    Difference, DifferenceKind, Input, InputKind, KnownSpread, LeftOut, Settings, environment_differences,
    settings_differences,
};
use crate::counted::counted;
use crate::environment::Environment;
use crate::observation::Observation;
use crate::stats::{BenchmarkId, Comparison, Effect, Options, SessionId, Side, Verdict, compare, in_process_effect};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// What one side was. All texts are as the input gave them, and may hold anything: show them through
/// [`Printable`](super::Printable).
#[derive(Clone, Debug, PartialEq)]
pub struct SideSummary {
    /// The baseline's name, or the input as it was given.
    pub name: String,
    /// What was read.
    pub kind: InputKind,
    /// When it was recorded, as RFC 3339 in UTC; `None` where the input does not say.
    pub created: Option<String>,
    /// The machine, the driver, the program; `None` where the input does not say.
    pub environment: Option<Environment>,
    /// How it was recorded; `None` where the input does not say.
    pub settings: Option<Settings>,
    /// Benchmarks with times.
    pub benchmarks: usize,
    /// Launches.
    pub launches: usize,
    /// Sessions that the launches belong to.
    pub sessions: usize,
    /// Benchmarks that the host paces; `None` where nobody measured it.
    pub host_bound: Option<usize>,
    /// Parts of the input that could not be used, and why.
    pub left_out: Vec<LeftOut>,
    /// What each benchmark showed beside its time, by id; empty where the input does not say.
    pub observations: BTreeMap<String, Observation>,
}

impl SideSummary {
    /// Returns what an input was.
    #[must_use]
    pub fn of(input: &Input) -> SideSummary {
        let keys = input.side.launch_keys();
        let sessions: BTreeSet<&SessionId> = keys.iter().map(|key| &key.session).collect();
        let bound: Vec<bool> = input
            .side
            .benchmarks()
            .filter_map(|(_, benchmark)| benchmark.host_bound())
            .collect();
        let measured = |launches: usize| launches > 0;
        SideSummary {
            name: input.name.clone(),
            kind: input.kind,
            created: input.manifest.as_ref().map(|manifest| manifest.created.clone()),
            environment: input.manifest.as_ref().map(|manifest| manifest.environment.clone()),
            settings: input.manifest.as_ref().map(|manifest| manifest.settings.clone()),
            benchmarks: input
                .side
                .benchmarks()
                .filter(|(_, benchmark)| measured(benchmark.launches().len()))
                .count(),
            launches: keys.len(),
            sessions: sessions.len(),
            host_bound: (!bound.is_empty()).then(|| bound.iter().filter(|&&bound| bound).count()),
            left_out: input.left_out.clone(),
            observations: input
                .manifest
                .as_ref()
                .map(|manifest| manifest.observations.clone())
                .unwrap_or_default(),
        }
    }
}

/// What a comparison was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompareRequest {
    /// Minimum effect and false discovery rate.
    pub options: Options,
    /// Whether anything suspected or missing counts as a regression.
    pub strict: bool,
    /// Whether sides that measured different things are compared all the same.
    pub allow_mismatch: bool,
    /// The spread between sessions that other recordings of this machine show.
    pub known_spread: Option<KnownSpread>,
}

/// What the exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// No regression was found.
    NoRegression,
    /// A regression was found: a benchmark's, or an established common slowdown.
    Regression,
    /// Something is suspected or missing, and the request was strict.
    Doubt,
}

/// A comparison, with everything that its reports show.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The base.
    pub base: SideSummary,
    /// The new side.
    pub new: SideSummary,
    /// What was asked for.
    pub request: CompareRequest,
    /// What differs between the sides, the treatment first; empty where a side has no environment.
    pub differences: Vec<Difference>,
    /// The verdicts.
    pub comparison: Comparison,
    /// Ratio of medians with its interval inside the processes, for benchmarks with one launch a side:
    /// all that can be said of them.
    pub in_process: BTreeMap<BenchmarkId, Effect>,
    /// Doubts about the inputs, beside those of `comparison`.
    pub notes: Vec<Note>,
    /// The base's launches.
    pub base_side: Side,
    /// The new side's launches.
    pub new_side: Side,
}

/// Why two sides are not compared.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Incomparable {
    /// They measured different things.
    #[error(
        "{base} and {new} do not compare: {}; {}",
        mismatches(differences),
        if *is_host_against_gpu {
            "the host device's times are never compared with a GPU's"
        } else {
            "--allow-mismatch compares them all the same"
        }
    )]
    Mismatch {
        /// The base's name.
        base: String,
        /// The new side's name.
        new: String,
        /// What differs; each is [`DifferenceKind::Refused`].
        differences: Vec<Difference>,
        /// Whether one side is the host device and the other a GPU, which no request allows.
        is_host_against_gpu: bool,
    },
    /// No benchmark was measured on both sides.
    #[error("{base} and {new} have no measured benchmark in common: {} in the base, {in_new} in the new side{}", counted(in_base, "id"), example.as_ref().map(|(base, new)| format!(", as {base:?} and {new:?}")).unwrap_or_default())]
    NothingInCommon {
        /// The base's name.
        base: String,
        /// The new side's name.
        new: String,
        /// Benchmarks of the base.
        in_base: usize,
        /// Benchmarks of the new side.
        in_new: usize,
        /// An id of each.
        example: Option<(String, String)>,
    },
}

fn mismatches(differences: &[Difference]) -> String {
    let one = |difference: &Difference| {
        let Difference {
            what,
            base,
            new,
            remedy,
            ..
        } = difference;
        let remedy = remedy.map(|remedy| format!(" ({remedy})")).unwrap_or_default();
        format!("{what} {base} against {new}{remedy}")
    };
    differences.iter().map(one).collect::<Vec<_>>().join(", ")
}

impl Compared {
    /// Compares a new side with a base.
    ///
    /// # Errors
    ///
    /// Sides that measured different things, unless the request allows it (never the host device and a
    /// GPU), and sides without a benchmark in common.
    pub fn new(base: Input, new: Input, request: CompareRequest) -> Result<Compared, Incomparable> {
        let differences = differences(&base, &new);
        let refused = |difference: &&Difference| difference.kind == DifferenceKind::Refused;
        let is_host_against_gpu = is_host(&base).zip(is_host(&new)).is_some_and(|(base, new)| base != new);
        let is_allowed = request.allow_mismatch && !is_host_against_gpu;
        if !is_allowed && differences.iter().any(|difference| refused(&difference)) {
            return Err(Incomparable::Mismatch {
                is_host_against_gpu,
                base: base.name,
                new: new.name,
                differences: differences.iter().filter(refused).cloned().collect(),
            });
        }
        let known = request.known_spread.as_ref().map(|known| known.spread);
        let options = known
            .and_then(|spread| request.options.with_session_spread(spread).ok())
            .unwrap_or(request.options);
        let comparison = compare(&base.side, &new.side, &options);
        if comparison
            .benchmarks
            .iter()
            .all(|benchmark| benchmark.measured.is_none())
        {
            return Err(nothing_in_common(base, new));
        }
        let in_process = in_process(&base, &new, &comparison);
        let notes = Note::of(&base, &new, &differences, &comparison);
        Ok(Compared {
            base: SideSummary::of(&base),
            new: SideSummary::of(&new),
            request,
            differences,
            comparison,
            in_process,
            notes,
            base_side: base.side,
            new_side: new.side,
        })
    }

    /// Returns what was found, as the exit code tells it.
    #[must_use]
    pub fn conclusion(&self) -> Conclusion {
        let summary = self.comparison.summary;
        if self.comparison.has_regression() {
            Conclusion::Regression
        } else if self.request.strict && (summary.suspected > 0 || summary.missing > 0) {
            Conclusion::Doubt
        } else {
            Conclusion::NoRegression
        }
    }

    /// Returns the exit code of `poolbench compare`.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.conclusion() {
            Conclusion::NoRegression => 0,
            Conclusion::Regression | Conclusion::Doubt => 1,
        }
    }

    /// Returns whether any benchmark has launches enough for a verdict.
    #[must_use]
    pub fn has_verdicts(&self) -> bool {
        use crate::stats::Inconclusive::FewLaunches;
        self.comparison
            .benchmarks
            .iter()
            .any(|benchmark| benchmark.measured.is_some() && benchmark.verdict != Verdict::Inconclusive(FewLaunches))
    }
}

/// Whether a side is the host device's; `None` where it does not say.
fn is_host(input: &Input) -> Option<bool> {
    let manifest = input.manifest.as_ref()?;
    Some(manifest.environment.device.name == "host")
}

fn differences(base: &Input, new: &Input) -> Vec<Difference> {
    let (Some(base), Some(new)) = (&base.manifest, &new.manifest) else {
        return Vec::new();
    };
    let mut differences = settings_differences(&base.settings, &new.settings);
    differences.extend(environment_differences(&base.environment, &new.environment));
    differences.sort_by_key(|difference| difference.kind);
    differences
}

fn nothing_in_common(base: Input, new: Input) -> Incomparable {
    let first = |input: &Input| input.side.benchmarks().next().map(|(id, _)| id.to_string());
    Incomparable::NothingInCommon {
        in_base: base.side.benchmarks().len(),
        in_new: new.side.benchmarks().len(),
        example: first(&base).zip(first(&new)),
        base: base.name,
        new: new.name,
    }
}

fn in_process(base: &Input, new: &Input, comparison: &Comparison) -> BTreeMap<BenchmarkId, Effect> {
    let single = |benchmark: &&crate::stats::BenchmarkComparison| {
        benchmark
            .measured
            .as_ref()
            .is_some_and(|measured| measured.launches == (1, 1))
    };
    let effect = |benchmark: &crate::stats::BenchmarkComparison| {
        let times = base.process_time(&benchmark.id).zip(new.process_time(&benchmark.id))?;
        Some((benchmark.id.clone(), in_process_effect(&times.0, &times.1)?))
    };
    comparison.benchmarks.iter().filter(single).filter_map(effect).collect()
}
