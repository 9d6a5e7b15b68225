//! `intel_pstate` in active mode: each CPU has requests of its own, and the hardware makes one
//! frequency of those that share a clock.
//!
//! A request of a CPU counts while it is awake, or has been in the hardware's present slot. A sleeping CPU
//! keeps its request, but holds nobody's clock up.

use serde::Serialize;
use wakepath_hardware::hwp::Hwp;
use wakepath_policies::freq::FrequencyTable;
use wakepath_policies::freq::hwp_boost::{HwpBoost, HwpLevels};
use wakepath_policies::freq::intel_pstate::{Counters, IntelPstate, PstateLimits};
use wakepath_units::{Kilohertz, Nanoseconds, TickRate};

use super::Report;
use crate::state::clocks::cluster::{ClusterSetup, HwpSetup};
use crate::state::cpu::Cpu;

/// A step of the P-states: the bus clock.
const STEP_KHZ: u32 = 100_000;

fn level(frequency: Kilohertz) -> u8 {
    u8::try_from(frequency.0 / STEP_KHZ).unwrap_or(u8::MAX)
}

fn frequency_of(table: &FrequencyTable, level: u8) -> Kilohertz {
    table.at_or_above(Kilohertz(u32::from(level) * STEP_KHZ))
}

/// `intel_pstate` without HWP.
#[derive(Clone, Debug)]
pub(super) struct PstateClock {
    table: FrequencyTable,
    base: Kilohertz,
    cpus: Vec<IntelPstate>,
    /// The P-state that each CPU asks for.
    requests: Vec<u8>,
}

impl PstateClock {
    pub(super) fn new(
        table: &FrequencyTable,
        base: Kilohertz,
        cpus: usize,
        iowait_boost: bool,
        tick: TickRate,
    ) -> Self {
        let (min, max) = (level(table.lowest()), level(table.highest()));
        let limits = PstateLimits {
            min,
            max: level(base),
            max_physical: level(base),
            turbo: max,
            policy_min: min,
            policy_max: max,
        };
        Self {
            table: table.clone(),
            base,
            cpus: vec![IntelPstate::new(limits, iowait_boost, tick); cpus],
            // The driver starts a CPU at its lowest P-state.
            requests: vec![min; cpus],
        }
    }

    pub(super) fn update(
        &mut self,
        now: u64,
        index: usize,
        report: Report,
        cpus: &[Cpu],
        khz: &[Kilohertz],
        current: usize,
    ) -> Option<Kilohertz> {
        // A CPU can neither read another's counters nor write its request.
        if !report.local {
            return None;
        }
        let base = u128::from(self.base.0);
        let read = || {
            let running = cpus[index].running_until(now, current, khz);
            let cycles = |khz_time: u128| (khz_time / 1_000_000) as u64;
            Counters {
                aperf: cycles(running.khz_time),
                mperf: cycles(base * u128::from(running.time)),
                tsc: cycles(base * u128::from(now)),
            }
        };
        let next = self.cpus[index].update(Nanoseconds(now), report.iowait, read)?;
        self.requests[index] = next;
        self.highest_request(|i| i == index || cpus[i].is_powered())
    }

    /// The highest request of the CPUs that count.
    pub(super) fn highest_request(&self, counts: impl Fn(usize) -> bool) -> Option<Kilohertz> {
        let counting = self.requests.iter().enumerate().filter(|(i, _)| counts(*i));
        let highest = counting.map(|(_, request)| *request).max()?;
        Some(frequency_of(&self.table, highest))
    }
}

/// `intel_pstate` with HWP: the kernel only sets the minimum, the processor does the rest.
#[derive(Clone, Debug)]
pub(super) struct HwpClock {
    slot: u64,
    /// Up to when the controllers know what the CPUs did; the end of a slot.
    seen: u64,
    cpus: Vec<HwpCpu>,
    table: FrequencyTable,
    boosts: HwpBoostRun,
}

#[derive(Clone, Debug)]
struct HwpCpu {
    controller: Hwp,
    boost: Option<HwpBoost>,
    /// The minimum performance in its request.
    minimum: u8,
    /// Another CPU reported a wake-up from I/O wait; this one has not been asked since.
    iowait_pending: bool,
    /// kHz x ns while running, when last looked at.
    khz_time: u128,
}

/// What the driver did for the boost.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct HwpBoostRun {
    /// Calls of its hook by the scheduler on the CPU itself.
    pub calls: u64,
    /// How often it raised a CPU's minimum.
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
        let cpu = HwpCpu {
            controller: Hwp::new(lowest, highest, hwp.ramp, hwp.full_at, epp),
            boost: boost.map(|tick| HwpBoost::new(levels, tick)),
            minimum: levels.min,
            iowait_pending: false,
            khz_time: 0,
        };
        Self {
            slot: cluster.slot.max(1),
            seen: 0,
            cpus: vec![cpu; cpus],
            table: cluster.table.clone(),
            boosts: HwpBoostRun::default(),
        }
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
            let before =
                std::mem::replace(&mut cpu.minimum, boost.update(Nanoseconds(now), iowait));
            self.boosts.calls += 1;
            self.boosts.raises += u64::from(cpu.minimum > before);
        }
    }

    /// What the boost did; `None` where it is off.
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
        let most = f64::from(self.table.highest().0) * self.slot as f64;
        for ((of, cpu), active) in self.cpus.iter_mut().zip(cpus).zip(active) {
            let mut used = 0;
            if *active {
                let khz_time = cpu.running_until(now, current, khz).khz_time;
                used = khz_time - std::mem::replace(&mut of.khz_time, khz_time);
            }
            of.controller.observe(slot, (used as f64 / most).min(1.0));
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

    /// The highest that the controllers of the CPUs that count ask for, and no less than any of their
    /// minima.
    fn highest_request(&self, counts: impl Fn(usize) -> bool) -> Kilohertz {
        let counting = self.cpus.iter().enumerate().filter(|(i, _)| counts(*i));
        let asked = counting.map(|(_, cpu)| {
            let desired = self.table.at_or_above(cpu.controller.desired());
            desired.max(frequency_of(&self.table, cpu.minimum))
        });
        asked.max().unwrap_or(self.table.lowest())
    }
}
