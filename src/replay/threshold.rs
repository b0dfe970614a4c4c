//! Release thresholds of a replay: in bytes, or relative to the trace's peak.

use crate::case::Size;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// What a pool may keep at a synchronise, for a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayThreshold {
    /// So many bytes; 0 is the driver's default.
    Bytes(u64),
    /// Half of the most bytes live at once.
    HalfPeak,
    /// The most bytes live at once.
    Peak,
    /// Everything.
    Max,
}

impl ReplayThreshold {
    /// What is replayed where nothing is asked for.
    pub const DEFAULT: [ReplayThreshold; 5] = [
        ReplayThreshold::Bytes(0),
        ReplayThreshold::Bytes(64 << 20),
        ReplayThreshold::HalfPeak,
        ReplayThreshold::Peak,
        ReplayThreshold::Max,
    ];

    /// The attribute's value for a trace with this peak.
    #[must_use]
    pub fn bytes(self, peak_live_bytes: u64) -> u64 {
        match self {
            ReplayThreshold::Bytes(bytes) => bytes,
            ReplayThreshold::HalfPeak => peak_live_bytes / 2,
            ReplayThreshold::Peak => peak_live_bytes,
            ReplayThreshold::Max => u64::MAX,
        }
    }
}

impl fmt::Display for ReplayThreshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayThreshold::Bytes(0) => f.write_str("0"),
            ReplayThreshold::Bytes(bytes) => match usize::try_from(*bytes) {
                Ok(bytes) => Size::bytes(bytes).fmt(f),
                Err(_) => write!(f, "{bytes}B"),
            },
            ReplayThreshold::HalfPeak => f.write_str("half"),
            ReplayThreshold::Peak => f.write_str("peak"),
            ReplayThreshold::Max => f.write_str("max"),
        }
    }
}

/// A text that is no threshold.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0:?} is no threshold; write 0, a size as 64MiB, half or peak (of the most bytes live at once), or max")]
pub struct InvalidReplayThreshold(String);

impl FromStr for ReplayThreshold {
    type Err = InvalidReplayThreshold;

    /// Reads what [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<ReplayThreshold, InvalidReplayThreshold> {
        match text {
            "0" => Ok(ReplayThreshold::Bytes(0)),
            "half" => Ok(ReplayThreshold::HalfPeak),
            "peak" => Ok(ReplayThreshold::Peak),
            "max" => Ok(ReplayThreshold::Max),
            size => match size.parse::<Size>() {
                Ok(size) => Ok(ReplayThreshold::Bytes(size.as_bytes() as u64)),
                Err(_) => Err(InvalidReplayThreshold(text.to_owned())),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_read_as_they_print_and_follow_the_peak() {
        let printed = ReplayThreshold::DEFAULT.map(|threshold| threshold.to_string());
        assert_eq!(printed, ["0", "64MiB", "half", "peak", "max"]);
        for threshold in ReplayThreshold::DEFAULT {
            assert_eq!(threshold.to_string().parse(), Ok(threshold));
        }
        for wrong in ["", "64", "Max", "-1", "size", "1.5GiB"] {
            assert!(wrong.parse::<ReplayThreshold>().is_err(), "{wrong:?}");
        }
        let bytes = ReplayThreshold::DEFAULT.map(|threshold| threshold.bytes(1001));
        assert_eq!(bytes, [0, 64 << 20, 500, 1001, u64::MAX]);
    }
}
