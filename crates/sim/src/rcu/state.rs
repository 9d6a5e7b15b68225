//! RCU: callbacks by CPU, grace periods, and the thread's next action.
//!
//! As `kernel/rcu/tree.c` in Linux 6.1 to 7.3, for CPUs never in a reader when a tick or a scan looks. A callback
//! waits for a later grace period. In a grace period, each CPU has to pass a quiescent state: the CPU says so in a
//! tick's soft interrupt, or the grace-period thread finds the CPU idle in a scan.

use crate::core::basics::CpuId;

/// One CPU's callbacks and knowledge about grace periods (`struct rcu_data`).
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuRcu {
    /// Callbacks for which no grace period has been requested yet.
    fresh: u32,
    /// For each waiting callback, the number of the grace period's end that it waits for.
    waiting: Vec<u64>,
    /// Callbacks whose grace period has ended, ready to run.
    ready: u32,
    /// Grace-period number that the CPU has noticed last.
    noticed: u64,
    /// Whether the CPU owes the running grace period a quiescent state, as far as the CPU has noticed.
    owes: bool,
    /// Whether the CPU has passed a quiescent state since it noticed the grace period.
    quiescent: bool,
}

impl CpuRcu {
    /// Whether the CPU has no callbacks, and so may stop its tick (`rcu_needs_cpu()`).
    #[inline]
    pub(crate) fn has_no_callbacks(&self) -> bool {
        self.fresh == 0 && self.ready == 0 && self.waiting.is_empty()
    }

    /// Adds a callback that a task leaves on the CPU (`call_rcu()`).
    pub(crate) fn add_callback(&mut self) {
        self.fresh += 1;
    }
}

/// Whether the grace-period thread has to be woken.
pub(crate) type WakesThread = bool;

/// What ends the grace-period thread's sleep after its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadSleep {
    /// The thread sleeps until somebody asks for a grace period.
    UntilAsked,
    /// The thread sleeps until its timer for the next scan, or until all CPUs have reported.
    UntilScan,
}

/// Grace periods of the machine (`struct rcu_state`).
#[derive(Clone, Debug)]
pub(crate) struct GracePeriods {
    /// As the kernel's `gp_seq`: grows when a grace period begins and when it ends, and is odd while a grace period runs.
    number: u64,
    /// Number of the last grace period's end that somebody awaits; nobody does if not above `number`.
    needed: u64,
    /// By CPU, whether it has not reported a quiescent state in the running grace period.
    missing: Vec<bool>,
    /// Number of idle periods by CPU at the grace period's first scan, once made.
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

    fn grace_period_is_running(&self) -> bool {
        self.number % 2 == 1
    }

    fn all_cpus_reported(&self) -> bool {
        !self.missing.contains(&true)
    }

    /// Notes the quiescent state of a tick on a CPU. Returns whether the tick raises RCU's soft interrupt (`rcu_pending()`).
    pub(crate) fn note_tick_and_check_soft_interrupt(&self, cpu: &mut CpuRcu) -> bool {
        cpu.quiescent = true;
        cpu.owes
            || cpu.ready > 0
            || (!self.grace_period_is_running() && cpu.fresh > 0)
            || cpu.noticed != self.number
    }

    /// Serves RCU's soft interrupt on a CPU (`rcu_core()`). Returns whether it wakes the grace-period thread.
    pub(crate) fn serve_soft_interrupt(&mut self, id: CpuId, cpu: &mut CpuRcu) -> WakesThread {
        let mut wakes = self.notice_grace_period_changes(id, cpu);
        if cpu.owes && cpu.quiescent {
            cpu.owes = false;
            // This grace period cannot end before the report, so the next one is enough for all callbacks.
            wakes |= self.request_grace_period_for_fresh(cpu);
            self.missing[id] = false;
            wakes |= self.all_cpus_reported();
        }
        if !self.grace_period_is_running() {
            wakes |= self.request_grace_period_for_fresh(cpu);
        }
        cpu.ready = 0;
        wakes
    }

    /// Makes a CPU notice begun and ended grace periods (`note_gp_changes()`). Returns whether to wake the thread.
    fn notice_grace_period_changes(&mut self, id: CpuId, cpu: &mut CpuRcu) -> WakesThread {
        if cpu.noticed == self.number {
            return false;
        }
        let before = cpu.waiting.len();
        cpu.waiting.retain(|end| *end > self.number);
        cpu.ready += (before - cpu.waiting.len()) as u32;
        let wakes = self.request_grace_period_for_fresh(cpu);
        cpu.noticed = self.number;
        cpu.owes = self.grace_period_is_running() && self.missing[id];
        cpu.quiescent = false;
        wakes
    }

    /// Requests a grace period for a CPU's new callbacks (`rcu_accelerate_cbs()`). Returns whether to wake the thread.
    fn request_grace_period_for_fresh(&mut self, cpu: &mut CpuRcu) -> WakesThread {
        if cpu.fresh == 0 {
            return false;
        }
        // A running grace period may have begun before the callbacks.
        let end = self.number.div_ceil(2) * 2 + 2;
        cpu.waiting
            .extend(std::iter::repeat_n(end, cpu.fresh as usize));
        cpu.fresh = 0;
        let wakes = !self.grace_period_is_running() && self.needed < end;
        self.needed = self.needed.max(end);
        wakes
    }

    /// Lets the grace-period thread, running on a CPU, scan, end or begin a grace period. Returns what ends its sleep. `idle`
    /// says whether a CPU is idle, and how often it has been.
    pub(crate) fn advance_grace_period_thread(
        &mut self,
        id: CpuId,
        cpu: &mut CpuRcu,
        idle: impl Fn(CpuId) -> (bool, u64),
    ) -> ThreadSleep {
        if self.grace_period_is_running() {
            if !self.all_cpus_reported() {
                self.report_for_idle_cpus(idle);
            }
            if !self.all_cpus_reported() {
                return ThreadSleep::UntilScan;
            }
            self.number += 1;
            self.notice_grace_period_changes(id, cpu);
        }
        if self.needed <= self.number {
            return ThreadSleep::UntilAsked;
        }
        self.number += 1;
        self.missing.fill(true);
        self.snapshot = None;
        self.notice_grace_period_changes(id, cpu);
        ThreadSleep::UntilScan
    }

    /// Reports a quiescent state for each CPU that is idle, or has been since the first scan (`force_qs_rnp()`).
    fn report_for_idle_cpus(&mut self, idle: impl Fn(CpuId) -> (bool, u64)) {
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
        assert!(
            !all.note_tick_and_check_soft_interrupt(&mut cpu),
            "nothing to do"
        );
        cpu.add_callback();
        assert!(all.note_tick_and_check_soft_interrupt(&mut cpu));
        assert!(all.serve_soft_interrupt(0, &mut cpu), "it asks for one");
        assert_eq!(
            all.advance_grace_period_thread(0, &mut cpu, ALWAYS_IDLE),
            ThreadSleep::UntilScan
        );
        // A second callback comes too late for the running grace period.
        cpu.add_callback();
        assert!(all.note_tick_and_check_soft_interrupt(&mut cpu));
        assert!(all.serve_soft_interrupt(0, &mut cpu), "the last report");
        assert_eq!(
            all.advance_grace_period_thread(0, &mut cpu, ALWAYS_IDLE),
            ThreadSleep::UntilScan
        );
        assert!(all.note_tick_and_check_soft_interrupt(&mut cpu));
        all.serve_soft_interrupt(0, &mut cpu);
        assert!(!cpu.has_no_callbacks(), "the second one waits");
        assert_eq!(
            all.advance_grace_period_thread(0, &mut cpu, ALWAYS_IDLE),
            ThreadSleep::UntilAsked
        );
        assert!(all.note_tick_and_check_soft_interrupt(&mut cpu));
        assert!(!all.serve_soft_interrupt(0, &mut cpu));
        assert!(cpu.has_no_callbacks());
        assert!(
            !all.note_tick_and_check_soft_interrupt(&mut cpu),
            "nothing is left to do"
        );
    }

    #[test]
    fn a_busy_cpu_is_waited_for_until_it_was_idle() {
        let (mut all, mut cpu) = (GracePeriods::new(2), CpuRcu::default());
        cpu.add_callback();
        all.serve_soft_interrupt(0, &mut cpu);
        all.advance_grace_period_thread(0, &mut cpu, ALWAYS_IDLE);
        let busy = |times| move |id: CpuId| (id == 0, times);
        assert_eq!(
            all.advance_grace_period_thread(0, &mut cpu, busy(7)),
            ThreadSleep::UntilScan
        );
        assert_eq!(
            all.advance_grace_period_thread(0, &mut cpu, busy(7)),
            ThreadSleep::UntilScan
        );
        assert_eq!(
            all.advance_grace_period_thread(0, &mut cpu, busy(8)),
            ThreadSleep::UntilAsked
        );
    }

    #[test]
    fn the_last_report_wakes_the_thread() {
        let mut all = GracePeriods::new(2);
        let mut cpus = [CpuRcu::default(), CpuRcu::default()];
        cpus[0].add_callback();
        all.serve_soft_interrupt(0, &mut cpus[0]);
        all.advance_grace_period_thread(0, &mut cpus[0], ALWAYS_IDLE);
        assert!(all.note_tick_and_check_soft_interrupt(&mut cpus[0]));
        assert!(!all.serve_soft_interrupt(0, &mut cpus[0]), "one is missing");
        assert!(all.note_tick_and_check_soft_interrupt(&mut cpus[1]));
        assert!(
            !all.serve_soft_interrupt(1, &mut cpus[1]),
            "it has only noticed"
        );
        assert!(all.note_tick_and_check_soft_interrupt(&mut cpus[1]));
        assert!(all.serve_soft_interrupt(1, &mut cpus[1]));
        assert_eq!(
            all.advance_grace_period_thread(0, &mut cpus[0], ALWAYS_IDLE),
            ThreadSleep::UntilAsked
        );
    }
}
