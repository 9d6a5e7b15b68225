//! `amd-pstate`: each CPU has a separate request on the CPPC performance scale, and threads on a core get their
//! highest.

use wakepath_policies::freq::amd_pstate::{
    AmdGovernor, AmdMode, AmdPstate, AmdPstateSettings, Request, TRANSITION_DELAY,
};
use wakepath_policies::freq::schedutil::{Schedutil, SchedutilPerf};
use wakepath_policies::freq::{FrequencyTable, SchedutilSettings};
use wakepath_units::{Capacity, Kilohertz, Nanoseconds, TickRate};

use super::hwp::HwpClock;
use crate::cpu::state::Cpu;
use crate::frequency::clocks::cluster::{ClusterSetup, CppcSetup};
use crate::frequency::clocks::report::Report;

/// The amd-pstate driver for the CPUs on one clock.
#[derive(Clone, Debug)]
pub(super) struct AmdClock {
    table: FrequencyTable,
    driver: AmdPstate,
    governor: Chooser,
    /// Each CPU's request on the CPPC performance scale.
    requests: Vec<Request>,
    /// The processor's own frequency controllers, unless the kernel's requests fix the performance.
    hardware: Option<HwpClock>,
}

/// How the kernel's cpufreq governor chooses each CPU's request.
#[derive(Clone, Debug)]
enum Chooser {
    /// Requests never change.
    Fixed,
    /// schedutil writes performance requests to registers, with effect at once.
    Performance(Vec<SchedutilPerf>),
    /// schedutil's requests go through the firmware. The small delay until a kernel thread takes them there is left out.
    Frequency(Vec<Schedutil>),
}

impl AmdClock {
    /// `None` where the driver does not take the processor's performance scale.
    pub(super) fn new(
        cluster: &ClusterSetup,
        cppc: CppcSetup,
        cpus: usize,
        settings: AmdPstateSettings,
        tick: TickRate,
    ) -> Option<Self> {
        let mut driver = AmdPstate::new(cppc.scale, settings, true);
        if !driver.accepts_performance_scale() {
            return None;
        }
        let [lowest, highest] = [
            driver.lowest_policy_frequency(),
            driver.highest_policy_frequency(),
        ];
        let mut limits = [driver.initial_minimum_frequency(), highest];
        if let Some(asked) = cluster.limits {
            let [min, max] = asked.clamp_to_range(lowest, highest);
            limits = [asked.min.map_or(limits[0].min(max), |_| min), max];
            driver.set_policy_limits(limits[0], limits[1]);
        }
        let (schedutil, capacity) = (
            SchedutilSettings::default(),
            Capacity(cluster.shape.capacity()),
        );
        let governor = match (settings.governor, cppc.registers) {
            (AmdGovernor::Schedutil, true) => {
                let one = SchedutilPerf::new(&schedutil, capacity, TRANSITION_DELAY, tick);
                Chooser::Performance(vec![one; cpus])
            }
            (AmdGovernor::Schedutil, false) => {
                let top = driver.highest_policy_frequency();
                let one = Schedutil::for_any_frequency_up_to(
                    &schedutil,
                    top,
                    capacity,
                    TRANSITION_DELAY,
                    tick,
                );
                let one = match cluster.limits {
                    Some(_) => one.limited_to_range(limits),
                    None => one,
                };
                Chooser::Frequency(vec![one; cpus])
            }
            _ => Chooser::Fixed,
        };
        let first = match (settings.mode, settings.governor) {
            (AmdMode::Active, _) => driver.request_in_active_mode(),
            (_, AmdGovernor::Schedutil) => driver.request_for_utilisation(0, 0, 1024, true),
            (_, AmdGovernor::Performance) => driver.request_for_frequency(limits[1], false),
            (_, AmdGovernor::Powersave) => driver.request_for_frequency(limits[0], false),
        };
        // A request with a desired performance leaves the processor's controller no choice.
        let hardware = (first.desired == 0).then(|| {
            let range = [first.minimum, first.maximum]
                .map(|performance| driver.frequency_at_performance(performance));
            HwpClock::limited_to_range(cluster, range, cppc.hardware, cpus, settings.epp_in_force())
        });
        Some(Self {
            table: cluster.table.clone(),
            driver,
            governor,
            requests: vec![first; cpus],
            hardware,
        })
    }

    pub(super) fn follows_utilisation(&self) -> bool {
        !matches!(self.governor, Chooser::Fixed)
    }

    pub(super) fn request_after_report(
        &mut self,
        now: u64,
        index: usize,
        report: Report,
        cpus: &[Cpu],
    ) -> Option<Kilohertz> {
        let signal = cpus[index].schedutil_signal();
        let now = Nanoseconds(now);
        let request = match &mut self.governor {
            Chooser::Fixed => None,
            Chooser::Performance(all) => {
                let capacity = all[index].capacity();
                let wanted = all[index].choose_performance_if_due(
                    now,
                    report.iowait,
                    report.local,
                    signal,
                )?;
                Some(self.driver.request_for_utilisation(
                    0,
                    u64::from(wanted.0),
                    u64::from(capacity.0),
                    true,
                ))
            }
            Chooser::Frequency(all) => {
                let signals = std::iter::once(signal);
                let wanted =
                    all[index].choose_changed_frequency_if_due(now, 0, report.iowait, signals)?;
                Some(self.driver.request_for_frequency(wanted, true))
            }
        }?;
        self.requests[index] = request;
        if let Some(hardware) = &mut self.hardware {
            // The processor's controller sees a new minimum at the slot's end.
            hardware.set_minimum(index, self.driver.frequency_at_performance(request.minimum));
            return None;
        }
        self.highest_request(|i| i == index || cpus[i].is_powered())
    }

    /// The frequency of the first requests, before anything runs.
    pub(super) fn first_frequency(&self) -> Kilohertz {
        self.highest_request(|_| true)
            .unwrap_or(self.table.lowest())
    }

    fn highest_request(&self, counts: impl Fn(usize) -> bool) -> Option<Kilohertz> {
        let counting = self.requests.iter().enumerate().filter(|(i, _)| counts(*i));
        let highest = counting.map(|(_, r)| r.desired.max(r.minimum)).max()?;
        Some(
            self.table
                .lowest_at_or_above_else_highest(self.driver.frequency_at_performance(highest)),
        )
    }

    pub(super) fn frequency_at_slot_end(
        &mut self,
        now: u64,
        cpus: &[Cpu],
        active: &[bool],
        khz: &[Kilohertz],
        current: usize,
    ) -> Option<Kilohertz> {
        match &mut self.hardware {
            Some(hardware) => Some(hardware.frequency_at_slot_end(now, cpus, active, khz, current)),
            None => self.highest_request(|i| active[i]),
        }
    }

    pub(super) fn frequency_after_wake_up(
        &mut self,
        now: u64,
        index: usize,
        cpus: &[Cpu],
    ) -> Option<Kilohertz> {
        self.hardware
            .as_mut()?
            .frequency_after_wake_up(now, index, cpus)
    }
}
