//! Requests: to the drive, back, and where time goes.

use wakepath_policies::psd::Grant;

use crate::block::completion::Coalescing;
use crate::block::request::{Request, RequestKind};
use crate::core::basics::{CpuId, Direction, RequestId, TaskId};
use crate::core::calendar::Slot;
use crate::core::observer::{Observer, RequestOrigin, RequestStep};
use crate::core::parts::Part;
use crate::drive::Piece;
use crate::engine::Engine;

/// When a completion interrupts a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    Now,
    /// Now, with all completions collected by this queue.
    Collected(usize),
    /// Later, with others in the same queue.
    Later,
}

impl<O: Observer> Engine<'_, O> {
    /// Sends a flush to all drives.
    #[inline(never)]
    pub(crate) fn flush(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.context.now();
        let full_speed = self.domains[self.cpus[cpu].domain].full_speed();
        let t = &mut self.tasks[task];
        t.note_flush();
        let (begun, ..) = t.submission(full_speed);
        let id = self.requests.add();
        let write = Direction::Write;
        self.requests[id] = Request::begun((cpu, task), write, RequestKind::Flush, 0, begun);
        self.requests[id].attribute(Part::Submission, now);
        self.context.observe_request(RequestStep::Issued {
            task,
            request: id,
            read: false,
            bytes: 0,
            origin: RequestOrigin::Flush,
        });
        let drives = self.drives.len();
        if drives == 1 {
            return self.give_to_drive(0, id, 0);
        }
        self.give_pieces(id, RequestKind::Flush, (0..drives).map(Piece::flush));
    }

    /// Makes a request that a task has submitted. Returns the request's number, and whether a batch holds it back.
    #[inline(always)]
    pub(crate) fn add_submitted(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        direction: Direction,
        bytes: u64,
    ) -> (RequestId, bool) {
        let now = self.context.now();
        let full_speed = self.domains[self.cpus[cpu].domain].full_speed();
        let t = &mut self.tasks[task];
        let (kind, gathers) = t.note_submission(direction, bytes);
        let (begun, executed, work) = t.submission(full_speed);
        let id = self.requests.add();
        let request = &mut self.requests[id];
        *request = Request::begun((cpu, task), direction, kind, bytes, begun);
        request.attribute_work(Part::Submission, now, executed, work);
        self.context.observe_request(RequestStep::Issued {
            task,
            request: id,
            read: direction == Direction::Read,
            bytes,
            origin: RequestOrigin::Task,
        });
        (id, gathers)
    }

    /// Hands a request to the drives.
    #[inline(always)]
    pub(crate) fn hand_over(&mut self, id: RequestId, bytes: u64) {
        if self.drives.len() == 1 {
            self.give_to_drive(0, id, bytes);
        } else {
            self.stripe(id, bytes);
        }
    }

    /// Hands a request, or a piece, to a drive.
    #[inline(always)]
    pub(crate) fn give_to_drive(&mut self, drive: usize, id: RequestId, bytes: u64) {
        let (now, volume) = (self.context.now(), &self.setup.volume);
        let completion = &self.setup.completion;
        let request = &mut self.requests[id];
        request.drive = drive;
        request.completes_on = completion.cpu(drive, request.issued_on);
        if let Some(share) = completion.same_cpu_share {
            let cluster = self.cpus[request.completes_on].cluster;
            let cpus = self.setup.topology.cluster(cluster).cpus();
            if let Some(other) = self.context.random().elsewhere(share, cpus.len() - 1) {
                // Any CPU but the expected one.
                let of_queue = request.completes_on - cpus.start;
                request.completes_on = cpus.start + (of_queue + 1 + other) % cpus.len();
            }
        }
        let (taker, random) = (&mut self.drives[drive], self.context.random());
        let done = if request.kind == RequestKind::Flush {
            request.attribute_drive(|parts| volume.give_flush(taker, now, parts))
        } else {
            let through = request.kind != RequestKind::Plain;
            let data = (request.direction, bytes, through);
            request.attribute_drive(|parts| volume.give_request(taker, now, data, random, parts))
        };
        self.observe_drive(drive);
        self.emulator.serve(&mut self.context, done, id);
    }

    /// Cuts a request into each drive's pieces.
    #[inline(never)]
    fn stripe(&mut self, id: RequestId, bytes: u64) {
        // A trim has no data, but a place.
        let bytes = bytes.max(1);
        let Request {
            task, direction, ..
        } = self.requests[id];
        let jobs = &self.setup.jobs;
        let offset = self.tasks[task].next_offset(jobs, direction, bytes, self.context.random());
        let mut pieces = self.setup.volume.pieces(offset, bytes).peekable();
        let first = pieces.next();
        if let (Some(only), None) = (first, pieces.peek()) {
            return self.give_to_drive(only.drive, id, only.bytes);
        }
        let pieces = first.into_iter().chain(pieces);
        self.give_pieces(id, self.requests[id].kind, pieces);
    }

    /// Hands a request's pieces to the drives, each as a request with this kind.
    pub(crate) fn give_pieces(
        &mut self,
        id: RequestId,
        kind: RequestKind,
        pieces: impl Iterator<Item = Piece>,
    ) {
        let whole = self.requests[id].piece_of(id, kind);
        let mut count = 0;
        for Piece { drive, bytes } in pieces {
            let piece = self.requests.add();
            self.requests[piece] = whole;
            self.give_to_drive(drive, piece, bytes);
            count += 1;
        }
        let request = &mut self.requests[id];
        (request.unserved, request.undelivered) = (count, count);
    }

    /// A drive has finished a request, or a piece. Returns when the completion interrupts a CPU.
    pub(crate) fn end_service(&mut self, id: RequestId) -> Notice {
        let whole = self.requests[id].number_of_whole(id);
        let request = &mut self.requests[whole];
        request.unserved -= 1;
        if request.unserved == 0 {
            let step = RequestStep::Served { request: whole };
            self.context.observe_request(step);
        }
        match self.setup.completion.coalescing {
            Some(coalescing) => self.collect(id, coalescing),
            None => Notice::Now,
        }
    }

    /// Keeps a completion back until the queue has enough, or the first has waited long enough.
    #[inline(never)]
    fn collect(&mut self, id: RequestId, Coalescing { threshold, time }: Coalescing) -> Notice {
        let request = &self.requests[id];
        let queue = self
            .setup
            .completion
            .queue(request.drive, request.issued_on);
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

    /// Takes a queue's completions, due to interrupt CPUs now.
    pub(crate) fn take_collected(&mut self, queue: usize) -> Vec<RequestId> {
        let collected = std::mem::take(&mut self.requests.collected[queue]);
        for id in &collected {
            self.requests[*id].attribute(Part::InterruptDelivery, self.context.now());
        }
        collected
    }

    /// The CPU for a completion interrupt now.
    #[inline(always)]
    pub(crate) fn completion_cpu(&mut self, id: RequestId) -> CpuId {
        let request = &self.requests[id];
        let cpu = request.completes_on;
        self.recorder.completion(cpu == request.issued_on);
        cpu
    }

    /// A CPU has served the completion interrupt for a request or piece. Returns the page cache's request if one is
    /// complete now.
    #[inline(always)]
    pub(crate) fn complete(&mut self, cpu: CpuId, id: RequestId) -> Option<RequestId> {
        self.grant_lease(cpu, Grant::grants_on_completion);
        let request = self.delivered(cpu, id)?;
        if self.requests[request].kind == RequestKind::WriteBack {
            return Some(request);
        }
        self.context
            .observe_request(RequestStep::Delivered { request, cpu });
        let task = self.requests[request].task;
        let t = &mut self.tasks[task];
        t.add_completion(request);
        if t.waits_for_io() {
            let ipi = self.wake_task(Some(cpu), task, self.choose_cpu(task, None));
            self.requests[request].delay_wake_up(ipi);
        }
        None
    }

    /// Whether a completion interrupt wakes the task, where that makes a difference.
    #[inline(always)]
    pub(crate) fn completion_wakes(&self, id: RequestId) -> bool {
        if !self.setup.io.depends_on_sleep() {
            return false;
        }
        let request = &self.requests[id];
        let last_piece = (request.whole).is_none_or(|id| self.requests[id].undelivered == 1);
        last_piece && self.tasks[request.task].wakes_with_next()
    }

    /// A completion interrupt has been served for a request or piece. Returns the request if complete: a whole takes
    /// the way of the last piece.
    #[inline(always)]
    fn delivered(&mut self, cpu: CpuId, id: RequestId) -> Option<RequestId> {
        let c = &self.cpus[cpu];
        let work = c.interrupt_work(self.domains[c.domain].full_speed());
        let piece = &mut self.requests[id];
        piece.attribute_interrupt(
            self.context.now(),
            (c.interrupt_begun(), c.awake_since()),
            work,
        );
        let Some(whole) = piece.whole else {
            return Some(id);
        };
        let piece = *piece;
        self.requests.remove(id);
        let request = &mut self.requests[whole];
        request.undelivered -= 1;
        if request.undelivered > 0 {
            return None;
        }
        request.end_with(&piece);
        Some(whole)
    }
}
