//! Kernel threads: workers for background timers, the grace-period thread, schedutil's threads.

use crate::core::basics::{CpuId, TaskId, Timer};
use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::rcu::state::ThreadSleep;
use crate::task::events::TaskTurn;
use crate::task::state::Task;

impl<O: Observer> Engine<'_, O> {
    /// Creates the background workers, and starts their timers.
    pub(crate) fn create_background_workers(&mut self) {
        for cpu in 0..self.cpus.len() {
            for index in 0..self.setup.background.len() {
                // The first tasks are the workers, numbered by CPU and source. A roaming worker is the first CPU's.
                let roams = self.setup.background[index].timer.roams;
                let thread = self.setup.grace_period_thread();
                let grace_period_thread = thread.filter(|thread| thread.task() == index);
                let is_grace_period_thread = grace_period_thread.is_some();
                let task = self.tasks.len();
                let mut worker = Task::new_kernel_worker(cpu, !roams);
                if let Some(thread) = grace_period_thread {
                    worker.entity.set_allowed_cpu_set(thread.allowed_cpu_set());
                }
                self.tasks.push(worker);
                let recorded = grace_period_thread.and_then(|thread| thread.first_cpu());
                let at = match recorded.filter(|at| self.placement().is_allowed(task, *at)) {
                    Some(recorded) => recorded,
                    None if roams => self.choose_first_cpu_of_roaming_worker(task, index),
                    None => cpu,
                };
                self.tasks[task].cpu = at;
                if let Some(observer) = self.context.observer() {
                    let name = if is_grace_period_thread {
                        "rcu_preempt".to_owned()
                    } else if roams {
                        format!("kworker/u{index}")
                    } else {
                        format!("kworker/{cpu}:{index}")
                    };
                    observer.kernel_thread_named(task, &name);
                }
                // The grace-period thread sleeps until somebody asks for a grace period.
                if !is_grace_period_thread && (!roams || cpu == 0) {
                    self.start_background_timer(at, index);
                }
            }
        }
    }

    /// Chooses the CPU where a source's roaming worker begins: for the first such source the last CPU that the worker may
    /// use, since jobs begin on the first CPU, and for each further source the CPU before.
    fn choose_first_cpu_of_roaming_worker(&self, task: TaskId, index: usize) -> CpuId {
        let before = self.setup.background[..index].iter();
        let earlier = before.filter(|source| source.timer.roams).count();
        let cpus = 0..self.cpus.len();
        let placement = self.placement();
        let usable = cpus.rev().filter(|cpu| placement.is_allowed(task, *cpu));
        // Each machine has a CPU that is not isolated.
        usable.cycle().nth(earlier).unwrap_or(0)
    }

    /// Leaves an RCU callback on a CPU. A `nohz_full` CPU leaves callbacks to threads of other CPUs, and so needs no tick for
    /// them (`rcu_nocbs`); the threads are left out.
    pub(super) fn leave_rcu_callback(&mut self, cpu: CpuId) {
        if self.rcu.is_some() && !self.setup.cpu.is_nohz_full(cpu) {
            self.cpus[cpu].rcu.add_callback();
        }
    }

    /// Handles a background source's expired timer: its worker gets work, and the timer is started again.
    pub(crate) fn handle_background_timer(&mut self, cpu: CpuId, index: usize) {
        let source = self.setup.background[index];
        if source.timer.roams {
            // The first CPU's worker, on whatever CPU. The timer runs again after the worker has gone back to sleep.
            let task = index;
            if self.tasks[task].runnable {
                // Something else has woken the worker since the timer expired, as RCU's soft interrupt does.
                return;
            }
            self.tasks[task].set_work_of_step(source.work_per_timer());
            self.wake_task(Some(cpu), task, self.choose_cpu_for_woken_task(task, None));
            return;
        }
        if source.works_as_task() {
            let task = cpu * self.setup.background.len() + index;
            self.tasks[task].set_work_of_step(source.work_per_timer());
            if !self.tasks[task].runnable {
                self.wake_task(Some(cpu), task, cpu);
            }
        }
        self.start_background_timer(cpu, index);
        self.schedule_next_clock_event(cpu);
    }

    /// Starts the timer for a background source's next arrival on a CPU.
    fn start_background_timer(&mut self, cpu: CpuId, index: usize) {
        let source = self.setup.background[index].timer;
        let mean = match self.setup.cpu.housekept_cpu_count(cpu) {
            _ if source.roams => source.mean_interval,
            0 => return,
            1 => source.mean_interval,
            served => source.mean_interval / f64::from(served),
        };
        // A roaming source draws from the first CPU's random stream on any CPU.
        let stream = if source.roams { 0 } else { cpu };
        let delay = match source.periodic {
            false => self
                .context
                .random_streams()
                .draw_background_interval(stream, index, mean),
            // The first arrival comes at any time within a period.
            true if self.context.now() == 0 => {
                self.context
                    .random_streams()
                    .draw_background_interval(stream, index, mean)
                    % (mean as u64).max(1)
            }
            true => mean as u64,
        };
        let timer = Timer::Background(index);
        if source.migratory {
            let at = self.first_tick_at_or_after(self.context.now() + delay);
            self.migratory_timers.start(index, at, cpu);
        } else if source.wheel {
            // A timer-wheel timer expires with a tick.
            let at = self.first_tick_at_or_after(self.context.now() + delay);
            self.cpus[cpu].add_wheel_timer(at, timer);
        } else {
            let at = self.context.now() + delay;
            self.cpus[cpu].add_high_resolution_timer(at, source.slack, timer);
        }
    }

    /// A roaming worker goes to sleep: the timer starts on the CPU where the worker ran. The task has the source's
    /// number, as the first CPU's worker.
    #[cold]
    fn restart_roaming_timer(&mut self, cpu: CpuId, task: TaskId) {
        self.start_background_timer(cpu, task);
        self.schedule_next_clock_event(cpu);
    }

    /// Stops the timer of a roaming task that is woken before it expires.
    #[cold]
    fn stop_roaming_timer(&mut self, index: TaskId) {
        if self.setup.background[index].timer.migratory {
            return self.migratory_timers.stop(index);
        }
        let timer = Timer::Background(index);
        let mut cpus = self.cpus.iter_mut();
        if let Some(cpu) = cpus.position(|cpu| cpu.remove_wheel_timer(timer)) {
            self.schedule_next_clock_event(cpu);
        }
    }

    /// Ends a background worker's work: it may leave an RCU callback, and sleeps.
    pub(super) fn end_background_work(&mut self, cpu: CpuId, task: TaskId) -> TaskTurn {
        let source = self.setup.background[task % self.setup.background.len()];
        if source.callbacks {
            self.leave_rcu_callback(cpu);
        }
        let thread = self.setup.grace_period_thread();
        if thread.is_some_and(|thread| thread.task() == task) {
            self.end_grace_period_work(cpu, task);
        } else if !self.tasks[task].is_bound() {
            self.restart_roaming_timer(cpu, task);
        }
        self.put_current_task_to_sleep(cpu, task, false);
        TaskTurn::Free
    }

    /// Handles RCU's soft interrupt on a CPU, which may wake the grace-period thread.
    #[cold]
    pub(crate) fn handle_rcu_soft_interrupt(&mut self, cpu: CpuId) {
        let thread = self.setup.grace_period_thread();
        let task = thread.map(|thread| thread.task());
        let Some((rcu, thread)) = self.rcu.as_mut().zip(task) else {
            return;
        };
        if rcu.serve_soft_interrupt(cpu, &mut self.cpus[cpu].rcu) && !self.tasks[thread].runnable {
            self.stop_roaming_timer(thread);
            self.tasks[thread].set_work_of_step(self.setup.background[thread].work_per_timer());
            self.wake_task(
                Some(cpu),
                thread,
                self.choose_cpu_for_woken_task(thread, None),
            );
        }
    }

    /// Ends work of RCU's grace-period thread on a CPU: the grace periods advance, and its next timer is started.
    #[cold]
    fn end_grace_period_work(&mut self, cpu: CpuId, thread: TaskId) {
        let Some(rcu) = &mut self.rcu else { return };
        let mut own = std::mem::take(&mut self.cpus[cpu].rcu);
        let sleep = rcu.advance_grace_period_thread(cpu, &mut own, |other| {
            if let Some(c) = self.cpus.get(other) {
                return (!c.is_busy(), c.idle_period_count());
            }
            // The player halts after each interrupt, so its idle count differs at any later time.
            (self.emulator.player_is_halted(), self.context.now())
        });
        self.cpus[cpu].rcu = own;
        if sleep == ThreadSleep::UntilScan {
            self.restart_roaming_timer(cpu, thread);
        }
    }

    /// Creates schedutil's threads, one for each clock, if the driver does not switch fast.
    pub(crate) fn create_sugov_threads(&mut self) {
        if self.setup.frequency.sugov_thread_work().is_some() {
            for (clock, domain) in self.domains.iter().enumerate() {
                if let Some(observer) = self.context.observer() {
                    observer.kernel_thread_named(self.tasks.len(), &format!("sugov:{clock}"));
                }
                self.clock_control.add_sugov_thread(self.tasks.len());
                self.tasks
                    .push(Task::new_sugov_thread(clock, domain.cpus().start));
            }
        }
    }

    /// Wakes schedutil's thread for a clock, to change its frequency.
    pub(crate) fn wake_sugov_thread(&mut self, cpu: CpuId, clock: usize) {
        let thread = self.clock_control.sugov_thread(clock);
        let work = self.setup.frequency.sugov_thread_work().unwrap_or(0);
        self.tasks[thread].set_work_of_step(work);
        self.wake_task(Some(cpu), thread, self.tasks[thread].cpu);
    }
}
