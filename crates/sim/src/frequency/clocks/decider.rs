//! Deciders for a clock's frequency.

use wakepath_policies::freq::ondemand::{Ondemand, Sample};
use wakepath_policies::freq::schedutil::Schedutil;
use wakepath_policies::freq::{FreqPolicy, rate_limit_from_transition_latency};
use wakepath_units::{Capacity, Kilohertz, Nanoseconds, TickRate};

use super::amd::AmdClock;
use super::hwp::{HwpBoostRun, HwpClock};
use super::intel::PstateClock;
use crate::cpu::state::Cpu;
use crate::error::SimError;
use crate::frequency::clocks::cluster::ClusterSetup;
use crate::frequency::clocks::report::Report;

/// The decider.
#[derive(Clone, Debug)]
pub(super) enum Decider {
    Fixed,
    Schedutil(Box<Schedutil>),
    Ondemand(OndemandClock),
    Pstate(PstateClock),
    Hwp(Box<HwpClock>),
    Amd(Box<AmdClock>),
}

/// ondemand with the last sample.
#[derive(Clone, Debug)]
pub(super) struct OndemandClock {
    policy: Ondemand,
    sampled: u64,
    /// Each CPU's busy time by then, in ns.
    busy: Vec<u64>,
    /// Room for the sample.
    samples: Vec<Sample>,
}

/// A cluster does not say what a policy needs.
fn no_clock(cluster: &ClusterSetup, policy: &str, what: &str) -> SimError {
    SimError::NoClock {
        cluster: cluster.name.clone(),
        policy: policy.to_owned(),
        what: what.to_owned(),
    }
}

impl Decider {
    /// The decider for `cpus` CPUs with one clock, and the first operating point.
    pub(super) fn new(
        cluster: &ClusterSetup,
        cpus: usize,
        policy: FreqPolicy,
        name: &str,
        tick: TickRate,
    ) -> Result<(Self, usize), SimError> {
        let table = cluster.table.clone();
        let highest = table.as_slice().len() - 1;
        let latency = Nanoseconds(cluster.transition_latency);
        let missing = |what| no_clock(cluster, name, what);
        Ok(match policy {
            FreqPolicy::Performance => (Self::Fixed, highest),
            FreqPolicy::Powersave => (Self::Fixed, 0),
            FreqPolicy::Schedutil(settings) => {
                let schedutil = Schedutil::new(
                    &settings,
                    &table,
                    Capacity(cluster.shape.capacity()),
                    cpus,
                    rate_limit_from_transition_latency(latency),
                    tick,
                );
                let schedutil = if cluster.fixed_speed {
                    schedutil.without_frequency_invariance(table)
                } else {
                    schedutil
                };
                (Self::Schedutil(Box::new(schedutil)), 0)
            }
            FreqPolicy::Ondemand => {
                let clock = OndemandClock {
                    policy: Ondemand::new(table, cpus, latency, tick),
                    sampled: 0,
                    busy: vec![0; cpus],
                    samples: Vec::with_capacity(cpus),
                };
                (Self::Ondemand(clock), 0)
            }
            FreqPolicy::IntelPstate { iowait_boost } => {
                let base = cluster.base.ok_or_else(|| missing("base_mhz"))?;
                let clock = PstateClock::new(&table, base, cpus, iowait_boost, tick);
                (Self::Pstate(clock), 0)
            }
            FreqPolicy::IntelPstateHwp { dynamic_boost, epp } => {
                let base = cluster.base.ok_or_else(|| missing("base_mhz"))?;
                let hwp = cluster.hwp.ok_or_else(|| missing("HWP (hwp_ramp_ms)"))?;
                let clock =
                    HwpClock::new(cluster, base, hwp, cpus, dynamic_boost.then_some(tick), epp);
                (Self::Hwp(Box::new(clock)), 0)
            }
            FreqPolicy::AmdPstate(settings) => {
                let cppc = cluster.cppc.ok_or_else(|| missing("CPPC (cppc)"))?;
                let clock = AmdClock::new(cluster, cppc, cpus, settings, tick)
                    .ok_or_else(|| missing("performance scale that the driver takes (cppc)"))?;
                let first = clock.first();
                let start = cluster.table.as_slice().partition_point(|f| *f < first);
                (Self::Amd(Box::new(clock)), start.min(highest))
            }
        })
    }

    pub(super) fn follows_slots(&self) -> bool {
        matches!(self, Self::Pstate(_) | Self::Hwp(_) | Self::Amd(_))
    }

    pub(super) fn follows_utilisation(&self) -> bool {
        match self {
            Self::Schedutil(_) => true,
            Self::Amd(clock) => clock.follows_utilisation(),
            _ => false,
        }
    }

    /// HWP boost counts, if on.
    pub(super) fn hwp_boosts(&self) -> Option<HwpBoostRun> {
        match self {
            Self::Hwp(clock) => clock.boosts(),
            _ => None,
        }
    }

    /// The scheduler reports. Returns the frequency to have from now on, if there is something new.
    pub(super) fn update(
        &mut self,
        now: u64,
        index: usize,
        report: Report,
        cpus: &[Cpu],
        khz: &[Kilohertz],
        current: usize,
    ) -> Option<Kilohertz> {
        match self {
            Self::Fixed => None,
            Self::Schedutil(policy) => {
                let signals = cpus.iter().map(Cpu::signal);
                policy.choose_frequency_if_due(Nanoseconds(now), index, report.iowait, signals)
            }
            Self::Ondemand(clock) => clock.update(now, cpus),
            Self::Pstate(clock) => clock.update(now, index, report, cpus, khz, current),
            Self::Hwp(clock) => {
                // The hardware sees a new minimum at the slot's end.
                clock.update(now, index, report);
                None
            }
            Self::Amd(clock) => clock.update(now, index, report, cpus),
        }
    }

    /// The hardware's slot ends. Returns the frequency to have from now on, if the hardware has a
    /// say in it.
    pub(super) fn end_slot(
        &mut self,
        now: u64,
        cpus: &[Cpu],
        active: &[bool],
        khz: &[Kilohertz],
        current: usize,
    ) -> Option<Kilohertz> {
        match self {
            Self::Fixed | Self::Schedutil(_) | Self::Ondemand(_) => None,
            Self::Pstate(clock) => clock.highest_request(|i| active[i]),
            Self::Hwp(clock) => Some(clock.end_slot(now, cpus, active, khz, current)),
            Self::Amd(clock) => clock.end_slot(now, cpus, active, khz, current),
        }
    }

    /// A CPU wakes up. Returns the frequency reached by the hardware while all CPUs slept for longer than a slot.
    pub(super) fn wake(&mut self, now: u64, index: usize, cpus: &[Cpu]) -> Option<Kilohertz> {
        match self {
            Self::Hwp(clock) => clock.wake(now, index, cpus),
            Self::Amd(clock) => clock.wake(now, index, cpus),
            _ => None,
        }
    }
}

impl OndemandClock {
    /// ondemand samples at utilisation updates, once the interval is over (`dbs_update_util_handler()`,
    /// `drivers/cpufreq/cpufreq_governor.c`, Linux 6.12), without a timer. The kernel worker that takes the sample a
    /// little later is left out.
    fn update(&mut self, now: u64, cpus: &[Cpu]) -> Option<Kilohertz> {
        let elapsed = now - self.sampled;
        if elapsed < self.policy.sampling_interval().0 {
            return None;
        }
        self.sampled = now;
        self.samples.clear();
        for (cpu, before) in cpus.iter().zip(&mut self.busy) {
            let busy = cpu.busy_until(now);
            let idle = elapsed.saturating_sub(busy - std::mem::replace(before, busy));
            self.samples.push(Sample {
                elapsed_us: micros(elapsed),
                idle_us: micros(idle),
            });
        }
        Some(self.policy.choose_frequency(&self.samples))
    }
}

fn micros(ns: u64) -> u32 {
    u32::try_from(ns / 1000).unwrap_or(u32::MAX)
}
