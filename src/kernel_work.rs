//! The kernels of one loop, and the time that the device takes for them.
//!
//! A case is host-bound where that time is a small part of its wall time: then the host's speed, not
//! the device's, sets the pace.

use crate::cuda::{DeviceBuffer, Event, Kernels, Result, Stream};

/// The kernels of one loop: `fill` and `accumulate` for each length, on each of the streams.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelWork {
    /// Elements of each iteration. *Shape* `[iterations]`, at least one.
    pub lengths: Vec<usize>,
    /// Streams that do this work at the same time.
    pub n_streams: usize,
}

/// What the plug works on: large enough that a kernel takes longer than its submission.
const PLUG_ELEMENTS: usize = (16 << 20) / size_of::<f32>();
/// Kernels of the first plug, and of the longest that is tried.
const PLUG_KERNELS: [usize; 2] = [16, 1024];

impl KernelWork {
    /// Returns the device time of one iteration by events, in microseconds, with every kernel submitted
    /// before the first one runs, so that the host's pace is no part of it.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn device_time_us(&self) -> Result<f64> {
        let bench = Bench::new(self)?;
        let mut n_plug_kernels = PLUG_KERNELS[0];
        loop {
            let (elapsed_us, kept_ahead) = bench.run(self, n_plug_kernels)?;
            if kept_ahead || n_plug_kernels >= PLUG_KERNELS[1] {
                bench.close()?;
                #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
                return Ok(elapsed_us / self.lengths.len() as f64);
            }
            n_plug_kernels *= 4;
        }
    }
}

/// Streams and buffers for one measurement.
struct Bench {
    kernels: Kernels,
    plug: Lane,
    lanes: Vec<Lane>,
    gate: Event,
    start: Event,
}

struct Lane {
    stream: Stream,
    input: DeviceBuffer,
    scratch: DeviceBuffer,
    end: Event,
}

impl Lane {
    fn new(elements: usize) -> Result<Lane> {
        let lane = Lane {
            stream: Stream::new()?,
            input: DeviceBuffer::uninitialized(elements)?,
            scratch: DeviceBuffer::uninitialized(elements)?,
            end: Event::new()?,
        };
        lane.stream.set_words(lane.input.pointer(), 0, elements)?;
        Ok(lane)
    }

    fn fill(&self, kernels: &Kernels, length: usize) -> Result<()> {
        kernels.fill(&self.stream, self.scratch.pointer(), self.input.pointer(), length, 1.0)
    }

    fn close(self) -> Result<()> {
        self.stream.close()?;
        self.input.close()?;
        self.scratch.close()?;
        self.end.close()
    }
}

impl Bench {
    fn new(work: &KernelWork) -> Result<Bench> {
        let elements = work.lengths.iter().copied().max().unwrap_or(1);
        Ok(Bench {
            kernels: Kernels::load()?,
            plug: Lane::new(PLUG_ELEMENTS)?,
            lanes: (0..work.n_streams)
                .map(|_| Lane::new(elements))
                .collect::<Result<_>>()?,
            gate: Event::new()?,
            start: Event::new()?,
        })
    }

    /// Runs the work behind a plug of this many kernels. Returns its device time in microseconds, and
    /// whether the plug was still running when the last kernel had been submitted.
    fn run(&self, work: &KernelWork, n_plug_kernels: usize) -> Result<(f64, bool)> {
        for _ in 0..n_plug_kernels {
            self.plug.fill(&self.kernels, PLUG_ELEMENTS)?;
        }
        self.gate.record(&self.plug.stream)?;
        for lane in &self.lanes {
            lane.stream.wait_event(&self.gate)?;
        }
        self.start.record(&self.lanes[0].stream)?;
        for length in &work.lengths {
            for lane in &self.lanes {
                lane.fill(&self.kernels, *length)?;
                // The input is zero, so the output stays what it is.
                let (output, scratch) = (lane.input.pointer(), lane.scratch.pointer());
                self.kernels.accumulate(&lane.stream, output, scratch, *length)?;
            }
        }
        for lane in &self.lanes {
            lane.end.record(&lane.stream)?;
        }
        let kept_ahead = !self.gate.is_reached()?;
        let mut elapsed_us = 0.0_f64;
        for lane in &self.lanes {
            lane.end.synchronize()?;
            elapsed_us = elapsed_us.max(lane.end.elapsed_us_since(&self.start)?);
        }
        Ok((elapsed_us, kept_ahead))
    }

    fn close(self) -> Result<()> {
        self.plug.close()?;
        self.lanes.into_iter().try_for_each(Lane::close)?;
        self.gate.close()?;
        self.start.close()?;
        self.kernels.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::Device;

    #[test]
    fn more_kernels_take_the_device_longer() {
        let _device = Device::from_environment().expect("a device, if only the host device");
        let time_us = |elements| {
            let work = KernelWork {
                lengths: vec![elements; 4],
                n_streams: 1,
            };
            work.device_time_us().expect("kernels run")
        };
        // A thousand times the work; on any device far above what a kernel takes to start.
        let (small, large) = (time_us(4 << 10), time_us(4 << 20));
        assert!(small > 0.0 && large > 2.0 * small, "{small} {large}");
    }
}
