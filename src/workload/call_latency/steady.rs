//! Allocate, free, synchronise, over and over: each call timed apart.

use super::super::pool_check::reserved_after_loop;
use super::{Calls, Memory, clocked, write_and_read};
use crate::case::Size;
use crate::cuda::{Device, Stream};
use crate::measure::{Failure, Observation, Reserved};
use crate::strategy::{self, Setup, Strategy};
use std::time::Duration;

/// Which call is measured; its place among an iteration's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timed {
    Alloc,
    Free,
    Synchronize,
}

pub(super) struct Steady {
    stream: Stream,
    strategy: Box<dyn Strategy>,
    size: Size,
    threshold_bytes: u64,
    used_before_bytes: Option<u64>,
    timed: Timed,
}

impl Steady {
    pub(super) fn new(device: &Device, memory: Memory, size: Size, timed: Timed) -> Result<Steady, Failure> {
        let (strategy, threshold_bytes) = match memory {
            Memory::Pool(threshold) => (strategy::STREAM_ORDERED, threshold.bytes(size)),
            Memory::Plain => (strategy::SYNC, 0),
        };
        let stream = Stream::new()?;
        let strategy = (strategy.build)(&Setup {
            device,
            size,
            plan: None,
            release_threshold_bytes: threshold_bytes,
        })?;
        let used_before_bytes = strategy
            .pool()
            .map(crate::cuda::MemoryPool::used_bytes_current)
            .transpose()?;
        Ok(Steady {
            stream,
            strategy,
            size,
            threshold_bytes,
            used_before_bytes,
            timed,
        })
    }

    /// One iteration, every call with a clock of its own, whichever is measured: all cases of one
    /// threshold and size run the same loop.
    #[inline]
    fn iteration(&mut self) -> Result<[Duration; 3], Failure> {
        let (strategy, stream, size_bytes) = (&mut self.strategy, &self.stream, self.size.as_bytes());
        let (pointer, alloc) = clocked(|| strategy.alloc(stream, size_bytes))?;
        let ((), free) = clocked(|| strategy.free(stream, pointer))?;
        let ((), synchronize) = clocked(|| stream.synchronize())?;
        Ok([alloc, free, synchronize])
    }

    /// What the pool holds now; an error where that is not what the threshold says.
    fn reserved(&self) -> Result<Option<Reserved>, Failure> {
        let (Some(pool), Some(before)) = (self.strategy.pool(), self.used_before_bytes) else {
            return Ok(None);
        };
        let threshold = self.threshold_bytes;
        let seen = reserved_after_loop(pool, before, threshold)?;
        let reserved = seen.after_synchronize_bytes;
        // What the threshold covers must stay as well, or the case measures a pool that starts anew.
        let size_bytes = self.size.as_bytes() as u64;
        if threshold == u64::MAX && reserved < size_bytes {
            return Err(Failure::PoolHolds {
                when: "after a synchronise",
                reserved,
                at_least: size_bytes,
                at_most: threshold,
            });
        }
        Ok(Some(seen))
    }

    /// What one synchronise gives back, in an iteration that nothing times.
    fn returned_bytes(&mut self) -> Result<Option<u64>, Failure> {
        let pointer = self.strategy.alloc(&self.stream, self.size.as_bytes())?;
        let written = write_and_read(&self.stream, pointer, self.size);
        let freed = self.strategy.free(&self.stream, pointer);
        written?;
        freed?;
        let reserved = |strategy: &dyn Strategy| {
            strategy
                .pool()
                .map(crate::cuda::MemoryPool::reserved_bytes_current)
                .transpose()
        };
        let before = reserved(self.strategy.as_ref())?;
        self.stream.synchronize()?;
        let after = reserved(self.strategy.as_ref())?;
        Ok(before.zip(after).map(|(before, after)| before.saturating_sub(after)))
    }
}

impl Calls for Steady {
    #[inline]
    fn once(&mut self) -> Result<Duration, Failure> {
        let timed = self.timed;
        self.iteration().map(|times| times[timed as usize])
    }

    fn verify(&mut self) -> Result<(), Failure> {
        self.reserved().map(drop)
    }

    fn check(&mut self) -> Result<Observation, Failure> {
        let returned_bytes = self.returned_bytes()?;
        Ok(Observation {
            reserved: self.reserved()?,
            returned_bytes,
            ..Observation::default()
        })
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        let strategy = self.strategy.close();
        Ok(strategy.and(self.stream.close())?)
    }
}
