//! How much a job transfers: where fio gets the size from, and when a job has done all it has to.

use std::fmt;

use serde::Serialize;
use wakepath_units::Nanoseconds;

use super::paths::list;
use super::walk::Walk;
use super::{FioJob, ReadWrite};

/// Limits of a job's process; the first limit reached ends the process. At least one is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ExtentLimits {
    /// Time since the job's start, or since the end of `ramp_time`.
    pub time: Option<Nanoseconds>,
    /// Bytes transferred.
    pub bytes: Option<u64>,
    /// I/Os done.
    pub ios: Option<u64>,
    /// Bytes covered by offsets; at the end, offsets start over.
    pub span: u64,
}

/// How much a job transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// A number of bytes, at least 1.
    Bytes(u64),
    /// A share of the files or the device in percent, 1 to 100.
    Percent(u8),
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// Size of a file in bytes: a number, or random choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FileSize {
    /// The smallest, at least 1.
    pub least: u64,
    /// The largest.
    pub most: u64,
}

impl fmt::Display for FileSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least == self.most {
            self.least.fmt(f)
        } else {
            write!(f, "{}-{}", self.least, self.most)
        }
    }
}

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
        self.filename.as_deref().map(list).unwrap_or_default()
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

    /// Limits of each process, on a drive with `capacity` bytes.
    ///
    /// As in fio 3.33 (`setup_files()` in `filesetup.c`, `keep_running()` and `do_io()` in `backend.c`). Plain files
    /// without a size get the drive's.
    pub fn limits(&self, capacity: u64) -> ExtentLimits {
        let extent = self.extent(capacity);
        // As fio, which drops time_based without a runtime.
        let ended = !self.time_based || self.runtime.is_none();
        ExtentLimits {
            time: self.runtime,
            bytes: ended.then(|| {
                let has_walk = Walk::of(self, capacity).is_some();
                let io_size = self.io_bytes(capacity);
                if self.rw.trims() && self.rw.writes() {
                    // Each block is trimmed and then written; fio makes no further passes for more bytes.
                    let io_size = io_size.filter(|bytes| *bytes < extent.size);
                    self.bytes(extent, io_size, has_walk).saturating_mul(2)
                } else {
                    self.bytes(extent, io_size, has_walk)
                }
            }),
            ios: self
                .number_ios
                .filter(|_| ended)
                .map(|ios| ios.saturating_mul(u64::from(self.loops)))
                .map(|ios| match self.rw {
                    ReadWrite::TrimWrite | ReadWrite::RandTrimWrite => ios.saturating_mul(2),
                    _ => ios,
                }),
            span: extent.file.saturating_mul(extent.files),
        }
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
        of_range: impl Fn((u64, u64)) -> u64,
        of_parts: impl Fn(&mut dyn Iterator<Item = u64>) -> Option<u64>,
    ) -> [u64; 3] {
        let (sizes, vary) = (self.block_size.each(), &self.block_sizes);
        let (ranges, splits) = (vary.range.each(), vary.split.each());
        [0, 1, 2].map(|n| {
            let parts = splits[n].iter().flatten().map(|part| part.0);
            let size = of_parts(&mut { parts }).or(ranges[n].map(&of_range));
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

    /// Bytes transferred by a process before its end; 0 for less than a block, which fio refuses.
    fn bytes(&self, extent: Extent, io_size: Option<u64>, has_walk: bool) -> u64 {
        let Extent { size, .. } = extent;
        if size < self.smallest_block() {
            return 0;
        }
        let loops = u64::from(self.loops);
        let limit = io_size.unwrap_or(size).saturating_mul(loops);
        if has_walk {
            return limit;
        }
        let mixed = self.rw.reads() && self.rw.writes();
        // Each direction of a sequential mixed job goes through the files by itself; without a map, a random job
        // never finds them used up.
        let used_up = if self.rw.is_random() {
            self.has_random_map()
        } else {
            !mixed
        };
        // Both directions have a single block size.
        let [read, write, trim] = self.smallest_blocks();
        let block = match (self.rw.reads(), self.rw.writes()) {
            (true, _) => read,
            (false, true) => write,
            (false, false) => trim,
        };
        let mut pass = size.div_ceil(block);
        if used_up {
            pass = pass.min((extent.there / block).saturating_mul(extent.files));
        }
        let limit = limit.div_ceil(block);
        let mut blocks = pass.saturating_mul(loops).min(limit);
        // A remainder of io_size takes further passes while a block fits.
        if let Some(bytes) = io_size
            && pass > 0
        {
            let left = (bytes / block).saturating_sub(blocks);
            let more = left.div_ceil(pass).saturating_mul(pass);
            blocks = blocks.saturating_add(more).min(limit);
        }
        blocks.saturating_mul(block)
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

pub(super) fn share_of(bytes: u64, percent: u8) -> u64 {
    (u128::from(bytes) * u128::from(percent) / 100) as u64
}
