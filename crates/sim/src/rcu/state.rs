//! RCU: callbacks by CPU, grace periods, and the thread's next action.
//!
//! As `kernel/rcu/tree.c` in Linux 6.1 to 7.3, for CPUs never in a reader when a tick or a scan looks. A callback
//! waits for a later grace period. In a grace period, each CPU has to pass a quiescent state: the CPU says so in a
//! tick's soft interrupt, or the grace-period thread finds the CPU idle in a scan.

use crate::core::basics::CpuId;

/// One CPU's callbacks and knowledge about grace periods (`struct rcu_data`).
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuRcu {
    /// Callbacks without a grace period asked for yet.
    fresh: u32,
    /// Grace-period ends for other waiting callbacks.
    waiting: Vec<u64>,
    /// Callbacks with an ended grace period.
    ready: u32,
    /// The last noticed grace-period number.
    noticed: u64,
    /// The grace period waits for this CPU's quiescent state, as far as noticed.
    owes: bool,
    /// The CPU has passed a quiescent state since.
    quiescent: bool,
}

impl CpuRcu {
    /// Whether the CPU has no callbacks, and may stop the tick (`rcu_needs_cpu()`).
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.fresh == 0 && self.ready == 0 && self.waiting.is_empty()
    }

    /// A task leaves a callback here (`call_rcu()`).
    pub(crate) fn call(&mut self) {
        self.fresh += 1;
    }
}

/// The grace-period thread's sleep after some work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadSleep {
    /// Until somebody asks for a grace period.
    UntilAsked,
    /// Until the timer for the next scan, or until all CPUs have reported.
    UntilScan,
}

/// Grace periods of the machine (`struct rcu_state`).
#[derive(Clone, Debug)]
pub(crate) struct GracePeriods {
    /// As `gp_seq`: grows when a grace period begins and when one ends, and is odd while one runs.
    number: u64,
    /// The awaited end, if larger.
    needed: u64,
    /// CPUs without a quiescent state in this grace period.
    missing: Vec<bool>,
    /// Idle counts by CPU at the first scan, if there was one.
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
            // This grace period cannot end before the report, so the next one is enough for all callbacks.
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

    /// A CPU notices begun and ended grace periods (`note_gp_changes()`). Returns whether to wake the thread.
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

    /// Asks for a grace period for new callbacks (`rcu_accelerate_cbs()`). Returns whether to wake the thread.
    fn ask(&mut self, cpu: &mut CpuRcu) -> bool {
        if cpu.fresh == 0 {
            return false;
        }
        // A running grace period may have begun before the callbacks.
        let end = self.number.div_ceil(2) * 2 + 2;
        cpu.waiting
            .extend(std::iter::repeat_n(end, cpu.fresh as usize));
        cpu.fresh = 0;
        let wakes = !self.runs() && self.needed < end;
        self.needed = self.needed.max(end);
        wakes
    }

    /// The thread has worked on a CPU, woken to begin a grace period, for a scan, or because all have reported. `idle`
    /// says whether a CPU is idle, and how often the CPU has been.
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
        // A second callback comes too late for the running grace period.
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
