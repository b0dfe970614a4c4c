//! How many sessions a side's launches are worth.

use std::collections::BTreeMap;

use super::launch_table::LaunchValue;

/// A side counts as having so many sessions from this share of their number: the launches of two are as good as equally
/// many where the smaller has at least half of the larger's (1.8 of 2), those of three where one has half (2.8 of 3).
pub(super) const NEARLY: f64 = 0.9;

/// Shares of the side's launches that its sessions have, Σ(nᵢ/N)²: what a variance between sessions, of which each
/// launch has its session's shift, leaves in the mean of the side. One over it is the effective number of sessions.
///
/// *Source*: Kish, Survey Sampling (1965), section 11.7. The procedure's 1/s is the case of equal sessions; 43 launches
/// and 5 count as 1.2 sessions, since a session of 5 says next to nothing of what the 43 share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SessionWeights {
    /// 1/s for s equal sessions.
    squares: f64,
    launches: usize,
}

impl SessionWeights {
    pub fn of(side: &[LaunchValue]) -> Self {
        let mut sessions: BTreeMap<u32, usize> = BTreeMap::new();
        for launch in side {
            *sessions.entry(launch.session).or_default() += 1;
        }
        let launches = side.len();
        let share = |&count: &usize| (count as f64 / launches as f64).powi(2);
        Self {
            squares: sessions.values().map(share).sum(),
            launches,
        }
    }

    /// Returns the number of equal sessions that would average out shifts as well as these.
    pub fn effective(self) -> f64 {
        self.squares.recip()
    }

    /// Returns what of a variance between sessions is to be added to that of the side, as a share: Σ(nᵢ/N)² less what
    /// the spread between the side's launches, sessions pooled, holds of it already. All of it where each launch is a
    /// session of its own: then launches are as independent as sessions, and nothing is to be added.
    pub fn added(self) -> f64 {
        let held = (1.0 - self.squares) / (self.launches as f64 - 1.0).max(1.0);
        let added = self.squares - held;
        // Not the rest of a sum of squares that should be none.
        if added < 1e-9 { 0.0 } else { added }
    }
}

/// Returns the effective sessions of both sides beyond one each, what a variance between sessions is measured with:
/// s − 1 of each side where sessions are equal.
pub(super) fn freedom(base: SessionWeights, new: SessionWeights) -> f64 {
    (base.effective() + new.effective() - 2.0).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(sessions: &[usize]) -> SessionWeights {
        let of = |(session, &count): (u32, &usize)| vec![session; count];
        let launch = |session| LaunchValue {
            session,
            launch: 0,
            value: 0.0,
            probe: None,
            probe_syscall: None,
            median_ns: 1.0,
        };
        let sessions: Vec<u32> = (0..).zip(sessions).flat_map(of).collect();
        SessionWeights::of(&sessions.into_iter().map(launch).collect::<Vec<_>>())
    }

    #[test]
    fn a_session_counts_by_its_launches() {
        let close = |value: f64, wanted: f64| assert!((value - wanted).abs() < 1e-3, "{value} against {wanted}");
        close(weights(&[24]).effective(), 1.0);
        close(weights(&[24, 24]).effective(), 2.0);
        // 48² / (43² + 5²) = 2304/1874; 48² / (32² + 16²) = 2304/1280.
        close(weights(&[43, 5]).effective(), 1.229);
        close(weights(&[32, 16]).effective(), 1.8);
        close(weights(&[1; 24]).effective(), 24.0);
        close(freedom(weights(&[24, 24]), weights(&[24])), 1.0);
    }

    #[test]
    fn launches_that_are_sessions_need_nothing_added() {
        let close = |value: f64, wanted: f64| assert!((value - wanted).abs() < 1e-3, "{value} against {wanted}");
        close(weights(&[24]).added(), 1.0);
        // 1/2 less (1 - 1/2)/47, and 1/8 less (7/8)/23.
        close(weights(&[24, 24]).added(), 0.4894);
        close(weights(&[3; 8]).added(), 0.0870);
        assert_eq!(weights(&[1; 24]).added(), 0.0);
    }
}
