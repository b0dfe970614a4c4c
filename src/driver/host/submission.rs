//! What a capture stands in the way of: work, records, waits and frees on their way to a stream, and
//! calls that would wait for one.

use super::device::{HostDevice, State};
use super::event::Event;
use super::stream::{Operation, Stream, StreamId};
use crate::driver::Code;
use std::sync::{Arc, MutexGuard};

impl HostDevice {
    /// The state, for a call that needs no context and is unsafe beside a capture.
    pub(super) fn beside_no_capture(&self) -> Result<MutexGuard<'_, State>, Code> {
        let mut state = self.initialized()?;
        state.captures.refuse_unsafe()?;
        Ok(state)
    }

    /// Puts work into a stream, or into its capture. Returns the stream that will run it, `None` where
    /// it became a node.
    pub(super) fn submit(&self, id: StreamId, operation: Operation) -> Result<Option<Arc<Stream>>, Code> {
        let mut state = self.for_stream(id)?;
        let id = state.stream(id, &self.memory)?.id;
        if let Some(capture) = state.captures.of(id)? {
            capture.push(operation);
            return Ok(None);
        }
        let stream = state.ordered_stream(id, &self.memory)?;
        drop(state);
        stream.submit(operation);
        Ok(Some(stream))
    }

    /// Whether work in a stream may use a range now: all of it belongs to one allocation, of those
    /// that live or of those that its capture has made.
    pub(super) fn can_use(&self, id: StreamId, address: u64, size_bytes: u64) -> Result<bool, Code> {
        let mut state = self.for_stream(id)?;
        let id = state.stream(id, &self.memory)?.id;
        let is_captured = state
            .captures
            .of(id)?
            .is_some_and(|capture| capture.contains(address, size_bytes));
        Ok(is_captured || state.is_accessible(address, size_bytes, &self.memory))
    }

    /// A stream for a call that neither it, if it is capturing, nor another capture allows.
    pub(super) fn uncaptured_stream(&self, id: StreamId) -> Result<Arc<Stream>, Code> {
        let mut state = self.for_stream(id)?;
        let stream = state.stream(id, &self.memory)?;
        state.captures.refuse(stream.id)?;
        state.captures.refuse_unsafe()?;
        Ok(stream)
    }

    pub(super) fn is_stream_idle(&self, id: StreamId) -> Result<bool, Code> {
        self.uncaptured_stream(id)?.is_idle()
    }

    pub(super) fn wait_event(&self, id: StreamId, event: u64) -> Result<(), Code> {
        let (stream, event) = (self.stream(id)?, self.event(event)?);
        if self.is_capturing(&stream)? || event.captured_in().is_some() {
            return Err(Code::NOT_SUPPORTED);
        }
        self.ordered_stream(id)?.wait_event(&event);
        Ok(())
    }

    pub(super) fn record_event(&self, event: u64, id: StreamId) -> Result<(), Code> {
        let (stream, event) = (self.stream(id)?, self.event(event)?);
        if self.is_capturing(&stream)? {
            event.capture_in(stream.id);
        } else {
            self.ordered_stream(id)?.record(&event);
        }
        Ok(())
    }

    fn is_capturing(&self, stream: &Stream) -> Result<bool, Code> {
        Ok(self.state().captures.of(stream.id)?.is_some())
    }

    /// An event for a call that a capture it was recorded in does not allow, nor any other.
    pub(super) fn uncaptured_event(&self, id: u64) -> Result<Arc<Event>, Code> {
        let event = self.event(id)?;
        let mut state = self.state();
        if let Some(stream) = event.captured_in() {
            state.captures.invalidate(stream);
            return Err(Code::CAPTURED_EVENT);
        }
        state.captures.refuse_unsafe()?;
        Ok(event)
    }

    pub(super) fn is_event_reached(&self, id: u64) -> Result<bool, Code> {
        self.uncaptured_event(id).map(|event| event.is_reached())
    }
}

impl State {
    /// Frees, in a capture, what it allocated; anything else is refused and the capture goes on.
    pub(super) fn capture_free(&mut self, address: u64, stream: StreamId) -> Result<(), Code> {
        let freed = match self.captures.of(stream)? {
            Some(capture) if address != 0 => capture.free(address)?,
            _ => true,
        };
        match freed {
            true => Ok(()),
            false if self.graphs.memory.is_unfreed(address) => Err(Code::NOT_SUPPORTED),
            false => Err(Code::INVALID_VALUE),
        }
    }
}
