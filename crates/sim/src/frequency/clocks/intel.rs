//! `intel_pstate` in active mode without HWP: each CPU has separate requests, and the hardware makes one frequency for
//! the CPUs on a clock.
//!
//! A CPU's request counts while the CPU is awake, or was awake in the hardware's present slot. A sleeping CPU keeps
//! the request, but holds no clock up.

use wakepath_policies::freq::FrequencyTable;
use wakepath_policies::freq::intel_pstate::{Counters, IntelPstate, PstateLimits};
use wakepath_units::{Kilohertz, Nanoseconds, TickRate};

use crate::cpu::state::Cpu;
use crate::frequency::clocks::cluster::ClusterSetup;
use crate::frequency::clocks::report::Report;

/// Frequency difference between two P-states: the bus clock, in kHz.
const STEP_KHZ: u32 = 100_000;

pub(super) fn pstate_level(frequency: Kilohertz) -> u8 {
    u8::try_from(frequency.0 / STEP_KHZ).unwrap_or(u8::MAX)
}

pub(super) fn frequency_at_pstate_level(table: &FrequencyTable, level: u8) -> Kilohertz {
    table.lowest_at_or_above_else_highest(Kilohertz(u32::from(level) * STEP_KHZ))
}

/// `intel_pstate` in active mode without HWP, for the CPUs on one clock.
#[derive(Clone, Debug)]
pub(super) struct PstateClock {
    table: FrequencyTable,
    base: Kilohertz,
    cpus: Vec<IntelPstate>,
    /// P-state that each CPU requests.
    requests: Vec<u8>,
}

impl PstateClock {
    pub(super) fn new(
        cluster: &ClusterSetup,
        base: Kilohertz,
        cpus: usize,
        iowait_boost: bool,
        tick: TickRate,
    ) -> Self {
        let table = &cluster.table;
        let (min, max) = (pstate_level(table.lowest()), pstate_level(table.highest()));
        // Whole P-states, rounded down (`intel_pstate_update_perf_limits()`, Linux 6.12).
        let [policy_min, policy_max] = cluster
            .limits_within(table.lowest(), table.highest())
            .map(pstate_level);
        let limits = PstateLimits {
            min,
            max: pstate_level(base),
            max_physical: pstate_level(base),
            turbo: max,
            policy_min,
            policy_max,
        };
        Self {
            table: table.clone(),
            base,
            cpus: vec![IntelPstate::new(limits, iowait_boost, tick); cpus],
            // The `intel_pstate` driver starts a CPU at the lowest P-state.
            requests: vec![min.max(policy_min); cpus],
        }
    }

    pub(super) fn request_after_report(
        &mut self,
        now: u64,
        index: usize,
        report: Report,
        cpus: &[Cpu],
        khz: &[Kilohertz],
        current: usize,
    ) -> Option<Kilohertz> {
        // A CPU can neither read another CPU's counters nor write its request.
        if !report.local {
            return None;
        }
        let base = u128::from(self.base.0);
        let next = self.cpus[index].choose_changed_pstate_if_due(
            Nanoseconds(now),
            report.iowait,
            || {
                let running = cpus[index].running_time_until(now, current, khz);
                let khz_times = [
                    running.khz_time(),
                    base * u128::from(running.time_ns()),
                    base * u128::from(now),
                ];
                let [aperf, mperf, tsc] = khz_times.map(|khz_time| (khz_time / 1_000_000) as u64);
                Counters { aperf, mperf, tsc }
            },
        )?;
        self.requests[index] = next;
        self.highest_request(|i| i == index || cpus[i].is_powered())
    }

    /// Frequency of the highest request among the CPUs for which `counts` is true; `None` if there are none.
    pub(super) fn highest_request(&self, counts: impl Fn(usize) -> bool) -> Option<Kilohertz> {
        let counting = self.requests.iter().enumerate().filter(|(i, _)| counts(*i));
        let highest = counting.map(|(_, request)| *request).max()?;
        Some(frequency_at_pstate_level(&self.table, highest))
    }
}
