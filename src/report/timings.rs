//! Times of one side as reports show them: medians over launches, by group, function and value.

use super::Point;
use crate::case::Size;
use crate::stats::{Benchmark, Median, SessionId, Side};
use std::collections::{BTreeMap, BTreeSet};

/// Level of the interval of a median.
const CONFIDENCE_LEVEL: f64 = 0.95;

/// The time of one benchmark on one side. *Unit* ns per iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Median over launches of each launch's median.
    pub median_ns: f64,
    /// Its 95 % interval, the order statistics that enclose it; `None` below six launches.
    pub interval_ns: Option<(f64, f64)>,
    /// Median over launches of what the comparison looks at.
    pub fast_ns: f64,
    /// The launches in the order of time.
    pub launches: Vec<LaunchTime>,
}

/// One benchmark in one launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaunchTime {
    /// Number of the session among those of the side, from 0.
    pub session: usize,
    /// What the comparison looks at: the mean of the fast half. *Unit* ns.
    pub fast_ns: f64,
}

/// A point on the axes of the suite.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The workload.
    pub group: String,
    /// What is compared: a strategy, a threshold.
    pub function: String,
    /// What it is compared over: the size.
    pub value: String,
}

impl Place {
    /// Returns the place that an id names; `None` where it has not three parts.
    #[must_use]
    pub fn of(id: &str) -> Option<Place> {
        let parts: Vec<&str> = id.split('/').collect();
        let [group, function, value] = parts[..] else {
            return None;
        };
        let [group, function, value] = [group, function, value].map(str::to_owned);
        Some(Place { group, function, value })
    }
}

/// Every time of one side that can be used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timings {
    by_id: BTreeMap<String, Timing>,
    groups: Vec<Group>,
}

/// One workload: what it compares, and over what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The name.
    pub name: String,
    /// Functions, the baseline first.
    pub functions: Vec<String>,
    /// Values: sizes ascending.
    pub values: Vec<String>,
}

impl Timings {
    /// Returns the times of a side.
    #[must_use]
    pub fn of(side: &Side) -> Timings {
        let by_id: BTreeMap<String, Timing> = side
            .benchmarks()
            .filter(|(_, benchmark)| benchmark.skipped().is_none())
            .filter_map(|(id, benchmark)| Some((id.to_string(), timing(benchmark, side.sessions())?)))
            .collect();
        let groups = groups(by_id.keys().map(String::as_str));
        Timings { by_id, groups }
    }

    /// Returns the time of a benchmark.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Timing> {
        self.by_id.get(id)
    }

    /// Returns the time at a place.
    #[must_use]
    pub fn at(&self, group: &str, function: &str, value: &str) -> Option<&Timing> {
        self.get(&format!("{group}/{function}/{value}"))
    }

    /// Returns the median at a place. *Unit* ns.
    #[must_use]
    pub fn median_ns(&self, group: &str, function: &str, value: &str) -> Option<f64> {
        Some(self.at(group, function, value)?.median_ns)
    }

    /// Returns the time at a place over that of the same loop without allocation.
    #[must_use]
    pub fn ratio_to_hoisted(&self, group: &Group, function: &str, value: &str) -> Option<f64> {
        let hoisted = group.hoisted(function)?;
        let hoisted_ns = self.median_ns(&group.name, hoisted, value)?;
        Some(self.median_ns(&group.name, function, value)? / hoisted_ns)
    }

    /// Returns the loop body's time and a function's, at every value of a workload that has both.
    #[must_use]
    pub fn break_even_points(&self, group: &Group, function: &str) -> Vec<Point> {
        let point = |value: &String| {
            let hoisted = group.hoisted(function)?;
            Some(Point {
                body_ns: self.median_ns(&group.name, hoisted, value)?,
                strategy_ns: self.median_ns(&group.name, function, value)?,
            })
        };
        group.values.iter().filter_map(point).collect()
    }

    /// Returns the workloads, in the order of the suite.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Returns one workload.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// Returns the ids, sorted.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.by_id.keys().map(String::as_str)
    }

    /// Returns how many benchmarks have a time.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }
}

fn timing(benchmark: &Benchmark, sessions: &[SessionId]) -> Option<Timing> {
    let of_session = |session: usize| {
        let launches = benchmark.launches();
        launches.filter(move |launch| launch.key.session == sessions[session])
    };
    let mut launches = Vec::new();
    for session in 0..sessions.len() {
        launches.extend(of_session(session).map(|launch| LaunchTime {
            session,
            fast_ns: launch.fast_ns(),
        }));
    }
    let medians = benchmark.launches().map(|launch| launch.sample.median_ns());
    let median = Median::of(medians.collect(), CONFIDENCE_LEVEL)?;
    let fast_ns = launches.iter().map(|launch| launch.fast_ns).collect();
    Some(Timing {
        median_ns: median.point,
        interval_ns: median.interval.map(|interval| (interval.lower, interval.upper)),
        fast_ns: Median::of(fast_ns, CONFIDENCE_LEVEL)?.point,
        launches,
    })
}

/// The order of the suite; what is not in it follows in the order of the alphabet.
const GROUPS: [&str; 7] = [
    "scratch_loop",
    "release_threshold",
    "variable_size",
    "graph_replay",
    "streams",
    "cross_stream_reuse",
    "call_latency",
];
const FUNCTIONS: [&str; 29] = [
    "hoisted",
    "stream_ordered",
    "owned_pool",
    "arena",
    "vmm",
    "alloc",
    "free",
    "sync",
    "managed",
    "noop",
    "threshold=0",
    "threshold=half",
    "threshold=size",
    "threshold=max",
    "shared_pool",
    "own_pools",
    "pool_create",
    "pool_destroy",
    "trim",
    "attribute_set",
    "plain",
    "eager",
    "graph",
    "first",
    "policy=none",
    "policy=follow_event",
    "policy=opportunistic",
    "policy=internal",
    "policy=all",
];

/// Cells of a workload's grid that are drawn however few of them are filled.
const CELLS_MAX: usize = 2_500;
/// Cells of a larger grid for each benchmark in it.
const CELLS_PER_BENCHMARK: usize = 8;

fn rank(order: &[&str], name: &str) -> usize {
    order.iter().position(|known| *known == name).unwrap_or(order.len())
}

/// Returns the workloads that ids name, everything in the order of the suite. One whose ids leave nearly all
/// of its grid empty is none: a thousand functions, each at a value of its own, would be a million cells.
#[must_use]
pub fn groups<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<Group> {
    #[derive(Default)]
    struct Axes {
        functions: BTreeSet<String>,
        values: BTreeSet<String>,
        benchmarks: usize,
    }
    let mut axes: BTreeMap<String, Axes> = BTreeMap::new();
    for place in ids.filter_map(Place::of) {
        let group = axes.entry(place.group).or_default();
        group.functions.insert(place.function);
        group.values.insert(place.value);
        group.benchmarks += 1;
    }
    let is_filled = |axes: &Axes| {
        let cells = axes.functions.len().saturating_mul(axes.values.len());
        cells <= CELLS_MAX.max(axes.benchmarks.saturating_mul(CELLS_PER_BENCHMARK))
    };
    let mut groups: Vec<Group> = axes
        .into_iter()
        .filter(|(_, axes)| is_filled(axes))
        .map(|(name, axes)| Group {
            name,
            functions: axes.functions.into_iter().collect(),
            values: axes.values.into_iter().collect(),
        })
        .collect();
    groups.sort_by_key(|group| rank(&GROUPS, &group.name));
    for group in &mut groups {
        group.functions.sort_by_cached_key(|function| function_key(function));
        group.values.sort_by_cached_key(|value| value_key(value));
    }
    groups
}

/// Functions sort by their parts, known ones first: `alloc,plain` before `alloc,threshold=0`. Sizes among the
/// parts, as in `hoisted,64KiB`, come first of all, so that what is compared at one size stands together.
fn function_key(function: &str) -> (usize, Vec<usize>, String) {
    let size = |part: &str| part.parse::<Size>().ok().map(Size::as_bytes);
    let size_bytes = function.split(',').find_map(size).unwrap_or(0);
    let ranks = function.split(',').map(|part| rank(&FUNCTIONS, part)).collect();
    (size_bytes, ranks, function.to_owned())
}

/// Values sort by size, or by the number behind a name, as in `streams=8`.
fn value_key(value: &str) -> (usize, String) {
    let number = value.split_once('=').and_then(|(_, number)| number.parse().ok());
    (value_bytes(value).or(number).unwrap_or(usize::MAX), value.to_owned())
}

/// Returns the size that a value names. `0B` is no size of a buffer, but a value all the same.
pub(super) fn value_bytes(value: &str) -> Option<usize> {
    let nothing = (value == "0B").then_some(0);
    value.parse::<Size>().ok().map(Size::as_bytes).or(nothing)
}

impl Group {
    /// Returns the function of the same group that does not allocate; `None` where the group has none.
    #[must_use]
    pub fn hoisted(&self, function: &str) -> Option<&str> {
        let rest = function.split_once(',').map(|(_, rest)| rest);
        let candidates = [
            String::from("hoisted"),
            String::from("hoisted,eager"),
            format!("hoisted,{}", rest.unwrap_or_default()),
        ];
        let found = candidates
            .iter()
            .find_map(|candidate| self.functions.iter().find(|known| *known == candidate));
        found.map(String::as_str)
    }

    /// Returns whether the values are sizes.
    #[must_use]
    pub fn is_over_sizes(&self) -> bool {
        self.values.iter().all(|value| value_bytes(value).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{BenchmarkId, LaunchKey, RawLaunch, SessionId};

    fn side(times: &[(&str, &[f64])]) -> Side {
        let mut side = Side::new();
        for (id, launches) in times {
            for (order, time_ns) in (0..).zip(*launches) {
                let raw = RawLaunch {
                    iters: &[1.0],
                    times_ns: &[*time_ns],
                    probe_ns: None,
                    flags: &[],
                };
                // Three launches a session.
                let session = SessionId::new(format!("s{}", order / 3));
                side.add(&BenchmarkId::new(*id), &LaunchKey { session, order }, &raw);
            }
        }
        side
    }

    #[test]
    fn a_time_is_the_median_of_its_launches_with_their_order_statistics() {
        let timings = Timings::of(&side(&[
            ("g/hoisted/4KiB", &[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]),
            ("g/sync/4KiB", &[7.0]),
        ]));
        let timing = timings.at("g", "hoisted", "4KiB").expect("it was measured");
        // Of six, the extremes enclose the median in all but 2/64 of cases; of five they do in 2/32, which is too many.
        assert_eq!((timing.median_ns, timing.interval_ns), (3.5, Some((1.0, 6.0))));
        let sessions: Vec<usize> = timing.launches.iter().map(|launch| launch.session).collect();
        assert_eq!(sessions, [0, 0, 0, 1, 1, 1]);
        assert_eq!(
            timings.at("g", "sync", "4KiB").and_then(|timing| timing.interval_ns),
            None
        );
        let group = timings.group("g").expect("it is there");
        assert_eq!(timings.ratio_to_hoisted(group, "sync", "4KiB"), Some(2.0));
        assert_eq!(timings.ratio_to_hoisted(group, "sync", "1MiB"), None);
    }

    #[test]
    fn everything_stands_in_the_order_of_the_suite() {
        let ids = [
            "call_latency/sync,threshold=0/1MiB",
            "call_latency/alloc,plain/1MiB",
            "call_latency/trim/0B",
            "scratch_loop/sync/1MiB",
            "scratch_loop/hoisted/64KiB",
            "scratch_loop/own/4KiB",
            "streams/own_pools,64KiB/streams=8",
            "streams/hoisted,4MiB/streams=16",
            "no place",
            "another/x/y",
        ];
        let groups = groups(ids.into_iter());
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        assert_eq!(names, ["scratch_loop", "streams", "call_latency", "another"]);
        assert_eq!(groups[0].functions, ["hoisted", "sync", "own"]);
        assert_eq!(groups[0].values, ["4KiB", "64KiB", "1MiB"]);
        assert_eq!(groups[1].functions, ["own_pools,64KiB", "hoisted,4MiB"]);
        assert_eq!(groups[1].values, ["streams=8", "streams=16"]);
        assert_eq!(groups[2].functions, ["alloc,plain", "sync,threshold=0", "trim"]);
        assert_eq!(groups[2].values, ["0B", "1MiB"]);
    }

    #[test]
    fn each_workload_has_its_own_loop_without_allocation() {
        let hoisted =
            |ids: &[&str], function: &str| groups(ids.iter().copied())[0].hoisted(function).map(str::to_owned);
        assert_eq!(
            hoisted(&["g/hoisted/1", "g/sync/1"], "sync").as_deref(),
            Some("hoisted")
        );
        let graph = ["g/hoisted,eager/1", "g/hoisted,graph/1", "g/sync,graph/1"];
        assert_eq!(hoisted(&graph, "sync,graph").as_deref(), Some("hoisted,eager"));
        let streams = ["g/hoisted,4MiB/1", "g/hoisted,64KiB/1", "g/pool,64KiB/1"];
        assert_eq!(hoisted(&streams, "pool,64KiB").as_deref(), Some("hoisted,64KiB"));
        assert_eq!(hoisted(&["g/policy=none,event/1"], "policy=none,event"), None);
    }
}
