//! Stream capture: what is submitted to a capturing stream becomes a graph's nodes, and what could
//! not be replayed is refused.
//!
//! Codes as an H200's driver (580.159.04) was seen to return them. One stream is captured at a time:
//! work of other streams cannot be joined to it.

use super::graph_memory::{Footprint, Layout};
use super::memory::Memory;
use super::stream::{Operation, StreamId};
use crate::driver::Code;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{self, ThreadId};

/// Which threads a capture keeps from calls that are unsafe beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Every thread.
    Global,
    /// The thread that began it.
    ThreadLocal,
    /// None.
    Relaxed,
}

impl Mode {
    /// The mode of the driver's number.
    pub(super) fn from_number(number: u32) -> Result<Mode, Code> {
        match number {
            0 => Ok(Mode::Global),
            1 => Ok(Mode::ThreadLocal),
            2 => Ok(Mode::Relaxed),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

/// A capture that has begun.
pub(super) struct Capture {
    mode: Mode,
    thread: ThreadId,
    invalidated: bool,
    operations: Vec<Operation>,
    memory_nodes: usize,
    layout: Option<Layout>,
}

/// What a capture that ended well has recorded.
pub(super) struct Recorded {
    pub(super) operations: Vec<Operation>,
    /// Nodes, those that allocate and free included.
    pub(super) n_nodes: usize,
    pub(super) footprint: Option<Footprint>,
}

impl Capture {
    pub(super) fn push(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    /// An allocation node, unless nothing is asked for.
    pub(super) fn alloc(&mut self, stream: StreamId, size_bytes: u64, memory: &Arc<Memory>) -> Result<u64, Code> {
        if size_bytes == 0 {
            return Ok(0);
        }
        let layout = match &mut self.layout {
            Some(layout) => layout,
            None => self.layout.insert(Layout::new(memory)?),
        };
        let address = layout.alloc(stream, size_bytes)?;
        self.memory_nodes += 1;
        Ok(address)
    }

    /// A free node; false where the capture did not allocate the address.
    pub(super) fn free(&mut self, address: u64) -> Result<bool, Code> {
        let Some(layout) = &mut self.layout else {
            return Ok(false);
        };
        let freed = layout.free(address)?;
        self.memory_nodes += usize::from(freed);
        Ok(freed)
    }

    /// Whether the capture has allocated all of a range.
    pub(super) fn contains(&self, address: u64, size_bytes: u64) -> bool {
        self.layout
            .as_ref()
            .is_some_and(|layout| layout.contains(address, size_bytes))
    }

    fn forbids_unsafe_calls(&self) -> bool {
        match self.mode {
            Mode::Global => true,
            Mode::ThreadLocal => self.thread == thread::current().id(),
            Mode::Relaxed => false,
        }
    }
}

/// The captures that have begun, by stream.
#[derive(Default)]
pub(super) struct Captures(BTreeMap<StreamId, Capture>);

impl Captures {
    pub(super) fn begin(&mut self, stream: StreamId, mode: Mode) -> Result<(), Code> {
        if self.0.contains_key(&stream) {
            return Err(Code::ILLEGAL_STATE);
        }
        let capture = Capture {
            mode,
            thread: thread::current().id(),
            invalidated: false,
            operations: Vec::new(),
            memory_nodes: 0,
            layout: None,
        };
        self.0.insert(stream, capture);
        Ok(())
    }

    /// Ends the capture, valid or not.
    pub(super) fn end(&mut self, stream: StreamId) -> Result<Recorded, Code> {
        let capture = self.0.get(&stream).ok_or(Code::ILLEGAL_STATE)?;
        if capture.mode != Mode::Relaxed && capture.thread != thread::current().id() {
            return Err(Code::STREAM_CAPTURE_WRONG_THREAD);
        }
        let capture = self.0.remove(&stream).ok_or(Code::ILLEGAL_STATE)?;
        if capture.invalidated {
            return Err(Code::STREAM_CAPTURE_INVALIDATED);
        }
        Ok(Recorded {
            n_nodes: capture.operations.len() + capture.memory_nodes,
            operations: capture.operations,
            footprint: capture.layout.map(Layout::into_footprint),
        })
    }

    /// How many captures have begun and not ended.
    pub(super) fn n_open(&self) -> usize {
        self.0.len()
    }

    /// The stream is destroyed, and its capture with it.
    pub(super) fn forget(&mut self, stream: StreamId) {
        self.0.remove(&stream);
    }

    /// The driver's number: not capturing, capturing, invalidated.
    pub(super) fn status(&self, stream: StreamId) -> u32 {
        self.0
            .get(&stream)
            .map_or(0, |capture| if capture.invalidated { 2 } else { 1 })
    }

    /// The capture that work submitted to `stream` goes into, `None` where it is not capturing.
    pub(super) fn of(&mut self, stream: StreamId) -> Result<Option<&mut Capture>, Code> {
        match self.0.get_mut(&stream) {
            Some(capture) if capture.invalidated => Err(Code::STREAM_CAPTURE_INVALIDATED),
            capture => Ok(capture),
        }
    }

    pub(super) fn invalidate(&mut self, stream: StreamId) {
        if let Some(capture) = self.0.get_mut(&stream) {
            capture.invalidated = true;
        }
    }

    /// A call that no capturing stream allows.
    pub(super) fn refuse(&mut self, stream: StreamId) -> Result<(), Code> {
        if !self.0.contains_key(&stream) {
            return Ok(());
        }
        self.invalidate(stream);
        Err(Code::STREAM_CAPTURE_UNSUPPORTED)
    }

    /// A call that concerns every stream.
    pub(super) fn refuse_any(&mut self) -> Result<(), Code> {
        self.refuse_where(|_| true)
    }

    /// A call that is unsafe beside a capture, because it may wait for what the capture holds back.
    pub(super) fn refuse_unsafe(&mut self) -> Result<(), Code> {
        self.refuse_where(Capture::forbids_unsafe_calls)
    }

    fn refuse_where(&mut self, forbids: impl Fn(&Capture) -> bool) -> Result<(), Code> {
        let mut refused = Ok(());
        for capture in self.0.values_mut().filter(|capture| forbids(capture)) {
            capture.invalidated = true;
            refused = Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        refused
    }
}
