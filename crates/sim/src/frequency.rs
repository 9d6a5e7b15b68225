//! Clusters' clocks: what cpufreq asks for, and when the hardware follows.

use wakepath_policies::freq::schedutil::{CpuSignal, Schedutil};
use wakepath_policies::freq::{FreqPolicy, FrequencyTable, transition_delay};
use wakepath_policies::spec::PolicySpec;
use wakepath_units::{Capacity, Kilohertz, Nanoseconds, TickRate};

use crate::SimError;
use crate::cpu::Cpu;
use crate::setup::{ClusterSetup, Cycles};

/// Who decides the frequency of a cluster.
#[derive(Clone, Debug)]
enum Clock {
    Fixed,
    Schedutil {
        policy: Box<Schedutil>,
        /// Room for what it is told.
        signals: Vec<CpuSignal>,
    },
}

/// A frequency domain.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    capacity: u32,
    table: FrequencyTable,
    speed: Vec<u32>,
    clock: Clock,
    /// Index of the operating point in force.
    current: usize,
    /// The one that was asked for last.
    wanted: usize,
    /// The hardware is on its way to another operating point.
    changing: bool,
    task_time: u64,
    task_khz_time: u128,
}

impl Domain {
    pub(crate) fn new(
        cluster: &ClusterSetup,
        policy: &PolicySpec,
        tick: TickRate,
    ) -> Result<Self, SimError> {
        let table = cluster.table.clone();
        let highest = table.as_slice().len() - 1;
        let (clock, start) = match policy.frequency()? {
            FreqPolicy::Performance => (Clock::Fixed, highest),
            FreqPolicy::Powersave => (Clock::Fixed, 0),
            FreqPolicy::Schedutil(settings) => {
                let schedutil = Schedutil::new(
                    &settings,
                    table.clone(),
                    Capacity(cluster.capacity),
                    cluster.cpus,
                    transition_delay(Nanoseconds(cluster.transition_latency)),
                    tick,
                );
                let clock = Clock::Schedutil {
                    policy: Box::new(schedutil),
                    signals: Vec::with_capacity(cluster.cpus),
                };
                (clock, 0)
            }
            FreqPolicy::Ondemand
            | FreqPolicy::IntelPstate { .. }
            | FreqPolicy::IntelPstateHwp { .. } => {
                return Err(SimError::Policy {
                    policy: policy.to_string(),
                    what: "this frequency policy; use schedutil, performance or powersave".into(),
                });
            }
        };
        Ok(Self {
            capacity: cluster.capacity,
            table,
            speed: cluster.speed.clone(),
            clock,
            current: start,
            wanted: start,
            changing: false,
            task_time: 0,
            task_khz_time: 0,
        })
    }

    /// The time in ns that `work` takes at the frequency in force, rounded up.
    pub(crate) fn time_for(&self, work: Cycles) -> u64 {
        (work * 1_000_000).div_ceil(u64::from(self.speed[self.current]))
    }

    /// The work done in `time` ns at the frequency in force, rounded down.
    pub(crate) fn work_in(&self, time: u64) -> Cycles {
        (u128::from(time) * u128::from(self.speed[self.current]) / 1_000_000) as Cycles
    }

    /// Thousands of cycles of the biggest core that a CPU does a second at its highest frequency.
    pub(crate) fn full_speed(&self) -> u32 {
        self.speed[self.speed.len() - 1]
    }

    /// Index of the operating point in force.
    pub(crate) fn current(&self) -> usize {
        self.current
    }

    /// The capacity at the frequency in force.
    pub(crate) fn capacity_now(&self) -> u32 {
        let (current, highest) = (self.khz_now(), u64::from(self.table.highest().0));
        (u64::from(self.capacity) * current / highest) as u32
    }

    /// The frequency in force.
    pub(crate) fn frequency(&self) -> Kilohertz {
        self.table.as_slice()[self.current]
    }

    fn khz_now(&self) -> u64 {
        u64::from(self.frequency().0)
    }

    /// The scheduler reports on the CPU at `index` of the cluster. Returns whether a change of
    /// frequency begins.
    pub(crate) fn update(&mut self, now: u64, index: usize, iowait: bool, cpus: &[Cpu]) -> bool {
        let Clock::Schedutil { policy, signals } = &mut self.clock else {
            return false;
        };
        signals.clear();
        signals.extend(cpus.iter().map(|cpu| CpuSignal {
            utilisation: Capacity(cpu.utilisation.get()),
            idle_calls: cpu.selections,
        }));
        let Some(next) = policy.update(Nanoseconds(now), index, iowait, signals) else {
            return false;
        };
        self.wanted = self
            .table
            .as_slice()
            .binary_search(&next)
            .unwrap_or(self.wanted);
        !std::mem::replace(&mut self.changing, true)
    }

    /// The hardware has followed; what was asked for meanwhile counts.
    pub(crate) fn arrive(&mut self) {
        self.current = self.wanted;
        self.changing = false;
    }

    /// Takes note of `time` ns of a task at the frequency in force.
    pub(crate) fn charge_task(&mut self, time: u64) {
        self.task_time += time;
        self.task_khz_time += u128::from(time) * u128::from(self.khz_now());
    }

    pub(crate) fn task_time(&self) -> u64 {
        self.task_time
    }

    pub(crate) fn task_khz_time(&self) -> u128 {
        self.task_khz_time
    }
}
