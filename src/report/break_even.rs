//! From which loop-body time on a strategy costs no more than a given share of not allocating at all.

use crate::suite::Outcome;

/// The loop body's time and the strategy's, in nanoseconds an iteration, at one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Without allocating: the hoisted baseline.
    pub body_ns: f64,
    /// With the strategy.
    pub strategy_ns: f64,
}

impl Point {
    fn overhead_ns(&self) -> f64 {
        self.strategy_ns - self.body_ns
    }
}

/// Where a strategy comes within a share of the baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BreakEven {
    /// At every body time that was measured; the shortest is given, in nanoseconds.
    FromTheShortest(f64),
    /// From this body time on, in nanoseconds.
    From(f64),
    /// At none; the longest body time that was measured is given, in nanoseconds.
    BeyondTheLongest(f64),
}

impl std::fmt::Display for BreakEven {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BreakEven::FromTheShortest(body_ns) => write!(f, "below {:.1} µs", body_ns / 1e3),
            BreakEven::From(body_ns) => write!(f, "{:.1} µs", body_ns / 1e3),
            BreakEven::BeyondTheLongest(body_ns) => write!(f, "beyond {:.0} µs", body_ns / 1e3),
        }
    }
}

/// The body time from which on the overhead stays within `share` of it; `None` without points.
///
/// Between two measured body times the overhead is taken to change in a straight line. A body time
/// counts only if no longer one that was measured exceeds the share.
#[must_use]
pub fn break_even(points: &[Point], share: f64) -> Option<BreakEven> {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.body_ns.total_cmp(&b.body_ns));
    let (shortest, longest) = (points.first()?.body_ns, points.last()?.body_ns);
    let exceeds = |point: &Point| point.overhead_ns() > share * point.body_ns;
    let Some(last) = points.iter().rposition(exceeds) else {
        return Some(BreakEven::FromTheShortest(shortest));
    };
    let Some(next) = points.get(last + 1) else {
        return Some(BreakEven::BeyondTheLongest(longest));
    };
    // overhead(t) = o0 + slope (t - t0) meets share * t.
    let point = points[last];
    if next.body_ns <= point.body_ns {
        // Two sizes of one body time, one on either side of the share: no line leads from one to the other.
        return Some(BreakEven::From(next.body_ns));
    }
    let slope = (next.overhead_ns() - point.overhead_ns()) / (next.body_ns - point.body_ns);
    Some(BreakEven::From(
        (point.overhead_ns() - slope * point.body_ns) / (share - slope),
    ))
}

/// The points of `function` among the outcomes of one group, at each size that both it and the
/// baseline have a time for.
#[must_use]
pub fn points(outcomes: &[Outcome], function: &str, baseline: &str) -> Vec<Point> {
    let median = |function: &str, value: &str| {
        let found = outcomes
            .iter()
            .find(|outcome| outcome.id.function() == function && outcome.id.value() == value);
        found.and_then(|outcome| outcome.median_ns)
    };
    let of_function = outcomes.iter().filter(|outcome| outcome.id.function() == function);
    of_function
        .filter_map(|outcome| {
            let body_ns = median(baseline, outcome.id.value())?;
            Some(Point {
                body_ns,
                strategy_ns: outcome.median_ns?,
            })
        })
        .collect()
}

/// The shares that the suite reports.
const SHARES: [f64; 2] = [0.01, 0.05];

/// A line for each of `functions`: from which loop body on it is within 1 % and 5 % of the baseline.
#[must_use]
pub fn break_even_lines(outcomes: &[Outcome], functions: &[&str], baseline: &str) -> Option<String> {
    let lines: Vec<String> = functions
        .iter()
        .filter_map(|function| {
            let points = points(outcomes, function, baseline);
            let [one, five] = SHARES.map(|share| break_even(&points, share));
            Some(format!(
                "break-even of {function}: within 1 % of {baseline} from a loop body of {}, within 5 % from {}",
                one?, five?
            ))
        })
        .collect();
    if lines.is_empty() { None } else { Some(lines.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(body_us: f64, overhead_us: f64) -> Point {
        Point {
            body_ns: body_us * 1e3,
            strategy_ns: (body_us + overhead_us) * 1e3,
        }
    }

    fn from_us(found: Option<BreakEven>) -> f64 {
        match found {
            Some(BreakEven::From(body_ns)) => body_ns / 1e3,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_constant_overhead_breaks_even_at_overhead_over_share() {
        let points = [6.0, 45.0, 315.0].map(|body| point(body, 0.7));
        // 0.7 µs is 1 % of 70 µs and 5 % of 14 µs.
        assert!((from_us(break_even(&points, 0.01)) - 70.0).abs() < 1e-9);
        assert!((from_us(break_even(&points, 0.05)) - 14.0).abs() < 1e-9);
    }

    #[test]
    fn two_sizes_of_one_body_time_break_even_there() {
        // Of two bodies of 10 µs one costs 2 µs more, the other nothing: a line between them has no slope.
        let points = [point(10.0, 2.0), point(10.0, 0.0), point(20.0, 0.0)];
        assert!((from_us(break_even(&points, 0.05)) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn a_changing_overhead_is_interpolated() {
        // From 2 µs at 10 µs to 0 at 20 µs: 2 - 0.2 (t - 10) = 0.05 t at t = 16.
        let points = [point(20.0, 0.0), point(10.0, 2.0)];
        assert!((from_us(break_even(&points, 0.05)) - 16.0).abs() < 1e-9);
    }

    #[test]
    fn the_ends_say_that_they_are_ends() {
        let within = [point(10.0, 0.01), point(20.0, -1.0)];
        assert_eq!(break_even(&within, 0.01), Some(BreakEven::FromTheShortest(10e3)));
        // Within at first, beyond at the last: no body time counts.
        let growing = [point(10.0, 0.0), point(20.0, 5.0)];
        assert_eq!(break_even(&growing, 0.01), Some(BreakEven::BeyondTheLongest(20e3)));
        assert_eq!(break_even(&[], 0.01), None);
        assert_eq!(break_even(&growing, 0.01).expect("points").to_string(), "beyond 20 µs");
    }
}
