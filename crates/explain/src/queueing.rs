//! Bios and requests before their issue.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::Serialize;
use wakepath_trace::recording::{Block, QueueStep};

/// Bios that are remembered; a truncated recording may have any number without an issue.
const MAX_BIOS: usize = 1 << 18;
/// Flush bios that are remembered per device. Each blocks its task, and stacked devices may drop theirs without a request.
const MAX_FLUSH_BIOS: usize = 1 << 10;
/// Longest way from a remap to the entry into the device below; immediate unless submission nests. Assumed.
const REMAP_NS: u64 = 100_000_000;
/// Bytes of a sector.
const SECTOR: u32 = 512;

/// Time before the issue, in ns. The parts add up to the time from the bio's entry into the block layer to the issue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueuedParts {
    /// From the bio's entry into the block layer until a tag was free (`block_getrq`).
    pub tag: u64,
    /// From the tag to the I/O scheduler or, without a scheduler, to the issue: plugging.
    pub plug: u64,
    /// In the I/O scheduler (`block_rq_insert` to `block_rq_issue`).
    pub scheduler: u64,
    /// In the block layer's flush machinery. Of a flush: from the tag until the flush is issued that serves this bio and maybe
    /// others. Of a write: from the tag until the scheduler or the issue, behind a flush. 0 for other requests.
    pub flush: u64,
}

impl QueuedParts {
    /// Sum of all parts: bio to issue.
    pub const fn total_ns(&self) -> u64 {
        self.tag + self.plug + self.scheduler + self.flush
    }
}

/// What the bios of a request say: time before the issue, submitter, whether nobody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) parts: QueuedParts,
    pub(crate) task: Option<u32>,
    pub(crate) background: bool,
}

/// A bio on its way to a request.
#[derive(Clone, Copy)]
struct QueuedBio {
    queued: u64,
    tagged: Option<u64>,
    inserted: Option<u64>,
    task: Option<u32>,
    background: bool,
    write: bool,
    /// When a stacked device above sent the bio here, if so.
    remapped: Option<u64>,
}

impl QueuedBio {
    /// Whether a device above sent the bio that enters the block layer at this time.
    fn came_from_device_above(&self, time: u64) -> bool {
        self.tagged.is_none()
            && self
                .remapped
                .is_some_and(|remapped| time.saturating_sub(remapped) <= REMAP_NS)
    }
}

/// Bios on their way to a request, by device and first sector.
#[derive(Default)]
pub(crate) struct Queues {
    devices: HashMap<u32, BTreeMap<u64, QueuedBio>>,
    bios: usize,
    /// Flush bios by device, the oldest first.
    flushes: HashMap<u32, VecDeque<FlushBio>>,
    /// When any drive's last flush was issued, in ns.
    last_flush_issue_ns: Option<u64>,
    /// Number of forgotten flush bios with a request whose end was not seen, since the last call for this number.
    flushes_without_end: u64,
}

/// A bio without data on its way to a flush. Several may have the same sector: 0, or where a device above put them.
#[derive(Clone, Copy)]
struct FlushBio {
    sector: u64,
    bio: QueuedBio,
}

/// Whether a bio, or the request made for the bio alone, is an empty write, which asks for a flush (`REQ_PREFLUSH`).
pub(crate) const fn is_flush_bio(block: &Block) -> bool {
    block.write && block.bytes == 0
}

impl Queues {
    /// Follows a step of a bio or request towards the issue.
    pub(crate) fn follow_step(&mut self, time: u64, step: &QueueStep) {
        match step {
            QueueStep::Queued { block, task, .. } if is_flush_bio(block) => {
                self.enter_flush_bio(time, block, *task);
            }
            QueueStep::Tagged(block) if is_flush_bio(block) => {
                let bios = self.flushes.get_mut(&block.device).into_iter().flatten();
                let mut flushes = bios.filter(|flush| flush.sector == block.sector);
                if let Some(flush) = flushes.find(|flush| flush.bio.tagged.is_none()) {
                    flush.bio.tagged = Some(time);
                }
            }
            QueueStep::Remapped {
                block,
                from_device,
                from_sector,
            } if is_flush_bio(block) => {
                if let Some(bio) = self.take_oldest_flush_bio(*from_device, *from_sector) {
                    let remapped = Some(time);
                    self.insert_flush_bio(block, QueuedBio { remapped, ..bio });
                }
            }
            QueueStep::Queued {
                block,
                task,
                background,
                ..
            } => self.enter_bio(time, block, *task, *background),
            QueueStep::Tagged(block) => {
                if let Some(bio) = self.bio_mut(block.device, block.sector) {
                    bio.tagged.get_or_insert(time);
                }
            }
            QueueStep::Inserted(block) => {
                let device = self.find_device_with_bio(block);
                if let Some(bio) = device.and_then(|device| self.bio_mut(device, block.sector)) {
                    bio.inserted.get_or_insert(time);
                }
            }
            // A merged request's sectors belong to the other request, and are found at the latter's issue.
            QueueStep::Merged(_) => {}
            QueueStep::Split { block, at } => {
                if let Some(bio) = self.bio_mut(block.device, block.sector).copied() {
                    self.insert_bio(block.device, *at, bio);
                }
            }
            QueueStep::Remapped {
                block,
                from_device,
                from_sector,
            } => {
                // A bio for a partition is queued after its remap, unless a stacked device sent it there.
                let queued_above = *from_device != block.device;
                let bio = self.bio_mut(*from_device, *from_sector).copied();
                if let Some(bio) = bio.filter(|bio| queued_above || bio.remapped.is_some()) {
                    self.remove_bio(*from_device, *from_sector);
                    let remapped = Some(time);
                    self.insert_bio(block.device, block.sector, QueuedBio { remapped, ..bio });
                }
            }
        }
    }

    /// Removes the bios of a request that is issued at this time; `None` if no bio was seen.
    pub(crate) fn take_bios_of_request(&mut self, time: u64, block: &Block) -> Option<Origin> {
        let sectors = u64::from(block.bytes.div_ceil(SECTOR).max(1));
        let end = block.sector.saturating_add(sectors);
        let device = self.find_device_with_bio(block)?;
        let mut bios = Vec::new();
        while let Some(sector) = self.first_bio_sector_in_range(device, block.sector, end) {
            bios.extend(self.remove_bio(device, sector));
        }
        // The first bio with a tag became the request; others were merged.
        let owner = bios.iter().min_by_key(|bio| {
            let tagged = bio.tagged.unwrap_or(u64::MAX);
            (tagged, bio.queued)
        })?;
        let queued = owner.queued.min(time);
        let tagged = owner.tagged.unwrap_or(queued).clamp(queued, time);
        let inserted = owner.inserted.unwrap_or(time).clamp(tagged, time);
        Some(Origin {
            parts: QueuedParts {
                tag: tagged - queued,
                plug: inserted - tagged,
                scheduler: time - inserted,
                flush: 0,
            },
            task: owner.task,
            background: bios.iter().all(|bio| bio.background),
        })
    }

    /// Notes that a drive's flush was issued.
    pub(crate) fn note_flush_issue(&mut self, time: u64) {
        self.last_flush_issue_ns = Some(time);
    }

    /// Takes the number of flush bios that were forgotten since the last call because the end of their request is missing.
    pub(crate) fn take_flushes_without_end(&mut self) -> u64 {
        std::mem::take(&mut self.flushes_without_end)
    }

    /// Forgets the flush bios of the request's device that had a tag at `ended_ns`, when a flush ended that two more followed. The
    /// kernel gathers a queue's flush bios anew when a flush ends, so that the first of the two has served these bios
    /// (`blk_kick_flush()`, `block/blk-flush.c`, Linux 6.12).
    pub(crate) fn forget_flush_bios_tagged_until(&mut self, block: &Block, ended_ns: u64) {
        if let Some(device) = self.find_device_with_flush_bio(block) {
            self.forget_flush_bios_that(device, |flush| {
                flush.bio.tagged.is_some_and(|tagged| tagged <= ended_ns)
            });
        }
    }

    /// Forgets the oldest flush bio with the sector of a request that ended behind a flush that nobody saw.
    pub(crate) fn forget_flush_bio_of_ended_request(&mut self, block: &Block) {
        if let Some(device) = self.find_device_with_flush_bio(block) {
            self.take_oldest_flush_bio(device, block.sector);
        }
    }

    /// Removes the oldest flush bio with the sector of this request, served by a flush that was issued at `issued_ns`; `None` if
    /// none was queued by then. The kernel ends a hardware queue's flushes in the order of their bios (`flush_end_io()`,
    /// `block/blk-flush.c`, Linux 6.12). With several queues, another queue's bio may be older. Ends of writes with data have
    /// another sector.
    pub(crate) fn take_flush_bio(&mut self, block: &Block, issued_ns: u64) -> Option<Origin> {
        let queued_at = self.find_device_with_flush_bio(block)?;
        let mut bios = self.flushes.get(&queued_at)?.iter();
        let oldest = bios.find(|flush| flush.sector == block.sector)?;
        if oldest.bio.queued > issued_ns {
            return None;
        }
        let bio = self.take_oldest_flush_bio(queued_at, block.sector)?;
        let tagged = bio.tagged.unwrap_or(bio.queued).min(issued_ns);
        Some(Origin {
            parts: QueuedParts {
                tag: tagged - bio.queued,
                flush: issued_ns - tagged,
                ..QueuedParts::default()
            },
            task: bio.task,
            background: false,
        })
    }

    /// Forgets all bios, because events are missing.
    pub(crate) fn forget_all_bios(&mut self) {
        self.devices.clear();
        self.bios = 0;
        self.flushes.clear();
    }

    fn enter_flush_bio(&mut self, time: u64, block: &Block, task: Option<u32>) {
        let known = self.flushes.get_mut(&block.device).into_iter().flatten();
        let mut from_above = known.filter(|flush| flush.bio.came_from_device_above(time));
        if let Some(flush) = from_above.next() {
            flush.bio.remapped = None;
            // On a partition, the remap added the partition's first sector, which a bio without data never gets.
            flush.sector = block.sector;
            let bio = flush.bio;
            self.forget_older_flush_bios_of_task(block, &bio);
            return;
        }
        let bio = QueuedBio {
            queued: time,
            tagged: None,
            inserted: None,
            task,
            background: false,
            write: true,
            remapped: None,
        };
        self.forget_older_flush_bios_of_task(block, &bio);
        self.insert_flush_bio(block, bio);
    }

    /// Forgets a task's older flush bios with this sector. A task waits for its flush, so that the older ones have ended. Bios
    /// without a flush behind them stay: one flush of a stacked device may have several parts on a drive.
    fn forget_older_flush_bios_of_task(&mut self, block: &Block, newest: &QueuedBio) {
        let (Some(task), Some(issued_ns)) = (newest.task, self.last_flush_issue_ns) else {
            return;
        };
        let (sector, until_ns) = (block.sector, issued_ns.min(newest.queued));
        self.forget_flush_bios_that(block.device, |flush| {
            flush.sector == sector && flush.bio.task == Some(task) && flush.bio.queued < until_ns
        });
    }

    /// Forgets flush bios, and counts those with a tag: stacked devices make no requests, and so end theirs unseen.
    fn forget_flush_bios_that(&mut self, device: u32, have_ended: impl Fn(&FlushBio) -> bool) {
        let Some(bios) = self.flushes.get_mut(&device) else {
            return;
        };
        let mut with_request = 0;
        bios.retain(|flush| {
            let has_ended = have_ended(flush);
            with_request += u64::from(has_ended && flush.bio.tagged.is_some());
            !has_ended
        });
        self.flushes_without_end += with_request;
    }

    fn insert_flush_bio(&mut self, block: &Block, bio: QueuedBio) {
        let bios = self.flushes.entry(block.device).or_default();
        if bios.len() >= MAX_FLUSH_BIOS {
            bios.pop_front();
        }
        let sector = block.sector;
        bios.push_back(FlushBio { sector, bio });
    }

    fn take_oldest_flush_bio(&mut self, device: u32, sector: u64) -> Option<QueuedBio> {
        let bios = self.flushes.get_mut(&device)?;
        let place = bios.iter().position(|flush| flush.sector == sector)?;
        bios.remove(place).map(|flush| flush.bio)
    }

    fn has_flush_bio(&self, device: u32, sector: u64) -> bool {
        let mut bios = self.flushes.get(&device).into_iter().flatten();
        bios.any(|flush| flush.sector == sector)
    }

    /// The device itself, or the only one of the same major number with such a flush bio: traces name bios by partition.
    fn find_device_with_flush_bio(&self, block: &Block) -> Option<u32> {
        if self.has_flush_bio(block.device, block.sector) {
            return Some(block.device);
        }
        let devices = self.flushes.keys().copied();
        let drives = devices.filter(|device| *device >> 20 == block.device >> 20);
        let mut found = drives.filter(|device| self.has_flush_bio(*device, block.sector));
        let only = found.next()?;
        found.next().is_none().then_some(only)
    }

    fn enter_bio(&mut self, time: u64, block: &Block, task: Option<u32>, background: bool) {
        if let Some(bio) = self
            .bio_mut(block.device, block.sector)
            .filter(|bio| bio.came_from_device_above(time))
        {
            // From here on it is a bio of this device.
            bio.remapped = None;
            return;
        }
        let bio = QueuedBio {
            queued: time,
            tagged: None,
            inserted: None,
            task,
            background,
            write: block.write,
            remapped: None,
        };
        self.insert_bio(block.device, block.sector, bio);
    }

    /// The request's device, or the only one of the same major number with such a bio: traces name bios by partition, with
    /// sectors of the drive. NVMe drives share a major number, so that several candidates tell nothing.
    fn find_device_with_bio(&self, block: &Block) -> Option<u32> {
        if let Some(bios) = self.devices.get(&block.device)
            && bios.contains_key(&block.sector)
        {
            return Some(block.device);
        }
        let major = block.device >> 20;
        let partitions = self
            .devices
            .iter()
            .filter(|(device, _)| **device >> 20 == major);
        let mut found = partitions.filter(|(_, bios)| {
            bios.get(&block.sector)
                .is_some_and(|bio| bio.write == block.write)
        });
        let (device, _) = found.next()?;
        found.next().is_none().then_some(*device)
    }

    fn first_bio_sector_in_range(&self, device: u32, from: u64, to: u64) -> Option<u64> {
        let (sector, _) = self.devices.get(&device)?.range(from..to).next()?;
        Some(*sector)
    }

    fn bio_mut(&mut self, device: u32, sector: u64) -> Option<&mut QueuedBio> {
        self.devices.get_mut(&device)?.get_mut(&sector)
    }

    fn insert_bio(&mut self, device: u32, sector: u64, bio: QueuedBio) {
        if self.bios >= MAX_BIOS {
            self.forget_all_bios();
        }
        let bios = self.devices.entry(device).or_default();
        self.bios += usize::from(bios.insert(sector, bio).is_none());
    }

    fn remove_bio(&mut self, device: u32, sector: u64) -> Option<QueuedBio> {
        let removed = self.devices.get_mut(&device)?.remove(&sector);
        self.bios -= usize::from(removed.is_some());
        removed
    }
}

#[cfg(test)]
mod tests {
    use wakepath_trace::recording::Durability;

    use super::*;

    const DRIVE: u32 = 259 << 20;

    fn block(device: u32, sector: u64, bytes: u32) -> Block {
        Block {
            device,
            sector,
            bytes,
            write: true,
        }
    }

    fn queued(block: Block) -> QueueStep {
        QueueStep::Queued {
            block,
            task: Some(7),
            background: false,
            durability: Durability::default(),
        }
    }

    fn remapped(block: Block, from_device: u32, from_sector: u64) -> QueueStep {
        QueueStep::Remapped {
            block,
            from_device,
            from_sector,
        }
    }

    #[test]
    fn parts_add_up_with_and_without_a_scheduler() {
        let mut queues = Queues::default();
        let request = block(DRIVE, 8, 4096);
        queues.follow_step(100, &queued(request));
        queues.follow_step(130, &QueueStep::Tagged(request));
        let parts = queues.take_bios_of_request(190, &request).unwrap().parts;
        assert_eq!((parts.tag, parts.plug, parts.scheduler), (30, 60, 0));
        assert_eq!(
            queues.take_bios_of_request(200, &request),
            None,
            "it was issued before"
        );

        queues.follow_step(300, &queued(request));
        queues.follow_step(310, &QueueStep::Tagged(request));
        queues.follow_step(350, &QueueStep::Inserted(request));
        let parts = queues.take_bios_of_request(400, &request).unwrap().parts;
        assert_eq!((parts.tag, parts.plug, parts.scheduler), (10, 40, 50));
        assert_eq!(parts.total_ns(), 100);
    }

    #[test]
    fn merged_split_and_remapped_bios_are_followed() {
        let mut queues = Queues::default();
        // Two bios, one request.
        queues.follow_step(100, &queued(block(DRIVE, 8, 4096)));
        queues.follow_step(110, &QueueStep::Tagged(block(DRIVE, 8, 4096)));
        queues.follow_step(120, &queued(block(DRIVE, 16, 4096)));
        let origin = queues
            .take_bios_of_request(200, &block(DRIVE, 8, 8192))
            .unwrap();
        assert_eq!(origin.parts.total_ns(), 100);
        assert_eq!(queues.bios, 0);

        // A bio of a stacked device, split in two for two drives.
        let above = 253 << 20;
        queues.follow_step(300, &queued(block(above, 0, 8192)));
        let at = 8;
        queues.follow_step(
            305,
            &QueueStep::Split {
                block: block(above, 0, 4096),
                at,
            },
        );
        for (from_sector, sector) in [(0, 1000), (8, 2000)] {
            let below = block(DRIVE, sector, 4096);
            queues.follow_step(310, &remapped(below, above, from_sector));
            queues.follow_step(312, &queued(below));
            let origin = queues.take_bios_of_request(340, &below).unwrap();
            assert_eq!((origin.parts.total_ns(), origin.task), (40, Some(7)));
        }
        assert_eq!(queues.bios, 0);

        // dm on a partition, which `wakepath record` names by its drive.
        queues.follow_step(400, &queued(block(above, 16, 4096)));
        queues.follow_step(403, &remapped(block(DRIVE, 2064, 4096), above, 16));
        queues.follow_step(405, &remapped(block(DRIVE, 2064, 4096), DRIVE | 1, 16));
        queues.follow_step(407, &queued(block(DRIVE, 2064, 4096)));
        let origin = queues
            .take_bios_of_request(440, &block(DRIVE, 2064, 4096))
            .unwrap();
        assert_eq!(origin.parts.total_ns(), 40);

        // The same in a trace, where the partition keeps its name, and another bio has the sector that the remap is from.
        let partition = DRIVE | 1;
        queues.follow_step(445, &queued(block(above, 16, 4096)));
        queues.follow_step(446, &remapped(block(partition, 16, 4096), above, 16));
        queues.follow_step(447, &remapped(block(partition, 2064, 4096), partition, 16));
        queues.follow_step(448, &queued(block(partition, 2064, 4096)));
        queues.follow_step(
            449,
            &remapped(block(partition, 4112, 4096), partition, 2064),
        );
        let below = block(DRIVE, 2064, 4096);
        queues.follow_step(470, &QueueStep::Inserted(below));
        let parts = queues
            .take_bios_of_request(485, &below)
            .map(|origin| origin.parts);
        assert_eq!(parts.map(|parts| parts.total_ns()), Some(40));
        assert_eq!(queues.bios, 0);

        // A trace names the partition.
        queues.follow_step(500, &queued(block(DRIVE | 1, 64, 4096)));
        let origin = queues
            .take_bios_of_request(520, &block(DRIVE, 64, 4096))
            .unwrap();
        assert_eq!(origin.parts.total_ns(), 20);
    }

    /// NVMe multipath sends a bio to one of several hidden drives, at its own sector, without a second entry into the block layer.
    #[test]
    fn bios_of_a_multipath_drive_are_followed_to_their_path() {
        let mut queues = Queues::default();
        let [drive, first_path, second_path] = [0, 1, 2].map(|minor| 259 << 20 | minor);
        for (path, sector, time) in [(first_path, 8, 100), (second_path, 16, 105)] {
            queues.follow_step(time, &queued(block(drive, sector, 4096)));
            let below = block(path, sector, 4096);
            queues.follow_step(time + 2, &remapped(below, drive, sector));
            queues.follow_step(time + 10, &QueueStep::Tagged(below));
        }
        for (path, sector, time) in [(second_path, 16, 135), (first_path, 8, 140)] {
            let request = block(path, sector, 4096);
            let origin = queues.take_bios_of_request(time, &request).unwrap();
            let tag_and_plug = (origin.parts.tag, origin.parts.plug);
            assert_eq!(
                tag_and_plug,
                (10, time - if sector == 8 { 110 } else { 115 })
            );
            assert_eq!(origin.task, Some(7));
        }
        // After an error the kernel tries the other path, and no bio is queued anew.
        let again = block(second_path, 8, 4096);
        queues.follow_step(200, &remapped(again, drive, 8));
        assert_eq!(queues.take_bios_of_request(210, &again), None);
        assert_eq!(queues.bios, 0);
    }

    #[test]
    fn a_path_of_nvme_multipath_keeps_the_sector() {
        let mut queues = Queues::default();
        // nvme0n1 chooses nvme0c0n1 for the first bio, and nvme0c1n1 for the second one of the same sector.
        let head = 259 << 20;
        for (at, path) in [(100, head | 2), (200, head | 3)] {
            let below = block(path, 64, 4096);
            queues.follow_step(at, &queued(block(head, 64, 4096)));
            queues.follow_step(at + 2, &remapped(below, head, 64));
            queues.follow_step(at + 3, &queued(below));
            queues.follow_step(at + 10, &QueueStep::Tagged(below));
            let origin = queues.take_bios_of_request(at + 30, &below).unwrap();
            assert_eq!((origin.parts.tag, origin.parts.plug), (10, 20));
            assert_eq!((origin.task, queues.bios), (Some(7), 0));
        }
    }

    #[test]
    fn an_old_remap_is_no_part_of_a_new_bio() {
        let mut queues = Queues::default();
        let below = block(DRIVE, 8, 4096);
        let above = 253 << 20;
        queues.follow_step(100, &queued(block(above, 0, 4096)));
        queues.follow_step(110, &remapped(below, above, 0));
        let later = 200 + REMAP_NS;
        queues.follow_step(later, &queued(below));
        let origin = queues.take_bios_of_request(later + 5, &below).unwrap();
        assert_eq!(origin.parts.total_ns(), 5);
    }

    #[test]
    fn a_bio_is_that_of_one_drive_and_direction() {
        let mut queues = Queues::default();
        let [first, second] = [DRIVE | 1, DRIVE | 3];
        queues.follow_step(100, &queued(block(first, 8, 4096)));
        let read = Block {
            write: false,
            ..block(DRIVE, 8, 4096)
        };
        assert_eq!(queues.take_bios_of_request(110, &read), None);
        queues.follow_step(120, &queued(block(second, 8, 4096)));
        assert_eq!(
            queues.take_bios_of_request(130, &block(DRIVE, 8, 4096)),
            None
        );
    }

    /// Two tasks flush a drive through dm, and a flush that was issued between the two serves the first bio only.
    #[test]
    fn flush_bios_are_served_in_their_order_and_by_later_flushes_only() {
        let above = block(253 << 20, 0, 0);
        let below = block(DRIVE, 2048, 0);
        let mut queues = Queues::default();
        for (time, task) in [(100, 7), (300, 8)] {
            let bio = QueueStep::Queued {
                block: above,
                task: Some(task),
                background: false,
                durability: Durability::default(),
            };
            queues.follow_step(time, &bio);
            queues.follow_step(time + 2, &remapped(below, above.device, 0));
            queues.follow_step(time + 3, &queued(below));
            queues.follow_step(time + 10, &QueueStep::Tagged(below));
        }
        let origin = queues.take_flush_bio(&below, 250).unwrap();
        let parts = QueuedParts {
            tag: 10,
            flush: 140,
            ..QueuedParts::default()
        };
        assert_eq!((origin.parts, origin.task), (parts, Some(7)));
        assert_eq!(parts.total_ns(), 150);
        assert_eq!(queues.take_flush_bio(&below, 250), None);
        let second = queues.take_flush_bio(&below, 400).unwrap();
        assert_eq!(second.task, Some(8));

        // A trace names the partition. Neither data nor the end of another sector's write is this flush.
        queues.follow_step(500, &queued(block(DRIVE | 1, 2048, 0)));
        queues.follow_step(510, &queued(block(DRIVE, 2048, 4096)));
        assert_eq!(queues.take_flush_bio(&block(DRIVE, 2056, 0), 600), None);
        let origin = queues.take_flush_bio(&below, 600).unwrap();
        assert_eq!(origin.parts.flush, 100);
        for time in 1_000..1_000 + 2 * MAX_FLUSH_BIOS as u64 {
            queues.follow_step(time, &queued(below));
        }
        assert_eq!(queues.flushes[&DRIVE].len(), MAX_FLUSH_BIOS);
    }

    /// A task's flush, through the device above if `above` names one.
    fn queue_flush_of_task(queues: &mut Queues, time: u64, task: u32, above: Option<u32>) {
        let below = block(DRIVE, 0, 0);
        let bio = QueueStep::Queued {
            block: block(above.unwrap_or(DRIVE), 0, 0),
            task: Some(task),
            background: false,
            durability: Durability::default(),
        };
        queues.follow_step(time, &bio);
        if let Some(above) = above {
            queues.follow_step(time + 1, &remapped(below, above, 0));
            queues.follow_step(time + 2, &queued(below));
        }
        queues.follow_step(time + 3, &QueueStep::Tagged(below));
    }

    /// A task that queues a flush has seen the end of the one before, though the recording lacks this end.
    #[test]
    fn the_next_flush_of_a_task_ends_the_one_before() {
        for above in [None, Some(253 << 20)] {
            let mut queues = Queues::default();
            queue_flush_of_task(&mut queues, 100, 7, above);
            queue_flush_of_task(&mut queues, 110, 8, above);
            queues.note_flush_issue(120);
            queue_flush_of_task(&mut queues, 1_000, 7, above);
            let end = block(DRIVE, 0, 0);
            let ended = [(); 3].map(|()| queues.take_flush_bio(&end, 1_100));
            let tasks_and_waits = ended.map(|origin| {
                let origin = origin?;
                Some((origin.task?, origin.parts.total_ns()))
            });
            assert_eq!(tasks_and_waits, [Some((8, 990)), Some((7, 100)), None]);
            assert_eq!(queues.take_flushes_without_end(), 1);
            assert_eq!(queues.take_flushes_without_end(), 0);
        }
    }

    #[test]
    fn parts_of_one_flush_of_a_stacked_device_stay() {
        let mut queues = Queues::default();
        queues.note_flush_issue(50);
        for time in [100, 105] {
            queue_flush_of_task(&mut queues, time, 7, None);
        }
        let end = block(DRIVE, 0, 0);
        assert!(queues.take_flush_bio(&end, 200).is_some());
        assert!(queues.take_flush_bio(&end, 200).is_some());
        // Without a tag, no request was made whose end could be missing.
        let bio = queued(block(9 << 20, 0, 0));
        queues.follow_step(300, &bio);
        queues.note_flush_issue(310);
        queues.follow_step(400, &bio);
        assert_eq!(queues.flushes[&(9 << 20)].len(), 1);
        assert_eq!(queues.take_flushes_without_end(), 0);
    }

    #[test]
    fn bios_without_an_issue_are_forgotten_in_the_end() {
        let mut queues = Queues::default();
        for sector in 0..MAX_BIOS as u64 + 10 {
            queues.follow_step(sector, &queued(block(DRIVE, sector * 8, 4096)));
        }
        assert!(queues.bios <= MAX_BIOS);
    }
}
