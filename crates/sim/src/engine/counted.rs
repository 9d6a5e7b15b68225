//! A run's counts by the end of the warm-up.

use crate::cpu::totals::CpuTotals;
use crate::drive::DriveTotals;
use crate::frequency::clocks::Domain;
use crate::observe::recorder::WarmUpCounts;
use crate::power::state::PowerTotals;

/// Counts by the end of the warm-up.
#[derive(Debug)]
pub(super) struct WarmUp {
    pub(super) ended: u64,
    pub(super) cpus: Vec<CpuTotals>,
    pub(super) domains: Vec<Domain>,
    pub(super) power: PowerTotals,
    pub(super) drives: Vec<Option<DriveTotals>>,
    pub(super) requests: WarmUpCounts,
}
