//! Requests that are submitted and taken back together, and what a process writes into its buffers before.

use crate::core::basics::{Cycles, Direction, RequestId, TaskId};
use crate::core::parts::Part;
use crate::engine::Engine;
use crate::observe::observer::Observer;
use crate::task::state::{Step, Task};
use wakepath_workloads::fio::Batching;

impl<O: Observer> Engine<'_, O> {
    /// A request of the next batch is ready; the last one takes all of them to the drive.
    #[inline(never)]
    pub(crate) fn gather(&mut self, task: TaskId, id: RequestId, bytes: u64) {
        let t = &mut self.tasks[task];
        t.gathered.push((id, bytes));
        let batch = &self.setup.jobs[t.job].batch;
        if batch.is_none_or(|batch| t.gathered.len() >= batch.submit as usize) {
            self.hand_over_batch(task);
        }
    }

    /// Hands over what has gathered, as the kernel does: none of a batch reaches the drive before the last one of it is
    /// ready.
    fn hand_over_batch(&mut self, task: TaskId) {
        let mut gathered = std::mem::take(&mut self.tasks[task].gathered);
        for (id, bytes) in gathered.drain(..) {
            let request = &mut self.requests[id];
            request.parts.add(Part::Submission, self.now - request.cut);
            request.cut = self.now;
            self.hand_over(id, bytes);
        }
        self.tasks[task].gathered = gathered;
    }

    /// A process is about to wait. As fio, it submits what it has, however little, and waits for one request at a time
    /// if it `drains` its queue.
    #[inline(never)]
    pub(crate) fn submit_batch(&mut self, task: TaskId, drains: bool) {
        self.hand_over_batch(task);
        let t = &mut self.tasks[task];
        if drains {
            t.wanted = 1;
        }
    }

    /// Writes new data into the buffer of the next request if it is a write, and checks that of the last one if it is a
    /// read, unless that has been done. Returns how much work that is. As in fio, it is not part of the latency.
    #[inline(never)]
    pub(crate) fn work_on_buffer(&mut self, task: TaskId, bytes: u64) -> Option<Cycles> {
        let t = &mut self.tasks[task];
        let of = &self.setup.jobs[t.job].buffer_cycles;
        let per_kib = match t.direction {
            Some(Direction::Read) => of[0],
            Some(Direction::Write) => of[1],
            None => 0,
        };
        if t.filled || per_kib == 0 || bytes == 0 {
            return None;
        }
        t.filled = true;
        let work = (u128::from(per_kib) * u128::from(bytes) / 1024) as Cycles;
        t.begin(Step::Think, work);
        Some(work)
    }
}

impl Task {
    /// Whether it takes requests back before it submits more: as fio (`wait_for_completions()`), from when it has as many
    /// in flight as it may until only so many are left. Settles how many it waits for.
    pub(crate) fn reaps_batch(&mut self, full: bool, batch: &Batching) -> bool {
        self.reaps = full || (self.reaps && self.in_flight > batch.low);
        self.wanted = batch.least.min(self.in_flight).max(1) as usize;
        self.reaps
    }
}
