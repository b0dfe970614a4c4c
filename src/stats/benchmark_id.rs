//! Benchmark ids `group/function/value` and the axes they name.

use std::fmt;

/// An id as Criterion writes it. Any text serves; only `group/function/value` names axes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BenchmarkId(String);

/// What the ids of a suite vary in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Axis {
    /// First part: the workload.
    Group,
    /// Second part: the strategy.
    Function,
    /// Third part: the size.
    Value,
    /// A `name=value` within a part, such as `threshold=max`.
    Named(String),
}

/// One label on one axis, such as the strategy `sync`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AxisLabel {
    /// The axis.
    pub axis: Axis,
    /// The label on it.
    pub label: String,
}

impl BenchmarkId {
    /// Returns the id of this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first of the id's three parts, whose benchmarks one process measures; `None` where the id has not
    /// three parts.
    #[must_use]
    pub fn group(&self) -> Option<&str> {
        let (group, rest) = self.0.split_once('/')?;
        (rest.matches('/').count() == 1).then_some(group)
    }

    /// Returns the labels that the id carries: one per part, and one per `name=value` where a part
    /// lists several, separated by commas. Empty where the id has not three parts.
    #[must_use]
    pub fn labels(&self) -> Vec<AxisLabel> {
        let parts: Vec<&str> = self.0.split('/').collect();
        let [group, function, value] = parts[..] else {
            return Vec::new();
        };
        let mut labels = Vec::new();
        for (axis, part) in [(Axis::Group, group), (Axis::Function, function), (Axis::Value, value)] {
            for token in part.split(',') {
                let axis = match token.split_once('=') {
                    Some((name, _)) => Axis::Named(name.to_owned()),
                    None => axis.clone(),
                };
                let label = token.split_once('=').map_or(token, |(_, label)| label);
                labels.push(AxisLabel {
                    axis,
                    label: label.to_owned(),
                });
            }
        }
        labels
    }
}

impl fmt::Display for BenchmarkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for AxisLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.axis {
            Axis::Group => write!(f, "group {}", self.label),
            Axis::Function => write!(f, "function {}", self.label),
            Axis::Value => write!(f, "value {}", self.label),
            Axis::Named(name) => write!(f, "{name} {}", self.label),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_follow_the_parts_and_the_names_in_them() {
        let id = BenchmarkId::new("release_threshold/stream_ordered,threshold=max/4KiB");
        let labels: Vec<String> = id.labels().iter().map(ToString::to_string).collect();
        assert_eq!(
            labels,
            [
                "group release_threshold",
                "function stream_ordered",
                "threshold max",
                "value 4KiB"
            ]
        );
    }

    #[test]
    fn other_ids_have_no_axes() {
        assert!(BenchmarkId::new("async/4096").labels().is_empty());
        assert!(BenchmarkId::new("").labels().is_empty());
    }

    #[test]
    fn the_group_is_the_first_of_three_parts() {
        let group = |id: &str| BenchmarkId::new(id).group().map(str::to_owned);
        assert_eq!(group("scratch_loop/sync/4KiB").as_deref(), Some("scratch_loop"));
        assert_eq!([group("async/4096"), group("a/b/c/d"), group("")], [None, None, None]);
    }
}
