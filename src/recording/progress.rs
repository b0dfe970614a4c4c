//! What a recording says while it runs: a bar on a terminal, a line a launch elsewhere. All of it to
//! standard error, and nothing of it while a process measures.

use crate::baseline::Launch;
use crate::counted::agreeing;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Says how far a recording is.
pub struct Progress {
    bar: Option<ProgressBar>,
    total: u64,
    done: u64,
    done_here: u32,
    repeated: u64,
    began: Instant,
    disturbances: String,
}

impl Progress {
    /// A bar where standard error is a terminal, lines elsewhere.
    #[must_use]
    pub fn to_stderr() -> Progress {
        Progress {
            bar: None,
            total: 0,
            done: 0,
            done_here: 0,
            repeated: 0,
            began: Instant::now(),
            disturbances: String::new(),
        }
    }

    /// Says a line of its own.
    pub fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| say(text)),
            None => say(text),
        }
    }

    /// Begins: some launches may be done already.
    pub(super) fn begin(&mut self, done: u64, total: u64, repeated: u64) {
        (self.done, self.total, self.repeated) = (done, total, repeated);
        self.began = Instant::now();
        // A template that is written here is a valid one.
        let style = ProgressStyle::with_template("{bar:30} {pos} of {len} done {msg}");
        if let (true, Ok(style)) = (std::io::stderr().is_terminal(), style) {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            bar.set_style(style);
            bar.set_position(done);
            self.bar = Some(bar);
        }
    }

    /// A process is about to begin. The bar moves only here, since drawing it costs the measurement.
    pub(super) fn process(&self, launch: u64, bench: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}launch {}: {bench}", self.left(), launch + 1));
        }
    }

    /// Measurements are thrown away and repeated.
    pub(super) fn disturbed(&mut self, launch: &Launch, ids: &BTreeSet<String>) {
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for flag in ids
            .iter()
            .filter_map(|id| launch.samples.get(id))
            .flat_map(|samples| &samples.flags)
        {
            *reasons.entry(flag).or_default() += 1;
        }
        let reasons: Vec<String> = reasons.iter().map(|(flag, count)| format!("{flag} {count}")).collect();
        self.repeated += ids.len() as u64;
        self.disturbances.push_str(&format!(
            "; threw away and repeated {} ({})",
            ids.len(),
            reasons.join(", ")
        ));
    }

    /// A launch is finished and on disk; some of its measurements may still be marked.
    pub(super) fn launched(&mut self, marked: usize) {
        self.done += 1;
        self.done_here += 1;
        let mut notes = std::mem::take(&mut self.disturbances);
        if marked > 0 {
            notes.push_str(&format!(
                "; {marked} {} marked as disturbed",
                agreeing(marked, "stays", "stay")
            ));
        }
        match &self.bar {
            Some(bar) => {
                bar.set_position(self.done);
                if !notes.is_empty() {
                    self.line(&format!("launch {}{notes}", self.done));
                }
            }
            None => self.line(&format!(
                "launch {} of {} done{}{notes}",
                self.done,
                self.total,
                self.left_phrase()
            )),
        }
    }

    /// Ends the bar.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// How long it took so far.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The time that is left, by the launches of this run; `None` before the first.
    fn time_left(&self) -> Option<Duration> {
        let left = u32::try_from(self.total.saturating_sub(self.done)).ok()?;
        (self.done_here > 0).then(|| self.began.elapsed() / self.done_here * left)
    }

    fn left(&self) -> String {
        let repeated = match self.repeated {
            0 => String::new(),
            count => format!("{count} repeated, "),
        };
        self.time_left()
            .map_or(repeated.clone(), |left| format!("{} left, {repeated}", spoken(left)))
    }

    fn left_phrase(&self) -> String {
        match self.time_left() {
            Some(left) if self.done < self.total => format!(", {} left", spoken(left)),
            _ => String::new(),
        }
    }
}

/// Says a line on standard error. One that is closed does not end a recording.
pub(super) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "poolbench: {text}");
}

/// A duration to the second, as `3m 20s`.
#[must_use]
pub fn spoken(duration: Duration) -> String {
    let whole = Duration::from_secs(duration.as_secs_f64().round() as u64);
    humantime::format_duration(whole).to_string()
}
