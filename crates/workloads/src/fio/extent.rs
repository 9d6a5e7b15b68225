//! Where a job's I/Os lie: its files or devices, and how much of them it covers.

use super::size::percent_of;
use super::syntax::split_at_colons;
use super::{FioJob, Size, ZoneMode, Zones};

impl FioJob {
    /// Number of files that each process uses.
    pub fn files_per_process(&self) -> u64 {
        let named = self.filename_list().len() as u64;
        if named > 0 {
            named
        } else {
            u64::from(self.nrfiles)
        }
    }

    fn filename_list(&self) -> Vec<String> {
        self.filename
            .as_deref()
            .map(split_at_colons)
            .unwrap_or_default()
    }

    /// A key that stands for the files if all processes share the same files; `None` if each process has its own.
    pub fn shared_files_key(&self) -> Option<&str> {
        match &self.filename {
            Some(names) => Some(names),
            None => self.goes_to_devices().then_some(&self.name),
        }
    }

    /// Byte offset in its files at which a process, counted from 0, begins; `capacity` is the drive's size in bytes.
    pub fn start_of_process(&self, process: u32, capacity: u64) -> u64 {
        let step = match self.places.increment {
            None => 0,
            Some(Size::Bytes(bytes)) => bytes,
            Some(Size::Percent(percent)) => percent_of(capacity, percent),
        };
        (self.start_of_first_process(capacity))
            .saturating_add(step.saturating_mul(u64::from(process)))
    }

    /// Whether the job goes to devices, whose size is known without the job: `filename`, or else the job's name, lies
    /// below `/dev`.
    pub fn goes_to_devices(&self) -> bool {
        let mut names = self.filename_list();
        if names.is_empty() {
            names.push(self.name.clone());
        }
        names.iter().all(|name| {
            let below = name.strip_prefix("/dev/");
            below.is_some_and(|rest| !rest.starts_with("shm/"))
        })
    }

    /// Whether the options determine the amount of data, given a device's size.
    pub(super) fn has_known_amount(&self) -> bool {
        matches!(self.size, Some(Size::Bytes(_)))
            || self.filesize.is_some()
            || self.fill_device
            || self.goes_to_devices()
    }

    /// Whether the amount of data comes from the size of files that exist before the job starts.
    pub(super) fn takes_size_from_existing_files(&self) -> bool {
        !self.has_known_amount() && !self.filename_list().is_empty()
    }

    /// Bytes of the smallest read, write and trim.
    pub(super) fn smallest_block_per_direction(&self) -> [u64; 3] {
        self.extreme_block_per_direction(|(least, _)| least, |parts| parts.min())
    }

    /// Bytes of the largest read, write and trim.
    pub(super) fn largest_block_per_direction(&self) -> [u64; 3] {
        self.extreme_block_per_direction(|(_, most)| most, |parts| parts.max())
    }

    fn extreme_block_per_direction(
        &self,
        bound_of_range: impl Fn((u64, u64)) -> u64,
        bound_of_parts: impl Fn(&mut dyn Iterator<Item = u64>) -> Option<u64>,
    ) -> [u64; 3] {
        let (sizes, vary) = (self.block_size.as_array(), &self.block_sizes);
        let (ranges, splits) = (vary.range.as_array(), vary.split.as_array());
        [0, 1, 2].map(|n| {
            let parts = splits[n].iter().flatten().map(|part| part.0);
            let size = bound_of_parts(&mut { parts }).or(ranges[n].map(&bound_of_range));
            size.unwrap_or(*sizes[n]).max(1)
        })
    }

    /// Bytes of the smallest block in any direction, used or not, as fio's `td_min_bs()`.
    pub(super) fn smallest_block_of_all(&self) -> u64 {
        self.smallest_block_per_direction()
            .into_iter()
            .fold(u64::MAX, u64::min)
    }

    /// Bytes that `io_size` asks for, for a process on a drive with `capacity` bytes; `None` without `io_size`.
    pub(super) fn io_size_in_bytes(&self, capacity: u64) -> Option<u64> {
        let extent = self.process_extent(capacity);
        self.io_size.map(|io_size| match io_size {
            Size::Bytes(bytes) => bytes,
            Size::Percent(share) => percent_of(extent.file.saturating_mul(extent.files), share),
        })
    }

    pub(super) fn process_extent(&self, capacity: u64) -> Extent {
        let files = self.files_per_process();
        let on_device = self.goes_to_devices();
        let offset = self.start_of_first_process(capacity);
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
            let smallest = self.smallest_block_of_all();
            let part = percent_of(file.saturating_add(offset), share).min(file);
            file = part / smallest * smallest;
        }
        let all = file.saturating_mul(files);
        let size = match self.size {
            Some(Size::Bytes(bytes)) if self.filesize.is_some() => bytes.min(all),
            Some(Size::Bytes(bytes)) if !self.fill_device => bytes,
            _ => all,
        };
        // On a device the last block of a sequential job may lie beyond the job's size.
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
        let aligns = self.places.block_align.as_array().into_iter();
        let mut aligned = aligns.zip(self.smallest_block_per_direction());
        self.rw.is_random()
            && !self.norandommap
            && self.places.distribution.is_none()
            && aligned.all(|(align, block)| align.is_none_or(|align| align == block))
    }

    /// The strided zones of the job, if any. fio ignores zones for processes with several files.
    pub fn strided_zones(&self) -> Option<Zones> {
        let zones = self.places.zones;
        let strided =
            zones.mode == ZoneMode::Strided && zones.size > 0 && self.files_per_process() == 1;
        strided.then_some(Zones {
            range: if zones.range > 0 {
                zones.range
            } else {
                zones.size
            },
            ..zones
        })
    }

    /// Byte offset in a file with `file` bytes at which the first process begins.
    pub(super) fn start_of_first_process(&self, file: u64) -> u64 {
        match self.places.offset {
            None => 0,
            Some(Size::Bytes(bytes)) => bytes,
            Some(Size::Percent(percent)) => {
                let align = self
                    .places
                    .align
                    .unwrap_or(self.smallest_block_of_all())
                    .max(1);
                let bytes = percent_of(file, percent);
                bytes.div_ceil(align).saturating_mul(align)
            }
        }
    }
}

/// Area of the files in which a process does I/O.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub(super) files: u64,
    /// Size of each file, in bytes.
    pub(super) file: u64,
    /// Bytes of each file that I/O can reach, possibly beyond the area to cover.
    pub(super) there: u64,
    /// Bytes transferred in one pass over all files.
    pub(super) size: u64,
}
