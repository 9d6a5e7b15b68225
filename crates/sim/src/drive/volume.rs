//! A machine's drives together, and their times for a request.

use wakepath_hardware::machine::{DriveModel, Figure, SLOW_REQUEST_IN};

use crate::block::cost::BLOCK;
use crate::core::basics::Direction;
use crate::core::parts::{Part, Parts};
use crate::core::random::{ServiceTime, Streams};
use crate::drive::{Accepted, Demand, Drive, Piece, Stripes};

/// The drives' layout as a volume, and their times for a request.
#[derive(Clone, Debug)]
pub(crate) struct VolumeSetup {
    stripes: Stripes,
    /// Distribution of access times, for reads and for writes that are not slow.
    access: [ServiceTime; 2],
    /// Distribution of access times of slow reads and writes; `None` where none is slow.
    slow: [Option<ServiceTime>; 2],
    /// Time of a flush in ns; 0 without a volatile cache.
    flush: u64,
    /// Rate of the link in kB/s, for reads and writes; 0: not known.
    link: [u64; 2],
    /// Rate in kB/s of the media for one request, for reads and writes; 0: as the link.
    stream: [u64; 2],
    /// Units per drive, if a read waits for the addressed unit.
    units: Option<usize>,
}

impl VolumeSetup {
    pub(crate) fn new(drive: &DriveModel) -> Self {
        let spread = drive.spread.value;
        Self {
            stripes: Stripes {
                drives: drive.count,
                chunk: (drive.chunk_kib.value * 1024.0) as u64,
            },
            access: [
                (&drive.read_service_us, &drive.read_p999_us),
                (&drive.write_service_us, &drive.write_p999_us),
            ]
            .map(|(all, p999)| {
                let mean = DriveModel::mean_of_fast_requests_us(all, p999);
                ServiceTime::new(mean * 1e3, spread)
            }),
            slow: [&drive.read_p999_us, &drive.write_p999_us].map(|p999| {
                let median = p999.is_given().then_some(p999.value * 1e3)?;
                Some(ServiceTime::with_median(median, spread))
            }),
            flush: drive.flush_us.micros_to_time().0,
            link: [
                kilobytes_per_second(&drive.read_mb_per_s),
                kilobytes_per_second(&drive.write_mb_per_s),
            ],
            stream: [
                kilobytes_per_second(&drive.read_stream_mb_per_s),
                kilobytes_per_second(&drive.write_stream_mb_per_s),
            ],
            units: drive.units_if_reads_go_by_address(),
        }
    }

    /// Whether the drives have a volatile cache, which a flush empties.
    pub(crate) fn has_volatile_cache(&self) -> bool {
        self.flush > 0
    }

    /// Splits a request into one piece for each drive, beginning with the first byte's.
    pub(crate) fn split_into_pieces(
        &self,
        offset: u64,
        bytes: u64,
    ) -> impl Iterator<Item = Piece> + use<> {
        self.stripes.split_into_pieces(offset, bytes)
    }

    /// Gives a drive a flush now. Returns the end of the flush, and adds the time until then to `parts`.
    pub(crate) fn give_flush_to_drive(
        &self,
        drive: &mut Drive,
        now: u64,
        parts: &mut Parts,
    ) -> u64 {
        let Accepted { wake, done } = drive.accept_flush(now, self.flush);
        parts.add_time(Part::DriveWake, wake);
        parts.add_time(Part::DriveService, done - wake - now);
        done
    }

    /// Gives a drive a request with `bytes`, or a piece, now. A write `through` the cache ends with the data on the
    /// media. Returns the end, and adds the time until then to `parts`.
    #[inline(always)]
    pub(crate) fn give_request_to_drive(
        &self,
        drive: &mut Drive,
        now: u64,
        (direction, bytes, through): (Direction, u64, bool),
        random: &mut Streams,
        parts: &mut Parts,
    ) -> u64 {
        let time = match &self.slow[direction as usize] {
            Some(slow) if random.draw_is_slow_request(SLOW_REQUEST_IN) => slow,
            _ => &self.access[direction as usize],
        };
        let access = random.draw_service_time(time);
        let mut demand = self.compute_demand(direction, bytes, access);
        if let (Some(units), Direction::Read) = (self.units, direction) {
            demand.unit = Some(random.draw_drive_unit(units));
        }
        let mut service = demand.access + demand.transfer;
        let Accepted { wake, done } = if through {
            service += self.flush;
            drive.accept_write_through(now, demand, self.flush)
        } else {
            drive.accept_request(now, demand)
        };
        parts.add_time(Part::DriveWake, wake);
        parts.add_time(Part::Queueing, done - service - wake - now);
        parts.add_time(Part::DriveService, service);
        done
    }

    /// What a request, or a piece, with `bytes` demands of its drive.
    #[inline(always)]
    fn compute_demand(&self, direction: Direction, bytes: u64, access: u64) -> Demand {
        let (transfer, link) = match bytes.saturating_sub(BLOCK) {
            0 => (0, 0),
            beyond => self.transfer_and_link_time(direction, beyond),
        };
        Demand {
            direction,
            access,
            transfer,
            link,
            blocks: bytes.div_ceil(BLOCK),
            unit: None,
        }
    }

    /// Time in ns to transfer `beyond` bytes, and the part in which the link is busy.
    #[inline(never)]
    fn transfer_and_link_time(&self, direction: Direction, beyond: u64) -> (u64, u64) {
        let link = transfer_time_at_rate(self.link[direction as usize], beyond);
        let transfer = match self.stream[direction as usize] {
            0 => link,
            rate => link.max(transfer_time_at_rate(rate, beyond)),
        };
        (transfer, link)
    }
}

/// Time in ns for this many bytes at a rate in kB/s.
fn transfer_time_at_rate(rate: u64, bytes: u64) -> u64 {
    (u128::from(bytes) * 1_000_000 / u128::from(rate.max(1))) as u64
}

/// In kB/s.
fn kilobytes_per_second(megabytes_per_second: &Figure) -> u64 {
    (megabytes_per_second.value * 1e3).round() as u64
}
