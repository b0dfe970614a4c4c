//! What a trace holds.

use std::collections::HashSet;

use serde::Serialize;

use super::{Event, EventKind, Format, Stream, Trace, Warning};

/// Figures of a trace, computed in one pass. Serializes to the JSON of `poolbench trace --format json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Version of this layout.
    pub format_version: u32,
    /// What the trace was read from.
    pub source: Format,
    /// Allocations, frees and waits.
    pub events: u64,
    /// Allocations.
    pub allocations: u64,
    /// Frees of blocks allocated in the trace.
    pub frees: u64,
    /// Waits for a stream or the device.
    pub syncs: u64,
    /// Frees of blocks whose allocation is not recorded.
    pub orphan_frees: u64,
    /// Blocks that were live before the trace began, as far as the file tells; in no other figure.
    pub live_before: LiveBefore,
    /// Blocks never freed in the trace.
    pub live_at_end: LiveAtEnd,
    /// From the first event to the last; `None` without times.
    pub duration_ns: Option<u64>,
    /// Whether sizes are known; without, sizes and lifetimes below say nothing.
    pub sizes_known: bool,
    /// The most that is live at once.
    pub peak: Peak,
    /// How many different sizes.
    pub distinct_sizes: u64,
    /// Blocks by size, powers of two, from the smallest size that occurs to the largest.
    pub sizes: Vec<SizeBucket>,
    /// How long blocks live.
    pub lifetimes: Lifetimes,
    /// By first use.
    pub streams: Vec<StreamSummary>,
    /// By first use.
    pub threads: Vec<ThreadSummary>,
    /// Frees by another thread than the allocating one.
    pub cross_thread_frees: u64,
    /// Frees on another stream than the allocation's.
    pub cross_stream_frees: u64,
    /// What the reader noticed.
    pub warnings: Vec<Warning>,
}

/// Blocks that the trace does not free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LiveAtEnd {
    /// How many.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Blocks that were live before the trace began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LiveBefore {
    /// How many.
    pub blocks: u64,
    /// Their bytes; 2^64 - 1 where they are more.
    pub bytes: u64,
}

impl LiveBefore {
    pub(super) fn add(&mut self, size_bytes: u64) {
        self.blocks += 1;
        self.bytes = self.bytes.saturating_add(size_bytes);
    }
}

/// The most that is live at once. The two maxima may be reached at different events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Peak {
    /// Bytes, summed as requested.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// The event at which `bytes` is first reached.
    pub at_event: u64,
}

/// Blocks of `from_bytes` up to, not including, the next power of two. A bucket from 0 holds blocks of 0 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeBucket {
    /// 0 or a power of two.
    pub from_bytes: u64,
    /// How many blocks.
    pub blocks: u64,
}

/// How long freed blocks live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Lifetimes {
    /// In events between allocation and free, 1 where the free follows at once. `None` where nothing is freed.
    pub events: Option<Quantiles>,
    /// In host time. `None` also without times.
    pub time_ns: Option<Quantiles>,
}

/// Quantiles of a sample, each one of its values: the smallest that at least that share does not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Quantiles {
    /// Smallest value.
    pub min: u64,
    /// Half are not larger.
    pub median: u64,
    /// 90 % are not larger.
    pub p90: u64,
    /// 99 % are not larger.
    pub p99: u64,
    /// Largest value.
    pub max: u64,
}

/// What one stream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StreamSummary {
    /// Its name in the trace.
    #[serde(flatten)]
    pub stream: Stream,
    /// Allocations on it.
    pub allocations: u64,
    /// Frees on it.
    pub frees: u64,
    /// Waits for it.
    pub syncs: u64,
    /// Bytes allocated on it over the whole trace; 2^64 - 1 where they are more.
    pub allocated_bytes: u64,
}

/// What one thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadSummary {
    /// Its number in the trace.
    pub thread: u64,
    /// Allocations by it.
    pub allocations: u64,
    /// Frees by it.
    pub frees: u64,
    /// Waits by it.
    pub syncs: u64,
}

impl Quantiles {
    /// Quantiles of a sample; `None` of an empty one.
    pub fn of(mut values: Vec<u64>) -> Option<Quantiles> {
        values.sort_unstable();
        // The ceiling rank: ceil(share * n), at least 1.
        let at = |percent: usize| {
            let rank = (values.len() * percent).div_ceil(100).max(1);
            values.get(rank - 1).copied()
        };
        Some(Quantiles {
            min: *values.first()?,
            median: at(50)?,
            p90: at(90)?,
            p99: at(99)?,
            max: *values.last()?,
        })
    }
}

impl Trace {
    /// The most that is live at once, blocks whose free was not recorded included.
    pub fn peak(&self) -> Peak {
        let mut peak = Peak::default();
        let (mut bytes, mut blocks) = (0u64, 0u64);
        for (index, event) in self.events.iter().enumerate() {
            let size_bytes = self.size_bytes(event);
            match event.kind {
                EventKind::Alloc => {
                    bytes = bytes.saturating_add(size_bytes);
                    blocks += 1;
                    if bytes > peak.bytes {
                        peak.bytes = bytes;
                        peak.at_event = index as u64;
                    }
                    peak.blocks = peak.blocks.max(blocks);
                }
                EventKind::Free => {
                    bytes = bytes.saturating_sub(size_bytes);
                    blocks = blocks.saturating_sub(1);
                }
                EventKind::Sync => {}
            }
        }
        peak
    }

    fn live_at_end(&self) -> LiveAtEnd {
        let live = self.allocations.iter().filter(|block| block.live_at_end());
        live.fold(LiveAtEnd::default(), |sum, block| LiveAtEnd {
            blocks: sum.blocks + 1,
            bytes: sum.bytes.saturating_add(block.size_bytes),
        })
    }

    fn size_buckets(&self) -> Vec<SizeBucket> {
        // Slot 0 is size 0, slot n sizes from 2^(n-1).
        let mut counts = [0u64; 65];
        for block in &self.allocations {
            counts[64 - block.size_bytes.leading_zeros() as usize] += 1;
        }
        let used = |&slot: &usize| counts[slot] > 0;
        let (Some(first), Some(last)) = ((0..65).find(used), (0..65).rev().find(used)) else {
            return Vec::new();
        };
        (first..=last)
            .map(|slot| SizeBucket {
                from_bytes: slot.checked_sub(1).map_or(0, |power| 1 << power),
                blocks: counts[slot],
            })
            .collect()
    }

    fn lifetimes(&self) -> Lifetimes {
        let freed = || self.allocations.iter().filter(|block| !block.live_at_end());
        let events = freed().map(|block| u64::from(block.free_event - block.alloc_event));
        let time = |event: u32| self.events.get(event as usize).map_or(0, |e| e.time_ns);
        let times = freed().map(|block| time(block.free_event) - time(block.alloc_event));
        Lifetimes {
            events: Quantiles::of(events.collect()),
            time_ns: self.times_known.then(|| Quantiles::of(times.collect())).flatten(),
        }
    }

    fn stream_summaries(&self) -> Vec<StreamSummary> {
        let mut summaries: Vec<_> = self
            .streams
            .iter()
            .map(|&stream| StreamSummary {
                stream,
                allocations: 0,
                frees: 0,
                syncs: 0,
                allocated_bytes: 0,
            })
            .collect();
        for event in &self.events {
            let size_bytes = self.size_bytes(event);
            if let Some(summary) = summaries.get_mut(event.stream as usize) {
                match event.kind {
                    EventKind::Alloc => {
                        summary.allocations += 1;
                        summary.allocated_bytes = summary.allocated_bytes.saturating_add(size_bytes);
                    }
                    EventKind::Free => summary.frees += 1,
                    EventKind::Sync => summary.syncs += 1,
                }
            }
        }
        summaries
    }

    fn thread_summaries(&self) -> Vec<ThreadSummary> {
        let mut summaries: Vec<_> = self
            .threads
            .iter()
            .map(|&thread| ThreadSummary {
                thread,
                allocations: 0,
                frees: 0,
                syncs: 0,
            })
            .collect();
        for event in &self.events {
            if let Some(summary) = summaries.get_mut(event.thread as usize) {
                match event.kind {
                    EventKind::Alloc => summary.allocations += 1,
                    EventKind::Free => summary.frees += 1,
                    EventKind::Sync => summary.syncs += 1,
                }
            }
        }
        summaries
    }

    /// Frees for which `differs` holds of the allocating and the freeing event.
    fn frees_where(&self, differs: impl Fn(&Event, &Event) -> bool) -> u64 {
        let across = self.allocations.iter().filter(|block| {
            let alloc = self.events.get(block.alloc_event as usize);
            let free = self.events.get(block.free_event as usize);
            matches!((alloc, free), (Some(alloc), Some(free)) if differs(alloc, free))
        });
        across.count() as u64
    }

    /// What the trace holds.
    pub fn summary(&self) -> Summary {
        let count = |kind| self.events.iter().filter(|e| e.kind == kind).count() as u64;
        let sizes: HashSet<u64> = self.allocations.iter().map(|b| b.size_bytes).collect();
        Summary {
            format_version: 1,
            source: self.format,
            events: self.events.len() as u64,
            allocations: count(EventKind::Alloc),
            frees: count(EventKind::Free),
            syncs: count(EventKind::Sync),
            orphan_frees: self.orphan_frees,
            live_before: self.live_before(),
            live_at_end: self.live_at_end(),
            duration_ns: self
                .times_known
                .then(|| self.events.last().map_or(0, |event| event.time_ns)),
            sizes_known: self.sizes_known(),
            peak: self.peak(),
            distinct_sizes: sizes.len() as u64,
            sizes: self.size_buckets(),
            lifetimes: self.lifetimes(),
            streams: self.stream_summaries(),
            threads: self.thread_summaries(),
            cross_thread_frees: self.frees_where(|alloc, free| alloc.thread != free.thread),
            cross_stream_frees: self.frees_where(|alloc, free| alloc.stream != free.stream),
            warnings: self.warnings.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_of_the_sample() {
        assert_eq!(Quantiles::of(Vec::new()), None);
        // Ranks for n = 10: ceil(5), ceil(9), ceil(9.9) = 5, 9, 10.
        let ten = Quantiles::of((1..=10).rev().collect());
        assert_eq!(
            ten,
            Some(Quantiles {
                min: 1,
                median: 5,
                p90: 9,
                p99: 10,
                max: 10
            })
        );
    }
}
