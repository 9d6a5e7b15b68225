//! Events of the threads beside a process: see [`Helpers`](super::helpers::Helpers).

use wakepath_policies::psd::LeaseTrigger;

use crate::core::basics::{CpuId, Direction, TaskId};
use crate::core::observer::Observer;
use crate::cpu::phase::Mode;
use crate::engine::Engine;
use crate::scheduler::state::Class;
use crate::task::events::TaskTurn;
use crate::task::fio::helpers::{
    FioHelper, HAND_OVER_CYCLES, Handed, HandedIo, HelperRole, NextHelper,
};
use crate::task::state::{Kind, Step, Task};

impl<O: Observer> Engine<'_, O> {
    /// Hands a process's next request, whose submission would begin now, to a helper.
    #[inline(never)]
    pub(super) fn hand_request_to_helper(
        &mut self,
        cpu: CpuId,
        owner: TaskId,
        direction: Direction,
        bytes: u64,
    ) {
        let t = &mut self.tasks[owner];
        let begun = t.requests.begun;
        t.requests.in_flight += 1;
        let Kind::FioProcess(process) = &mut t.kind else {
            return;
        };
        let job = &self.setup.jobs[process.job];
        let (kind, _) = process.count_submitted_request(direction, bytes);
        let waits = job.submits_by_threads();
        let offset = if waits && self.drives.len() > 1 {
            process.offset_of_next_request(job, direction, bytes, self.context.random_streams())
        } else {
            0
        };
        let io = HandedIo {
            direction,
            bytes,
            kind,
            offset,
            begun,
        };
        self.hand_to_helper(cpu, owner, Handed::Io(io));
    }

    /// Hands what a process has read to a helper that checks it. The process cannot use its place in the queue meanwhile.
    pub(super) fn hand_data_to_checker(&mut self, cpu: CpuId, owner: TaskId, bytes: u64) {
        let t = &mut self.tasks[owner];
        let Kind::FioProcess(process) = &t.kind else {
            return;
        };
        let Some(helpers) = self.setup.jobs[process.job].helpers else {
            return;
        };
        t.requests.in_flight += 1;
        let work = helpers.work_to_check(bytes);
        self.hand_to_helper(cpu, owner, Handed::Check(work));
    }

    fn hand_to_helper(&mut self, cpu: CpuId, owner: TaskId, handed: Handed) {
        let Kind::FioProcess(process) = &mut self.tasks[owner].kind else {
            return;
        };
        let job = process.job;
        let Some(helpers) = &mut process.helpers else {
            return;
        };
        let role = helpers.setup.role;
        let cpu_set = helpers.cpu_set;
        let helper = match helpers.queue_work(handed) {
            NextHelper::Busy => return,
            NextHelper::Idle(helper) => helper,
            NextHelper::New => {
                let state = FioHelper {
                    owner,
                    job,
                    role,
                    io: None,
                };
                let counts_from = self.tasks[owner].requests.counts_from;
                let class = self.setup.jobs[job].class;
                let helper = self.tasks.len();
                self.tasks.push(Task::new_fio_helper(
                    cpu,
                    state,
                    counts_from,
                    (class, cpu_set),
                ));
                helper
            }
        };
        let to = self.choose_cpu_for_woken_task(helper, Some((cpu, false)));
        self.wake_task(Some(cpu), helper, to);
    }

    /// Decides what a helper does next: takes back its request, takes work, or sleeps.
    pub(in crate::task) fn begin_next_step_of_helper(
        &mut self,
        cpu: CpuId,
        task: TaskId,
    ) -> TaskTurn {
        if !self.tasks[task].requests.completed.is_empty() {
            let work = self.begin_resumption_with_completed(cpu, task);
            self.start_work(cpu, Mode::Task, work);
            return TaskTurn::Busy;
        }
        let Kind::FioHelper(helper) = self.tasks[task].kind else {
            return TaskTurn::Free;
        };
        let leaves = !self.has_work_for_helpers(helper.owner)
            && !matches!(self.tasks[task].step, Step::Deactivate | Step::Wait);
        if leaves && let Some(work) = self.setup.io.work_to_leave_run_queue() {
            self.tasks[task].begin_step(Step::Deactivate, work);
            self.start_work(cpu, Mode::Task, work);
            return TaskTurn::Busy;
        }
        let handed = self.take_handed_work(helper.owner, task);
        let work = match handed {
            None => {
                self.tasks[task].step = Step::Wait;
                self.put_current_task_to_sleep(cpu, task, false);
                return TaskTurn::Free;
            }
            Some(Handed::Check(check)) => {
                let slept = self.tasks[task].step == Step::Wait;
                let work = check + self.setup.io.wake_up_work(slept, true);
                self.tasks[task].begin_step(Step::Think, work);
                work
            }
            Some(Handed::Io(io)) => {
                self.tasks[task].kind = Kind::FioHelper(FioHelper {
                    io: Some(io),
                    ..helper
                });
                let work = self.begin_submission(task, io.bytes);
                self.tasks[task].requests.begun = io.begun;
                work
            }
        };
        self.start_work(cpu, Mode::Task, work);
        TaskTurn::Busy
    }

    fn has_work_for_helpers(&self, owner: TaskId) -> bool {
        let Kind::FioProcess(process) = &self.tasks[owner].kind else {
            return false;
        };
        (process.helpers.as_ref()).is_some_and(|helpers| helpers.has_waiting_work())
    }

    /// Takes the oldest work that waits for a process's helpers. `None`: the helper is idle from now on.
    fn take_handed_work(&mut self, owner: TaskId, helper: TaskId) -> Option<Handed> {
        let Kind::FioProcess(process) = &mut self.tasks[owner].kind else {
            return None;
        };
        let helpers = process.helpers.as_mut()?;
        helpers.take_work_or_become_idle(helper)
    }

    /// Decides what a helper does after a finished segment of work.
    pub(in crate::task) fn end_helper_work_segment(
        &mut self,
        cpu: CpuId,
        task: TaskId,
    ) -> TaskTurn {
        let t = &self.tasks[task];
        let Kind::FioHelper(helper) = t.kind else {
            return TaskTurn::Free;
        };
        match t.step {
            Step::Submit => {
                self.grant_psd_lease_on(cpu, LeaseTrigger::is_issue_a_trigger);
                let Some(io) = helper.io else {
                    return self.begin_next_step_of_helper(cpu, task);
                };
                if helper.role == HelperRole::KernelWorker {
                    self.submit_request_for_owner(cpu, task, helper.owner, io);
                    return self.begin_next_step_of_helper(cpu, task);
                }
                let _ = self.submit_request(cpu, task, io.direction, io.bytes);
                if let Some(work) = self.begin_leaving_run_queue(task) {
                    self.start_work(cpu, Mode::Task, work);
                    return TaskTurn::Busy;
                }
                return self.let_helper_wait_for_request(cpu, task, helper.job);
            }
            Step::Deactivate if t.requests.in_flight > 0 && t.requests.completed.is_empty() => {
                return self.let_helper_wait_for_request(cpu, task, helper.job);
            }
            Step::Resume => {
                self.finish_taken_requests(cpu, task);
                if let Some(io) = helper.io {
                    self.note_steadiness(helper.owner, io.bytes);
                }
                let owner = &self.tasks[helper.owner];
                if owner.requests.awaits_helper && owner.step == Step::Wait {
                    self.tasks[task].begin_step(Step::Think, HAND_OVER_CYCLES);
                    self.start_work(cpu, Mode::Task, HAND_OVER_CYCLES);
                    return TaskTurn::Busy;
                }
                self.free_place_in_queue(cpu, helper.owner);
            }
            Step::Think => self.free_place_in_queue(cpu, helper.owner),
            _ => {}
        }
        self.begin_next_step_of_helper(cpu, task)
    }

    fn let_helper_wait_for_request(&mut self, cpu: CpuId, task: TaskId, job: usize) -> TaskTurn {
        self.tasks[task].step = Step::Wait;
        self.put_current_task_to_sleep(cpu, task, self.setup.jobs[job].iowait);
        TaskTurn::Free
    }

    /// Submits a request whose completion goes to the process.
    fn submit_request_for_owner(&mut self, cpu: CpuId, task: TaskId, owner: TaskId, io: HandedIo) {
        let (request, _) = self.create_submitted_request(cpu, task, io.direction, io.bytes);
        self.tasks[task].requests.in_flight -= 1;
        self.requests[request].task = owner;
        self.hand_request_to_drives(request, io.bytes);
    }

    /// A helper has done its work: its process has one more place in the queue, and wakes up if it waits for one. A wake-up costs a
    /// switch and the way back to user space.
    fn free_place_in_queue(&mut self, cpu: CpuId, owner: TaskId) {
        let t = &mut self.tasks[owner];
        t.requests.in_flight -= 1;
        let awaits = std::mem::take(&mut t.requests.awaits_helper);
        if awaits && !t.runnable && t.step == Step::Wait {
            t.requests.deactivated = false;
            t.begin_step(Step::Think, self.setup.io.wake_up_work(true, true));
            let to = self.choose_cpu_for_woken_task(owner, Some((cpu, false)));
            self.wake_task(Some(cpu), owner, to);
        }
    }
}

impl Task {
    /// A helper's task, asleep on `cpu`, whose requests count from this time in ns on.
    fn new_fio_helper(
        cpu: CpuId,
        state: FioHelper,
        counts_from: u64,
        (class, cpu_set): (Class, Option<usize>),
    ) -> Self {
        let mut task = Self::new(cpu, false, Step::Wait, Kind::FioHelper(state));
        task.requests.counts_from = counts_from;
        task.entity.set_class(class);
        task.entity.set_allowed_cpu_set(cpu_set);
        task
    }
}
