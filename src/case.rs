//! The axes of the suite, and the id of one point on them.

use std::fmt;
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
