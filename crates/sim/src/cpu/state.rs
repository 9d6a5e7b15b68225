//! One CPU, made from a part per mechanism. Only a mechanism's folder opens that mechanism's part.

use wakepath_policies::freq::schedutil::CpuSignal;
use wakepath_policies::idle::Governor;
use wakepath_policies::psd::{Lease, PsdPolicy};
use wakepath_units::{Capacity, Kilohertz};

use crate::core::basics::{Cycles, Interrupt, NEVER, Timer};
use crate::core::parts::Work;
use crate::core::queue::fifo::Fifo;
use crate::core::speed::Speed;
use crate::cpu::clock_events::{CpuTimers, Tick};
use crate::cpu::idle::Idle;
use crate::cpu::idle_table::IdleTable;
use crate::cpu::phase::{Mode, Phase};
use crate::cpu::power_times::{PowerTimes, Running};
use crate::cpu::totals::CpuTotals;
use crate::rcu::state::CpuRcu;
use crate::scheduler::run_queue::RunQueue;

/// A CPU's activity, for observers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// In an idle state, by index.
    Idle(usize),
    /// Leaving an idle state.
    Waking,
    /// Serving an interrupt.
    Interrupt(Interrupt),
    /// Running its current task.
    Task,
}

#[derive(Debug)]
pub(crate) struct Cpu<'a> {
    /// Number of the CPU's cluster.
    pub(crate) cluster: usize,
    /// Number of the CPU's clock.
    pub(crate) domain: usize,
    pub(crate) run_queue: RunQueue,
    /// The CPU's part in grace periods.
    pub(crate) rcu: CpuRcu,
    pub(super) phase: Phase,
    /// Pending interrupts.
    pub(super) interrupts: Fifo<Interrupt>,
    pub(super) tick: Tick,
    pub(super) timers: CpuTimers,
    pub(super) idle: Idle<'a>,
    pub(super) power: PowerTimes,
    pub(super) totals: CpuTotals,
}

impl<'a> Cpu<'a> {
    /// A CPU after a long idle time.
    pub(crate) fn new(
        cluster: usize,
        idle: &'a IdleTable,
        domain: usize,
        governor: Governor,
        latency_request: i64,
        lease: Option<(Lease, PsdPolicy)>,
        operating_points: usize,
    ) -> Self {
        Self {
            cluster,
            domain,
            run_queue: RunQueue::new(),
            rcu: CpuRcu::default(),
            phase: Phase::idle(),
            interrupts: Fifo::new(),
            tick: Tick::stopped(),
            timers: CpuTimers::default(),
            idle: Idle::new(idle, governor, latency_request, lease),
            power: PowerTimes::powered(),
            totals: CpuTotals::new(idle.states.len(), operating_points),
        }
    }

    /// The present activity.
    pub(crate) fn doing(&self) -> Doing {
        match self.phase.mode {
            Mode::Idle => Doing::Idle(self.idle.state),
            Mode::Waking => Doing::Waking,
            Mode::Interrupt => Doing::Interrupt(self.phase.serving),
            Mode::Task => Doing::Task,
        }
    }

    /// What kind of phase it is in.
    #[inline(always)]
    pub(crate) fn mode(&self) -> Mode {
        self.phase.mode
    }

    /// Running its current task.
    #[inline(always)]
    pub(crate) fn runs_task(&self) -> bool {
        self.phase.mode == Mode::Task
    }

    /// At work for a task or an interrupt.
    #[inline(always)]
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.phase.mode, Mode::Task | Mode::Interrupt)
    }

    /// Busy, waking up or polling.
    #[inline(always)]
    pub(crate) fn is_powered(&self) -> bool {
        self.power.powered_since.is_some()
    }

    /// In the kernel's idle loop, whatever interrupts are served meanwhile.
    #[inline(always)]
    pub(crate) fn is_in_idle_loop(&self) -> bool {
        self.idle.in_loop
    }

    /// Whether the CPU is in an idle state, and does not look at its run queue by itself.
    #[inline(always)]
    pub(crate) fn waits_for_work(&self) -> bool {
        self.phase.mode == Mode::Idle
    }

    /// Whether the idle state watches the need-resched flag, so that a new task needs no interrupt.
    #[inline(always)]
    pub(crate) fn watches_for_work(&self) -> bool {
        self.idle.polling_until.is_some() || self.idle.table.states[self.idle.state].mwait
    }

    /// End of the last idle period.
    #[inline(always)]
    pub(crate) fn awake_since(&self) -> u64 {
        self.idle.awake_since
    }

    /// Number of idle periods so far.
    #[inline(always)]
    pub(crate) fn times_idle(&self) -> u64 {
        self.totals.selections
    }

    /// Why a user's own governor has failed, if the CPU has one.
    pub(crate) fn governor_failure(&self) -> Option<&str> {
        self.idle.governor.failure_reason()
    }

    /// The figures that schedutil looks at.
    #[inline]
    pub(crate) fn signal(&self) -> CpuSignal {
        CpuSignal {
            utilisation: Capacity(self.run_queue.utilisation().out_of_1024()),
            runnable: Capacity(self.run_queue.runnable().tasks_times_1024()),
            idle_calls: self.totals.selections,
        }
    }

    /// Adds a pending interrupt, for the end of the present phase.
    #[inline(always)]
    pub(crate) fn raise(&mut self, interrupt: Interrupt) {
        self.interrupts.push_back(interrupt);
    }

    /// Takes out the pending interrupt with the least rank, the first among several.
    pub(crate) fn take_interrupt_by(
        &mut self,
        rank: impl Fn(Interrupt) -> u8,
    ) -> Option<Interrupt> {
        let pending = self.interrupts.iter().enumerate();
        let (index, _) = pending.min_by_key(|(_, interrupt)| rank(**interrupt))?;
        self.interrupts.remove(index)
    }

    /// Whether a tick or a timer has interrupted the CPU.
    pub(super) fn has_timer_interrupt(&self) -> bool {
        let mut pending = self.interrupts.iter();
        pending.any(|interrupt| matches!(interrupt, Interrupt::Tick | Interrupt::Timer(_)))
    }

    /// Whether any interrupt is pending.
    pub(crate) fn has_interrupt(&self) -> bool {
        !self.interrupts.is_empty()
    }

    /// Starts a high-resolution timer, which may expire up to `slack` ns before `at`.
    pub(crate) fn add_timer(&mut self, at: u64, slack: u64, timer: Timer) {
        self.timers.precise.add_with_slack(at, slack, timer);
    }

    /// Starts a timer-wheel timer.
    pub(crate) fn add_wheel_timer(&mut self, at: u64, timer: Timer) {
        self.timers.wheel.add(at, timer);
    }

    /// Stops a timer-wheel timer. Returns whether the timer was pending.
    pub(crate) fn remove_wheel_timer(&mut self, timer: Timer) -> bool {
        self.timers.wheel.remove(timer)
    }

    /// Work to be done before anything else: caches are to be refilled.
    #[inline(always)]
    pub(crate) fn add_cold_work(&mut self, work: Cycles) {
        self.phase.cold += work;
    }

    /// Begin of serving the present or last interrupt.
    #[inline(always)]
    pub(crate) fn interrupt_begun(&self) -> u64 {
        self.phase.service.start
    }

    /// Work of serving the present or last interrupt.
    #[inline(always)]
    pub(crate) fn interrupt_work(&self, full_speed: Speed) -> Work {
        let service = &self.phase.service;
        Work::new(service.work, service.cold, full_speed)
    }

    /// Run time of the current task not yet accounted, in ns.
    #[inline(always)]
    pub(crate) fn unaccounted_run(&self, now: u64) -> u64 {
        if self.runs_task() {
            now - self.phase.start
        } else {
            0
        }
    }

    /// The next time for the clock to wake or interrupt this CPU.
    #[inline(always)]
    pub(super) fn next_clock_event(&self) -> u64 {
        self.tick.next.min(self.timers.next())
    }

    /// Accounts the time powered so far, at operating point `opp`.
    #[inline(always)]
    pub(super) fn settle_power(&mut self, now: u64, opp: usize) {
        match &mut self.power.powered_since {
            Some(since) => {
                self.totals.powered[opp] += now - *since;
                *since = now;
            }
            None => self.settle_sleep(now),
        }
    }

    /// Accounts the polling time of the present phase, at operating point `opp`.
    #[inline(always)]
    pub(super) fn settle_polling(&mut self, now: u64, opp: usize) {
        if self.phase.mode == Mode::Idle && self.idle.polling_until.is_some() {
            let at = self.idle.state * self.totals.powered.len() + opp;
            self.totals.polled[at] += now - self.phase.start;
            self.phase.start = now;
        }
    }

    fn settle_sleep(&mut self, now: u64) {
        if self.idle.undemoted_at < now {
            let demoted = self.idle.undemoted_at - self.power.asleep_since;
            self.totals.states[self.power.asleep_in].asleep += demoted;
            self.power.asleep_since = self.idle.undemoted_at;
            self.power.asleep_in = self.idle.state;
            self.idle.undemoted_at = NEVER;
        }
        self.totals.states[self.power.asleep_in].asleep += now - self.power.asleep_since;
        self.power.asleep_since = now;
    }

    /// Goes to sleep in this state.
    #[inline(always)]
    pub(super) fn power_down(&mut self, now: u64, opp: usize, state: usize) {
        self.settle_power(now, opp);
        self.power.powered_since = None;
        self.power.asleep_since = now;
        self.power.asleep_in = state;
    }

    /// Begins to wake up.
    pub(super) fn power_up(&mut self, now: u64) {
        self.settle_sleep(now);
        self.power.powered_since = Some(now);
    }

    /// The clock's running time by now, busy or polling, as the processor's own counters see it; `current` is the
    /// operating point in `khz`.
    pub(crate) fn running_until(&self, now: u64, current: usize, khz: &[Kilohertz]) -> Running {
        let mut sum = Running::default();
        // Powered time not yet settled was over when the wake-up began, if there is one.
        let until = self.power.waking_since.unwrap_or(now);
        let running = self
            .power
            .powered_since
            .map(|since| (until.saturating_sub(since), khz[current]));
        let before = self.totals.powered.iter().copied().zip(khz.iter().copied());
        for (time, Kilohertz(khz)) in before.chain(running) {
            sum.time += time;
            sum.khz_time += u128::from(time) * u128::from(khz);
        }
        sum.time -= self.power.waking.time;
        sum.khz_time -= self.power.waking.khz_time;
        sum
    }

    /// Begins to leave `state`.
    pub(super) fn begin_waking(&mut self, now: u64, state: usize) {
        self.power.waking_since = Some(now);
        self.power.leaving = state;
    }

    /// Has woken up.
    pub(super) fn end_waking(&mut self, now: u64, opp: usize, khz: u64) {
        self.settle_waking(now, opp, khz);
        self.power.waking_since = None;
    }

    /// Accounts the waking time so far, at operating point `opp` of `khz`.
    #[inline(always)]
    pub(super) fn settle_waking(&mut self, now: u64, opp: usize, khz: u64) {
        let power = &mut self.power;
        let Some(since) = &mut power.waking_since else {
            return;
        };
        let time = now - std::mem::replace(since, now);
        power.waking.time += time;
        self.totals.left[power.leaving * self.totals.powered.len() + opp] += time;
        power.waking.khz_time += u128::from(time) * u128::from(khz);
    }

    /// Accounts the times powered, polling and waking up to now, at operating point `opp` of `khz`.
    pub(crate) fn settle_times(&mut self, now: u64, opp: usize, khz: u64) {
        self.settle_power(now, opp);
        self.settle_polling(now, opp);
        self.settle_waking(now, opp, khz);
    }

    /// Totals up to the last call of [`Cpu::settle_times`].
    pub(crate) fn totals(&self) -> &CpuTotals {
        &self.totals
    }

    /// Busy time by now, in ns.
    pub(crate) fn busy_until(&self, now: u64) -> u64 {
        if self.is_busy() {
            self.totals.busy + (now - self.phase.start)
        } else {
            self.totals.busy
        }
    }

    /// Totals by now, at operating point `opp`; the cluster has been down for `cluster_down` ns in all.
    pub(crate) fn totals_until(&self, now: u64, opp: usize, cluster_down: u64) -> CpuTotals {
        let mut totals = CpuTotals {
            busy: self.busy_until(now),
            demotions: self.idle.demotion.demotions,
            undemotions: self.idle.demotion.undemotions,
            ..self.totals.clone()
        };
        let points = totals.powered.len();
        if let Some(since) = self.power.powered_since {
            totals.powered[opp] += now - since;
        } else {
            let undemoted = self.idle.undemoted_at.clamp(self.power.asleep_since, now);
            let later = if self.idle.undemoted_at < now {
                self.idle.state
            } else {
                self.power.asleep_in
            };
            totals.states[self.power.asleep_in].asleep += undemoted - self.power.asleep_since;
            totals.states[later].asleep += now - undemoted;
            if self.idle.is_in_cluster_state() {
                totals.states[self.idle.state].down += cluster_down - self.idle.down_before;
            }
        }
        if let Some(since) = self.power.waking_since {
            totals.left[self.power.leaving * points + opp] += now - since;
        }
        let polls = self.idle.polling_until.is_some();
        let in_phase = now - self.phase.start;
        if self.phase.mode == Mode::Idle && polls {
            totals.polled[self.idle.state * points + opp] += in_phase;
        }
        if !self.is_busy() || polls {
            let busy = self.idle.busy_in_period + if self.is_busy() { in_phase } else { 0 };
            totals.states[self.idle.state].time += now - self.idle.since - busy;
        }
        totals
    }
}
