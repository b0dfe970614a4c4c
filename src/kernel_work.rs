//! The kernels of one loop, and the time that the device takes for them.
//!
//! A case is host-bound where that time is a small part of its wall time: then the host's speed, not
//! the device's, sets the pace.

use crate::cuda::{CaptureMode, DeviceBuffer, Event, GraphExec, Kernels, Result, Stream, Unfreed, close_all};

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
/// Kernels of the plug: enough to submit a graph to each stream meanwhile.
const PLUG_KERNELS: usize = 32;

impl KernelWork {
    /// Returns the device time of one iteration by events, in microseconds. The loop runs as a graph for each
    /// stream, submitted before the first one runs: neither the host's pace nor the launch of single kernels
    /// is a part of it.
    ///
    /// # Errors
    ///
    /// The driver's refusal.
    pub fn device_time_us(&self) -> Result<f64> {
        let bench = Bench::new(self)?;
        // The first launch of a graph uploads it.
        bench.run()?;
        let elapsed_us = bench.run()?;
        bench.close()?;
        #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
        Ok(elapsed_us / self.lengths.len() as f64)
    }
}

/// Streams and buffers for one measurement.
struct Bench {
    kernels: Kernels,
    plug: Lane,
    lanes: Vec<Lane>,
    /// One a lane.
    loops: Vec<GraphExec>,
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

    fn submit(&self, kernels: &Kernels, lengths: &[usize]) -> Result<()> {
        let (input, scratch) = (self.input.pointer(), self.scratch.pointer());
        for length in lengths {
            kernels.fill(&self.stream, scratch, input, *length, 1.0)?;
            // The input is zero, and stays so.
            kernels.accumulate(&self.stream, input, scratch, *length)?;
        }
        Ok(())
    }

    fn close(self) -> Result<()> {
        self.stream
            .close()
            .and(close_all([self.input, self.scratch], DeviceBuffer::close))
            .and(self.end.close())
    }
}

impl Bench {
    fn new(work: &KernelWork) -> Result<Bench> {
        let kernels = Kernels::shared()?;
        let elements = work.lengths.iter().copied().max().unwrap_or(1);
        let lanes: Vec<Lane> = (0..work.n_streams)
            .map(|_| Lane::new(elements))
            .collect::<Result<_>>()?;
        let mut loops = Vec::new();
        for lane in &lanes {
            let capture = lane
                .stream
                .capture(CaptureMode::Relaxed, || lane.submit(&kernels, &work.lengths))?;
            let exec = capture.instantiate(Unfreed::MustBeFreed)?;
            capture.close()?;
            loops.push(exec);
        }
        Ok(Bench {
            plug: Lane::new(PLUG_ELEMENTS)?,
            gate: Event::new()?,
            start: Event::new()?,
            kernels,
            lanes,
            loops,
        })
    }

    /// Runs the loop once on every stream and returns its device time in microseconds.
    fn run(&self) -> Result<f64> {
        self.plug.submit(&self.kernels, &[PLUG_ELEMENTS; PLUG_KERNELS / 2])?;
        self.gate.record(&self.plug.stream)?;
        for lane in &self.lanes {
            lane.stream.wait_event(&self.gate)?;
        }
        self.start.record(&self.lanes[0].stream)?;
        for (lane, exec) in self.lanes.iter().zip(&self.loops) {
            exec.launch(&lane.stream)?;
            lane.end.record(&lane.stream)?;
        }
        let mut elapsed_us = 0.0_f64;
        for lane in &self.lanes {
            lane.end.synchronize()?;
            elapsed_us = elapsed_us.max(lane.end.elapsed_us_since(&self.start)?);
        }
        Ok(elapsed_us)
    }

    fn close(self) -> Result<()> {
        close_all(self.loops, GraphExec::close)
            .and(close_all(self.lanes.into_iter().chain([self.plug]), Lane::close))
            .and(close_all([self.gate, self.start], Event::close))
            .and(self.kernels.close())
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
