//! The samples of a recorded case.

use crate::baseline::{ProbeTimes, Samples};
use crate::host_probe::Reading;
use std::time::Duration;

/// What was taken of a case so far. *Shape* `[n]` each.
#[derive(Debug, Default)]
pub(super) struct Taken {
    iters: Vec<f64>,
    times_ns: Vec<f64>,
    /// The host's speed around each, where it is read.
    readings: Vec<Reading>,
}

impl Taken {
    pub(super) fn count(&self) -> u64 {
        self.iters.len() as u64
    }

    /// Adds a sample, as Criterion is told of it.
    ///
    /// Flat sampling has the same iterations in each. Where a second one has others, the first was still
    /// Criterion's warm-up, whose clock runs beside ours, and is dropped.
    #[allow(
        clippy::cast_precision_loss,
        reason = "iterations and nanoseconds stay far below 2^52"
    )]
    pub(super) fn add(&mut self, iterations: u64, time: Duration, reading: Option<Reading>) {
        let iterations = iterations as f64;
        if self.iters.len() == 1 && self.iters[0] != iterations {
            *self = Taken::default();
        }
        self.iters.push(iterations);
        self.times_ns.push(time.as_nanos() as f64);
        self.readings.extend(reading);
    }

    /// The samples as a baseline has them, marked with what disturbed them.
    pub(super) fn into_samples(self, flags: Vec<String>) -> Samples {
        let Taken {
            iters,
            times_ns,
            readings,
        } = self;
        let probe_ns = (!readings.is_empty()).then(|| ProbeTimes {
            syscall: readings.iter().map(|reading| reading.syscall_ns).collect(),
            user: readings.iter().map(|reading| reading.user_ns).collect(),
            ..ProbeTimes::default()
        });
        Samples {
            iters,
            times_ns,
            probe_ns,
            flags,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_last_call_of_a_warm_up_is_no_sample() {
        let mut taken = Taken::default();
        let reading = |syscall_ns| {
            Some(Reading {
                syscall_ns,
                user_ns: 1.0,
            })
        };
        // Criterion doubles while it warms up, then asks for 70 each time.
        taken.add(64, 6 * MS, reading(1.0));
        taken.add(70, 7 * MS, reading(2.0));
        taken.add(70, 8 * MS, reading(3.0));
        assert_eq!(taken.count(), 2);
        let samples = taken.into_samples(vec![String::from("throttled")]);
        assert_eq!((samples.iters, samples.times_ns), (vec![70.0; 2], vec![7e6, 8e6]));
        assert_eq!(samples.probe_ns.map(|probe| probe.syscall), Some(vec![2.0, 3.0]));
        assert_eq!(samples.flags, ["throttled"]);
    }

    #[test]
    fn samples_without_readings_have_no_probe() {
        let mut taken = Taken::default();
        taken.add(3, MS, None);
        taken.add(3, MS, None);
        assert_eq!(taken.count(), 2);
        assert_eq!(taken.into_samples(Vec::new()).probe_ns, None);
    }
}
