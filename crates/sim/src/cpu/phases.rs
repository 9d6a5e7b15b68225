//! A CPU's phases and their progress.

use crate::core::basics::{CpuId, Cycles, FULL_SHARE, Interrupt, TaskId};
use crate::core::calendar::Slot;
use crate::core::observer::Observer;
use crate::cpu::phase::Mode;
use crate::cpu::state::Cpu;
use crate::engine::Engine;
use crate::frequency::clocks::Domain;
use crate::frequency::clocks::report::InterruptTime;
use crate::task::state::Task;

impl<O: Observer> Engine<'_, O> {
    #[inline(always)]
    pub(crate) fn begin_phase(&mut self, cpu: CpuId, mode: Mode, length: u64) {
        let c = &mut self.cpus[cpu];
        c.phase.mode = mode;
        c.phase.start = self.context.now();
        self.phase_begun(cpu, length);
    }

    /// Waits until a phase ends, begun now.
    #[inline(always)]
    pub(crate) fn phase_begun(&mut self, cpu: CpuId, length: u64) {
        self.context
            .schedule(Slot::Phase(cpu), self.context.now() + length);
        self.core_use_changed(cpu);
        self.observe_cpu(cpu);
    }

    pub(crate) fn cancel_phase(&mut self, cpu: CpuId) {
        self.context.cancel(Slot::Phase(cpu));
    }

    /// Whether the phase of a CPU is not over, although due: an emulated CPU waits for its turn, or begins an exit's last part.
    #[inline(always)]
    pub(crate) fn phase_goes_on(&mut self, cpu: CpuId) -> bool {
        self.emulator.takes_turns() && self.emulated_phase_goes_on(cpu)
    }

    #[inline(never)]
    fn emulated_phase_goes_on(&mut self, cpu: CpuId) -> bool {
        if !self.emulator.may_end_phase(cpu) {
            return true;
        }
        if self.cpus[cpu].phase.mode == Mode::Waking
            && let Some(end) = (self.emulator).begin_last_part_of_exit(cpu, self.context.now())
        {
            self.context.schedule(Slot::Phase(cpu), end);
            return true;
        }
        false
    }

    /// Whether a CPU has come to the end of its polling time; otherwise it sleeps.
    #[inline(always)]
    pub(crate) fn end_polling(&mut self, cpu: CpuId) -> bool {
        let c = &mut self.cpus[cpu];
        if c.idle.polling_until.is_none() {
            return false;
        }
        c.settle_polling(self.context.now(), self.domains[c.domain].current());
        true
    }

    /// A CPU has left its idle state.
    #[inline(always)]
    pub(crate) fn end_waking(&mut self, cpu: CpuId) {
        let now = self.context.now();
        let c = &mut self.cpus[cpu];
        let domain = &self.domains[c.domain];
        c.end_waking(now, domain.current(), domain.khz_now());
        c.end_idle_period(now, false);
        self.expire_early_on_waking(cpu);
    }

    /// A CPU has done the work for an interrupt. Returns the interrupt.
    #[inline(always)]
    pub(crate) fn end_interrupt(&mut self, cpu: CpuId) -> Interrupt {
        self.charge(cpu);
        self.cpus[cpu].phase.serving
    }

    /// A CPU has done its task's segment of work. Returns the task, unless the CPU has none any more.
    #[inline(always)]
    pub(crate) fn end_task_phase(&mut self, cpu: CpuId) -> Option<TaskId> {
        self.charge(cpu);
        self.cpus[cpu].run_queue.current()
    }

    /// Starts `work` on a CPU.
    #[inline(always)]
    pub(crate) fn execute(&mut self, cpu: CpuId, mode: Mode, work: Cycles) {
        let c = &mut self.cpus[cpu];
        let cold = std::mem::take(&mut c.phase.cold);
        match (mode, c.run_queue.current()) {
            (Mode::Task, Some(task)) if cold > 0 => self.tasks[task].add_cold(cold),
            (Mode::Task, _) => {}
            _ => c.phase.begin_service(self.context.now(), work, cold),
        }
        c.phase.work = work + cold;
        c.phase.mode = mode;
        c.phase.start = self.context.now();
        let length =
            self.domains[c.domain].time_for(self.context.now(), c.phase.alone(c.phase.work));
        self.phase_begun(cpu, length);
    }

    /// Notes the running segment's progress, and stops the segment.
    pub(crate) fn pause(&mut self, cpu: CpuId) {
        let done = self.work_done(cpu);
        self.charge(cpu);
        self.cpus[cpu].phase.stopped = false;
        if let Some(task) = self.cpus[cpu].run_queue.current() {
            let left = self.cpus[cpu].phase.work - done;
            self.tasks[task].interrupt_at(left);
        }
        self.cancel_phase(cpu);
    }

    /// Accounts a CPU's work, ended or cut now.
    #[inline(always)]
    pub(crate) fn charge(&mut self, cpu: CpuId) {
        let c = &mut self.cpus[cpu];
        c.charge(
            self.context.now(),
            &mut self.domains[c.domain],
            &mut self.tasks,
        );
    }

    /// A CPU goes on after a clock change.
    pub(crate) fn go_on(&mut self, cpu: CpuId) {
        let c = &self.cpus[cpu];
        if c.is_busy() && !c.phase.stopped {
            let length = self.time_left(cpu, c.phase.work);
            self.begin_phase(cpu, c.phase.mode, length);
        }
    }

    /// A CPU stops the present work, until [`Engine::resume_phase`].
    pub(crate) fn stop_phase(&mut self, cpu: CpuId) {
        let left = self.cpus[cpu].phase.work - self.work_done(cpu);
        self.charge(cpu);
        let phase = &mut self.cpus[cpu].phase;
        phase.work = left;
        phase.stopped = true;
        self.cancel_phase(cpu);
    }

    /// A CPU goes on with stopped work, if nothing else has come between.
    pub(crate) fn resume_phase(&mut self, cpu: CpuId) {
        if std::mem::take(&mut self.cpus[cpu].phase.stopped) {
            self.charge(cpu);
            let phase = &self.cpus[cpu].phase;
            let (mode, left) = (phase.mode, self.time_left(cpu, phase.work));
            self.begin_phase(cpu, mode, left);
        }
    }

    /// The current task looks at the clock for `time` ns.
    pub(crate) fn spin_phase(&mut self, cpu: CpuId, time: u64) {
        let c = &mut self.cpus[cpu];
        c.phase.work = 0;
        // Cold caches get warm meanwhile.
        let warmed = self.domains[c.domain].work_in(time);
        c.phase.cold = c.phase.cold.saturating_sub(warmed);
        self.begin_phase(cpu, Mode::Task, time);
    }

    /// Interrupts a CPU's running task, so that the CPU looks at the run queue.
    pub(crate) fn break_off(&mut self, cpu: CpuId) {
        if self.cpus[cpu].runs_task() {
            self.pause(cpu);
            let phase = &mut self.cpus[cpu].phase;
            phase.work = 0;
            phase.serving = Interrupt::Reschedule;
            self.begin_phase(cpu, Mode::Interrupt, 0);
        }
    }

    /// See [`Cpu::work_done`].
    pub(crate) fn work_done(&self, cpu: CpuId) -> Cycles {
        let c = &self.cpus[cpu];
        c.work_done(self.context.now(), &self.domains[c.domain])
    }

    /// Time for a CPU's remaining work from now on, rounded up.
    pub(crate) fn time_left(&self, cpu: CpuId, work: Cycles) -> u64 {
        let c = &self.cpus[cpu];
        if c.phase.mode == Mode::Task
            && let Some(task) = c.run_queue.current()
            && let Some(until) = self.tasks[task].spins_until()
        {
            // However fast the CPU is.
            return until.saturating_sub(self.context.now());
        }
        self.domains[c.domain].time_for(self.context.now(), c.phase.alone(work))
    }

    /// Begins to serve an interrupt. Returns false if serving takes no work, and is over at once.
    #[inline(always)]
    pub(crate) fn begin_interrupt(
        &mut self,
        cpu: CpuId,
        interrupt: Interrupt,
        cost: Cycles,
    ) -> bool {
        let c = &mut self.cpus[cpu];
        if cost + c.phase.cold == 0 {
            c.phase.begin_service(self.context.now(), 0, 0);
            return false;
        }
        c.phase.serving = interrupt;
        self.execute(cpu, Mode::Interrupt, cost);
        true
    }
}

impl Cpu<'_> {
    /// Accounts everything done with this clock, which changes now, and the work left.
    pub(crate) fn cut(&mut self, now: u64, domain: &mut Domain, tasks: &mut [Task]) {
        self.settle_times(now, domain.current(), domain.khz_now());
        if self.is_busy() {
            self.phase.work -= self.work_done(now, domain);
            self.charge(now, domain, tasks);
        }
    }

    /// Accounts work that ends, or is cut, now; `domain` is the CPU's clock.
    #[inline(always)]
    pub(super) fn charge(&mut self, now: u64, domain: &mut Domain, tasks: &mut [Task]) {
        let time = now - self.phase.start;
        match self.phase.mode {
            Mode::Idle | Mode::Waking => return,
            Mode::Interrupt => match domain.interrupt_time() {
                InterruptTime::Unused => {}
                InterruptTime::OfCpu => {
                    let capacity = domain.capacity_now();
                    self.run_queue
                        .account_interrupt(self.phase.start, now, capacity);
                }
                InterruptTime::OfTask => {
                    if let Some(task) = self.run_queue.current() {
                        let capacity = domain.capacity_now();
                        self.run_queue
                            .account_interrupt(self.phase.start, now, capacity);
                        tasks[task].entity.charge(time, capacity);
                    }
                }
            },
            Mode::Task => {
                let capacity = domain.capacity_now();
                self.run_queue.account(now, capacity);
                domain.charge_task(time);
                if let Some(task) = self.run_queue.current() {
                    let t = &mut tasks[task];
                    t.add_executed(time);
                    t.entity.charge(time, capacity);
                }
            }
        }
        self.phase.start = now;
        self.totals.busy += time;
        if self.idle.polling_until.is_some() {
            self.idle.busy_in_period += time;
        }
    }

    /// Work done so far in the running segment, at least nothing and at most all; `domain` is the CPU's clock.
    fn work_done(&self, now: u64, domain: &Domain) -> Cycles {
        if self.phase.stopped {
            return 0;
        }
        let mut done = domain.work_between(self.phase.start, now);
        if self.phase.share != FULL_SHARE {
            done = done * self.phase.share / FULL_SHARE;
        }
        done.min(self.phase.work)
    }
}
