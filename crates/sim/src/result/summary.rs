//! Runs of the same workload under several policy sets, and their medians.

use serde::Serialize;
use wakepath_policies::PolicySet;
use wakepath_units::median;

use super::Run;
use crate::power::energy::Energy;
#[cfg(doc)]
use crate::task::rtapp::result::ThreadsRun;

/// All results of a comparison.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PolicyComparison {
    /// Results by policy set, in the order in which the sets were given.
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
    /// Idle periods whose state was too deep, median over the runs.
    pub too_deep: f64,
    /// Idle periods whose state was too shallow, median over the runs.
    pub too_shallow: f64,
    /// Mean power of the drive in mW, median over the runs; absent if drives have no power states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drive_mw: Option<f64>,
    /// The runs under the policy set, in the order of their seeds.
    pub runs: Vec<Run>,
}

impl PolicyResult {
    /// The runs under a policy set, with their medians.
    pub fn new(policy: PolicySet, runs: Vec<Run>) -> Self {
        let median_of = |value: fn(&Run) -> f64| median(runs.iter().map(value)).unwrap_or(0.0);
        let drive_mw: Option<Vec<f64>> = runs
            .iter()
            .map(|r| Some(r.drive.as_ref()?.average_mw))
            .collect();
        Self {
            policy,
            operations_per_second: runs
                .iter()
                .map(|r| Some(r.threads.as_ref()?.operations_per_second))
                .collect::<Option<Vec<_>>>()
                .and_then(median),
            iops: median_of(|r| r.iops),
            mean_us: median_of(|r| r.latency_us.mean),
            p50_us: median_of(|r| r.latency_us.p50),
            p99_us: median_of(|r| r.latency_us.p99),
            p999_us: median_of(|r| r.latency_us.p999),
            mean_mhz: median_of(|r| r.mean_mhz),
            mean_mw: median_of_energy_figure(&runs, |e| Some(e.mean_mw)),
            per_io_uj: median_of_energy_figure(&runs, |e| e.per_io_uj),
            too_deep: median_of(|r| r.too_deep as f64),
            too_shallow: median_of(|r| r.too_shallow as f64),
            drive_mw: drive_mw.and_then(median),
            runs,
        }
    }
}

fn median_of_energy_figure(runs: &[Run], value: fn(&Energy) -> Option<f64>) -> Option<f64> {
    let values = runs.iter().map(|r| r.energy.as_ref().and_then(value));
    values.collect::<Option<Vec<f64>>>().and_then(median)
}
