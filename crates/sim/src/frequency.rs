//! Clusters' clocks: what cpufreq asks for, and when the hardware follows.

use wakepath_policies::freq::FreqPolicy;
use wakepath_policies::freq::iowait_boost::IowaitBoost;
use wakepath_policies::spec::PolicySpec;
use wakepath_units::{Capacity, Nanoseconds, TickRate};

use crate::SimError;
use crate::cpu::Cpu;
use crate::setup::{ClusterSetup, Cycles};

/// Who decides the frequency of a cluster.
#[derive(Clone, Debug)]
enum Clock {
    Fixed,
    Schedutil {
        rate_limit: u64,
        boosts: Vec<IowaitBoost>,
        last_change: u64,
    },
}

/// A frequency domain.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    capacity: u32,
    khz: Vec<u32>,
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
        let highest = cluster.khz.len() - 1;
        let (clock, start) = match policy.frequency()? {
            FreqPolicy::Performance => (Clock::Fixed, highest),
            FreqPolicy::Powersave => (Clock::Fixed, 0),
            FreqPolicy::Schedutil(settings) => {
                let clock = Clock::Schedutil {
                    rate_limit: settings
                        .rate_limit
                        .map_or(cluster.transition_latency * 3 / 2, |limit| limit.0),
                    boosts: vec![IowaitBoost::new(settings.boost, tick); cluster.cpus],
                    last_change: 0,
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
            khz: cluster.khz.clone(),
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

    /// The capacity at the frequency in force.
    pub(crate) fn capacity_now(&self) -> u32 {
        let highest = self.khz[self.khz.len() - 1];
        (u64::from(self.capacity) * u64::from(self.khz[self.current]) / u64::from(highest)) as u32
    }

    /// The scheduler reports on the CPU at `index` of the cluster. Returns whether a change of
    /// frequency begins.
    pub(crate) fn update(&mut self, now: u64, index: usize, iowait: bool, cpus: &[Cpu]) -> bool {
        let Clock::Schedutil {
            rate_limit,
            boosts,
            last_change,
        } = &mut self.clock
        else {
            return false;
        };
        boosts[index].request(Nanoseconds(now), iowait);
        if now - *last_change < *rate_limit {
            return false;
        }
        let capacity = Capacity(self.capacity);
        let mut utilisation = 0;
        for (boost, cpu) in boosts.iter_mut().zip(cpus) {
            let boost = boost.apply(Nanoseconds(now), capacity).0;
            utilisation = utilisation.max(cpu.utilisation.get().max(boost));
        }
        let highest = self.khz[self.khz.len() - 1];
        let raw = u64::from(highest) * u64::from(utilisation + utilisation / 4)
            / u64::from(self.capacity);
        let next = self
            .khz
            .iter()
            .position(|khz| u64::from(*khz) >= raw)
            .unwrap_or(self.khz.len() - 1);
        if next == self.wanted {
            return false;
        }
        self.wanted = next;
        *last_change = now;
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
        self.task_khz_time += u128::from(time) * u128::from(self.khz[self.current]);
    }

    pub(crate) fn task_time(&self) -> u64 {
        self.task_time
    }

    pub(crate) fn task_khz_time(&self) -> u128 {
        self.task_khz_time
    }
}
