//! The append-only file: requests that wait for its sync (group commit), or a thread that syncs it from time to time, as Redis does with
//! `appendfsync everysec`.
//!
//! With `sync = "each"` workers share syncs (`task/group_commit.rs`). With `group_commit = false` each worker syncs its own request
//! alone. Of real programs, PostgreSQL shares a sync by its `WALWriteLock`, RocksDB
//! by the leader of a write group, MariaDB by its `group_commit_lock`.

use crate::core::basics::{CpuId, TaskId};
use crate::core::observer::Observer;
use crate::core::parts::Part;
use crate::engine::Engine;
use crate::task::events::TaskTurn;
use crate::task::group_commit::EndedSync;
use crate::task::server::state::{Commit, RunningWorker, ServerRequest};
use crate::task::state::Kind;

impl<O: Observer> Engine<'_, O> {
    /// Appends a request to the log, and begins a sync, or sleeps until another worker has synced.
    pub(super) fn begin_commit_of_request(
        &mut self,
        worker: RunningWorker,
        mut request: Box<ServerRequest>,
    ) -> TaskTurn {
        let setup = self.setup.server().and_then(|server| server.log);
        let Some((server, setup)) = self.workload.server.as_mut().zip(setup) else {
            return TaskTurn::Free;
        };
        let commits = &mut server.log.commits;
        if commits.append_and_lead(worker.number, setup.bytes) {
            return self.begin_sync_by_worker(worker, request);
        }
        request.commit = Commit::Waiting;
        self.put_request_back(worker.number, request);
        self.sleep_until_woken(worker.cpu, worker.task)
    }

    /// Begins a sync by a worker, for its own request and those that wait.
    pub(super) fn begin_sync_by_worker(
        &mut self,
        worker: RunningWorker,
        mut request: Box<ServerRequest>,
    ) -> TaskTurn {
        let RunningWorker { cpu, task, number } = worker;
        if let Kind::Server(thread) = &mut self.tasks[task].kind {
            thread.copied = false;
        }
        request.commit = Commit::Syncing;
        let setup = self.setup.server().and_then(|server| server.log);
        request.step_work = setup.map_or(0, |log| log.work);
        if let Some(server) = self.workload.server.as_mut() {
            server.log.parts_at_begin = *request.way.attributed_parts();
        }
        self.put_request_back(number, request);
        self.begin_sync_of_log();
        self.take_next_disk_step(cpu, task)
            .unwrap_or(TaskTurn::Free)
    }

    /// Begins a sync of all that was appended so far, or of one request's part, as the log has it.
    fn begin_sync_of_log(&mut self) {
        let has_volatile_cache = self.setup.volume.has_volatile_cache();
        let (now, setup) = (self.context.now(), self.setup.server());
        let setup = setup.and_then(|server| server.log);
        if let Some((server, log)) = self.workload.server.as_mut().zip(setup) {
            server.log.begin_sync(&log, now, has_volatile_cache);
        }
    }

    /// Ends a worker's sync: wakes the workers whose requests are on the media, and the worker that syncs next.
    pub(super) fn end_sync_by_worker(&mut self, cpu: CpuId, request: &mut ServerRequest) {
        let began = self.record_sync();
        let now = self.context.now();
        let Some(server) = self.workload.server.as_mut() else {
            return;
        };
        request.commit = Commit::Durable;
        let before = server.log.parts_at_begin;
        let EndedSync {
            covered,
            next_leader,
        } = server.log.commits.end_sync();
        for worker in &covered {
            if let Some(other) = &mut server.workers[*worker].present {
                other.commit = Commit::Durable;
                (other.way).share_stretch_of_request(began.unwrap_or(now), &before, &request.way);
            }
        }
        if let Some(worker) = next_leader
            && let Some(other) = &mut server.workers[worker].present
        {
            other.commit = Commit::Syncing;
            other.way.attribute_time_until(Part::WorkerWait, now);
        }
        for worker in covered.into_iter().chain(next_leader) {
            self.wake_worker_for_request(cpu, worker, Some((cpu, false)));
        }
    }

    /// Begins a sync by the log's thread, or sleeps if nothing was appended.
    pub(super) fn begin_log_step(&mut self, cpu: CpuId, task: TaskId) -> TaskTurn {
        let server = self.workload.server.as_ref();
        if server.is_some_and(|server| server.log.commits.has_unsynced_bytes()) {
            self.begin_sync_of_log();
        }
        self.take_next_disk_step_or_end_sync(cpu, task)
    }

    /// Takes the log's thread on; after the last step, the thread sleeps.
    pub(super) fn take_next_disk_step_or_end_sync(&mut self, cpu: CpuId, task: TaskId) -> TaskTurn {
        if let Some(turn) = self.take_next_disk_step(cpu, task) {
            return turn;
        }
        if self.record_sync().is_some()
            && let Some(server) = self.workload.server.as_mut()
        {
            server.log.commits.end_sync();
        }
        let log = self.setup.server().and_then(|server| server.log);
        let interval = log.and_then(|log| log.interval).unwrap_or(0);
        self.sleep_until_next_round(cpu, task, interval)
    }

    /// Records the sync that is over now. Returns when it began, in ns.
    fn record_sync(&mut self) -> Option<u64> {
        let (now, setup) = (self.context.now(), self.setup.server()?);
        let began = self.workload.server.as_mut()?.log.began.take()?;
        let counts_from = setup.span_with_counted_requests().0;
        self.recorder.record_fsync_call(began, now, counts_from);
        Some(began)
    }
}
