//! Where a request is placed: what may be reused, in which order, and by best fit.

use super::{Extent, Granules, Pool, Position, Progress};
use crate::driver::host::stream::StreamId;

impl<G: Granules> Pool<G> {
    /// Finds mapped memory.
    pub(super) fn reuse(&mut self, stream: StreamId, size: u64, progress: &mut impl Progress) -> Option<u64> {
        if let Some(start) = self.take_pending(size, |freed, _| freed == stream) {
            return Some(start);
        }
        if let Some(start) = self.take_free(size) {
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
        self.take_free(size)
    }

    /// The last resort: memory that another stream is still to free, by waiting for it there.
    pub(super) fn wait_for_another(
        &mut self,
        stream: StreamId,
        size: u64,
        progress: &mut impl Progress,
    ) -> Option<u64> {
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

    /// The best fit among `extents`, of which the oldest wins a tie.
    pub(super) fn best(&self, extents: impl Iterator<Item = (usize, Extent)>, size: u64) -> Option<usize> {
        extents
            .filter(|(_, extent)| extent.size() >= size)
            .min_by_key(|(_, extent)| (extent.size(), extent.stamp))
            .map(|(index, _)| index)
    }

    /// Takes the best fit of what is free and all mapped.
    fn take_free(&mut self, size: u64) -> Option<u64> {
        let is_mapped = |extent: &Extent| extent.granules().all(|index| self.mapped.contains(&index));
        let candidates = self
            .free
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, extent)| is_mapped(extent));
        let index = self.best(candidates, size)?;
        let start = self.free[index].start;
        self.cut_free(index, size);
        Some(start)
    }

    pub(super) fn cut_free(&mut self, index: usize, size: u64) {
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
}
