//! When a process of a fio job has done all its work.

use serde::Serialize;
use wakepath_units::Nanoseconds;

use super::extent::Extent;
use super::walk::Walk;
use super::{FioJob, ReadWrite};

/// Limits for a process of a job; the first limit reached ends the process. At least one limit is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessLimits {
    /// Time after which the process ends, from the job's start or the end of `ramp_time`.
    pub time: Option<Nanoseconds>,
    /// Bytes transferred.
    pub bytes: Option<u64>,
    /// I/Os done.
    pub ios: Option<u64>,
    /// Bytes that offsets cover in one pass; at the end, offsets start over.
    pub span: u64,
}

impl FioJob {
    /// Limits for each process on a drive with `capacity` bytes.
    ///
    /// As in fio 3.33 (`setup_files()` in `filesetup.c`, `keep_running()` and `do_io()` in `backend.c`). Plain files
    /// without a size get the drive's.
    pub fn process_limits(&self, capacity: u64) -> ProcessLimits {
        if let Some(totals) = self.replayed_totals() {
            let bytes = totals.read_bytes.saturating_add(totals.written_bytes);
            return ProcessLimits {
                time: self.runtime,
                bytes: Some(bytes.max(1)),
                ios: Some(totals.requests()),
                span: capacity,
            };
        }
        let extent = self.process_extent(capacity);
        // fio drops `time_based` without a runtime, and so does this.
        let ended = !self.time_based || self.runtime.is_none();
        ProcessLimits {
            time: self.runtime,
            bytes: ended.then(|| {
                let has_walk = Walk::for_job_if_positions_matter(self, capacity).is_some();
                let given = self.io_size_option_in_bytes(capacity);
                if self.rw.trims() && self.rw.writes() {
                    // Each block is trimmed and then written; fio makes no further passes to transfer more bytes.
                    let io_size = given.filter(|bytes| *bytes < extent.size);
                    self.bytes_until_process_ends(extent, io_size, has_walk)
                        .saturating_mul(2)
                } else {
                    self.bytes_until_process_ends(extent, given, has_walk)
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

    /// Bytes transferred by a process before its end; 0 for less than a block, which fio refuses.
    fn bytes_until_process_ends(
        &self,
        extent: Extent,
        io_size: Option<u64>,
        has_walk: bool,
    ) -> u64 {
        let Extent { size, .. } = extent;
        if size < self.smallest_block_in_any_direction() {
            return 0;
        }
        let loops = u64::from(self.loops);
        let limit = io_size.unwrap_or(size).saturating_mul(loops);
        if has_walk {
            return limit;
        }
        let mixed = self.rw.reads() && self.rw.writes();
        // Each direction of a sequential mixed job passes through the files separately; without a map, a random job
        // never uses them up.
        let used_up = if self.rw.is_random() {
            self.has_random_map()
        } else {
            !mixed
        };
        // Both directions have the same fixed block size.
        let [read, write, trim] = self.smallest_block_per_direction();
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
        // fio makes further passes while a block fits into the rest of io_size.
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
