//! A fio file's jobs, compiled.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::DriveModel;
use wakepath_units::Nanoseconds;
use wakepath_workloads::fio::{
    Batching, BufferFilling, Checksum, DepthSearch, ExitWhat, FioJob, FioJobFile, IoEngine,
    IoSizes, PerDirection, ReadBack, SteadyStateDetector, ThinkBlocks, UnevenPlaces, Walk,
};

use crate::block::cost::BLOCK;
use crate::block::request::RequestKind;
use crate::core::basics::Cycles;
use crate::error::SimError;
use crate::page_cache::job::CacheJob;
use crate::scheduler::state::Class;
use crate::task::fio::groups::number_groups;
use crate::task::fio::helpers::HelperSetup;
use crate::task::fio::period::Period;
use crate::task::fio::polling::PollingSetup;
use crate::task::fio::replay::ReplaySetup;

/// Largest block size in bytes that is simulated, so that no time overflows.
const MAX_BLOCK: u64 = 1 << 30;

/// Longest time in a job's options in ns, a year, so that sums do not overflow.
const MAX_TIME: u64 = 365 * 24 * 3_600_000_000_000;

/// The longest simulated time for a job that says how much it does, and not how long.
pub const LONGEST_UNTIMED: Nanoseconds = Nanoseconds(60_000_000_000);

/// Cycles that fio takes to fill a KiB of a buffer with random data (`refill_buffers`). Measured: fio 3.33 and its null
/// engine, 128 KiB writes, on a Xeon of 2.6 GHz: 24.9 us of CPU time per I/O instead of 0.8.
const FILL_CYCLES_PER_KIB: Cycles = 490;

/// Cycles that fio takes to write zeros or a pattern to a KiB of a buffer (`refill_buffers` with `zero_buffers` or
/// `buffer_pattern`). Measured likewise: 2.2 us per 128 KiB write instead of 0.05.
const COPY_CYCLES_PER_KIB: Cycles = 43;

/// Cycles that fio takes to change two cache lines of 512 bytes that a drive has read since (`scramble_buffers`, its
/// default). Measured: fio 3.33, libaio at depth 64, direct writes of 32 KiB to a virtual disk, on a Xeon of 2.6 GHz:
/// 3.9 us of CPU time per I/O instead of 2.9 with `scramble_buffers=0`, and the same with `zero_buffers`. Of 4 KiB: 2.21
/// instead of 2.08. Buffers that stay in the cache (null engine) take 7.
const SCRAMBLE_CYCLES_PER_BLOCK: Cycles = 40;

/// Work on the buffers of a job: `JobSetup::buffer_cycles` and `content_cycles`.
///
/// A job that checks its data fills the buffer of a write and adds the checksum after the latency has begun, and checks a
/// read after it has ended. Measured: fio 3.33, null engine and a file in memory, 128 KiB.
fn buffer_work_outside_and_inside_latency(job: &FioJob) -> ([Cycles; 2], Cycles) {
    if job.replay.is_some() {
        // Whoever made the requests of a trace had their data.
        return ([0, 0], 0);
    }
    if job.verify.checksum == Some(Checksum::Null) {
        return ([0, FILL_CYCLES_PER_KIB], 0);
    }
    if let Some(checksum) = job.verify.checksum {
        let check = checksum.cycles_per_kib();
        let fill = match job.verify.pattern {
            Some(_) => 0,
            None => FILL_CYCLES_PER_KIB,
        };
        // A buffer pattern is compared only when the data are read.
        let sum = if checksum == Checksum::Pattern {
            0
        } else {
            check
        };
        let per_kib = fill + sum;
        // A job that writes, too, checks only what it reads back.
        let reads = if job.rw.writes() || job.checking_threads() > 0 {
            0
        } else {
            check
        };
        return ([reads, 0], per_kib / 2);
    }
    match job.buffer_filling_before_write() {
        BufferFilling::Untouched => ([0, 0], 0),
        BufferFilling::Scrambled => ([0, 0], SCRAMBLE_CYCLES_PER_BLOCK),
        BufferFilling::Copied => ([0, COPY_CYCLES_PER_KIB], 0),
        BufferFilling::Random(share) => ([0, FILL_CYCLES_PER_KIB * u64::from(share) / 100], 0),
    }
}

/// When a job's process pauses (fio's think time options).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PauseRule {
    /// Number of requests between two pauses, if pauses go by requests.
    pub(super) requests: Option<u64>,
    /// Whether requests count when submitted; otherwise they count when completed.
    pub(super) by_issue: bool,
    /// Time in ns from one pause to the next, if pauses go by time.
    pub(super) every: Option<u64>,
}

impl PauseRule {
    /// The rule of pauses that a job's options give.
    fn new(job: &FioJob) -> Self {
        let every = (job.thinktime_iotime.0 > 0).then_some(job.thinktime_iotime.0);
        Self {
            requests: match job.thinktime_blocks {
                // fio looks after each I/O, so that fewer than one means one.
                Some(blocks) => Some(u64::from(blocks.max(1))),
                None => every.is_none().then_some(1),
            },
            by_issue: job.thinktime_counts == ThinkBlocks::Issue,
            every: every.map(|every| every.saturating_add(job.thinktime.0)),
        }
    }
}

/// One job of the workload: what each of its processes does.
#[derive(Clone, Debug)]
pub(crate) struct JobSetup {
    /// Share of reads, 0 to 100.
    pub(super) read_percent: u8,
    pub(super) depth: u32,
    /// Rule of batches, if requests are submitted or taken back together.
    pub(super) batch: Option<Batching>,
    /// How many completed requests a process takes back at once.
    pub(super) most: usize,
    pub(super) processes: u32,
    /// Number of the job's group; it starts when all jobs of earlier groups have ended.
    pub(super) group: usize,
    /// Number of the job's group for `exitall` and steady states: a part of the group that starts together.
    pub(super) report_group: usize,
    /// When a process stops issuing requests, in ns from its start.
    pub(super) end: Option<u64>,
    /// Until when a process's requests do not count (`ramp_time`), in ns from its start.
    pub(super) ramp: u64,
    /// Shortest and longest delay of a process's start after its group's, in ns.
    pub(super) delay: [u64; 2],
    /// Time in ns between two ticks of a guest, whose ticks do not wait for jobs to start; 0 on a real machine.
    pub(super) tick: u64,
    /// What the end of each of the job's processes also ends, if a job of the file has `exitall`.
    pub(super) exit: Option<ExitWhat>,
    /// Index of the job that has to end before this job starts.
    pub(super) wait_for: Option<usize>,
    /// The CPUs that its processes may run on in turn, as indices of [`crate::task::rtapp::program::Programs::cpu_sets`]; empty: all.
    pub(super) cpu_sets: Vec<usize>,
    /// Whether the longest simulated time ends the job, before any limit of the job itself.
    pub(super) cut: bool,
    /// Time from one read, and from one write, to the next, if the job limits its rates.
    pub(super) periods: Option<[Period; 2]>,
    /// Number of bytes that each process transfers, if limited.
    pub(super) bytes: Option<u64>,
    /// Number of requests that each process makes, if limited.
    pub(super) requests: Option<u64>,
    /// Usual bytes of a read and of a write.
    pub(super) block: [u64; 2],
    /// The walk of each process through its file, where the job's limits do not determine it.
    pub(super) walk: Option<Walk>,
    /// The block trace or log that each process replays, if it does.
    pub(super) replay: Option<ReplaySetup>,
    /// What each process reads back of its writes, if the job verifies them.
    pub(in crate::task) read_back: Option<ReadBack>,
    /// Work on each KiB that is read back and checked, outside the latency.
    pub(super) check_cycles: Cycles,
    /// Whether a process flushes before it reads back all that is left.
    pub(super) flushes_before_second_pass: bool,
    /// Threads beside each process.
    pub(in crate::task) helpers: Option<HelperSetup>,
    /// Search for the depth of each process, if a latency decides it.
    pub(super) search: Option<DepthSearch>,
    /// What judges whether the job is steady, and whether it judges the whole group of the job.
    pub(super) steady: Option<SteadyStateDetector>,
    pub(super) steady_as_group: bool,
    /// The job's part in a flow of several jobs.
    pub(super) flow: Option<FlowSetup>,
    /// Which of the job's writes are trims, without data.
    pub(super) trims: Trims,
    /// Work on a KiB of a read's and a write's buffer outside the latency: filling before the write, checking after
    /// the read.
    pub(super) buffer_cycles: [Cycles; 2],
    /// Work in cycles on each 512 bytes written, inside the latency.
    pub(super) content_cycles: Cycles,
    /// Scheduling class of the job's processes, by their nice value.
    pub(super) class: Class,
    /// Whether a request's size has to be settled before its submission begins.
    pub(super) settles_size: bool,
    /// Whether offsets are random; otherwise they count up.
    pub(super) random: bool,
    /// How often each block is drawn, if the page cache sees some more often.
    pub(super) uneven: Option<UnevenPlaces>,
    /// Bytes of the area in which requests lie.
    pub(super) span: u64,
    /// Whether each request is submitted by its own system call, which does not wait for the request.
    pub(in crate::task) submits_alone: bool,
    /// Who polls for the job's submissions and completions.
    pub(in crate::task) polling: PollingSetup,
    /// Whether waiting for a completion counts as I/O wait.
    pub(super) iowait: bool,
    /// Whether reads go through the page cache, which holds nothing of the file before the run.
    pub(in crate::task) buffered: bool,
    /// Whether a read that goes to the drive is called twice: before its page is there, and after.
    pub(in crate::task) reads_again: bool,
    /// How the job uses the page cache, if it does and any job writes into the cache.
    pub(super) cache: Option<CacheJob>,
    /// The files of a job that writes past the page cache to a file system with a journal.
    pub(super) direct_file: Option<CacheJob>,
    /// Whether processes pause between requests, or their rate is limited.
    pub(super) paced: bool,
    /// Writes after which a process flushes the drive, by fsync and by fdatasync; 0: never.
    pub(in crate::task) flushes: [u64; 2],
    /// Whether a process flushes after its last write, and at the end of each walk through its files.
    pub(super) flushes_at_end: bool,
    pub(super) flushes_each_way: bool,
    pub(super) writes_as: RequestKind,
    pub(super) think_time: u64,
    pub(super) think_spin: u64,
    pub(super) think_cycles: Cycles,
    pub(super) pauses: PauseRule,
    /// Mean time between reads, and between writes, in us, if requests arrive as a Poisson process.
    pub(super) poisson: Option<[u64; 2]>,
    /// Whether the time in pauses is not made up for by a higher rate afterwards.
    pub(super) forgives_pauses: bool,
    /// Whether the job's rates count bytes; otherwise they count requests.
    pub(super) counts_bytes: bool,
    /// What the smallest read, and the smallest write, count towards the job's rates: bytes, or 1.
    pub(super) units: [u64; 2],
}

/// A job's part in a flow, compiled.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowSetup {
    /// Index of the flow.
    pub(super) flow: usize,
    pub(super) weight: u32,
    /// How long a process that is ahead sleeps in ns; 0: it spins.
    pub(super) sleep: u64,
}

/// Which requests of a job are trims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trims {
    None,
    All,
    /// Every second request is a trim, beginning with the first.
    Alternate,
}

impl JobSetup {
    /// Sets the CPU sets that the job's processes take in turn.
    pub(in crate::task) fn set_cpu_sets(&mut self, sets: Vec<usize>) {
        self.cpu_sets = sets;
    }

    /// Whether a process that has made so many requests, with so many bytes together, has more to do.
    #[inline(always)]
    pub(crate) fn has_more_to_do(&self, requests: u64, bytes: u64) -> bool {
        self.bytes.is_none_or(|n| bytes < n) && self.requests.is_none_or(|n| requests < n)
    }

    /// Work in cycles on a write's content inside its latency, besides the kernel's.
    #[inline(always)]
    pub(in crate::task) fn work_on_written_data(&self, bytes: u64) -> Cycles {
        self.content_cycles * (bytes / 512)
    }

    /// Whether a helper submits the process's request with this number, from 0.
    #[inline(always)]
    pub(in crate::task) fn hands_over_request(&self, request_number: u64) -> bool {
        self.helpers
            .is_some_and(|helpers| helpers.submits(request_number))
    }

    /// Whether the job replays a block trace or a log.
    pub(crate) fn replays_trace(&self) -> bool {
        self.replay.is_some()
    }

    /// Whether helpers submit all requests of the job, and wait for them.
    pub(in crate::task) fn submits_by_threads(&self) -> bool {
        self.helpers.is_some_and(HelperSetup::waits)
    }

    /// Whether helpers check what the job reads.
    pub(super) fn checks_by_helpers(&self) -> bool {
        self.helpers.is_some_and(HelperSetup::checks)
    }

    /// Whether the process's request with this number carries data, and is no trim.
    pub(crate) fn request_has_data(&self, request_number: u64) -> bool {
        match self.trims {
            Trims::None => true,
            Trims::All => false,
            Trims::Alternate => !request_number.is_multiple_of(2),
        }
    }
}

/// Longest think time: its sum with any simulated time cannot overflow.
const MAX_THINK_TIME: Nanoseconds = Nanoseconds(315_360_000_000_000_000);

/// Longest think time that keeps a CPU busy, so that its cycles cannot overflow.
const MAX_SPIN: Nanoseconds = Nanoseconds(900_000_000_000);

/// Which of a job's requests are trims; trims count as writes.
fn requests_that_are_trims(job: &FioJob) -> Trims {
    match (job.rw.trims(), job.rw.writes()) {
        (false, _) => Trims::None,
        (true, false) => Trims::All,
        (true, true) => Trims::Alternate,
    }
}

/// The values of an option for reads and for writes; in a job that only trims, the trims are the writes.
fn read_and_write_values<T: Copy>(job: &FioJob, values: &PerDirection<T>) -> [T; 2] {
    match requests_that_are_trims(job) {
        Trims::All => [values.read, values.trim],
        Trims::None | Trims::Alternate => [values.read, values.write],
    }
}

/// Smallest blocks, then largest blocks, each pair for reads and for writes.
fn smallest_and_largest_blocks(job: &FioJob) -> [[u64; 2]; 2] {
    let blocks = read_and_write_values(job, &job.block_size);
    match job.read_and_write_sizes_if_varying() {
        None => [blocks, blocks],
        Some(sizes) => [
            sizes.each_ref().map(IoSizes::smallest),
            sizes.each_ref().map(IoSizes::largest),
        ],
    }
}

/// How many bytes a sequential job with gaps of `skip` bytes transfers: fio ends it where an I/O would reach beyond the end of
/// the file, and goes on from the other end if the next one would begin there. `is_whole_file`: nothing lies behind these bytes.
fn bytes_transferred_with_gaps(size: u64, block: u64, skip: i64, is_whole_file: bool) -> u64 {
    let Some(every) = u64::try_from(skip)
        .ok()
        .map(|skip| skip.saturating_add(block))
    else {
        return size;
    };
    let Some(last) = size.checked_sub(block) else {
        return 0;
    };
    let fit = last / every + 1;
    if is_whole_file && last.is_multiple_of(every) {
        // The last I/O ends with the file.
        return fit * block;
    }
    match fit.checked_mul(every) {
        Some(next) if next < size => fit * block,
        _ => size,
    }
}

/// Periods from one request to the next, for reads and for writes; `None` if the job limits no rate.
fn rate_periods(job: &FioJob) -> Option<[Period; 2]> {
    // Where sizes vary, fio counts bytes, and an I/O of rate_iops has those of the smallest.
    let vary = job.block_sizes.any_size_varies();
    let rates = job.requested_rates();
    let [least, _] = smallest_and_largest_blocks(job);
    let both = [(rates.read, least[0]), (rates.write, least[1])]
        .map(|(rate, block)| Period::new(rate, block, vary));
    both.iter().any(|p| p.has_limit()).then_some(both)
}

/// Refuses a job's times that are too long for their sums, or a runtime of 0.
fn check_job_times(job: &FioJob) -> Result<(), String> {
    for (time, what) in [
        (job.runtime, "runtime"),
        (job.ramp_time, "ramp_time"),
        (Some(job.startdelay.1), "startdelay"),
    ] {
        if time.is_some_and(|t| t.0 > MAX_TIME) {
            return Err(format!("a {what} of more than a year"));
        }
    }
    if job.runtime.is_some_and(|t| t.0 == 0) {
        return Err("a runtime of 0".to_owned());
    }
    Ok(())
}

/// Compiles the jobs of a fio file on a machine; `program` is the program's work in cycles between two I/Os.
pub(crate) fn compile_jobs(
    file: &FioJobFile,
    machine: &Machine,
    io_uring_iowait: bool,
    program: Cycles,
) -> Result<Vec<JobSetup>, SimError> {
    file.refuse_unmodelled_options()?;
    // fio 3.33 keeps one switch for the whole file (`exitall_on_terminate`); what ends is each job's own affair.
    let ends_others = file.jobs.iter().any(|job| job.exitall);
    let mut setups = Vec::with_capacity(file.jobs.len());
    for (source, groups) in file.jobs.iter().zip(number_groups(&file.jobs)) {
        let journals = machine.file_system.is_some() && !source.goes_to_devices();
        let mut setup = compile_job(source, groups, &machine.drive, (io_uring_iowait, journals))?;
        setup.polling = PollingSetup::new(source, machine).map_err(|what| SimError::Workload {
            job: source.name.clone(),
            what,
        })?;
        setup.exit = ends_others.then_some(source.exit_what);
        setup.think_cycles += program;
        setup.tick = (machine.emulator.as_ref()).map_or(0, |_| machine.tick_rate().period().0);
        setup.wait_for = (source.wait_for.as_ref())
            .and_then(|name| file.jobs.iter().position(|other| other.name == *name));
        setups.push(setup);
    }
    number_flows(&mut setups, &file.jobs);
    Ok(setups)
}

/// Numbers the flows of all jobs.
fn number_flows(setups: &mut [JobSetup], jobs: &[FioJob]) {
    let mut ids: Vec<u32> = Vec::new();
    for (setup, job) in setups.iter_mut().zip(jobs) {
        if job.flow.weight == 0 {
            continue;
        }
        let known = ids.iter().position(|id| *id == job.flow.id);
        let flow = known.unwrap_or_else(|| {
            ids.push(job.flow.id);
            ids.len() - 1
        });
        setup.paced = true;
        setup.flow = Some(FlowSetup {
            flow,
            weight: job.flow.weight,
            sleep: job.flow.sleep.0,
        });
    }
}

/// Compiles one fio job on a drive, in groups with these numbers.
///
/// # Errors
/// The job asks for something that is not modelled.
fn compile_job(
    job: &FioJob,
    (group, report_group): (usize, usize),
    drive: &DriveModel,
    (io_uring_iowait, journals): (bool, bool),
) -> Result<JobSetup, SimError> {
    check_job(job, drive).map_err(|what| SimError::Workload {
        job: job.name.clone(),
        what,
    })?;
    let read_percent = read_percent(job);
    // The kernel sends no flush to a drive without a volatile cache, but writes back what is dirty.
    let volatile = drive.flush_us.micros_to_time().0 > 0;
    let flushes = job.rw.writes() && (volatile || journals || job.writes_to_page_cache());
    let cache = CacheJob::new(job, drive.capacity_in_bytes());
    let [least, _] = smallest_and_largest_blocks(job);
    let limits = job.process_limits(drive.capacity_in_bytes());
    let ramp = job.ramp_time.unwrap_or(Nanoseconds::ZERO);
    let longest = job.at_most.or(limits.time).unwrap_or(LONGEST_UNTIMED);
    let end = limits.time.unwrap_or(longest).min(longest).0;
    let replay = ReplaySetup::for_job(job, drive)?;
    let periods = rate_periods(job);
    let (buffer_cycles, content_cycles) = buffer_work_outside_and_inside_latency(job);
    let walk = if replay.is_some() {
        None
    } else {
        Walk::for_job_if_positions_matter(job, drive.capacity_in_bytes())
    };
    let counts_bytes = job.block_sizes.any_size_varies();
    let units = if counts_bytes { least } else { [1; 2] };
    Ok(JobSetup {
        paced: periods.is_some() || job.thinktime.0 > 0,
        read_percent,
        depth: if job.submits_by_threads {
            // Each thread has an I/O in flight, whatever the engine.
            job.iodepth
        } else {
            job.effective_iodepth()
        },
        batch: job.batching_unless_one_by_one(),
        most: job.most_ios_reaped_per_call() as usize,
        processes: job.numjobs,
        group,
        report_group,
        periods,
        submits_alone: !job.ioengine.is_synchronous()
            && !job.polling.submissions
            && job.batching_unless_one_by_one().is_none(),
        polling: PollingSetup::default(),
        iowait: job.waits_as_iowait(io_uring_iowait),
        buffered: !job.is_direct(),
        // `io_read()` (`io_uring/rw.c`, Linux 6.12).
        reads_again: !job.is_direct() && job.ioengine == IoEngine::IoUring,
        cache,
        direct_file: None,
        end: Some(ramp.0 + end),
        cut: match &replay {
            // Whoever gives a time asks for that window of the trace.
            Some(replay) => replay.may_be_cut_off_at(end, job.at_most.or(limits.time).is_some()),
            None => limits.time.is_none_or(|t| t.0 > end),
        },
        ramp: ramp.0,
        delay: [job.startdelay.0.0, job.startdelay.1.0],
        tick: 0,
        exit: None,
        wait_for: None,
        cpu_sets: Vec::new(),
        bytes: transferred_bytes(job, drive),
        requests: limits.ios,
        block: read_and_write_values(job, &job.block_size),
        settles_size: walk.is_some()
            || (read_percent > 0 && buffer_cycles[0] > 0)
            || (read_percent < 100 && buffer_cycles[1] + content_cycles > 0),
        walk,
        replay,
        read_back: ReadBack::for_job(job),
        check_cycles: if job.checking_threads() > 0 {
            0
        } else {
            (job.verify.checksum).map_or(0, Checksum::cycles_per_kib)
        },
        helpers: HelperSetup::new(job),
        search: DepthSearch::for_job(job),
        steady: SteadyStateDetector::for_job(job),
        steady_as_group: job.group_reporting,
        flow: None,
        flushes_before_second_pass: flushes,
        trims: requests_that_are_trims(job),
        buffer_cycles,
        content_cycles,
        class: Class::fair_with_nice(job.nice),
        random: job.rw.is_random(),
        uneven: UnevenPlaces::for_buffered_job(
            job,
            limits.span,
            least[usize::from(read_percent == 0)],
        ),
        span: limits.span,
        flushes: if flushes {
            [job.fsync, job.fdatasync].map(u64::from)
        } else {
            [0; 2]
        },
        flushes_at_end: flushes && (job.end_fsync || job.fsync_on_close),
        flushes_each_way: !job.time_based,
        writes_as: if !(job.sync && flushes) || cache.is_some() {
            RequestKind::Plain
        } else {
            durable_write_kind(job)
        },
        think_time: job.thinktime.0,
        think_spin: job.thinktime_spin.0,
        think_cycles: job.thinkcycles,
        pauses: PauseRule::new(job),
        poisson: periods
            .filter(|_| job.rate_poisson)
            .map(|periods| [0, 1].map(|i| periods[i].mean_distance_in_us(units[i]))),
        forgives_pauses: job.rate_ignores_thinktime,
        counts_bytes,
        units,
    })
}

/// Percentage of reads among a job's requests, 0 to 100.
fn read_percent(job: &FioJob) -> u8 {
    match (job.rw.reads(), job.rw.writes()) {
        (true, true) => job.rwmixread,
        (true, false) => 100,
        _ => 0,
    }
}

/// Kind of a durable write (`O_SYNC`): the kernel has a direct one on the media by REQ_FUA, and flushes besides if the system
/// call waits for the write (`blkdev_write_iter()`, Linux 6.12).
fn durable_write_kind(job: &FioJob) -> RequestKind {
    if job.ioengine.is_synchronous() || job.ioengine == IoEngine::Posixaio {
        RequestKind::Synchronous
    } else {
        RequestKind::Through
    }
}

/// Number of bytes that each process transfers; `None` if the job does not limit them.
fn transferred_bytes(job: &FioJob, drive: &DriveModel) -> Option<u64> {
    let read_percent = read_percent(job);
    let one_way = matches!(read_percent, 0 | 100) && !job.rw.is_random();
    let bytes = job.process_limits(drive.capacity_in_bytes()).bytes?;
    // Where positions matter, the walk has the gaps.
    let has_walk = job.reads_back() || job.reads_depend_on_cached_pages();
    if one_way && job.step != 0 && !has_walk {
        let [least, _] = smallest_and_largest_blocks(job);
        return Some(bytes_transferred_with_gaps(
            bytes,
            least[usize::from(read_percent == 0)],
            job.step,
            !job.goes_to_devices(),
        ));
    }
    Some(bytes)
}

/// Checks that all a job asks for is modelled on a drive.
///
/// # Errors
/// The first thing that is not modelled.
fn check_job(job: &FioJob, drive: &DriveModel) -> Result<(), String> {
    if job.thinktime > MAX_THINK_TIME {
        return Err("thinktime of more than ten years".to_owned());
    }
    if job.thinktime_spin > MAX_SPIN {
        return Err("thinktime_spin of more than a quarter of an hour".to_owned());
    }
    check_flush_time_is_known(job, drive)?;
    check_drive_rate_is_known(job, drive)?;
    check_job_covers_a_block(job, drive)?;
    check_job_times(job)
}

/// Checks that a job's offset and size leave a block on the drive.
fn check_job_covers_a_block(job: &FioJob, drive: &DriveModel) -> Result<(), String> {
    let has_no_block = transferred_bytes(job, drive) == Some(0);
    let capacity = drive.capacity_in_bytes();
    let begins_beyond =
        job.goes_to_devices() && job.byte_offset_of_process(0, capacity) >= capacity;
    if begins_beyond && (has_no_block || drive.capacity_gb.is_given()) {
        return Err(format!(
            "an offset beyond the end of the drive, which has {capacity} bytes"
        ));
    }
    if has_no_block {
        return Err("a size of less than a block; raise `size`, or lower `bs`".to_owned());
    }
    Ok(())
}

/// Checks that a drive's flush time is known, if a job flushes.
fn check_flush_time_is_known(job: &FioJob, drive: &DriveModel) -> Result<(), String> {
    let flush = match job {
        FioJob { sync: true, .. } => "sync=1",
        job if job
            .replayed_totals()
            .is_some_and(|totals| totals.flushes > 0) =>
        {
            "a flush of the trace"
        }
        job if job.fsync > 0 || job.fdatasync > 0 => "fsync",
        // One flush at the end of a job is left out where nobody knows its time.
        _ => return Ok(()),
    };
    if job.rw.writes() && !drive.flush_us.is_given() {
        return Err(format!(
            "{flush} on a drive whose time of a flush is not known. Give drive.flush_us in the machine's file, 0 for a \
             drive without a volatile cache",
        ));
    }
    Ok(())
}

/// Whether a drive's rate is known, if a job transfers more than 4 KiB at once: the drive's service times are those of 4 KiB requests.
fn check_drive_rate_is_known(job: &FioJob, drive: &DriveModel) -> Result<(), String> {
    let read_percent = read_percent(job);
    let [_, most] = smallest_and_largest_blocks(job);
    // What is read back has the sizes of writes.
    let largest_read = if job.reads_back() {
        most[0].max(most[1])
    } else {
        most[0]
    };
    let reads = (
        read_percent > 0 || job.reads_back(),
        largest_read,
        "read_mb_per_s",
        &drive.read_mb_per_s,
    );
    let writes = (
        read_percent < 100,
        most[1],
        "write_mb_per_s",
        &drive.write_mb_per_s,
    );
    for (used, bytes, key, rate) in [reads, writes] {
        if used && bytes > MAX_BLOCK {
            return Err("blocks of more than 1 GiB".to_owned());
        }
        if used && bytes > BLOCK && rate.value <= 0.0 {
            return Err(format!(
                "blocks of more than 4k on a drive whose rate is not known; give drive.{key} in the machine's file"
            ));
        }
    }
    if job.reads_depend_on_cached_pages() && drive.read_mb_per_s.value <= 0.0 {
        return Err(
            "buffered reads, which are read ahead in large requests, on a drive whose rate is not known; give \
             drive.read_mb_per_s in the machine's file, or set direct=1"
                .to_owned(),
        );
    }
    if job.writes_to_page_cache() && drive.write_mb_per_s.value <= 0.0 {
        return Err(
            "buffered writes, which are written back in large requests, on a drive whose rate is not known; give \
             drive.write_mb_per_s in the machine's file, or set direct=1"
                .to_owned(),
        );
    }
    Ok(())
}
