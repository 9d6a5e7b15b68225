//! Requests: to the drive, back from it, and where their time goes.

use wakepath_policies::psd::Grant;

use crate::block::completion::Coalescing;
use crate::block::request::{Request, RequestKind};
use crate::core::basics::{CpuId, Direction, Interrupt, RequestId, TaskId};
use crate::core::calendar::Slot;
use crate::core::parts::Part;
use crate::drive::Piece;
use crate::engine::Engine;
use crate::observe::observer::{Observer, RequestOrigin, RequestStep};

impl<O: Observer> Engine<'_, O> {
    /// Sends a flush to all drives of the volume.
    #[inline(never)]
    pub(crate) fn flush(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.now;
        let full_speed = self.domains[self.cpus[cpu].domain].full_speed();
        let t = &mut self.tasks[task];
        t.note_flush();
        let (begun, ..) = t.submission(full_speed);
        let id = self.add_request();
        let write = Direction::Write;
        self.requests[id] = Request::begun((cpu, task), write, RequestKind::Flush, 0, begun);
        self.requests[id].attribute(Part::Submission, now);
        self.observe_request(RequestStep::Issued {
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

    #[inline(always)]
    pub(crate) fn submit_request(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        direction: Direction,
        bytes: u64,
    ) {
        let now = self.now;
        let full_speed = self.domains[self.cpus[cpu].domain].full_speed();
        let t = &mut self.tasks[task];
        let (kind, gathers) = t.note_submission(direction, bytes);
        let (begun, executed, work) = t.submission(full_speed);
        let id = self.add_request();
        let request = &mut self.requests[id];
        *request = Request::begun((cpu, task), direction, kind, bytes, begun);
        request.attribute_work(Part::Submission, now, executed, work);
        self.observe_request(RequestStep::Issued {
            task,
            request: id,
            read: direction == Direction::Read,
            bytes,
            origin: RequestOrigin::Task,
        });
        if gathers {
            self.gather(task, id, bytes);
        } else {
            self.hand_over(id, bytes);
        }
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

    /// Makes room for a request.
    #[inline]
    pub(crate) fn add_request(&mut self) -> RequestId {
        self.free_requests.pop().unwrap_or_else(|| {
            self.requests.push(Request::default());
            self.requests.len() - 1
        })
    }

    /// Hands a request, or a piece of one, to a drive.
    #[inline(always)]
    pub(crate) fn give_to_drive(&mut self, drive: usize, id: RequestId, bytes: u64) {
        let (now, volume) = (self.now, &self.setup.volume);
        let completion = &self.setup.completion;
        let request = &mut self.requests[id];
        request.drive = drive;
        request.completes_on = completion.cpu(drive, request.issued_on);
        if let Some(share) = completion.same_cpu_share {
            let cluster = self.cpus[request.completes_on].cluster;
            let cpus = self.setup.topology.cluster(cluster).cpus();
            if let Some(other) = self.random.elsewhere(share, cpus.len() - 1) {
                // Any but the one that it would be.
                let of_queue = request.completes_on - cpus.start;
                request.completes_on = cpus.start + (of_queue + 1 + other) % cpus.len();
            }
        }
        let (taker, random) = (&mut self.drives[drive], &mut self.random);
        let done = if request.kind == RequestKind::Flush {
            request.attribute_drive(|parts| volume.give_flush(taker, now, parts))
        } else {
            let through = request.kind != RequestKind::Plain;
            let data = (request.direction, bytes, through);
            request.attribute_drive(|parts| volume.give_request(taker, now, data, random, parts))
        };
        self.watch_drive(drive);
        self.serve_until(done, id);
    }

    /// Cuts a request into what each drive of the volume has of it.
    #[inline(never)]
    fn stripe(&mut self, id: RequestId, bytes: u64) {
        // A trim has no data, but a place.
        let bytes = bytes.max(1);
        let offset = self.next_offset(self.requests[id].task, self.requests[id].direction, bytes);
        let mut pieces = self.setup.volume.pieces(offset, bytes).peekable();
        let first = pieces.next();
        if let (Some(only), None) = (first, pieces.peek()) {
            return self.give_to_drive(only.drive, id, only.bytes);
        }
        let pieces = first.into_iter().chain(pieces);
        self.give_pieces(id, self.requests[id].kind, pieces);
    }

    /// Hands the pieces of a request to the drives, each as a request of a kind.
    pub(crate) fn give_pieces(
        &mut self,
        id: RequestId,
        kind: RequestKind,
        pieces: impl Iterator<Item = Piece>,
    ) {
        let whole = self.requests[id].piece_of(id, kind);
        let mut count = 0;
        for Piece { drive, bytes } in pieces {
            let piece = self.add_request();
            self.requests[piece] = whole;
            self.give_to_drive(drive, piece, bytes);
            count += 1;
        }
        let request = &mut self.requests[id];
        (request.unserved, request.undelivered) = (count, count);
    }

    /// A drive has finished a request, or a piece of one.
    pub(crate) fn served(&mut self, id: RequestId) {
        let whole = self.requests[id].number_of_whole(id);
        let request = &mut self.requests[whole];
        request.unserved -= 1;
        if request.unserved == 0 {
            self.observe_request(RequestStep::Served { request: whole });
        }
        if let Some(coalescing) = self.setup.completion.coalescing {
            return self.collect(id, coalescing);
        }
        self.notify(id);
    }

    #[inline(always)]
    fn notify(&mut self, id: RequestId) {
        let request = &self.requests[id];
        let cpu = request.completes_on;
        self.recorder.completion(cpu == request.issued_on);
        self.interrupt(cpu, Interrupt::Completion(id));
    }

    /// Keeps a completion back until its queue has enough of them, or the first has waited long
    /// enough.
    #[inline(never)]
    fn collect(&mut self, id: RequestId, Coalescing { threshold, time }: Coalescing) {
        let request = &self.requests[id];
        let queue = self
            .setup
            .completion
            .queue(request.drive, request.issued_on);
        let collected = &mut self.collected[queue];
        collected.push(id);
        if collected.len() >= threshold {
            self.calendar.cancel(Slot::Device(queue));
            self.tell(queue);
        } else if collected.len() == 1 {
            self.calendar.schedule(Slot::Device(queue), self.now + time);
        }
    }

    /// Interrupts for what a queue has collected.
    pub(crate) fn tell(&mut self, queue: usize) {
        for id in std::mem::take(&mut self.collected[queue]) {
            let request = &mut self.requests[id];
            request.attribute(Part::InterruptDelivery, self.now);
            self.notify(id);
        }
    }

    /// A CPU has served the completion interrupt of a request, or of a piece of one.
    #[inline(always)]
    pub(crate) fn complete(&mut self, cpu: CpuId, id: RequestId) {
        self.grant_lease(cpu, Grant::on_completion);
        let Some(request) = self.delivered(cpu, id) else {
            return;
        };
        self.observe_request(RequestStep::Delivered { request, cpu });
        let task = self.requests[request].task;
        let t = &mut self.tasks[task];
        t.add_completion(request);
        if t.waits_for_io() {
            let ipi = self.wake_task(Some(cpu), task, self.choose_cpu(task, None));
            self.requests[request].delay_wake_up(ipi);
        }
    }

    /// Whether the completion interrupt of a request, or of a piece of one, wakes its task.
    #[inline(always)]
    pub(crate) fn completion_wakes(&self, id: RequestId) -> bool {
        let request = &self.requests[id];
        let last_piece = (request.whole).is_none_or(|id| self.requests[id].undelivered == 1);
        last_piece && self.tasks[request.task].wakes_with_next()
    }

    /// The completion interrupt of a request, or of a piece of one, has been served. Returns the
    /// request if that completes it: its way is that of its last piece.
    #[inline(always)]
    fn delivered(&mut self, cpu: CpuId, id: RequestId) -> Option<RequestId> {
        let c = &self.cpus[cpu];
        let work = c.interrupt_work(self.domains[c.domain].full_speed());
        let piece = &mut self.requests[id];
        piece.attribute_interrupt(self.now, (c.interrupt_begun(), c.awake_since()), work);
        let Some(whole) = piece.whole else {
            return Some(id);
        };
        let piece = *piece;
        self.free_requests.push(id);
        let request = &mut self.requests[whole];
        request.undelivered -= 1;
        if request.undelivered > 0 {
            return None;
        }
        request.end_with(&piece);
        if request.kind == RequestKind::WriteBack {
            self.page_request_ended(cpu, whole);
            return None;
        }
        Some(whole)
    }
}
