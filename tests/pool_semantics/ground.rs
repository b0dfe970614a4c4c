//! What the observations stand on: pools that clean up after themselves, and work for a stream.

use poolbench::cuda::{self, Device, DevicePtr, MemoryPool, ReusePolicy, Stream};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Deref;
use std::time::Instant;

pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;

/// A pool that frees what is left in it and synchronises before it goes: drivers have crashed otherwise.
pub struct TestPool {
    /// `None` only once it was destroyed.
    pool: Option<MemoryPool>,
    device: Device,
    live: RefCell<BTreeSet<DevicePtr>>,
}

impl Deref for TestPool {
    type Target = MemoryPool;

    fn deref(&self) -> &MemoryPool {
        self.pool.as_ref().expect("taken only when the pool ends")
    }
}

impl TestPool {
    pub fn create(device: &Device) -> cuda::Result<TestPool> {
        Ok(TestPool {
            pool: Some(MemoryPool::create(device)?),
            device: device.clone(),
            live: RefCell::default(),
        })
    }

    pub fn alloc_bytes(&self, stream: &Stream, size_bytes: u64) -> cuda::Result<DevicePtr> {
        let pointer = MemoryPool::alloc(self, stream, usize::try_from(size_bytes).expect("64 bits"))?;
        self.live.borrow_mut().insert(pointer);
        Ok(pointer)
    }

    pub fn alloc(&self, stream: &Stream, size_mib: u64) -> cuda::Result<DevicePtr> {
        self.alloc_bytes(stream, size_mib * MIB)
    }

    pub fn alloc_all<const N: usize>(&self, stream: &Stream, sizes_mib: [u64; N]) -> cuda::Result<[DevicePtr; N]> {
        let mut pointers = [DevicePtr::NULL; N];
        for (pointer, size_mib) in pointers.iter_mut().zip(sizes_mib) {
            *pointer = self.alloc(stream, size_mib)?;
        }
        Ok(pointers)
    }

    pub fn free(&self, stream: &Stream, pointer: DevicePtr) -> cuda::Result<()> {
        self.live.borrow_mut().remove(&pointer);
        MemoryPool::free(stream, pointer)
    }

    pub fn free_all(&self, stream: &Stream, pointers: &[DevicePtr]) -> cuda::Result<()> {
        pointers.iter().try_for_each(|pointer| self.free(stream, *pointer))
    }

    pub fn free_synchronously(&self, pointer: DevicePtr) -> cuda::Result<()> {
        self.live.borrow_mut().remove(&pointer);
        cuda::free_plain(pointer)
    }

    /// Allocates and frees, so that the stream holds a free that the host has not seen.
    pub fn cache(&self, stream: &Stream, size_mib: u64) -> cuda::Result<DevicePtr> {
        let pointer = self.alloc(stream, size_mib)?;
        self.free(stream, pointer)?;
        Ok(pointer)
    }

    pub fn reserved_mib(&self) -> cuda::Result<u64> {
        Ok(self.reserved_bytes_current()? / MIB)
    }

    pub fn reserved_high_mib(&self) -> cuda::Result<u64> {
        Ok(self.reserved_bytes_high()? / MIB)
    }

    pub fn used_mib(&self) -> cuda::Result<u64> {
        Ok(self.used_bytes_current()? / MIB)
    }

    pub fn used_high_mib(&self) -> cuda::Result<u64> {
        Ok(self.used_bytes_high()? / MIB)
    }

    pub fn set_threshold_mib(&self, mib: u64) -> cuda::Result<()> {
        self.set_release_threshold_bytes(mib * MIB)
    }

    pub fn keep_everything(&self) -> cuda::Result<()> {
        self.set_release_threshold_bytes(u64::MAX)
    }

    pub fn set_policies(&self, policies: [bool; 3]) -> cuda::Result<()> {
        let mut pairs = ReusePolicy::ALL.into_iter().zip(policies);
        pairs.try_for_each(|(policy, on)| self.set_reuse_policy(policy, on))
    }

    fn clean(&self) -> cuda::Result<()> {
        let stream = Stream::new()?;
        self.device.synchronize()?;
        self.free_all(&stream, &self.live.take().into_iter().collect::<Vec<_>>())?;
        self.device.synchronize()
    }

    /// Destroys the pool with what is in it.
    pub fn destroy_as_it_is(mut self) -> cuda::Result<()> {
        self.live.take();
        self.pool.take().map_or(Ok(()), MemoryPool::close)
    }
}

impl Drop for TestPool {
    fn drop(&mut self) {
        if self.pool.is_some()
            && let Err(error) = self.clean()
        {
            eprintln!("cleaning a pool up: {error}");
        }
    }
}

/// Copies on the device, by which a stream is kept busy.
pub struct Load {
    buffer: DevicePtr,
    half_bytes: usize,
    copy_seconds: f64,
}

/// How long a stream is kept busy: longer than any observation's calls, with a margin for a host that
/// does something else meanwhile.
const BUSY_SECONDS: f64 = 0.04;

impl Load {
    pub fn new(device: &Device) -> cuda::Result<Load> {
        // A copy of tens of milliseconds on host memory; a GPU needs larger ones, or so many that
        // submitting them takes longer than running them.
        let free = device.memory_info()?.free_bytes as u64;
        let size = if device.is_host() { 64 * MIB } else { GIB }.min(free / 8);
        let half_bytes = usize::try_from(size / 2 / 4 * 4).expect("64 bits");
        let mut load = Load {
            buffer: cuda::alloc_plain(2 * half_bytes)?,
            half_bytes,
            copy_seconds: 0.0,
        };
        let stream = Stream::new()?;
        stream.set_words(load.buffer, 1, half_bytes / 2)?;
        load.copy(&stream)?;
        stream.synchronize()?;
        let (start, copies) = (Instant::now(), 8);
        (0..copies).try_for_each(|_| load.copy(&stream))?;
        stream.synchronize()?;
        load.copy_seconds = start.elapsed().as_secs_f64() / f64::from(copies);
        stream.close()?;
        Ok(load)
    }

    fn copy(&self, stream: &Stream) -> cuda::Result<()> {
        let target = self.buffer.offset(self.half_bytes as u64);
        stream.copy_on_device(target, self.buffer, self.half_bytes)
    }

    pub fn occupy(&self, stream: &Stream, patience: u32) -> cuda::Result<()> {
        let copies = (BUSY_SECONDS * f64::from(patience) / self.copy_seconds).ceil();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small positive number"
        )]
        let copies = copies as u32;
        (0..copies).try_for_each(|_| self.copy(stream))
    }

    pub fn close(self) -> cuda::Result<()> {
        cuda::free_plain(self.buffer)
    }
}
