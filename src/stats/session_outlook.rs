//! How many more sessions would settle what is suspected.

use super::matched::Z95;
use super::options::Options;
use super::session_error::SessionError;

/// Most sessions a side that are proposed.
const SESSIONS_MAX: usize = 20;

/// What more sessions would make of a benchmark's error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outlook {
    /// Standard deviation between sessions that is to be expected. *Unit* natural logarithms.
    pub sd: f64,
    /// Effective sessions of a side now, both sides taken together.
    pub sessions: f64,
    /// Sessions of the side that has fewer.
    pub fewest: usize,
    /// Nothing but the sessions themselves tells how they differ.
    pub is_measured_by_few: bool,
}

impl Outlook {
    /// Returns the sessions a side that would settle a suspicion: the fewest, up to twenty, with launches as many in
    /// each as now, at which a change of this size passes the test that it will then be put to.
    pub fn sessions_needed(self, shift: f64, launch_error: f64, p_value: f64, options: &Options) -> Option<usize> {
        let settles = |&sessions: &usize| {
            let count = sessions as f64;
            let error = self.sd * (2.0 / count).sqrt();
            let between = if self.is_measured_by_few {
                SessionError::measured(error, 2.0 * count - 2.0)
            } else {
                SessionError::known(error)
            };
            let launches = launch_error * (self.sessions / count).sqrt();
            let arm = (Z95 * launches).hypot(between.times(Z95));
            shift.abs() > arm && between.p_value(shift.abs() - options.delta(), launches) < p_value
        };
        (self.fewest + 1..=SESSIONS_MAX).find(settles)
    }
}
