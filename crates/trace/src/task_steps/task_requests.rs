//! Requests of tasks, from their submission to their completion.

use super::follower::TaskFollower;
use super::requests_in_flight::DataRequest;
use super::task_state::TaskState;
use crate::recording::{Block, Durability};

/// Most requests in flight that are followed.
const MAX_IN_FLIGHT: usize = 1 << 16;

impl TaskFollower<'_> {
    /// Notes a request that a task submits at a time on a CPU; one without data is a flush.
    pub(super) fn add_request(
        &mut self,
        (time, cpu): (u64, u32),
        block: &Block,
        task: Option<u32>,
        background: bool,
        durability: Durability,
    ) {
        let place = (block.device, block.sector);
        let has_data = block.bytes > 0;
        // A bio on a stacked device, such as LVM, is submitted a second time to the device below.
        if has_data && self.in_flight.has_request_at(place) {
            return;
        }
        self.stop_task_if_cpu_went_idle(cpu, time);
        let Some(task) = task.filter(|_| self.in_flight.len() < MAX_IN_FLIGHT) else {
            self.observed.without_task += 1;
            return;
        };
        if !has_data && !self.flushes.begin_flush(block, task) {
            return;
        }
        let is_running = self
            .tasks
            .get(&task)
            .is_some_and(|state| state.burst.is_some());
        if !is_running {
            // The recording began while the task ran.
            self.switch_to_task(time, cpu, task);
        }
        self.cut_burst(cpu, time);
        let Some(state) = self.tasks.get_mut(&task) else {
            self.observed.without_task += 1;
            return;
        };
        self.steps += state.add_request_items(block, durability);
        state.in_flight += 1;
        state
            .items
            .note_request(state.in_flight, has_data && background);
        if has_data {
            let kind = match (block.write, background) {
                (true, _) => DataRequest::Write,
                (false, true) => DataRequest::CachedRead,
                (false, false) => DataRequest::Read,
            };
            self.in_flight.add_request(place, task, kind);
        }
        if block.write || !has_data {
            self.pools.note_submitted(task);
        }
        self.devices.insert(block.device);
        self.cpus.entry(cpu).or_default().interruption = None;
    }

    /// Notes the completion of a request, perhaps with several bios inside.
    pub(super) fn complete_requests(&mut self, time: u64, cpu: u32, block: &Block) {
        self.stop_task_if_cpu_went_idle(cpu, time);
        let running = self.cpus.get(&cpu).and_then(|state| state.running);
        if let Some((task, _)) = running
            && let Some(TaskState {
                burst: Some((_, _, interrupts)),
                ..
            }) = self.tasks.get_mut(&task)
        {
            *interrupts += 1;
        }
        if block.bytes == 0
            && let Some(task) = self.flushes.end_flush(block)
        {
            self.end_write_or_flush(task, time);
            return;
        }
        let sectors = u64::from(block.bytes.div_ceil(512)).max(1);
        let first = (block.device, block.sector);
        let end = (block.device, block.sector.saturating_add(sectors));
        while let Some(ended) = self.in_flight.end_request_between(first, end) {
            match ended.kind {
                DataRequest::Write => self.end_write_or_flush(ended.task, time),
                DataRequest::CachedRead => {
                    self.note_end_of_cached_read(ended.task, time);
                    self.count_ended_request(ended.task, time);
                }
                DataRequest::Read => self.count_ended_request(ended.task, time),
            }
            if let Some(lost) = self.in_flight.forget_lost_request(ended.task) {
                if lost.kind == DataRequest::Write {
                    self.pools.note_ended(lost.task);
                }
                if let Some(state) = self.tasks.get_mut(&lost.task) {
                    state.in_flight = state.in_flight.saturating_sub(1);
                }
            }
        }
    }

    /// A task that runs while its read into the page cache ends did not wait for the read.
    fn note_end_of_cached_read(&mut self, task: u32, time: u64) {
        if let Some((on, ..)) = self.tasks.get(&task).and_then(|state| state.burst) {
            self.stop_task_if_cpu_went_idle(on, time);
        }
        if let Some(state) = self.tasks.get_mut(&task)
            && state.burst.is_some()
        {
            state.items.reads_ahead = true;
        }
    }

    /// Ends the flush of a task that is woken, if the recording lacks the flush's completion.
    pub(super) fn end_flush_of_woken_task(&mut self, task: u32, time: u64) {
        if self.flushes.end_flush_of_woken_task(task) {
            self.end_write_or_flush(task, time);
        }
    }

    /// Ends a task's write or flush, which tasks of a pool do by turns.
    fn end_write_or_flush(&mut self, task: u32, time: u64) {
        self.pools.note_ended(task);
        self.count_ended_request(task, time);
    }

    fn count_ended_request(&mut self, task: u32, time: u64) {
        if let Some(state) = self.tasks.get_mut(&task) {
            state.in_flight = state.in_flight.saturating_sub(1);
            state.completed = Some(time);
        }
    }
}
