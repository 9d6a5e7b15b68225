//! Reads that wait for a page beside their task: io_uring's with several in flight.
//!
//! As `io_read()` and `io_async_buf_func()` (`io_uring/rw.c`, Linux 6.12): what is cached is copied in the submission. At a page on
//! its way the read is left, and asked for again by the task itself once the page is there.

use crate::block::request::Request;
use crate::core::basics::{CpuId, TaskId};
use crate::core::observer::Observer;
use crate::cpu::phase::Mode;
use crate::engine::Engine;
use crate::page_cache::caller::{Caller, DeferredRead, Stage};
use crate::page_cache::pages::PAGE;
use crate::task::state::Step;

impl Caller {
    /// Leaves the present read to wait for the request with this number.
    pub(super) fn defer_read(&mut self, number: u64) {
        let Some(reading) = &mut self.reading else {
            return;
        };
        if self.left.count < self.pages.count {
            reading
                .window
                .note_end_of_read(self.left.start_byte(), PAGE);
        }
        self.deferred.push(DeferredRead {
            awaits: number,
            ended: None,
            request: self.request,
            pages: self.pages,
            left: self.left,
            end: reading.end,
            waited: reading.waited,
        });
    }

    /// Takes up the oldest read whose page is there. Returns the request that it waited for, and whether it has waited before.
    fn take_up_due_read(&mut self) -> Option<(Request, bool)> {
        let reading = self.reading.as_mut()?;
        let position = self.deferred.iter().position(|read| read.ended.is_some())?;
        let read = self.deferred.remove(position);
        (reading.end, reading.waited) = (read.end, true);
        self.request = read.request;
        (self.pages, self.left) = (read.pages, read.left);
        self.syncs = false;
        self.stage = Stage::Resume;
        self.awaits = Some(read.awaits);
        self.stage_after_wait = Stage::Fetch;
        Some((read.ended?, read.waited))
    }
}

impl<O: Observer> Engine<'_, O> {
    /// Tells the tasks whose reads wait for a request with this number that it has ended, and wakes those that sleep.
    pub(super) fn wake_for_deferred_reads(&mut self, cpu: CpuId, number: u64, request: &Request) {
        let Some(cache) = &mut self.cache else {
            return;
        };
        let mut tasks: Vec<TaskId> = (cache.deferred)
            .extract_if(.., |(awaited, _)| *awaited == number)
            .map(|(_, task)| task)
            .collect();
        tasks.sort_unstable();
        tasks.dedup();
        for task in tasks {
            let ipi = if self.tasks[task].sleeps_for_requests() {
                let to = self.choose_cpu_for_woken_task(task, None);
                self.wake_task(Some(cpu), task, to)
            } else {
                0
            };
            let mut ended = *request;
            ended.set_wake_up_delay(ipi);
            let reads =
                (self.tasks[task].caller.iter_mut()).flat_map(|caller| &mut caller.deferred);
            for read in reads.filter(|read| read.awaits == number) {
                read.ended = Some(ended);
            }
        }
    }

    /// Begins to go on with a task's oldest deferred read whose page is there. Returns whether there is one.
    #[inline(always)]
    pub(crate) fn begin_due_deferred_read(&mut self, cpu: CpuId, task: TaskId) -> bool {
        let caller = self.tasks[task].caller.as_ref();
        caller.is_some_and(|caller| !caller.deferred.is_empty())
            && self.go_on_with_due_read(cpu, task)
    }

    #[inline(never)]
    fn go_on_with_due_read(&mut self, cpu: CpuId, task: TaskId) -> bool {
        let (now, awake_since) = (self.context.now(), self.cpus[cpu].awake_since());
        let t = &mut self.tasks[task];
        let Some(caller) = &mut t.caller else {
            return false;
        };
        let Some((ended, waited)) = caller.take_up_due_read() else {
            return false;
        };
        caller.request.attribute_wait_for_request(&ended);
        caller.request.attribute_task_wake_up(now, awake_since);
        let slept = t.begin_deferred_read();
        let io = &self.setup.io;
        let again = io.repeated_page_cache_read_work();
        let work = (again + io.work_after_page_cache_wait(!waited, slept)).max(1);
        if let Some(caller) = &mut t.caller {
            caller.work = work;
        }
        t.begin_step(Step::Call, work);
        self.start_work(cpu, Mode::Task, work);
        true
    }
}
