//! The processor's own choice of frequency: Intel's HWP, and AMD's CPPC in active and guided mode.
//!
//! A CPU's request counts while the CPU is awake, or was awake in the hardware's present slot. A sleeping CPU keeps
//! the request, but holds no clock up.

use serde::Serialize;
use wakepath_hardware::hwp::Hwp;
use wakepath_policies::freq::FrequencyTable;
use wakepath_policies::freq::hwp_boost::{HwpBoost, HwpLevels};
use wakepath_units::{Kilohertz, Nanoseconds, TickRate};

use super::intel::{frequency_at_pstate_level, pstate_level};
use crate::cpu::state::Cpu;
use crate::frequency::clocks::cluster::{ClusterSetup, HwpSetup};
use crate::frequency::clocks::report::Report;

/// The processor's frequency controllers on one clock: the kernel only sets limits.
#[derive(Clone, Debug)]
pub(super) struct HwpClock {
    slot: u64,
    /// Highest frequency that the kernel's requests allow.
    highest: Kilohertz,
    /// Time in ns, a slot's end, up to which the controllers have observed the CPUs.
    seen: u64,
    cpus: Vec<HwpCpu>,
    table: FrequencyTable,
    boosts: HwpBoostRun,
}

#[derive(Clone, Debug)]
struct HwpCpu {
    controller: Hwp,
    boost: Option<HwpBoost>,
    /// Minimum frequency in the CPU's request.
    minimum: Kilohertz,
    /// Whether another CPU has reported a wake-up from I/O wait that this CPU has not handled yet.
    iowait_pending: bool,
    /// The CPU's running time times frequency, in kHz x ns, when last observed.
    khz_time: u128,
}

/// How often the driver's HWP dynamic boost was called and raised a minimum.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct HwpBoostRun {
    /// Hook calls by the scheduler on the CPU itself.
    pub calls: u64,
    /// How often the hook raised a CPU's minimum.
    pub raises: u64,
}

impl HwpClock {
    pub(super) fn new(
        cluster: &ClusterSetup,
        base: Kilohertz,
        hwp: HwpSetup,
        cpus: usize,
        boost: Option<TickRate>,
        epp: u8,
    ) -> Self {
        let [lowest, highest] =
            cluster.limits_within(cluster.table.lowest(), cluster.table.highest());
        let levels = HwpLevels {
            min: pstate_level(lowest),
            guaranteed: pstate_level(base),
            max: pstate_level(highest),
        };
        let minimum = frequency_at_pstate_level(&cluster.table, levels.min);
        // A limit is requested as a whole level, rounded down.
        let highest = match cluster.limits {
            Some(_) => frequency_at_pstate_level(&cluster.table, levels.max),
            None => highest,
        };
        let mut clock = Self::limited_to_range(cluster, [minimum, highest], hwp, cpus, epp);
        for cpu in &mut clock.cpus {
            cpu.boost = boost.map(|tick| HwpBoost::new(levels, tick));
        }
        clock
    }

    /// Controllers limited to the frequencies from `minimum` to `highest`.
    pub(super) fn limited_to_range(
        cluster: &ClusterSetup,
        [minimum, highest]: [Kilohertz; 2],
        hwp: HwpSetup,
        cpus: usize,
        epp: u8,
    ) -> Self {
        let lowest = cluster.table.lowest();
        let cpu = HwpCpu {
            controller: Hwp::new(
                [lowest, highest],
                hwp.ramp,
                [hwp.full_at, hwp.epp32_share],
                epp,
            ),
            boost: None,
            minimum,
            iowait_pending: false,
            khz_time: 0,
        };
        Self {
            slot: cluster.slot.max(1),
            highest,
            seen: 0,
            cpus: vec![cpu; cpus],
            table: cluster.table.clone(),
            boosts: HwpBoostRun::default(),
        }
    }

    /// Sets the minimum in a CPU's request, as the kernel writes it.
    pub(super) fn set_minimum(&mut self, index: usize, minimum: Kilohertz) {
        self.cpus[index].minimum = minimum;
    }

    pub(super) fn note_report(&mut self, now: u64, index: usize, report: Report) {
        let cpu = &mut self.cpus[index];
        let Some(boost) = &mut cpu.boost else {
            return;
        };
        cpu.iowait_pending |= report.iowait;
        // A CPU cannot write another CPU's request, and handles a report itself later.
        if report.local {
            let iowait = std::mem::take(&mut cpu.iowait_pending);
            let before = boost.minimum_in_force();
            let minimum = boost.update_minimum(Nanoseconds(now), iowait);
            self.boosts.calls += 1;
            self.boosts.raises += u64::from(minimum > before);
            if minimum != before {
                cpu.minimum = frequency_at_pstate_level(&self.table, minimum);
            }
        }
    }

    /// Counts of HWP dynamic boost; `None` if it is off.
    pub(super) fn boost_counts(&self) -> Option<HwpBoostRun> {
        let on = self.cpus.iter().any(|cpu| cpu.boost.is_some());
        on.then_some(self.boosts)
    }

    pub(super) fn frequency_at_slot_end(
        &mut self,
        now: u64,
        cpus: &[Cpu],
        active: &[bool],
        khz: &[Kilohertz],
        current: usize,
    ) -> Kilohertz {
        self.observe_rest_until(now - self.slot);
        let slot = Nanoseconds(self.slot);
        let most = f64::from(self.highest.0) * self.slot as f64;
        for ((own, cpu), active) in self.cpus.iter_mut().zip(cpus).zip(active) {
            let mut used = 0;
            if *active {
                let khz_time = cpu.running_time_until(now, current, khz).khz_time();
                used = khz_time - std::mem::replace(&mut own.khz_time, khz_time);
            }
            own.controller
                .record_utilisation(slot, (used as f64 / most).min(1.0));
        }
        self.seen = now;
        self.highest_request(|index| active[index])
    }

    pub(super) fn frequency_after_wake_up(
        &mut self,
        now: u64,
        index: usize,
        cpus: &[Cpu],
    ) -> Option<Kilohertz> {
        // A slot that ends just now has not been observed yet.
        let last_slot = now.saturating_sub(1) / self.slot * self.slot;
        if self.seen >= last_slot || cpus.iter().any(Cpu::is_powered) {
            return None;
        }
        self.observe_rest_until(last_slot);
        Some(self.highest_request(|i| i == index))
    }

    /// Lets the controllers observe that nothing ran until `time`, the end of a slot.
    fn observe_rest_until(&mut self, time: u64) {
        if time > self.seen {
            let elapsed = Nanoseconds(time - self.seen);
            for cpu in &mut self.cpus {
                cpu.controller.record_utilisation(elapsed, 0.0);
            }
            self.seen = time;
        }
    }

    /// Highest frequency that controllers want, or requests set as minimum, among the CPUs for which `counts` is true.
    fn highest_request(&self, counts: impl Fn(usize) -> bool) -> Kilohertz {
        let counting = self.cpus.iter().enumerate().filter(|(i, _)| counts(*i));
        let asked = counting.map(|(_, cpu)| {
            let desired = self
                .table
                .lowest_at_or_above_else_highest(cpu.controller.desired_frequency());
            desired.max(cpu.minimum)
        });
        asked.max().unwrap_or(self.table.lowest())
    }
}
