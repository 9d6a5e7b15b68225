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

/// What decides about a clock's frequency: a cpufreq policy, or the processor.
#[derive(Clone, Debug)]
pub(super) enum Decider {
    Fixed,
    Schedutil(Box<Schedutil>),
    Ondemand(OndemandClock),
    Pstate(PstateClock),
    Hwp(Box<HwpClock>),
    Amd(Box<AmdClock>),
}

/// The ondemand governor of a clock, with its last sample.
#[derive(Clone, Debug)]
pub(super) struct OndemandClock {
    policy: Ondemand,
    sampled: u64,
    /// Each CPU's busy time in ns at the last sample.
    busy: Vec<u64>,
    /// Reused memory for the samples of all CPUs.
    samples: Vec<Sample>,
}

/// Makes the error that a cluster's description lacks a figure that a frequency policy needs.
fn missing_figure_error(cluster: &ClusterSetup, policy: &str, what: &str) -> SimError {
    SimError::NoClock {
        cluster: cluster.name.clone(),
        policy: policy.to_owned(),
        what: what.to_owned(),
    }
}

impl Decider {
    /// Makes the decider for `cpus` CPUs on one clock. Returns also the index of the first operating point.
    pub(super) fn new(
        cluster: &ClusterSetup,
        cpus: usize,
        policy: FreqPolicy,
        name: &str,
        tick: TickRate,
    ) -> Result<(Self, usize), SimError> {
        let table = cluster.table.clone();
        let index_in_table = |frequency| table.as_slice().partition_point(|f| *f < frequency);
        let [lowest, highest] =
            [cluster.allowed.lowest(), cluster.allowed.highest()].map(index_in_table);
        let latency = Nanoseconds(cluster.transition_latency);
        let missing = |what| missing_figure_error(cluster, name, what);
        Ok(match policy {
            FreqPolicy::Performance => (Self::Fixed, highest),
            FreqPolicy::Powersave => (Self::Fixed, lowest),
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
                let schedutil = schedutil.limited_to_frequencies(&cluster.allowed);
                (Self::Schedutil(Box::new(schedutil)), lowest)
            }
            FreqPolicy::Ondemand => {
                let clock = OndemandClock {
                    policy: Ondemand::new(table, cpus, latency, tick)
                        .limited_to_frequencies(cluster.allowed.clone()),
                    sampled: 0,
                    busy: vec![0; cpus],
                    samples: Vec::with_capacity(cpus),
                };
                (Self::Ondemand(clock), lowest)
            }
            FreqPolicy::IntelPstate { iowait_boost } => {
                let base = cluster.base.ok_or_else(|| missing("base_mhz"))?;
                let clock = PstateClock::new(cluster, base, cpus, iowait_boost, tick);
                (Self::Pstate(clock), lowest)
            }
            FreqPolicy::IntelPstateHwp { dynamic_boost, epp } => {
                let base = cluster.base.ok_or_else(|| missing("base_mhz"))?;
                let hwp = cluster.hwp.ok_or_else(|| missing("HWP (hwp_ramp_ms)"))?;
                let clock =
                    HwpClock::new(cluster, base, hwp, cpus, dynamic_boost.then_some(tick), epp);
                (Self::Hwp(Box::new(clock)), lowest)
            }
            FreqPolicy::AmdPstate(settings) => {
                let cppc = cluster.cppc.ok_or_else(|| missing("CPPC (cppc)"))?;
                let clock = AmdClock::new(cluster, cppc, cpus, settings, tick)
                    .ok_or_else(|| missing("performance scale that the driver takes (cppc)"))?;
                let first = clock.first_frequency();
                let start = cluster.table.as_slice().partition_point(|f| *f < first);
                (
                    Self::Amd(Box::new(clock)),
                    start.min(table.as_slice().len() - 1),
                )
            }
        })
    }

    pub(super) fn follows_hardware_slots(&self) -> bool {
        matches!(self, Self::Pstate(_) | Self::Hwp(_) | Self::Amd(_))
    }

    pub(super) fn follows_utilisation(&self) -> bool {
        match self {
            Self::Schedutil(_) => true,
            Self::Amd(clock) => clock.follows_utilisation(),
            _ => false,
        }
    }

    /// Counts of HWP dynamic boost; `None` if it is off.
    pub(super) fn hwp_boost_counts(&self) -> Option<HwpBoostRun> {
        match self {
            Self::Hwp(clock) => clock.boost_counts(),
            _ => None,
        }
    }

    /// Handles a report from the scheduler. Returns the frequency to ask for, if the decider has a new choice.
    pub(super) fn request_after_report(
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
                let signals = cpus.iter().map(Cpu::schedutil_signal);
                policy.choose_changed_frequency_if_due(
                    Nanoseconds(now),
                    index,
                    report.iowait,
                    signals,
                )
            }
            Self::Ondemand(clock) => clock.request_if_sample_is_due(now, cpus),
            Self::Pstate(clock) => {
                clock.request_after_report(now, index, report, cpus, khz, current)
            }
            Self::Hwp(clock) => {
                // HWP hardware sees a new minimum at the slot's end.
                clock.note_report(now, index, report);
                None
            }
            Self::Amd(clock) => clock.request_after_report(now, index, report, cpus),
        }
    }

    /// Ends a slot of the hardware. Returns the frequency to have from now on, if the hardware has a
    /// say in it.
    pub(super) fn frequency_at_slot_end(
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
            Self::Hwp(clock) => Some(clock.frequency_at_slot_end(now, cpus, active, khz, current)),
            Self::Amd(clock) => clock.frequency_at_slot_end(now, cpus, active, khz, current),
        }
    }

    /// Handles the wake-up of a CPU. Returns the frequency that the hardware reached while all CPUs slept for longer than a slot.
    pub(super) fn frequency_after_wake_up(
        &mut self,
        now: u64,
        index: usize,
        cpus: &[Cpu],
    ) -> Option<Kilohertz> {
        match self {
            Self::Hwp(clock) => clock.frequency_after_wake_up(now, index, cpus),
            Self::Amd(clock) => clock.frequency_after_wake_up(now, index, cpus),
            _ => None,
        }
    }
}

impl OndemandClock {
    /// ondemand samples at utilisation updates, once the interval is over (`dbs_update_util_handler()`,
    /// `drivers/cpufreq/cpufreq_governor.c`, Linux 6.12), without a timer. The kernel worker that takes the sample a
    /// little later is left out.
    fn request_if_sample_is_due(&mut self, now: u64, cpus: &[Cpu]) -> Option<Kilohertz> {
        let elapsed = now - self.sampled;
        if elapsed < self.policy.sampling_interval().0 {
            return None;
        }
        self.sampled = now;
        self.samples.clear();
        for (cpu, before) in cpus.iter().zip(&mut self.busy) {
            let busy = cpu.busy_time_until(now);
            let idle = elapsed.saturating_sub(busy - std::mem::replace(before, busy));
            self.samples.push(Sample {
                elapsed_us: saturating_micros(elapsed),
                idle_us: saturating_micros(idle),
            });
        }
        Some(self.policy.choose_frequency(&self.samples))
    }
}

fn saturating_micros(ns: u64) -> u32 {
    u32::try_from(ns / 1000).unwrap_or(u32::MAX)
}
