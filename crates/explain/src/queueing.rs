//! Bios and requests before their issue.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use wakepath_trace::recording::{Block, QueueStep};

/// Bios that are remembered; a truncated recording may have any number without an issue.
const MAX_BIOS: usize = 1 << 18;
/// Bytes of a sector.
const SECTOR: u32 = 512;

/// Time before the issue, in ns. The parts add up to the time from the bio's entry into the block layer to the issue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueuedParts {
    /// Until a tag was free (`block_getrq`).
    pub tag: u64,
    /// From there until the scheduler or, without a scheduler, until the issue: plugging.
    pub plug: u64,
    /// In the scheduler (`block_rq_insert` to `block_rq_issue`).
    pub scheduler: u64,
}

impl QueuedParts {
    /// All three.
    pub const fn total(&self) -> u64 {
        self.tag + self.plug + self.scheduler
    }
}

/// Where a request comes from.
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
    /// It came from a device above, where its time began.
    remapped: bool,
}

/// Bios by device and first sector.
#[derive(Default)]
pub(crate) struct Queues {
    devices: HashMap<u32, BTreeMap<u64, QueuedBio>>,
    bios: usize,
}

impl Queues {
    /// Takes a step of a bio or request.
    pub(crate) fn step(&mut self, time: u64, step: &QueueStep) {
        match step {
            QueueStep::Queued {
                block,
                task,
                background,
            } => self.queue(time, block, *task, *background),
            QueueStep::Tagged(block) => {
                if let Some(bio) = self.bio(block.device, block.sector) {
                    bio.tagged.get_or_insert(time);
                }
            }
            QueueStep::Inserted(block) => {
                if let Some(bio) = self.bio(block.device, block.sector) {
                    bio.inserted.get_or_insert(time);
                }
            }
            // The sectors of a merged request belong to the other one, whose issue finds their bios.
            QueueStep::Merged(_) => {}
            QueueStep::Split { block, at } => {
                if let Some(bio) = self.bio(block.device, block.sector).copied() {
                    self.insert(block.device, *at, bio);
                }
            }
            QueueStep::Remapped {
                block,
                from_device,
                from_sector,
            } => {
                if let Some(bio) = self.remove(*from_device, *from_sector) {
                    let remapped = true;
                    self.insert(block.device, block.sector, QueuedBio { remapped, ..bio });
                }
            }
        }
    }

    /// Takes the bios that a request is made of.
    pub(crate) fn issue(&mut self, time: u64, block: &Block) -> Option<Origin> {
        let sectors = u64::from(block.bytes.div_ceil(SECTOR).max(1));
        let end = block.sector.saturating_add(sectors);
        let device = self.find_device(block)?;
        let mut bios = Vec::new();
        while let Some(sector) = self.first_in_range(device, block.sector, end) {
            bios.extend(self.remove(device, sector));
        }
        // The first bio with a tag became the request; others were merged into it.
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
            },
            task: owner.task,
            background: bios.iter().all(|bio| bio.background),
        })
    }

    /// Events are missing.
    pub(crate) fn clear(&mut self) {
        self.devices.clear();
        self.bios = 0;
    }

    fn queue(&mut self, time: u64, block: &Block, task: Option<u32>, background: bool) {
        if self
            .bio(block.device, block.sector)
            .is_some_and(|bio| bio.remapped)
        {
            return;
        }
        let bio = QueuedBio {
            queued: time,
            tagged: None,
            inserted: None,
            task,
            background,
            remapped: false,
        };
        self.insert(block.device, block.sector, bio);
    }

    /// The request's device, or a partition of the same major number: traces name bios by partition, with sectors of
    /// the drive.
    fn find_device(&self, block: &Block) -> Option<u32> {
        let has = |bios: &BTreeMap<u64, QueuedBio>| bios.contains_key(&block.sector);
        if self.devices.get(&block.device).is_some_and(has) {
            return Some(block.device);
        }
        let major = block.device >> 20;
        let partitions = self
            .devices
            .iter()
            .filter(|(device, _)| **device >> 20 == major);
        let found = partitions.filter(|(_, bios)| has(bios));
        found.map(|(device, _)| *device).min()
    }

    fn first_in_range(&self, device: u32, from: u64, to: u64) -> Option<u64> {
        let (sector, _) = self.devices.get(&device)?.range(from..to).next()?;
        Some(*sector)
    }

    fn bio(&mut self, device: u32, sector: u64) -> Option<&mut QueuedBio> {
        self.devices.get_mut(&device)?.get_mut(&sector)
    }

    fn insert(&mut self, device: u32, sector: u64, bio: QueuedBio) {
        if self.bios >= MAX_BIOS {
            self.clear();
        }
        let bios = self.devices.entry(device).or_default();
        self.bios += usize::from(bios.insert(sector, bio).is_none());
    }

    fn remove(&mut self, device: u32, sector: u64) -> Option<QueuedBio> {
        let removed = self.devices.get_mut(&device)?.remove(&sector);
        self.bios -= usize::from(removed.is_some());
        removed
    }
}

#[cfg(test)]
mod tests {
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
        }
    }

    #[test]
    fn parts_add_up_with_and_without_a_scheduler() {
        let mut queues = Queues::default();
        let request = block(DRIVE, 8, 4096);
        queues.step(100, &queued(request));
        queues.step(130, &QueueStep::Tagged(request));
        let parts = queues.issue(190, &request).unwrap().parts;
        assert_eq!((parts.tag, parts.plug, parts.scheduler), (30, 60, 0));
        assert_eq!(queues.issue(200, &request), None, "it was issued before");

        queues.step(300, &queued(request));
        queues.step(310, &QueueStep::Tagged(request));
        queues.step(350, &QueueStep::Inserted(request));
        let parts = queues.issue(400, &request).unwrap().parts;
        assert_eq!((parts.tag, parts.plug, parts.scheduler), (10, 40, 50));
        assert_eq!(parts.total(), 100);
    }

    #[test]
    fn merged_split_and_remapped_bios_are_followed() {
        let mut queues = Queues::default();
        // Two bios, one request.
        queues.step(100, &queued(block(DRIVE, 8, 4096)));
        queues.step(110, &QueueStep::Tagged(block(DRIVE, 8, 4096)));
        queues.step(120, &queued(block(DRIVE, 16, 4096)));
        let origin = queues.issue(200, &block(DRIVE, 8, 8192)).unwrap();
        assert_eq!(origin.parts.total(), 100);
        assert_eq!(queues.bios, 0);

        // A bio of a stacked device, split in two for two drives.
        let above = 253 << 20;
        queues.step(300, &queued(block(above, 0, 8192)));
        let at = 8;
        queues.step(
            305,
            &QueueStep::Split {
                block: block(above, 0, 4096),
                at,
            },
        );
        for (from_sector, sector) in [(0, 1000), (8, 2000)] {
            let below = block(DRIVE, sector, 4096);
            let from_device = above;
            let step = QueueStep::Remapped {
                block: below,
                from_device,
                from_sector,
            };
            queues.step(310, &step);
            queues.step(312, &queued(below));
            let origin = queues.issue(340, &below).unwrap();
            assert_eq!((origin.parts.total(), origin.task), (40, Some(7)));
        }
        assert_eq!(queues.bios, 0);

        // A trace names the partition.
        queues.step(500, &queued(block(DRIVE | 1, 64, 4096)));
        let origin = queues.issue(520, &block(DRIVE, 64, 4096)).unwrap();
        assert_eq!(origin.parts.total(), 20);
    }

    #[test]
    fn bios_without_an_issue_are_forgotten_in_the_end() {
        let mut queues = Queues::default();
        for sector in 0..MAX_BIOS as u64 + 10 {
            queues.step(sector, &queued(block(DRIVE, sector * 8, 4096)));
        }
        assert!(queues.bios <= MAX_BIOS);
    }
}
