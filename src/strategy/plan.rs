//! Where each block of a known sequence goes: what "not allocating at all" needs for a program that has
//! many blocks live at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// The step of every placement. CUDA's own allocations are aligned to as much.
pub(super) const UNIT_BYTES: u64 = 256;

/// One step of a sequence. A slot holds one block at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Asks for a block of at least one byte, to be kept in a slot that is empty.
    Alloc {
        /// The slot.
        slot: u32,
        /// The block's size.
        size_bytes: u64,
    },
    /// Gives the slot's block back.
    Free {
        /// The slot.
        slot: u32,
    },
}

/// A sequence of requests and a place for each block, none over another that is live.
///
/// Each block goes to the smallest gap that holds it, the lowest of equal ones, else to the end. That is
/// not the smallest plan there is, but the one that needs no search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    requests: Vec<Request>,
    offsets_bytes: Vec<u64>,
    planned_bytes: u64,
    arena: OnceLock<Option<ArenaSize>>,
}

/// What an arena for a sequence needs, which only trying tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArenaSize {
    /// Its memory, in steps.
    pub(super) units: u32,
    /// Blocks and gaps that it must count.
    pub(super) blocks_max: u32,
}

impl Plan {
    /// Places the blocks of a sequence, in which every free follows its allocation.
    #[must_use]
    pub fn of(requests: Vec<Request>) -> Plan {
        let mut gaps = Gaps::default();
        let mut live: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        let mut offsets_bytes = Vec::new();
        for request in &requests {
            match *request {
                Request::Alloc { slot, size_bytes } => {
                    let bytes = units_bytes(size_bytes);
                    let offset = gaps.take(bytes);
                    live.insert(slot, (offset, bytes));
                    offsets_bytes.push(offset);
                }
                Request::Free { slot } => {
                    if let Some((offset, bytes)) = live.remove(&slot) {
                        gaps.give_back(offset, bytes);
                    }
                }
            }
        }
        Plan {
            requests,
            offsets_bytes,
            planned_bytes: gaps.end,
            arena: OnceLock::new(),
        }
    }

    /// The sequence.
    #[must_use]
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Where the blocks go, by order of allocation, in bytes from the start.
    #[must_use]
    pub fn offsets_bytes(&self) -> &[u64] {
        &self.offsets_bytes
    }

    /// What all blocks together need.
    #[must_use]
    pub fn planned_bytes(&self) -> u64 {
        self.planned_bytes
    }

    /// The size of an arena, found once by `find`; `None` where no arena is large enough.
    pub(super) fn arena(&self, find: impl FnOnce(&Plan) -> Option<ArenaSize>) -> Option<ArenaSize> {
        *self.arena.get_or_init(|| find(self))
    }

    /// The most bytes live at once, each block rounded up to the step, and the most blocks.
    pub(super) fn peak(&self) -> (u64, usize) {
        let mut live: BTreeMap<u32, u64> = BTreeMap::new();
        let (mut bytes, mut peak_bytes, mut peak_blocks) = (0_u64, 0, 0);
        for request in &self.requests {
            match *request {
                Request::Alloc { slot, size_bytes } => {
                    bytes += units_bytes(size_bytes);
                    live.insert(slot, units_bytes(size_bytes));
                    peak_bytes = peak_bytes.max(bytes);
                    peak_blocks = peak_blocks.max(live.len());
                }
                Request::Free { slot } => bytes -= live.remove(&slot).unwrap_or(0),
            }
        }
        (peak_bytes, peak_blocks)
    }
}

fn units_bytes(size_bytes: u64) -> u64 {
    size_bytes.next_multiple_of(UNIT_BYTES)
}

/// What is free below the end, by place and by size; gaps that touch are one.
#[derive(Default)]
struct Gaps {
    by_offset: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    end: u64,
}

impl Gaps {
    fn take(&mut self, bytes: u64) -> u64 {
        if let Some(&(size, offset)) = self.by_size.range((bytes, 0)..).next() {
            self.remove(offset, size);
            if size > bytes {
                self.insert(offset + bytes, size - bytes);
            }
            return offset;
        }
        // A gap at the very end is grown instead of left behind.
        let last = self.by_offset.last_key_value().map(|(offset, size)| (*offset, *size));
        let offset = match last {
            Some((offset, size)) if offset + size == self.end => {
                self.remove(offset, size);
                offset
            }
            _ => self.end,
        };
        self.end = offset + bytes;
        offset
    }

    fn give_back(&mut self, mut offset: u64, mut bytes: u64) {
        let before = self.by_offset.range(..offset).next_back().map(|(o, s)| (*o, *s));
        if let Some((before, size)) = before.filter(|(before, size)| before + size == offset) {
            self.remove(before, size);
            (offset, bytes) = (before, bytes + size);
        }
        if let Some(size) = self.by_offset.get(&(offset + bytes)).copied() {
            self.remove(offset + bytes, size);
            bytes += size;
        }
        self.insert(offset, bytes);
    }

    fn insert(&mut self, offset: u64, size: u64) {
        self.by_offset.insert(offset, size);
        self.by_size.insert((size, offset));
    }

    fn remove(&mut self, offset: u64, size: u64) {
        self.by_offset.remove(&offset);
        self.by_size.remove(&(size, offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alloc(slot: u32, size_bytes: u64) -> Request {
        Request::Alloc { slot, size_bytes }
    }

    fn free(slot: u32) -> Request {
        Request::Free { slot }
    }

    #[test]
    fn blocks_go_to_the_smallest_gap_that_holds_them() {
        // 0: [0, 1024), 1: [1024, 1280), 2: [1280, 1792), 3: [1792, 2048). Slots 0 and 2 become gaps of
        // 1024 and 512; 300 bytes are 512 in steps of 256 and go to the second, 600 are 768 and go to the first.
        let plan = Plan::of(vec![
            alloc(0, 1000),
            alloc(1, 1),
            alloc(2, 512),
            alloc(3, 256),
            free(0),
            free(2),
            alloc(4, 300),
            alloc(5, 600),
        ]);
        assert_eq!(plan.offsets_bytes(), [0, 1024, 1280, 1792, 1280, 0]);
        assert_eq!(plan.planned_bytes(), 2048);
        // 1024 + 256 + 512 + 256; later 256 + 256 + 512 + 768.
        assert_eq!(plan.peak(), (2048, 4));
    }

    #[test]
    fn gaps_that_touch_are_one_and_the_last_grows() {
        // Both blocks are gone, so 1024 bytes begin at 0 and only 512 are new.
        let plan = Plan::of(vec![alloc(0, 256), alloc(1, 256), free(1), free(0), alloc(0, 1024)]);
        assert_eq!(plan.offsets_bytes(), [0, 256, 0]);
        assert_eq!(plan.planned_bytes(), 1024);
    }
}
