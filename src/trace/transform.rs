//! Traces made from a trace.

use super::{Event, EventKind, Stream, Trace};

impl Trace {
    /// The part of the trace that belongs to one device of one process, as [`Trace::devices`] names it.
    ///
    /// Waits for the whole device are kept: the formats do not say for which. Threads, streams, times, the
    /// orphan frees' count and the warnings stay those of the whole trace.
    pub fn on_device(&self, process: u32, device: u32) -> Trace {
        self.filtered(|stream| (stream.process, stream.device) == (process, device))
    }

    fn filtered(&self, keep: impl Fn(&Stream) -> bool) -> Trace {
        let mut part = Trace {
            events: Vec::new(),
            allocations: Vec::new(),
            ..self.clone()
        };
        part.live_before
            .retain(|&(process, device), _| keep(&Stream { process, device, id: 0 }));
        let mut moved = vec![Event::NONE; self.allocations.len()];
        for event in &self.events {
            let stream = self.streams.get(event.stream as usize);
            if !stream.is_none_or(&keep) {
                continue;
            }
            let index = part.events.len() as u32;
            let mut event = *event;
            if let Some(block) = self.allocations.get(event.allocation as usize) {
                let old = event.allocation as usize;
                if event.kind == EventKind::Alloc {
                    moved[old] = part.allocations.len() as u32;
                    part.allocations.push(super::Allocation {
                        size_bytes: block.size_bytes,
                        alloc_event: index,
                        free_event: Event::NONE,
                    });
                } else if let Some(block) = part.allocations.get_mut(moved[old] as usize) {
                    block.free_event = index;
                }
                event.allocation = moved[old];
            }
            part.events.push(event);
        }
        part
    }

    /// The same trace with its blocks spread over `n` streams in turn, all on the first stream's device; with
    /// `n` = 1 collapsed to one stream. A block is freed on its own stream, and each wait for a stream becomes
    /// one for the device.
    pub fn with_streams(&self, n: u32) -> Trace {
        let n = n.max(1);
        let first = self.streams.first().copied().unwrap_or_default();
        let mut spread = self.clone();
        spread.streams = (0..n)
            .map(|id| Stream {
                id: u64::from(id),
                ..first
            })
            .collect();
        for event in &mut spread.events {
            event.stream = match (event.kind, event.allocation) {
                (EventKind::Sync, _) => Event::NONE,
                // The frees of a calls-only trace name no block.
                (_, Event::NONE) => 0,
                (_, allocation) => allocation % n,
            };
        }
        spread
    }
}
