//! Dispatch: each event goes to its mechanism, and then to the mechanisms that follow at the same instant.
//!
//! No mechanism's rule is here. A mechanism says what an event leaves to do ([`TaskTurn`], [`Notice`]),
//! and dispatch calls the next mechanism directly, so that no folder's events call upwards.

use crate::block::events::Notice;
use crate::block::request::RequestKind;
use crate::core::basics::{CpuId, Interrupt, NEVER, RequestId, Timer};
use crate::core::calendar::{Event, Slot};
use crate::core::observer::{EVENTS_BETWEEN_PROGRESS_CALLS, Observer};
use crate::cpu::phase::Mode;
use crate::emulator::state::Waiting;
use crate::engine::watchdog::Watchdog;
use crate::engine::{Engine, Finished};
use crate::error::{LATEST, SimError, Stuck};
use crate::task::events::TaskTurn;
use crate::task::fio::setup::JobSetup;

impl<O: Observer> Engine<'_, O> {
    /// Runs the event loop until every job and thread has ended, or the time is over.
    ///
    /// # Errors
    /// The run goes nowhere: the threads of the workload wait for each other, or take steps without
    /// end.
    pub(crate) fn run_to_end(mut self) -> Result<Finished, SimError> {
        let end = self.setup.programs.latest_end().unwrap_or(u64::MAX);
        let last = end.min(LATEST);
        let mut events = 0;
        let jobs = self.workload.jobs();
        let (warm_up_end, span) = match self.setup.server() {
            Some(server) => (
                server.end_of_warm_up(),
                Some(server.span_with_counted_requests()),
            ),
            None => (
                jobs.end_of_warm_up(),
                jobs.span_with_counted_requests(&self.setup.jobs),
            ),
        };
        self.recorder.prepare_counts_of_jobs(self.setup.jobs.len());
        let mut warm_up_ends = warm_up_end.unwrap_or(NEVER);
        let replays = self.setup.jobs.iter().any(JobSetup::replays_trace);
        // The load of a trace changes by itself, so that a changing latency says nothing.
        if let Some((begin, end)) = span
            && !replays
        {
            self.recorder.prepare_batches_between(begin, end);
        }
        let mut watchdog = Watchdog::default();
        // Every CPU has asked its governor at least once by now.
        self.check_that_governors_answer()?;
        while self.context.has_unended_process() && !self.context.observer_lets_run_stop() {
            self.context.end_observation_if_unwanted();
            let Some((time, event)) = self.context.pop_next_event() else {
                if end <= last {
                    self.context.advance_time_to(end);
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
                self.context.advance_time_to(end);
                break;
            }
            if time >= warm_up_ends {
                self.context.advance_time_to(warm_up_ends);
                warm_up_ends = NEVER;
                self.note_totals_at_end_of_warm_up();
            }
            self.context.advance_time_to(time);
            events += 1;
            if events % EVENTS_BETWEEN_PROGRESS_CALLS == 0 {
                self.context.tell_observer_of_progress();
                if events % Watchdog::EVERY == 0 {
                    let finished = self.recorder.finished_request_count();
                    let requests = (!self.setup.jobs.is_empty()).then_some(finished);
                    watchdog.check_progress(time, requests)?;
                    self.check_that_governors_answer()?;
                }
            }
            self.handle_event(event);
            if self.emulator.cpus_take_turns() {
                self.pass_turns_until_a_cpu_works();
            }
        }
        self.check_that_governors_answer()?;
        if let Some(failure) = self.context.take_failure() {
            return Err(failure);
        }
        let own_events = events - self.context.observer_only_event_count();
        Ok(self.finish_run(own_events))
    }

    /// Returns an error if a user-written governor has failed.
    fn check_that_governors_answer(&self) -> Result<(), SimError> {
        let failure = self.cpus.iter().find_map(|cpu| cpu.governor_failure());
        failure.map_or(Ok(()), |why| Err(SimError::Governor(why.to_owned())))
    }

    #[inline(always)]
    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Phase(cpu) => self.handle_phase_end(cpu),
            Event::Clock(cpu) => {
                self.handle_clock_event(cpu);
                self.make_cpu_serve_interrupts(cpu);
            }
            Event::Frequency(clock) => {
                let powered_cpus = self.change_frequency_and_return_powered_cpus(clock);
                powered_cpus.for_each(|cpu| self.restart_work_after_clock_change(cpu));
            }
            Event::Hardware(cluster) => self.end_clock_slot(cluster),
            Event::Device(device) => self.handle_device_event(device),
            Event::Served(request) => self.handle_request_served_by_drive(request),
        }
    }

    #[cold]
    fn handle_device_event(&mut self, device: usize) {
        match self.context.slot_of_device(device) {
            Slot::Queue(queue) => {
                self.emulator.request_end_of_turn();
                self.interrupt_for_coalesced_completions(queue);
            }
            Slot::Drive(drive) => {
                self.context.count_observer_only_event();
                self.tell_observer_of_drive_state(drive);
            }
            Slot::Arrival => {
                self.emulator.request_end_of_turn();
                while let Some(cpu) = self.take_due_arrivals_of_one_cpu() {
                    self.interrupt_cpu(cpu, Interrupt::Network);
                }
            }
            Slot::Theft(cpu) if self.cpus[cpu].is_busy() => {
                self.interrupt_cpu(cpu, Interrupt::Stolen);
            }
            // An idle CPU has nothing that a host could take.
            Slot::Theft(cpu) => self.schedule_next_theft(cpu),
            _ => {
                self.pause_programs_at_spin_timers();
                if let Some(request) = self.emulator.handle_player_event(self.context.now()) {
                    self.handle_request_served_by_drive(request);
                }
            }
        }
    }

    /// Follows up the end of a CPU's phase.
    #[inline(always)]
    fn handle_phase_end(&mut self, cpu: CpuId) {
        if self.due_phase_goes_on(cpu) {
            return;
        }
        match self.cpus[cpu].phase_mode() {
            Mode::Idle => {
                if self.end_polling_if_polling(cpu) {
                    self.serve_interrupts_run_task_or_idle(cpu);
                } else {
                    self.interrupt_cpu(cpu, Interrupt::Reschedule);
                }
            }
            Mode::Waking => {
                self.end_waking(cpu);
                self.serve_interrupts_run_task_or_idle(cpu);
            }
            Mode::Interrupt => {
                let interrupt = self.end_interrupt_work(cpu);
                self.act_on_served_interrupt(cpu, interrupt);
                self.serve_interrupts_run_task_or_idle(cpu);
            }
            Mode::Task => {
                let turn = match self.end_task_phase(cpu) {
                    Some(task) => self.end_work_segment(cpu, task),
                    None => TaskTurn::Free,
                };
                self.continue_after_task_turn(cpu, turn);
            }
        }
    }

    /// Adds a pending interrupt to a CPU, and makes the CPU serve it as soon as possible.
    #[inline(always)]
    fn interrupt_cpu(&mut self, cpu: CpuId, interrupt: Interrupt) {
        self.cpus[cpu].add_pending_interrupt(interrupt);
        self.make_cpu_serve_interrupts(cpu);
    }

    /// Makes a CPU look at its pending interrupts, now or when it can.
    fn make_cpu_serve_interrupts(&mut self, cpu: CpuId) {
        if self.prepare_cpu_for_interrupts(cpu) {
            self.serve_interrupts_run_task_or_idle(cpu);
        }
    }

    /// Does what follows from an interrupt that a CPU has served.
    #[inline(always)]
    fn act_on_served_interrupt(&mut self, cpu: CpuId, interrupt: Interrupt) {
        match interrupt {
            Interrupt::Completion(request) => self.act_on_served_completion(cpu, request),
            Interrupt::Reschedule => {}
            _ => self.act_on_served_other_interrupt(cpu, interrupt),
        }
    }

    /// Does what follows from a completion interrupt that a CPU has served.
    #[inline(never)]
    fn act_on_served_completion(&mut self, cpu: CpuId, request: RequestId) {
        if self.requests[request].kind == RequestKind::Flush {
            for page_request in self.deliver_flush(cpu, request) {
                self.end_page_cache_request(cpu, page_request);
            }
        } else if let Some(page_request) = self.deliver_completion(cpu, request) {
            self.end_page_cache_request(cpu, page_request);
        }
    }

    /// Does what follows from any other interrupt that a CPU has served.
    #[inline(never)]
    fn act_on_served_other_interrupt(&mut self, cpu: CpuId, interrupt: Interrupt) {
        match interrupt {
            Interrupt::Tick => {
                self.handle_scheduler_tick(cpu);
                self.check_rcu_at_tick(cpu);
            }
            Interrupt::Timer(Timer::Background(source)) => {
                self.handle_background_timer(cpu, source);
            }
            Interrupt::Timer(Timer::Task(task)) => self.handle_task_timer(cpu, task),
            Interrupt::Timer(Timer::WriteBack) => self.handle_write_back_timer(cpu),
            Interrupt::Timer(Timer::Lease) => self.handle_psd_lease_timer(cpu),
            Interrupt::Rcu => self.handle_rcu_soft_interrupt(cpu),
            Interrupt::Frequency(clock) => self.wake_sugov_thread(cpu, clock),
            Interrupt::Network => self.deliver_arrivals(cpu),
            Interrupt::Stolen => self.schedule_next_theft(cpu),
            Interrupt::Completion(_)
            | Interrupt::Timer(Timer::FairServer)
            | Interrupt::Reschedule => {}
        }
    }

    /// Gives a CPU with nothing in progress something to do: pending interrupts first, then a task, else it goes idle.
    fn serve_interrupts_run_task_or_idle(&mut self, cpu: CpuId) {
        loop {
            if let Some(interrupt) = self.take_next_interrupt(cpu) {
                let wakes = match interrupt {
                    Interrupt::Completion(request) => self.completion_wakes_task(request),
                    Interrupt::Stolen => return self.begin_stolen_time(cpu),
                    _ => false,
                };
                let cost = self.setup.interrupt_service_work(interrupt, wakes);
                if self.begin_interrupt_work(cpu, interrupt, cost) {
                    return;
                }
                self.act_on_served_interrupt(cpu, interrupt);
                continue;
            }
            let must_run = self.cpus[cpu].run_queue.has_task();
            if self.continue_polling_or_end_idle(cpu, must_run) {
                return;
            }
            if must_run {
                self.leave_idle_loop(cpu);
            } else if !self.take_over_waiting_task_before_idle(cpu) {
                self.enter_idle(cpu);
                debug_assert!(self.clock_event_is_scheduled(cpu));
                return;
            }
            match self.pick_and_run_task(cpu) {
                TaskTurn::Free => {}
                turn => return self.continue_after_task_turn(cpu, turn),
            }
        }
    }

    /// Gives a CPU something to do after a task's turn, if the task leaves it free.
    #[inline(always)]
    fn continue_after_task_turn(&mut self, cpu: CpuId, turn: TaskTurn) {
        match turn {
            TaskTurn::Busy => {}
            TaskTurn::Free => self.serve_interrupts_run_task_or_idle(cpu),
            TaskTurn::Ended(job) => {
                self.serve_interrupts_run_task_or_idle(cpu);
                self.end_process_of_job(job);
            }
        }
    }

    /// Follows up a request, or piece, that a drive has finished: interrupts a CPU now or later.
    #[inline(always)]
    fn handle_request_served_by_drive(&mut self, request: RequestId) {
        match self.end_drive_service(request) {
            Notice::Now => self.interrupt_for_completion(request),
            Notice::Collected(queue) => self.interrupt_for_coalesced_completions(queue),
            Notice::Later => {}
            Notice::Polled => self.deliver_polled_completion(request),
        }
    }

    /// Interrupts CPUs for a queue's coalesced completions.
    #[inline(never)]
    fn interrupt_for_coalesced_completions(&mut self, queue: usize) {
        for request in self.take_coalesced_completions(queue) {
            self.interrupt_for_completion(request);
        }
    }

    /// Interrupts the right CPU for a request's completion.
    #[inline(always)]
    fn interrupt_for_completion(&mut self, request: RequestId) {
        let cpu = self.count_and_return_completion_cpu(request);
        self.interrupt_cpu(cpu, Interrupt::Completion(request));
    }

    /// Passes the emulator's turn on until a CPU with the turn works, or nobody wants the turn.
    #[inline(never)]
    fn pass_turns_until_a_cpu_works(&mut self) {
        while let Some((cpu, waiting)) = self.pass_turn_to_next_cpu() {
            self.do_what_waited_for_turn(cpu, waiting);
        }
        self.emulator.schedule_player_event(&mut self.context);
    }

    /// Makes a CPU that gets the turn do everything that has waited for its turn.
    fn do_what_waited_for_turn(&mut self, cpu: CpuId, waiting: Waiting) {
        if waiting.has_cut_work() {
            self.resume_stopped_work(cpu);
        }
        if waiting.has_phase_end() {
            // Something may have ended the phase once more meanwhile.
            self.cancel_phase_end(cpu);
            self.handle_phase_end(cpu);
        }
        if waiting.has_interrupt() && self.cpus[cpu].has_pending_interrupt() {
            self.make_cpu_serve_interrupts(cpu);
        }
    }
}
