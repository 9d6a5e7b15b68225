//! Events of requests submitted together in batches, and of a process's work on its buffers.

use crate::core::basics::{Cycles, RequestId, TaskId};
use crate::core::observer::Observer;
use crate::core::parts::Part;
use crate::engine::Engine;
use crate::task::state::{Kind, Step};

impl<O: Observer> Engine<'_, O> {
    /// Adds a request to a process's batch; the last request of a batch takes all of them to the drives.
    #[inline(never)]
    pub(crate) fn gather_into_batch(&mut self, task: TaskId, id: RequestId, bytes: u64) {
        let Kind::FioProcess(process) = &mut self.tasks[task].kind else {
            return;
        };
        process.gathered.push((id, bytes));
        let batch = &self.setup.jobs[process.job].batch;
        if batch.is_none_or(|batch| process.gathered.len() >= batch.submit as usize) {
            self.hand_batch_to_drives(task);
        }
    }

    /// Hands a process's gathered requests to the drives, as the kernel does: no request reaches a drive before the last
    /// is ready.
    fn hand_batch_to_drives(&mut self, task: TaskId) {
        let Kind::FioProcess(process) = &mut self.tasks[task].kind else {
            return;
        };
        let mut gathered = std::mem::take(&mut process.gathered);
        for (id, bytes) in gathered.drain(..) {
            self.requests[id].attribute_time_until(Part::Submission, self.context.now());
            self.hand_request_to_drives(id, bytes);
        }
        if let Kind::FioProcess(process) = &mut self.tasks[task].kind {
            process.gathered = gathered;
        }
    }

    /// A process is about to wait. As fio, the process submits the gathered requests, however few, and waits for one
    /// request at a time if the process `drains` the queue.
    #[inline(never)]
    pub(crate) fn submit_batch_before_wait(&mut self, task: TaskId, drains: bool) {
        self.hand_batch_to_drives(task);
        if drains {
            self.tasks[task].requests.wanted = 1;
        }
    }

    /// Writes new data into the next write's buffer, or checks the last read's, unless done. Returns how much work
    /// that is. As in fio, latency does not include this work.
    #[inline(never)]
    pub(crate) fn begin_buffer_work(&mut self, task: TaskId, bytes: u64) -> Option<Cycles> {
        let t = &mut self.tasks[task];
        let Kind::FioProcess(process) = &mut t.kind else {
            return None;
        };
        let job = &self.setup.jobs[process.job];
        let per_kib = match process.direction {
            _ if process.reads_back_next => job.check_cycles,
            Some(direction) => job.buffer_cycles[direction as usize],
            None => 0,
        };
        if process.filled || per_kib == 0 || bytes == 0 {
            return None;
        }
        process.filled = true;
        let work = (u128::from(per_kib) * u128::from(bytes) / 1024) as Cycles;
        t.begin_step(Step::Think, work);
        Some(work)
    }
}
