//! A made-up machine: figures are a known function of the set, with noise by seed.

use std::sync::atomic::{AtomicU64, Ordering};

use wakepath_policies::PolicySet;
use wakepath_results::Goal;
use wakepath_tune::{
    Budget, DailyLoad, Dimension, Effort, Evaluator, LoadRuns, SearchAnswer, SearchObjective,
    SearchRequest, Space, Trial, TrialOutcome, TuneError, search_best_policy_set,
};
use wakepath_workloads::fio;

/// Requests of a whole run of a load.
pub(crate) const COST: u64 = 100;

/// Power of what is in force in mW.
pub(crate) const POWER: f64 = 1000.0;

/// What a policy adds to the figures of what is in force.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Effect {
    pub(crate) mean_mw: f64,
    pub(crate) p99_us: f64,
    pub(crate) iops: f64,
}

/// A machine whose policies have these effects, one by one.
pub(crate) struct MadeUp {
    pub(crate) effects: Vec<(String, Effect)>,
    /// Largest noise that a set has to itself in a run, as a share of its figures.
    pub(crate) own_noise: f64,
    /// Requests of the warm-up in each run, which no shortening cuts.
    pub(crate) warm_up: u64,
    /// Requests asked for so far.
    pub(crate) requests: AtomicU64,
    /// Sets that ran shortened so far.
    pub(crate) shortened: AtomicU64,
}

impl MadeUp {
    pub(crate) fn new(effects: &[(&str, Effect)]) -> Self {
        let effects = effects
            .iter()
            .map(|(name, effect)| (in_full(name), *effect));
        Self {
            effects: effects.collect(),
            own_noise: 0.004,
            warm_up: 0,
            requests: AtomicU64::new(0),
            shortened: AtomicU64::new(0),
        }
    }

    /// The figures of a set without noise: power, latency and rate.
    pub(crate) fn figures(&self, set: &str) -> [f64; 3] {
        let mut figures = [POWER, 100.0, 1000.0];
        for part in set.split(" + ") {
            let found = self.effects.iter().find(|(name, _)| name == part);
            let effect = found.map(|(_, effect)| *effect).unwrap_or_default();
            for (figure, change) in
                figures
                    .iter_mut()
                    .zip([effect.mean_mw, effect.p99_us, effect.iops])
            {
                *figure += change;
            }
        }
        figures
    }

    fn run(&self, set: &str, seed: u64) -> Vec<(String, f64)> {
        // What all sets have in a seed is large, what a set has to itself is small unless a test says otherwise.
        let common = noise(&[seed]) * 0.02;
        let hash = set.bytes().fold(7_u64, |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(u64::from(byte))
        });
        let own = noise(&[seed, hash]) * self.own_noise;
        let names = ["mean_mw", "p99_us", "iops"];
        names
            .into_iter()
            .zip(self.figures(set))
            .map(|(name, figure)| (name.to_owned(), figure * (1.0 + common + own)))
            .collect()
    }
}

impl Evaluator for MadeUp {
    fn run_sets_in_order(
        &self,
        sets: &[PolicySet],
        effort: Effort,
    ) -> Result<Vec<TrialOutcome>, TuneError> {
        let measured = COST / u64::from(effort.shortened);
        let requests = (measured + self.warm_up) * u64::from(effort.repeats);
        let outcomes = sets.iter().map(|set| {
            let shortened = u64::from(effort.shortened > 1);
            self.shortened.fetch_add(shortened, Ordering::Relaxed);
            self.requests.fetch_add(requests, Ordering::Relaxed);
            let seeds = (0..effort.repeats).map(|repeat| effort.first_seed + u64::from(repeat));
            TrialOutcome::Ran(Trial {
                loads: vec![LoadRuns {
                    runs: seeds.map(|seed| self.run(&set.to_string(), seed)).collect(),
                    ..LoadRuns::default()
                }],
                rest: LoadRuns::default(),
                requests,
            })
        });
        Ok(outcomes.collect())
    }
}

/// A number from -1 to 1 that depends on all of these.
fn noise(numbers: &[u64]) -> f64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for number in numbers {
        state = (state ^ number).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state ^= state >> 29;
        state = state.wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 32;
    }
    (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

/// A space with these policies, one dimension for each list.
pub(crate) fn space(dimensions: &[(&'static str, &[&str])]) -> Space {
    let dimensions = dimensions.iter().map(|(name, policies)| Dimension {
        name,
        choices: policies
            .iter()
            .map(|policy| policy.parse().unwrap())
            .collect(),
    });
    Space {
        dimensions: dimensions.collect(),
        profiles: Vec::new(),
        left_out: Vec::new(),
        first: Vec::new(),
        measured_only: Vec::new(),
        measured_only_names: Vec::new(),
    }
}

/// A load with a rate, all day.
pub(crate) fn load(name: &str, options: &str) -> DailyLoad {
    let text =
        format!("[a]\nfilename=/dev/nvme0n1\nrw=randread\ntime_based\nruntime=800ms\n{options}");
    DailyLoad {
        name: name.to_owned(),
        workload: Some(
            fio::parse(&text, "a.fio")
                .unwrap()
                .with_given_or_default_warm_up(None)
                .into(),
        ),
        hours: 24.0,
    }
}

/// A request for the least power under these conditions, of a load with a rate.
pub(crate) fn request(conditions: &[&str], budget: u64) -> SearchRequest {
    SearchRequest {
        loads: vec![load("a", "rate_iops=100\n")],
        objective: SearchObjective::new("mean_mw", Goal::Minimise).unwrap(),
        conditions: conditions
            .iter()
            .map(|text| text.parse().unwrap())
            .collect(),
        budget: Budget(budget),
        seed: 1,
    }
}

/// A set in full, with versions.
pub(crate) fn in_full(set: &str) -> String {
    set.parse::<PolicySet>().unwrap().to_string()
}

/// The answer's set, as text.
pub(crate) fn best_set(answer: &SearchAnswer) -> &str {
    &answer.best.as_ref().unwrap().set
}

/// Power saved, and latency added.
pub(crate) fn saves(mean_mw: f64, p99_us: f64) -> Effect {
    Effect {
        mean_mw: -mean_mw,
        p99_us,
        iops: 0.0,
    }
}

/// The answer for a space with these effects and conditions, with a budget for every set.
pub(crate) fn tune(effects: &[(&str, Effect)], space: &Space, conditions: &[&str]) -> SearchAnswer {
    search_best_policy_set(space, &request(conditions, 100_000), &MadeUp::new(effects)).unwrap()
}
