//! How fast the host is at the moment: two fixed pieces of work that no driver takes part in.
//!
//! What a driver call costs follows the speed of system calls and of memory, and both change by tens of
//! percent within seconds on a shared host. Measured beside each sample, they say how much of a
//! difference is the host's; they cannot hide a driver's.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::hint::black_box;
use std::time::Instant;

/// System calls of one reading.
const SYSTEM_CALLS: u32 = 300;
/// Steps of the pointer chase of one reading.
const STEPS: u32 = 5_000;
/// Entries of the chase: 1 MiB, more than a first-level cache holds.
const ENTRIES: usize = (1 << 20) / size_of::<u32>();
/// Shuffles the chase; the same in every process.
const ORDER_SEED: u64 = 0xc4a5e;

/// One reading, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Of 300 system calls.
    pub syscall_ns: f64,
    /// Of 5,000 dependent loads.
    pub memory_ns: f64,
}

/// The probe, ready to be read.
#[derive(Debug)]
pub struct HostProbe {
    next: Vec<u32>,
    position: u32,
}

impl HostProbe {
    /// A warm probe.
    #[must_use]
    pub fn new() -> HostProbe {
        let mut probe = HostProbe {
            next: cycle(),
            position: 0,
        };
        probe.read();
        probe
    }

    /// Does the work once and says how long it took. Takes about a tenth of a millisecond.
    #[allow(clippy::cast_precision_loss, reason = "nanoseconds stay far below 2^52")]
    pub fn read(&mut self) -> Reading {
        let start = Instant::now();
        for _ in 0..SYSTEM_CALLS {
            // Never answered from memory by the C library.
            black_box(std::os::unix::process::parent_id());
        }
        let called = Instant::now();
        let mut position = self.position;
        for _ in 0..STEPS {
            position = self.next[position as usize];
        }
        self.position = black_box(position);
        let chased = Instant::now();
        Reading {
            syscall_ns: (called - start).as_nanos() as f64,
            memory_ns: (chased - called).as_nanos() as f64,
        }
    }
}

impl Default for HostProbe {
    fn default() -> HostProbe {
        HostProbe::new()
    }
}

impl Reading {
    /// The mean of two readings, one before and one after what they stand for.
    #[must_use]
    pub fn mean(self, other: Reading) -> Reading {
        Reading {
            syscall_ns: f64::midpoint(self.syscall_ns, other.syscall_ns),
            memory_ns: f64::midpoint(self.memory_ns, other.memory_ns),
        }
    }
}

/// One cycle through all entries in random order (Sattolo's shuffle), which no prefetcher foresees.
#[allow(clippy::cast_possible_truncation, reason = "entries are far below 2^32")]
fn cycle() -> Vec<u32> {
    let mut random = StdRng::seed_from_u64(ORDER_SEED);
    let mut next: Vec<u32> = (0..ENTRIES as u32).collect();
    for last in (1..ENTRIES).rev() {
        next.swap(last, random.random_range(..last));
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chase_goes_through_every_entry() {
        let next = cycle();
        let mut position = 0;
        let mut steps = 0;
        loop {
            position = next[position as usize];
            steps += 1;
            if position == 0 {
                break;
            }
        }
        assert_eq!(steps, ENTRIES);
    }

    #[test]
    fn a_reading_takes_time() {
        let reading = HostProbe::new().read();
        assert!(reading.syscall_ns > 0.0 && reading.memory_ns > 0.0, "{reading:?}");
        let other = Reading {
            syscall_ns: reading.syscall_ns + 2.0,
            memory_ns: reading.memory_ns + 4.0,
        };
        let mean = reading.mean(other);
        assert_eq!(mean.syscall_ns, reading.syscall_ns + 1.0);
        assert_eq!(mean.memory_ns, reading.memory_ns + 2.0);
    }
}
