//! Kernel threads: workers for background timers, the grace-period thread, schedutil's threads.

use crate::core::basics::{CpuId, TaskId, Timer};
use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::rcu::state::ThreadSleep;
use crate::task::events::TaskTurn;
use crate::task::state::Task;

impl<O: Observer> Engine<'_, O> {
    /// Makes the background workers, and arms their timers.
    pub(crate) fn start_background(&mut self) {
        for cpu in 0..self.cpus.len() {
            for index in 0..self.setup.background.len() {
                // The first tasks are the workers, numbered by CPU and source. A roaming worker is the first CPU's.
                // The first roaming worker begins on the last CPU, since jobs begin on the first, and each further one
                // on the idle CPU before.
                let roams = self.setup.background[index].timer.roams;
                let before = self.setup.background[..index].iter();
                let earlier = before.filter(|source| source.timer.roams).count();
                let at = if roams {
                    self.cpus.len() - 1 - earlier % self.cpus.len()
                } else {
                    cpu
                };
                self.tasks.push(Task::worker(at, !roams));
                // The grace-period thread sleeps until somebody asks for a grace period.
                let asked = self.setup.grace_period_thread() != Some(index);
                if asked && (!roams || cpu == 0) {
                    self.arm_background(at, index);
                }
            }
        }
    }

    /// A background source's timer has been served.
    pub(crate) fn background_timer(&mut self, cpu: CpuId, index: usize) {
        let source = self.setup.background[index];
        if source.timer.roams {
            // The first CPU's worker, on whatever CPU. The timer runs again after the worker has gone back to sleep.
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

    /// Arms a background source's next arrival on a CPU.
    fn arm_background(&mut self, cpu: CpuId, index: usize) {
        let source = self.setup.background[index].timer;
        let mean = match self.setup.cpu.keeps_house_for(cpu) {
            _ if source.roams => source.mean_interval,
            0 => return,
            1 => source.mean_interval,
            served => source.mean_interval / f64::from(served),
        };
        // A roaming source uses the first CPU's stream on any CPU.
        let stream = if source.roams { 0 } else { cpu };
        let delay = match source.periodic {
            false => self.context.random().background(stream, index, mean),
            // The first arrival comes at any time within a period.
            true if self.context.now() == 0 => {
                self.context.random().background(stream, index, mean) % (mean as u64).max(1)
            }
            true => mean as u64,
        };
        let timer = Timer::Background(index);
        if source.migratory {
            let at = self.tick_from(self.context.now() + delay);
            self.migratory_timers.start(index, at, cpu);
        } else if source.wheel {
            // A timer-wheel timer expires with a tick.
            let at = self.tick_from(self.context.now() + delay);
            self.cpus[cpu].add_wheel_timer(at, timer);
        } else {
            let at = self.context.now() + delay;
            self.cpus[cpu].add_timer(at, source.slack, timer);
        }
    }

    /// A roaming worker goes to sleep: the timer starts on the CPU where the worker ran. The task has the source's
    /// number, as the first CPU's worker.
    #[cold]
    fn rest_roaming(&mut self, cpu: CpuId, task: TaskId) {
        self.arm_background(cpu, task);
        self.arm_clock(cpu);
    }

    /// A roaming task's timer is not needed any more.
    #[cold]
    fn stop_roaming_timer(&mut self, index: TaskId) {
        if self.setup.background[index].timer.migratory {
            return self.migratory_timers.stop(index);
        }
        let timer = Timer::Background(index);
        let mut cpus = self.cpus.iter_mut();
        if let Some(cpu) = cpus.position(|cpu| cpu.remove_wheel_timer(timer)) {
            self.arm_clock(cpu);
        }
    }

    /// A worker has done its source's work.
    pub(super) fn end_background_work(&mut self, cpu: CpuId, task: TaskId) -> TaskTurn {
        let source = self.setup.background[task % self.setup.background.len()];
        if source.callbacks {
            self.cpus[cpu].rcu.call();
        }
        if self.setup.grace_period_thread() == Some(task) {
            self.end_grace_period_work(cpu, task);
        } else if !self.tasks[task].is_bound() {
            self.rest_roaming(cpu, task);
        }
        self.sleep(cpu, task, false);
        TaskTurn::Free
    }

    /// RCU's soft interrupt on a CPU, which may wake the thread of grace periods.
    #[cold]
    pub(crate) fn rcu_soft_interrupt(&mut self, cpu: CpuId) {
        let Some((rcu, thread)) = self.rcu.as_mut().zip(self.setup.grace_period_thread()) else {
            return;
        };
        if rcu.soft_interrupt(cpu, &mut self.cpus[cpu].rcu) && !self.tasks[thread].runnable {
            self.stop_roaming_timer(thread);
            self.tasks[thread].give_work(self.setup.background[thread].cycles());
            self.wake_task(Some(cpu), thread, self.choose_cpu(thread, None));
        }
    }

    /// The thread of grace periods has worked on a CPU, and is about to sleep.
    #[cold]
    fn end_grace_period_work(&mut self, cpu: CpuId, thread: TaskId) {
        let Some(rcu) = &mut self.rcu else { return };
        let mut own = std::mem::take(&mut self.cpus[cpu].rcu);
        let sleep = rcu.work(cpu, &mut own, |other| {
            if let Some(c) = self.cpus.get(other) {
                return (!c.is_busy(), c.times_idle());
            }
            // The player halts after each interrupt.
            (self.emulator.player_is_halted(), self.context.now())
        });
        self.cpus[cpu].rcu = own;
        if sleep == ThreadSleep::UntilScan {
            self.rest_roaming(cpu, thread);
        }
    }

    /// Makes schedutil's threads, one for each clock, where the driver does not switch fast.
    pub(crate) fn start_sugov(&mut self) {
        if self.setup.frequency.sugov_cycles().is_some() {
            for (clock, domain) in self.domains.iter().enumerate() {
                self.clock_control.add_sugov(self.tasks.len());
                self.tasks.push(Task::sugov(clock, domain.cpus().start));
            }
        }
    }

    /// Wakes schedutil's thread for a clock.
    pub(crate) fn wake_sugov(&mut self, cpu: CpuId, clock: usize) {
        let thread = self.clock_control.sugov(clock);
        let work = self.setup.frequency.sugov_cycles().unwrap_or(0);
        self.tasks[thread].give_work(work);
        self.wake_task(Some(cpu), thread, self.tasks[thread].cpu);
    }
}
