//! A block trace as a job.

use std::path::Path;

use wakepath_units::Nanoseconds;

use crate::block_trace::{BlockTrace, BlockTraceTotals};

use super::{FioJob, FioJobFile, IoEngine, PerDirection, ReadWrite};

/// Most requests in flight: as many as the kernel has tags for a queue of an NVMe drive (`nr_requests`, 1023 on Linux 6.12).
const MOST_IN_FLIGHT: u32 = 1023;

impl FioJobFile {
    /// A job file whose only job replays a block trace, as with libaio and direct I/O.
    pub fn for_block_trace(trace: BlockTrace) -> Self {
        let name = Path::new(&trace.origin).file_name().map_or_else(
            || trace.origin.clone(),
            |name| name.to_string_lossy().into_owned(),
        );
        let totals = trace.totals;
        let job = FioJob {
            name,
            line: 1,
            filename: trace.disk.clone(),
            rw: read_write_of_requests(&totals),
            block_size: PerDirection {
                read: totals.largest_read.max(1),
                write: totals.largest_write.max(1),
                trim: 1,
            },
            ioengine: IoEngine::Libaio,
            iodepth: MOST_IN_FLIGHT,
            direct: true,
            norandommap: true,
            number_ios: Some(totals.requests()),
            replay: Some(Box::new(trace)),
            ..FioJob::default()
        };
        Self {
            jobs: vec![job],
            warnings: Vec::new(),
            unmodelled: Vec::new(),
        }
    }
}

impl FioJob {
    /// Totals of the block trace or log that the job replays; `None`: the job replays none.
    pub fn replayed_totals(&self) -> Option<&BlockTraceTotals> {
        let trace = self.replay.as_ref().map(|trace| &trace.totals);
        trace.or(self.io_log.log.as_ref().map(|log| &log.totals))
    }

    /// How much time of its block trace or log the job replays, if it is to replay `longest` at most unless a caller has set another
    /// limit. `None`: the job replays none, or a log without times.
    pub fn replayed_time(&self, longest: Nanoseconds) -> Option<Nanoseconds> {
        let duration = match (&self.replay, &self.io_log.log) {
            (Some(trace), _) => trace.duration(),
            (None, log) => log
                .as_ref()
                .map(|log| log.duration())
                .filter(|time| time.0 > 0)?,
        };
        Some(duration.min(self.at_most.unwrap_or(longest)))
    }
}

/// Directions of a trace's requests; trims and flushes count as writes.
pub(super) fn read_write_of_requests(totals: &BlockTraceTotals) -> ReadWrite {
    let writes = totals.writes + totals.trims + totals.flushes > 0;
    match (totals.reads > 0, writes) {
        (true, true) => ReadWrite::RandRw,
        (false, true) => ReadWrite::RandWrite,
        (_, false) => ReadWrite::RandRead,
    }
}
