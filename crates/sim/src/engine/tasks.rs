//! Tasks: waking, running, what they do next.

use wakepath_policies::psd::Grant;

use super::{Engine, Slot};
use crate::attribution::{Part, Work};
use crate::cpu::{CpuId, Mode, TaskId, Timer};
use crate::frequency::Report;
use crate::observer::{Observer, RequestStep};
use crate::task::Step;

impl<O: Observer> Engine<'_, O> {
    /// The CPU on which a woken task runs: its previous one if that is idle, else an idle one of
    /// the same cluster, else its previous one.
    pub(super) fn choose_cpu(&self, task: TaskId) -> CpuId {
        let previous = self.tasks[task].cpu;
        let idle = |cpu: CpuId| {
            let c = &self.cpus[cpu];
            !c.has_task()
        };
        if idle(previous) {
            return previous;
        }
        let cluster = &self.setup.clusters[self.cpus[previous].cluster];
        (cluster.first_cpu..cluster.first_cpu + cluster.cpus)
            .find(|cpu| idle(*cpu))
            .unwrap_or(previous)
    }

    /// Puts a task on the run queue of `to`; the code that wakes it runs on `from`, if on any CPU.
    /// Returns how long `to` takes to hear of it.
    pub(super) fn wake_task(&mut self, from: Option<CpuId>, task: TaskId, to: CpuId) -> u64 {
        let t = &mut self.tasks[task];
        let iowait = std::mem::take(&mut t.in_iowait);
        if iowait {
            self.cpus[t.cpu].nr_iowait -= 1;
        }
        let t = &mut self.tasks[task];
        t.cpu = to;
        t.runnable = true;
        // A CPU of another cluster puts the task on its run queue itself.
        let local = from.is_none_or(|f| f == to || self.cpus[f].cluster != self.cpus[to].cluster);
        if iowait {
            self.update_frequency(to, Report { iowait, local });
        }
        self.account(to, self.cpus[to].mode == Mode::Task);
        self.utilisation_changed(to, local);
        self.cpus[to].run_queue.push_back(task);
        self.observe_runnable(to);
        if from == Some(to) || self.cpus[to].mode != Mode::Idle {
            // It looks at its run queue when it has done what it does.
            return 0;
        }
        if self.cpus[to].polling_until.is_some() {
            // A polling CPU sees its need-resched flag without an interrupt.
            self.next(to);
            return 0;
        }
        let at = self.now + self.setup.ipi;
        if at < self.queue.due(Slot::Phase(to).number(self.cpus.len())) {
            self.schedule(Slot::Phase(to), at);
        }
        self.setup.ipi
    }

    pub(super) fn run_task(&mut self, cpu: CpuId) {
        let c = &mut self.cpus[cpu];
        if c.current.is_none() {
            c.current = c.run_queue.pop_front();
        }
        let Some(task) = c.current else { return };
        self.account(cpu, false);
        if self.tasks[task].step == Step::Wait {
            self.plan(cpu, task);
        } else {
            self.continue_task(cpu, task);
        }
    }

    /// The current task has done its segment of work.
    pub(super) fn tasks_turn(&mut self, cpu: CpuId) {
        let Some(task) = self.cpus[cpu].current else {
            return self.next(cpu);
        };
        let now = self.now;
        let step = self.tasks[task].step;
        match step {
            Step::Worker => return self.block(cpu, task, false),
            Step::Submit => {
                self.grant_lease(cpu, Grant::on_issue);
                self.submit(cpu, task);
            }
            Step::Resume => {
                let job = &self.setup.jobs[self.tasks[task].job];
                let completed = std::mem::take(&mut self.tasks[task].completed);
                let full_speed = self.domains[self.cpus[cpu].domain].full_speed();
                let (executed, cold) = (self.tasks[task].executed, self.tasks[task].cold);
                let own = self.setup.io.resume * completed.len() as u64;
                let work = Work {
                    own,
                    cold,
                    full_speed,
                };
                for request in &completed {
                    let mut r = self.requests[*request];
                    r.parts
                        .add_work(Part::Completion, now - r.cut, executed, work);
                    debug_assert_eq!(r.parts.total(), now - r.begun);
                    let bytes = job.block[r.direction as usize];
                    self.recorder.request(&r.parts, r.direction, bytes);
                    self.free_requests.push(*request);
                }
                self.tasks[task].in_flight -= completed.len() as u32;
                for request in completed {
                    self.observe_request(RequestStep::Completed { request });
                }
            }
            Step::Think | Step::Wait => {}
        }
        self.plan(cpu, task);
    }

    /// Decides a job's next step and starts it, or blocks it.
    pub(super) fn plan(&mut self, cpu: CpuId, task: TaskId) {
        let job = &self.setup.jobs[self.tasks[task].job];
        let t = &mut self.tasks[task];
        let more = job
            .end
            .is_none_or(|end| self.now < self.group_started + end)
            && job.bytes.is_none_or(|n| t.bytes < n);
        let full = t.in_flight == job.depth;
        let pause = job.think_time > 0 && t.pause_is_due(u64::from(job.think_blocks));
        let held = if job.periods.is_some() && more && !full {
            self.held_back(task)
        } else {
            None
        };
        let t = &mut self.tasks[task];
        if !t.completed.is_empty() && (full || !more || pause || held.is_some()) {
            t.begin(
                Step::Resume,
                self.setup.io.resume * t.completed.len() as u64,
            );
            self.attribute_wake_up(cpu, task);
            return self.continue_task(cpu, task);
        }
        if !more && t.in_flight == 0 {
            self.jobs_running -= 1;
            self.block(cpu, task, false);
            if self.jobs_running == 0 {
                self.start_jobs();
            }
            return;
        }
        // As fio: before it pauses or waits for its turn, everything in flight is completed.
        if !more || full || ((pause || held.is_some()) && t.in_flight > 0) {
            t.step = Step::Wait;
            return self.block(cpu, task, job.iowait);
        }
        if t.thought_cycles < t.submitted && job.think_cycles > 0 {
            t.thought_cycles = t.submitted;
            t.begin(Step::Think, job.think_cycles);
            return self.continue_task(cpu, task);
        }
        if pause {
            t.begin_pause();
            let spin = self.domains[self.cpus[cpu].domain].work_in(job.think_spin);
            t.begin(Step::Think, spin);
            if job.think_time > job.think_spin {
                // The spin is done after the sleep: the order does not matter to anyone else.
                let wake_at = self.now + job.think_time - job.think_spin;
                self.cpus[cpu].timers.push((wake_at, Timer::Task(task)));
                self.arm_clock(cpu);
                return self.block(cpu, task, false);
            }
            return self.continue_task(cpu, task);
        }
        if let Some(until) = held {
            t.step = Step::Wait;
            self.cpus[cpu].timers.push((until, Timer::Task(task)));
            self.arm_clock(cpu);
            return self.block(cpu, task, false);
        }
        t.begin(Step::Submit, self.setup.io.submission);
        t.begun = self.now;
        self.observe_request(RequestStep::Begun { task });
        self.continue_task(cpu, task);
    }

    pub(super) fn continue_task(&mut self, cpu: CpuId, task: TaskId) {
        self.execute(cpu, Mode::Task, self.tasks[task].work);
    }

    pub(super) fn block(&mut self, cpu: CpuId, task: TaskId, iowait: bool) {
        let t = &mut self.tasks[task];
        t.runnable = false;
        t.in_iowait = iowait;
        self.cpus[cpu].nr_iowait += u32::from(iowait);
        self.cpus[cpu].current = None;
        self.observe_runnable(cpu);
        self.account(cpu, false);
        self.utilisation_changed(cpu, true);
        self.next(cpu);
    }
}
