//! Kernel threads that poll for submissions (`sqthread_poll`), one for each process with such a ring.
//!
//! As `io_uring/sqpoll.c` (Linux 6.12): the thread spins, submits what the process has put into the ring, and falls asleep
//! after a second without any; then the next submission wakes it by a system call.

use std::collections::VecDeque;

use wakepath_policies::psd::LeaseTrigger;

use crate::block::request::Request;
use crate::core::basics::{CpuId, Direction, RequestId, TaskId};
use crate::core::observer::{Observer, RequestOrigin, RequestPlace, RequestStep};
use crate::core::parts::Part;
use crate::cpu::phase::Mode;
use crate::engine::Engine;
use crate::task::events::TaskTurn;
use crate::task::fio::setup::JobSetup;
use crate::task::ring::{CompletionLooks, RingEntry, RoundAction, Submitter};
use crate::task::state::{Kind, Step, Task};

/// Time in ns without submissions after which the thread sleeps (`sq_thread_idle`, fio's and the kernel's default).
const SLEEPS_AFTER: u64 = 1_000_000_000;

impl<O: Observer> Engine<'_, O> {
    /// Creates the thread that submits for a process of a job, asleep, if the job has such threads.
    pub(in crate::task) fn create_submitter(&mut self, job: &JobSetup, owner: TaskId) {
        let Some(setup) = job.polling.thread else {
            return;
        };
        let index = self.workload.submitters.len();
        let process = &mut self.tasks[owner];
        let cpu = setup.cpu.unwrap_or(process.cpu);
        let entity = process.entity.clone();
        if let Kind::FioProcess(process) = &mut process.kind {
            process.submitter = Some(index);
        }
        let thread = self.tasks.len();
        let mut task = Task::new_submitter(index, cpu, setup.cpu.is_some());
        task.entity = entity;
        self.tasks.push(task);
        self.workload.submitters.push(Submitter {
            thread,
            owner,
            ring: VecDeque::new(),
            present: None,
            last: self.context.now(),
            asleep: true,
            ended: false,
            looks: CompletionLooks::default(),
        });
        let now = self.context.now();
        self.emulator.begin_spin_turns(now);
    }

    /// Puts a process's request into the ring of its thread, and wakes the thread if it sleeps.
    pub(in crate::task) fn put_request_into_ring(
        &mut self,
        (cpu, task): (CpuId, TaskId),
        index: usize,
        direction: Direction,
        bytes: u64,
    ) {
        let now = self.context.now();
        let full_speed = self.domains[self.cpus[cpu].domain].full_speed();
        let t = &mut self.tasks[task];
        let (kind, _) = t.count_submitted_request(direction, bytes);
        let (begun, executed, work) = t.submission_begin_time_and_work(full_speed);
        let polled = t.requests.polled;
        let offset = if self.drives.len() > 1 {
            let random = self.context.random_streams();
            t.offset_of_next_request(&self.setup.jobs, direction, bytes.max(1), random)
        } else {
            0
        };
        let request = self.requests.allocate_request_id();
        let r = &mut self.requests[request];
        *r = Request::new_with_submission_begun((cpu, task), direction, kind, bytes, begun);
        r.set_polled(polled);
        r.attribute_work_until(Part::Submission, now, executed, work);
        let submitter = &mut self.workload.submitters[index];
        submitter.ring.push_back(RingEntry {
            request,
            bytes,
            offset,
        });
        let thread = submitter.thread;
        if std::mem::replace(&mut submitter.asleep, false) {
            let to = if self.tasks[thread].is_bound() {
                self.tasks[thread].cpu
            } else {
                self.choose_cpu_for_woken_task(thread, Some((cpu, false)))
            };
            self.wake_task(Some(cpu), thread, to);
        } else {
            self.end_spin_if_spinning(thread);
        }
    }

    /// Lets the thread of an ended process end.
    pub(in crate::task) fn end_submitter(&mut self, index: usize) {
        let submitter = &mut self.workload.submitters[index];
        submitter.ended = true;
        let thread = submitter.thread;
        self.emulator.end_spin_turns();
        self.end_spin_if_spinning(thread);
    }

    /// Makes the CPUs of processes with such threads pause, if their timers have expired on an emulated machine.
    pub(crate) fn pause_programs_at_spin_timers(&mut self) {
        if self.emulator.expire_spin_timers(self.context.now()) {
            for submitter in self
                .workload
                .submitters
                .iter()
                .filter(|thread| !thread.ended)
            {
                self.emulator.request_pause(self.tasks[submitter.owner].cpu);
            }
        }
    }

    /// Whether a spinning thread has something to do at once.
    pub(in crate::task) fn submitter_stops_spinning(&self, index: usize) -> bool {
        let submitter = &self.workload.submitters[index];
        submitter.ended || !submitter.ring.is_empty() || !submitter.looks.completed.is_empty()
    }

    /// Follows up a thread's finished segment of work: hands over what it has submitted, and goes on with the ring.
    pub(in crate::task) fn end_submitter_segment(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        index: usize,
    ) -> TaskTurn {
        let now = self.context.now();
        if let Some(entry) = self.workload.submitters[index].present.take() {
            self.submit_entry((cpu, task), index, entry);
        }
        let submitter = &self.workload.submitters[index];
        let has_round = self.submitter_looks_for_completions(index)
            && !(submitter.ring.is_empty() && submitter.looks.are_over());
        let submits = if has_round {
            self.continue_round_of_submitter(index) == RoundAction::Submit
        } else {
            true
        };
        if submits && self.begin_submission_of_next_entry(cpu, task, index) {
            return TaskTurn::Busy;
        }
        if has_round && self.emulator.others_want_turn(cpu, now) {
            self.poll_until(cpu, task, now);
            return TaskTurn::Busy;
        }
        let submitter = &mut self.workload.submitters[index];
        let until = submitter.last + SLEEPS_AFTER;
        let owner = &self.tasks[submitter.owner].requests;
        let polls = owner.polled && owner.in_flight > 0;
        if submitter.ended || (now >= until && !polls) {
            submitter.asleep = true;
            self.tasks[task].begin_step(Step::Worker, 0);
            self.put_current_task_to_sleep(cpu, task, false);
            return TaskTurn::Free;
        }
        self.poll_until(cpu, task, until.max(now + 1));
        TaskTurn::Busy
    }

    /// Begins the work of submitting the next entry of a thread's ring. Returns whether there is one.
    fn begin_submission_of_next_entry(&mut self, cpu: CpuId, task: TaskId, index: usize) -> bool {
        let now = self.context.now();
        let submitter = &mut self.workload.submitters[index];
        let Some(entry) = submitter.ring.pop_front() else {
            return false;
        };
        submitter.present = Some(entry);
        submitter.last = now;
        let work = self.setup.io.submission_work(entry.bytes);
        self.requests[entry.request].attribute_time_until(Part::WaitingToRun, now);
        self.tasks[task].begin_step(Step::Submit, work);
        self.start_work(cpu, Mode::Task, work);
        true
    }

    /// Whether each look of a thread for completions takes time: on an emulated machine, whose other CPUs run at each look.
    fn submitter_looks_for_completions(&self, index: usize) -> bool {
        let owner = self.workload.submitters[index].owner;
        self.emulator.cpus_take_turns() && self.tasks[owner].requests.polled
    }

    /// Goes on with a thread's round to the next pause or submission.
    fn continue_round_of_submitter(&mut self, index: usize) -> RoundAction {
        loop {
            let submitter = &mut self.workload.submitters[index];
            let action = submitter.looks.continue_round(submitter.ring.len());
            if action != RoundAction::Reap {
                return action;
            }
            for request in std::mem::take(&mut submitter.looks.reaped) {
                self.hand_polled_completion_to_task(request);
            }
        }
    }

    /// Ends a polled request, or piece, that its drive has finished. A task that spins for it goes on at once.
    #[cold]
    pub(crate) fn deliver_polled_completion(&mut self, id: RequestId) {
        let Some(request) = self.merge_ended_piece(id) else {
            return;
        };
        if !self.leave_completion_to_submitter(request) {
            self.hand_polled_completion_to_task(request);
        }
    }

    /// Leaves a polled request that its drive has completed to the looks of a thread. Returns whether there is such a thread.
    fn leave_completion_to_submitter(&mut self, request: RequestId) -> bool {
        let owner = self.requests[request].task;
        let Kind::FioProcess(process) = &self.tasks[owner].kind else {
            return false;
        };
        let Some(index) = process.submitter else {
            return false;
        };
        if !self.submitter_looks_for_completions(index) {
            return false;
        }
        let submitter = &mut self.workload.submitters[index];
        submitter.looks.completed.push(request);
        let thread = submitter.thread;
        self.end_spin_if_spinning(thread);
        true
    }

    /// Hands a request that a thread has submitted to the drives.
    fn submit_entry(&mut self, (cpu, task): (CpuId, TaskId), index: usize, entry: RingEntry) {
        let now = self.context.now();
        let full_speed = self.domains[self.cpus[cpu].domain].full_speed();
        self.grant_psd_lease_on(cpu, LeaseTrigger::is_issue_a_trigger);
        let own_work = self.setup.io.submission_work(entry.bytes);
        let (executed, work) = self.tasks[task].executed_time_and_work(own_work, full_speed);
        let request = &mut self.requests[entry.request];
        request.attribute_work_until(Part::Submission, now, executed, work);
        request.set_issuing_cpu(cpu);
        let step = RequestStep::Issued {
            task: request.task,
            submitter: request.task,
            request: entry.request,
            read: request.direction == Direction::Read,
            bytes: request.bytes,
            origin: RequestOrigin::Task,
            place: RequestPlace::Unsettled,
        };
        self.context.tell_observer_of_request(step);
        if self.submitter_looks_for_completions(index) {
            let looks = &mut self.workload.submitters[index].looks;
            looks.listed.push_back((entry.request, false));
        }
        if self.drives.len() == 1 {
            self.give_to_drive(0, entry.request, entry.bytes);
        } else {
            self.stripe_request_from(entry.request, entry.offset, entry.bytes.max(1));
        }
    }
}
