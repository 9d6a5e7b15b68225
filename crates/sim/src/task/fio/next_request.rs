//! A process's next request: direction, size and place, and until when rates hold the request back.

use wakepath_workloads::fio::{NextIo, UnevenPlaces};

use crate::core::basics::Direction;
use crate::core::random::Streams;
use crate::task::fio::process::FioProcess;
use crate::task::fio::setup::JobSetup;

impl FioProcess {
    /// Takes the process's next request for submission, and advances counts and rates. Returns direction and bytes.
    #[inline(always)]
    pub(in crate::task) fn take_next_request(
        &mut self,
        job: &JobSetup,
        random: &mut Streams,
    ) -> (Direction, u64) {
        let settled = self.direction.take();
        let direction = settled.unwrap_or_else(|| random.draw_direction(job.read_percent));
        let next = self.next.take();
        self.offset = next.map(|next| next.offset);
        let bytes = next.map_or(job.block[direction as usize], |next| next.bytes);
        self.filled = false;
        self.steering.forget_leave_of_flow();
        self.issued[direction as usize] += if job.counts_bytes { bytes } else { 1 };
        if !self.reads_back_next {
            self.bytes += bytes;
        }
        if job.poisson.is_some() || job.forgives_pauses {
            self.delay_due_times(job, direction, random);
        }
        self.last = direction;
        (direction, bytes)
    }

    /// Settles direction and, where a walk is followed, size and place of the next request. Returns its bytes; `None`: the file has none left.
    pub(super) fn settle_bytes_of_next_request(
        &mut self,
        job: &JobSetup,
        random: &mut Streams,
    ) -> Option<u64> {
        let direction = *self
            .direction
            .get_or_insert_with(|| random.draw_direction(job.read_percent));
        if !job.request_has_data(self.submitted) {
            return Some(0);
        }
        if let Some(walk) = &mut self.walk
            && self.next.is_none()
        {
            self.next = Some(walk.next_io_of_pass(direction as usize, random)?);
        }
        let settled = self.next.map(|next| next.bytes);
        Some(settled.unwrap_or(job.block[direction as usize]))
    }

    /// Settles the place of the next request, of settled direction and size. Returns direction and offset; `None` without a direction.
    pub(in crate::task) fn settle_place_of_next_request(
        &mut self,
        job: &JobSetup,
        bytes: u64,
        random: &mut Streams,
    ) -> Option<(Direction, u64)> {
        let direction = self.direction?;
        if self.next.is_none() {
            // The last request's place must not be taken for the next request's.
            self.offset = None;
            let offset = self.offset_of_next_request(job, direction, bytes, random);
            self.next = Some(NextIo { offset, bytes });
        }
        Some((direction, self.next?.offset))
    }

    /// Byte at which the request taken last begins, if that is settled.
    pub(in crate::task) fn settled_offset(&self) -> Option<u64> {
        self.offset
    }

    /// Byte on the volume where the process's next request begins; sequential jobs advance to the next block.
    pub(in crate::task) fn offset_of_next_request(
        &mut self,
        job: &JobSetup,
        direction: Direction,
        bytes: u64,
        random: &mut Streams,
    ) -> u64 {
        if let Some(offset) = self.offset {
            return offset;
        }
        if let Some(places) = &job.uneven {
            return self.draw_uneven_block(places, random) * bytes;
        }
        let blocks = (job.span / bytes).max(1);
        if job.random {
            return random.draw_block_number(blocks) * bytes;
        }
        // As in fio, reads and writes advance separately.
        let next = &mut self.next_block[direction as usize];
        let block = *next;
        *next = (block + 1) % blocks;
        block * bytes
    }

    /// Draws a block of a job that comes to some blocks more often than to others.
    fn draw_uneven_block(&mut self, places: &UnevenPlaces, random: &mut Streams) -> u64 {
        let first_rank = *self.first_rank.get_or_insert_with(|| {
            places.first_rank_of_process(random.draw_block_number(places.blocks()))
        });
        // As fio, whose numbers have 32 bits.
        let drawn = random.draw_block_number(1 << 32);
        places.block_for_chance(drawn as f64 / f64::from(u32::MAX), first_rank)
    }

    /// Settles the next request's direction. Returns until when the job's rates hold the request back; `None`: not at all.
    ///
    /// As fio's `rate_ddir()`: a direction ahead of its rate gives way to the other direction if due first.
    pub(super) fn rates_hold_back_until(
        &mut self,
        job: &JobSetup,
        now: u64,
        random: &mut Streams,
    ) -> Option<u64> {
        job.periods?;
        let mut direction = self
            .direction
            .unwrap_or_else(|| random.draw_direction(job.read_percent));
        let other = match direction {
            Direction::Read => Direction::Write,
            Direction::Write => Direction::Read,
        };
        let mixed = (1..100).contains(&job.read_percent);
        let due = self.due_by_rate(job, direction);
        if mixed && due > now && self.due_by_rate(job, other) < due {
            direction = other;
        }
        let end = job.end.map_or(u64::MAX, |end| self.started + end);
        let until = self.due_by_rate(job, direction).min(end);
        self.direction = Some(direction);
        (until > now).then_some(until)
    }

    /// Time in ns when the job's rates let the next request of a direction begin.
    fn due_by_rate(&self, job: &JobSetup, direction: Direction) -> u64 {
        let number = direction as usize;
        let linear = match (job.poisson, job.periods) {
            (None, Some(periods)) => periods[number].earliest_start_of_request(self.issued[number]),
            _ => 0,
        };
        (self.started).saturating_add(linear.saturating_add(self.due[number]))
    }

    /// Delays the due times of later requests by drawn intervals and forgiven pauses.
    #[inline(never)]
    fn delay_due_times(&mut self, job: &JobSetup, direction: Direction, random: &mut Streams) {
        // As fio (`handle_thinktime()`): the pause alone, without a rate's wait after it, and less one request, so that the
        // next one is not held back.
        if job.forgives_pauses
            && let Some(paused) = self.pause.unaccounted.take()
            && let Some(periods) = job.periods
        {
            let last = self.last as usize;
            let one = match job.poisson {
                Some(_) => 0,
                None => periods[last].earliest_start_of_request(job.units[last]),
            };
            let more = if one <= paused { paused - one } else { paused };
            self.due[last] = self.due[last].saturating_add(more);
        }
        if let Some(means) = job.poisson {
            let (due, mean) = (&mut self.due[direction as usize], means[direction as usize]);
            *due = due.saturating_add(random.draw_poisson_interval(mean));
        }
    }
}
