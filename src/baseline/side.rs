//! A baseline as one side of a comparison.

use super::Baseline;
use crate::stats::{BenchmarkId, LaunchKey, RawLaunch, RawProbe, SessionId, Side};

impl Baseline {
    /// Returns the baseline as one side of a comparison.
    #[must_use]
    pub fn side(&self) -> Side {
        let mut side = Side::new();
        for launch in &self.launches {
            let key = LaunchKey {
                session: SessionId::new(launch.session.as_str()),
                order: launch.launch,
            };
            for (id, samples) in &launch.samples {
                let raw = RawLaunch {
                    iters: &samples.iters,
                    times_ns: &samples.times_ns,
                    probe_ns: samples.probe_ns.as_ref().map(|probe| RawProbe {
                        syscall: &probe.syscall,
                        user: &probe.user,
                        memory: &probe.memory,
                    }),
                    flags: &samples.flags,
                };
                side.add(&BenchmarkId::new(id.as_str()), &key, &raw);
            }
        }
        for id in &self.manifest.benchmarks {
            let host_bound = self.manifest.host_bound.binary_search(id).is_ok();
            side.set_host_bound(&BenchmarkId::new(id.as_str()), host_bound);
        }
        for skipped in &self.manifest.skipped {
            side.skip(&BenchmarkId::new(skipped.id.as_str()), skipped.reason.as_str());
        }
        side
    }
}
