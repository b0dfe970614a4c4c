//! The memory under a pool's addresses: granules that are mapped, moved and given back.

use super::{Extent, GRANULE_BYTES, Granules, Pool, Progress};
use crate::driver::Code;
use crate::driver::host::stream::StreamId;
use std::collections::BTreeSet;

impl<G: Granules> Pool<G> {
    /// Places a request where memory has to be mapped first.
    pub(super) fn grow(&mut self, stream: StreamId, size: u64, progress: &mut impl Progress) -> Result<u64, Code> {
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

    pub(super) fn shrink(&mut self) {
        if std::mem::take(&mut self.may_shrink) && self.reserved_bytes() > self.attributes.release_threshold {
            let threshold = self.attributes.release_threshold;
            self.release_while(|_, reserved| reserved > threshold);
        }
    }

    /// Gives wholly free granules back, as long as what stays is at least `keep_bytes`.
    pub(in crate::driver::host) fn trim_to(&mut self, keep_bytes: u64) {
        self.release_while(|_, reserved| reserved - GRANULE_BYTES >= keep_bytes);
    }

    /// Gives back each wholly free granule, from the highest down, that `is_excess` says of, given its
    /// index and what is reserved.
    pub(super) fn release_while(&mut self, is_excess: impl Fn(u64, u64) -> bool) {
        for index in self.wholly_free().into_iter().rev() {
            if is_excess(index, self.reserved_bytes()) {
                self.granules.unmap(index);
                self.mapped.remove(&index);
            }
        }
    }
}
