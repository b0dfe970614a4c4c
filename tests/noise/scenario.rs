//! Scenarios: how two sides of a suite are recorded and what the driver changed.

use poolbench::stats::{Options, Side, compare};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::tally::{Tally, Truth};
use super::{CHANGED_GROUP, Case, Kind, Model, Recording, normal, record, seeded, suite};

/// How sessions shift the cases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SessionShift {
    None,
    /// Each session is slower than the best by 5 to 25 %; host-bound cases take it by their slope,
    /// within 0.7 %. The probe follows, or stays as it is. Mixed cases move by 0.5 %, GPU-bound
    /// ones by 0.1 %.
    Wide {
        probe_follows: bool,
    },
    /// Each session shifts each host-bound case on its own, by 5 to 25 %, all in one direction,
    /// which is up or down by chance; no probe follows.
    Wild,
    /// SD 1 % of the host-bound cases and 1 % common to them, 0.3 % mixed, 0.1 % GPU-bound.
    Narrow,
}

#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Launches per session.
    pub launches: (usize, usize),
    /// Sessions of the base and of the new side; 0: both sides share one.
    pub sessions: (usize, usize),
    /// Cases of each kind that a filter leaves.
    pub cases_max: usize,
    /// Mean share of slow samples on each side.
    pub slow: (f64, f64),
    pub probes: bool,
    /// Moments of a launch at which each case is sampled.
    pub turns: usize,
    pub model: Model,
    /// Change of three quarters of the host-bound cases, which the others do not share.
    pub most: f64,
    /// Change of every case of one group.
    pub group: f64,
    /// No weather that lasts from launch to launch.
    pub independent: bool,
    pub shift: SessionShift,
    /// Five GPU-bound cases +3 %, five host-bound +5 %, five +10 %.
    pub changed: bool,
    /// Change of every host-bound case; mixed ones take 0.3 of it.
    pub common: f64,
    pub suites: usize,
    pub seed: u64,
}

impl Scenario {
    /// Unchanged, one shared session, a quarter of samples slow on both sides.
    pub fn new(launches: usize, suites: usize, seed: u64) -> Self {
        Self {
            launches: (launches, launches),
            sessions: (0, 0),
            cases_max: usize::MAX,
            slow: (0.25, 0.25),
            probes: false,
            turns: 1,
            model: Model::Procedure,
            most: 0.0,
            group: 0.0,
            independent: false,
            shift: SessionShift::None,
            changed: false,
            common: 0.0,
            suites,
            seed,
        }
    }

    pub fn run(&self) -> Tally {
        let mut tally = Tally::default();
        for index in 0..self.suites {
            let mut random = seeded(self.seed * 1_000_003 + index as u64);
            self.add_suite(&mut tally, &mut random);
        }
        println!("{self:?}\n    {}", tally.line());
        tally
    }

    fn add_suite(&self, tally: &mut Tally, random: &mut StdRng) {
        let cases = few(suite(self.model, random), self.cases_max);
        let effects = if self.changed {
            changes(&cases, random)
        } else if self.most != 0.0 {
            most(&cases, self.most, random)
        } else {
            let in_group = |case: &Case| case.group() == CHANGED_GROUP;
            cases
                .iter()
                .map(|case| if in_group(case) { self.group } else { 0.0 })
                .collect()
        };
        let shifts: Vec<f64> = cases
            .iter()
            .zip(&effects)
            .map(|(case, e)| e + self.share_of(case))
            .collect();
        let (mut base, mut new) = (Side::new(), Side::new());
        for (side, letter, sessions, launches, slow) in [
            (&mut base, "a", self.sessions.0, self.launches.0, self.slow.0),
            (&mut new, "b", self.sessions.1, self.launches.1, self.slow.1),
        ] {
            for session in 0..sessions.max(1) {
                let name = format!("{}{session}", if sessions == 0 { "" } else { letter });
                let mut recording = Recording::new(&name, launches, slow);
                recording.probes = self.probes;
                recording.turns = self.turns;
                recording.independent = self.independent;
                recording.first_order = if letter == "b" { 1000 } else { 0 };
                (recording.session_shifts, recording.probe_shift) = self.session_shifts(&cases, random);
                if letter == "b" {
                    recording.effects.clone_from(&shifts);
                }
                record(side, &cases, &recording, random);
            }
        }
        let comparison = compare(&base, &new, &Options::default());
        tally.add(
            &comparison,
            &Truth {
                cases: &cases,
                effects: &effects,
                shifts: &shifts,
            },
        );
    }

    fn share_of(&self, case: &Case) -> f64 {
        match case.kind {
            Kind::GpuBound => 0.0,
            Kind::Mixed => 0.3 * self.common,
            Kind::HostBound | Kind::Bimodal => self.common,
        }
    }

    fn session_shifts(&self, cases: &[Case], random: &mut StdRng) -> (Vec<f64>, f64) {
        let common = normal(random);
        let speed = random.random_range(0.05..0.25);
        let sign = if random.random::<bool>() { 1.0 } else { -1.0 };
        let shift = |case: &Case, random: &mut StdRng| match (self.shift, case.kind) {
            (SessionShift::None, _) => 0.0,
            (SessionShift::Wide { .. } | SessionShift::Wild, Kind::GpuBound) => 0.001 * normal(random),
            (SessionShift::Wide { .. } | SessionShift::Wild, Kind::Mixed) => 0.005 * normal(random),
            (SessionShift::Wide { .. }, _) => case.slope * speed + 0.007 * normal(random),
            (SessionShift::Wild, _) => sign * random.random_range(0.05..0.25),
            (SessionShift::Narrow, Kind::GpuBound) => 0.001 * normal(random),
            (SessionShift::Narrow, Kind::Mixed) => 0.003 * normal(random),
            (SessionShift::Narrow, _) => 0.01 * common + 0.01 * normal(random),
        };
        let shifts = cases.iter().map(|case| shift(case, random)).collect();
        let follows = self.shift == SessionShift::Wide { probe_follows: true };
        (shifts, if follows { speed } else { 0.0 })
    }
}

/// The first cases of each kind.
fn few(cases: Vec<Case>, most: usize) -> Vec<Case> {
    let mut counts = [Kind::GpuBound, Kind::Mixed, Kind::HostBound, Kind::Bimodal].map(|kind| (kind, 0));
    let mut is_left = |case: &Case| {
        let count = counts.iter_mut().find(|(kind, _)| *kind == case.kind);
        count.is_some_and(|(_, count)| {
            *count += 1;
            *count <= most
        })
    };
    cases.into_iter().filter(|case| is_left(case)).collect()
}

fn changes(cases: &[Case], random: &mut StdRng) -> Vec<f64> {
    let mut effects = vec![0.0; cases.len()];
    let mut of = |kind: Kind| {
        let mut indices: Vec<usize> = (0..cases.len()).filter(|&i| cases[i].kind == kind).collect();
        indices.shuffle(random);
        indices
    };
    let (gpu_bound, host_bound) = (of(Kind::GpuBound), of(Kind::HostBound));
    for (indices, ratio) in [
        (&gpu_bound[..5], 1.03f64),
        (&host_bound[..5], 1.05),
        (&host_bound[5..10], 1.10),
    ] {
        for &index in indices {
            effects[index] = ratio.ln();
        }
    }
    effects
}

fn most(cases: &[Case], effect: f64, random: &mut StdRng) -> Vec<f64> {
    let mut host_bound: Vec<usize> = (0..cases.len()).filter(|&i| cases[i].kind.is_host_bound()).collect();
    host_bound.shuffle(random);
    let mut effects = vec![0.0; cases.len()];
    for &index in &host_bound[..host_bound.len() * 3 / 4] {
        effects[index] = effect;
    }
    effects
}
