//! What the drives of a machine take for a request, together.

use wakepath_hardware::machine::{DriveModel, Figure};

use crate::block::cost::BLOCK;
use crate::core::basics::Direction;
use crate::core::parts::{Part, Parts};
use crate::core::random::{ServiceTime, Streams};
use crate::drive::{Accepted, Demand, Drive, Piece, Stripes};

/// How requests reach the drives.
#[derive(Clone, Debug)]
pub(crate) struct VolumeSetup {
    stripes: Stripes,
    /// Mean time of an access, for reads and writes.
    access: [ServiceTime; 2],
    /// Time of a flush.
    flush: u64,
    /// Rate of the link in kB/s, for reads and writes; 0: not known.
    link: [u64; 2],
    /// Rate of the media for one request; 0: as the link.
    stream: [u64; 2],
    /// Units of a drive, where a read waits for that of its address.
    units: Option<usize>,
}

impl VolumeSetup {
    pub(crate) fn new(drive: &DriveModel) -> Self {
        let spread = drive.spread.value;
        let service = |mean: &Figure| ServiceTime::new(mean.value * 1e3, spread);
        Self {
            stripes: Stripes {
                drives: drive.count,
                chunk: (drive.chunk_kib.value * 1024.0) as u64,
            },
            access: [
                service(&drive.read_service_us),
                service(&drive.write_service_us),
            ],
            flush: drive.flush_us.micros().0,
            link: [rate(&drive.read_mb_per_s), rate(&drive.write_mb_per_s)],
            stream: [
                rate(&drive.read_stream_mb_per_s),
                rate(&drive.write_stream_mb_per_s),
            ],
            units: drive.addressed_units(),
        }
    }

    /// Whether the drives have a volatile cache, which a flush empties.
    pub(crate) fn has_volatile_cache(&self) -> bool {
        self.flush > 0
    }

    /// What each drive has of a request, the piece with its first byte first.
    pub(crate) fn pieces(&self, offset: u64, bytes: u64) -> impl Iterator<Item = Piece> + use<> {
        self.stripes.pieces(offset, bytes)
    }

    /// Gives a drive a flush now. Returns the end of the flush, and adds the time until then to `parts`.
    pub(crate) fn give_flush(&self, drive: &mut Drive, now: u64, parts: &mut Parts) -> u64 {
        let Accepted { wake, done } = drive.flush(now, self.flush);
        parts.add(Part::DriveWake, wake);
        parts.add(Part::DriveService, done - wake - now);
        done
    }

    /// Gives a drive a request of `bytes`, or a piece of a request, now. A write `through` the cache ends when the data are on the
    /// media. Returns the end, and adds the time until then to `parts`.
    #[inline(always)]
    pub(crate) fn give_request(
        &self,
        drive: &mut Drive,
        now: u64,
        (direction, bytes, through): (Direction, u64, bool),
        random: &mut Streams,
        parts: &mut Parts,
    ) -> u64 {
        let access = random.service(&self.access[direction as usize]);
        let mut demand = self.demand(direction, bytes, access);
        if let (Some(units), Direction::Read) = (self.units, direction) {
            demand.unit = Some(random.unit(units));
        }
        let mut service = demand.access + demand.transfer;
        let Accepted { wake, done } = if through {
            service += self.flush;
            drive.write_through(now, demand, self.flush)
        } else {
            drive.accept(now, demand)
        };
        parts.add(Part::DriveWake, wake);
        parts.add(Part::Queueing, done - service - wake - now);
        parts.add(Part::DriveService, service);
        done
    }

    /// What a request of `bytes`, or a piece of one, asks of its drive.
    #[inline(always)]
    fn demand(&self, direction: Direction, bytes: u64, access: u64) -> Demand {
        let (transfer, link) = match bytes.saturating_sub(BLOCK) {
            0 => (0, 0),
            beyond => self.transfer(direction, beyond),
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

    /// The time in ns that so many bytes more than a block take, and the part of it on the link.
    #[inline(never)]
    fn transfer(&self, direction: Direction, beyond: u64) -> (u64, u64) {
        let at = |rate: u64| (u128::from(beyond) * 1_000_000 / u128::from(rate.max(1))) as u64;
        let link = at(self.link[direction as usize]);
        let transfer = match self.stream[direction as usize] {
            0 => link,
            rate => link.max(at(rate)),
        };
        (transfer, link)
    }
}

/// In kB/s.
fn rate(megabytes_per_second: &Figure) -> u64 {
    (megabytes_per_second.value * 1e3).round() as u64
}
