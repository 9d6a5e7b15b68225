//! One CPU, made from a part per mechanism. Only a mechanism's folder opens that mechanism's part.

use wakepath_policies::freq::schedutil::CpuSignal;
use wakepath_policies::idle::Governor;
use wakepath_policies::psd::{IdleDepthLease, PsdPolicy};
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

/// A CPU's present activity, as observers are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// The CPU is in the idle state with this index.
    Idle(usize),
    /// The CPU leaves an idle state.
    Waking,
    /// The CPU serves an interrupt.
    Interrupt(Interrupt),
    /// The CPU runs its current task.
    Task,
}

#[derive(Debug)]
pub(crate) struct Cpu<'a> {
    /// Number of the CPU's cluster.
    pub(crate) cluster: usize,
    /// Number of the CPU's clock.
    pub(crate) domain: usize,
    pub(crate) run_queue: RunQueue,
    /// The CPU's RCU callbacks and its part in grace periods.
    pub(crate) rcu: CpuRcu,
    pub(super) phase: Phase,
    /// Interrupts not served yet, in the order of arrival.
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
        lease: Option<(IdleDepthLease, PsdPolicy)>,
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
            power: PowerTimes::powered_from_start(),
            totals: CpuTotals::new(idle.states.len(), operating_points),
        }
    }

    /// The CPU's present activity, as observers are told.
    pub(crate) fn present_activity(&self) -> Doing {
        match self.phase.mode {
            Mode::Idle => Doing::Idle(self.idle.state),
            Mode::Waking => Doing::Waking,
            Mode::Interrupt => Doing::Interrupt(self.phase.serving),
            Mode::Task => Doing::Task,
        }
    }

    /// The kind of the CPU's present phase.
    #[inline(always)]
    pub(crate) fn phase_mode(&self) -> Mode {
        self.phase.mode
    }

    /// Whether the CPU is running its current task.
    #[inline(always)]
    pub(crate) fn runs_task(&self) -> bool {
        self.phase.mode == Mode::Task
    }

    /// Whether the CPU is at work for a task or an interrupt.
    #[inline(always)]
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.phase.mode, Mode::Task | Mode::Interrupt)
    }

    /// Whether the host of a virtual machine has taken the CPU, which counts as busy with an interrupt.
    #[inline(always)]
    pub(super) fn is_stolen(&self) -> bool {
        self.phase.mode == Mode::Interrupt && self.phase.serving == Interrupt::Stolen
    }

    /// Whether the CPU is powered: busy, waking up or polling, and not asleep.
    #[inline(always)]
    pub(crate) fn is_powered(&self) -> bool {
        self.power.powered_since.is_some()
    }

    /// In the kernel's idle loop, whatever interrupts are served meanwhile.
    #[inline(always)]
    pub(crate) fn is_in_idle_loop(&self) -> bool {
        self.idle.in_loop
    }

    /// Whether the CPU is asleep or polling in an idle state.
    #[inline(always)]
    pub(crate) fn is_in_idle_state(&self) -> bool {
        self.phase.mode == Mode::Idle
    }

    /// Whether the CPU's idle state watches the need-resched flag, so that a new task needs no interrupt.
    #[inline(always)]
    pub(crate) fn idle_state_watches_need_resched(&self) -> bool {
        self.idle.polling_until.is_some() || self.idle.table.states[self.idle.state].mwait
    }

    /// Time in ns when the CPU's last idle period ended.
    #[inline(always)]
    pub(crate) fn awake_since(&self) -> u64 {
        self.idle.awake_since
    }

    /// Number of the CPU's idle periods so far.
    #[inline(always)]
    pub(crate) fn idle_period_count(&self) -> u64 {
        self.totals.selections
    }

    /// Why the CPU's user-written governor has failed; `None` if it has not.
    pub(crate) fn governor_failure(&self) -> Option<&str> {
        self.idle.governor.failure_reason()
    }

    /// The CPU's figures that schedutil looks at.
    #[inline]
    pub(crate) fn schedutil_signal(&self) -> CpuSignal {
        CpuSignal {
            utilisation: Capacity(self.run_queue.utilisation().out_of_1024()),
            runnable: Capacity(
                self.run_queue
                    .mean_runnable_tasks()
                    .average_tasks_times_1024(),
            ),
            idle_calls: self.totals.selections,
        }
    }

    /// Adds a pending interrupt, served at the end of the present phase.
    #[inline(always)]
    pub(crate) fn add_pending_interrupt(&mut self, interrupt: Interrupt) {
        self.interrupts.push_back(interrupt);
    }

    /// Removes and returns the pending interrupt with the least rank, the first among equals.
    pub(crate) fn take_interrupt_of_least_rank(
        &mut self,
        rank: impl Fn(Interrupt) -> u8,
    ) -> Option<Interrupt> {
        let pending = self.interrupts.iter().enumerate();
        let (index, _) = pending.min_by_key(|(_, interrupt)| rank(**interrupt))?;
        self.interrupts.remove_at(index)
    }

    /// Whether a tick or timer is among the CPU's pending interrupts.
    pub(super) fn has_pending_timer_interrupt(&self) -> bool {
        let mut pending = self.interrupts.iter();
        pending.any(|interrupt| matches!(interrupt, Interrupt::Tick | Interrupt::Timer(_)))
    }

    /// Whether any interrupt is pending.
    pub(crate) fn has_pending_interrupt(&self) -> bool {
        !self.interrupts.is_empty()
    }

    /// Starts a high-resolution timer, which may expire up to `slack` ns before `at`.
    pub(crate) fn add_high_resolution_timer(&mut self, at: u64, slack: u64, timer: Timer) {
        self.timers.precise.add_with_slack(at, slack, timer);
    }

    /// Starts a timer-wheel timer.
    pub(crate) fn add_wheel_timer(&mut self, at: u64, timer: Timer) {
        self.timers.wheel.add_without_slack(at, timer);
    }

    /// Stops a timer-wheel timer. Returns whether the timer was pending.
    pub(crate) fn remove_wheel_timer(&mut self, timer: Timer) -> bool {
        self.timers.wheel.remove(timer)
    }

    /// Adds work to refill caches, done before the CPU's next work.
    #[inline(always)]
    pub(crate) fn add_cache_refill_work(&mut self, work: Cycles) {
        self.phase.cold += work;
    }

    /// Time in ns when serving the present or last interrupt began.
    #[inline(always)]
    pub(crate) fn interrupt_service_began_at(&self) -> u64 {
        self.phase.service.start
    }

    /// Work for the present or last interrupt, with the work to refill caches before.
    #[inline(always)]
    pub(crate) fn interrupt_service_work(&self, full_speed: Speed) -> Work {
        let service = &self.phase.service;
        Work::new(service.work, service.cold, full_speed)
    }

    /// Run time in ns of the current task since its last accounting.
    #[inline(always)]
    pub(crate) fn unaccounted_run_time(&self, now: u64) -> u64 {
        if self.runs_task() {
            now - self.phase.start
        } else {
            0
        }
    }

    /// Time in ns of the CPU's next tick or timer; [`NEVER`] without any.
    #[inline(always)]
    pub(super) fn next_clock_event_time(&self) -> u64 {
        self.tick.next.min(self.timers.next_expiry())
    }

    /// Adds the CPU's powered time until `now`, at operating point `opp`, to its totals; for a sleeping CPU, the sleep.
    #[inline(always)]
    pub(super) fn account_power_until(&mut self, now: u64, opp: usize) {
        match &mut self.power.powered_since {
            Some(since) => {
                self.totals.powered[opp] += now - *since;
                *since = now;
            }
            None => self.account_sleep_until(now),
        }
    }

    /// Adds the present phase's polling time until `now`, at operating point `opp`, to the CPU's totals.
    #[inline(always)]
    pub(super) fn account_polling_until(&mut self, now: u64, opp: usize) {
        if self.phase.mode == Mode::Idle && self.idle.polling_until.is_some() {
            let at = self.idle.state * self.totals.powered.len() + opp;
            self.totals.polled[at] += now - self.phase.start;
            self.phase.start = now;
        }
    }

    pub(super) fn account_sleep_until(&mut self, now: u64) {
        if self.idle.undemoted_at < now {
            let demoted = self.idle.undemoted_at - self.power.asleep_since;
            self.totals.states[self.power.asleep_in].asleep += demoted;
            self.power.asleep_since = self.idle.undemoted_at;
            self.power.asleep_in = self.idle.state;
            self.power.asked_for = self.idle.state;
            self.idle.undemoted_at = NEVER;
        }
        self.totals.states[self.power.asleep_in].asleep += now - self.power.asleep_since;
        self.power.asleep_since = now;
    }

    /// Ends the CPU's powered time, and begins its sleep in the idle state with this index.
    #[inline(always)]
    pub(super) fn begin_sleep_time(&mut self, now: u64, opp: usize, state: usize) {
        self.account_power_until(now, opp);
        self.power.powered_since = None;
        self.power.asleep_since = now;
        self.power.asleep_in = state;
        self.power.asked_for = state;
    }

    /// Ends the CPU's sleep, and begins its powered time.
    pub(super) fn end_sleep_time(&mut self, now: u64) {
        self.account_sleep_until(now);
        self.power.powered_since = Some(now);
    }

    /// The clock's running time by now, busy or polling, as the processor's own counters see it; `current` is the
    /// operating point in `khz`.
    pub(crate) fn running_time_until(
        &self,
        now: u64,
        current: usize,
        khz: &[Kilohertz],
    ) -> Running {
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

    /// Begins the CPU's waking time out of the idle state `state`.
    pub(super) fn begin_waking_time(&mut self, now: u64, state: usize) {
        self.power.waking_since = Some(now);
        self.power.leaving = state;
    }

    /// Ends the CPU's waking time, at operating point `opp` of `khz`.
    pub(super) fn end_waking_time(&mut self, now: u64, opp: usize, khz: u64) {
        self.account_waking_until(now, opp, khz);
        self.power.waking_since = None;
    }

    /// Adds the CPU's waking time until `now`, at operating point `opp` of `khz`, to its totals.
    #[inline(always)]
    pub(super) fn account_waking_until(&mut self, now: u64, opp: usize, khz: u64) {
        let power = &mut self.power;
        let Some(since) = &mut power.waking_since else {
            return;
        };
        let time = now - std::mem::replace(since, now);
        power.waking.time += time;
        self.totals.left[power.leaving * self.totals.powered.len() + opp] += time;
        power.waking.khz_time += u128::from(time) * u128::from(khz);
    }

    /// Adds the CPU's powered, polling and waking times until `now`, at operating point `opp` of `khz`, to its totals.
    pub(crate) fn account_times_until(&mut self, now: u64, opp: usize, khz: u64) {
        self.account_power_until(now, opp);
        self.account_polling_until(now, opp);
        self.account_waking_until(now, opp, khz);
    }

    /// The CPU's totals up to the last call of [`Cpu::account_times_until`].
    pub(crate) fn accounted_totals(&self) -> &CpuTotals {
        &self.totals
    }

    /// The CPU's time with tasks and interrupts until `now`, in ns.
    pub(crate) fn busy_time_until(&self, now: u64) -> u64 {
        if self.is_busy() {
            self.totals.busy + (now - self.phase.start)
        } else {
            self.totals.busy
        }
    }

    /// Totals by now, at operating point `opp`; the cluster has been down for `cluster_down` ns in all.
    pub(crate) fn totals_until(&self, now: u64, opp: usize, cluster_down: u64) -> CpuTotals {
        let mut totals = CpuTotals {
            busy: self.busy_time_until(now),
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
