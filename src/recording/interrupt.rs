//! Ctrl-C, and what else asks a recording to stop.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// An interrupt that Ctrl-C, SIGTERM and SIGHUP raise. Once a process.
    ///
    /// # Errors
    ///
    /// The operating system's refusal, or a second call.
    pub fn on_signals() -> Result<Interrupt, ctrlc::Error> {
        let interrupt = Interrupt::default();
        let raised = interrupt.clone();
        ctrlc::set_handler(move || raised.raise())?;
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
