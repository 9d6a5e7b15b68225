//! Events of requests: submission to the drives, completion, and the division of latency into parts.

use wakepath_policies::psd::LeaseTrigger;

use crate::block::completion::Coalescing;
use crate::block::request::{Request, RequestKind};
use crate::core::basics::{CpuId, Direction, HeldByBatch, PageCacheRequestId, RequestId, TaskId};
use crate::core::calendar::Slot;
use crate::core::observer::{Observer, RequestOrigin, RequestPlace, RequestStep};
use crate::core::parts::Part;
use crate::drive::Piece;
use crate::engine::Engine;
use crate::task::state::Step;

/// When a finished request's completion interrupts a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    Now,
    /// At once, together with all completions collected by the queue with this number.
    Collected(usize),
    /// Later, together with other completions in the same queue.
    Later,
    /// Never: a task polls for the request.
    Polled,
}

impl<O: Observer> Engine<'_, O> {
    /// Sends a task's flush to all drives; with several drives, as one piece for each. Returns the flush's number.
    #[inline(never)]
    pub(crate) fn send_flush_to_all_drives(&mut self, cpu: CpuId, task: TaskId) -> RequestId {
        let now = self.context.now();
        let full_speed = self.domains[self.cpus[cpu].domain].full_speed();
        let t = &mut self.tasks[task];
        t.count_submitted_flush();
        let (begun, ..) = t.submission_begin_time_and_work(full_speed);
        let id = self.requests.allocate_request_id();
        let write = Direction::Write;
        self.requests[id] =
            Request::new_with_submission_begun((cpu, task), write, RequestKind::Flush, 0, begun);
        self.requests[id].attribute_time_until(Part::Submission, now);
        self.context.tell_observer_of_request(RequestStep::Issued {
            task,
            submitter: task,
            request: id,
            read: false,
            bytes: 0,
            origin: RequestOrigin::Flush,
            place: RequestPlace::Unsettled,
        });
        let drives = self.drives.len();
        if drives == 1 {
            self.give_to_drive(0, id, 0);
        } else {
            let pieces = (0..drives).map(Piece::for_flush);
            self.give_pieces_to_drives(id, RequestKind::Flush, pieces);
        }
        id
    }

    /// Creates the request that a task has just submitted. Returns its number, and whether it waits for the rest of a batch.
    #[inline(always)]
    pub(crate) fn create_submitted_request(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        direction: Direction,
        bytes: u64,
    ) -> (RequestId, HeldByBatch) {
        let now = self.context.now();
        let full_speed = self.domains[self.cpus[cpu].domain].full_speed();
        let t = &mut self.tasks[task];
        let (kind, gathers) = t.count_submitted_request(direction, bytes);
        let (begun, executed, work) = t.submission_begin_time_and_work(full_speed);
        let polled = t.is_polled();
        let place = t.place_of_submitted_request();
        let id = self.requests.allocate_request_id();
        let request = &mut self.requests[id];
        *request = Request::new_with_submission_begun((cpu, task), direction, kind, bytes, begun);
        request.polled = polled;
        request.attribute_work_until(Part::Submission, now, executed, work);
        self.context.tell_observer_of_request(RequestStep::Issued {
            task,
            submitter: task,
            request: id,
            read: direction == Direction::Read,
            bytes,
            origin: match kind {
                RequestKind::Through | RequestKind::Synchronous => RequestOrigin::ForcedWrite,
                _ => RequestOrigin::Task,
            },
            place,
        });
        (id, gathers)
    }

    /// Hands a request to the drive, or its stripes to several drives.
    #[inline(always)]
    pub(crate) fn hand_request_to_drives(&mut self, id: RequestId, bytes: u64) {
        if self.drives.len() == 1 {
            self.give_to_drive(0, id, bytes);
        } else {
            self.stripe_request_over_drives(id, bytes);
        }
    }

    /// Hands a request, or a piece, to a drive.
    #[inline(always)]
    pub(crate) fn give_to_drive(&mut self, drive: usize, id: RequestId, bytes: u64) {
        if self.requests[id].kind == RequestKind::Flush {
            return self.queue_flush(drive, id);
        }
        self.choose_completion_cpu(drive, id);
        self.count_as_unended(id);
        let (now, volume) = (self.context.now(), &self.setup.volume);
        let request = &mut self.requests[id];
        let (taker, random) = (&mut self.drives[drive], self.context.random_streams());
        let through = request.kind != RequestKind::Plain;
        let data = (request.direction, bytes, through);
        let done = request.attribute_drive_time(|parts| {
            volume.give_request_to_drive(taker, now, data, random, parts)
        });
        if let Some(cache) = &mut self.cache {
            cache.count_request_of_drive(now, data.0, done - now);
        }
        self.tell_observer_of_drive_state(drive);
        self.emulator
            .hand_request_to_player_or_schedule_end(&mut self.context, done, id);
    }

    /// Chooses the CPU that a drive will interrupt for a request.
    #[inline(always)]
    pub(super) fn choose_completion_cpu(&mut self, drive: usize, id: RequestId) {
        let completion = &self.setup.completion;
        let request = &mut self.requests[id];
        request.drive = drive;
        request.completes_on = completion.interrupted_cpu(drive, request.issued_on);
        if let Some(share) = completion.same_cpu_share {
            let cluster = self.cpus[request.completes_on].cluster;
            let cpus = self.setup.topology.cluster(cluster).cpus();
            if let Some(other) = self
                .context
                .random_streams()
                .draw_other_completion_cpu(share, cpus.len() - 1)
            {
                // The completion goes to another CPU in the cluster than the queue's own.
                let of_queue = request.completes_on - cpus.start;
                request.completes_on = cpus.start + (of_queue + 1 + other) % cpus.len();
            }
        }
    }

    /// Cuts a request into each drive's pieces.
    #[inline(never)]
    fn stripe_request_over_drives(&mut self, id: RequestId, bytes: u64) {
        // A trim has no data, but a place.
        let bytes = bytes.max(1);
        let Request {
            task, direction, ..
        } = self.requests[id];
        let jobs = &self.setup.jobs;
        let offset = self.tasks[task].offset_of_next_request(
            jobs,
            direction,
            bytes,
            self.context.random_streams(),
        );
        self.stripe_request_from(id, offset, bytes);
    }

    /// Cuts a request that begins at a byte of the volume into each drive's pieces.
    pub(crate) fn stripe_request_from(&mut self, id: RequestId, offset: u64, bytes: u64) {
        let mut pieces = self
            .setup
            .volume
            .split_into_pieces(offset, bytes)
            .peekable();
        let first = pieces.next();
        if let (Some(only), None) = (first, pieces.peek()) {
            return self.give_to_drive(only.drive, id, only.bytes);
        }
        let pieces = first.into_iter().chain(pieces);
        self.give_pieces_to_drives(id, self.requests[id].kind, pieces);
    }

    /// Hands a request's pieces to the drives, each as a request with this kind.
    pub(crate) fn give_pieces_to_drives(
        &mut self,
        whole_id: RequestId,
        kind: RequestKind,
        pieces: impl Iterator<Item = Piece>,
    ) {
        let whole = self.requests[whole_id].copy_as_piece(whole_id, kind);
        let mut count = 0;
        for Piece { drive, bytes } in pieces {
            let piece = self.requests.allocate_request_id();
            self.requests[piece] = whole;
            self.give_to_drive(drive, piece, bytes);
            count += 1;
        }
        let request = &mut self.requests[whole_id];
        (request.unserved, request.undelivered) = (count, count);
    }

    /// A drive has finished a request, or a piece. Returns when the completion interrupts a CPU.
    pub(crate) fn end_drive_service(&mut self, id: RequestId) -> Notice {
        self.count_served_piece(id);
        if self.requests[id].kind == RequestKind::Flush {
            for other in self.requests_that_share_flush(id) {
                self.count_served_piece(other);
            }
        }
        let is_queue_empty = self.end_count_as_unended(id);
        if self.requests[id].polled {
            return Notice::Polled;
        }
        match self.setup.completion.coalescing {
            Some(coalescing) => self.hold_back_for_coalescing(id, coalescing),
            None if self.setup.completion.when_empty => self.hold_back_until(is_queue_empty, id),
            None => Notice::Now,
        }
    }

    /// Whether a request is among those of its queue that are counted: polled requests have queues of their own.
    #[inline(always)]
    fn counts_as_unended(&self, id: RequestId) -> bool {
        self.setup.completion.counts_unended && !self.requests[id].polled
    }

    /// Counts a request that a drive now has.
    #[inline(always)]
    pub(super) fn count_as_unended(&mut self, id: RequestId) {
        if self.counts_as_unended(id) {
            let queue = self.number_of_request_queue(id);
            self.requests.unended[queue] += 1;
        }
    }

    /// Counts a request that a drive has ended. Returns whether the drive has no more from the queue, as far as they are counted.
    #[inline(always)]
    fn end_count_as_unended(&mut self, id: RequestId) -> bool {
        if !self.counts_as_unended(id) {
            return true;
        }
        let queue = self.number_of_request_queue(id);
        self.requests.unended[queue] -= 1;
        self.requests.unended[queue] == 0
    }

    /// Keeps a completion back until a drive has ended all requests of the queue.
    #[inline(never)]
    fn hold_back_until(&mut self, is_queue_empty: bool, id: RequestId) -> Notice {
        let queue = self.number_of_request_queue(id);
        self.requests.collected[queue].push(id);
        if is_queue_empty {
            Notice::Collected(queue)
        } else {
            Notice::Later
        }
    }

    /// Whether each drive has requests of the queue that a CPU submits to, so that no drive has to be told of another.
    pub(crate) fn drives_need_no_doorbell(&self, cpu: CpuId) -> bool {
        let mut drives = 0..self.drives.len();
        let completion = &self.setup.completion;
        drives.all(|drive| {
            self.requests.unended[completion.queue_number_across_drives(drive, cpu)] > 0
        })
    }

    /// Counts a request, or a piece, that a drive has finished.
    fn count_served_piece(&mut self, id: RequestId) {
        let whole = self.requests[id].id_of_whole_or(id);
        let request = &mut self.requests[whole];
        request.unserved -= 1;
        if request.unserved == 0 {
            let step = RequestStep::Served { request: whole };
            self.context.tell_observer_of_request(step);
        }
    }

    /// Keeps a completion back until the queue has enough, or the first has waited long enough.
    #[inline(never)]
    fn hold_back_for_coalescing(
        &mut self,
        id: RequestId,
        Coalescing { threshold, time }: Coalescing,
    ) -> Notice {
        let queue = self.number_of_request_queue(id);
        let collected = &mut self.requests.collected[queue];
        collected.push(id);
        if collected.len() >= threshold {
            self.context.cancel(Slot::Queue(queue));
            return Notice::Collected(queue);
        }
        if collected.len() == 1 {
            let end = self.context.now() + time;
            self.context.schedule(Slot::Queue(queue), end);
        }
        Notice::Later
    }

    /// Removes and returns a queue's coalesced completions, due to interrupt CPUs now.
    pub(crate) fn take_coalesced_completions(&mut self, queue: usize) -> Vec<RequestId> {
        let collected = std::mem::take(&mut self.requests.collected[queue]);
        for id in &collected {
            self.requests[*id].attribute_time_until(Part::InterruptDelivery, self.context.now());
        }
        collected
    }

    /// Returns the CPU that a completion interrupts, and counts whether the CPU had submitted the request.
    #[inline(always)]
    pub(crate) fn count_and_return_completion_cpu(&mut self, id: RequestId) -> CpuId {
        let request = &self.requests[id];
        let cpu = request.completes_on;
        self.recorder
            .count_completion_interrupt(cpu == request.issued_on);
        cpu
    }

    /// Ends a request or piece after its completion interrupt, and wakes a waiting task. Returns the page cache's request, if one is
    /// complete with that.
    #[inline(always)]
    pub(crate) fn deliver_completion(
        &mut self,
        cpu: CpuId,
        id: RequestId,
    ) -> Option<PageCacheRequestId> {
        self.grant_psd_lease_on(cpu, LeaseTrigger::is_completion_a_trigger);
        self.attribute_served_interrupt(cpu, id);
        let request = self.merge_ended_piece(id)?;
        self.end_delivered_request(cpu, request)
    }

    /// Wakes the task that waits for a request, after its completion interrupt. Returns the page cache's request, if it is one.
    #[inline(always)]
    pub(super) fn end_delivered_request(
        &mut self,
        cpu: CpuId,
        request: RequestId,
    ) -> Option<PageCacheRequestId> {
        if self.requests[request].kind == RequestKind::WriteBack {
            return Some(request);
        }
        self.context
            .tell_observer_of_request(RequestStep::Delivered { request, cpu });
        let task = self.requests[request].task;
        let t = &mut self.tasks[task];
        t.add_completed_request(request);
        if t.completions_so_far_wake_task() {
            let ipi = self.wake_task(Some(cpu), task, self.choose_cpu_for_woken_task(task, None));
            self.requests[request].set_wake_up_delay(ipi);
        } else if t.present_step() == Step::Poll {
            self.end_spin_if_requests_end_it(task);
        }
        None
    }

    /// Whether a completion interrupt wakes the task; always false where waking costs nothing extra.
    #[inline(always)]
    pub(crate) fn completion_wakes_task(&self, id: RequestId) -> bool {
        if !self.setup.io.completion_costs_more_after_sleep() {
            return false;
        }
        let request = &self.requests[id];
        let last_piece = (request.whole).is_none_or(|id| self.requests[id].undelivered == 1);
        last_piece && self.tasks[request.task].next_completion_wakes_task()
    }

    /// Attributes the time of a request or piece up to now, the end of its completion interrupt.
    #[inline(always)]
    pub(super) fn attribute_served_interrupt(&mut self, cpu: CpuId, id: RequestId) {
        let c = &self.cpus[cpu];
        let work = c.interrupt_service_work(self.domains[c.domain].full_speed());
        self.requests[id].attribute_completion_interrupt(
            self.context.now(),
            (c.interrupt_service_began_at(), c.awake_since()),
            work,
        );
    }

    /// Returns a request that has ended; of a piece the whole, if this was its last piece: a whole takes the way of the last piece.
    #[inline(always)]
    pub(crate) fn merge_ended_piece(&mut self, id: RequestId) -> Option<RequestId> {
        let Some(whole) = self.requests[id].whole else {
            return Some(id);
        };
        let piece = self.requests[id];
        self.requests.free_request_id(id);
        let request = &mut self.requests[whole];
        request.undelivered -= 1;
        if request.undelivered > 0 {
            return None;
        }
        request.take_over_parts_of_piece(&piece);
        Some(whole)
    }
}
