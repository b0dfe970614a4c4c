//! A memory pool, as an H200's driver (580.159.04) was seen to behave.
//!
//! A pool is a range of addresses into which memory is mapped in granules of 32 MiB. Requests are
//! rounded up to 512 bytes and placed by best fit: first among what the same stream freed, then among
//! free memory that is mapped, then among what other streams freed as far as the reuse policies allow,
//! and last in free addresses, of which the unmapped part gets granules: first those that lie free
//! elsewhere in the pool, which are moved, then new ones.
//!
//! A free takes effect in stream order. Once the host has seen it complete, by a synchronise of its
//! stream, of an event behind it, or of the context, the memory is free to every stream, and granules
//! that are wholly free are given back, from the highest address down, while the pool holds more than
//! its release threshold.

use super::stream::StreamId;
use crate::driver::Code;
use std::collections::{BTreeMap, BTreeSet};

mod backing;
mod placement;
#[cfg(test)]
mod tests;

/// The step in which a pool's memory grows.
pub(super) const GRANULE_BYTES: u64 = 32 << 20;
/// What a request is rounded up to.
const ALIGNMENT_BYTES: u64 = 512;

/// Where a pool's granules come from.
pub(super) trait Granules {
    /// Maps a new granule at this index.
    fn map(&mut self, index: u64) -> Result<(), Code>;
    /// Gives the granule at this index back.
    fn unmap(&mut self, index: u64);
    /// Moves a granule to another index.
    fn relocate(&mut self, from: u64, to: u64) -> Result<(), Code>;
    /// How many indices there are.
    fn index_end(&self) -> u64;
}

/// What a pool may ask about streams.
pub(super) trait Progress {
    /// Whether the first `position` operations of `stream` have run.
    fn has_run(&self, stream: StreamId, position: u64) -> bool;
    /// Whether events order the first `position` operations of `stream` before what `waiting` submits
    /// next.
    fn is_ordered(&self, waiting: StreamId, stream: StreamId, position: u64) -> bool;
    /// Orders the first `position` operations of `stream` before what `waiting` submits next.
    fn order(&mut self, waiting: StreamId, stream: StreamId, position: u64);
}

/// A point in a stream: after its first `position` operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) stream: StreamId,
    pub(super) position: u64,
}

/// The attributes that can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attributes {
    pub(super) follow_event_dependencies: bool,
    pub(super) allow_opportunistic: bool,
    pub(super) allow_internal_dependencies: bool,
    pub(super) release_threshold: u64,
}

impl Default for Attributes {
    fn default() -> Self {
        Attributes {
            follow_event_dependencies: true,
            allow_opportunistic: true,
            allow_internal_dependencies: true,
            release_threshold: 0,
        }
    }
}

/// A range of the pool's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    start: u64,
    end: u64,
    /// When the extent was made or last cut; of two that fit equally well, the older is taken.
    stamp: u64,
}

impl Extent {
    fn size(&self) -> u64 {
        self.end - self.start
    }

    fn granules(&self) -> std::ops::RangeInclusive<u64> {
        self.start / GRANULE_BYTES..=(self.end - 1) / GRANULE_BYTES
    }
}

/// Freed, and not yet seen complete.
#[derive(Clone, Copy, Debug)]
struct Pending {
    extent: Extent,
    position: u64,
}

/// An allocation.
#[derive(Clone, Copy, Debug)]
struct Live {
    end: u64,
    requested: u64,
}

/// A pool over `G`'s granules. Addresses are offsets into its range.
#[derive(Debug)]
pub(super) struct Pool<G> {
    granules: G,
    pub(super) attributes: Attributes,
    mapped: BTreeSet<u64>,
    live: BTreeMap<u64, Live>,
    free: Vec<Extent>,
    pending: BTreeMap<StreamId, Vec<Pending>>,
    /// Everything from here on is free and was never used, or is free again to the end.
    tail: u64,
    stamp: u64,
    /// Whether something happened since the last look at the threshold that may let memory go.
    may_shrink: bool,
    used_bytes: u64,
    used_high_bytes: u64,
    reserved_high_bytes: u64,
}

impl<G: Granules> Pool<G> {
    pub(super) fn new(granules: G) -> Pool<G> {
        Pool {
            granules,
            attributes: Attributes::default(),
            mapped: BTreeSet::new(),
            live: BTreeMap::new(),
            free: Vec::new(),
            pending: BTreeMap::new(),
            tail: 0,
            stamp: 0,
            may_shrink: false,
            used_bytes: 0,
            used_high_bytes: 0,
            reserved_high_bytes: 0,
        }
    }

    pub(super) fn reserved_bytes(&self) -> u64 {
        self.mapped.len() as u64 * GRANULE_BYTES
    }

    pub(super) fn reserved_high_bytes(&self) -> u64 {
        self.reserved_high_bytes
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    pub(super) fn used_high_bytes(&self) -> u64 {
        self.used_high_bytes
    }

    pub(super) fn reset_reserved_high(&mut self) {
        self.reserved_high_bytes = self.reserved_bytes();
    }

    pub(super) fn reset_used_high(&mut self) {
        self.used_high_bytes = self.used_bytes;
    }

    pub(super) fn set_release_threshold(&mut self, bytes: u64) {
        self.attributes.release_threshold = bytes;
        self.may_shrink = true;
    }

    pub(super) fn granules(&self) -> &G {
        &self.granules
    }

    /// The bytes asked for of the allocation at `offset`.
    pub(super) fn live_bytes(&self, offset: u64) -> Option<u64> {
        self.live.get(&offset).map(|live| live.requested)
    }

    /// Whether nothing is allocated and no free is still to be seen complete.
    pub(super) fn is_idle(&self) -> bool {
        self.live.is_empty() && self.pending.is_empty()
    }

    /// Allocates for work that `stream` submits next and returns the offset.
    pub(super) fn alloc(
        &mut self,
        stream: StreamId,
        requested: u64,
        progress: &mut impl Progress,
    ) -> Result<u64, Code> {
        // What cannot be rounded up fails like anything else that is too large: after growing.
        let size = requested.checked_next_multiple_of(ALIGNMENT_BYTES).unwrap_or(u64::MAX);
        let start = match self.reuse(stream, size, progress) {
            Some(start) => start,
            None => self.grow(stream, size, progress)?,
        };
        self.live.insert(
            start,
            Live {
                end: start + size,
                requested,
            },
        );
        self.used_bytes += requested;
        self.used_high_bytes = self.used_high_bytes.max(self.used_bytes);
        Ok(start)
    }

    /// Frees in stream order, at a point of a stream.
    pub(super) fn free(&mut self, offset: u64, at: Position) -> Result<(), Code> {
        let live = self.live.remove(&offset).ok_or(Code::INVALID_VALUE)?;
        self.used_bytes -= live.requested;
        self.stamp += 1;
        let list = self.pending.entry(at.stream).or_default();
        let mut extent = Extent {
            start: offset,
            end: live.end,
            stamp: self.stamp,
        };
        list.retain(|pending| {
            let before = pending.extent.end == extent.start;
            let after = pending.extent.start == extent.end;
            if before {
                extent.start = pending.extent.start;
            } else if after {
                extent.end = pending.extent.end;
            }
            !(before || after)
        });
        list.push(Pending {
            extent,
            position: at.position,
        });
        Ok(())
    }

    /// Frees at once, by the synchronous call, which neither waits nor takes the memory off the used
    /// bytes: so it was seen.
    pub(super) fn free_now(&mut self, offset: u64) -> Result<(), Code> {
        let live = self.live.remove(&offset).ok_or(Code::INVALID_VALUE)?;
        self.insert_free(offset, live.end);
        // Only what this block occupied is looked at.
        let block = Extent {
            start: offset,
            end: live.end,
            stamp: 0,
        }
        .granules();
        let threshold = self.attributes.release_threshold;
        self.release_while(|index, reserved| block.contains(&index) && reserved > threshold);
        Ok(())
    }

    /// Takes note of frees that are known to be complete, and looks at the release threshold.
    pub(super) fn observe(&mut self, is_complete: impl Fn(StreamId, u64) -> bool) {
        self.settle(is_complete);
        self.shrink();
    }

    /// Makes pending memory free to every stream.
    fn settle(&mut self, is_complete: impl Fn(StreamId, u64) -> bool) {
        let streams: Vec<StreamId> = self.pending.keys().rev().copied().collect();
        for stream in streams {
            let Some(list) = self.pending.get_mut(&stream) else {
                continue;
            };
            let (mut complete, left): (Vec<Pending>, Vec<Pending>) = list
                .drain(..)
                .partition(|pending| is_complete(stream, pending.position));
            *list = left;
            complete.sort_by_key(|pending| std::cmp::Reverse(pending.extent.stamp));
            for pending in complete {
                self.insert_free(pending.extent.start, pending.extent.end);
                self.may_shrink = true;
            }
        }
        self.pending.retain(|_, list| !list.is_empty());
    }

    fn insert_free(&mut self, mut start: u64, mut end: u64) {
        self.free.retain(|extent| {
            let before = extent.end == start;
            let after = extent.start == end;
            if before {
                start = extent.start;
            } else if after {
                end = extent.end;
            }
            !(before || after)
        });
        if end == self.tail {
            self.tail = start;
        } else {
            self.stamp += 1;
            self.free.push(Extent {
                start,
                end,
                stamp: self.stamp,
            });
        }
    }
}
