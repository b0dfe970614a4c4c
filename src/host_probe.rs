//! How fast the host is at the moment: two fixed pieces of work that no driver takes part in.
//!
//! What a driver call costs follows the speed of the processor in both of its modes, and that changes by tens
//! of percent within seconds on a shared host: clocks, other virtual machines, the other thread of a core.
//! Measured beside each sample, the two say how much of a difference is the host's; they cannot hide a
//! driver's.
//!
//! Chosen on an H200 machine, eight processes of forty moments each, by how well logarithms of times follow
//! them in processes that the fit has not seen. Spread of processes' means, `scratch_loop` / its `sync` /
//! `variable_size`: nothing taken out 7.1 / 6.3 / 11.1 %, system calls 2.8 / 2.0 / 5.9 %, both pieces
//! together 1.7 / 1.1 / 4.9 %. A pointer chase beside them (4.9 / 3.7 / 5.7 % in one sum), atomics, page
//! faults and streaming stores gain nothing.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use std::hint::black_box;
use std::time::Instant;

/// System calls of one reading: about 40 µs.
const SYSTEM_CALLS: u32 = 300;
/// Rounds of eight independent multiplications: about 70 µs. They fill the core, so that they share it badly.
const MULTIPLICATIONS: u32 = 5_000;
/// Numbers put in order: about 12 µs of branches that nobody foresees.
const SORTED: u32 = 1_000;
/// Numbers put into words: about 15 µs in much code.
const FORMATTED: u32 = 100;
/// Shuffles what is sorted; the same in every process.
const ORDER_SEED: u64 = 0xc4a5e;

/// One reading, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Of 300 system calls.
    pub syscall_ns: f64,
    /// Of the work in user mode.
    pub user_ns: f64,
}

/// The probe, ready to be read.
#[derive(Debug)]
pub struct HostProbe {
    shuffled: Vec<u32>,
    sorted: Vec<u32>,
}

impl HostProbe {
    /// A warm probe.
    #[must_use]
    pub fn new() -> HostProbe {
        let mut shuffled: Vec<u32> = (0..SORTED).collect();
        shuffled.shuffle(&mut StdRng::seed_from_u64(ORDER_SEED));
        let mut probe = HostProbe {
            sorted: shuffled.clone(),
            shuffled,
        };
        probe.read();
        probe
    }

    /// Does the work once and says how long it took: about an eighth of a millisecond.
    #[allow(clippy::cast_precision_loss, reason = "nanoseconds stay far below 2^52")]
    pub fn read(&mut self) -> Reading {
        let start = Instant::now();
        for _ in 0..SYSTEM_CALLS {
            // Never answered from memory by the C library.
            black_box(std::os::unix::process::parent_id());
        }
        let called = Instant::now();
        multiply();
        self.sort();
        format();
        let worked = Instant::now();
        Reading {
            syscall_ns: (called - start).as_nanos() as f64,
            user_ns: (worked - called).as_nanos() as f64,
        }
    }

    fn sort(&mut self) {
        self.sorted.copy_from_slice(&self.shuffled);
        black_box(&mut self.sorted).sort_unstable();
    }
}

/// Eight chains of linear congruences (Knuth's MMIX constants), which no compiler may shorten.
fn multiply() {
    let mut chains = black_box([1_u64, 2, 3, 4, 5, 6, 7, 8]);
    for _ in 0..MULTIPLICATIONS {
        for chain in &mut chains {
            *chain = chain
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
        }
        chains = black_box(chains);
    }
}

fn format() {
    for number in 0..FORMATTED {
        black_box(format!("{:.6}", f64::from(number) * 1.234_567));
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
            user_ns: f64::midpoint(self.user_ns, other.user_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reading_sorts_anew() {
        let mut probe = HostProbe::new();
        for _ in 0..2 {
            probe.read();
            assert!(probe.sorted.iter().copied().eq(0..SORTED));
            assert_ne!(probe.shuffled, probe.sorted);
        }
    }

    #[test]
    fn a_reading_takes_time() {
        let reading = HostProbe::new().read();
        assert!(reading.syscall_ns > 0.0 && reading.user_ns > 0.0, "{reading:?}");
        let other = Reading {
            syscall_ns: reading.syscall_ns + 2.0,
            user_ns: reading.user_ns + 4.0,
        };
        let mean = reading.mean(other);
        assert_eq!(mean.syscall_ns, reading.syscall_ns + 1.0);
        assert_eq!(mean.user_ns, reading.user_ns + 2.0);
    }
}
