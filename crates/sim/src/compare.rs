//! The same workload under several policy sets.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rayon::prelude::*;
use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_workloads::Workload;

use crate::error::SimError;
use crate::observe::observer::UntilCancelled;
use crate::result::Run;
use crate::result::summary::{Comparison, PolicyResult};
use crate::run::simulate_observed;
use crate::setup::policies::in_force;

/// Who waits for a comparison: is told of progress, and may call it off.
pub struct Waiting<'a> {
    /// Called after every finished run, on the thread that did it.
    pub finished: &'a (dyn Fn(&Run) + Sync),
    /// Once set, no further run begins, and those under way are given up.
    pub cancelled: &'a AtomicBool,
}

/// One workload on one machine, under several policy sets.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The machine.
    pub machine: Machine,
    /// The workload.
    pub workload: Workload,
    /// What is compared.
    pub policies: Vec<PolicySet>,
}

/// Runs every policy set of every experiment with every seed, on all threads of the current rayon pool; one comparison per
/// experiment. Runs of the same seed see the same drive and the same background, whatever their policies; the result does not
/// depend on the number of threads. All begin with the first seed before any goes on to the second, so that somebody who
/// calls it off has about as many runs of each. Then the results have the runs that were
/// finished, and only policy sets with at least one.
///
/// # Errors
/// As [`simulate`](crate::simulate); the error of the earliest failing run.
pub fn compare_all(
    waiting: &Waiting<'_>,
    experiments: &[Experiment],
    seeds: &[u64],
) -> Result<Vec<Comparison>, SimError> {
    let pairs: Vec<(&Experiment, &PolicySet)> = experiments
        .iter()
        .flat_map(|e| e.policies.iter().map(move |c| (e, c)))
        .collect();
    let cancelled = || waiting.cancelled.load(Ordering::Relaxed);
    // The earliest run that has failed: what comes after it need not be done.
    let failed = AtomicUsize::new(usize::MAX);
    let one = |index: usize| {
        if cancelled() || index > failed.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let (e, c) = pairs[index % pairs.len()];
        let seed = seeds[index / pairs.len()];
        let mut observer = UntilCancelled(waiting.cancelled);
        let run = simulate_observed(&e.machine, &e.workload, c, seed, &mut observer)
            .inspect_err(|_| _ = failed.fetch_min(index, Ordering::Relaxed))?;
        // Cut short or just finished: there is no telling.
        if cancelled() {
            return Ok(None);
        }
        (waiting.finished)(&run);
        Ok(Some(run))
    };
    // The bridge hands the runs out in order, which plain parallel iterators do not.
    let mut runs: Vec<(usize, Result<Option<Run>, SimError>)> = (0..pairs.len() * seeds.len())
        .par_bridge()
        .map(|index| (index, one(index)))
        .collect();
    runs.sort_unstable_by_key(|(index, _)| *index);
    let mut finished: Vec<Vec<Run>> = pairs.iter().map(|_| Vec::new()).collect();
    for (index, run) in runs {
        finished[index % pairs.len()].extend(run?);
    }
    let mut finished = finished.into_iter();
    let comparison = |e: &Experiment| -> Result<Comparison, SimError> {
        let results = (e.policies.iter().zip(finished.by_ref()))
            .filter(|(_, runs)| !runs.is_empty() || !cancelled())
            .map(|(policies, runs)| Ok(PolicyResult::new(in_force(&e.machine, policies)?, runs)))
            .collect::<Result<_, SimError>>()?;
        Ok(Comparison { results })
    };
    experiments.iter().map(comparison).collect()
}
