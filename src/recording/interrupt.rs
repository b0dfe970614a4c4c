//! Ctrl-C, and what else asks a recording to stop.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fs, io, thread};

/// What a child process that is waited for may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// One of its outputs was read to the end.
    Closed,
    /// The user wants to stop.
    Interrupted,
}

/// The wish to stop, raised once and for all. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    raised: bool,
    listener: Option<Sender<Event>>,
}

impl Interrupt {
    /// An interrupt that Ctrl-C, SIGTERM and SIGHUP raise; SIGHUP not where `nohup` has the process ignore it.
    ///
    /// # Errors
    ///
    /// The operating system's refusal.
    pub fn on_signals() -> io::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let raised = interrupt.clone();
        // A shell has its background jobs ignore SIGINT, too, but who sends one to a recording means it.
        let hangs_up = ignored_signals() >> (SIGHUP - 1) & 1 == 0;
        let mut signals = Signals::new([SIGINT, SIGTERM].into_iter().chain(hangs_up.then_some(SIGHUP)))?;
        thread::Builder::new().spawn(move || signals.forever().for_each(|_| raised.raise()))?;
        Ok(interrupt)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks to stop.
    pub fn raise(&self) {
        let mut state = self.state();
        state.raised = true;
        if let Some(listener) = state.listener.take() {
            let _ = listener.send(Event::Interrupted);
        }
    }

    /// Whether somebody asked to stop.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.state().raised
    }

    /// Tells `listener` too, at once where it is raised already.
    pub(super) fn listen(&self, listener: Sender<Event>) {
        let mut state = self.state();
        if state.raised {
            let _ = listener.send(Event::Interrupted);
        } else {
            state.listener = Some(listener);
        }
    }
}

/// The signals that the process ignores, the first in the lowest bit; none where nobody says.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
