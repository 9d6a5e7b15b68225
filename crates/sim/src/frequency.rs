//! Clusters' clocks: what cpufreq asks for, and when the hardware follows.

use crate::cpu::Cpu;
use crate::setup::{ClusterSetup, Cycles};

#[derive(Clone, Copy, Debug, Default)]
struct Boost {
    value: u32,
    pending: bool,
    last: u64,
}

/// A frequency domain.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    capacity: u32,
    khz: Vec<u32>,
    speed: Vec<u32>,
    /// Operating point in force.
    current: usize,
    /// Operating point asked for.
    wanted: usize,
    changing: bool,
    boost_on: bool,
    boost: Vec<Boost>,
    last_change: u64,
    since: u64,
    task_time: u64,
    task_khz_time: u128,
    pub(crate) khz_time: u128,
}

impl Domain {
    pub(crate) fn new(c: &ClusterSetup, boost_on: bool) -> Self {
        Self {
            capacity: c.capacity,
            khz: c.khz.clone(),
            speed: c.speed.clone(),
            current: 0,
            wanted: 0,
            changing: false,
            boost_on,
            boost: vec![Boost::default(); c.cpus],
            last_change: 0,
            since: 0,
            khz_time: 0,
            task_time: 0,
            task_khz_time: 0,
        }
    }
    pub(crate) fn account(&mut self, now: u64) {
        self.khz_time += u128::from(self.khz[self.current]) * u128::from(now - self.since);
        self.since = now;
    }
    pub(crate) fn time_for(&self, work: Cycles) -> u64 {
        (work * 1_000_000).div_ceil(u64::from(self.speed[self.current]))
    }
    pub(crate) fn work_in(&self, time: u64) -> Cycles {
        (u128::from(time) * u128::from(self.speed[self.current]) / 1_000_000) as u64
    }
    pub(crate) fn capacity_now(&self) -> u32 {
        (u64::from(self.capacity) * u64::from(self.khz[self.current])
            / u64::from(self.khz[self.khz.len() - 1])) as u32
    }
    pub(crate) fn update(&mut self, now: u64, index: usize, iowait: bool, cpus: &[Cpu]) -> bool {
        const TICK: u64 = 4_000_000;
        if self.boost_on {
            let b = &mut self.boost[index];
            if b.value > 0 && now - b.last > TICK {
                b.value = if iowait { 128 } else { 0 };
                b.pending = iowait;
            } else if iowait && !b.pending {
                b.pending = true;
                b.value = if b.value == 0 {
                    128
                } else {
                    (b.value * 2).min(1024)
                };
            }
            b.last = now;
        }
        if now - self.last_change < 60_000 {
            return false;
        }
        let mut util = 0;
        for (b, c) in self.boost.iter_mut().zip(cpus) {
            let mut boost = 0;
            if b.value > 0 {
                if now - b.last > TICK {
                    b.value = 0;
                    b.pending = false;
                } else {
                    if !b.pending {
                        b.value /= 2;
                        if b.value < 128 {
                            b.value = 0;
                        }
                    }
                    b.pending = false;
                    boost = b.value * self.capacity / 1024;
                }
            }
            let u = c.utilisation.get().max(boost);
            util = util.max(u + u / 4);
        }
        let util = util.min(self.capacity);
        let want =
            u64::from(self.khz[self.khz.len() - 1]) * u64::from(util) / u64::from(self.capacity);
        let next = self
            .khz
            .iter()
            .position(|k| u64::from(*k) >= want)
            .unwrap_or(self.khz.len() - 1);
        if next == self.wanted {
            return false;
        }
        self.wanted = next;
        self.last_change = now;
        !std::mem::replace(&mut self.changing, true)
    }
    pub(crate) fn arrive(&mut self, now: u64) -> bool {
        self.account(now);
        self.current = self.wanted;
        self.changing = false;
        false
    }
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
