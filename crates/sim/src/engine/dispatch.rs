//! Dispatch: each event goes to its mechanism, and then to the mechanisms that follow at the same instant.
//!
//! No mechanism's rule is here. A mechanism says what an event leaves to do ([`TaskTurn`], [`Notice`]),
//! and dispatch calls the next mechanism directly, so that no folder's events call upwards.

use crate::block::events::Notice;
use crate::core::basics::{CpuId, Interrupt, NEVER, RequestId, Timer};
use crate::core::calendar::{Event, Slot};
use crate::core::observer::Observer;
use crate::cpu::phase::Mode;
use crate::emulator::state::Waiting;
use crate::engine::watchdog::Watchdog;
use crate::engine::{Engine, Finished};
use crate::error::{LATEST, SimError, Stuck};
use crate::task::events::TaskTurn;

impl<O: Observer> Engine<'_, O> {
    /// Runs until every job has ended, or the time is over.
    ///
    /// # Errors
    /// The run goes nowhere: the threads of the workload wait for each other, or take steps without
    /// end.
    pub(crate) fn run(mut self) -> Result<Finished, SimError> {
        let end = self.setup.programs.ends().unwrap_or(u64::MAX);
        let last = end.min(LATEST);
        let mut events = 0;
        let jobs = self.workload.jobs();
        let mut warm_up_ends = jobs.end_of_warm_up(&self.setup.jobs).unwrap_or(NEVER);
        if let Some((begin, end)) = jobs.counted_span(&self.setup.jobs) {
            self.recorder.expect_requests_between(begin, end);
        }
        let mut watchdog = Watchdog::default();
        // Every CPU has asked by now.
        self.check_governors()?;
        while self.context.has_process() && !self.context.observer_has_enough() {
            self.context.ask_observer();
            let Some((time, event)) = self.context.pop_event() else {
                if end <= last {
                    self.context.advance_to(end);
                }
                break;
            };
            debug_assert!(
                time >= self.context.now(),
                "{event:?} at {time} comes after {}",
                self.context.now()
            );
            if time > last {
                if end > last {
                    return Err(Stuck::TooLong.into());
                }
                self.context.advance_to(end);
                break;
            }
            if time >= warm_up_ends {
                self.context.advance_to(warm_up_ends);
                warm_up_ends = NEVER;
                self.end_warm_up();
            }
            self.context.advance_to(time);
            events += 1;
            if events % Watchdog::EVERY == 0 {
                let finished = self.recorder.finished();
                watchdog.look(time, (!self.setup.jobs.is_empty()).then_some(finished))?;
                self.check_governors()?;
            }
            self.handle(event);
            if self.emulator.takes_turns() {
                self.pass_turns();
            }
        }
        self.check_governors()?;
        if let Some(failure) = self.context.take_failure() {
            return Err(failure);
        }
        let own_events = events - self.context.observer_events();
        Ok(self.finish(own_events))
    }

    /// Whether all user-written governors still answer.
    fn check_governors(&self) -> Result<(), SimError> {
        let failure = self.cpus.iter().find_map(|cpu| cpu.governor_failure());
        failure.map_or(Ok(()), |why| Err(SimError::Governor(why.to_owned())))
    }

    #[inline(always)]
    fn handle(&mut self, event: Event) {
        match event {
            Event::Phase(cpu) => self.end_phase(cpu),
            Event::Clock(cpu) => {
                self.expire_timers(cpu);
                self.kick(cpu);
            }
            Event::Frequency(clock) => {
                let powered_cpus = self.change_frequency(clock);
                powered_cpus.for_each(|cpu| self.go_on(cpu));
            }
            Event::Hardware(cluster) => self.end_clock_slot(cluster),
            Event::Device(device) => self.handle_device(device),
            Event::Served(request) => self.served(request),
        }
    }

    #[cold]
    fn handle_device(&mut self, device: usize) {
        match self.context.device(device) {
            Slot::Queue(queue) => {
                self.emulator.end_turn();
                self.notify_collected(queue);
            }
            Slot::Drive(drive) => {
                self.context.note_observer_event();
                self.observe_drive(drive);
            }
            _ => {
                if let Some(request) = self.emulator.player_event(self.context.now()) {
                    self.served(request);
                }
            }
        }
    }

    /// A CPU's phase is over.
    #[inline(always)]
    fn end_phase(&mut self, cpu: CpuId) {
        if self.phase_goes_on(cpu) {
            return;
        }
        match self.cpus[cpu].mode() {
            Mode::Idle => {
                if self.end_polling(cpu) {
                    self.run_next(cpu);
                } else {
                    self.interrupt(cpu, Interrupt::Reschedule);
                }
            }
            Mode::Waking => {
                self.end_waking(cpu);
                self.run_next(cpu);
            }
            Mode::Interrupt => {
                let interrupt = self.end_interrupt(cpu);
                self.serve(cpu, interrupt);
                self.run_next(cpu);
            }
            Mode::Task => {
                let turn = match self.end_task_phase(cpu) {
                    Some(task) => self.end_segment(cpu, task),
                    None => TaskTurn::Free,
                };
                self.follow_task(cpu, turn);
            }
        }
    }

    /// Interrupts a CPU.
    #[inline(always)]
    fn interrupt(&mut self, cpu: CpuId, interrupt: Interrupt) {
        self.cpus[cpu].raise(interrupt);
        self.kick(cpu);
    }

    /// Makes a CPU look at pending interrupts.
    fn kick(&mut self, cpu: CpuId) {
        if self.notice_interrupts(cpu) {
            self.run_next(cpu);
        }
    }

    /// A CPU has served an interrupt.
    #[inline(always)]
    fn serve(&mut self, cpu: CpuId, interrupt: Interrupt) {
        match interrupt {
            Interrupt::Completion(request) => self.serve_completion(cpu, request),
            Interrupt::Reschedule => {}
            _ => self.serve_other(cpu, interrupt),
        }
    }

    /// A CPU has served a completion interrupt.
    #[inline(never)]
    fn serve_completion(&mut self, cpu: CpuId, request: RequestId) {
        if let Some(page_request) = self.complete(cpu, request) {
            self.end_page_request(cpu, page_request);
        }
    }

    /// A CPU has served another interrupt.
    #[inline(never)]
    fn serve_other(&mut self, cpu: CpuId, interrupt: Interrupt) {
        match interrupt {
            Interrupt::Tick => {
                self.scheduler_tick(cpu);
                self.rcu_tick(cpu);
            }
            Interrupt::Timer(Timer::Background(source)) => self.background_timer(cpu, source),
            Interrupt::Timer(Timer::Task(task)) => self.task_timer(cpu, task),
            Interrupt::Timer(Timer::WriteBack) => self.look_for_old_pages(cpu),
            Interrupt::Timer(Timer::Lease) => self.lease_timer(cpu),
            Interrupt::Rcu => self.rcu_soft_interrupt(cpu),
            Interrupt::Frequency(clock) => self.wake_sugov(cpu, clock),
            Interrupt::Completion(_)
            | Interrupt::Timer(Timer::FairServer)
            | Interrupt::Reschedule => {}
        }
    }

    /// A CPU on which nothing is in progress serves interrupts, runs a task or goes idle.
    fn run_next(&mut self, cpu: CpuId) {
        loop {
            if let Some(interrupt) = self.take_interrupt(cpu) {
                let wakes = match interrupt {
                    Interrupt::Completion(request) => self.completion_wakes(request),
                    _ => false,
                };
                let cost = self.setup.cost(interrupt, wakes);
                if self.begin_interrupt(cpu, interrupt, cost) {
                    return;
                }
                self.serve(cpu, interrupt);
                continue;
            }
            let must_run = self.cpus[cpu].run_queue.has_task();
            if self.goes_on_polling(cpu, must_run) {
                return;
            }
            if must_run {
                self.leave_idle_loop(cpu);
            } else if !self.take_over_waiting(cpu) {
                self.enter_idle(cpu);
                debug_assert!(self.clock_is_armed(cpu));
                return;
            }
            match self.run_task(cpu) {
                TaskTurn::Free => {}
                turn => return self.follow_task(cpu, turn),
            }
        }
    }

    /// A CPU goes on after a task's turn.
    #[inline(always)]
    fn follow_task(&mut self, cpu: CpuId, turn: TaskTurn) {
        match turn {
            TaskTurn::Busy => {}
            TaskTurn::Free => self.run_next(cpu),
            TaskTurn::Ended(job) => {
                self.run_next(cpu);
                self.end_job_process(job);
            }
        }
    }

    /// A drive has finished a request, or a piece.
    #[inline(always)]
    fn served(&mut self, request: RequestId) {
        match self.end_service(request) {
            Notice::Now => self.notify(request),
            Notice::Collected(queue) => self.notify_collected(queue),
            Notice::Later => {}
        }
    }

    /// Interrupts for a queue's collected completions.
    #[inline(never)]
    fn notify_collected(&mut self, queue: usize) {
        for request in self.take_collected(queue) {
            self.notify(request);
        }
    }

    /// Interrupts for a completion.
    #[inline(always)]
    fn notify(&mut self, request: RequestId) {
        let cpu = self.completion_cpu(request);
        self.interrupt(cpu, Interrupt::Completion(request));
    }

    /// Passes the turn on, until a CPU with the turn works, or nobody wants the turn.
    #[inline(never)]
    fn pass_turns(&mut self) {
        while let Some((cpu, waiting)) = self.pass_turn() {
            self.take_turn(cpu, waiting);
        }
        self.emulator.schedule_player(&mut self.context);
    }

    /// A CPU gets the turn, and does everything that waits for the turn.
    fn take_turn(&mut self, cpu: CpuId, waiting: Waiting) {
        if waiting.is_cut() {
            self.resume_phase(cpu);
        }
        if waiting.has_phase_end() {
            self.end_phase(cpu);
        }
        if waiting.has_interrupt() && self.cpus[cpu].has_interrupt() {
            self.kick(cpu);
        }
    }
}
