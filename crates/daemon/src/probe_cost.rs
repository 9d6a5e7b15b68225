//! The cost of the eBPF programs, measured now and then: measuring costs, too.

use std::time::{Duration, Instant};

use crate::watch::{Cost, CostMeter, Watch};

/// How long the programs' cost is measured at a time.
const MEASURED: Duration = Duration::from_secs(5);
/// Time between two measurements of the programs' cost.
const UNMEASURED: Duration = Duration::from_secs(55);

/// Measurements of the programs' cost.
#[derive(Default)]
pub(crate) struct ProbeCost {
    meter: Option<CostMeter>,
    /// When the next measurement begins, or the present one ends; `None` without programs.
    next: Option<Instant>,
    last: Option<Cost>,
}

impl ProbeCost {
    /// Begins a measurement of the programs' cost, if there are programs.
    pub(crate) fn schedule_first_measurement(has_programs: bool) -> Self {
        Self {
            next: has_programs.then(Instant::now),
            ..Self::default()
        }
    }

    /// When [`ProbeCost::begin_or_end_if_due`] has to be called next; `None` without programs.
    pub(crate) const fn next_step_time(&self) -> Option<Instant> {
        self.next
    }

    /// Begins a measurement of the programs' cost, or ends one, if it is time.
    pub(crate) fn begin_or_end_if_due(&mut self, watch: &mut Watch) {
        let now = Instant::now();
        if self.next.is_none_or(|next| next > now) {
            return;
        }
        if let Some(meter) = self.meter.take() {
            self.last = meter.read_cost().or(self.last);
            self.next = Some(now + UNMEASURED);
        } else {
            self.meter = Some(watch.start_cost_meter());
            self.next = Some(now + MEASURED);
        }
    }

    /// The latest figures.
    pub(crate) fn latest_cost(&self) -> Option<Cost> {
        self.meter
            .as_ref()
            .and_then(CostMeter::read_cost)
            .or(self.last)
    }
}
