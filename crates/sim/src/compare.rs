//! The same workload under several policy sets.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rayon::prelude::*;
use serde::Serialize;
use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_workloads::Workload;

use crate::error::SimError;
use crate::observe::observer::UntilCancelled;
use crate::result::Run;
use crate::result::energy::Energy;
#[cfg(doc)]
use crate::result::threads::ThreadsRun;
use crate::run::simulate_observed;
use crate::setup::policies::in_force;

/// All results of a comparison.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Comparison {
    /// One per policy set, in the order given.
    pub results: Vec<PolicyResult>,
}

/// The runs under one policy set, and their medians.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyResult {
    /// The policies in force: those that were asked for, then those of the machine's kernel.
    pub policy: PolicySet,
    /// Operations per second of an rt-app workload ([`ThreadsRun`]), median over the runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations_per_second: Option<f64>,
    /// Finished requests per second, median over the runs.
    pub iops: f64,
    /// Mean latency in microseconds, median over the runs.
    pub mean_us: f64,
    /// Median latency in microseconds, median over the runs.
    pub p50_us: f64,
    /// 99th percentile in microseconds, median over the runs.
    pub p99_us: f64,
    /// 99.9th percentile in microseconds, median over the runs.
    pub p999_us: f64,
    /// Mean frequency in MHz while tasks ran, median over the runs.
    pub mean_mhz: f64,
    /// Mean power in milliwatts, median over the runs; absent without power figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_mw: Option<f64>,
    /// Energy per request in microjoules, median over the runs; absent without power figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_io_uj: Option<f64>,
    /// Stays in an idle state that was too deep, median over the runs.
    pub too_deep: f64,
    /// Stays in an idle state that was too shallow, median over the runs.
    pub too_shallow: f64,
    /// What the drive drew on average in mW, median over the runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drive_mw: Option<f64>,
    /// The runs, in the order of their seeds.
    pub runs: Vec<Run>,
}

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

/// Runs every policy set with every seed, on all threads of the current rayon pool. Runs of the
/// same seed see the same drive and the same background, whatever their policies; the result does
/// not depend on the number of threads.
///
/// # Errors
/// As [`simulate`](crate::simulate); the error of the earliest failing run.
pub fn compare(
    machine: &Machine,
    workload: &Workload,
    policies: &[PolicySet],
    seeds: &[u64],
) -> Result<Comparison, SimError> {
    let waiting = Waiting {
        finished: &|_| (),
        cancelled: &AtomicBool::new(false),
    };
    let experiment = Experiment {
        machine: machine.clone(),
        workload: workload.clone(),
        policies: policies.to_vec(),
    };
    let results = compare_all(&waiting, &[experiment], seeds)?;
    Ok(results.into_iter().next().unwrap_or_default())
}

/// As [`compare`], for several experiments and for somebody who waits; one comparison per
/// experiment. All begin with the first seed before any goes on to the second, so that somebody who
/// calls it off has about as many runs of each. Then the results have the runs that were
/// finished, and only policy sets with at least one.
///
/// # Errors
/// As [`compare`].
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
            .map(|(policies, runs)| Ok(summarise(in_force(&e.machine, policies)?, runs)))
            .collect::<Result<_, SimError>>()?;
        Ok(Comparison { results })
    };
    experiments.iter().map(comparison).collect()
}

fn summarise(policy: PolicySet, runs: Vec<Run>) -> PolicyResult {
    let median_of = |value: fn(&Run) -> f64| median(runs.iter().map(value).collect());
    let drive_mw: Option<Vec<f64>> = runs
        .iter()
        .map(|r| Some(r.drive.as_ref()?.average_mw))
        .collect();
    PolicyResult {
        policy,
        operations_per_second: runs
            .iter()
            .map(|r| Some(r.threads.as_ref()?.operations_per_second))
            .collect::<Option<Vec<_>>>()
            .map(median),
        iops: median_of(|r| r.iops),
        mean_us: median_of(|r| r.latency_us.mean),
        p50_us: median_of(|r| r.latency_us.p50),
        p99_us: median_of(|r| r.latency_us.p99),
        p999_us: median_of(|r| r.latency_us.p999),
        mean_mhz: median_of(|r| r.mean_mhz),
        mean_mw: median_of_energy(&runs, |e| Some(e.mean_mw)),
        per_io_uj: median_of_energy(&runs, |e| e.per_io_uj),
        too_deep: median_of(|r| r.too_deep as f64),
        too_shallow: median_of(|r| r.too_shallow as f64),
        drive_mw: drive_mw.map(median),
        runs,
    }
}

fn median_of_energy(runs: &[Run], value: fn(&Energy) -> Option<f64>) -> Option<f64> {
    let values = runs.iter().map(|r| r.energy.as_ref().and_then(value));
    values.collect::<Option<Vec<f64>>>().map(median)
}

/// The middle value, or the mean of the two in the middle; 0 of nothing.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}
