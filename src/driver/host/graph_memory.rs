//! The memory of graphs: addresses laid out at capture, granules put under them at upload or launch.
//!
//! As an H200's driver (580.159.04) was seen to do it. Granules belong to the device, not to a graph:
//! what one graph does not use at the moment serves the next, and only the graph trim gives any back.
//! A granule lies at one graph's addresses at a time, so a graph that takes it over from one that may
//! still run in the same stream waits for it on the host, where the driver would wait on the device.

use super::memory::{Memory, Reservation};
use super::pool::{GRANULE_BYTES, Granules, Pool, Position, Progress};
use super::stream::StreamId;
use crate::driver::Code;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Where the allocations of one capture lie. A capture is one line of work, so what it frees is free
/// to what it allocates next.
pub(super) struct Layout {
    range: Arc<Reservation>,
    pool: Pool<Unbacked>,
    live: BTreeMap<u64, u64>,
    end: u64,
}

/// Granules that need no memory as long as nothing runs.
struct Unbacked {
    index_end: u64,
}

impl Granules for Unbacked {
    fn map(&mut self, _: u64) -> Result<(), Code> {
        Ok(())
    }
    fn unmap(&mut self, _: u64) {}
    fn relocate(&mut self, _: u64, _: u64) -> Result<(), Code> {
        Ok(())
    }
    fn index_end(&self) -> u64 {
        self.index_end
    }
}

/// Nothing is pending in a layout, so nothing is asked.
struct NoStreams;

impl Progress for NoStreams {
    fn has_run(&self, _: StreamId, _: u64) -> bool {
        false
    }
    fn is_ordered(&self, _: StreamId, _: StreamId, _: u64) -> bool {
        false
    }
    fn order(&mut self, _: StreamId, _: StreamId, _: u64) {}
}

impl Layout {
    pub(super) fn new(memory: &Arc<Memory>) -> Result<Layout, Code> {
        // No graph can use more than the device has.
        let size_bytes = memory.capacity_bytes().next_multiple_of(GRANULE_BYTES);
        let range = Reservation::new(memory, size_bytes)?;
        let mut pool = Pool::new(Unbacked {
            index_end: size_bytes / GRANULE_BYTES,
        });
        pool.set_release_threshold(u64::MAX);
        Ok(Layout {
            range: Arc::new(range),
            pool,
            live: BTreeMap::new(),
            end: 0,
        })
    }

    /// Places an allocation and returns its address.
    pub(super) fn alloc(&mut self, stream: StreamId, size_bytes: u64) -> Result<u64, Code> {
        let offset = self.pool.alloc(stream, size_bytes, &mut NoStreams)?;
        self.end = self.end.max(offset + size_bytes);
        let address = self.range.address + offset;
        self.live.insert(address, size_bytes);
        Ok(address)
    }

    /// Frees an allocation; false where it is none of this capture's.
    pub(super) fn free(&mut self, address: u64) -> Result<bool, Code> {
        if self.live.remove(&address).is_none() {
            return Ok(false);
        }
        self.pool.free_now(address - self.range.address).map(|()| true)
    }

    /// Whether all of a range is allocated at this point of the capture.
    pub(super) fn contains(&self, address: u64, size_bytes: u64) -> bool {
        self.live
            .range(..=address)
            .next_back()
            .is_some_and(|(start, size)| address - start <= *size && size_bytes <= size - (address - start))
    }

    pub(super) fn into_footprint(self) -> Footprint {
        Footprint {
            granules: self.end.div_ceil(GRANULE_BYTES),
            unfreed: self.live.into_keys().collect(),
            range: self.range,
        }
    }
}

/// What a graph with allocations needs to run.
pub(super) struct Footprint {
    range: Arc<Reservation>,
    granules: u64,
    /// Allocations that the graph leaves to others to free.
    pub(super) unfreed: Vec<u64>,
}

/// A granule and where it lies.
struct Granule {
    range: Arc<Reservation>,
    index: u64,
    /// The last work that may use it.
    used_until: Option<Position>,
}

impl Granule {
    fn address(&self) -> u64 {
        self.range.address + self.index * GRANULE_BYTES
    }
}

/// What may be asked about the streams that graphs ran in.
pub(super) trait Runs {
    fn has_run(&self, at: Position) -> bool;
    fn wait_until(&self, at: Position);
}

/// All memory of graphs. What is used and what is reserved are the same, as the driver counts.
#[derive(Default)]
pub(super) struct GraphMemory {
    granules: Vec<Granule>,
    /// Allocations that a graph made and nobody has freed.
    live: BTreeSet<u64>,
    used_high: usize,
    reserved_high: usize,
}

impl GraphMemory {
    /// Puts memory under a graph that is about to run in `stream`: idle granules of other graphs, then
    /// new ones. What it has it keeps, so a second attempt goes on where one was out of memory.
    pub(super) fn bind(
        &mut self,
        footprint: &Footprint,
        stream: StreamId,
        runs: &impl Runs,
        memory: &Memory,
    ) -> Result<(), Code> {
        for index in 0..footprint.granules {
            let lies_there = |granule: &&mut Granule| is_at(granule, &footprint.range) && granule.index == index;
            if let Some(granule) = self.granules.iter_mut().find(lies_there) {
                // Freed in another stream, or used by a launch there.
                if let Some(at) = granule.used_until.filter(|at| at.stream != stream) {
                    runs.wait_until(at);
                }
                continue;
            }
            let to = footprint.range.address + index * GRANULE_BYTES;
            match self.spare(&footprint.range, stream, runs) {
                Some(spare) => {
                    let granule = &mut self.granules[spare];
                    if let Some(at) = granule.used_until.take() {
                        runs.wait_until(at);
                    }
                    memory.relocate(granule.address(), to, GRANULE_BYTES)?;
                    granule.range = Arc::clone(&footprint.range);
                    granule.index = index;
                }
                None => {
                    memory.map_at(to, GRANULE_BYTES)?;
                    self.granules.push(Granule {
                        range: Arc::clone(&footprint.range),
                        index,
                        used_until: None,
                    });
                }
            }
            self.used_high = self.used_high.max(self.granules.len());
            self.reserved_high = self.reserved_high.max(self.granules.len());
        }
        Ok(())
    }

    /// A granule of another graph that comes to rest before what `stream` does next.
    fn spare(&self, range: &Arc<Reservation>, stream: StreamId, runs: &impl Runs) -> Option<usize> {
        self.granules.iter().position(|granule| {
            let rests = |at: Position| at.stream == stream || runs.has_run(at);
            !is_at(granule, range) && !self.is_live(&granule.range) && granule.used_until.is_none_or(rests)
        })
    }

    fn is_live(&self, range: &Reservation) -> bool {
        let end = range.address + range.size_bytes;
        self.live.range(range.address..end).next().is_some()
    }

    /// Notes work that uses a graph's memory.
    pub(super) fn use_until(&mut self, footprint: &Footprint, at: Position) {
        for granule in self
            .granules
            .iter_mut()
            .filter(|granule| is_at(granule, &footprint.range))
        {
            granule.used_until = Some(at);
        }
        self.live.extend(&footprint.unfreed);
    }

    /// Whether a graph's allocations of its last launch live.
    pub(super) fn has_unfreed(&self, footprint: &Footprint) -> bool {
        footprint.unfreed.iter().any(|address| self.live.contains(address))
    }

    /// Frees what a graph left, if anything of it lives.
    pub(super) fn free_unfreed(&mut self, footprint: &Footprint) {
        for address in &footprint.unfreed {
            self.live.remove(address);
        }
    }

    /// How many allocations graphs made and nobody has freed.
    pub(super) fn n_unfreed(&self) -> usize {
        self.live.len()
    }

    pub(super) fn is_unfreed(&self, address: u64) -> bool {
        self.live.contains(&address)
    }

    /// Frees an allocation that a graph left, after the work at `at`; false where it is none.
    pub(super) fn free(&mut self, address: u64, at: Option<Position>) -> bool {
        if !self.live.remove(&address) {
            return false;
        }
        let is_in = |granule: &Granule| (granule.address()..granule.address() + GRANULE_BYTES).contains(&address);
        let range = self
            .granules
            .iter()
            .find(|granule| is_in(granule))
            .map(|found| Arc::clone(&found.range));
        if let (Some(range), Some(at)) = (range, at) {
            for granule in self.granules.iter_mut().filter(|granule| is_at(granule, &range)) {
                granule.used_until = Some(at);
            }
        }
        true
    }

    /// Gives back every granule that is at rest, whether or not its graph can still be launched.
    pub(super) fn trim(&mut self, runs: &impl Runs, memory: &Memory) {
        let granules = std::mem::take(&mut self.granules);
        let (kept, idle): (Vec<Granule>, Vec<Granule>) = granules.into_iter().partition(|granule| {
            self.is_live(&granule.range) || granule.used_until.is_some_and(|at| !runs.has_run(at))
        });
        self.granules = kept;
        for granule in idle {
            memory.unmap_at(granule.address(), GRANULE_BYTES);
        }
    }

    /// The attribute of this number: used, its high watermark, reserved, its high watermark.
    pub(super) fn attribute(&self, number: u32) -> Result<u64, Code> {
        let granules = match number {
            0 | 2 => self.granules.len(),
            1 => self.used_high,
            3 => self.reserved_high,
            _ => return Err(Code::INVALID_VALUE),
        };
        Ok(granules as u64 * GRANULE_BYTES)
    }

    /// Sets a high watermark, which takes only zero and becomes what is current.
    pub(super) fn set_attribute(&mut self, number: u32, value: u64) -> Result<(), Code> {
        match (number, value) {
            (1, 0) => self.used_high = self.granules.len(),
            (3, 0) => self.reserved_high = self.granules.len(),
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }
}

fn is_at(granule: &Granule, range: &Arc<Reservation>) -> bool {
    Arc::ptr_eq(&granule.range, range)
}
