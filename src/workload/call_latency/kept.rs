//! Calls on one pool that lasts: trim, and the setting of an attribute.

use super::super::pool_check::keeping_pool;
use super::{Calls, clocked, write_and_read};
use crate::case::Size;
use crate::cuda::{Device, MemoryPool, Stream};
use crate::measure::{Failure, Observation};
use std::time::Duration;

pub(super) struct Trim {
    stream: Stream,
    pool: MemoryPool,
    size: Size,
    returned_bytes: u64,
    is_proving: bool,
}

impl Trim {
    pub(super) fn new(device: &Device, size: Size) -> Result<Trim, Failure> {
        let stream = Stream::new()?;
        Ok(Trim {
            stream,
            pool: keeping_pool(device)?,
            size,
            returned_bytes: 0,
            is_proving: false,
        })
    }

    /// Leaves the pool with the size in it, all free, and the free seen: a trim takes nothing else.
    fn fill(&self) -> Result<(), Failure> {
        if self.size.as_bytes() == 0 {
            return Ok(());
        }
        let pointer = self.pool.alloc(&self.stream, self.size.as_bytes())?;
        let written = if self.is_proving {
            write_and_read(&self.stream, pointer, self.size)
        } else {
            Ok(())
        };
        let freed = MemoryPool::free(&self.stream, pointer);
        let synchronized = self.stream.synchronize();
        written?;
        Ok(freed.and(synchronized)?)
    }
}

impl Calls for Trim {
    fn once(&mut self) -> Result<Duration, Failure> {
        self.fill()?;
        let before = self.pool.reserved_bytes_current()?;
        let ((), elapsed) = clocked(|| self.pool.trim_to(0))?;
        let after = self.pool.reserved_bytes_current()?;
        let size_bytes = self.size.as_bytes() as u64;
        let holds = |when, reserved, at_least, at_most| {
            Err(Failure::PoolHolds {
                when,
                reserved,
                at_least,
                at_most,
            })
        };
        if before < size_bytes {
            return holds("before the trim", before, size_bytes, u64::MAX);
        }
        if after != 0 {
            return holds("after a trim to 0", after, 0, 0);
        }
        self.returned_bytes = before;
        Ok(elapsed)
    }

    fn verify(&mut self) -> Result<(), Failure> {
        match self.pool.used_bytes_current()? {
            0 => Ok(()),
            used => Err(Failure::UsedBytes { before: 0, after: used }),
        }
    }

    fn check(&mut self) -> Result<Observation, Failure> {
        self.is_proving = true;
        let proven = self.once();
        self.is_proving = false;
        proven?;
        self.verify()?;
        Ok(Observation {
            returned_bytes: Some(self.returned_bytes),
            ..Observation::default()
        })
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        let synchronized = self.stream.synchronize();
        let pool = self.pool.close();
        Ok(synchronized.and(pool).and(self.stream.close())?)
    }
}

/// Sets the release threshold to two values in turn, so that every call changes it.
pub(super) struct AttributeSet {
    pool: MemoryPool,
    set_bytes: u64,
}

impl AttributeSet {
    pub(super) fn new(device: &Device) -> Result<AttributeSet, Failure> {
        Ok(AttributeSet {
            pool: MemoryPool::create(device)?,
            set_bytes: 0,
        })
    }
}

impl Calls for AttributeSet {
    fn once(&mut self) -> Result<Duration, Failure> {
        self.set_bytes = !self.set_bytes;
        let ((), elapsed) = clocked(|| self.pool.write_release_threshold_bytes(self.set_bytes))?;
        Ok(elapsed)
    }

    fn verify(&mut self) -> Result<(), Failure> {
        Ok(self.pool.expect_release_threshold_bytes(self.set_bytes)?)
    }

    fn check(&mut self) -> Result<Observation, Failure> {
        self.verify()?;
        Ok(Observation::default())
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(self.pool.close()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trim_that_leaves_memory_is_caught() {
        let device = Device::from_environment().expect("a device, if only the host device");
        let mut trim = Trim::new(&device, Size::mib(1)).expect("any device has pools");
        trim.once().expect("nothing is in the way");
        // A live byte keeps its unit of 32 MiB from being given back.
        let live = trim.pool.alloc(&trim.stream, 1).expect("one byte");
        let failure = trim.once().expect_err("memory stays");
        assert_eq!(
            failure.to_string(),
            "the pool holds 33554432 bytes after a trim to 0, not at most 0"
        );
        let used = trim.verify().expect_err("a byte is in use");
        assert_eq!(used, Failure::UsedBytes { before: 0, after: 1 });
        MemoryPool::free(&trim.stream, live).expect("the byte is ours");
        Box::new(trim).close().expect("the case closes");
    }

    #[test]
    fn an_attribute_that_reads_otherwise_is_caught() {
        let device = Device::from_environment().expect("a device, if only the host device");
        let mut attribute = AttributeSet::new(&device).expect("any device has pools");
        attribute.once().expect("the threshold can be set");
        attribute.verify().expect("it reads back");
        attribute
            .pool
            .write_release_threshold_bytes(5)
            .expect("any value can be set");
        assert!(attribute.verify().is_err());
        Box::new(attribute).close().expect("the case closes");
    }
}
