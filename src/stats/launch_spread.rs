//! How launches of one side and session differ.

use super::launch_table::LaunchValue;
use super::matched::sessions;
use super::order::{mean, median};

/// Returns the spread between launches: median distance from the median, scaled to a standard deviation. 0 where
/// no session has two launches.
pub(super) fn launch_spread(base: &[LaunchValue], new: &[LaunchValue]) -> f64 {
    let distances = by_session(base, new).into_iter().flat_map(|values| {
        let centre = median(values.clone()).unwrap_or(0.0);
        values.into_iter().map(move |value| (value - centre).abs())
    });
    median(distances.collect()).unwrap_or(0.0) / 0.6745
}

/// Returns the standard deviation between launches; 0 where no session has two. Not a robust one: a benchmark that
/// jumps between two levels has both.
pub(super) fn launch_deviation(base: &[LaunchValue], new: &[LaunchValue]) -> f64 {
    let (mut squares, mut freedom) = (0.0, 0usize);
    for values in by_session(base, new) {
        let centre = mean(&values);
        squares += values.iter().map(|value| (value - centre).powi(2)).sum::<f64>();
        freedom += values.len() - 1;
    }
    if freedom > 0 {
        (squares / freedom as f64).sqrt()
    } else {
        0.0
    }
}

/// Returns the values of each session of each side.
fn by_session(base: &[LaunchValue], new: &[LaunchValue]) -> Vec<Vec<f64>> {
    let of = |side: &[LaunchValue], session| side.iter().filter(|l| l.session == session).map(|l| l.value).collect();
    let each = |side| sessions(side).into_iter().map(move |session| of(side, session));
    each(base).chain(each(new)).collect()
}
