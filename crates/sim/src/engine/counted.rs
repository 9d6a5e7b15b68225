//! What has been counted of a run by the end of its warm-up.

use crate::core::basics::NEVER;
use crate::cpu::totals::CpuTotals;
use crate::drive::DriveTotals;
use crate::frequency::clocks::Domain;
use crate::power::state::PowerTotals;
use crate::setup::Setup;
use crate::task::fio::jobs::Jobs;

/// What had been counted by the end of the warm-up.
#[derive(Debug)]
pub(super) struct WarmUp {
    pub(super) ended: u64,
    pub(super) cpus: Vec<CpuTotals>,
    pub(super) domains: Vec<Domain>,
    pub(super) power: PowerTotals,
    pub(super) drives: Vec<Option<DriveTotals>>,
    pub(super) completions: u64,
    pub(super) same_cpu: u64,
    pub(super) ramped: u64,
}

/// When the warm-up ends: when the first request counts. Never, if no job has one.
pub(super) fn end_of_warm_up(setup: &Setup, jobs: &Jobs) -> u64 {
    let has_warm_up = setup.jobs.iter().any(|job| job.ramp > 0);
    let ends = jobs.counts_from.filter(|from| has_warm_up && *from > 0);
    ends.unwrap_or(NEVER)
}
