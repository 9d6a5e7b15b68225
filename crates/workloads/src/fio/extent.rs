//! Where a job's I/Os lie: its files or devices, and how much of them it covers.

use super::size::share_of;
use super::syntax::split_list;
use super::{FioJob, Size, ZoneMode, Zones};

impl FioJob {
    /// Number of files per process.
    pub fn files(&self) -> u64 {
        let named = self.names().len() as u64;
        if named > 0 {
            named
        } else {
            u64::from(self.nrfiles)
        }
    }

    fn names(&self) -> Vec<String> {
        self.filename.as_deref().map(split_list).unwrap_or_default()
    }

    /// A placeholder for the files, where all processes share the same ones.
    pub fn shared_files(&self) -> Option<&str> {
        match &self.filename {
            Some(names) => Some(names),
            None => self.is_on_device().then_some(&self.name),
        }
    }

    /// Where a process, counted from 0, begins in its files, on a drive of `capacity` bytes.
    pub fn offset_of(&self, process: u32, capacity: u64) -> u64 {
        let step = match self.places.increment {
            None => 0,
            Some(Size::Bytes(bytes)) => bytes,
            Some(Size::Percent(percent)) => share_of(capacity, percent),
        };
        (self.start_offset(capacity)).saturating_add(step.saturating_mul(u64::from(process)))
    }

    /// Whether it goes to devices, whose size is known without the job: below `/dev`, by `filename` or the job's name.
    pub fn is_on_device(&self) -> bool {
        let mut names = self.names();
        if names.is_empty() {
            names.push(self.name.clone());
        }
        names.iter().all(|name| {
            let below = name.strip_prefix("/dev/");
            below.is_some_and(|rest| !rest.starts_with("shm/"))
        })
    }

    /// Whether the options determine the amount of data, given a device's size.
    pub(super) fn is_sized(&self) -> bool {
        matches!(self.size, Some(Size::Bytes(_)))
            || self.filesize.is_some()
            || self.fill_device
            || self.is_on_device()
    }

    /// Whether the size comes from files that exist before the start.
    pub(super) fn has_size_of_its_files(&self) -> bool {
        !self.is_sized() && !self.names().is_empty()
    }

    /// The smallest read, write and trim.
    pub(super) fn smallest_blocks(&self) -> [u64; 3] {
        self.extreme_blocks(|(least, _)| least, |parts| parts.min())
    }

    /// The largest read, write and trim.
    pub(super) fn largest_blocks(&self) -> [u64; 3] {
        self.extreme_blocks(|(_, most)| most, |parts| parts.max())
    }

    fn extreme_blocks(
        &self,
        bound_of_range: impl Fn((u64, u64)) -> u64,
        bound_of_parts: impl Fn(&mut dyn Iterator<Item = u64>) -> Option<u64>,
    ) -> [u64; 3] {
        let (sizes, vary) = (self.block_size.each(), &self.block_sizes);
        let (ranges, splits) = (vary.range.each(), vary.split.each());
        [0, 1, 2].map(|n| {
            let parts = splits[n].iter().flatten().map(|part| part.0);
            let size = bound_of_parts(&mut { parts }).or(ranges[n].map(&bound_of_range));
            size.unwrap_or(*sizes[n]).max(1)
        })
    }

    /// The smallest block of any direction, used or not, as fio's `td_min_bs()`.
    pub(super) fn smallest_block(&self) -> u64 {
        self.smallest_blocks().into_iter().fold(u64::MAX, u64::min)
    }

    /// Bytes from `io_size`, for a process on a drive with `capacity` bytes.
    pub(super) fn io_bytes(&self, capacity: u64) -> Option<u64> {
        let extent = self.extent(capacity);
        self.io_size.map(|io_size| match io_size {
            Size::Bytes(bytes) => bytes,
            Size::Percent(share) => share_of(extent.file.saturating_mul(extent.files), share),
        })
    }

    pub(super) fn extent(&self, capacity: u64) -> Extent {
        let files = self.files();
        let on_device = self.is_on_device();
        let offset = self.start_offset(capacity);
        let mut file = match (self.filesize, self.size) {
            _ if self.fill_device && self.filesize.is_none() => capacity,
            (Some(size), _) if on_device && (size.least..=size.most).contains(&capacity) => {
                capacity.saturating_sub(offset)
            }
            (Some(size), _) => size.least.midpoint(size.most).saturating_sub(offset),
            (None, Some(Size::Bytes(bytes))) => bytes / files,
            (None, _) => capacity.saturating_sub(offset),
        };
        if let Some(Size::Percent(share)) = self.size {
            let smallest = self.smallest_block();
            let part = share_of(file.saturating_add(offset), share).min(file);
            file = part / smallest * smallest;
        }
        let all = file.saturating_mul(files);
        let size = match self.size {
            Some(Size::Bytes(bytes)) if self.filesize.is_some() => bytes.min(all),
            Some(Size::Bytes(bytes)) if !self.fill_device => bytes,
            _ => all,
        };
        // On a device the last block of a sequential job may lie beyond its size.
        let there = if on_device && !self.rw.is_random() {
            file.max(capacity.saturating_sub(offset))
        } else {
            file
        };
        Extent {
            files,
            file,
            there,
            size,
        }
    }

    /// Whether a random job tracks finished blocks, so that each block is done once.
    ///
    /// As in fio 3.33, `fixup_options()` of `init.c`: an uneven distribution, or blocks aligned to something else than
    /// their size, go without.
    pub fn has_random_map(&self) -> bool {
        let aligns = self.places.block_align.each().into_iter();
        let mut aligned = aligns.zip(self.smallest_blocks());
        self.rw.is_random()
            && !self.norandommap
            && self.places.distribution.is_none()
            && aligned.all(|(align, block)| align.is_none_or(|align| align == block))
    }

    /// Zones of the job, if any. fio ignores zones for processes with several files.
    pub fn strided_zones(&self) -> Option<Zones> {
        let zones = self.places.zones;
        let strided = zones.mode == ZoneMode::Strided && zones.size > 0 && self.files() == 1;
        strided.then_some(Zones {
            range: if zones.range > 0 {
                zones.range
            } else {
                zones.size
            },
            ..zones
        })
    }

    /// Where the first process begins in a file of so many bytes.
    pub(super) fn start_offset(&self, file: u64) -> u64 {
        match self.places.offset {
            None => 0,
            Some(Size::Bytes(bytes)) => bytes,
            Some(Size::Percent(percent)) => {
                let align = self.places.align.unwrap_or(self.smallest_block()).max(1);
                let bytes = share_of(file, percent);
                bytes.div_ceil(align).saturating_mul(align)
            }
        }
    }
}

/// Area of a process's I/O.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub(super) files: u64,
    /// Bytes of each file.
    pub(super) file: u64,
    /// Reachable bytes of each file, possibly beyond the area to cover.
    pub(super) there: u64,
    /// Bytes per pass over all files.
    pub(super) size: u64,
}
