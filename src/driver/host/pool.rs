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

    /// Finds mapped memory.
    fn reuse(&mut self, stream: StreamId, size: u64, progress: &mut impl Progress) -> Option<u64> {
        if let Some(start) = self.take_pending(size, |freed, _| freed == stream) {
            return Some(start);
        }
        if let Some(start) = self.take_free(size, true) {
            return Some(start);
        }
        if self.attributes.follow_event_dependencies {
            let ordered = |freed, position| freed != stream && progress.is_ordered(stream, freed, position);
            if let Some(start) = self.take_pending(size, ordered) {
                return Some(start);
            }
        }
        if !self.attributes.allow_opportunistic {
            return None;
        }
        if let Some(start) = self.take_pending(size, |freed, position| {
            freed != stream && progress.has_run(freed, position)
        }) {
            return Some(start);
        }
        self.settle(|freed, position| progress.has_run(freed, position));
        self.take_free(size, true)
    }

    /// Places a request where memory has to be mapped first.
    fn grow(&mut self, stream: StreamId, size: u64, progress: &mut impl Progress) -> Result<u64, Code> {
        let best = self.best(self.free.iter().copied().enumerate(), size);
        let start = best.map_or(self.tail, |index| self.free[index].start);
        let end = start.saturating_add(size);
        if let Err(code) = self.back(Extent { start, end, stamp: 0 }) {
            // What could be had was reserved all the same, and stays as far as the threshold lets it.
            self.may_shrink = true;
            self.shrink();
            return self.wait_for_another(stream, size, progress).ok_or(code);
        }
        match best {
            Some(index) => self.cut_free(index, size),
            None => self.tail += size,
        }
        Ok(start)
    }

    /// The last resort: memory that another stream is still to free, by waiting for it there.
    fn wait_for_another(&mut self, stream: StreamId, size: u64, progress: &mut impl Progress) -> Option<u64> {
        if !self.attributes.allow_internal_dependencies {
            return None;
        }
        let mut waited_for = None;
        let start = self.take_pending_noting(size, |freed, _| freed != stream, &mut waited_for)?;
        let Position {
            stream: freed,
            position,
        } = waited_for?;
        progress.order(stream, freed, position);
        Some(start)
    }

    /// Maps every granule of `extent`: by moving those that lie free, then by new ones.
    fn back(&mut self, extent: Extent) -> Result<(), Code> {
        let mut spare: Vec<u64> = self
            .wholly_free()
            .into_iter()
            .filter(|index| !extent.granules().contains(index))
            .collect();
        for index in extent.granules() {
            if self.mapped.contains(&index) {
                continue;
            }
            if index >= self.granules.index_end() {
                return Err(Code::OUT_OF_MEMORY);
            }
            match spare.pop() {
                Some(from) => {
                    self.granules.relocate(from, index)?;
                    self.mapped.remove(&from);
                }
                None => self.granules.map(index)?,
            }
            self.mapped.insert(index);
            self.reserved_high_bytes = self.reserved_high_bytes.max(self.reserved_bytes());
        }
        Ok(())
    }

    /// The best fit among `extents`, of which the oldest wins a tie.
    fn best(&self, extents: impl Iterator<Item = (usize, Extent)>, size: u64) -> Option<usize> {
        extents
            .filter(|(_, extent)| extent.size() >= size)
            .min_by_key(|(_, extent)| (extent.size(), extent.stamp))
            .map(|(index, _)| index)
    }

    fn take_free(&mut self, size: u64, mapped_only: bool) -> Option<u64> {
        let is_mapped = |extent: &Extent| extent.granules().all(|index| self.mapped.contains(&index));
        let candidates = self
            .free
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, extent)| !mapped_only || is_mapped(extent));
        let index = self.best(candidates, size)?;
        let start = self.free[index].start;
        self.cut_free(index, size);
        Some(start)
    }

    fn cut_free(&mut self, index: usize, size: u64) {
        self.stamp += 1;
        let extent = &mut self.free[index];
        extent.start += size;
        extent.stamp = self.stamp;
        if extent.size() == 0 {
            self.free.remove(index);
        }
    }

    fn take_pending(&mut self, size: u64, allowed: impl Fn(StreamId, u64) -> bool) -> Option<u64> {
        self.take_pending_noting(size, allowed, &mut None)
    }

    /// Takes the best fit of what is pending and allowed, and notes where it was freed.
    fn take_pending_noting(
        &mut self,
        size: u64,
        allowed: impl Fn(StreamId, u64) -> bool,
        freed_at: &mut Option<Position>,
    ) -> Option<u64> {
        let candidates = self.pending.iter().flat_map(|(stream, list)| {
            list.iter()
                .enumerate()
                .map(move |(index, pending)| (*stream, index, pending))
        });
        let (stream, index, _) = candidates
            .filter(|(stream, _, pending)| pending.extent.size() >= size && allowed(*stream, pending.position))
            .min_by_key(|(_, _, pending)| (pending.extent.size(), pending.extent.stamp))?;
        self.stamp += 1;
        let list = self.pending.get_mut(&stream)?;
        let pending = &mut list[index];
        *freed_at = Some(Position {
            stream,
            position: pending.position,
        });
        let start = pending.extent.start;
        pending.extent.start += size;
        pending.extent.stamp = self.stamp;
        if pending.extent.size() == 0 {
            list.remove(index);
        }
        Some(start)
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

    /// Mapped granules in which nothing is allocated or pending, ascending.
    fn wholly_free(&self) -> Vec<u64> {
        let live = self.live.iter().map(|(start, live)| Extent {
            start: *start,
            end: live.end,
            stamp: 0,
        });
        let pending = self.pending.values().flatten().map(|pending| pending.extent);
        let occupied: BTreeSet<u64> = live.chain(pending).flat_map(|extent| extent.granules()).collect();
        self.mapped.difference(&occupied).copied().collect()
    }

    fn shrink(&mut self) {
        if std::mem::take(&mut self.may_shrink) && self.reserved_bytes() > self.attributes.release_threshold {
            let threshold = self.attributes.release_threshold;
            self.release_while(|_, reserved| reserved > threshold);
        }
    }

    /// Gives wholly free granules back, as long as what stays is at least `keep_bytes`.
    pub(super) fn trim_to(&mut self, keep_bytes: u64) {
        self.release_while(|_, reserved| reserved - GRANULE_BYTES >= keep_bytes);
    }

    /// Gives back each wholly free granule, from the highest down, that `is_excess` says of, given its
    /// index and what is reserved.
    fn release_while(&mut self, is_excess: impl Fn(u64, u64) -> bool) {
        for index in self.wholly_free().into_iter().rev() {
            if is_excess(index, self.reserved_bytes()) {
                self.granules.unmap(index);
                self.mapped.remove(&index);
            }
        }
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
