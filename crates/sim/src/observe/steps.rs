//! Events that are told to an observer.

use wakepath_units::Nanoseconds;

use crate::block::requests::Requests;
use crate::core::basics::{CpuId, Interrupt};
use crate::core::calendar::Slot;
use crate::core::observer::{Activity, InterruptKind, Observer, Work};
use crate::cpu::state::{Cpu, Doing};
use crate::engine::Engine;
use crate::task::state::{Step, Task};

impl<O: Observer> Engine<'_, O> {
    /// Tells the observer, if any, what a CPU does from now on.
    pub(crate) fn tell_observer_of_cpu(&mut self, cpu: CpuId) {
        let now = Nanoseconds(self.context.now());
        if let Some(observer) = self.context.observer() {
            let activity = activity_for_observer(&self.cpus[cpu], &self.tasks, &self.requests);
            observer.cpu_activity_changed(now, cpu, activity);
        }
    }

    /// Tells the observer, if any, of a timer whose interrupt takes no time.
    pub(crate) fn tell_observer_of_short_timer(&mut self, cpu: CpuId) {
        let now = Nanoseconds(self.context.now());
        if let Some(observer) = self.context.observer() {
            observer.short_timer_served(now, cpu);
        }
    }

    /// Tells the observer, if any, how many tasks run or want to run on a CPU.
    pub(crate) fn tell_observer_of_runnable_tasks(&mut self, cpu: CpuId) {
        let now = Nanoseconds(self.context.now());
        if let Some(observer) = self.context.observer() {
            observer.runnable_task_count_changed(now, cpu, self.cpus[cpu].run_queue.task_count());
        }
    }

    /// Tells the observer, if any, the frequency of a clock.
    pub(crate) fn tell_observer_of_frequency(&mut self, domain: usize) {
        let now = Nanoseconds(self.context.now());
        if let Some(observer) = self.context.observer() {
            observer.clock_frequency_changed(now, domain, self.domains[domain].frequency());
        }
    }

    /// Tells the observer, if any, a drive's power state, and schedules an event for the next change.
    pub(crate) fn tell_observer_of_drive_state(&mut self, drive: usize) {
        let now = self.context.now();
        let Some(observer) = self.context.observer() else {
            return;
        };
        let Some((state, next)) = self.drives[drive].power_state_and_next_change(now) else {
            return;
        };
        observer.drive_power_state_changed(Nanoseconds(now), drive, state);
        let slot = Slot::Drive(drive);
        match next {
            Some(at) => self.context.schedule(slot, at),
            None => self.context.cancel(slot),
        }
    }
}

/// A CPU's present activity, as an observer is told.
fn activity_for_observer(cpu: &Cpu, tasks: &[Task], requests: &Requests) -> Activity {
    match cpu.present_activity() {
        Doing::Idle(state) => Activity::Idle(state),
        Doing::Waking => Activity::Waking,
        Doing::Interrupt(interrupt) => Activity::Interrupt(match interrupt {
            Interrupt::Completion(request) => {
                InterruptKind::Completion(requests[request].id_of_whole_or(request))
            }
            Interrupt::Tick | Interrupt::Rcu => InterruptKind::Tick,
            Interrupt::Timer(_) => InterruptKind::Timer,
            Interrupt::Reschedule | Interrupt::Frequency(_) => InterruptKind::Reschedule,
            Interrupt::Network => InterruptKind::Network,
            Interrupt::Stolen => return Activity::Stolen,
        }),
        Doing::Task => {
            let task = cpu.run_queue.current_task().unwrap_or_default();
            let running = &tasks[task];
            Activity::Task {
                task,
                job: running.index_of_job_or_program(),
                work: work_for_observer(running),
            }
        }
    }
}

/// What a running task works on, as an observer is told.
fn work_for_observer(task: &Task) -> Work {
    match task.present_step() {
        Step::Call | Step::Poll if task.is_kernel_thread() => Work::Background,
        Step::Submit | Step::Deactivate | Step::Call => Work::Submit,
        Step::Resume | Step::Wait | Step::Poll => Work::Resume,
        Step::Spin if task.is_rtapp_thread() => Work::Run,
        Step::Think | Step::Spin => Work::Think,
        Step::Thread => Work::Run,
        Step::Worker => Work::Background,
    }
}
