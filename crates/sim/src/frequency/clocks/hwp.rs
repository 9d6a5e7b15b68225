//! The processor's own choice of frequency: Intel's HWP, and AMD's CPPC in active and guided mode.
//!
//! A CPU's request counts while the CPU is awake, or was awake in the hardware's present slot. A sleeping CPU keeps
//! the request, but holds no clock up.

use serde::Serialize;
use wakepath_hardware::hwp::Hwp;
use wakepath_policies::freq::FrequencyTable;
use wakepath_policies::freq::hwp_boost::{HwpBoost, HwpLevels};
use wakepath_units::{Kilohertz, Nanoseconds, TickRate};

use super::intel::{frequency_of, level};
use crate::cpu::state::Cpu;
use crate::frequency::clocks::cluster::{ClusterSetup, HwpSetup};
use crate::frequency::clocks::report::Report;

/// The controllers: the kernel only sets limits, the processor does the rest.
#[derive(Clone, Debug)]
pub(super) struct HwpClock {
    slot: u64,
    /// The highest frequency in the requests.
    highest: Kilohertz,
    /// The controllers know about the CPUs up to this time, the end of a slot.
    seen: u64,
    cpus: Vec<HwpCpu>,
    table: FrequencyTable,
    boosts: HwpBoostRun,
}

#[derive(Clone, Debug)]
struct HwpCpu {
    controller: Hwp,
    boost: Option<HwpBoost>,
    /// The request's minimum.
    minimum: Kilohertz,
    /// Another CPU reported a wake-up from I/O wait; this CPU has not been asked since.
    iowait_pending: bool,
    /// kHz x ns while running, when last looked at.
    khz_time: u128,
}

/// The driver's counts for the boost.
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
        let (lowest, highest) = (cluster.table.lowest(), cluster.table.highest());
        let levels = HwpLevels {
            min: level(lowest),
            guaranteed: level(base),
            max: level(highest),
        };
        let minimum = frequency_of(&cluster.table, levels.min);
        let mut clock = Self::within(cluster, [minimum, base, highest], hwp, cpus, epp);
        for cpu in &mut clock.cpus {
            cpu.boost = boost.map(|tick| HwpBoost::new(levels, tick));
        }
        clock
    }

    /// Controllers limited to a range of frequencies; the one in the middle is the highest without turbo.
    pub(super) fn within(
        cluster: &ClusterSetup,
        [minimum, base, highest]: [Kilohertz; 3],
        hwp: HwpSetup,
        cpus: usize,
        epp: u8,
    ) -> Self {
        let lowest = cluster.table.lowest();
        let cpu = HwpCpu {
            controller: Hwp::new([lowest, base, highest], hwp.ramp, hwp.full_at, epp),
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

    /// The kernel writes another minimum.
    pub(super) fn ask_for_minimum(&mut self, index: usize, minimum: Kilohertz) {
        self.cpus[index].minimum = minimum;
    }

    pub(super) fn update(&mut self, now: u64, index: usize, report: Report) {
        let cpu = &mut self.cpus[index];
        let Some(boost) = &mut cpu.boost else {
            return;
        };
        cpu.iowait_pending |= report.iowait;
        // A CPU cannot write another's request.
        if report.local {
            let iowait = std::mem::take(&mut cpu.iowait_pending);
            let before = boost.minimum_in_force();
            let minimum = boost.update_minimum(Nanoseconds(now), iowait);
            self.boosts.calls += 1;
            self.boosts.raises += u64::from(minimum > before);
            if minimum != before {
                cpu.minimum = frequency_of(&self.table, minimum);
            }
        }
    }

    /// Boost counts; `None` when off.
    pub(super) fn boosts(&self) -> Option<HwpBoostRun> {
        let on = self.cpus.iter().any(|cpu| cpu.boost.is_some());
        on.then_some(self.boosts)
    }

    pub(super) fn end_slot(
        &mut self,
        now: u64,
        cpus: &[Cpu],
        active: &[bool],
        khz: &[Kilohertz],
        current: usize,
    ) -> Kilohertz {
        self.rest(now - self.slot);
        let slot = Nanoseconds(self.slot);
        let most = f64::from(self.highest.0) * self.slot as f64;
        for ((own, cpu), active) in self.cpus.iter_mut().zip(cpus).zip(active) {
            let mut used = 0;
            if *active {
                let khz_time = cpu.running_until(now, current, khz).khz_time();
                used = khz_time - std::mem::replace(&mut own.khz_time, khz_time);
            }
            own.controller.observe(slot, (used as f64 / most).min(1.0));
        }
        self.seen = now;
        self.highest_request(|index| active[index])
    }

    pub(super) fn wake(&mut self, now: u64, index: usize, cpus: &[Cpu]) -> Option<Kilohertz> {
        // A slot that ends just now has not been looked at yet.
        let last_slot = now.saturating_sub(1) / self.slot * self.slot;
        if self.seen >= last_slot || cpus.iter().any(Cpu::is_powered) {
            return None;
        }
        self.rest(last_slot);
        Some(self.highest_request(|i| i == index))
    }

    /// Nothing ran until `time`, the end of a slot.
    fn rest(&mut self, time: u64) {
        if time > self.seen {
            let elapsed = Nanoseconds(time - self.seen);
            for cpu in &mut self.cpus {
                cpu.controller.observe(elapsed, 0.0);
            }
            self.seen = time;
        }
    }

    /// The highest frequency asked for by controllers that count, at least their highest minimum.
    fn highest_request(&self, counts: impl Fn(usize) -> bool) -> Kilohertz {
        let counting = self.cpus.iter().enumerate().filter(|(i, _)| counts(*i));
        let asked = counting.map(|(_, cpu)| {
            let desired = self.table.lowest_at_or_above(cpu.controller.desired());
            desired.max(cpu.minimum)
        });
        asked.max().unwrap_or(self.table.lowest())
    }
}
