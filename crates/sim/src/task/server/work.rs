//! A worker's steps: CPU work, disk calls, reply, the next request.

use wakepath_policies::psd::LeaseTrigger;

use crate::core::basics::{CpuId, RequestId, TaskId};
use crate::core::observer::Observer;
use crate::core::parts::Part;
use crate::cpu::phase::Mode;
use crate::engine::Engine;
use crate::observe::recorder::NO_JOB;
use crate::task::events::TaskTurn;
use crate::task::server::state::{Commit, RunningWorker, ServerRequest, ServerRole};
use crate::task::state::{Kind, Step};

/// A finished disk call's request, or a request whose reply is next.
type TakenRequest = Box<ServerRequest>;

impl<O: Observer> Engine<'_, O> {
    /// Begins what a server's thread, the current task of a CPU, does after it was woken.
    pub(in crate::task) fn begin_step_of_server(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        role: ServerRole,
    ) -> TaskTurn {
        match role {
            ServerRole::Worker(number) => {
                self.begin_request_of_woken_worker(RunningWorker { cpu, task, number })
            }
            ServerRole::Log => self.begin_log_step(cpu, task),
            ServerRole::Background(writer) => self.begin_background_round(cpu, task, writer),
        }
    }

    /// Follows up the finished segment of work of a server's thread.
    pub(in crate::task) fn end_server_segment(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        role: ServerRole,
    ) -> TaskTurn {
        let step = self.tasks[task].present_step();
        if step == Step::Deactivate {
            let requests = &self.tasks[task].requests;
            if requests.completed.len() < requests.wanted {
                return self.sleep_until_own_requests_end(cpu, task);
            }
            let work = self.begin_resumption_with_completed(cpu, task);
            self.start_work(cpu, Mode::Task, work);
            return TaskTurn::Busy;
        }
        let number = match role {
            ServerRole::Log | ServerRole::Background(_) => {
                return self.end_writer_segment(cpu, task, role);
            }
            ServerRole::Worker(number) => number,
        };
        let worker = RunningWorker { cpu, task, number };
        let Some(request) = self.take_request_of_worker(number) else {
            return TaskTurn::Free;
        };
        if request.commit == Commit::Syncing {
            return self.end_segment_of_sync(worker, request);
        }
        match step {
            Step::Submit => self.end_submission_of_call(worker, request),
            Step::Resume => {
                let request = self.end_disk_calls(cpu, task, request);
                self.begin_next_step_of_request(worker, request)
            }
            _ => {
                let request = self.attribute_server_work(cpu, task, request);
                self.begin_next_step_of_request(worker, request)
            }
        }
    }

    fn take_request_of_worker(&mut self, worker: usize) -> Option<TakenRequest> {
        self.workload.server.as_mut()?.workers[worker]
            .present
            .take()
    }

    pub(super) fn put_request_back(&mut self, worker: usize, request: TakenRequest) {
        if let Some(server) = self.workload.server.as_mut() {
            server.workers[worker].present = Some(request);
        }
    }

    /// A worker that was woken for a request has a CPU.
    fn begin_request_of_woken_worker(&mut self, worker: RunningWorker) -> TaskTurn {
        let RunningWorker { cpu, task, number } = worker;
        let Some(mut request) = self.take_request_of_worker(number) else {
            self.put_current_task_to_sleep(cpu, task, false);
            return TaskTurn::Free;
        };
        if std::mem::take(&mut request.wakes_worker) {
            let awake_since = self.cpus[cpu].awake_since();
            (request.way).attribute_task_wake_up(self.context.now(), awake_since);
        }
        match request.commit {
            Commit::Syncing => self.begin_sync_by_worker(worker, request),
            Commit::Durable => self.begin_next_step_of_request(worker, request),
            Commit::NotNeeded | Commit::Ahead | Commit::Waiting => {
                self.begin_work_of_request(worker, request)
            }
        }
    }

    /// Follows up a finished segment of a worker that syncs the log.
    fn end_segment_of_sync(
        &mut self,
        worker: RunningWorker,
        mut request: TakenRequest,
    ) -> TaskTurn {
        let RunningWorker { cpu, task, number } = worker;
        request = match self.tasks[task].present_step() {
            Step::Submit => {
                let sent = self.send_disk_step(cpu, task, ServerRole::Worker(number));
                self.attribute_submission(cpu, task, request, sent)
            }
            Step::Thread => self.attribute_server_work(cpu, task, request),
            _ => self.take_back_calls_of_request(cpu, task, request),
        };
        if let Some(turn) = self.take_next_disk_step(cpu, task) {
            self.put_request_back(number, request);
            return turn;
        }
        self.end_sync_by_worker(cpu, &mut request);
        self.begin_next_step_of_request(worker, request)
    }

    /// Begins a request's CPU work; the reply belongs to it if the request calls no disk and waits for no log.
    fn begin_work_of_request(
        &mut self,
        worker: RunningWorker,
        mut request: TakenRequest,
    ) -> TaskTurn {
        request.step_work = request.work;
        if request.kinds_of_calls == 0 && request.commit == Commit::NotNeeded {
            request.step_work += request.reply;
            request.replying = true;
        }
        self.begin_server_work(worker, request)
    }

    fn begin_server_work(&mut self, worker: RunningWorker, request: TakenRequest) -> TaskTurn {
        let work = request.step_work;
        self.put_request_back(worker.number, request);
        self.tasks[worker.task].begin_step(Step::Thread, work);
        self.start_work(worker.cpu, Mode::Task, work);
        TaskTurn::Busy
    }

    /// Divides the time of a finished segment of CPU work among the request's parts.
    fn attribute_server_work(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        mut request: TakenRequest,
    ) -> TakenRequest {
        let full_speed = self.domains[self.cpus[cpu].domain].full_speed();
        let (executed, work) =
            self.tasks[task].executed_time_and_work(request.step_work, full_speed);
        let now = self.context.now();
        (request.way).attribute_work_until(Part::ServerWork, now, executed, work);
        request
    }

    /// Begins a request's next disk call, its reply, or the next request.
    fn begin_next_step_of_request(
        &mut self,
        worker: RunningWorker,
        mut request: TakenRequest,
    ) -> TaskTurn {
        let kinds = self.setup.server().map_or(0, |server| server.calls.len());
        if !request.replying {
            if let Some(kind) = request.next_kind_of_calls(kinds) {
                return self.begin_disk_call(worker, request, kind);
            }
            if request.commit == Commit::Ahead {
                return self.begin_commit_of_request(worker, request);
            }
            request.replying = true;
            if request.reply > 0 {
                request.step_work = request.reply;
                return self.begin_server_work(worker, request);
            }
        }
        self.finish_server_request(&request);
        self.wake_background_writers_with_due_rounds(worker.cpu);
        if let Some(next) = self.draw_next_request_in_process(worker.cpu, request.client) {
            return self.begin_work_of_request(worker, next);
        }
        self.begin_next_request_or_sleep(worker)
    }

    /// Starts the submission of a request's next disk call.
    fn begin_disk_call(
        &mut self,
        worker: RunningWorker,
        request: TakenRequest,
        kind: usize,
    ) -> TaskTurn {
        let bytes = self
            .setup
            .server()
            .map_or(0, |server| server.calls[kind].bytes);
        self.put_request_back(worker.number, request);
        let work = self.begin_submission(worker.task, bytes);
        self.start_work(worker.cpu, Mode::Task, work);
        TaskTurn::Busy
    }

    /// Hands a submitted disk call to the drive, and submits the next one or waits.
    fn end_submission_of_call(
        &mut self,
        worker: RunningWorker,
        mut request: TakenRequest,
    ) -> TaskTurn {
        let RunningWorker { cpu, task, number } = worker;
        let Some(server) = self.setup.server() else {
            return TaskTurn::Free;
        };
        let (kind, call) = (request.kind, server.calls[request.kind]);
        self.grant_psd_lease_on(cpu, LeaseTrigger::is_issue_a_trigger);
        self.count_disk_call(call.direction, call.bytes);
        let id = self.submit_request(cpu, task, call.direction, call.bytes);
        request = self.attribute_submission(cpu, task, request, Some(id));
        request.submitted += 1;
        if call.together && request.submitted < call.calls {
            return self.begin_disk_call(worker, request, kind);
        }
        let own = &mut self.tasks[task];
        own.requests.wanted = request.in_flight.len();
        if let Kind::Server(thread) = &mut own.kind {
            thread.copied = call.copied;
        }
        self.put_request_back(number, request);
        self.wait_for_own_requests(cpu, task)
    }

    /// Divides the time of a finished submission among the parts of the request that made the call, and notes the call as in flight.
    fn attribute_submission(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        mut request: TakenRequest,
        sent: Option<RequestId>,
    ) -> TakenRequest {
        let full_speed = self.domains[self.cpus[cpu].domain].full_speed();
        let (_, executed, work) = self.tasks[task].submission_begin_time_and_work(full_speed);
        let before = *request.way.attributed_parts();
        request.in_flight.extend(sent.map(|id| (id, before)));
        let now = self.context.now();
        (request.way).attribute_work_until(Part::Submission, now, executed, work);
        request
    }

    /// Takes back the calls with which a worker is back in user space: the request takes over the way of the call that ended last.
    fn take_back_calls_of_request(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        mut request: TakenRequest,
    ) -> TakenRequest {
        let (way, in_flight) = (&mut request.way, &request.in_flight);
        self.take_back_requests(cpu, task, |id, call| {
            if let Some((_, before)) = in_flight.iter().find(|(other, _)| *other == id) {
                way.take_over_disk_call(before, call);
            }
        });
        request.in_flight.clear();
        request
    }

    /// Ends the disk calls of one kind, or goes on to the next call.
    fn end_disk_calls(&mut self, cpu: CpuId, task: TaskId, taken: TakenRequest) -> TakenRequest {
        let mut request = self.take_back_calls_of_request(cpu, task, taken);
        let calls = (self.setup.server()).map_or(0, |s| s.calls[request.kind].calls);
        if request.submitted >= calls {
            request.kind += 1;
            request.submitted = 0;
        }
        request
    }

    /// Records a request whose reply is on its way, and lets its client think.
    fn finish_server_request(&mut self, request: &ServerRequest) {
        let Some((server, setup)) = self.workload.server.as_mut().zip(self.setup.server()) else {
            return;
        };
        let now = self.context.now();
        (self.recorder).record_finished_request(&request.way, now, setup.warm_up, NO_JOB);
        server.replies += 1;
        server.totals.replied_in_time += u64::from((setup.warm_up..=setup.end).contains(&now));
        if setup.awaited_replies == Some(server.replies) {
            self.context.count_ended_process();
        }
        if let Some(log) = setup.log.filter(|_| !setup.requests_wait_for_log()) {
            server.log.commits.append_bytes(log.bytes);
        }
        let random = self.context.random_streams();
        if server.let_client_think(setup, request.client, now, random) {
            self.schedule_next_arrival();
        }
    }

    /// The next request of a client that is a worker itself; `None`: other clients ask by the network.
    fn draw_next_request_in_process(&mut self, cpu: CpuId, client: u32) -> Option<TakenRequest> {
        let now = self.context.now();
        let (server, setup) = (self.workload.server.as_mut()?, self.setup.server()?);
        let random = self.context.random_streams();
        let next = server.draw_next_request_in_process(setup, client, (cpu, now), random)?;
        Some(Box::new(next))
    }

    /// Gives a worker that is free the request that has waited longest; without any, the worker sleeps.
    fn begin_next_request_or_sleep(&mut self, worker: RunningWorker) -> TaskTurn {
        let now = self.context.now();
        let next = self.workload.server.as_mut().and_then(|server| {
            let next = server.queue.pop_front();
            if next.is_none() {
                server.asleep.push(worker.number);
            }
            next
        });
        if let Some(mut request) = next {
            request.way.attribute_time_until(Part::WorkerWait, now);
            return self.begin_work_of_request(worker, Box::new(request));
        }
        self.sleep_until_woken(worker.cpu, worker.task)
    }
}
