//! One CPU: what it does now, its tick and timers, its idle bookkeeping.

use wakepath_policies::freq::schedutil::CpuSignal;
use wakepath_policies::idle::Governor;
use wakepath_policies::psd::{Lease, PsdPolicy};
use wakepath_units::{Capacity, Kilohertz};

use crate::core::basics::{Cycles, FULL_SHARE, Interrupt, NEVER};
use crate::core::queue::fifo::Fifo;
use crate::cpu::idle_table::IdleTable;
use crate::cpu::timers::Timers;
use crate::rcu::state::CpuRcu;
use crate::scheduler::fair_server::FairServer;
use crate::scheduler::run_queue::RunQueue;

/// What a CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// In the idle state that its governor chose.
    Idle,
    /// Leaving it.
    Waking,
    /// Serving an interrupt.
    Interrupt,
    /// Running its current task.
    Task,
}

/// What a hardware thread takes of its core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CoreUse {
    /// Nothing, or next to it: asleep, or on the way out of that.
    #[default]
    None,
    /// Polling.
    Polls,
    /// Tasks and interrupts.
    Busy,
}

/// Time in the idle states and in between, with the kernel's counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateStats {
    /// Entry to exit, exit latency included, in ns.
    pub(crate) time: u64,
    /// The part of it that the CPU was asleep: without leaving the state, and without polling.
    pub(crate) asleep: u64,
    /// The part of that until the state was reached.
    pub(crate) entering: u64,
    /// The part of it in which its whole cluster was down, in a state of the cluster.
    pub(crate) down: u64,
    pub(crate) entries: u64,
    /// Left before its target residency, although a shallower state was enabled, as the kernel measures it.
    pub(crate) above: u64,
    /// Stayed as long as a deeper enabled state wanted, likewise.
    pub(crate) below: u64,
}

/// The idle periods in one idle state for which another one, or itself, would have fitted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fit {
    pub(crate) periods: u64,
    /// From entry until the event that ended the idle period, in ns.
    pub(crate) idle: u64,
    /// From that event until the CPU was ready to work, in ns.
    pub(crate) wake: u64,
}

/// What has been counted of a CPU by some time.
#[derive(Clone, Debug)]
pub(crate) struct CpuTotals {
    stats: Vec<StateStats>,
    fits: Vec<Fit>,
    busy: u64,
    selections: u64,
    tick_stops: u64,
    tickless: u64,
    idle_ticks: u64,
    powered: Vec<u64>,
    polled: Vec<u64>,
    left: Vec<u64>,
}

/// How long a CPU has been running, and at which speed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Running {
    /// In ns.
    pub(crate) time: u64,
    /// Its time in ns times its frequency in kHz.
    pub(crate) khz_time: u128,
}

pub(crate) struct Cpu<'a> {
    pub(crate) cluster: usize,
    /// Its idle states.
    pub(crate) idle: &'a IdleTable,
    /// Its clock.
    pub(crate) domain: usize,
    pub(crate) mode: Mode,
    /// The interrupt that it serves, if it does.
    pub(crate) serving: Interrupt,
    pub(crate) phase_start: u64,
    /// Work left of the running segment, as of `phase_start`.
    pub(crate) work: Cycles,
    /// That waits until it is the CPU's turn.
    pub(crate) stopped: bool,
    /// Cold-start work to be done before anything else.
    pub(crate) cold: Cycles,
    /// When the interrupt being served began to be, and the cold-start work before it.
    pub(crate) segment_start: u64,
    pub(crate) segment_cold: Cycles,
    /// The work of serving it.
    pub(crate) segment_work: Cycles,

    pub(crate) interrupts: Fifo<Interrupt>,
    /// What it takes of its core, and how much of the core's speed it gets, of
    /// [`crate::core::basics::FULL_SHARE`].
    pub(super) core_use: CoreUse,
    pub(super) share: u64,
    /// Its tasks.
    pub(crate) run_queue: RunQueue,

    pub(super) tick_stopped: bool,
    /// Its part in grace periods.
    pub(crate) rcu: CpuRcu,
    /// With the tick stopped: when it sees to the timers of all CPUs, if that is its task.
    pub(super) next_tick: u64,
    /// The server for fair tasks, whose timer is a high-resolution one, too.
    pub(crate) fair_server: FairServer,
    /// High-resolution timers.
    pub(crate) timers: Timers,
    /// Timer-wheel timers, which a stopped tick has to leave for.
    pub(crate) wheel: Timers,

    pub(crate) governor: Governor,
    /// The longest exit latency in ns that the governor may choose.
    pub(super) latency_request: i64,
    /// Power-sleep demotion prevention, if in use.
    pub(super) lease: Option<(Lease, PsdPolicy)>,
    /// Its timer runs.
    pub(super) lease_timer: bool,
    /// In the kernel's idle loop, whatever interrupts are served meanwhile.
    pub(crate) in_idle_loop: bool,
    pub(crate) idle_since: u64,
    /// Its governor does not count so much of the present idle period, in ns: it was still about to choose.
    pub(super) uncounted: u64,
    /// When the event came that ended the last idle period in a state that is not a polling one.
    pub(super) wake_began: u64,
    /// By the state entered and the one that would have fitted, in rows of the entered state.
    pub(crate) fits: Vec<Fit>,
    /// When it last was ready to work after an idle period.
    pub(crate) awake_since: u64,
    /// Time spent with tasks and interrupts, in ns.
    pub(crate) busy: u64,
    /// The part of it that interrupted the present idle period in a polling state.
    pub(crate) busy_in_period: u64,
    pub(crate) state: usize,
    pub(super) got_tick: bool,
    /// In a polling state, and when that gives up.
    pub(crate) polling_until: Option<u64>,
    /// Residency of an idle period that the governor has not been told about, and whether polling reached its limit in it.
    pub(super) unreflected: Option<(u64, bool)>,
    /// The governor's questions, and how often it stopped a running tick.
    pub(crate) selections: u64,
    pub(crate) tick_stops: u64,
    /// Idle periods that began without a tick.
    pub(crate) tickless: u64,
    /// Ticks in the idle loop.
    pub(crate) idle_ticks: u64,
    pub(crate) stats: Vec<StateStats>,
    /// Since when it has been powered, if it is: busy, waking up or polling.
    powered_since: Option<u64>,
    asleep_since: u64,
    /// How long its cluster had been down by then, if it sleeps in a state of the cluster.
    pub(crate) down_before: u64,
    /// The state that it really is in, and when the hardware goes on to the one chosen.
    asleep_in: usize,
    pub(super) undemoted_at: u64,
    /// The hardware entered a shallower state than the one chosen.
    pub(crate) demoted: bool,
    /// Time powered, in ns, by operating point.
    pub(crate) powered: Vec<u64>,
    /// The part of it in which it was polling, in rows of the polling state.
    polled: Vec<u64>,
    /// The part of it in which it was waking up, and since when it has been.
    waking: Running,
    waking_since: Option<u64>,
    /// The state that it leaves, and the part of the time powered in which it was leaving one, in rows of the state.
    leaving: usize,
    left: Vec<u64>,
}

impl<'a> Cpu<'a> {
    pub(crate) fn new(
        cluster: usize,
        idle: &'a IdleTable,
        domain: usize,
        governor: Governor,
        latency_request: i64,
        lease: Option<(Lease, PsdPolicy)>,
        operating_points: usize,
    ) -> Self {
        let states = idle.states.len();
        Self {
            cluster,
            idle,
            domain,
            mode: Mode::Idle,
            serving: Interrupt::Reschedule,
            phase_start: 0,
            work: 0,
            stopped: false,
            cold: 0,
            segment_start: 0,
            segment_cold: 0,
            segment_work: 0,
            interrupts: Fifo::new(),
            core_use: CoreUse::None,
            share: FULL_SHARE,
            run_queue: RunQueue::new(),
            // A machine that has been idle for long has all its ticks stopped.
            tick_stopped: true,
            rcu: CpuRcu::default(),
            next_tick: NEVER,
            fair_server: FairServer::default(),
            timers: Timers::default(),
            wheel: Timers::default(),
            governor,
            latency_request,
            lease,
            lease_timer: false,
            in_idle_loop: true,
            uncounted: 0,
            idle_since: 0,
            wake_began: 0,
            fits: vec![Fit::default(); states * states],
            awake_since: 0,
            busy: 0,
            busy_in_period: 0,
            state: 0,
            got_tick: false,
            polling_until: None,
            unreflected: None,
            selections: 0,
            tick_stops: 0,
            tickless: 0,
            idle_ticks: 0,
            stats: vec![StateStats::default(); states],
            powered_since: Some(0),
            asleep_since: 0,
            down_before: 0,
            asleep_in: 0,
            undemoted_at: NEVER,
            demoted: false,
            powered: vec![0; operating_points],
            polled: vec![0; states * operating_points],
            waking: Running::default(),
            waking_since: None,
            leaving: 0,
            left: vec![0; states * operating_points],
        }
    }

    /// The next time that the clock wakes or interrupts this CPU.
    #[inline]
    pub(crate) fn next_clock_event(&self) -> u64 {
        let timers = self.timers.next().min(self.wheel.next());
        self.next_tick.min(timers).min(self.fair_server.timer())
    }

    /// Work as if the CPU had its core for itself.
    #[inline]
    pub(crate) fn alone(&self, work: Cycles) -> Cycles {
        if self.share == FULL_SHARE {
            work
        } else {
            (work * FULL_SHARE).div_ceil(self.share)
        }
    }

    /// Begins to serve an interrupt.
    pub(crate) fn begin_segment(&mut self, now: u64, work: Cycles, cold: Cycles) {
        self.segment_work = work;
        self.segment_start = now;
        self.segment_cold = cold;
    }

    /// Accounts the time powered so far, at operating point `opp`.
    #[inline(always)]
    pub(crate) fn settle_power(&mut self, now: u64, opp: usize) {
        match &mut self.powered_since {
            Some(since) => {
                self.powered[opp] += now - *since;
                *since = now;
            }
            None => self.settle_sleep(now),
        }
    }

    /// Accounts the time that it has been polling, if it does, at operating point `opp`.
    pub(crate) fn settle_polling(&mut self, now: u64, opp: usize) {
        if self.mode == Mode::Idle && self.polling_until.is_some() {
            let at = self.state * self.powered.len() + opp;
            self.polled[at] += now - self.phase_start;
            self.phase_start = now;
        }
    }

    /// How long it polled in a state, in ns, by operating point.
    pub(crate) fn polled_in(&self, state: usize) -> &[u64] {
        let points = self.powered.len();
        &self.polled[state * points..][..points]
    }

    fn settle_sleep(&mut self, now: u64) {
        if self.undemoted_at < now {
            self.stats[self.asleep_in].asleep += self.undemoted_at - self.asleep_since;
            self.asleep_since = self.undemoted_at;
            self.asleep_in = self.state;
            self.undemoted_at = NEVER;
        }
        self.stats[self.asleep_in].asleep += now - self.asleep_since;
        self.asleep_since = now;
    }

    /// Goes to sleep in this state.
    #[inline(always)]
    pub(crate) fn power_down(&mut self, now: u64, opp: usize, state: usize) {
        self.settle_power(now, opp);
        self.powered_since = None;
        self.asleep_since = now;
        self.asleep_in = state;
    }

    /// Begins to wake up.
    pub(crate) fn power_up(&mut self, now: u64) {
        self.settle_sleep(now);
        self.powered_since = Some(now);
    }

    /// Busy, waking up or polling.
    pub(crate) fn is_powered(&self) -> bool {
        self.powered_since.is_some()
    }

    /// At work for a task or an interrupt.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.mode, Mode::Task | Mode::Interrupt)
    }

    /// How long its clock has been running by now, that is how long it has been busy or polling, as
    /// the processor's own counters see it; `current` is its operating point of `khz`.
    pub(crate) fn running_until(&self, now: u64, current: usize, khz: &[Kilohertz]) -> Running {
        let mut sum = Running::default();
        // What has not been settled of the time powered is over when it began to wake up, if it does.
        let until = self.waking_since.unwrap_or(now);
        let running = self
            .powered_since
            .map(|since| (until.saturating_sub(since), khz[current]));
        let before = self.powered.iter().copied().zip(khz.iter().copied());
        for (time, Kilohertz(khz)) in before.chain(running) {
            sum.time += time;
            sum.khz_time += u128::from(time) * u128::from(khz);
        }
        sum.time -= self.waking.time;
        sum.khz_time -= self.waking.khz_time;
        sum
    }

    /// How long it was leaving a state, in ns, by operating point.
    pub(crate) fn leaving_of(&self, state: usize) -> &[u64] {
        let points = self.powered.len();
        &self.left[state * points..][..points]
    }

    /// Begins to leave `state`.
    pub(crate) fn begin_waking(&mut self, now: u64, state: usize) {
        self.waking_since = Some(now);
        self.leaving = state;
    }

    /// Has woken up.
    pub(crate) fn end_waking(&mut self, now: u64, opp: usize, khz: u64) {
        self.settle_waking(now, opp, khz);
        self.waking_since = None;
    }

    /// Takes note of how long the CPU has been waking up, if it is; `opp` and `khz` are the operating point and
    /// frequency of its clock meanwhile.
    pub(crate) fn settle_waking(&mut self, now: u64, opp: usize, khz: u64) {
        let Some(since) = &mut self.waking_since else {
            return;
        };
        let time = now - std::mem::replace(since, now);
        self.waking.time += time;
        self.left[self.leaving * self.powered.len() + opp] += time;
        self.waking.khz_time += u128::from(time) * u128::from(khz);
    }

    /// How long it has been busy by now, in ns.
    pub(crate) fn busy_until(&self, now: u64) -> u64 {
        match self.mode {
            Mode::Task | Mode::Interrupt => self.busy + (now - self.phase_start),
            Mode::Idle | Mode::Waking => self.busy,
        }
    }

    /// What has been counted by now, at operating point `opp`, while its cluster has been down for `cluster_down` in all.
    pub(crate) fn totals_until(&self, now: u64, opp: usize, cluster_down: u64) -> CpuTotals {
        let mut totals = CpuTotals {
            stats: self.stats.clone(),
            fits: self.fits.clone(),
            busy: self.busy_until(now),
            selections: self.selections,
            tick_stops: self.tick_stops,
            tickless: self.tickless,
            idle_ticks: self.idle_ticks,
            powered: self.powered.clone(),
            polled: self.polled.clone(),
            left: self.left.clone(),
        };
        let points = self.powered.len();
        if let Some(since) = self.powered_since {
            totals.powered[opp] += now - since;
        } else {
            let undemoted = self.undemoted_at.clamp(self.asleep_since, now);
            let later = if self.undemoted_at < now {
                self.state
            } else {
                self.asleep_in
            };
            totals.stats[self.asleep_in].asleep += undemoted - self.asleep_since;
            totals.stats[later].asleep += now - undemoted;
            if !self.demoted && self.idle.states[self.state].whole_cluster {
                totals.stats[self.state].down += cluster_down - self.down_before;
            }
        }
        if let Some(since) = self.waking_since {
            totals.left[self.leaving * points + opp] += now - since;
        }
        let polls = self.polling_until.is_some();
        let in_phase = now - self.phase_start;
        if self.mode == Mode::Idle && polls {
            totals.polled[self.state * points + opp] += in_phase;
        }
        if matches!(self.mode, Mode::Idle | Mode::Waking) || polls {
            let busy = self.busy_in_period + if self.is_busy() { in_phase } else { 0 };
            totals.stats[self.state].time += now - self.idle_since - busy;
        }
        totals
    }

    /// Takes off what had been counted by an earlier time, now that the run is over.
    pub(crate) fn leave_out(&mut self, before: &CpuTotals) {
        for (stats, before) in self.stats.iter_mut().zip(&before.stats) {
            stats.time -= before.time;
            stats.asleep -= before.asleep;
            stats.entering -= before.entering;
            stats.down -= before.down;
            stats.entries -= before.entries;
            stats.above -= before.above;
            stats.below -= before.below;
        }
        for (fit, before) in self.fits.iter_mut().zip(&before.fits) {
            fit.periods -= before.periods;
            fit.idle -= before.idle;
            fit.wake -= before.wake;
        }
        self.busy -= before.busy;
        self.selections -= before.selections;
        self.tick_stops -= before.tick_stops;
        self.tickless -= before.tickless;
        self.idle_ticks -= before.idle_ticks;
        let times = [
            (&mut self.powered, &before.powered),
            (&mut self.polled, &before.polled),
            (&mut self.left, &before.left),
        ];
        for (times, before) in times {
            for (time, before) in times.iter_mut().zip(before) {
                *time -= before;
            }
        }
    }

    /// What schedutil looks at.
    #[inline]
    pub(crate) fn signal(&self) -> CpuSignal {
        CpuSignal {
            utilisation: Capacity(self.run_queue.utilisation().get()),
            runnable: Capacity(self.run_queue.runnable().get()),
            idle_calls: self.selections,
        }
    }
}
