//! A run's totals by the end of its warm-up, later subtracted.

use crate::cpu::totals::CpuTotals;
use crate::drive::DriveTotals;
use crate::frequency::clocks::Domain;
use crate::observe::recorder::WarmUpCounts;
use crate::power::state::PowerTotals;

/// A run's totals by the end of its warm-up.
#[derive(Debug)]
pub(super) struct WarmUp {
    pub(super) ended: u64,
    pub(super) cpus: Vec<CpuTotals>,
    pub(super) domains: Vec<Domain>,
    pub(super) power: PowerTotals,
    pub(super) drives: Vec<Option<DriveTotals>>,
    pub(super) requests: WarmUpCounts,
}
