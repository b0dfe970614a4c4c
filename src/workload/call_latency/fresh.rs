//! A pool for each iteration: its making, its first allocation, its growth, its end.

use super::{Calls, clocked, write_and_read};
use crate::case::Size;
use crate::cuda::{Device, DevicePtr, MemoryPool, Stream, close_all};
use crate::measure::{Failure, Observation};
use std::time::Duration;

/// Which call is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timed {
    Create,
    First,
    Growth,
    Destroy,
}

pub(super) struct Fresh {
    device: Device,
    stream: Stream,
    timed: Timed,
    size: Size,
    /// What a pool reserves for its first byte: allocated in whole, it leaves no room.
    step_bytes: usize,
    live: Vec<DevicePtr>,
    /// What the pool of the last iteration held when it was destroyed.
    held_bytes: u64,
    /// Whether the memory is written and read back, which no sample does.
    is_proving: bool,
}

impl Fresh {
    pub(super) fn new(device: &Device, timed: Timed, size: Size) -> Result<Fresh, Failure> {
        let stream = Stream::new()?;
        let step_bytes = match timed {
            Timed::Growth => step_bytes(device, &stream)?,
            Timed::Create | Timed::First | Timed::Destroy => 0,
        };
        device.require_free_bytes(size.as_bytes().saturating_add(step_bytes))?;
        Ok(Fresh {
            device: device.clone(),
            stream,
            timed,
            size,
            step_bytes,
            live: Vec::new(),
            held_bytes: 0,
            is_proving: false,
        })
    }

    /// Allocates from a pool that was just made, and returns the time of the allocation of the size.
    fn fill(&mut self, pool: &MemoryPool) -> Result<Duration, Failure> {
        if self.size.as_bytes() == 0 {
            return Ok(Duration::ZERO);
        }
        let mut before = 0;
        match self.timed {
            // Nothing is called on the pool between its making and its first allocation.
            Timed::Create | Timed::First => {}
            Timed::Growth => {
                self.live.push(pool.alloc(&self.stream, self.step_bytes)?);
                before = pool.reserved_bytes_current()?;
            }
            Timed::Destroy => pool.set_release_threshold_bytes(u64::MAX)?,
        }
        let (pointer, elapsed) = clocked(|| pool.alloc(&self.stream, self.size.as_bytes()))?;
        self.live.push(pointer);
        let reserved = pool.reserved_bytes_current()?;
        let at_least = before.saturating_add(self.size.as_bytes() as u64);
        if reserved < at_least {
            return Err(Failure::PoolHolds {
                when: "after the allocation that should have made it grow",
                reserved,
                at_least,
                at_most: u64::MAX,
            });
        }
        if self.is_proving {
            write_and_read(&self.stream, pointer, self.size)?;
        }
        Ok(elapsed)
    }

    /// Frees what is allocated and waits for it. Drivers were seen to crash some calls after a pool was
    /// destroyed that had a free pending, so this comes before every destroy.
    fn free_all(&mut self) -> Result<(), Failure> {
        let freed = close_all(self.live.drain(..), |pointer| MemoryPool::free(&self.stream, pointer));
        let synchronized = self.stream.synchronize();
        Ok(freed.and(synchronized)?)
    }
}

/// What a pool reserves for its first byte.
fn step_bytes(device: &Device, stream: &Stream) -> Result<usize, Failure> {
    let pool = MemoryPool::create(device)?;
    let pointer = pool.alloc(stream, 1)?;
    let reserved = pool.reserved_bytes_current();
    let freed = MemoryPool::free(stream, pointer);
    let synchronized = stream.synchronize();
    let closed = pool.close();
    let reserved = reserved?;
    freed.and(synchronized).and(closed)?;
    Ok(usize::try_from(reserved).unwrap_or(usize::MAX))
}

impl Calls for Fresh {
    fn once(&mut self) -> Result<Duration, Failure> {
        let (pool, create) = clocked(|| MemoryPool::create(&self.device))?;
        let filled = self.fill(&pool);
        let freed = self.free_all();
        let used = pool.used_bytes_current();
        let held = pool.reserved_bytes_current();
        let destroyed = clocked(|| pool.close());
        // The first failure is the one to report.
        let allocation = filled?;
        freed?;
        let (used, held) = (used?, held?);
        let ((), destroy) = destroyed?;
        if used != 0 {
            return Err(Failure::UsedBytes { before: 0, after: used });
        }
        self.held_bytes = held;
        Ok(match self.timed {
            Timed::Create => create,
            Timed::First | Timed::Growth => allocation,
            Timed::Destroy => destroy,
        })
    }

    fn verify(&mut self) -> Result<(), Failure> {
        let at_least = self.size.as_bytes() as u64;
        if self.timed == Timed::Destroy && self.held_bytes < at_least {
            return Err(Failure::PoolHolds {
                when: "when it is destroyed",
                reserved: self.held_bytes,
                at_least,
                at_most: u64::MAX,
            });
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Observation, Failure> {
        self.is_proving = true;
        let proven = self.once();
        self.is_proving = false;
        proven?;
        self.verify()?;
        Ok(Observation {
            returned_bytes: (self.timed == Timed::Destroy).then_some(self.held_bytes),
            ..Observation::default()
        })
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(self.stream.close()?)
    }
}
