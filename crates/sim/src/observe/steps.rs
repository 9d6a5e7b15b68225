//! What is told to an observer.

use wakepath_units::Nanoseconds;

use crate::block::requests::Requests;
use crate::core::basics::{CpuId, Interrupt};
use crate::core::calendar::Slot;
use crate::core::observer::{Activity, InterruptKind, Observer, Work};
use crate::cpu::state::{Cpu, Doing};
use crate::engine::Engine;
use crate::task::state::{Step, Task};

impl<O: Observer> Engine<'_, O> {
    /// Tells the observer what a CPU does now.
    pub(crate) fn observe_cpu(&mut self, cpu: CpuId) {
        let now = Nanoseconds(self.context.now());
        if let Some(observer) = self.context.observer() {
            let activity = activity(&self.cpus[cpu], &self.tasks, &self.requests);
            observer.cpu(now, cpu, activity);
        }
    }

    /// Tells the observer how many tasks run or want to run on a CPU.
    pub(crate) fn observe_runnable(&mut self, cpu: CpuId) {
        let now = Nanoseconds(self.context.now());
        if let Some(observer) = self.context.observer() {
            observer.runnable(now, cpu, self.cpus[cpu].run_queue.tasks());
        }
    }

    /// Tells the observer the frequency of a clock.
    pub(crate) fn observe_frequency(&mut self, domain: usize) {
        let now = Nanoseconds(self.context.now());
        if let Some(observer) = self.context.observer() {
            observer.frequency(now, domain, self.domains[domain].frequency());
        }
    }

    /// Tells the observer a drive's power state, and waits for the next one.
    pub(crate) fn observe_drive(&mut self, drive: usize) {
        let now = self.context.now();
        let Some(observer) = self.context.observer() else {
            return;
        };
        let Some((state, next)) = self.drives[drive].power_state(now) else {
            return;
        };
        observer.drive_power(Nanoseconds(now), drive, state);
        let slot = Slot::Drive(drive);
        match next {
            Some(at) => self.context.schedule(slot, at),
            None => self.context.cancel(slot),
        }
    }
}

/// What a CPU does, as an observer sees it.
fn activity(cpu: &Cpu, tasks: &[Task], requests: &Requests) -> Activity {
    match cpu.doing() {
        Doing::Idle(state) => Activity::Idle(state),
        Doing::Waking => Activity::Waking,
        Doing::Interrupt(interrupt) => Activity::Interrupt(match interrupt {
            Interrupt::Completion(request) => {
                InterruptKind::Completion(requests[request].number_of_whole(request))
            }
            Interrupt::Tick | Interrupt::Rcu => InterruptKind::Tick,
            Interrupt::Timer(_) => InterruptKind::Timer,
            Interrupt::Reschedule | Interrupt::Frequency(_) => InterruptKind::Reschedule,
        }),
        Doing::Task => {
            let task = cpu.run_queue.current().unwrap_or_default();
            let running = &tasks[task];
            Activity::Task {
                task,
                job: running.owner(),
                work: work_kind(running),
            }
        }
    }
}

/// What a task works on, as an observer sees it.
fn work_kind(task: &Task) -> Work {
    match task.step() {
        Step::Call if task.is_kernel_thread() => Work::Background,
        Step::Submit | Step::Deactivate | Step::Call => Work::Submit,
        Step::Resume | Step::Wait => Work::Resume,
        Step::Spin if task.is_thread() => Work::Run,
        Step::Think | Step::Spin => Work::Think,
        Step::Thread => Work::Run,
        Step::Worker => Work::Background,
    }
}
