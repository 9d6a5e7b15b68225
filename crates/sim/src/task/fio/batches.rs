//! Requests submitted and taken back together, and a process's work on its buffers.

use crate::core::basics::{Cycles, RequestId, TaskId};
use crate::core::observer::Observer;
use crate::core::parts::Part;
use crate::engine::Engine;
use crate::task::state::{Kind, Step};

impl<O: Observer> Engine<'_, O> {
    /// A request in the next batch is ready; the last one takes all to the drive.
    #[inline(never)]
    pub(crate) fn gather(&mut self, task: TaskId, id: RequestId, bytes: u64) {
        let Kind::FioProcess(process) = &mut self.tasks[task].kind else {
            return;
        };
        process.gathered.push((id, bytes));
        let batch = &self.setup.jobs[process.job].batch;
        if batch.is_none_or(|batch| process.gathered.len() >= batch.submit as usize) {
            self.hand_over_batch(task);
        }
    }

    /// Hands over the gathered requests, as the kernel does: no request in a batch reaches the drive before the last
    /// is ready.
    fn hand_over_batch(&mut self, task: TaskId) {
        let Kind::FioProcess(process) = &mut self.tasks[task].kind else {
            return;
        };
        let mut gathered = std::mem::take(&mut process.gathered);
        for (id, bytes) in gathered.drain(..) {
            self.requests[id].attribute(Part::Submission, self.context.now());
            self.hand_over(id, bytes);
        }
        if let Kind::FioProcess(process) = &mut self.tasks[task].kind {
            process.gathered = gathered;
        }
    }

    /// A process is about to wait. As fio, the process submits the gathered requests, however few, and waits for one
    /// request at a time if the process `drains` the queue.
    #[inline(never)]
    pub(crate) fn submit_batch(&mut self, task: TaskId, drains: bool) {
        self.hand_over_batch(task);
        if drains {
            self.tasks[task].requests.wanted = 1;
        }
    }

    /// Writes new data into the next write's buffer, or checks the last read's, unless done. Returns how much work
    /// that is. As in fio, latency does not include this work.
    #[inline(never)]
    pub(crate) fn work_on_buffer(&mut self, task: TaskId, bytes: u64) -> Option<Cycles> {
        let t = &mut self.tasks[task];
        let Kind::FioProcess(process) = &mut t.kind else {
            return None;
        };
        let cycles = &self.setup.jobs[process.job].buffer_cycles;
        let per_kib = process
            .direction
            .map_or(0, |direction| cycles[direction as usize]);
        if process.filled || per_kib == 0 || bytes == 0 {
            return None;
        }
        process.filled = true;
        let work = (u128::from(per_kib) * u128::from(bytes) / 1024) as Cycles;
        t.begin(Step::Think, work);
        Some(work)
    }
}
