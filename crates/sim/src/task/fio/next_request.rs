//! A process's next request: direction, size and place, and until when rates hold the request back.

use wakepath_workloads::fio::NextIo;

use crate::core::basics::Direction;
use crate::core::random::Streams;
use crate::task::fio::process::FioProcess;
use crate::task::fio::setup::JobSetup;

impl FioProcess {
    /// The next request is about to be submitted. The submission began at `begun`. Returns direction and bytes.
    #[inline(always)]
    pub(in crate::task) fn take_next(
        &mut self,
        job: &JobSetup,
        begun: u64,
        random: &mut Streams,
    ) -> (Direction, u64) {
        let settled = self.direction.take();
        let direction = settled.unwrap_or_else(|| random.direction(job.read_percent));
        let next = self.next.take();
        self.offset = next.map(|next| next.offset);
        let bytes = next.map_or(job.block[direction as usize], |next| next.bytes);
        self.filled = false;
        self.issued[direction as usize] += if job.counts_bytes { bytes } else { 1 };
        self.bytes += bytes;
        if job.poisson.is_some() || job.forgives_pauses {
            self.settle_rates(job, direction, begun, random);
        }
        self.last = direction;
        (direction, bytes)
    }

    /// Bytes in the next request; also settles direction, size and place. `None`: the file has none left.
    pub(super) fn next_bytes(&mut self, job: &JobSetup, random: &mut Streams) -> Option<u64> {
        let direction = *self
            .direction
            .get_or_insert_with(|| random.direction(job.read_percent));
        if !job.has_data(self.submitted) {
            return Some(0);
        }
        if let Some(walk) = &mut self.walk
            && self.next.is_none()
        {
            self.next = Some(walk.next_io(direction as usize, random)?);
        }
        let settled = self.next.map(|next| next.bytes);
        Some(settled.unwrap_or(job.block[direction as usize]))
    }

    /// Settles where the next request lies, whose direction and size are settled. Returns both.
    pub(in crate::task) fn place_next(
        &mut self,
        job: &JobSetup,
        bytes: u64,
        random: &mut Streams,
    ) -> Option<(Direction, u64)> {
        let direction = self.direction?;
        if self.next.is_none() {
            // Not the last request's place.
            self.offset = None;
            let offset = self.next_offset(job, direction, bytes, random);
            self.next = Some(NextIo { offset, bytes });
        }
        Some((direction, self.next?.offset))
    }

    /// Where on the volume its next request begins.
    pub(in crate::task) fn next_offset(
        &mut self,
        job: &JobSetup,
        direction: Direction,
        bytes: u64,
        random: &mut Streams,
    ) -> u64 {
        if let Some(offset) = self.offset {
            return offset;
        }
        let blocks = (job.span / bytes).max(1);
        if job.random {
            return random.block(blocks) * bytes;
        }
        // As fio does, each direction on its own.
        let next = &mut self.next_block[direction as usize];
        let block = *next;
        *next = (block + 1) % blocks;
        block * bytes
    }

    /// Until when rates hold the next request back; settles the direction.
    ///
    /// As fio's `rate_ddir()`: a direction ahead of its rate gives way to the other direction if due first.
    pub(super) fn held_back(
        &mut self,
        job: &JobSetup,
        now: u64,
        random: &mut Streams,
    ) -> Option<u64> {
        job.periods?;
        let mut direction = self
            .direction
            .unwrap_or_else(|| random.direction(job.read_percent));
        let other = match direction {
            Direction::Read => Direction::Write,
            Direction::Write => Direction::Read,
        };
        let mixed = (1..100).contains(&job.read_percent);
        let due = self.due(job, direction);
        if mixed && due > now && self.due(job, other) < due {
            direction = other;
        }
        let end = job.end.map_or(u64::MAX, |end| self.started + end);
        let until = self.due(job, direction).min(end);
        self.direction = Some(direction);
        (until > now).then_some(until)
    }

    /// When its rates let the next request of a direction begin.
    fn due(&self, job: &JobSetup, direction: Direction) -> u64 {
        let number = direction as usize;
        let linear = match (job.poisson, job.periods) {
            (None, Some(periods)) => periods[number].start_of(self.issued[number]),
            _ => 0,
        };
        (self.started).saturating_add(linear.saturating_add(self.due[number]))
    }

    /// Rates count further time against the next request, beyond the number of earlier requests. The submission began
    /// at `begun`.
    #[inline(never)]
    fn settle_rates(
        &mut self,
        job: &JobSetup,
        direction: Direction,
        begun: u64,
        random: &mut Streams,
    ) {
        // As fio (`handle_thinktime()`): less one request, so that the next one is not held back.
        if job.forgives_pauses
            && let Some(began) = self.pause.began.take()
            && let Some(periods) = job.periods
        {
            let paused = begun - began;
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
