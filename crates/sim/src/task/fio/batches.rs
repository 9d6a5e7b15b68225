//! Requests that are submitted and taken back together, and what a process writes into its buffers before.

use crate::core::basics::{Cycles, RequestId, TaskId};
use crate::core::observer::Observer;
use crate::core::parts::Part;
use crate::engine::Engine;
use crate::task::state::{Kind, Step};

impl<O: Observer> Engine<'_, O> {
    /// A request of the next batch is ready; the last one takes all of them to the drive.
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

    /// Hands over what has gathered, as the kernel does: none of a batch reaches the drive before the last one of it is
    /// ready.
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

    /// A process is about to wait. As fio, it submits what it has, however little, and waits for one request at a time
    /// if it `drains` its queue.
    #[inline(never)]
    pub(crate) fn submit_batch(&mut self, task: TaskId, drains: bool) {
        self.hand_over_batch(task);
        if drains {
            self.tasks[task].requests.wanted = 1;
        }
    }

    /// Writes new data into the buffer of the next request if it is a write, and checks that of the last one if it is a
    /// read, unless that has been done. Returns how much work that is. As in fio, it is not part of the latency.
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
