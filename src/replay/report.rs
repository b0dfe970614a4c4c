//! One value with everything that a session found, for text and JSON alike.

use super::advice::{Advice, CONFIDENCE_LEVEL, Candidate, Difference, Verdict, advise};
use super::program::{Counts, Synchronise};
use super::session::{Combination, Measured, Replayed, Settings, SlowestCall};
use super::touch::Touched;
use crate::stats::Median;
use crate::strategy::{ARENA, HOISTED};
use crate::trace::{Format, LiveBefore, Trace};
use serde::Serialize;

/// The format's version.
const FORMAT: u32 = 1;

/// A session's result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this format.
    pub format: u32,
    /// What was measured.
    pub device: String,
    /// Whether that was the host device, whose times mean nothing for a GPU.
    pub is_host: bool,
    /// The file.
    pub trace: String,
    /// What the trace was read from.
    pub source: Format,
    /// Frees in the trace whose allocations it does not hold, and which are not replayed.
    pub orphan_frees: u64,
    /// Blocks that were live before the trace began, as far as its file tells; neither replayed nor in the peak.
    pub live_before: LiveBefore,
    /// Threads that made the calls; one submits them here.
    pub n_threads: usize,
    /// Streams of the replay.
    pub n_streams: usize,
    /// What was replayed.
    pub replayed: Counts,
    /// The most bytes live at once, scaled.
    pub peak_live_bytes: u64,
    /// Factor of every size.
    pub scale: f64,
    /// Where the host waited.
    pub synchronise: String,
    /// Timed replays of each combination.
    pub repeats: u32,
    /// By strategy and threshold.
    pub combinations: Vec<CombinationReport>,
    /// What was not replayed.
    pub skipped: Vec<SkippedReport>,
    /// What to do.
    pub advice: AdviceReport,
}

/// A median with its interval, in nanoseconds per event.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PerEvent {
    /// Median over the repeats.
    pub median_ns: f64,
    /// Lower end of the interval; `None` for too few repeats.
    pub lower_ns: Option<f64>,
    /// Upper end.
    pub upper_ns: Option<f64>,
}

/// What one combination brought.
#[derive(Clone, Debug, Serialize)]
pub struct CombinationReport {
    /// As `stream_ordered@max`.
    pub name: String,
    /// The strategy.
    pub strategy: &'static str,
    /// The threshold as it was asked for.
    pub threshold: Option<String>,
    /// The threshold in bytes.
    pub threshold_bytes: Option<u64>,
    /// Time of a replay that follows another.
    pub per_event: Option<PerEvent>,
    /// Time of a replay that finds nothing allocated.
    pub first_per_event: Option<PerEvent>,
    /// `[repeats]`: the replays that follow another, in nanoseconds.
    pub times_ns: Vec<f64>,
    /// `[repeats]`: those that find nothing allocated.
    pub first_times_ns: Vec<f64>,
    /// The slowest driver call, from a replay of its own.
    pub slowest_call: Option<SlowestCall>,
    /// Driver calls of one replay.
    pub driver_calls: u64,
    /// The most that was held of the device's memory.
    pub peak_reserved_bytes: Option<u64>,
    /// Over the most bytes live at once.
    pub fragmentation: Option<f64>,
    /// What is held once all is freed.
    pub held_bytes: Option<u64>,
    /// Allocations that found no memory.
    pub out_of_memory: u64,
    /// What was written and verified.
    pub touched: Option<Touched>,
}

/// A combination that was not replayed.
#[derive(Clone, Debug, Serialize)]
pub struct SkippedReport {
    /// As `managed`.
    pub name: String,
    /// Why not.
    pub reason: String,
}

/// The recommendation by name.
#[derive(Clone, Debug, Serialize)]
pub struct AdviceReport {
    /// What to do.
    pub verdict: Verdict,
    /// The combination to use.
    pub recommended: Option<String>,
    /// What the program uses now, as asked or assumed.
    pub present: String,
    /// Where the recommended one is an allocator of the program's own: what to use without.
    pub without_own_allocator: Option<AlternativeReport>,
    /// How much longer the present one takes than the recommended one, per event.
    pub saves: Option<Difference>,
    /// What the recommended one holds more than the present one, in bytes; negative for less.
    pub holds_more_bytes: Option<i64>,
    /// How much longer the recommended one takes than not allocating at all.
    pub over_baseline: Option<Difference>,
    /// What holds less, cheapest first.
    pub alternatives: Vec<AlternativeReport>,
    /// What is faster where the trace runs once, from an empty pool.
    pub faster_at_first: Option<AlternativeReport>,
    /// The recommendation in words.
    pub paragraph: String,
    /// When it would change, and what it rests on.
    pub notes: Vec<String>,
}

/// Another combination, against the recommended one.
#[derive(Clone, Debug, Serialize)]
pub struct AlternativeReport {
    /// Which.
    pub name: String,
    /// What it holds less.
    pub held_less_bytes: Option<u64>,
    /// What it costs, or in a first replay saves, per event.
    pub difference: Difference,
}

/// What a report is about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The device.
    pub device: &'a str,
    /// Whether it is the host device.
    pub is_host: bool,
    /// The file.
    pub trace_name: &'a str,
    /// The trace.
    pub trace: &'a Trace,
    /// Whether the present strategy was named, or is assumed.
    pub present_is_named: bool,
}

impl Report {
    /// The report of a session.
    #[must_use]
    pub fn new(subject: &Subject<'_>, settings: &Settings, replayed: &Replayed) -> Report {
        let counts = replayed.program.counts();
        let peak_live_bytes = replayed.program.peak_live_bytes();
        let candidates: Vec<Candidate> = replayed.measured.iter().map(|m| candidate(m, counts.events)).collect();
        let is_present = |measured: &Measured| {
            let bytes = |combination: &Combination| combination.threshold.map(|t| t.bytes(peak_live_bytes));
            let same = measured.combination.strategy.name == settings.present.strategy.name;
            same && (bytes(&measured.combination).is_none() || bytes(&measured.combination) == bytes(&settings.present))
        };
        let present = replayed.measured.iter().position(is_present);
        let advice = advise(&candidates, present);
        let present_name = match present {
            Some(index) => candidates[index].name.clone(),
            None => unmeasured_name(&settings.present, replayed),
        };
        let mut report = Report {
            format: FORMAT,
            device: subject.device.to_owned(),
            is_host: subject.is_host,
            trace: subject.trace_name.to_owned(),
            source: subject.trace.format(),
            orphan_frees: subject.trace.orphan_frees(),
            live_before: subject.trace.live_before(),
            n_threads: subject.trace.threads().len(),
            n_streams: replayed.program.n_streams(),
            replayed: counts,
            peak_live_bytes,
            scale: settings.scale,
            synchronise: where_the_host_waits(settings.synchronise),
            repeats: settings.repeats,
            combinations: replayed
                .measured
                .iter()
                .map(|measured| combination(measured, &replayed.program))
                .collect(),
            skipped: replayed.skipped.iter().map(skipped).collect(),
            advice: by_name(&advice, &candidates, present_name),
        };
        let (paragraph, notes) = super::words::words(&report, subject);
        report.advice.paragraph = paragraph;
        report.advice.notes = notes;
        report
    }

    /// The combination of this name.
    #[must_use]
    pub fn combination(&self, name: &str) -> Option<&CombinationReport> {
        self.combinations.iter().find(|combination| combination.name == name)
    }
}

fn where_the_host_waits(synchronise: Synchronise) -> String {
    match synchronise {
        Synchronise::AsTraced => "as_traced".to_owned(),
        Synchronise::Every(n) => format!("every {n}"),
        Synchronise::AtGaps(gap) => format!("at_gaps {} ns", gap.as_nanos()),
    }
}

fn per_event(times_ns: &[f64], events: u64) -> Vec<f64> {
    times_ns.iter().map(|time| time / events.max(1) as f64).collect()
}

fn candidate(measured: &Measured, events: u64) -> Candidate {
    Candidate {
        name: measured.combination.to_string(),
        is_baseline: measured.combination.strategy.name == HOISTED.name,
        is_own_allocator: measured.combination.strategy.name == ARENA.name,
        times_ns: per_event(&measured.times_ns, events),
        first_times_ns: per_event(&measured.first_times_ns, events),
        held_bytes: measured.held_bytes,
        out_of_memory: measured.out_of_memory,
    }
}

fn estimate(times_ns: &[f64], events: u64) -> Option<PerEvent> {
    let median = Median::of(per_event(times_ns, events), CONFIDENCE_LEVEL)?;
    Some(PerEvent {
        median_ns: median.point,
        lower_ns: median.interval.map(|interval| interval.lower),
        upper_ns: median.interval.map(|interval| interval.upper),
    })
}

fn combination(measured: &Measured, program: &super::Program) -> CombinationReport {
    let Measured { combination, .. } = measured;
    let events = program.counts().events;
    let peak_bytes = program.peak_live_bytes();
    CombinationReport {
        name: combination.to_string(),
        strategy: combination.strategy.name,
        threshold: combination.threshold.map(|threshold| threshold.to_string()),
        threshold_bytes: combination.threshold.map(|threshold| threshold.bytes(peak_bytes)),
        per_event: estimate(&measured.times_ns, events),
        first_per_event: estimate(&measured.first_times_ns, events),
        times_ns: measured.times_ns.clone(),
        first_times_ns: measured.first_times_ns.clone(),
        slowest_call: measured.slowest_call,
        driver_calls: measured.driver_calls,
        peak_reserved_bytes: measured.peak_reserved_bytes,
        fragmentation: measured
            .peak_reserved_bytes
            .map(|reserved| reserved as f64 / peak_bytes as f64),
        held_bytes: measured.held_bytes,
        out_of_memory: measured.out_of_memory,
        touched: measured.touched,
    }
}

fn skipped(skipped: &super::Skipped) -> SkippedReport {
    SkippedReport {
        name: skipped.combination.to_string(),
        reason: skipped.reason.clone(),
    }
}

/// A strategy that was skipped as a whole has no threshold, whatever was asked for.
fn unmeasured_name(present: &Combination, replayed: &Replayed) -> String {
    let mut skipped = replayed.skipped.iter().map(|skipped| &skipped.combination);
    let found = skipped.find(|combination| combination.strategy.name == present.strategy.name);
    found.unwrap_or(present).to_string()
}

fn by_name(advice: &Advice, candidates: &[Candidate], present: String) -> AdviceReport {
    let name = |index: usize| candidates[index].name.clone();
    let held = |index: Option<usize>| {
        candidates[index?]
            .held_bytes
            .and_then(|bytes| i64::try_from(bytes).ok())
    };
    let other = |(candidate, difference)| AlternativeReport {
        name: name(candidate),
        held_less_bytes: None,
        difference,
    };
    AdviceReport {
        verdict: advice.verdict,
        recommended: advice.recommended.map(name),
        present,
        without_own_allocator: advice.without_own_allocator.map(other),
        saves: advice.saves,
        holds_more_bytes: held(advice.recommended)
            .zip(held(advice.present))
            .map(|(recommended, present)| recommended - present),
        over_baseline: advice.over_baseline,
        alternatives: advice
            .alternatives
            .iter()
            .map(|alternative| AlternativeReport {
                name: name(alternative.candidate),
                held_less_bytes: Some(alternative.held_less_bytes),
                difference: alternative.costs,
            })
            .collect(),
        faster_at_first: advice.faster_at_first.map(other),
        paragraph: String::new(),
        notes: Vec::new(),
    }
}
