//! The same workload under several combinations of policies.

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use serde::{Serialize, Serializer};
use wakepath_hardware::Machine;
use wakepath_policies::spec::PolicySpec;
use wakepath_workloads::Workload;

use crate::observer::UntilCancelled;
use crate::{Energy, Run, SimError, simulate_observed};

/// The policies of one run.
#[derive(Clone, Debug)]
pub struct Combination {
    /// Idle governor.
    pub idle: PolicySpec,
    /// Frequency policy.
    pub freq: PolicySpec,
    /// Power-sleep demotion prevention, if any.
    pub psd: Option<PolicySpec>,
    /// When the drive sleeps, if it has power states; none: never.
    pub apst: Option<PolicySpec>,
}

/// All results of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// One per combination, in the order given.
    pub results: Vec<CombinationResult>,
}

/// The runs of one combination, and their medians.
#[derive(Clone, Debug, Serialize)]
pub struct CombinationResult {
    /// Full name of the idle governor.
    #[serde(serialize_with = "as_text")]
    pub idle: PolicySpec,
    /// Full name of the frequency policy.
    #[serde(serialize_with = "as_text")]
    pub freq: PolicySpec,
    /// Full name of the PSD policy.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "as_optional_text"
    )]
    pub psd: Option<PolicySpec>,
    /// Full name of the APST policy.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "as_optional_text"
    )]
    pub apst: Option<PolicySpec>,
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

fn as_text<S: Serializer>(spec: &PolicySpec, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(spec)
}

#[expect(clippy::ref_option, reason = "the signature that serde asks for")]
fn as_optional_text<S: Serializer>(
    spec: &Option<PolicySpec>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    spec.as_ref().map(ToString::to_string).serialize(serializer)
}

/// Who waits for a comparison: is told of progress, and may call it off.
pub struct Waiting<'a> {
    /// Called after every finished run, on the thread that did it.
    pub finished: &'a (dyn Fn(&Run) + Sync),
    /// Once set, no further run begins, and those under way are given up.
    pub cancelled: &'a AtomicBool,
}

/// Runs every combination with every seed, on all cores. Runs of the same seed see the same drive
/// and the same background, whatever their policies; the result does not depend on the number of
/// threads.
///
/// # Errors
/// As [`simulate`](crate::simulate); the error of the earliest failing run.
pub fn compare(
    machine: &Machine,
    workload: &Workload,
    combinations: &[Combination],
    seeds: &[u64],
) -> Result<Comparison, SimError> {
    let waiting = Waiting {
        finished: &|_| (),
        cancelled: &AtomicBool::new(false),
    };
    compare_while(&waiting, machine, workload, combinations, seeds)
}

/// As [`compare`], for somebody who waits. When they call it off, the result has the runs that were
/// finished by then, and only combinations with at least one.
///
/// # Errors
/// As [`compare`].
pub fn compare_while(
    waiting: &Waiting<'_>,
    machine: &Machine,
    workload: &Workload,
    combinations: &[Combination],
    seeds: &[u64],
) -> Result<Comparison, SimError> {
    let all: Vec<(&Combination, u64)> = combinations
        .iter()
        .flat_map(|c| seeds.iter().map(move |seed| (c, *seed)))
        .collect();
    let cancelled = || waiting.cancelled.load(Ordering::Relaxed);
    let one = |(c, seed): (&Combination, u64)| {
        if cancelled() {
            return Ok(None);
        }
        let mut observer = UntilCancelled(waiting.cancelled);
        let run = simulate_observed(machine, workload, c, seed, &mut observer)?;
        // Cut short or just finished: there is no telling.
        if cancelled() {
            return Ok(None);
        }
        (waiting.finished)(&run);
        Ok(Some(run))
    };
    let runs: Vec<Result<Option<Run>, SimError>> = all.into_par_iter().map(one).collect();
    let mut runs = runs.into_iter();
    let mut results = Vec::with_capacity(combinations.len());
    for c in combinations {
        let finished: Vec<Run> = runs
            .by_ref()
            .take(seeds.len())
            .filter_map(Result::transpose)
            .collect::<Result<_, _>>()?;
        if !finished.is_empty() || !cancelled() {
            results.push(summarise(c, finished));
        }
    }
    Ok(Comparison { results })
}

fn summarise(of: &Combination, runs: Vec<Run>) -> CombinationResult {
    let median_of = |value: fn(&Run) -> f64| median(runs.iter().map(value).collect());
    let drive_mw: Option<Vec<f64>> = runs
        .iter()
        .map(|r| Some(r.drive.as_ref()?.average_mw))
        .collect();
    CombinationResult {
        idle: of.idle.clone(),
        freq: of.freq.clone(),
        psd: of.psd.clone(),
        apst: of.apst.clone(),
        iops: median_of(|r| r.iops),
        mean_us: median_of(|r| r.latency_us.mean),
        p50_us: median_of(|r| r.latency_us.p50),
        p99_us: median_of(|r| r.latency_us.p99),
        p999_us: median_of(|r| r.latency_us.p999),
        mean_mhz: median_of(|r| r.mean_mhz),
        mean_mw: median_of_energy(&runs, |e| e.mean_mw),
        per_io_uj: median_of_energy(&runs, |e| e.per_io_uj),
        too_deep: median_of(|r| r.too_deep as f64),
        too_shallow: median_of(|r| r.too_shallow as f64),
        drive_mw: drive_mw.map(median),
        runs,
    }
}

fn median_of_energy(runs: &[Run], value: fn(&Energy) -> f64) -> Option<f64> {
    let values: Option<Vec<f64>> = runs.iter().map(|r| r.energy.as_ref().map(value)).collect();
    values.map(median)
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
