//! The device's streams and events: their handles, how they wait, and what is known once they have.

use super::device::{HostDevice, State};
use super::event::Event;
use super::memory::Memory;
use super::pool::Progress;
use super::stream::{Clock, Operation, Stream, StreamId};
use crate::driver::Code;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The handle of the legacy default stream.
pub(super) const DEFAULT_STREAM: StreamId = 0;
/// `CU_STREAM_LEGACY`, its other handle.
const LEGACY_STREAM: StreamId = 1;
/// `CU_STREAM_PER_THREAD`: a default stream for each thread.
pub(super) const PER_THREAD_STREAM: StreamId = 2;

thread_local! {
    static OWN_DEFAULT_STREAM: Cell<StreamId> = const { Cell::new(0) };
}

/// What streams have done and know of each other.
pub(super) struct StreamProgress<'a> {
    pub(super) streams: &'a BTreeMap<StreamId, Arc<Stream>>,
    pub(super) retired: &'a [Arc<Stream>],
}

impl StreamProgress<'_> {
    /// A stream, also one that was destroyed and still has work to do. One that is gone has run.
    pub(super) fn unfinished(&self, id: StreamId) -> Option<&Arc<Stream>> {
        let retired = || self.retired.iter().find(|stream| stream.id == id);
        self.streams.get(&id).or_else(retired)
    }
}

impl Progress for StreamProgress<'_> {
    fn has_run(&self, stream: StreamId, position: u64) -> bool {
        self.unfinished(stream)
            .is_none_or(|stream| stream.completed() >= position)
    }
    fn is_ordered(&self, waiting: StreamId, stream: StreamId, position: u64) -> bool {
        self.streams
            .get(&waiting)
            .is_some_and(|waiting| waiting.known().covers(stream, position))
    }
    fn order(&mut self, waiting: StreamId, stream: StreamId, position: u64) {
        if let (Some(waiting), Some(stream)) = (self.streams.get(&waiting), self.unfinished(stream)) {
            waiting.submit(Operation::WaitFor {
                stream: Arc::clone(stream),
                position,
            });
        }
    }
}

impl HostDevice {
    pub(super) fn create_stream(&self, is_blocking: bool) -> Result<u64, Code> {
        let mut state = self.in_context()?;
        let id = state.new_handle();
        state.start_stream(id, is_blocking, &self.memory)?;
        Ok(id)
    }

    /// The stream, to ask it something.
    pub(super) fn stream(&self, id: StreamId) -> Result<Arc<Stream>, Code> {
        self.for_stream(id)?.stream(id, &self.memory)
    }

    /// The stream, to submit to it.
    pub(super) fn ordered_stream(&self, id: StreamId) -> Result<Arc<Stream>, Code> {
        self.for_stream(id)?.ordered_stream(id, &self.memory)
    }

    /// Destroying a stream does not wait for it. What was freed in it is free once it has run.
    pub(super) fn destroy_stream(&self, id: StreamId) -> Result<(), Code> {
        let mut state = self.initialized()?;
        if id <= PER_THREAD_STREAM {
            return Err(Code::INVALID_HANDLE);
        }
        let stream = state.streams.remove(&id).ok_or(Code::CONTEXT_IS_DESTROYED)?;
        state.captures.forget(id);
        state.retired.push(stream);
        let finished = state.observe_retired(&self.memory);
        drop(state);
        // Joins workers that have nothing left to do.
        drop(finished);
        Ok(())
    }

    /// Waits for a stream, then takes note of what is known to be complete.
    pub(super) fn synchronize_stream(&self, id: StreamId) -> Result<(), Code> {
        let stream = self.uncaptured_stream(id)?;
        // Waiting for the legacy default stream includes what it would wait for; other streams have
        // waited for it where that was needed.
        if stream.id == DEFAULT_STREAM {
            self.ordered_stream(id)?;
        }
        let clock = stream.synchronize()?;
        self.observe(&clock);
        Ok(())
    }

    pub(super) fn synchronize_event(&self, id: u64) -> Result<(), Code> {
        let event = self.uncaptured_event(id)?;
        let (generation, clock) = event.latest();
        event.wait(generation);
        self.observe(&clock);
        Ok(())
    }

    pub(super) fn synchronize_context(&self) -> Result<(), Code> {
        self.in_context()?.captures.refuse_any()?;
        let clock = self.wait_for_everything()?;
        self.observe(&clock);
        Ok(())
    }

    /// Waits for all work and takes note of what is then complete, also where some of it failed.
    pub(super) fn settle(&self) {
        let mut clock = Clock::default();
        for stream in self.all_streams() {
            // What a stream reports of an earlier failure changes nothing about its having run.
            let _ = stream.synchronize();
            clock.advance(stream.id, stream.completed());
        }
        self.observe(&clock);
    }

    /// The calling thread's own default stream is made anew when it is next needed.
    #[cfg(feature = "fault-injection")]
    pub(super) fn forget_own_stream() {
        OWN_DEFAULT_STREAM.set(0);
    }

    /// Every stream, those included that were destroyed and still have work to do.
    fn all_streams(&self) -> Vec<Arc<Stream>> {
        let state = self.state();
        state.streams.values().chain(&state.retired).cloned().collect()
    }

    /// Waits for all streams and returns what has then run.
    pub(super) fn wait_for_everything(&self) -> Result<Clock, Code> {
        let mut clock = Clock::default();
        for stream in self.all_streams() {
            clock.merge(&stream.synchronize()?);
        }
        Ok(clock)
    }

    pub(super) fn observe(&self, clock: &Clock) {
        let mut state = self.state();
        let finished = state.observe_retired(&self.memory);
        state.observe(clock, &self.memory);
        drop(state);
        drop(finished);
    }

    pub(super) fn create_event(&self, timing: bool) -> Result<u64, Code> {
        let mut state = self.in_context()?;
        let id = state.new_handle();
        state.events.insert(id, Arc::new(Event::new(timing)));
        Ok(id)
    }

    pub(super) fn event(&self, id: u64) -> Result<Arc<Event>, Code> {
        let state = self.initialized()?;
        state.events.get(&id).cloned().ok_or(missing_event(id))
    }

    pub(super) fn destroy_event(&self, id: u64) -> Result<(), Code> {
        let mut state = self.initialized()?;
        state.events.remove(&id).map(drop).ok_or(missing_event(id))
    }
}

impl State {
    fn start_stream(&mut self, id: StreamId, is_blocking: bool, memory: &Arc<Memory>) -> Result<(), Code> {
        let stream = Stream::start(id, is_blocking, memory)?;
        self.streams.insert(id, Arc::new(stream));
        Ok(())
    }

    /// The stream of a handle; default streams are made when they are first needed.
    pub(super) fn stream(&mut self, id: StreamId, memory: &Arc<Memory>) -> Result<Arc<Stream>, Code> {
        let id = match id {
            LEGACY_STREAM => DEFAULT_STREAM,
            PER_THREAD_STREAM => {
                if OWN_DEFAULT_STREAM.get() == 0 {
                    OWN_DEFAULT_STREAM.set(self.new_handle());
                    self.start_stream(OWN_DEFAULT_STREAM.get(), true, memory)?;
                }
                OWN_DEFAULT_STREAM.get()
            }
            id => id,
        };
        if id == DEFAULT_STREAM && !self.streams.contains_key(&id) {
            self.start_stream(id, false, memory)?;
        }
        self.streams.get(&id).cloned().ok_or(Code::CONTEXT_IS_DESTROYED)
    }

    /// The stream of a handle, behind what the rule of the legacy default stream puts before it: that
    /// stream and every blocking one wait for each other.
    pub(super) fn ordered_stream(&mut self, id: StreamId, memory: &Arc<Memory>) -> Result<Arc<Stream>, Code> {
        let stream = self.stream(id, memory)?;
        if stream.id == DEFAULT_STREAM {
            let others = self.streams.values().chain(&self.retired);
            others
                .filter(|other| other.is_blocking)
                .for_each(|other| stream.wait_stream(other));
        } else if stream.is_blocking
            && let Some(default) = self.streams.get(&DEFAULT_STREAM)
        {
            stream.wait_stream(default);
        }
        Ok(stream)
    }

    fn observe(&mut self, clock: &Clock, memory: &Memory) {
        self.observe_where(memory, |stream, position| clock.covers(stream, position));
    }

    fn observe_where(&mut self, memory: &Memory, is_complete: impl Fn(StreamId, u64) -> bool) {
        for pool in self.pools.values_mut() {
            pool.pool.observe(&is_complete);
        }
        self.freed_plain.retain(|(address, size_bytes, at)| {
            let complete = is_complete(at.stream, at.position);
            if complete {
                memory.unmap(*address, *size_bytes);
            }
            !complete
        });
        self.drop_empty_destroyed();
    }

    /// Takes note of destroyed streams that have run, and returns them for joining outside the lock.
    fn observe_retired(&mut self, memory: &Memory) -> Vec<Arc<Stream>> {
        let is_done = |stream: &Arc<Stream>| stream.has_run();
        let (done, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.retired).into_iter().partition(is_done);
        self.retired = left;
        if !done.is_empty() {
            self.observe_where(memory, |stream, _| done.iter().any(|done| done.id == stream));
        }
        done
    }
}

fn missing_event(id: u64) -> Code {
    if id == 0 {
        Code::INVALID_HANDLE
    } else {
        Code::CONTEXT_IS_DESTROYED
    }
}
