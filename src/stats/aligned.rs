//! A benchmark's launch values on both sides, made comparable: by one probe, from one level per session.

use super::adjustment::{ProbeSlope, SlopePool, fit_slope};
use super::benchmark_id::BenchmarkId;
use super::launch_spread::launch_spread;
use super::launch_table::{LaunchValue, Row};
use super::matched::{MIXED_SPREAD, SessionLayout, sessions};
use super::order::{lower_half_mean, median};

/// A benchmark with valid numbers on both sides, sessions aligned, before the adjustment.
#[derive(Debug, Clone)]
pub(super) struct Aligned {
    pub id: BenchmarkId,
    pub host_bound: Option<bool>,
    pub layout: SessionLayout,
    /// As recorded.
    pub base: Vec<LaunchValue>,
    pub new: Vec<LaunchValue>,
    pub median_ratio: Option<f64>,
    fit: Option<ProbeSlope>,
}

impl Aligned {
    pub fn new(id: &BenchmarkId, base: &Row, new: &Row) -> Self {
        let host_bound = base.host_bound.or(new.host_bound);
        let (mut base, mut new) = (base.values.clone(), new.values.clone());
        let median_ratio = ratio_of_medians(&base, &new);
        use_the_same_probe(&mut base, &mut new);
        let layout = layout(&base, &new);
        if layout == SessionLayout::Shared {
            align(&mut base, &mut new);
        }
        // Not what the GPU paces. It follows the host by a few per cent of its movement, within the error of a
        // slope: over a move of 20 % between sessions that error is an effect, and the adjustment would gain
        // 0.1 of a detectable 3.3 %.
        let gpu_bound = host_bound == Some(false) && launch_spread(&base, &new) <= MIXED_SPREAD;
        let fit = if gpu_bound { None } else { fit_slope(&base, &new) };
        Self {
            id: id.clone(),
            host_bound,
            layout,
            base,
            new,
            median_ratio,
            fit,
        }
    }

    /// Returns the slopes of the host-bound benchmarks as a whole, where they have a common size.
    pub fn pool(aligned: &[Self]) -> Option<SlopePool> {
        let host_bound = aligned.iter().filter(|aligned| aligned.host_bound == Some(true));
        SlopePool::of(&host_bound.filter_map(|aligned| aligned.fit).collect::<Vec<_>>())
    }

    /// Returns the slope to adjust by, as the others inform it.
    pub fn slope(&self, pool: Option<SlopePool>) -> Option<ProbeSlope> {
        match pool {
            Some(pool) if self.host_bound == Some(true) => {
                self.fit.map(|fit| fit.informed_by(pool)).filter(|fit| fit.slope > 0.0)
            }
            _ => self.fit?.significant(),
        }
    }
}

/// Has all launches go by the system calls alone where one of them has nothing else.
fn use_the_same_probe(base: &mut [LaunchValue], new: &mut [LaunchValue]) {
    let has_nothing_else = |launch: &LaunchValue| launch.probe.is_none() && launch.probe_syscall.is_some();
    if base.iter().chain(&*new).any(has_nothing_else) {
        for launch in base.iter_mut().chain(new) {
            launch.probe = launch.probe_syscall;
        }
    }
}

fn ratio_of_medians(base: &[LaunchValue], new: &[LaunchValue]) -> Option<f64> {
    let typical = |side: &[LaunchValue]| median(side.iter().map(|l| l.median_ns).collect());
    Some(typical(new)? / typical(base)?)
}

fn layout(base: &[LaunchValue], new: &[LaunchValue]) -> SessionLayout {
    let (mut ours, mut theirs) = (sessions(base), sessions(new));
    ours.sort_unstable();
    theirs.sort_unstable();
    if ours == theirs {
        SessionLayout::Shared
    } else if ours.len() > 1 || theirs.len() > 1 {
        SessionLayout::Several {
            base: ours.len(),
            new: theirs.len(),
        }
    } else {
        SessionLayout::One
    }
}

/// Takes the sessions' own levels out of sides that share several: the level of a session is midway
/// between its sides, so that a shift between the sides moves all sessions alike and stays. Levels of launches over
/// sessions need it; the tests rank inside each session, and do not.
fn align(base: &mut [LaunchValue], new: &mut [LaunchValue]) {
    let shared = sessions(base);
    if shared.len() < 2 {
        return;
    }
    for session in shared {
        let level = |side: &[LaunchValue], part: fn(&LaunchValue) -> Option<f64>| {
            lower_half_mean(side.iter().filter(|l| l.session == session).filter_map(part).collect())
        };
        let middle = |part: fn(&LaunchValue) -> Option<f64>| {
            level(base, part)
                .zip(level(new, part))
                .map(|(a, b)| f64::midpoint(a, b))
        };
        let value_level = middle(|launch| Some(launch.value)).unwrap_or(0.0);
        let probe_level = middle(|launch| launch.probe).unwrap_or(0.0);
        for launch in base.iter_mut().chain(new.iter_mut()) {
            if launch.session == session {
                launch.value -= value_level;
                launch.probe = launch.probe.map(|probe| probe - probe_level);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(probe: Option<f64>, probe_syscall: Option<f64>) -> LaunchValue {
        LaunchValue {
            session: 0,
            launch: 0,
            value: 0.0,
            probe,
            probe_syscall,
            median_ns: 1.0,
        }
    }

    #[test]
    fn both_sides_go_by_what_both_have_of_the_probe() {
        let probes = |base: &[LaunchValue], new: &[LaunchValue]| {
            let (mut base, mut new) = (base.to_vec(), new.to_vec());
            use_the_same_probe(&mut base, &mut new);
            base.iter().chain(&new).map(|launch| launch.probe).collect::<Vec<_>>()
        };
        let (whole, older, none) = (
            launch(Some(5.0), Some(4.0)),
            launch(None, Some(3.0)),
            launch(None, None),
        );
        assert_eq!(probes(&[whole], &[whole]), [Some(5.0), Some(5.0)]);
        assert_eq!(probes(&[whole, whole], &[older]), [Some(4.0), Some(4.0), Some(3.0)]);
        // Without any probe there is nothing to agree on, and nothing is adjusted.
        assert_eq!(probes(&[whole], &[none]), [Some(5.0), None]);
    }
}
