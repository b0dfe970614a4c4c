//! From finished launches to a baseline.

use super::error::RecordingError;
use super::plan::{Plan, now};
use super::state::{FinishedLaunch, repeated};
use crate::baseline::{Baseline, FORMAT, Launch, Manifest, Settings, Skipped};
use crate::counted::counted;
use std::collections::{BTreeMap, BTreeSet};

/// The baseline of one side. A benchmark is in it if every launch measured it.
pub(super) fn baseline_of(plan: &Plan, side: usize, all: &[FinishedLaunch]) -> Result<Baseline, RecordingError> {
    let finished: Vec<&FinishedLaunch> = all.iter().filter(|finished| finished.side == side).collect();
    let Some(first) = finished.first() else {
        return Err(RecordingError::Nothing(String::from("no launch was recorded")));
    };
    let mut launches: Vec<Launch> = finished.iter().map(|finished| finished.launch.clone()).collect();
    let reasons: BTreeMap<&str, &str> = finished
        .iter()
        .flat_map(|finished| &finished.skipped)
        .map(|skip| (skip.id.as_str(), skip.reason.as_str()))
        .collect();
    let dropped = drop_incomplete(&mut launches, &reasons);
    let benchmarks: Vec<String> = launches[0].samples.keys().cloned().collect();
    let mut skipped: BTreeMap<String, String> = reasons
        .into_iter()
        .map(|(id, reason)| (id.to_owned(), reason.to_owned()))
        .collect();
    skipped.extend(dropped);
    let planned = &plan.sides[side];
    let manifest = Manifest {
        format: FORMAT,
        name: plan.baseline_name(side)?.to_string(),
        created: now(),
        complete: true,
        environment: planned.environment.clone(),
        settings: Settings {
            label: planned.treatment.label.clone(),
            injected_fault: planned.treatment.fault.clone(),
            repeated: repeated(finished.iter().copied()),
            ..plan.settings.clone()
        },
        host_bound: first
            .host_bound()
            .filter(|id| benchmarks.binary_search(id).is_ok())
            .cloned()
            .collect(),
        skipped: not_measured(skipped, &benchmarks),
        launches: launches.len() as u64,
        observations: first
            .observations
            .iter()
            .filter(|(id, _)| benchmarks.binary_search(id).is_ok())
            .map(|(id, observation)| (id.clone(), *observation))
            .collect(),
        sha256: BTreeMap::new(),
        benchmarks,
    };
    Ok(Baseline { manifest, launches })
}

/// A baseline with the launches of another session. Launches of the same session that it has already, from
/// a run that was killed at the very end, are not taken twice.
pub(super) fn appended(mut existing: Baseline, session: Baseline) -> Baseline {
    let ours: BTreeSet<String> = session.launches.iter().map(|launch| launch.session.clone()).collect();
    let had_it = existing.launches.iter().any(|launch| ours.contains(&launch.session));
    existing.launches.retain(|launch| !ours.contains(&launch.session));
    existing.launches.extend(session.launches);
    let known = existing.manifest.skipped.iter().chain(&session.manifest.skipped);
    let mut skipped: BTreeMap<String, String> = known.map(|skip| (skip.id.clone(), skip.reason.clone())).collect();
    let reasons = skipped.clone();
    let reasons = reasons
        .iter()
        .map(|(id, reason)| (id.as_str(), reason.as_str()))
        .collect();
    skipped.extend(drop_incomplete(&mut existing.launches, &reasons));
    let manifest = &mut existing.manifest;
    manifest.benchmarks = existing.launches[0].samples.keys().cloned().collect();
    let is_kept = |id: &String| manifest.benchmarks.binary_search(id).is_ok();
    manifest.host_bound.retain(is_kept);
    manifest.observations = session.manifest.observations;
    manifest.observations.retain(|id, _| is_kept(id));
    manifest.skipped = not_measured(skipped, &manifest.benchmarks);
    if !had_it {
        let repeated = &mut manifest.settings.repeated;
        // What a baseline says of itself may be any number.
        *repeated = repeated.saturating_add(session.manifest.settings.repeated);
    }
    manifest.created = session.manifest.created;
    manifest.launches = existing.launches.len() as u64;
    existing
}

/// Takes out what not every launch measured, and says why.
fn drop_incomplete(launches: &mut [Launch], reasons: &BTreeMap<&str, &str>) -> BTreeMap<String, String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for id in launches.iter().flat_map(|launch| launch.samples.keys()) {
        *counts.entry(id.clone()).or_default() += 1;
    }
    let total = launches.len();
    counts.retain(|_, count| *count < total);
    for launch in launches {
        launch.samples.retain(|id, _| !counts.contains_key(id));
    }
    let why = |(id, count): (String, usize)| {
        let reason = reasons.get(id.as_str()).unwrap_or(&"the others gave no reason");
        let reason = format!("measured in {count} of {}: {reason}", counted(total, "launch"));
        (id, reason)
    };
    counts.into_iter().map(why).collect()
}

fn not_measured(skipped: BTreeMap<String, String>, benchmarks: &[String]) -> Vec<Skipped> {
    let skipped = skipped.into_iter().map(|(id, reason)| Skipped { id, reason });
    skipped
        .filter(|skip| benchmarks.binary_search(&skip.id).is_err())
        .collect()
}
#[cfg(test)]
mod tests {
    use super::super::fixture::{finished, plan};
    use super::*;

    fn session(name: &str, ids: &[&str], skipped: &[(&str, &str)]) -> Baseline {
        let launches: Vec<FinishedLaunch> = (0..2).map(|launch| finished(name, launch, ids, skipped)).collect();
        baseline_of(&plan(1, 2), 0, &launches).expect("two launches")
    }

    #[test]
    fn repeats_are_counted_however_many_a_file_claims() {
        let launches = [u64::MAX, 1].map(|repeated| FinishedLaunch {
            repeated,
            ..finished("s", 0, &["a"], &[])
        });
        let baseline = baseline_of(&plan(1, 2), 0, &launches).expect("two launches");
        assert_eq!(baseline.manifest.settings.repeated, u64::MAX);
    }

    /// The median of 90, 100, 100 and 500 ns an iteration is 100 ns, of which half is 50.
    #[test]
    fn the_host_bounds_what_the_device_needs_less_than_half_for() {
        for (device, bound) in [
            (Some(0.0), true),
            (Some(49.9), true),
            (Some(50.0), false),
            (None, false),
        ] {
            let mut launch = finished("s", 0, &["a"], &[]);
            launch.device_time_ns = device.into_iter().map(|time_ns| (String::from("a"), time_ns)).collect();
            let baseline = baseline_of(&plan(1, 1), 0, &[launch]).expect("a launch");
            assert_eq!(
                baseline.manifest.host_bound.contains(&String::from("a")),
                bound,
                "{device:?}"
            );
        }
    }

    #[test]
    fn a_session_is_taken_once_however_often_it_is_appended() {
        let first = session("s", &["a", "b"], &[]);
        let second = session("t", &["a", "b"], &[]);
        let once = appended(first.clone(), second.clone());
        assert_eq!(once.launches.len(), 4);
        assert_eq!(appended(once.clone(), second), once);
        assert_eq!(once.manifest.benchmarks, first.manifest.benchmarks);
    }

    #[test]
    fn what_one_session_lacks_is_dropped_with_its_reason() {
        let both = appended(
            session("s", &["a", "b"], &[]),
            session("t", &["a"], &[("b", "too large")]),
        );
        assert_eq!(both.manifest.benchmarks, ["a"]);
        assert_eq!(both.manifest.skipped.len(), 1);
        assert_eq!(
            both.manifest.skipped[0].reason,
            "measured in 2 of 4 launches: too large"
        );
        assert!(both.launches.iter().all(|launch| launch.samples.len() == 1));
    }
}
