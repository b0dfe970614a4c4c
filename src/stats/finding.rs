//! Findings about parts of the suite: one line instead of thirty.

use std::collections::{BTreeMap, BTreeSet};

use super::benchmark_id::{AxisLabel, BenchmarkId};
use super::order::median;

/// Flagged benchmarks from which a label is a finding.
const MEMBERS_MIN: usize = 3;
/// Share of a label's benchmarks that must have moved the same way.
const SHARE_MIN: f64 = 0.75;

/// Which way benchmarks moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Slower.
    Slower,
    /// Faster.
    Faster,
}

/// Benchmarks that share a label and moved the same way, or are suspected to have moved.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// What they share: a group, strategy, size, or a named setting such as a threshold.
    pub label: AxisLabel,
    /// Which way they moved.
    pub direction: Direction,
    /// The benchmarks that moved, by id.
    pub benchmarks: Vec<BenchmarkId>,
    /// How many of them are proven to have moved; the others are only suspected.
    pub proven: usize,
    /// Compared benchmarks that carry the label.
    pub compared: usize,
    /// Median ratio of those that moved.
    pub ratio: f64,
}

/// One compared benchmark, as findings see it.
#[derive(Debug, Clone)]
pub(super) struct Member<'a> {
    pub id: &'a BenchmarkId,
    /// Estimate. *Unit* natural logarithms.
    pub shift: f64,
    /// Which way it moved, if it did.
    pub moved: Option<Direction>,
    /// Whether that is proven, and not only suspected.
    pub proven: bool,
}

/// Returns labels that explain the benchmarks that moved: again and again the label that explains
/// most of them, until none explains three. A label explains when three quarters of its compared
/// benchmarks moved the same way. The wider label wins a tie, then the alphabet.
pub(super) fn findings(members: &[Member<'_>]) -> Vec<Finding> {
    let mut labels: BTreeMap<AxisLabel, Vec<usize>> = BTreeMap::new();
    for (index, member) in members.iter().enumerate() {
        for label in member.id.labels() {
            labels.entry(label).or_default().push(index);
        }
    }
    let mut candidates: Vec<(&AxisLabel, Direction, Vec<usize>)> = Vec::new();
    for (label, carriers) in &labels {
        for direction in [Direction::Slower, Direction::Faster] {
            let moved: Vec<usize> = carriers
                .iter()
                .copied()
                .filter(|&index| members[index].moved == Some(direction))
                .collect();
            let most = moved.len() as f64 >= SHARE_MIN * carriers.len() as f64;
            if moved.len() >= MEMBERS_MIN && most {
                candidates.push((label, direction, moved));
            }
        }
    }
    let mut explained: BTreeSet<usize> = BTreeSet::new();
    let mut findings = Vec::new();
    loop {
        let unexplained = |moved: &[usize]| moved.iter().filter(|i| !explained.contains(i)).count();
        let best = candidates
            .iter()
            .rev()
            .max_by_key(|(_, _, moved)| (unexplained(moved), moved.len()));
        let Some((label, direction, moved)) = best.filter(|best| unexplained(&best.2) >= MEMBERS_MIN) else {
            return findings;
        };
        let shift = median(moved.iter().map(|&index| members[index].shift).collect());
        findings.push(Finding {
            label: (*label).clone(),
            direction: *direction,
            benchmarks: moved.iter().map(|&index| members[index].id.clone()).collect(),
            proven: moved.iter().filter(|&&index| members[index].proven).count(),
            compared: labels[*label].len(),
            ratio: shift.unwrap_or(0.0).exp(),
        });
        explained.extend(moved.iter().copied());
    }
}

/// Ids of one side that reappear on the other with one label exchanged.
#[derive(Debug, Clone, PartialEq)]
pub struct Renaming {
    /// Label of the missing ids.
    pub from: AxisLabel,
    /// Label of the new ids in its place.
    pub to: AxisLabel,
    /// Ids concerned.
    pub benchmarks: usize,
}

/// Returns the likely renamings: a label whose ids are all missing, and another on the same axis
/// whose ids are all new and otherwise the same. A label that `compared` ids carry was not renamed.
pub(super) fn renamings(missing: &[&BenchmarkId], new: &[&BenchmarkId], compared: &[&BenchmarkId]) -> Vec<Renaming> {
    let kept: BTreeSet<AxisLabel> = compared.iter().flat_map(|id| id.labels()).collect();
    let contexts = |ids: &[&BenchmarkId]| {
        let mut contexts: BTreeMap<AxisLabel, BTreeSet<Vec<AxisLabel>>> = BTreeMap::new();
        for id in ids {
            let labels = id.labels();
            for (position, label) in labels.iter().enumerate().filter(|(_, label)| !kept.contains(label)) {
                let mut rest = labels.clone();
                rest.remove(position);
                contexts.entry(label.clone()).or_default().insert(rest);
            }
        }
        contexts
    };
    let (gone, come) = (contexts(missing), contexts(new));
    let mut by_context: BTreeMap<_, Vec<&AxisLabel>> = BTreeMap::new();
    for (to, rest) in &come {
        by_context.entry((&to.axis, rest)).or_default().push(to);
    }
    let renamed = |(from, rest): (&AxisLabel, &BTreeSet<Vec<AxisLabel>>)| {
        let [to] = by_context.get(&(&from.axis, rest))?.as_slice() else {
            return None;
        };
        (from != *to).then(|| Renaming {
            from: from.clone(),
            to: (*to).clone(),
            benchmarks: rest.len(),
        })
    };
    gone.iter().filter_map(renamed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(functions: &[&str], values: &[&str]) -> Vec<BenchmarkId> {
        let of = |f: &&str| values.iter().map(move |v| format!("loop/{f}/{v}")).collect::<Vec<_>>();
        functions.iter().flat_map(of).map(BenchmarkId::new).collect()
    }

    #[test]
    fn a_strategy_that_moved_is_one_line() {
        let ids = ids(&["sync", "arena"], &["4KiB", "1MiB", "8MiB", "32MiB"]);
        let members: Vec<Member<'_>> = ids
            .iter()
            .map(|id| {
                let moved = id.as_str().contains("sync").then_some(Direction::Slower);
                Member {
                    id,
                    shift: if moved.is_some() { 0.05 } else { 0.0 },
                    moved,
                    // One of the four is only suspected.
                    proven: moved.is_some() && !id.as_str().ends_with("/8MiB"),
                }
            })
            .collect();
        let findings = findings(&members);
        // All four of sync moved; of the group only four of eight did, of each size one of two.
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].label.to_string(), "function sync");
        assert_eq!((findings[0].benchmarks.len(), findings[0].compared), (4, 4));
        assert_eq!(findings[0].proven, 3);
        approx::assert_relative_eq!(findings[0].ratio, 0.05f64.exp());
    }

    #[test]
    fn scattered_changes_are_no_finding() {
        let ids = ids(&["sync", "arena", "vmm", "managed"], &["4KiB", "1MiB", "8MiB", "32MiB"]);
        // The diagonal: every label has one mover in four.
        let members: Vec<Member<'_>> = ids
            .iter()
            .enumerate()
            .map(|(i, id)| Member {
                id,
                shift: 0.05,
                moved: (i / 4 == i % 4).then_some(Direction::Slower),
                proven: true,
            })
            .collect();
        assert!(findings(&members).is_empty());
    }

    #[test]
    fn a_renamed_strategy_is_seen() {
        let (old, new) = (
            ids(&["async"], &["4KiB", "1MiB"]),
            ids(&["stream_ordered"], &["4KiB", "1MiB"]),
        );
        let renamings = renamings(&old.iter().collect::<Vec<_>>(), &new.iter().collect::<Vec<_>>(), &[]);
        assert_eq!(renamings.len(), 1);
        assert_eq!(renamings[0].from.to_string(), "function async");
        assert_eq!(renamings[0].to.to_string(), "function stream_ordered");
        assert_eq!(renamings[0].benchmarks, 2);
    }

    #[test]
    fn a_label_that_is_still_compared_was_not_renamed() {
        let of = |function: &str, value: &str| ids(&[function], &[value]).remove(0);
        let (kept, gone, came) = (of("sync", "4KiB"), of("sync", "1MiB"), of("vmm", "1MiB"));
        assert!(renamings(&[&gone], &[&came], &[&kept]).is_empty());
        assert_eq!(renamings(&[&gone], &[&came], &[]).len(), 1);
    }
}
