//! Times as logs write them, made into times that never fall.

use super::error::{Fault, Place, Problem};
use super::warning::{self, Warning, WarningKind};

const SECOND_NS: u64 = 1_000_000_000;
const DAY_NS: u64 = 24 * 3_600 * SECOND_NS;

/// The most that one row may step back: a logger takes the time before its lock, so threads write out of order.
const STEP_BACK_MAX_NS: u64 = SECOND_NS;

/// Makes times non-decreasing. Steps back are counted, small ones apart from falls: a clock that was set back.
#[derive(Debug, Default)]
pub(crate) struct Monotonic {
    last_ns: u64,
    /// Set where a fall means that the time itself was cut.
    pub refuses_falls: bool,
}

impl Monotonic {
    /// The time, or the latest one before it.
    pub fn stamp(&mut self, time_ns: u64, place: Place, warnings: &mut Vec<Warning>) -> Result<u64, Fault> {
        if time_ns >= self.last_ns {
            self.last_ns = time_ns;
            return Ok(time_ns);
        }
        let by_ns = self.last_ns - time_ns;
        let kind = if by_ns <= STEP_BACK_MAX_NS {
            WarningKind::TimeStep
        } else if self.refuses_falls {
            return Err(Fault::at(place, Problem::TimeBackwards { by_ns }));
        } else {
            WarningKind::TimeFall
        };
        warning::count(warnings, kind, Some(place));
        Ok(self.last_ns)
    }
}

/// Turns times of day into time since the first day's midnight.
///
/// A fall of more than half a day is midnight passed. A row that another thread wrote just before midnight, but
/// that stands after it, belongs to the day before.
#[derive(Debug, Default)]
pub(crate) struct DayClock {
    day_start_ns: u64,
    last_ns: u64,
}

impl DayClock {
    /// The time since the first day's midnight.
    pub fn unwrap_day(&mut self, time_of_day_ns: u64, place: Place, warnings: &mut Vec<Warning>) -> u64 {
        let mut time_ns = self.day_start_ns.saturating_add(time_of_day_ns);
        if time_ns.saturating_add(DAY_NS / 2) < self.last_ns {
            self.day_start_ns = self.day_start_ns.saturating_add(DAY_NS);
            time_ns = time_ns.saturating_add(DAY_NS);
            warning::count(warnings, WarningKind::Midnight, Some(place));
        } else if self.day_start_ns > 0
            && time_ns - DAY_NS >= self.last_ns.saturating_sub(STEP_BACK_MAX_NS)
            && time_ns > self.last_ns.saturating_add(DAY_NS / 2)
        {
            // `last_ns` may be up to half a day into the new day, so only a near time is the old day's.
            return time_ns - DAY_NS;
        }
        self.last_ns = time_ns;
        time_ns
    }
}

/// Reads `HH:MM:SS.ffffff` or `HH:MM:SS:ffffff`, the two ways in which RMM has written times of day.
pub(crate) fn time_of_day_ns(text: &[u8]) -> Option<u64> {
    let two_digits = |at: usize| -> Option<u64> {
        let tens = text.get(at)?.wrapping_sub(b'0');
        let ones = text.get(at + 1)?.wrapping_sub(b'0');
        (tens < 10 && ones < 10).then_some(u64::from(tens) * 10 + u64::from(ones))
    };
    let (hours, minutes, seconds) = (two_digits(0)?, two_digits(3)?, two_digits(6)?);
    // 60 is a leap second.
    if hours > 23 || minutes > 59 || seconds > 60 || text[2] != b':' || text[5] != b':' {
        return None;
    }
    let whole_ns = (hours * 3_600 + minutes * 60 + seconds) * SECOND_NS;
    match text.get(8) {
        None => Some(whole_ns),
        Some(b'.' | b':') => Some(whole_ns + fraction_ns(&text[9..])?),
        Some(_) => None,
    }
}

/// Reads one to nine digits after the point as nanoseconds.
fn fraction_ns(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 9 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let padded = digits.iter().copied().chain(std::iter::repeat(b'0'));
    Some(
        padded
            .take(9)
            .fold(0, |value, digit| value * 10 + u64::from(digit - b'0')),
    )
}

/// Nanoseconds as an integer, if they are a time.
pub(crate) fn float_ns(ns: f64) -> Option<u64> {
    let ns = ns.round();
    // 2^63 ns are 292 years.
    (0.0..9.2e18).contains(&ns).then_some(ns as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_ways_of_writing_microseconds() {
        // 15 h 37 min 8 s = 56,228 s.
        assert_eq!(time_of_day_ns(b"15:37:08:123456"), Some(56_228_123_456_000));
        assert_eq!(time_of_day_ns(b"15:37:08.123456"), Some(56_228_123_456_000));
        assert_eq!(time_of_day_ns(b"15:37:08.5"), Some(56_228_500_000_000));
        assert_eq!(time_of_day_ns(b"15:37:08"), Some(56_228_000_000_000));
    }

    #[test]
    fn refuses_what_is_no_time_of_day() {
        for text in [
            &b""[..],
            b"1589",
            b"24:00:00",
            b"15:60:00",
            b"15:37",
            b"15-37-08",
            b"15:37:08.",
            b"15:37:08.12x",
            b"15:37:08.1234567890",
            b"15:37:08,5",
            b"-1:37:08",
        ] {
            assert_eq!(time_of_day_ns(text), None, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn midnight_adds_a_day_and_a_late_row_of_the_old_day_does_not() {
        let mut clock = DayClock::default();
        let mut warnings = Vec::new();
        let mut at = |text: &[u8]| {
            let time_of_day = time_of_day_ns(text).unwrap_or(0);
            clock.unwrap_day(time_of_day, Place::Row(1), &mut warnings)
        };
        assert_eq!(at(b"23:59:59.999999"), DAY_NS - 1_000);
        assert_eq!(at(b"00:00:00.000001"), DAY_NS + 1_000);
        assert_eq!(at(b"23:59:59.999998"), DAY_NS - 2_000);
        assert_eq!(at(b"00:00:00.000002"), DAY_NS + 2_000);
        // A quiet day after midnight is not a step back.
        assert_eq!(at(b"23:00:00"), DAY_NS + 23 * 3_600 * SECOND_NS);
        assert_eq!(at(b"01:00:00"), 2 * DAY_NS + 3_600 * SECOND_NS);
        assert_eq!(warnings.len(), 1);
        assert_eq!((warnings[0].kind, warnings[0].count), (WarningKind::Midnight, 2));
    }

    #[test]
    fn steps_back_are_counted_and_falls_apart() {
        let mut clock = Monotonic::default();
        let mut warnings = Vec::new();
        let mut stamp = |time_ns| clock.stamp(time_ns, Place::Row(7), &mut warnings);
        assert_eq!(stamp(5 * SECOND_NS).ok(), Some(5 * SECOND_NS));
        assert_eq!(stamp(4 * SECOND_NS).ok(), Some(5 * SECOND_NS));
        assert_eq!(stamp(4 * SECOND_NS - 1).ok(), Some(5 * SECOND_NS));
        assert_eq!(stamp(6 * SECOND_NS).ok(), Some(6 * SECOND_NS));
        let counts: Vec<_> = warnings.iter().map(|warning| (warning.kind, warning.count)).collect();
        assert_eq!(counts, [(WarningKind::TimeStep, 1), (WarningKind::TimeFall, 1)]);
        clock.refuses_falls = true;
        let fault = clock.stamp(5 * SECOND_NS - 1, Place::Row(7), &mut warnings).err();
        assert!(matches!(
            fault,
            Some(Fault {
                place: Some(Place::Row(7)),
                problem: Problem::TimeBackwards { by_ns: 1_000_000_001 }
            })
        ));
    }
}
