//! Requests: to the drive, back from it, and where their time goes.

use crate::block::completion::Coalescing;
use crate::block::request::{Request, RequestKind};
use crate::core::basics::{CpuId, Direction, Interrupt, RequestId, TaskId};
use crate::core::calendar::Slot;
use crate::core::parts::{Part, Work};
use crate::core::random::Streams;
use crate::cpu::state::Cpu;
use crate::drive::{Accepted, Piece};
use crate::engine::Engine;
use crate::error::SimError;
use crate::observe::observer::{Observer, RequestStep};
use crate::task::fio::setup::JobSetup;
use crate::task::state::{Program, Task};

impl<O: Observer> Engine<'_, O> {
    #[inline(always)]
    pub(crate) fn submit(&mut self, cpu: CpuId, task: TaskId) {
        let (direction, bytes) = self.take_next(task);
        let t = &self.tasks[task];
        let job = &self.setup.jobs[t.job];
        let data = if job.has_data(t.submitted) { bytes } else { 0 };
        if job.buffered && t.bytes > job.span {
            self.read_all(task);
        }
        self.submit_request(cpu, task, direction, data);
    }

    /// The next request of a job is about to be submitted. Returns which way it goes, and its bytes.
    #[inline(always)]
    pub(crate) fn take_next(&mut self, task: TaskId) -> (Direction, u64) {
        let t = &mut self.tasks[task];
        let job = &self.setup.jobs[t.job];
        let settled = t.direction.take();
        let direction = settled.unwrap_or_else(|| self.random.direction(job.read_percent));
        let next = t.next.take();
        t.offset = next.map(|next| next.offset);
        let bytes = next.map_or(job.block[direction as usize], |next| next.bytes);
        t.filled = false;
        t.issued[direction as usize] += if job.counts_bytes { bytes } else { 1 };
        t.bytes += bytes;
        if job.poisson.is_some() || job.forgives_pauses {
            t.settle_rates(job, direction, &mut self.random);
        }
        t.last = direction;
        (direction, bytes)
    }

    /// A job is about to read from the page cache what it has read before.
    #[cold]
    fn read_all(&mut self, task: TaskId) {
        if self.cache.is_some() && self.tasks[task].caller.is_some() {
            return;
        }
        self.give_up(SimError::Workload {
            job: self.setup.jobs[self.tasks[task].job].name.clone(),
            what: "buffered reads beyond its size, which the page cache has by then; give a larger size, or direct=1"
                .to_owned(),
        });
    }

    /// Sends a flush to all drives of the volume.
    #[inline(never)]
    pub(crate) fn flush(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.now;
        let t = &mut self.tasks[task];
        t.in_flight += 1;
        // That of a write's own system call is not one that fio asks for.
        t.flushed = t.unreturned.is_none();
        let begun = t.begun;
        let id = self.add_request();
        self.requests[id] = Request {
            task,
            direction: Direction::Write,
            kind: RequestKind::Flush,
            issued_on: cpu,
            completes_on: cpu,
            begun,
            cut: now,
            ..Request::default()
        };
        self.requests[id].parts.add(Part::Submission, now - begun);
        self.observe_request(RequestStep::Issued {
            task,
            request: id,
            read: false,
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
        t.in_flight += 1;
        t.submitted += 1;
        t.flushed = false;
        let gathers = t.gathers;
        let mut kind = RequestKind::Plain;
        // Trims are writes without data, which fio does not count here.
        if direction == Direction::Write && bytes > 0 {
            t.written += 1;
            kind = t.writes_as;
        }
        let work = Work::new(t.submission, t.cold, full_speed);
        let (begun, executed) = (t.begun, t.executed);
        let id = self.add_request();
        let request = &mut self.requests[id];
        *request = Request {
            task,
            direction,
            issued_on: cpu,
            completes_on: cpu,
            bytes,
            kind,
            begun,
            cut: now,
            ..Request::default()
        };
        request
            .parts
            .add_work(Part::Submission, now - begun, executed, work);
        self.observe_request(RequestStep::Issued {
            task,
            request: id,
            read: direction == Direction::Read,
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

    /// Bytes of data of the request that a job is about to submit, whose direction, size and place that settles. `None`:
    /// the file has none left.
    pub(crate) fn next_bytes(&mut self, task: TaskId) -> Option<u64> {
        let t = &mut self.tasks[task];
        let job = &self.setup.jobs[t.job];
        let direction = *t
            .direction
            .get_or_insert_with(|| self.random.direction(job.read_percent));
        if !job.has_data(t.submitted) {
            return Some(0);
        }
        if let Some(walk) = &mut t.walk
            && t.next.is_none()
        {
            t.next = Some(walk.next(direction as usize, &mut self.random)?);
        }
        let next = t.next.map(|next| next.bytes);
        Some(next.unwrap_or(job.block[direction as usize]))
    }

    /// Until when the rates of a job hold its next request back; settles its direction.
    ///
    /// As fio's `rate_ddir()`: a direction that is ahead of its rate gives way to the other one if
    /// that is due first.
    pub(crate) fn held_back(&mut self, task: TaskId) -> Option<u64> {
        let job = &self.setup.jobs[self.tasks[task].job];
        let periods = job.periods?;
        let t = &mut self.tasks[task];
        let started = t.started;
        let due = |direction: Direction| {
            let number = direction as usize;
            let linear = match job.poisson {
                Some(_) => 0,
                None => periods[number].start_of(t.issued[number]),
            };
            started.saturating_add(linear.saturating_add(t.due[number]))
        };
        let mut direction = t
            .direction
            .unwrap_or_else(|| self.random.direction(job.read_percent));
        let other = match direction {
            Direction::Read => Direction::Write,
            Direction::Write => Direction::Read,
        };
        let mixed = (1..100).contains(&job.read_percent);
        if mixed && due(direction) > self.now && due(other) < due(direction) {
            direction = other;
        }
        let end = job.end.map_or(u64::MAX, |end| started + end);
        let until = due(direction).min(end);
        t.direction = Some(direction);
        (until > self.now).then_some(until)
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
        if request.kind == RequestKind::Flush {
            let Accepted { wake, done } = self.drives[drive].flush(now, volume.flush);
            request.parts.add(Part::DriveWake, wake);
            request.parts.add(Part::DriveService, done - wake - now);
            request.cut = done;
            self.watch_drive(drive);
            self.serve_until(done, id);
            return;
        }
        let access = self
            .random
            .service(&volume.access[request.direction as usize]);
        let mut demand = volume.demand(request.direction, bytes, access);
        if let (Some(units), Direction::Read) = (volume.units, request.direction) {
            demand.unit = Some(self.random.unit(units));
        }
        let mut service = demand.access + demand.transfer;
        let Accepted { wake, done } = if request.kind == RequestKind::Plain {
            self.drives[drive].accept(now, demand)
        } else {
            service += volume.flush;
            self.drives[drive].write_through(now, demand, volume.flush)
        };
        let parts = &mut request.parts;
        parts.add(Part::DriveWake, wake);
        parts.add(Part::Queueing, done - service - wake - now);
        parts.add(Part::DriveService, service);
        request.cut = done;
        self.watch_drive(drive);
        self.serve_until(done, id);
    }

    /// Cuts a request into what each drive of the volume has of it.
    #[inline(never)]
    fn stripe(&mut self, id: RequestId, bytes: u64) {
        let stripes = self.setup.volume.stripes;
        // A trim has no data, but a place.
        let bytes = bytes.max(1);
        let offset = self.offset(self.requests[id].task, self.requests[id].direction, bytes);
        let mut pieces = stripes.pieces(offset, bytes).peekable();
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
        let whole = Request {
            whole: Some(id),
            kind,
            ..self.requests[id]
        };
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

    /// Where on the volume a task's next request begins.
    pub(crate) fn offset(&mut self, task: TaskId, direction: Direction, bytes: u64) -> u64 {
        let blocks = match self.tasks[task].program {
            Program::Job => {
                if let Some(offset) = self.tasks[task].offset {
                    return offset;
                }
                let job = &self.setup.jobs[self.tasks[task].job];
                let blocks = (job.span / bytes).max(1);
                if job.random {
                    return self.random.block(blocks) * bytes;
                }
                blocks
            }
            // A thread writes one block after the other, for ever.
            Program::Thread(_) | Program::Worker | Program::Flusher | Program::Sugov(_) => {
                u64::MAX / bytes
            }
        };
        // As fio does, each direction on its own.
        let next = &mut self.tasks[task].next_block[direction as usize];
        let block = *next;
        *next = (block + 1) % blocks;
        block * bytes
    }

    /// A drive has finished a request, or a piece of one.
    pub(crate) fn served(&mut self, id: RequestId) {
        let whole = self.requests[id].whole.unwrap_or(id);
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
            request
                .parts
                .add(Part::InterruptDelivery, self.now - request.cut);
            request.cut = self.now;
            self.notify(id);
        }
    }

    /// The completion interrupt of a request, or of a piece of one, has been served. Returns the
    /// request if that completes it: its way is that of its last piece.
    #[inline(always)]
    pub(crate) fn delivered(&mut self, cpu: CpuId, id: RequestId) -> Option<RequestId> {
        let c = &self.cpus[cpu];
        let work = c.interrupt_work(self.domains[c.domain].full_speed());
        let piece = &mut self.requests[id];
        piece.attribute_interrupt(self.now, c, work);
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
        request.parts = piece.parts;
        request.cut = piece.cut;
        if request.kind == RequestKind::WriteBack {
            self.page_request_ended(cpu, whole);
            return None;
        }
        Some(whole)
    }
}

impl Task {
    /// What its rates hold against its next request, beyond the number of those before it.
    #[inline(never)]
    fn settle_rates(&mut self, job: &JobSetup, direction: Direction, random: &mut Streams) {
        // As fio (`handle_thinktime()`): less one request, so that the next one is not held back.
        if job.forgives_pauses
            && let Some(paused) = self.paused_for()
            && let Some(periods) = job.periods
        {
            let last = self.last as usize;
            let one = match job.poisson {
                Some(_) => 0,
                None => periods[last].start_of(job.units[last]),
            };
            let more = if one <= paused { paused - one } else { paused };
            self.due[last] = self.due[last].saturating_add(more);
        }
        if let Some(means) = job.poisson {
            let (due, mean) = (&mut self.due[direction as usize], means[direction as usize]);
            *due = due.saturating_add(random.interval(mean));
        }
    }
}

impl Request {
    /// Its completion interrupt has been served on `c`, which had this work with it.
    #[inline(always)]
    fn attribute_interrupt(&mut self, now: u64, c: &Cpu, work: Work) {
        let began = c.interrupt_begun();
        let idle_exit = c.awake_since().min(began).saturating_sub(self.cut);
        let waiting = began - self.cut - idle_exit;
        self.parts.add(Part::IdleExit, idle_exit);
        self.parts.add(Part::WaitingToRun, waiting);
        let time = now - began;
        self.parts
            .add_work(Part::InterruptDelivery, time, time, work);
        self.cut = now;
    }

    /// Its task goes on with it now, on a CPU that has been awake since then.
    #[inline(always)]
    pub(crate) fn attribute_wake_up(&mut self, now: u64, awake_since: u64) {
        let ipi = self.ipi.min(now - self.cut);
        let idle_exit = awake_since.saturating_sub(self.cut + ipi);
        let waiting = now - self.cut - ipi - idle_exit;
        self.parts.add(Part::InterruptDelivery, ipi);
        self.parts.add(Part::IdleExit, idle_exit);
        self.parts.add(Part::WaitingToRun, waiting);
        self.cut = now;
    }
}
