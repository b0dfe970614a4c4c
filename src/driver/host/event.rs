//! Events of the host device.

use super::stream::{Clock, StreamId};
use crate::driver::Code;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// An event: recorded in a stream, reached when the stream's worker gets there.
#[derive(Debug)]
pub(super) struct Event {
    timing: bool,
    state: Mutex<State>,
    reached: Condvar,
}

#[derive(Debug, Default)]
struct State {
    recorded: u64,
    reached: u64,
    reached_at: Option<Instant>,
    clock: Clock,
    /// The stream in whose capture it was last recorded; a record that is no work leaves nothing to
    /// wait for.
    captured_in: Option<StreamId>,
}

impl Event {
    pub(super) fn new(timing: bool) -> Event {
        Event {
            timing,
            state: Mutex::default(),
            reached: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a record whose stream has submitted what `clock` says, and returns its generation.
    pub(super) fn record(&self, clock: Clock) -> u64 {
        let mut state = self.state();
        state.recorded += 1;
        state.clock = clock;
        state.captured_in = None;
        state.recorded
    }

    /// Notes a record in a capturing stream.
    pub(super) fn capture_in(&self, stream: StreamId) {
        self.state().captured_in = Some(stream);
    }

    /// The capturing stream that the event was last recorded in.
    pub(super) fn captured_in(&self) -> Option<StreamId> {
        self.state().captured_in
    }

    /// The stream's worker has come to the record of this generation.
    pub(super) fn reach(&self, generation: u64) {
        let mut state = self.state();
        if generation > state.reached {
            state.reached = generation;
            state.reached_at = Some(Instant::now());
        }
        self.reached.notify_all();
    }

    pub(super) fn wait(&self, generation: u64) {
        let state = self.state();
        drop(
            self.reached
                .wait_while(state, |state| state.reached < generation)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// The generation of the last record and what it stands for; generation 0 was never recorded.
    pub(super) fn latest(&self) -> (u64, Clock) {
        let state = self.state();
        (state.recorded, state.clock.clone())
    }

    /// Whether the last record was reached. An event that was never recorded counts as reached.
    pub(super) fn is_reached(&self) -> bool {
        let state = self.state();
        state.reached >= state.recorded
    }

    /// Milliseconds from `start` to this event.
    pub(super) fn elapsed_ms_since(&self, start: &Event) -> Result<f32, Code> {
        if !(self.timing && start.timing) {
            return Err(Code::INVALID_HANDLE);
        }
        let instant = |event: &Event| {
            let state = event.state();
            match (state.recorded, state.reached_at) {
                (0, _) => Err(Code::INVALID_HANDLE),
                (recorded, Some(at)) if state.reached >= recorded => Ok(at),
                _ => Err(Code::NOT_READY),
            }
        };
        let (start, end) = (instant(start)?, instant(self)?);
        let forward = end.saturating_duration_since(start).as_secs_f64();
        let backward = start.saturating_duration_since(end).as_secs_f64();
        #[allow(clippy::cast_possible_truncation, reason = "the driver's own precision")]
        Ok(((forward - backward) * 1e3) as f32)
    }
}
