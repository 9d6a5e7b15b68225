//! The timers of background work, also those that other CPUs take over.

use crate::core::basics::{CpuId, Interrupt, NEVER, TaskId, Timer};
use crate::cpu::pulled::{MigratoryTimer, MigratoryTimers};
use crate::engine::Engine;
use crate::observe::observer::Observer;
use crate::task::state::Task;

impl<O: Observer> Engine<'_, O> {
    /// Makes the tasks of background work, and arms its timers.
    pub(crate) fn start_background(&mut self) {
        for cpu in 0..self.cpus.len() {
            for index in 0..self.setup.background.len() {
                // The first tasks are the workers, numbered by CPU and source. One that roams is that of the first CPU. The first of
                // them begins on the last CPU, since jobs begin on the first, and each other one on the idle CPU before.
                let roams = self.setup.background[index].timer.roams;
                let before = self.setup.background[..index].iter();
                let earlier = before.filter(|source| source.timer.roams).count();
                let at = if roams {
                    self.cpus.len() - 1 - earlier % self.cpus.len()
                } else {
                    cpu
                };
                self.tasks.push(Task::worker(at, !roams));
                // The thread of grace periods sleeps until somebody asks for one.
                let asked = self.setup.grace_period_thread() != Some(index);
                if asked && (!roams || cpu == 0) {
                    self.arm_background(at, index);
                }
            }
        }
    }

    /// The timer of a background source has been served.
    pub(super) fn background_timer(&mut self, cpu: CpuId, index: usize) {
        let source = self.setup.background[index];
        if source.timer.roams {
            // The worker of the first CPU, wherever it is. Its timer runs again from when it goes back to sleep.
            let task = index;
            self.tasks[task].give_work(source.cycles());
            self.wake_task(Some(cpu), task, self.choose_cpu(task, None));
            return;
        }
        if source.is_task() {
            let task = cpu * self.setup.background.len() + index;
            self.tasks[task].give_work(source.cycles());
            if !self.tasks[task].runnable {
                self.wake_task(Some(cpu), task, cpu);
            }
        }
        self.arm_background(cpu, index);
        self.arm_clock(cpu);
    }

    /// Arms the next arrival of a background source on a CPU.
    pub(crate) fn arm_background(&mut self, cpu: CpuId, index: usize) {
        let source = self.setup.background[index].timer;
        let mean = match self.setup.cpu.keeps_house_for[cpu] {
            _ if source.roams => source.mean_interval,
            0 => return,
            1 => source.mean_interval,
            served => source.mean_interval / f64::from(served),
        };
        // What roams has the stream of the first CPU wherever it is.
        let stream = if source.roams { 0 } else { cpu };
        let delay = match source.periodic {
            false => self.random.background(stream, index, mean),
            // The first one comes at any time within a period.
            true if self.now == 0 => {
                self.random.background(stream, index, mean) % (mean as u64).max(1)
            }
            true => mean as u64,
        };
        let timer = Timer::Background(index);
        if source.pulled {
            let at = self.tick_from(self.now + delay);
            self.pulled[index] = MigratoryTimer { at, cpu };
        } else if source.wheel {
            // A timer-wheel timer expires with a tick.
            let at = self.tick_from(self.now + delay);
            self.cpus[cpu].timers.wheel.add(at, timer);
        } else {
            let timers = &mut self.cpus[cpu].timers.precise;
            timers.add_with_slack(self.now + delay, source.slack, timer);
        }
    }

    /// The task of a background source that there is once goes to sleep: its timer starts on the CPU where it ran. The task has
    /// the number of its source, as it is the worker of the first CPU.
    #[cold]
    pub(crate) fn rest_roaming(&mut self, cpu: CpuId, task: TaskId) {
        self.arm_background(cpu, task);
        self.arm_clock(cpu);
    }

    /// The timer of a task that roams is not needed any more.
    #[cold]
    pub(crate) fn stop_roaming_timer(&mut self, index: TaskId) {
        if self.setup.background[index].timer.pulled {
            self.pulled[index].at = NEVER;
            return;
        }
        let timer = Timer::Background(index);
        let on = (0..self.cpus.len()).find(|cpu| self.cpus[*cpu].timers.wheel.remove(timer));
        if let Some(cpu) = on {
            self.arm_clock(cpu);
        }
    }

    /// Lets a CPU's own timers expire that others may take over, and those of CPUs that sleep without a tick.
    #[cold]
    pub(super) fn pull_timers(&mut self, cpu: CpuId) {
        for index in 0..self.pulled.len() {
            let timer = self.pulled[index];
            if timer.at <= self.now && (timer.cpu == cpu || self.cpus[timer.cpu].tick.stopped) {
                self.pulled[index].at = NEVER;
                let expired = Interrupt::Timer(Timer::Background(index));
                self.cpus[cpu].interrupts.push_back(expired);
            }
        }
    }

    /// The timers that others may take over, as the idle loop of a CPU sees them.
    #[cold]
    pub(crate) fn pulled_for(&self, cpu: CpuId) -> MigratoryTimers {
        let own = self.pulled.iter().filter(|timer| timer.cpu == cpu);
        let mut others = (0..self.cpus.len()).filter(|other| *other != cpu);
        MigratoryTimers {
            own: own.map(|timer| timer.at).min().unwrap_or(NEVER),
            all: self
                .pulled
                .iter()
                .map(|timer| timer.at)
                .min()
                .unwrap_or(NEVER),
            last: others.all(|other| self.cpus[other].tick.stopped),
        }
    }
}
