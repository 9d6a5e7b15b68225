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
        self.schedule_phase_end(cpu, length);
    }

    /// Schedules the end of a phase that begins now and lasts for `length` ns.
    #[inline(always)]
    pub(crate) fn schedule_phase_end(&mut self, cpu: CpuId, length: u64) {
        self.context
            .schedule(Slot::Phase(cpu), self.context.now() + length);
        self.update_core_use(cpu);
        self.tell_observer_of_cpu(cpu);
    }

    pub(crate) fn cancel_phase_end(&mut self, cpu: CpuId) {
        self.context.cancel(Slot::Phase(cpu));
    }

    /// Whether the phase of a CPU is not over, although due: an emulated CPU waits for its turn, or begins an exit's last part.
    #[inline(always)]
    pub(crate) fn due_phase_goes_on(&mut self, cpu: CpuId) -> bool {
        self.emulator.cpus_take_turns() && self.due_emulated_phase_goes_on(cpu)
    }

    #[inline(never)]
    fn due_emulated_phase_goes_on(&mut self, cpu: CpuId) -> bool {
        if !self.emulator.may_follow_up_phase_end(cpu) {
            return true;
        }
        if self.cpus[cpu].phase.mode == Mode::Waking
            && let Some(end) = (self.emulator).begin_last_part_of_idle_exit(cpu, self.context.now())
        {
            self.context.schedule(Slot::Phase(cpu), end);
            return true;
        }
        false
    }

    /// Ends a CPU's polling. Returns false, and does nothing, if the CPU sleeps and does not poll.
    #[inline(always)]
    pub(crate) fn end_polling_if_polling(&mut self, cpu: CpuId) -> bool {
        let c = &mut self.cpus[cpu];
        if c.idle.polling_until.is_none() {
            return false;
        }
        c.account_polling_until(
            self.context.now(),
            self.domains[c.domain].current_point_index(),
        );
        true
    }

    /// Ends a CPU's exit from an idle state: the CPU is awake now.
    #[inline(always)]
    pub(crate) fn end_waking(&mut self, cpu: CpuId) {
        let now = self.context.now();
        let c = &mut self.cpus[cpu];
        let domain = &self.domains[c.domain];
        c.end_waking_time(now, domain.current_point_index(), domain.khz_now());
        c.end_idle_period(now, false);
        self.expire_timers_early_after_wake_up(cpu);
    }

    /// Accounts the finished work for an interrupt, and returns that interrupt.
    #[inline(always)]
    pub(crate) fn end_interrupt_work(&mut self, cpu: CpuId) -> Interrupt {
        self.account_work_until_now(cpu);
        self.cpus[cpu].phase.serving
    }

    /// Accounts the finished segment of work of a CPU's task. Returns the task, unless the CPU has none any more.
    #[inline(always)]
    pub(crate) fn end_task_phase(&mut self, cpu: CpuId) -> Option<TaskId> {
        self.account_work_until_now(cpu);
        self.cpus[cpu].run_queue.current_task()
    }

    /// Starts a phase with `work` cycles on a CPU, after pending cold-start work.
    #[inline(always)]
    pub(crate) fn start_work(&mut self, cpu: CpuId, mode: Mode, work: Cycles) {
        let c = &mut self.cpus[cpu];
        let cold = std::mem::take(&mut c.phase.cold);
        match (mode, c.run_queue.current_task()) {
            (Mode::Task, Some(task)) if cold > 0 => self.tasks[task].add_cold_start_work(cold),
            (Mode::Task, _) => {}
            _ => c
                .phase
                .begin_interrupt_service(self.context.now(), work, cold),
        }
        c.phase.work = work + cold;
        c.phase.mode = mode;
        c.phase.start = self.context.now();
        let length = self.domains[c.domain].time_for_work(
            self.context.now(),
            c.phase.work_as_if_alone_on_core(c.phase.work),
        );
        self.schedule_phase_end(cpu, length);
    }

    /// Notes the running segment's progress, and stops the segment.
    pub(crate) fn pause_running_work(&mut self, cpu: CpuId) {
        let done = self.work_done_so_far(cpu);
        self.account_work_until_now(cpu);
        self.cpus[cpu].phase.stopped = false;
        if let Some(task) = self.cpus[cpu].run_queue.current_task() {
            let left = self.cpus[cpu].phase.work - done;
            self.tasks[task].set_work_left(left);
        }
        self.cancel_phase_end(cpu);
    }

    /// Accounts a CPU's work since the last cut until now.
    #[inline(always)]
    pub(crate) fn account_work_until_now(&mut self, cpu: CpuId) {
        let c = &mut self.cpus[cpu];
        c.account_work_until(
            self.context.now(),
            &mut self.domains[c.domain],
            &mut self.tasks,
        );
    }

    /// Restarts a CPU's remaining work after a clock change, with a new end.
    pub(crate) fn restart_work_after_clock_change(&mut self, cpu: CpuId) {
        let c = &self.cpus[cpu];
        if c.is_busy() && !c.phase.stopped {
            let length = self.time_for_remaining_work(cpu, c.phase.work);
            self.begin_phase(cpu, c.phase.mode, length);
        }
    }

    /// Stops a CPU's present work, until [`Engine::resume_stopped_work`].
    pub(crate) fn stop_work(&mut self, cpu: CpuId) {
        let left = self.cpus[cpu].phase.work - self.work_done_so_far(cpu);
        self.account_work_until_now(cpu);
        let phase = &mut self.cpus[cpu].phase;
        phase.work = left;
        phase.stopped = true;
        self.cancel_phase_end(cpu);
    }

    /// Resumes a CPU's stopped work, if no other work has begun meanwhile.
    pub(crate) fn resume_stopped_work(&mut self, cpu: CpuId) {
        if std::mem::take(&mut self.cpus[cpu].phase.stopped) {
            self.account_work_until_now(cpu);
            let phase = &self.cpus[cpu].phase;
            let (mode, left) = (phase.mode, self.time_for_remaining_work(cpu, phase.work));
            self.begin_phase(cpu, mode, left);
        }
    }

    /// Makes a CPU's current task spin, looking at the clock, for `time` ns.
    pub(crate) fn spin_current_task_for(&mut self, cpu: CpuId, time: u64) {
        let c = &mut self.cpus[cpu];
        c.phase.work = 0;
        // While the task spins, cold caches get warm.
        let warmed = self.domains[c.domain].work_done_in(time);
        c.phase.cold = c.phase.cold.saturating_sub(warmed);
        self.begin_phase(cpu, Mode::Task, time);
    }

    /// Ends the spinning of a task now, or as soon as its CPU goes on with it.
    pub(crate) fn end_spin_if_spinning(&mut self, task: TaskId) {
        let now = self.context.now();
        let t = &mut self.tasks[task];
        let c = &self.cpus[t.cpu];
        if t.spins_until().is_none() || c.run_queue.current_task() != Some(task) {
            return;
        }
        // The CPU may be stopped, or serve an interrupt first.
        t.end_spin_step_at(now);
        if c.runs_task() {
            self.context.schedule(Slot::Phase(t.cpu), now);
        }
    }

    /// Interrupts a CPU's running task, so that the CPU looks at the run queue.
    pub(crate) fn interrupt_running_task(&mut self, cpu: CpuId) {
        if self.cpus[cpu].runs_task() {
            self.pause_running_work(cpu);
            let phase = &mut self.cpus[cpu].phase;
            phase.work = 0;
            phase.serving = Interrupt::Reschedule;
            self.begin_phase(cpu, Mode::Interrupt, 0);
        }
    }

    /// See [`Cpu::work_done_until`].
    pub(crate) fn work_done_so_far(&self, cpu: CpuId) -> Cycles {
        let c = &self.cpus[cpu];
        c.work_done_until(self.context.now(), &self.domains[c.domain])
    }

    /// Time for a CPU's remaining work from now on, rounded up.
    pub(crate) fn time_for_remaining_work(&self, cpu: CpuId, work: Cycles) -> u64 {
        let c = &self.cpus[cpu];
        if c.is_stolen() {
            return self.time_until_host_gives_cpu_back(cpu);
        }
        if c.phase.mode == Mode::Task
            && let Some(task) = c.run_queue.current_task()
            && let Some(until) = self.tasks[task].spins_until()
        {
            // Spinning ends at a time, however fast the CPU is.
            return until.saturating_sub(self.context.now());
        }
        self.domains[c.domain]
            .time_for_work(self.context.now(), c.phase.work_as_if_alone_on_core(work))
    }

    /// Begins to serve an interrupt. Returns false if serving takes no work, and is over at once.
    #[inline(always)]
    pub(crate) fn begin_interrupt_work(
        &mut self,
        cpu: CpuId,
        interrupt: Interrupt,
        work: Cycles,
    ) -> bool {
        let c = &mut self.cpus[cpu];
        if work + c.phase.cold == 0 {
            c.phase.begin_interrupt_service(self.context.now(), 0, 0);
            if matches!(interrupt, Interrupt::Timer(_)) {
                self.tell_observer_of_short_timer(cpu);
            }
            return false;
        }
        c.phase.serving = interrupt;
        self.start_work(cpu, Mode::Interrupt, work);
        true
    }
}

impl Cpu<'_> {
    /// Accounts a CPU's times and work up to now, just before its clock changes, and keeps the work left.
    pub(crate) fn account_before_clock_change(
        &mut self,
        now: u64,
        domain: &mut Domain,
        tasks: &mut [Task],
    ) {
        self.account_times_until(now, domain.current_point_index(), domain.khz_now());
        if self.is_busy() {
            self.phase.work -= self.work_done_until(now, domain);
            self.account_work_until(now, domain, tasks);
        }
    }

    /// Accounts work that ends, or is cut, now; `domain` is the CPU's clock.
    #[inline(always)]
    pub(super) fn account_work_until(&mut self, now: u64, domain: &mut Domain, tasks: &mut [Task]) {
        let time = now - self.phase.start;
        match self.phase.mode {
            Mode::Idle | Mode::Waking => return,
            Mode::Interrupt => match domain.interrupt_time_rule() {
                InterruptTime::Unused => {}
                InterruptTime::OfCpu => {
                    let capacity = domain.capacity_now();
                    self.run_queue
                        .account_interrupt_utilisation(self.phase.start, now, capacity);
                }
                InterruptTime::OfTask => {
                    if let Some(task) = self.run_queue.current_task() {
                        let capacity = domain.capacity_now();
                        self.run_queue.account_interrupt_utilisation(
                            self.phase.start,
                            now,
                            capacity,
                        );
                        tasks[task].entity.add_run_time(time, capacity);
                    }
                }
            },
            Mode::Task => {
                let capacity = domain.capacity_now();
                self.run_queue.account_utilisation(now, capacity);
                domain.add_task_time(time);
                if let Some(task) = self.run_queue.current_task() {
                    let t = &mut tasks[task];
                    t.add_executed_time(time);
                    t.entity.add_run_time(time, capacity);
                }
            }
        }
        self.phase.start = now;
        self.totals.busy += time;
        if self.idle.polling_until.is_some() {
            self.idle.busy_in_period += time;
        }
    }

    /// Work in cycles done in the present phase by `now`, at most all of it; `domain` is the CPU's clock.
    fn work_done_until(&self, now: u64, domain: &Domain) -> Cycles {
        if self.phase.stopped {
            return 0;
        }
        let mut done = domain.work_done_between(self.phase.start, now);
        if self.phase.share != FULL_SHARE {
            done = done * self.phase.share / FULL_SHARE;
        }
        done.min(self.phase.work)
    }
}
