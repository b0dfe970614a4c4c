//! The axes of the suite, and the id of one point on them.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A size in bytes that prints in binary units: `4KiB`, `1MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(usize);

impl Size {
    /// `count` bytes.
    #[must_use]
    pub const fn bytes(count: usize) -> Size {
        Size(count)
    }

    /// `count` times 2^10 bytes.
    #[must_use]
    pub const fn kib(count: usize) -> Size {
        Size(count << 10)
    }

    /// `count` times 2^20 bytes.
    #[must_use]
    pub const fn mib(count: usize) -> Size {
        Size(count << 20)
    }

    /// The size in bytes.
    #[must_use]
    pub const fn as_bytes(self) -> usize {
        self.0
    }

    /// How many `f32` elements it holds.
    #[must_use]
    pub const fn elements(self) -> usize {
        self.0 / size_of::<f32>()
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match units
            .into_iter()
            .find(|(unit, _)| self.0 >= *unit && self.0.is_multiple_of(*unit))
        {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}B", self.0),
        }
    }
}

/// A text that is no size.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0:?} is no size; write a whole number with a unit, as 4KiB, 1MiB, 1GiB or 1000B")]
pub struct InvalidSize(String);

impl FromStr for Size {
    type Err = InvalidSize;

    /// Reads what [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<Size, InvalidSize> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let unit = match unit {
            "B" => 1_usize,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => 0,
        };
        let count = number.parse::<usize>().ok().filter(|count| *count > 0 && unit > 0);
        count
            .and_then(|count| count.checked_mul(unit))
            .map(Size)
            .ok_or_else(|| InvalidSize(text.to_owned()))
    }
}

/// What a pool may keep at a synchronise, relative to the size that the loop allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Threshold {
    /// Nothing: the driver's default.
    Zero,
    /// Half the size.
    Half,
    /// The size.
    Size,
    /// Everything.
    Max,
}

impl Threshold {
    /// Every threshold, ascending.
    pub const ALL: [Threshold; 4] = [Threshold::Zero, Threshold::Half, Threshold::Size, Threshold::Max];

    /// The attribute's value for a loop that allocates `size`.
    #[must_use]
    pub const fn bytes(self, size: Size) -> u64 {
        match self {
            Threshold::Zero => 0,
            Threshold::Half => size.as_bytes() as u64 / 2,
            Threshold::Size => size.as_bytes() as u64,
            Threshold::Max => u64::MAX,
        }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Threshold::Zero => "threshold=0",
            Threshold::Half => "threshold=half",
            Threshold::Size => "threshold=size",
            Threshold::Max => "threshold=max",
        })
    }
}

/// A text that is no threshold.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0:?} is no threshold; write 0, half, size or max")]
pub struct InvalidThreshold(String);

impl FromStr for Threshold {
    type Err = InvalidThreshold;

    /// Reads the name, without `threshold=`.
    fn from_str(text: &str) -> Result<Threshold, InvalidThreshold> {
        let named = |threshold: &Threshold| threshold.to_string().strip_prefix("threshold=") == Some(text);
        let found = Threshold::ALL.into_iter().find(named);
        found.ok_or_else(|| InvalidThreshold(text.to_owned()))
    }
}

/// How a loop's work reaches the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Submission {
    /// Call by call, in every loop.
    Eager,
    /// Captured once, then launched as a graph: one call a loop.
    GraphReplay,
}

impl Submission {
    /// Every submission, the baseline first.
    pub const ALL: [Submission; 2] = [Submission::Eager, Submission::GraphReplay];
}

impl fmt::Display for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Submission::Eager => "eager",
            Submission::GraphReplay => "graph",
        })
    }
}

/// The longest part of an id. Criterion cuts a longer one, and two may then share a folder.
const PART_BYTES_MAX: usize = 64;

/// A benchmark's id: `group/function/value`, where function is what is compared and value the size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BenchmarkId {
    group: String,
    function: String,
    value: String,
}

/// A part of an id that Criterion would change, or that is no file name everywhere.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{part:?} is no part of a benchmark id: use 1 to 64 of the characters A-Z a-z 0-9 _ = , . -")]
pub struct InvalidPart {
    part: String,
}

impl BenchmarkId {
    /// An id of these parts.
    ///
    /// # Errors
    ///
    /// A part that is empty, longer than 64 bytes, or has other characters than `[A-Za-z0-9_=,.-]`.
    pub fn new(group: &str, function: &str, value: &str) -> Result<BenchmarkId, InvalidPart> {
        for part in [group, function, value] {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_=,.-".contains(&byte);
            if part.is_empty()
                || part.len() > PART_BYTES_MAX
                || !part.bytes().all(allowed)
                || part.bytes().all(|byte| byte == b'.')
            {
                return Err(InvalidPart { part: part.to_owned() });
            }
        }
        Ok(BenchmarkId {
            group: group.to_owned(),
            function: function.to_owned(),
            value: value.to_owned(),
        })
    }

    /// The Criterion group.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.group
    }

    /// What is compared: a strategy, a threshold.
    #[must_use]
    pub fn function(&self) -> &str {
        &self.function
    }

    /// What it is compared over: the size.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl fmt::Display for BenchmarkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.group, self.function, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_print_in_the_largest_unit_that_divides_them() {
        let printed = [
            Size::kib(4),
            Size::mib(1),
            Size::mib(256),
            Size::mib(2048),
            Size::bytes(1000),
            Size::kib(1536),
        ]
        .map(|size| size.to_string());
        assert_eq!(printed, ["4KiB", "1MiB", "256MiB", "2GiB", "1000B", "1536KiB"]);
    }

    #[test]
    fn sizes_and_thresholds_are_read_as_they_print() {
        for size in [Size::kib(4), Size::mib(1), Size::mib(2048), Size::bytes(1000)] {
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        for wrong in [
            "",
            "4",
            "KiB",
            "0MiB",
            "-1KiB",
            "4 KiB",
            "4kib",
            "1.5MiB",
            "99999999999GiB",
        ] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong:?}");
        }
        assert_eq!(
            ["0", "half", "size", "max"].map(|name| name.parse()),
            Threshold::ALL.map(Ok)
        );
        for wrong in ["", "1", "Max", "threshold=max"] {
            assert!(wrong.parse::<Threshold>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn thresholds_follow_the_size() {
        let size = Size::mib(8);
        assert_eq!(
            Threshold::ALL.map(|threshold| threshold.bytes(size)),
            [0, 4 << 20, 8 << 20, u64::MAX]
        );
    }

    #[test]
    fn ids_keep_to_what_criterion_leaves_alone() {
        let id = BenchmarkId::new("release_threshold", "threshold=half", "1MiB").expect("a valid id");
        assert_eq!(id.to_string(), "release_threshold/threshold=half/1MiB");
        assert!(BenchmarkId::new("g", &"f".repeat(64), "v").is_ok());
        for wrong in ["", "a b", "a/b", "..", "<script>", "\u{202e}x", &"f".repeat(65)] {
            assert!(BenchmarkId::new("g", wrong, "v").is_err(), "{wrong:?}");
        }
    }
}
