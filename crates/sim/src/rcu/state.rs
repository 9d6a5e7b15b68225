//! RCU: callbacks of CPUs, grace periods, and what their thread does next.
//!
//! As `kernel/rcu/tree.c` of Linux 6.1 to 7.3, for CPUs that are never in a reader when a tick or a scan looks. A callback waits for a
//! grace period that begins after it. In one, each CPU has to pass a quiescent state: it says so in the soft interrupt of a tick,
//! or the thread of grace periods finds it idle when it scans.

use crate::core::basics::CpuId;

/// Of one CPU: its callbacks, and what it knows of grace periods (`struct rcu_data`).
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuRcu {
    /// Callbacks that no grace period was asked for yet.
    fresh: u32,
    /// Ends of the grace periods that the others wait for.
    waiting: Vec<u64>,
    /// Callbacks whose grace period is over.
    ready: u32,
    /// The number of the grace periods that it last noticed.
    noticed: u64,
    /// The grace period waits for its quiescent state, as far as it has noticed.
    owes: bool,
    /// It has passed one since.
    quiescent: bool,
}

impl CpuRcu {
    /// It has no callbacks, and may stop its tick (`rcu_needs_cpu()`).
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.fresh == 0 && self.ready == 0 && self.waiting.is_empty()
    }

    /// A task leaves a callback here (`call_rcu()`).
    pub(crate) fn call(&mut self) {
        self.fresh += 1;
    }
}

/// What the thread of grace periods does when it has worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadSleep {
    /// It sleeps until somebody asks for a grace period.
    UntilAsked,
    /// It sleeps until its timer for the next scan, or until all CPUs have reported.
    UntilScan,
}

/// Grace periods of the machine (`struct rcu_state`).
#[derive(Clone, Debug)]
pub(crate) struct GracePeriods {
    /// As `gp_seq`: it grows when a grace period begins and when it ends, and is odd while one runs.
    number: u64,
    /// The end that somebody waits for, if it is larger.
    needed: u64,
    /// CPUs that have not passed a quiescent state in this one.
    missing: Vec<bool>,
    /// How often each of them had been idle at the first scan, if there was one.
    snapshot: Option<Vec<u64>>,
}

impl GracePeriods {
    pub(crate) fn new(cpus: usize) -> Self {
        Self {
            number: 0,
            needed: 0,
            missing: vec![false; cpus],
            snapshot: None,
        }
    }

    fn runs(&self) -> bool {
        self.number % 2 == 1
    }

    fn all_reported(&self) -> bool {
        !self.missing.contains(&true)
    }

    /// A tick on a CPU. Returns whether it raises the soft interrupt (`rcu_pending()`).
    pub(crate) fn tick(&self, cpu: &mut CpuRcu) -> bool {
        cpu.quiescent = true;
        cpu.owes || cpu.ready > 0 || (!self.runs() && cpu.fresh > 0) || cpu.noticed != self.number
    }

    /// The soft interrupt on a CPU (`rcu_core()`). Returns whether it wakes the thread.
    pub(crate) fn soft_interrupt(&mut self, id: CpuId, cpu: &mut CpuRcu) -> bool {
        let mut wakes = self.notice(id, cpu);
        if cpu.owes && cpu.quiescent {
            cpu.owes = false;
            // This grace period cannot end before the report, so that the next one is enough for all callbacks.
            wakes |= self.ask(cpu);
            self.missing[id] = false;
            wakes |= self.all_reported();
        }
        if !self.runs() {
            wakes |= self.ask(cpu);
        }
        cpu.ready = 0;
        wakes
    }

    /// A CPU notices which grace periods have begun and ended (`note_gp_changes()`). Returns whether it wakes the thread.
    fn notice(&mut self, id: CpuId, cpu: &mut CpuRcu) -> bool {
        if cpu.noticed == self.number {
            return false;
        }
        let before = cpu.waiting.len();
        cpu.waiting.retain(|end| *end > self.number);
        cpu.ready += (before - cpu.waiting.len()) as u32;
        let wakes = self.ask(cpu);
        cpu.noticed = self.number;
        cpu.owes = self.runs() && self.missing[id];
        cpu.quiescent = false;
        wakes
    }

    /// Asks for a grace period for callbacks that have none (`rcu_accelerate_cbs()`). Returns whether it wakes the thread.
    fn ask(&mut self, cpu: &mut CpuRcu) -> bool {
        if cpu.fresh == 0 {
            return false;
        }
        // One that runs may have begun before the callbacks.
        let end = self.number.div_ceil(2) * 2 + 2;
        cpu.waiting
            .extend(std::iter::repeat_n(end, cpu.fresh as usize));
        cpu.fresh = 0;
        let wakes = !self.runs() && self.needed < end;
        self.needed = self.needed.max(end);
        wakes
    }

    /// The thread has worked on a CPU, woken to begin a grace period, for a scan, or because all have reported. `idle` says of a CPU
    /// whether it is idle, and how often it has been.
    pub(crate) fn work(
        &mut self,
        id: CpuId,
        cpu: &mut CpuRcu,
        idle: impl Fn(CpuId) -> (bool, u64),
    ) -> ThreadSleep {
        if self.runs() {
            if !self.all_reported() {
                self.scan(idle);
            }
            if !self.all_reported() {
                return ThreadSleep::UntilScan;
            }
            self.number += 1;
            self.notice(id, cpu);
        }
        if self.needed <= self.number {
            return ThreadSleep::UntilAsked;
        }
        self.number += 1;
        self.missing.fill(true);
        self.snapshot = None;
        self.notice(id, cpu);
        ThreadSleep::UntilScan
    }

    /// Reports for CPUs that are idle, or have been since the first scan (`force_qs_rnp()`).
    fn scan(&mut self, idle: impl Fn(CpuId) -> (bool, u64)) {
        let cpus = 0..self.missing.len();
        let now: Vec<(bool, u64)> = cpus.map(idle).collect();
        for (id, missing) in self.missing.iter_mut().enumerate() {
            let (is_idle, times) = now[id];
            let was_idle = (self.snapshot.as_ref()).is_some_and(|first| first[id] != times);
            *missing &= !(is_idle || was_idle);
        }
        if self.snapshot.is_none() {
            self.snapshot = Some(now.into_iter().map(|(_, times)| times).collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALWAYS_IDLE: fn(CpuId) -> (bool, u64) = |_| (true, 0);

    #[test]
    fn a_callback_waits_for_one_whole_grace_period() {
        let (mut all, mut cpu) = (GracePeriods::new(1), CpuRcu::default());
        assert!(!all.tick(&mut cpu), "nothing to do");
        cpu.call();
        assert!(all.tick(&mut cpu));
        assert!(all.soft_interrupt(0, &mut cpu), "it asks for one");
        assert_eq!(all.work(0, &mut cpu, ALWAYS_IDLE), ThreadSleep::UntilScan);
        // A second one comes too late for the one that runs.
        cpu.call();
        assert!(all.tick(&mut cpu));
        assert!(all.soft_interrupt(0, &mut cpu), "the last report");
        assert_eq!(all.work(0, &mut cpu, ALWAYS_IDLE), ThreadSleep::UntilScan);
        assert!(all.tick(&mut cpu));
        all.soft_interrupt(0, &mut cpu);
        assert!(!cpu.is_empty(), "the second one waits");
        assert_eq!(all.work(0, &mut cpu, ALWAYS_IDLE), ThreadSleep::UntilAsked);
        assert!(all.tick(&mut cpu));
        assert!(!all.soft_interrupt(0, &mut cpu));
        assert!(cpu.is_empty());
        assert!(!all.tick(&mut cpu), "nothing is left to do");
    }

    #[test]
    fn a_busy_cpu_is_waited_for_until_it_was_idle() {
        let (mut all, mut cpu) = (GracePeriods::new(2), CpuRcu::default());
        cpu.call();
        all.soft_interrupt(0, &mut cpu);
        all.work(0, &mut cpu, ALWAYS_IDLE);
        let busy = |times| move |id: CpuId| (id == 0, times);
        assert_eq!(all.work(0, &mut cpu, busy(7)), ThreadSleep::UntilScan);
        assert_eq!(all.work(0, &mut cpu, busy(7)), ThreadSleep::UntilScan);
        assert_eq!(all.work(0, &mut cpu, busy(8)), ThreadSleep::UntilAsked);
    }

    #[test]
    fn the_last_report_wakes_the_thread() {
        let mut all = GracePeriods::new(2);
        let mut cpus = [CpuRcu::default(), CpuRcu::default()];
        cpus[0].call();
        all.soft_interrupt(0, &mut cpus[0]);
        all.work(0, &mut cpus[0], ALWAYS_IDLE);
        assert!(all.tick(&mut cpus[0]));
        assert!(!all.soft_interrupt(0, &mut cpus[0]), "one is missing");
        assert!(all.tick(&mut cpus[1]));
        assert!(!all.soft_interrupt(1, &mut cpus[1]), "it has only noticed");
        assert!(all.tick(&mut cpus[1]));
        assert!(all.soft_interrupt(1, &mut cpus[1]));
        assert_eq!(
            all.work(0, &mut cpus[0], ALWAYS_IDLE),
            ThreadSleep::UntilAsked
        );
    }
}
