//! What a CPU does next, and how far it has come with it.

use crate::block::request::Request;
use crate::core::basics::{CpuId, Cycles, FULL_SHARE, Interrupt, RequestId};
use crate::core::calendar::Slot;
use crate::cpu::state::{Cpu, Mode};
use crate::engine::Engine;
use crate::frequency::clocks::Domain;
use crate::observe::observer::Observer;
use crate::task::state::{Step, Task};

impl<O: Observer> Engine<'_, O> {
    #[inline(always)]
    pub(crate) fn begin_phase(&mut self, cpu: CpuId, mode: Mode, length: u64) {
        let c = &mut self.cpus[cpu];
        c.mode = mode;
        c.phase_start = self.now;
        self.phase_begun(cpu, length);
    }

    /// Waits for the end of a phase that began now.
    #[inline(always)]
    pub(crate) fn phase_begun(&mut self, cpu: CpuId, length: u64) {
        self.calendar.schedule(Slot::Phase(cpu), self.now + length);
        self.core_use_changed(cpu);
        self.observe_cpu(cpu);
    }

    pub(crate) fn cancel_phase(&mut self, cpu: CpuId) {
        self.calendar.cancel(Slot::Phase(cpu));
    }

    #[inline(always)]
    pub(crate) fn end_phase(&mut self, cpu: CpuId) {
        if !self.may_end_phase(cpu) {
            return;
        }
        if self.cpus[cpu].mode == Mode::Waking && self.begins_last_part_of_exit(cpu) {
            return;
        }
        let now = self.now;
        let c = &mut self.cpus[cpu];
        let domain = &mut self.domains[c.domain];
        match c.mode {
            // The time limit of a polling state, or else an inter-processor interrupt arrives.
            Mode::Idle if c.polling_until.is_some() => {
                c.settle_polling(now, domain.current());
                self.next(cpu);
            }
            Mode::Idle => self.interrupt(cpu, Interrupt::Reschedule),
            Mode::Waking => {
                c.end_waking(now, domain.current(), domain.khz_now());
                c.end_idle_period(now, false);
                self.expire_early_on_waking(cpu);
                self.next(cpu);
            }
            Mode::Interrupt => {
                c.charge(now, domain, &mut self.tasks);
                let interrupt = c.serving;
                self.serve(cpu, interrupt);
                self.next(cpu);
            }
            Mode::Task => {
                c.charge(now, domain, &mut self.tasks);
                match c.run_queue.current() {
                    Some(task) => self.tasks_turn(cpu, task),
                    None => self.next(cpu),
                }
            }
        }
    }

    /// Starts `work` on a CPU.
    #[inline(always)]
    pub(crate) fn execute(&mut self, cpu: CpuId, mode: Mode, work: Cycles) {
        let c = &mut self.cpus[cpu];
        let cold = std::mem::take(&mut c.cold);
        match (mode, c.run_queue.current()) {
            (Mode::Task, Some(task)) if cold > 0 => self.tasks[task].cold += cold,
            (Mode::Task, _) => {}
            _ => c.begin_segment(self.now, work, cold),
        }
        c.work = work + cold;
        c.mode = mode;
        c.phase_start = self.now;
        let length = self.domains[c.domain].time_for(self.now, c.alone(c.work));
        self.phase_begun(cpu, length);
    }

    /// Takes note of how far the running segment has come, and stops it.
    pub(crate) fn pause(&mut self, cpu: CpuId) {
        let done = self.work_done(cpu);
        self.charge(cpu);
        self.cpus[cpu].stopped = false;
        if let Some(task) = self.cpus[cpu].run_queue.current() {
            self.tasks[task].work = self.cpus[cpu].work - done;
        }
        self.cancel_phase(cpu);
    }

    /// See [`Cpu::work_done`].
    pub(crate) fn work_done(&self, cpu: CpuId) -> Cycles {
        let c = &self.cpus[cpu];
        c.work_done(self.now, &self.domains[c.domain])
    }

    /// The time that what a CPU is at, of which this work is left, takes from now on, rounded up.
    pub(crate) fn time_left(&self, cpu: CpuId, work: Cycles) -> u64 {
        let c = &self.cpus[cpu];
        if c.mode == Mode::Task
            && let Some(t) = c.run_queue.current().map(|task| &self.tasks[task])
            && t.step == Step::Spin
        {
            // However fast the CPU is.
            return t.spin_until.saturating_sub(self.now);
        }
        self.domains[c.domain].time_for(self.now, c.alone(work))
    }

    /// Decides what a CPU does next; nothing is in progress on it.
    pub(crate) fn next(&mut self, cpu: CpuId) {
        loop {
            let (now, setup) = (self.now, self.setup);
            let interrupt = self.take_interrupt(cpu);
            let c = &mut self.cpus[cpu];
            if let Some(interrupt) = interrupt {
                let wakes = match interrupt {
                    Interrupt::Completion(request) if setup.io.depends_on_sleep() => {
                        wakes(&self.requests, &self.tasks, request)
                    }
                    _ => false,
                };
                let cost = setup.cost(interrupt, wakes);
                if cost + c.cold == 0 {
                    c.begin_segment(now, 0, 0);
                    // A reschedule is done with its arrival.
                    if interrupt != Interrupt::Reschedule {
                        self.serve(cpu, interrupt);
                    }
                    continue;
                }
                c.serving = interrupt;
                return self.execute(cpu, Mode::Interrupt, cost);
            }
            let must_run = c.run_queue.has_task();
            if let Some(until) = c.polling_until {
                if now < until && !must_run {
                    return self.begin_phase(cpu, Mode::Idle, until - now);
                }
                c.end_idle_period(now, !must_run);
                // The time limit.
                self.calendar.cancel(Slot::Phase(cpu));
            }
            if let Some(period) = c.unreflected.take() {
                let outcome = c.reflect(now, period);
                if O::WATCHES {
                    self.observer.idle_outcome(cpu, &outcome);
                }
            }
            if must_run {
                if c.leave_idle_loop(now, setup.tick_period) {
                    self.stop_tick(cpu);
                    self.arm_clock(cpu);
                }
            } else if !self.take_over_waiting(cpu) {
                self.enter_idle(cpu);
                debug_assert!(self.clock_is_armed(cpu));
                return;
            }
            if self.run_task(cpu) {
                return;
            }
        }
    }
}

/// Whether the completion interrupt of a request, or of a piece of one, wakes its task.
#[inline(always)]
fn wakes(requests: &[Request], tasks: &[Task], id: RequestId) -> bool {
    let of = &requests[id];
    let last_piece = of.whole.is_none_or(|id| requests[id].undelivered == 1);
    last_piece && tasks[of.task].wakes_with_next()
}

impl Cpu<'_> {
    /// Work done in the running segment so far, at least nothing and at most all of it; the CPU has this clock.
    pub(crate) fn work_done(&self, now: u64, domain: &Domain) -> Cycles {
        if self.stopped {
            return 0;
        }
        let mut done = domain.work_between(self.phase_start, now);
        if self.share != FULL_SHARE {
            done = done * self.share / FULL_SHARE;
        }
        done.min(self.work)
    }
}
