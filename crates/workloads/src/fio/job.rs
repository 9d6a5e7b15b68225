//! fio jobs with every option resolved.

use serde::Serialize;
use wakepath_units::Nanoseconds;

use crate::block_trace::BlockTrace;

use super::defaults::is_default;
use super::error::{FioError, FioProblem, FioWarning};
use super::{
    Batches, BlockSizes, Content, FadviseHint, FileSize, Flow, Invalidation, IoEngine, IoLogReplay,
    LatencyTarget, PerDirection, Places, Polling, ReadWrite, Size, SteadyState, Verify,
};

/// Most jobs accepted in a file, counting `numjobs` clones: fio's own limit (`REAL_MAX_JOBS`).
pub const MAX_JOBS: u32 = 4096;

/// Highest accepted queue depth, twice io_uring's largest ring.
pub const MAX_IODEPTH: u32 = 65_536;

/// A job file with all defaults and `[global]` sections resolved into its jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FioJobFile {
    /// Jobs in file order; at least one.
    pub jobs: Vec<FioJob>,
    /// Warnings about accepted lines that have another effect than a user may expect.
    pub warnings: Vec<FioWarning>,
    /// Options that fio knows and the simulator has no model for, in line order. The jobs ignore these lines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unmodelled: Vec<FioProblem>,
}

impl FioJobFile {
    /// Refuses the file if any job asks for something without a model.
    ///
    /// # Errors
    /// Each option without a model, with file and line.
    pub fn refuse_unmodelled_options(&self) -> Result<(), FioError> {
        if self.unmodelled.is_empty() {
            return Ok(());
        }
        Err(FioError {
            problems: self.unmodelled.clone(),
        })
    }
}

/// A job section. Every field has the value that fio would use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FioJob {
    /// Job name: the section's, or the `name` option.
    pub name: String,
    /// Line of the section header, counted from 1; for messages only.
    pub line: usize,
    /// Free text.
    pub description: Option<String>,
    /// File or device to read and write; not looked at when simulating.
    pub filename: Option<String>,
    /// Direction and order of the I/O. Default: sequential reads.
    pub rw: ReadWrite,
    /// The number in `rw=pattern:N`: bytes skipped after each I/O in a sequential pattern, or I/Os per random offset.
    /// Default 0: no such number.
    pub step: i64,
    /// Share of reads in a mixed job in percent, 0 to 100. Default 50.
    pub rwmixread: u8,
    /// Bytes per I/O, at least 1. Default 4096.
    pub block_size: PerDirection<u64>,
    /// Block sizes that vary. Default: none does.
    pub block_sizes: BlockSizes,
    /// I/Os kept in flight, 1 to [`MAX_IODEPTH`]. A synchronous engine never has more than one: see
    /// [`FioJob::effective_iodepth`]. Default 1.
    pub iodepth: u32,
    /// How many I/Os are submitted and reaped together. Default: one.
    pub batches: Batches,
    /// What written buffers contain. Default: the same data each time.
    pub content: Content,
    /// How read data are verified. Default: not at all.
    pub verify: Verify,
    /// What fio tells the kernel about the order of reads. Default: as `rw` has it.
    #[serde(skip_serializing_if = "is_default")]
    pub fadvise: FadviseHint,
    /// Whether fio drops what is cached of a file when it opens the file, before each pass. Default: it does.
    #[serde(skip_serializing_if = "is_default")]
    pub invalidate: Invalidation,
    /// Who polls for submissions and completions. Default: nobody.
    #[serde(skip_serializing_if = "is_default")]
    pub polling: Polling,
    /// Parallel processes of the job, 1 to [`MAX_JOBS`]. Default 1.
    pub numjobs: u32,
    /// Engine that submits I/O and waits for completions. Default `psync`, fio's on Linux.
    pub ioengine: IoEngine,
    /// Whether threads of each process submit its I/Os (fio's `io_submit_mode=offload`). Default false.
    #[serde(skip_serializing_if = "is_default")]
    pub submits_by_threads: bool,
    /// Whether I/O bypasses the page cache. Default false.
    pub direct: bool,
    /// Bytes transferred by each process before it ends, or starts over with `time_based`. Default: all files, or the
    /// whole device.
    pub size: Option<Size>,
    /// Bytes of each file. Default: `size`, shared out between the files.
    pub filesize: Option<FileSize>,
    /// Bytes to transfer where different from `size`: less, or several passes. Default: none.
    pub io_size: Option<Size>,
    /// Number of I/Os after which a process ends. Default: none.
    pub number_ios: Option<u64>,
    /// How often each process goes through its files, at least 1. Default 1.
    pub loops: u32,
    /// Number of files per process where `filename` names none, at least 1. Default 1. See
    /// [`FioJob::files_per_process`].
    pub nrfiles: u32,
    /// Whether the job writes until the device is full. Default false.
    pub fill_device: bool,
    /// Time after which the job ends. Default: none.
    pub runtime: Option<Nanoseconds>,
    /// Whether a process starts over at the end of its files until `runtime` is over. Default false.
    pub time_based: bool,
    /// Number of writes after which the file's data and metadata are flushed; 0: never. Default 0.
    pub fsync: u32,
    /// Number of writes after which the file's data are flushed; 0: never. Default 0.
    pub fdatasync: u32,
    /// Whether each write ends only when its data are on the media: fio's `sync=sync` and `sync=dsync`, which a device
    /// cannot tell apart. Default false.
    pub sync: bool,
    /// Whether the file is flushed after the last write of each pass. Default false.
    pub end_fsync: bool,
    /// Whether the file is flushed when closed, which fio does together with `end_fsync`. Default false.
    pub fsync_on_close: bool,
    /// Pause after every `thinktime_blocks` I/Os, whole microseconds. Default 0.
    pub thinktime: Nanoseconds,
    /// First part of `thinktime` that is spent spinning instead of sleeping; a spin longer than the
    /// pause makes the pause longer. No effect without `thinktime`. Default 0.
    pub thinktime_spin: Nanoseconds,
    /// Number of I/Os between two pauses; 0 counts as 1. Default 1, or no such number with `thinktime_iotime`.
    pub thinktime_blocks: Option<u32>,
    /// Whether `thinktime_blocks` counts issued or completed I/Os. Default [`ThinkBlocks::Complete`].
    pub thinktime_counts: ThinkBlocks,
    /// Time from one pause to the next, beyond `thinktime`. Default 0: pauses do not depend on time.
    pub thinktime_iotime: Nanoseconds,
    /// CPU work after every I/O, before any pause: turns of fio's loop with one `nop`, about a cycle each. Default 0.
    /// Needs a fio newer than Debian 12's 3.33.
    pub thinkcycles: u64,
    /// Bandwidth limit for each process, in bytes per second. Default: none.
    pub rate: PerDirection<Option<u64>>,
    /// I/Os per second allowed to each process. Default: unlimited.
    pub rate_iops: PerDirection<Option<u64>>,
    /// Whether I/Os begin as a Poisson process with the limited rate. Default false: at equal distances.
    pub rate_poisson: bool,
    /// Whether pauses are left out from the rate: they are not made up for by a higher rate. Default false.
    pub rate_ignores_thinktime: bool,
    /// Latency that decides the depth. Default: none.
    #[serde(skip_serializing_if = "is_default")]
    pub latency_target: LatencyTarget,
    /// When the job is steady, which ends it. Default: never.
    #[serde(skip_serializing_if = "is_default")]
    pub steady_state: SteadyState,
    /// The job's part in a flow of several jobs. Default: none.
    #[serde(skip_serializing_if = "is_default")]
    pub flow: Flow,
    /// One in so many I/Os is submitted by a worker of the kernel (fio's `force_async`); 0: none. Default 0.
    #[serde(skip_serializing_if = "is_default")]
    pub force_async: u32,
    /// Whether random offsets may repeat before the file is covered. Default false. See [`FioJob::has_random_map`].
    pub norandommap: bool,
    /// Where the job's I/Os lie. Default: anywhere from the start.
    pub places: Places,
    /// Whether the `numjobs` processes are reported as one. Default false.
    pub group_reporting: bool,
    /// Whether the job begins a group, as one with `stonewall` does, but without waiting. Default false.
    #[serde(skip_serializing_if = "is_default")]
    pub new_group: bool,
    /// Whether the job waits until all jobs above have ended. Default false.
    pub stonewall: bool,
    /// Time at the start of each process that is not counted; `runtime` begins afterwards. Default: none.
    pub ramp_time: Option<Nanoseconds>,
    /// Bounds for the random time after which each process starts. Default 0.
    pub startdelay: (Nanoseconds, Nanoseconds),
    /// Whether each process that ends, of any job in the file, also ends the jobs in its own [`FioJob::exit_what`]. Default false.
    pub exitall: bool,
    /// Which jobs `exitall` ends. Default [`ExitWhat::Group`].
    pub exit_what: ExitWhat,
    /// Name of an earlier job whose processes must end before this job starts. Default: none.
    pub wait_for: Option<String>,
    /// Numbers of the CPUs that the processes may run on, ascending. Default: all.
    pub cpus_allowed: Option<Vec<u32>>,
    /// How the CPUs are distributed over processes. Default [`CpusPolicy::Shared`].
    pub cpus_policy: CpusPolicy,
    /// Nice value for the processes, -20 to 19. Default 0.
    pub nice: i8,
    /// Log of I/O whose requests take the place of all others (fio's `read_iolog`). Default: none.
    #[serde(skip_serializing_if = "is_default")]
    pub io_log: IoLogReplay,
    /// Block trace whose requests take the place of all others. Not a fio option: `None` unless a caller sets the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<Box<BlockTrace>>,
    /// Limit on simulated time, whatever the job says. Not a fio option: `None` unless a caller sets the limit.
    pub at_most: Option<Nanoseconds>,
}

impl Default for FioJob {
    fn default() -> Self {
        Self {
            name: String::new(),
            line: 0,
            description: None,
            filename: None,
            rw: ReadWrite::default(),
            step: 0,
            rwmixread: 50,
            block_size: PerDirection {
                read: 4096,
                write: 4096,
                trim: 4096,
            },
            block_sizes: BlockSizes::default(),
            iodepth: 1,
            batches: Batches::default(),
            content: Content::default(),
            verify: Verify::default(),
            fadvise: FadviseHint::default(),
            invalidate: Invalidation::default(),
            polling: Polling::default(),
            numjobs: 1,
            ioengine: IoEngine::default(),
            submits_by_threads: false,
            direct: false,
            size: None,
            filesize: None,
            io_size: None,
            number_ios: None,
            loops: 1,
            nrfiles: 1,
            fill_device: false,
            runtime: None,
            time_based: false,
            fsync: 0,
            fdatasync: 0,
            sync: false,
            end_fsync: false,
            fsync_on_close: false,
            thinktime: Nanoseconds::ZERO,
            thinktime_spin: Nanoseconds::ZERO,
            thinktime_blocks: None,
            thinktime_counts: ThinkBlocks::default(),
            thinktime_iotime: Nanoseconds::ZERO,
            thinkcycles: 0,
            rate: PerDirection::default(),
            rate_iops: PerDirection::default(),
            rate_poisson: false,
            rate_ignores_thinktime: false,
            latency_target: LatencyTarget::default(),
            steady_state: SteadyState::default(),
            flow: Flow::default(),
            force_async: 0,
            norandommap: false,
            places: Places::default(),
            group_reporting: false,
            new_group: false,
            stonewall: false,
            ramp_time: None,
            startdelay: (Nanoseconds::ZERO, Nanoseconds::ZERO),
            exitall: false,
            exit_what: ExitWhat::default(),
            wait_for: None,
            cpus_allowed: None,
            cpus_policy: CpusPolicy::default(),
            nice: 0,
            io_log: IoLogReplay::default(),
            replay: None,
            at_most: None,
        }
    }
}

impl FioJob {
    /// Whether the kernel accounts a waiting process as iowait. `io_uring_counts`: whether waits through io_uring are
    /// accounted so.
    pub const fn waits_as_iowait(&self, io_uring_counts: bool) -> bool {
        let uring = self.ioengine.is_io_uring();
        // Trims are synchronous with every engine.
        self.rw.trims()
            || self.waits_in_submission()
            || (self.ioengine.waits_as_iowait() && (io_uring_counts || !uring))
    }

    /// The option that uses the page cache in a way without a model; `None` if there is none.
    ///
    /// A writing job has its reads and writes in the cache. fio drops the file's cached pages before a job that only reads.
    pub(super) fn page_cache_use_without_model(&self) -> Option<&'static str> {
        if self.is_direct() {
            return None;
        }
        if self.io_log.is_given() {
            return Some(
                "read_iolog: its requests are simulated as they stand, past the page cache",
            );
        }
        if self.rw.trims() {
            return Some("trims");
        }
        if self.places.distribution.is_some() && !self.has_modelled_uneven_places() {
            return Some(
                "a random_distribution other than zipf and pareto with one file and one block size",
            );
        }
        None
    }

    /// Whether the job writes into the page cache, from which the kernel writes back to the drive later.
    pub const fn writes_to_page_cache(&self) -> bool {
        self.rw.writes() && !self.is_direct()
    }

    /// Whether the system call that submits a request returns only when the request is done: libaio reads from the page
    /// cache as `read()` does.
    pub const fn waits_in_submission(&self) -> bool {
        matches!(self.ioengine, IoEngine::Libaio) && !self.is_direct()
    }

    /// Whether all I/O of the job bypasses the page cache.
    pub const fn is_direct(&self) -> bool {
        let only_trims = self.rw.trims() && !self.rw.writes();
        self.direct || self.ioengine.is_always_direct() || only_trims
    }

    /// Whether the job asks for flushes of its file by calls of its own.
    pub(super) const fn calls_fsync(&self) -> bool {
        self.fsync > 0 || self.fdatasync > 0 || self.end_fsync || self.fsync_on_close
    }

    /// Whether threads beside a process, of fio or of the kernel, submit some of its I/Os.
    pub(super) const fn has_other_submitters(&self) -> bool {
        self.submits_by_threads || self.force_async > 0
    }

    /// Whether a process starts over until its time is over: fio drops `time_based` without a runtime.
    pub const fn is_time_based(&self) -> bool {
        self.time_based && self.runtime.is_some()
    }

    /// Whether the job has a `rate` or `rate_iops`.
    pub fn is_rate_limited(&self) -> bool {
        let limits = [self.rate, self.rate_iops];
        limits
            .iter()
            .any(|limit| limit.as_array().iter().any(|l| l.is_some()))
    }
}

/// Which I/Os count for `thinktime_blocks` (fio's `thinktime_blocks_type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ThinkBlocks {
    /// Completed I/Os.
    #[default]
    Complete,
    /// Submitted I/Os.
    Issue,
}

/// Which jobs `exitall` ends (fio's `exit_what`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ExitWhat {
    /// Ends the jobs in the same group, between two jobs with `stonewall` or `new_group`.
    #[default]
    Group,
    /// Ends all processes that run now, and whose `ramp_time` is over; other jobs still start.
    Stonewall,
    /// Ends all jobs, even before their start.
    All,
}

/// How a job's CPUs are distributed over its processes (fio's `cpus_allowed_policy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CpusPolicy {
    /// Every process of the job may run on all CPUs in the list.
    #[default]
    Shared,
    /// Each process of the job gets one CPU in the list, in turn.
    Split,
}

/// Upper bound on the rate of I/O in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Limit in bytes per second (fio's `rate`), at least 1.
    Bytes(u64),
    /// Limit in I/Os per second (fio's `rate_iops`), at least 1.
    Ios(u64),
}

impl FioJob {
    /// Rate that each process asks for, in each direction that the job uses. Trims count as writes without data.
    pub fn requested_rates(&self) -> PerDirection<Option<Rate>> {
        let mixed = self.rw.reads() && self.rw.writes();
        let reads = self.rw.reads() && !(mixed && self.rwmixread == 0);
        let writes = self.rw.writes() && !(mixed && self.rwmixread == 100);
        let only_trims = self.rw.trims() && !self.rw.writes();
        PerDirection {
            read: rate_limit_of_used_direction(reads, self.rate.read, self.rate_iops.read),
            write: if only_trims {
                rate_limit_of_used_direction(true, self.rate.trim, self.rate_iops.trim)
            } else {
                rate_limit_of_used_direction(writes, self.rate.write, self.rate_iops.write)
            },
            trim: None,
        }
    }
}

/// Rate limit for a direction; `None` if the direction is not used, or has no limit.
fn rate_limit_of_used_direction(
    is_used: bool,
    bytes_per_s: Option<u64>,
    ios_per_s: Option<u64>,
) -> Option<Rate> {
    let rate = bytes_per_s.map(Rate::Bytes).or(ios_per_s.map(Rate::Ios));
    rate.filter(|rate| is_used && !matches!(rate, Rate::Bytes(0) | Rate::Ios(0)))
}
