//! The source's loop: get a scratch buffer, `fill` it, `accumulate` it into the output, give it back;
//! synchronise after a number of iterations.

use super::scratch::Scratch;
use crate::case::{BenchmarkId, InvalidPart, Size};
use crate::cuda::Device;
use crate::measure::{Case, Failure, Observation, Workload};
use crate::strategy::StrategyKind;
use std::time::{Duration, Instant};

/// A point on the axes of the scratch loop.
#[derive(Clone, Debug)]
pub struct ScratchLoop {
    /// The Criterion group.
    pub group: &'static str,
    /// What is compared, as it stands in the id.
    pub function: String,
    /// How the loop gets its buffer.
    pub strategy: &'static StrategyKind,
    /// The size of the buffer.
    pub size: Size,
    /// The release threshold of the strategy's pool, in bytes.
    pub release_threshold_bytes: u64,
    /// Iterations after which the loop synchronises: one whole loop.
    pub iterations: u64,
}

impl Case for ScratchLoop {
    fn id(&self) -> Result<BenchmarkId, InvalidPart> {
        BenchmarkId::new(self.group, &self.function, &self.size.to_string())
    }

    fn size(&self) -> Size {
        self.size
    }

    fn iterations_per_loop(&self) -> u64 {
        self.iterations
    }

    fn prepare(&self, device: &Device) -> Result<Box<dyn Workload>, Failure> {
        Ok(Box::new(Eager(Scratch::new(self, device)?)))
    }
}

/// The loop, submitted call by call.
struct Eager(Scratch);

impl Workload for Eager {
    fn iterations_per_loop(&self) -> u64 {
        self.0.iterations_per_loop()
    }

    fn trial(&mut self) -> Result<Duration, Failure> {
        // The first iteration meets cold pages and an empty pool.
        self.0.run_eagerly(1)?;
        let start = Instant::now();
        self.0.run_eagerly(1)?;
        let elapsed = start.elapsed();
        self.0.reset_output()?;
        Ok(elapsed)
    }

    fn run(&mut self, loops: u64) -> Result<Duration, Failure> {
        let iterations = self.0.iterations_per_loop();
        self.0.time_checked(loops, |scratch| scratch.run_eagerly(iterations))
    }

    fn check(&mut self) -> Result<Observation, Failure> {
        self.0.check()?;
        Ok(Observation {
            reserved: self.0.check_pool()?,
            ..Observation::default()
        })
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.0.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_kernel_fault_is_caught() {
        let device = Device::from_environment().expect("a device, if only the host device");
        let case = ScratchLoop {
            group: "planted",
            function: String::from("hoisted"),
            strategy: crate::strategy::HOISTED,
            size: Size::kib(4),
            release_threshold_bytes: 0,
            iterations: 10,
        };
        let mut eager = Eager(Scratch::new(&case, &device).expect("the case fits any device"));
        eager.run(3).expect("sound kernels give the right result");
        eager.0.plant_faulty_fill();
        let failure = eager.run(1).expect_err("the output is wrong");
        assert!(matches!(failure, Failure::WrongResult { index: 0, .. }), "{failure}");
    }
}
