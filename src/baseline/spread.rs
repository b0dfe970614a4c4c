//! How much sessions of one machine and driver differ, from the baselines that are there.

use super::input::{Input, KnownSpread};
use super::resolve::names_in;
use super::{Baseline, BaselineName, Manifest, folder_of};
use crate::stats::{INTERVAL_LAUNCHES, SessionId, SessionSpread, Side, session_spread};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Pairs of sessions that are measured at most: enough for a standard deviation, and done in a second.
const PAIRS_MAX: usize = 12;

/// Everything that must be the same in two sessions before their difference is the machine's own.
type Unchanged = Vec<String>;

/// One session of one baseline.
struct Session {
    baseline: String,
    id: String,
    side: Side,
}

/// Returns the spread between sessions that the baselines in a folder show for the machine of both
/// inputs; `None` where no two sessions of one driver and build are there, or where it would not be
/// asked for: it only matters where each side is one session of its own. The two inputs are never
/// taken for a pair themselves.
#[must_use]
pub fn known_spread(baselines: &Path, base: &Input, new: &Input) -> Option<KnownSpread> {
    let (base_session, new_session) = (only_session(base)?, only_session(new)?);
    let machine = machine(base.manifest.as_ref()?);
    if base_session == new_session || machine != self::machine(new.manifest.as_ref()?) {
        return None;
    }
    let mut groups: BTreeMap<Unchanged, Vec<Session>> = BTreeMap::new();
    for name in names_in(baselines) {
        let Ok(name) = name.parse::<BaselineName>() else {
            continue;
        };
        let folder = folder_of(baselines, &name);
        let of_machine = Manifest::read(&folder).is_ok_and(|manifest| self::machine(&manifest) == machine);
        // One that cannot be read proves nothing; `poolbench list` says what is wrong with it.
        let Some(baseline) = of_machine.then(|| Baseline::read(&folder).ok()).flatten() else {
            continue;
        };
        let group = groups.entry(unchanged(&baseline.manifest)).or_default();
        for session in sessions_of(&name, baseline) {
            // Interleaved baselines of one driver hold the same session twice, which is one all the same.
            if group.iter().all(|known| known.id != session.id) {
                group.push(session);
            }
        }
    }
    let compared = [base_session.as_str(), new_session.as_str()];
    let mut spreads = Vec::new();
    let mut names = BTreeSet::new();
    for sessions in groups.values() {
        for (index, earlier) in sessions.iter().enumerate() {
            for later in &sessions[index + 1..] {
                let is_the_question = compared.contains(&earlier.id.as_str()) && compared.contains(&later.id.as_str());
                if is_the_question || spreads.len() == PAIRS_MAX {
                    continue;
                }
                spreads.push(session_spread(&earlier.side, &later.side));
                names.extend([earlier.baseline.clone(), later.baseline.clone()]);
            }
        }
    }
    Some(KnownSpread {
        spread: pooled(&spreads)?,
        pairs: spreads.len(),
        baselines: names.into_iter().collect(),
    })
}

fn only_session(input: &Input) -> Option<SessionId> {
    let keys = input.side.launch_keys();
    let sessions: BTreeSet<&SessionId> = keys.iter().map(|key| &key.session).collect();
    let only = sessions.first().filter(|_| sessions.len() == 1)?;
    Some((*only).clone())
}

fn machine(manifest: &Manifest) -> Vec<String> {
    let environment = &manifest.environment;
    [
        Some(&environment.device.name),
        environment.device.uuid.as_ref(),
        environment.host.cpu.as_ref(),
    ]
    .map(|fact| fact.cloned().unwrap_or_default())
    .into()
}

fn unchanged(manifest: &Manifest) -> Unchanged {
    let environment = &manifest.environment;
    let kernel_driver = environment
        .gpu
        .as_ref()
        .and_then(|gpu| gpu.kernel_driver_version.clone());
    let text = |fact: Option<&String>| fact.cloned().unwrap_or_default();
    vec![
        text(environment.device.driver_version.as_ref()),
        environment.device.cuda_version.clone(),
        kernel_driver.unwrap_or_default(),
        environment.build.version.clone(),
        text(environment.build.commit.as_ref()),
        environment.build.profile.clone(),
        environment.build.case_definitions.to_string(),
        environment.toolkit.ptx_sha256.clone(),
        text(manifest.settings.injected_fault.as_ref()),
    ]
}

/// The sessions with launches enough for an interval.
fn sessions_of(name: &BaselineName, baseline: Baseline) -> Vec<Session> {
    let Baseline { manifest, launches } = baseline;
    let mut by_session: BTreeMap<String, Vec<super::Launch>> = BTreeMap::new();
    for launch in launches {
        by_session.entry(launch.session.clone()).or_default().push(launch);
    }
    by_session
        .into_iter()
        .filter(|(_, launches)| launches.len() >= INTERVAL_LAUNCHES)
        .map(|(id, launches)| {
            let manifest = manifest.clone();
            Session {
                baseline: name.to_string(),
                id,
                side: Baseline { manifest, launches }.side(),
            }
        })
        .collect()
}

/// The root of the mean variance, class by class.
#[allow(clippy::cast_precision_loss, reason = "a dozen pairs at most")]
fn pooled(spreads: &[SessionSpread]) -> Option<SessionSpread> {
    let pooled = |of: &dyn Fn(&SessionSpread) -> Option<f64>| {
        let sds: Vec<f64> = spreads.iter().filter_map(of).collect();
        (!sds.is_empty()).then(|| (sds.iter().map(|sd| sd * sd).sum::<f64>() / sds.len() as f64).sqrt())
    };
    Some(SessionSpread {
        gpu_bound: pooled(&|spread| Some(spread.gpu_bound))?,
        mixed: pooled(&|spread| Some(spread.mixed))?,
        host_bound: pooled(&|spread| spread.host_bound),
    })
}
