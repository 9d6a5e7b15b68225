//! A machine, a workload and two policies, compiled into what the engine needs.

pub(crate) mod policies;

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{
    BackgroundTimer, Beside, Cluster, Cppc, DriveModel, Figure, IoPath, Package, PackageSleep, Per,
    Runs, Uncore,
};
use wakepath_policies::freq::amd_pstate::{AmdGovernor, PerfScale};
use wakepath_policies::freq::{FreqPolicy, FrequencyTable};
use wakepath_policies::idle::Governor;
use wakepath_policies::idle::fit::NO_LATENCY_REQUEST;
use wakepath_units::{Kilohertz, Nanoseconds, TickRate};
use wakepath_workloads::Workload;
use wakepath_workloads::fio::{
    Batching, Checksum, ExitWhat, Filling, FioJob, IoEngine, PerDirection, Rate, Sizes,
    ThinkBlocks, Walk,
};
use wakepath_workloads::rtapp::{Calibration, RtAppFile};

use crate::block::completion::CompletionSetup;
use crate::block::request::RequestKind;
use crate::core::basics::Direction;
use crate::core::basics::{CpuId, Cycles, FULL_SHARE};
use crate::core::basics::{Interrupt, Timer};
use crate::core::random::ServiceTime;
use crate::cpu::idle_table::IdleTable;
use crate::drive::{Demand, Stripes};
use crate::emulator::state::EmulatorSetup;
use crate::error::SimError;
use crate::frequency::clocks::cluster::{ClusterSetup, CppcSetup, HwpSetup};
use crate::page_cache::state::{Caller, PageCacheSetup};
use crate::power::limit_setup::PowerLimitSetup;
use crate::scheduler::state::{Class, Tunables};
use crate::setup::policies::Policies;
use crate::task::rtapp::program::Programs;
use crate::task::state::PauseRule;
use wakepath_hardware::c1_demotion::DemotionRule;

/// Bytes of the requests that a drive's service times are about.
const BLOCK: u64 = 4096;

/// The largest block, so that no time overflows.
const MAX_BLOCK: u64 = 1 << 30;

/// The longest run in ns: a year.
const MAX_TIME: u64 = 365 * 24 * 3_600_000_000_000;

/// The longest that a job is simulated which says how much it does, and not how long.
pub const LONGEST_UNTIMED: Nanoseconds = Nanoseconds(60_000_000_000);

/// Longest time that an rt-app file with a duration is simulated for, if nobody asks for another one.
pub const LONGEST_TIMED: Nanoseconds = Nanoseconds(600_000_000_000);

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
fn buffer_work(job: &FioJob) -> ([Cycles; 2], Cycles) {
    if let Some(checksum) = job.verify.checksum {
        let check = checksum.cycles_per_kib();
        let fill = match job.verify.pattern {
            Some(_) => 0,
            None => FILL_CYCLES_PER_KIB,
        };
        // The pattern is compared when it is read only.
        let sum = if checksum == Checksum::Pattern {
            0
        } else {
            check
        };
        let per_kib = fill + sum;
        return ([check, 0], per_kib / 2);
    }
    match job.filling() {
        Filling::Untouched => ([0, 0], 0),
        Filling::Scrambled => ([0, 0], SCRAMBLE_CYCLES_PER_BLOCK),
        Filling::Copied => ([0, COPY_CYCLES_PER_KIB], 0),
        Filling::Random(share) => ([0, FILL_CYCLES_PER_KIB * u64::from(share) / 100], 0),
    }
}

fn share(of_one: f64) -> u64 {
    ((of_one * FULL_SHARE as f64).round() as u64).clamp(1, FULL_SHARE)
}

/// CPU work that one I/O costs, by where it is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IoCost {
    submission: Cycles,
    /// Of the submission, for each KiB beyond [`BLOCK`].
    per_kib: Cycles,
    interrupt: Cycles,
    resume: Cycles,
    /// Of the submission, the interrupt and the resumption: what is done only for a task that sleeps.
    pub(crate) deactivation: Cycles,
    pub(crate) reactivation: Cycles,
    switch: Cycles,
    /// Of a buffered read, for each [`BLOCK`] of it.
    page_cache: Cycles,
    /// Of the program between two I/Os.
    program: Cycles,
    /// What a flush costs more than another request until the drive has it.
    pub(crate) flush: Cycles,
    /// Of an asynchronous engine, in the submission and in the resumption.
    pub(crate) asynchronous: [Cycles; 2],
}

impl IoCost {
    fn new(of: &IoPath) -> Self {
        let per_io = of.kcycles_per_io.value * 1e3;
        let part = |share: &Figure| (per_io * share.value).round() as Cycles;
        let (submission, interrupt, resume) = (
            part(&of.submission_share),
            part(&of.interrupt_share),
            part(&of.resume_share),
        );
        let deactivation = part(&of.deactivation_share).min(submission);
        Self {
            submission: submission - deactivation,
            per_kib: of.kcycles_per_kib.kilocycles(),
            interrupt,
            resume,
            deactivation,
            reactivation: part(&of.reactivation_share).min(interrupt),
            switch: part(&of.switch_share).min(resume),
            page_cache: of.page_cache_kcycles.kilocycles(),
            program: of.program_kcycles.kilocycles(),
            flush: of.flush_kcycles.kilocycles(),
            asynchronous: {
                let both = of.asynchronous_kcycles.kilocycles();
                [both / 2, both - both / 2]
            },
        }
    }

    /// Whether it matters to a completion that the task sleeps.
    #[inline]
    pub(crate) fn depends_on_sleep(&self) -> bool {
        self.reactivation | self.switch > 0
    }

    /// Of submitting a request of so many bytes, until the drive has it.
    #[inline]
    pub(crate) fn submission(&self, bytes: u64) -> Cycles {
        self.submission + self.per_kib * (bytes.saturating_sub(BLOCK) / 1024)
    }

    /// Of the completion interrupt of a request, which wakes its task or not.
    #[inline]
    pub(crate) fn interrupt(&self, wakes: bool) -> Cycles {
        self.interrupt - if wakes { 0 } else { self.reactivation }
    }

    /// Of a task that goes on with so many completed requests, after it slept or not.
    #[inline]
    pub(crate) fn resume(&self, requests: usize, slept: bool) -> Cycles {
        let switch = if slept { self.switch } else { 0 };
        (self.resume - self.switch) * requests as Cycles + switch
    }

    /// Of the pages of a buffered read of so many bytes.
    #[inline]
    pub(crate) fn page_cache(&self, bytes: u64) -> Cycles {
        self.page_cache * bytes.div_ceil(BLOCK)
    }

    /// Whether the bytes matter.
    #[inline]
    pub(crate) fn depends_on_bytes(&self) -> bool {
        self.per_kib > 0
    }
}

/// The first kernel whose awake CPUs take over timers of the timer wheel from CPUs that sleep (`kernel/time/timer_migration.c`).
const PULLS_TIMERS: (u16, u16, u16) = (6, 9, 0);

/// Whether a machine's kernel does that. One that is not known is as Linux 6.12.
fn pulls_timers(machine: &Machine) -> bool {
    (machine.kernel).is_none_or(|kernel| kernel.release() >= PULLS_TIMERS)
}

/// What a CPU asks for as the longest exit latency, in ns.
pub(crate) fn latency_request(machine: &Machine, cpu: usize) -> i64 {
    let request = machine.latency_request(cpu);
    request.map_or(NO_LATENCY_REQUEST, |limit| limit.0 as i64)
}

fn kind_of(workload: &Workload) -> Beside {
    match workload {
        Workload::Fio(_) => Beside::Fio,
        Workload::RtApp(_) => Beside::RtApp,
    }
}

/// The first releases whose server for fair tasks stays when its CPU goes idle ("sched/deadline: Less agressive dl_server
/// handling").
const SERVES_IDLE_CPUS: [(u16, u16, u16); 2] = [(6, 12, 92), (6, 17, 0)];

/// The thread of RCU's grace periods as a source of background work: it sleeps for so many ticks before it scans
/// (`RCU_JIFFIES_TILL_FORCE_QS`).
fn grace_periods(machine: &Machine) -> Option<BackgroundSetup> {
    let hz = machine.hz.value;
    let ticks = 1 + u64::from(hz > 250.0) + u64::from(hz > 500.0);
    machine.rcu.as_ref().map(|rcu| BackgroundSetup {
        mean_interval: (ticks * machine.tick_rate().period().0) as f64,
        periodic: true,
        cycles: rcu.thread_kcycles.kilocycles(),
        callbacks: false,
        as_task: true,
        slack: 0,
        wheel: true,
        roams: true,
        pulled: pulls_timers(machine),
    })
}

/// The first kernel whose schedutil looks at `runnable_avg`, too (`cpu_util_cfs_boost()`).
const BOOSTS_RUNNABLE: (u16, u16, u16) = (6, 5, 0);

/// Whether a machine's kernel does that. One that is not known is as Linux 6.12.
fn counts_runnable(machine: &Machine, frequency: &FreqPolicy) -> bool {
    let schedutil = match frequency {
        FreqPolicy::Schedutil(_) => true,
        FreqPolicy::AmdPstate(of) => of.governor == AmdGovernor::Schedutil,
        _ => false,
    };
    schedutil && (machine.kernel).is_none_or(|kernel| kernel.release() >= BOOSTS_RUNNABLE)
}

/// Background work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackgroundSetup {
    pub(crate) mean_interval: f64,
    pub(crate) periodic: bool,
    pub(crate) cycles: Cycles,
    /// It leaves an RCU callback on its CPU.
    pub(crate) callbacks: bool,
    pub(crate) as_task: bool,
    /// How much earlier its timer may expire, in ns.
    pub(crate) slack: u64,
    /// Its timer is one of the timer wheel.
    pub(crate) wheel: bool,
    /// There is one, which the scheduler places.
    pub(crate) roams: bool,
    /// Its timer may expire on another CPU than its own while that sleeps.
    pub(crate) pulled: bool,
}

/// One job of the workload: what each of its processes does.
#[derive(Clone, Debug)]
pub(crate) struct JobSetup {
    pub(crate) name: String,
    /// Share of reads, 0 to 100.
    pub(crate) read_percent: u8,
    pub(crate) depth: u32,
    /// If requests are submitted or taken back together.
    pub(crate) batch: Option<Batching>,
    /// How many completed requests a process takes back at once.
    pub(crate) most: usize,
    pub(crate) processes: u32,
    /// It starts when all jobs of the groups before have ended.
    pub(crate) group: usize,
    /// When it stops issuing, in ns from its start.
    pub(crate) end: Option<u64>,
    /// Until when its requests do not count, in ns from its start.
    pub(crate) ramp: u64,
    /// Each process starts so many ns after the group, from and to.
    pub(crate) delay: [u64; 2],
    /// Its end is the end of its group, or of everything.
    pub(crate) exit: Option<ExitWhat>,
    /// Index of the job that has to end before it starts.
    pub(crate) wait_for: Option<usize>,
    /// The CPUs that its processes may run on in turn, as indices of [`Programs::cpu_sets`]; empty: all.
    pub(crate) cpu_sets: Vec<usize>,
    /// That is no limit of its own.
    pub(crate) cut: bool,
    /// Time from one read, and from one write, to the next, if that is limited.
    pub(crate) periods: Option<[Period; 2]>,
    /// How many bytes each process transfers.
    pub(crate) bytes: Option<u64>,
    /// How many requests each process makes.
    pub(crate) requests: Option<u64>,
    /// Bytes of a read and of a write.
    pub(crate) block: [u64; 2],
    /// How each process goes through its file, where its limits do not say that.
    pub(crate) walk: Option<Walk>,
    /// Which of its writes are trims, of no data.
    pub(crate) trims: Trims,
    /// Work on a KiB of the buffer of a read and of a write that is not part of their latency: filling it before it is
    /// written, checking it after it was read.
    pub(crate) buffer_cycles: [Cycles; 2],
    /// Work on each 512 bytes of what is written that is part of its latency.
    pub(crate) content_cycles: Cycles,
    /// How nice its processes are.
    pub(crate) class: Class,
    /// The size of a request is settled before its submission begins.
    pub(crate) settles_size: bool,
    /// Whether offsets are random; otherwise they count up.
    pub(crate) random: bool,
    /// Bytes that offsets cover.
    pub(crate) span: u64,
    /// Each request is submitted by a system call of its own, which does not wait for it.
    pub(crate) submits_alone: bool,
    /// Waiting for a completion counts as I/O wait.
    pub(crate) iowait: bool,
    /// Its reads go through the page cache, which has nothing of the file before the run.
    pub(crate) buffered: bool,
    /// If it uses the page cache, and somebody writes into that.
    pub(crate) cache: Option<CacheJob>,
    /// It thinks between its requests, or their rate is limited.
    pub(crate) paced: bool,
    /// Writes after which a process flushes the drive, by fsync and by fdatasync; 0: never.
    pub(crate) flushes: [u64; 2],
    /// A process flushes after its last write, and after that of each way through its files.
    pub(crate) flushes_at_end: bool,
    pub(crate) flushes_each_way: bool,
    pub(crate) writes_as: RequestKind,
    pub(crate) think_time: u64,
    pub(crate) think_spin: u64,
    pub(crate) think_cycles: Cycles,
    pub(crate) pauses: PauseRule,
    /// Mean distance of reads and of writes in us, if they are those of a Poisson process.
    pub(crate) poisson: Option<[u64; 2]>,
    /// Time in pauses is not made up for by a higher rate.
    pub(crate) forgives_pauses: bool,
    /// Its rates count bytes, not requests.
    pub(crate) counts_bytes: bool,
    /// What the smallest read and the smallest write count for its rates.
    pub(crate) units: [u64; 2],
}

/// Which requests of a job are trims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trims {
    None,
    All,
    /// Every second one, beginning with the first.
    Alternate,
}

impl JobSetup {
    /// Whether a process has something left to do that has made so many requests of so many bytes together.
    #[inline(always)]
    pub(crate) fn has_more(&self, requests: u64, bytes: u64) -> bool {
        self.bytes.is_none_or(|n| bytes < n) && self.requests.is_none_or(|n| requests < n)
    }

    /// Whether the request of this number carries data.
    pub(crate) fn has_data(&self, number: u64) -> bool {
        match self.trims {
            Trims::None => true,
            Trims::All => false,
            Trims::Alternate => !number.is_multiple_of(2),
        }
    }
}

/// What a job does with a page cache into which jobs write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheJob {
    /// The file of the first process, and whether all others have that, too; else they have the next ones.
    file: usize,
    shared: bool,
    /// Where the first process begins in its file, and how much further each other one.
    offset: u64,
    increment: u64,
    /// A page of which a part is written is read first, unless it is cached: it is there.
    pub(crate) reads_parts: bool,
    /// Each write ends when its data are on the media.
    pub(crate) syncs: bool,
}

impl CacheJob {
    fn new(job: &FioJob, capacity: u64) -> Option<Self> {
        let offset = job.offset_of(0, capacity);
        (!job.is_direct()).then(|| Self {
            file: 0,
            shared: job.shared_files().is_some(),
            offset,
            increment: job.offset_of(1, capacity) - offset,
            // A file that fio makes has nothing beyond its end.
            reads_parts: job.is_on_device() || job.rw.reads(),
            syncs: job.sync,
        })
    }

    /// What a process has to do with the page cache.
    pub(crate) fn caller(&self, process: usize) -> Caller {
        let file = self.file + if self.shared { 0 } else { process };
        let base = self.increment.saturating_mul(process as u64);
        Caller::new(file, self.offset.saturating_add(base))
    }
}

/// Gives the files of jobs their numbers. Returns how many there are.
fn number_files(setups: &mut [JobSetup], jobs: &[FioJob]) -> usize {
    let mut shared: Vec<(&str, usize)> = Vec::new();
    let mut files = 0;
    for (setup, job) in setups.iter_mut().zip(jobs) {
        let Some(cache) = &mut setup.cache else {
            continue;
        };
        cache.file = files;
        let Some(name) = job.shared_files() else {
            files += setup.processes as usize;
            continue;
        };
        let known = shared.iter().find(|(other, _)| *other == name);
        if let Some((_, file)) = known {
            cache.file = *file;
        } else {
            shared.push((name, files));
            files += 1;
        }
    }
    files
}

/// The page cache, if a job writes into it.
fn page_cache(
    machine: &Machine,
    setups: &mut [JobSetup],
    jobs: &[FioJob],
) -> Option<PageCacheSetup> {
    if !jobs.iter().any(FioJob::buffers_writes) {
        // What is read once is never cached.
        for job in setups {
            job.cache = None;
        }
        return None;
    }
    let files = number_files(setups, jobs);
    let of = &machine.page_cache;
    // What a machine says of reads holds for writes, too, unless it says something of them.
    let page = match &machine.io_path.page_cache_kcycles {
        of_reads if of_reads.is_given() && of.is_assumed() => of_reads,
        _ => &of.page_kcycles,
    };
    let mut remembers = false;
    for job in setups {
        if let Some(cache) = &job.cache {
            job.settles_size = true;
            let whole = |bytes: u64| bytes.is_multiple_of(BLOCK);
            let pages = !job.counts_bytes
                && [job.block[1], cache.offset, cache.increment]
                    .into_iter()
                    .all(whole);
            remembers |= job.read_percent > 0 || !pages;
        }
    }
    Some(PageCacheSetup {
        pages: machine.page_cache_pages(),
        call: of.write_kcycles.kilocycles(),
        page: page.kilocycles(),
        write_back: of.write_back_kcycles.kilocycles(),
        files,
        reads: jobs.iter().any(|job| job.rw.reads()),
        remembers,
    })
}

/// A rate as a share: `requests` of them, or so many bytes where block sizes vary, take `ns`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Period {
    ns: u128,
    requests: u128,
}

impl Period {
    /// The mean distance of I/Os of so many units in us, as whole numbers as fio has it (`usec_for_io()`).
    fn mean_us(self, units: u64) -> u64 {
        let per_second = self.requests * 1_000_000_000 / (self.ns * u128::from(units)).max(1);
        match per_second {
            _ if self.ns == 0 => 0,
            // fio 3.33 divides by zero.
            0 => (self.ns * u128::from(units) / self.requests / 1000) as u64,
            rate => (1_000_000 / rate) as u64,
        }
    }

    /// Before this time, in ns from the start of the job, the request of this number does not begin.
    pub(crate) fn start_of(self, request: u64) -> u64 {
        (u128::from(request) * self.ns / self.requests) as u64
    }

    /// How many requests, or bytes where block sizes vary, the rate asks for in so many ns; 0 without a limit.
    pub(crate) fn asked_in(self, ns: u64) -> f64 {
        if self.ns == 0 {
            return 0.0;
        }
        self.requests as f64 / self.ns as f64 * ns as f64
    }
}

/// How requests reach the drives.
#[derive(Clone, Debug)]
pub(crate) struct VolumeSetup {
    pub(crate) stripes: Stripes,
    /// Mean time of an access, for reads and writes.
    pub(crate) access: [ServiceTime; 2],
    /// Time of a flush.
    pub(crate) flush: u64,
    /// Rate of the link in kB/s, for reads and writes; 0: not known.
    link: [u64; 2],
    /// Rate of the media for one request; 0: as the link.
    stream: [u64; 2],
    /// Units of a drive, where a read waits for that of its address.
    pub(crate) units: Option<usize>,
}

impl VolumeSetup {
    /// What a request of `bytes`, or a piece of one, asks of its drive.
    #[inline(always)]
    pub(crate) fn demand(&self, direction: Direction, bytes: u64, access: u64) -> Demand {
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

/// Everything that is the same for every run of one policy combination.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) tick: TickRate,
    /// Of the tick, in ns.
    pub(crate) tick_period: u64,
    /// By cluster.
    pub(crate) idle: Vec<IdleTable>,
    pub(crate) clusters: Vec<ClusterSetup>,
    pub(crate) home: usize,
    /// By CPU: only tasks that are bound there; empty if there are none such.
    pub(crate) isolated: Vec<bool>,
    /// By CPU: no tick while it has one task; empty if there are none such.
    pub(crate) nohz_full: Vec<bool>,
    /// Of a system call on such a CPU.
    pub(crate) syscall_cycles: Cycles,
    /// By CPU: of how many CPUs it does the background work.
    pub(crate) keeps_house_for: Vec<u32>,
    pub(crate) ipi: u64,
    pub(crate) tick_cycles: Cycles,
    /// How much later a sleep of fio's ends than asked for, in ns.
    pub(crate) timer_slack: u64,
    /// How long fio finds that its shortest sleep takes, if timers have slack.
    pub(crate) shortest_sleep: u64,
    /// Whether how many tasks could run counts for the frequency.
    pub(crate) counts_runnable: bool,
    /// Of a task that has moved to another core.
    pub(crate) migration_cycles: Cycles,
    /// Of a task that runs on a CPU on which another one ran last.
    pub(crate) switch_cycles: Cycles,
    pub(crate) io: IoCost,
    pub(crate) completion: CompletionSetup,
    pub(crate) demotion: Option<DemotionRule>,
    pub(crate) uncore: Option<Uncore>,
    pub(crate) power_limit: Option<PowerLimitSetup>,
    pub(crate) package_sleep: PackageSleep,
    pub(crate) background: Vec<BackgroundSetup>,
    pub(crate) volume: VolumeSetup,
    pub(crate) jobs: Vec<JobSetup>,
    /// If somebody writes into it.
    pub(crate) page_cache: Option<PageCacheSetup>,
    pub(crate) programs: Programs,
    /// Work of RCU's soft interrupt, if CPUs wait for grace periods.
    pub(crate) rcu: Option<Cycles>,
    /// Work of schedutil's thread with each change of frequency, if there is one, and of the interrupt that wakes it.
    pub(crate) sugov: Option<Cycles>,
    pub(crate) sugov_interrupt: Cycles,
    /// Work of menu each further time that it goes over its intervals.
    pub(crate) menu_round: Cycles,
    /// Each CPU has a server for fair tasks, whose timer runs while it idles.
    pub(crate) fair_server: bool,
    /// If the CPUs take turns.
    pub(crate) emulator: Option<EmulatorSetup>,
    pub(crate) tunables: Tunables,
    /// The clusters differ in capacity.
    pub(crate) unequal_clusters: bool,
    /// Threads of some core slow each other down.
    pub(crate) smt: bool,
}

impl Setup {
    pub(crate) fn new(
        machine: &Machine,
        workload: &Workload,
        policies: &Policies,
    ) -> Result<Self, SimError> {
        let mut jobs = match workload {
            Workload::Fio(file) => {
                file.check_modelled()?;
                file.jobs
                    .iter()
                    .scan(0, |group, j| {
                        *group += usize::from(j.stonewall && j.line != file.jobs[0].line);
                        Some(job(j, *group, &machine.drive, policies.io_uring_iowait))
                    })
                    .collect::<Result<Vec<_>, _>>()?
            }
            Workload::RtApp(_) => Vec::new(),
        };
        let page_cache = match workload {
            Workload::Fio(file) => page_cache(machine, &mut jobs, &file.jobs),
            Workload::RtApp(_) => None,
        };
        let io = IoCost::new(&machine.io_path);
        for job in &mut jobs {
            job.think_cycles += io.program;
            if machine.emulator.is_some() {
                // A guest's ticks do not wait for its jobs: they start at any time between two.
                job.delay[1] += machine.tick_rate().period().0;
            }
        }
        let idle = machine.cluster.iter();
        let idle = idle.map(|cluster| IdleTable::new(machine, cluster, policies.poll));
        let idle = idle.collect::<Result<Vec<_>, _>>()?;
        let clusters = clusters(machine, &policies.frequency)?;
        let biggest = clusters
            .iter()
            .filter_map(|c| c.speed.last().copied())
            .max();
        let programs = match workload {
            Workload::Fio(file) => {
                let mut programs = Programs::default();
                for (setup, job) in jobs.iter_mut().zip(&file.jobs) {
                    setup.wait_for = (job.wait_for.as_ref())
                        .and_then(|name| file.jobs.iter().position(|other| other.name == *name));
                    setup.cpu_sets = programs.cpu_sets_of(job, machine.cpus());
                }
                programs
            }
            Workload::RtApp(file) => {
                let khz = calibration_khz(file, &clusters, biggest.unwrap_or(1))?;
                let default = match file.duration {
                    Some(_) => LONGEST_TIMED,
                    None => LONGEST_UNTIMED,
                };
                let longest = file.at_most.unwrap_or(default);
                Programs::new(file, khz, machine.cpus(), longest)?
            }
        };
        let home = machine
            .cluster
            .iter()
            .position(|c| c.name == machine.scheduler.home.cluster)
            .unwrap_or(0);
        let timer_slack = machine.scheduler.timer_slack_us.micros().0;
        let shortest_sleep = if timer_slack > 0 {
            let (table, tick) = (&idle[home], machine.tick_rate());
            crate::cpu::shortest_sleep::shortest_sleep(
                1000 + timer_slack,
                table,
                &mut Governor::in_kernel(&policies.idle, &table.declared, tick),
                latency_request(machine, clusters[home].first_cpu),
                tick,
            )
        } else {
            0
        };
        let spread = machine.drive.spread.value;
        let service = |mean: &Figure| ServiceTime::new(mean.value * 1e3, spread);
        Ok(Self {
            tick: machine.tick_rate(),
            tick_period: machine.tick_rate().period().0,
            idle,
            clusters,
            home,
            isolated: listed(&machine.isolation.isolcpus, machine),
            nohz_full: listed(&machine.isolation.nohz_full, machine),
            syscall_cycles: machine.isolation.syscall_kcycles.kilocycles(),
            keeps_house_for: {
                let mut served = vec![0; machine.cpus()];
                for cpu in 0..machine.cpus() {
                    served[machine.housekeeper_of(cpu)] += 1;
                }
                served
            },
            ipi: machine.scheduler.ipi_us.micros().0,
            tick_cycles: machine.scheduler.tick_kcycles.kilocycles(),
            timer_slack,
            shortest_sleep,
            counts_runnable: counts_runnable(machine, &policies.frequency),
            migration_cycles: machine.scheduler.migration_kcycles.kilocycles(),
            switch_cycles: machine.scheduler.switch_kcycles.kilocycles(),
            io,
            completion: CompletionSetup::new(machine),
            demotion: DemotionRule::new(machine),
            uncore: machine.uncore.clone(),
            power_limit: PowerLimitSetup::new(machine),
            package_sleep: (machine.package.as_ref())
                .map_or_else(PackageSleep::default, Package::sleep),
            background: machine
                .background
                .iter()
                .filter(|b| b.beside.is_none_or(|kind| kind == kind_of(workload)))
                .map(|b| BackgroundSetup {
                    mean_interval: b.every_ms.value * 1e6,
                    periodic: b.periodic,
                    cycles: b.kcycles.kilocycles(),
                    callbacks: b.callbacks,
                    as_task: b.runs == Runs::Task,
                    slack: match b.timer() {
                        BackgroundTimer::Sleep => timer_slack,
                        BackgroundTimer::Precise | BackgroundTimer::Wheel => 0,
                    },
                    wheel: b.timer() == BackgroundTimer::Wheel,
                    roams: b.per == Per::Machine,
                    pulled: b.per == Per::Machine
                        && b.timer() == BackgroundTimer::Wheel
                        && pulls_timers(machine),
                })
                .chain(grace_periods(machine))
                .collect(),
            sugov: (machine.scheduler.sugov_kcycles.is_given()
                && matches!(policies.frequency, FreqPolicy::Schedutil(_)))
            .then(|| machine.scheduler.sugov_kcycles.kilocycles()),
            sugov_interrupt: (machine.scheduler.sugov_interrupt_kcycles).kilocycles(),
            menu_round: machine.scheduler.menu_round_kcycles.kilocycles(),
            fair_server: machine
                .kernel
                .is_some_and(|kernel| kernel.has(&SERVES_IDLE_CPUS)),
            rcu: machine
                .rcu
                .as_ref()
                .map(|rcu| rcu.softirq_kcycles.kilocycles()),
            volume: VolumeSetup {
                stripes: Stripes {
                    drives: machine.drive.count,
                    chunk: (machine.drive.chunk_kib.value * 1024.0) as u64,
                },
                access: [
                    service(&machine.drive.read_service_us),
                    service(&machine.drive.write_service_us),
                ],
                flush: machine.drive.flush_us.micros().0,
                link: [
                    rate(&machine.drive.read_mb_per_s),
                    rate(&machine.drive.write_mb_per_s),
                ],
                stream: [
                    rate(&machine.drive.read_stream_mb_per_s),
                    rate(&machine.drive.write_stream_mb_per_s),
                ],
                units: machine.drive.addressed_units(),
            },
            jobs,
            page_cache,
            programs,
            emulator: {
                let khz = biggest.unwrap_or(1);
                (machine.emulator.as_ref()).map(|of| EmulatorSetup::new(of, u64::from(khz)))
            },
            tunables: Tunables::new(machine.cpus()),
            unequal_clusters: machine
                .cluster
                .windows(2)
                .any(|w| w[0].capacity != w[1].capacity),
            smt: machine
                .cluster
                .iter()
                .any(|c| c.smt_speedup.is_given() || c.smt_poll_loss.is_given()),
        })
    }

    /// Whether a CPU has no tick while it has one task.
    #[inline]
    pub(crate) fn is_nohz_full(&self, cpu: CpuId) -> bool {
        self.nohz_full.get(cpu).is_some_and(|yes| *yes)
    }

    /// What a system call costs a CPU besides the work of an I/O.
    #[inline]
    pub(crate) fn syscall(&self, cpu: CpuId) -> Cycles {
        if self.is_nohz_full(cpu) {
            self.syscall_cycles
        } else {
            0
        }
    }

    /// The task of grace periods, and the background source of that number, if there is one.
    #[inline]
    pub(crate) fn grace_period_thread(&self) -> Option<usize> {
        self.rcu.map(|_| self.background.len() - 1)
    }

    /// What it costs to serve an interrupt; of a completion, whether that `wakes` its task.
    pub(crate) fn cost(&self, interrupt: Interrupt, wakes: bool) -> Cycles {
        match interrupt {
            Interrupt::Completion(_) => self.io.interrupt(wakes),
            Interrupt::Tick | Interrupt::Timer(Timer::Lease | Timer::FairServer) => {
                self.tick_cycles
            }
            Interrupt::Timer(Timer::Background(i)) if !self.background[i].as_task => {
                self.background[i].cycles
            }
            Interrupt::Rcu => self.rcu.unwrap_or(0),
            Interrupt::Frequency(_) => self.sugov_interrupt,
            Interrupt::Timer(_) | Interrupt::Reschedule => 0,
        }
    }
}

/// The first kernel whose amd-pstate tells the scheduler how cores are ranked.
const FIRST_WITH_PREFERRED_CORES: (u16, u16, u16) = (6, 9, 0);

/// How much of the biggest core each core does per clock is its capacity per kHz over the biggest
/// core's capacity per kHz.
fn clusters(machine: &Machine, frequency: &FreqPolicy) -> Result<Vec<ClusterSetup>, SimError> {
    let per_khz = |c: &Cluster| f64::from(c.capacity) / f64::from(c.max_frequency().0);
    let biggest = machine
        .cluster
        .iter()
        .max_by_key(|c| c.capacity)
        .map_or(1.0, per_khz);
    let ranks = matches!(frequency, FreqPolicy::AmdPstate(of) if of.kernel.release() >= FIRST_WITH_PREFERRED_CORES);
    let mut first_cpu = 0;
    machine
        .cluster
        .iter()
        .map(|c| {
            let relative = per_khz(c) / biggest;
            let table = FrequencyTable::new(c.frequencies())
                .ok_or_else(|| SimError::NoFrequency(c.name.clone()))?;
            let hwp = c.hwp_ramp_ms.is_given().then(|| HwpSetup {
                ramp: c.hwp_ramp_ms.millis(),
                full_at: c.hwp_full_at_percent.value / 100.0,
            });
            let base = Kilohertz((c.base_mhz.value * 1e3).round() as u32);
            let setup = ClusterSetup {
                name: c.name.clone(),
                first_cpu,
                cpus: c.cpus,
                capacity: c.capacity,
                table,
                speed: c
                    .opps
                    .iter()
                    .map(|o| {
                        let khz = if c.fixed_speed {
                            c.max_frequency().0
                        } else {
                            o.khz
                        };
                        (f64::from(khz) * relative).round().max(1.0) as u32
                    })
                    .collect(),
                fixed_speed: c.fixed_speed,
                transition_latency: c.transition_latency_us.micros().0,
                stall: c.clock_stall_us.micros().0,
                threads_per_core: c.threads_per_core,
                busy_share: if c.smt_speedup.is_given() {
                    share(c.smt_speedup.value / c.threads_per_core as f64)
                } else {
                    FULL_SHARE
                },
                poll_share: share(1.0 - c.smt_poll_loss.value),
                cpus_per_clock: c.cpus_per_clock(),
                slot: c.clock_slot_us.micros().0,
                turbo: c
                    .turbo
                    .iter()
                    .map(|t| (t.active_cores, Kilohertz(t.khz)))
                    .collect(),
                base: c.base_mhz.is_given().then_some(base),
                hwp,
                cppc: c.cppc.as_ref().map(cppc),
                ranking: (c.cppc.iter())
                    .flat_map(|cppc| cppc.ranking.iter().map(|rank| cppc.frequency(*rank)))
                    .collect(),
                prefers_cores: ranks
                    && (c.cppc.as_ref())
                        .is_some_and(|cppc| cppc.preferred_cores && !cppc.ranking.is_empty()),
            };
            first_cpu += c.cpus;
            Ok(setup)
        })
        .collect()
}

/// Thousands of cycles that the CPU in whose time a file gives its work does in a second, at its highest frequency.
fn calibration_khz(
    file: &RtAppFile,
    clusters: &[ClusterSetup],
    biggest: u32,
) -> Result<u64, SimError> {
    let Calibration::Cpu(cpu) = file.calibration else {
        return Ok(biggest.into());
    };
    let cpus = clusters.iter().map(|c| c.cpus).sum::<usize>();
    let has_it = |c: &&ClusterSetup| (c.first_cpu..c.first_cpu + c.cpus).contains(&cpu);
    let Some(cluster) = clusters.iter().find(has_it) else {
        return Err(SimError::Workload {
            job: "global".to_owned(),
            what: format!(
                "a calibration on CPU {cpu}: the machine has CPUs 0 to {}",
                cpus.saturating_sub(1)
            ),
        });
    };
    let of_cluster = u64::from(cluster.speed.last().copied().unwrap_or(1));
    if cluster.fixed_speed {
        return Ok(of_cluster);
    }
    let [own, highest] = [cluster.own_limit(cpu), cluster.table.highest()].map(|f| u64::from(f.0));
    Ok((of_cluster * own / highest.max(1)).max(1))
}

/// Which CPUs are in a list; empty if none are.
fn listed(cpus: &[CpuId], machine: &Machine) -> Vec<bool> {
    if cpus.is_empty() {
        return Vec::new();
    }
    (0..machine.cpus()).map(|cpu| cpus.contains(&cpu)).collect()
}

fn cppc(of: &Cppc) -> CppcSetup {
    CppcSetup {
        scale: PerfScale {
            highest: of.highest,
            nominal: of.nominal,
            lowest_nonlinear: of.lowest_nonlinear,
            lowest: of.lowest,
            nominal_khz: of.nominal_mhz * 1000,
            lowest_khz: of.lowest_mhz * 1000,
            firmware_minimum: 0,
        },
        registers: of.registers,
        hardware: HwpSetup {
            ramp: of.ramp_ms.millis(),
            full_at: of.full_at_percent.value / 100.0,
        },
    }
}

/// In kB/s.
fn rate(megabytes_per_second: &Figure) -> u64 {
    (megabytes_per_second.value * 1e3).round() as u64
}

/// Longest think time: sums of it and of any simulated time cannot overflow.
const MAX_THINK_TIME: Nanoseconds = Nanoseconds(315_360_000_000_000_000);

/// Longest think time that keeps a CPU busy: its cycles are counted in pieces of a nanosecond.
const MAX_SPIN: Nanoseconds = Nanoseconds(900_000_000_000);

/// Which requests of a job are trims, which count as writes.
fn trims(job: &FioJob) -> Trims {
    match (job.rw.trims(), job.rw.writes()) {
        (false, _) => Trims::None,
        (true, false) => Trims::All,
        (true, true) => Trims::Alternate,
    }
}

/// Values for reads and for writes; trims are writes.
fn both<T: Copy>(job: &FioJob, of: &PerDirection<T>) -> [T; 2] {
    match trims(job) {
        Trims::All => [of.read, of.trim],
        Trims::None | Trims::Alternate => [of.read, of.write],
    }
}

/// The smallest and the largest block, each of reads and of writes.
fn bounds(job: &FioJob) -> [[u64; 2]; 2] {
    let blocks = both(job, &job.block_size);
    match job.sizes() {
        None => [blocks, blocks],
        Some(sizes) => [
            sizes.each_ref().map(Sizes::smallest),
            sizes.each_ref().map(Sizes::largest),
        ],
    }
}

/// How many bytes a sequential job with gaps of `skip` bytes transfers: fio ends it where an I/O would reach beyond the end of
/// the file, and goes on from the other end if the next one would begin there.
fn with_gaps(size: u64, block: u64, skip: i64) -> u64 {
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
    match fit.checked_mul(every) {
        Some(next) if next < size => fit * block,
        _ => size,
    }
}

/// At what distances requests begin, if the job limits their rate, in bytes or in I/Os.
fn periods(job: &FioJob) -> Option<[Period; 2]> {
    // Where sizes vary, fio counts bytes, and an I/O of rate_iops has those of the smallest.
    let vary = job.block_sizes.vary();
    let period = |rate: Option<Rate>, block: u64| match rate {
        Some(Rate::Bytes(bytes)) => Period {
            ns: u128::from(if vary { 1 } else { block }) * 1_000_000_000,
            requests: u128::from(bytes),
        },
        Some(Rate::Ios(ios)) => Period {
            ns: 1_000_000_000,
            requests: u128::from(ios) * u128::from(if vary { block } else { 1 }),
        },
        // A direction without a limit.
        None => Period { ns: 0, requests: 1 },
    };
    let rates = job.rates();
    let [least, _] = bounds(job);
    let both = [period(rates.read, least[0]), period(rates.write, least[1])];
    both.iter().any(|p| p.ns > 0).then_some(both)
}

/// The most that each of a job's times may be, so that sums of them do not overflow.
fn check_times(job: &FioJob) -> Result<(), String> {
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

fn job(
    job: &FioJob,
    group: usize,
    drive: &DriveModel,
    io_uring_iowait: bool,
) -> Result<JobSetup, SimError> {
    let unsupported = |what: &str| SimError::Workload {
        job: job.name.clone(),
        what: what.to_owned(),
    };
    for (time, most, what) in [
        (
            job.thinktime,
            MAX_THINK_TIME,
            "thinktime of more than ten years",
        ),
        (
            job.thinktime_spin,
            MAX_SPIN,
            "thinktime_spin of more than a quarter of an hour",
        ),
    ] {
        if time > most {
            return Err(unsupported(what));
        }
    }
    let read_percent = match (job.rw.reads(), job.rw.writes()) {
        (true, true) => job.rwmixread,
        (true, false) => 100,
        _ => 0,
    };
    let flush = match job {
        FioJob { sync: true, .. } => Some("sync=1"),
        job if job.fsync > 0 || job.fdatasync > 0 => Some("fsync"),
        // One flush at the end of a job is left out where nobody knows its time.
        _ => None,
    };
    if let Some(flush) = flush
        && job.rw.writes()
        && !drive.flush_us.is_given()
    {
        return Err(unsupported(&format!(
            "{flush} on a drive whose time of a flush is not known. Give drive.flush_us in the machine's file, 0 for a \
             drive without a volatile cache",
        )));
    }
    // The kernel sends no flush to a drive without a volatile cache, but writes back what is dirty.
    let volatile = drive.flush_us.micros().0 > 0;
    let flushes = job.rw.writes() && (volatile || job.buffers_writes());
    let cache = CacheJob::new(job, drive.capacity());
    let [least, most] = bounds(job);
    // The drive's service times are those of 4 KiB requests.
    for (used, bytes, key, rate) in [
        (
            read_percent > 0,
            most[0],
            "read_mb_per_s",
            &drive.read_mb_per_s,
        ),
        (
            read_percent < 100,
            most[1],
            "write_mb_per_s",
            &drive.write_mb_per_s,
        ),
    ] {
        if used && bytes > MAX_BLOCK {
            return Err(unsupported("blocks of more than 1 GiB"));
        }
        if used && bytes > BLOCK && rate.value <= 0.0 {
            return Err(unsupported(&format!(
                "blocks of more than 4k on a drive whose rate is not known; give drive.{key} in the machine's file"
            )));
        }
    }
    if job.buffers_writes() && drive.write_mb_per_s.value <= 0.0 {
        return Err(unsupported(
            "buffered writes, which are written back in large requests, on a drive whose rate is not known; give \
             drive.write_mb_per_s in the machine's file, or set direct=1",
        ));
    }
    let limits = job.limits(drive.capacity());
    let one_way = matches!(read_percent, 0 | 100) && !job.rw.is_random();
    let bytes = limits.bytes.map(|bytes| {
        if one_way && job.step != 0 {
            with_gaps(bytes, least[usize::from(read_percent == 0)], job.step)
        } else {
            bytes
        }
    });
    if bytes == Some(0) {
        return Err(unsupported("a size of less than a block"));
    }
    check_times(job).map_err(|what| unsupported(&what))?;
    let ramp = job.ramp_time.unwrap_or(Nanoseconds::ZERO);
    let longest = job.at_most.or(limits.time).unwrap_or(LONGEST_UNTIMED);
    let end = limits.time.unwrap_or(longest).min(longest).0;
    let periods = periods(job);
    let (buffer_cycles, content_cycles) = buffer_work(job);
    let walk = Walk::of(job, drive.capacity());
    let counts_bytes = job.block_sizes.vary();
    let units = if counts_bytes { least } else { [1; 2] };
    let every = (job.thinktime_iotime.0 > 0).then_some(job.thinktime_iotime.0);
    Ok(JobSetup {
        name: job.name.clone(),
        paced: periods.is_some() || job.thinktime.0 > 0,
        read_percent,
        depth: job.effective_iodepth(),
        batch: job.batching(),
        most: job.most_at_once() as usize,
        processes: job.numjobs,
        group,
        periods,
        submits_alone: !job.ioengine.is_synchronous() && job.batching().is_none(),
        iowait: job.waits_as_iowait(io_uring_iowait),
        buffered: !job.is_direct(),
        cache,
        end: Some(ramp.0 + end),
        cut: limits.time.is_none_or(|t| t.0 > end),
        ramp: ramp.0,
        delay: [job.startdelay.0.0, job.startdelay.1.0],
        exit: job.exitall.then_some(job.exit_what),
        wait_for: None,
        cpu_sets: Vec::new(),
        bytes,
        requests: limits.ios,
        block: both(job, &job.block_size),
        settles_size: walk.is_some()
            || (read_percent > 0 && buffer_cycles[0] > 0)
            || (read_percent < 100 && buffer_cycles[1] + content_cycles > 0),
        walk,
        trims: trims(job),
        buffer_cycles,
        content_cycles,
        class: Class::fair(job.nice),
        random: job.rw.is_random(),
        span: limits.span,
        flushes: if flushes {
            [job.fsync, job.fdatasync].map(u64::from)
        } else {
            [0; 2]
        },
        flushes_at_end: flushes && (job.end_fsync || job.fsync_on_close),
        flushes_each_way: !job.time_based,
        // The kernel has a direct write of `O_SYNC` on the media by REQ_FUA, and flushes besides if the system call waits for it
        // (`blkdev_write_iter()`, Linux 6.12).
        writes_as: if !(job.sync && flushes) || cache.is_some() {
            RequestKind::Plain
        } else if job.ioengine.is_synchronous() || job.ioengine == IoEngine::Posixaio {
            RequestKind::Synchronous
        } else {
            RequestKind::Through
        },
        think_time: job.thinktime.0,
        think_spin: job.thinktime_spin.0,
        think_cycles: job.thinkcycles,
        pauses: PauseRule {
            requests: match job.thinktime_blocks {
                // As fio, which looks after each I/O.
                Some(blocks) => Some(u64::from(blocks.max(1))),
                None => every.is_none().then_some(1),
            },
            by_issue: job.thinktime_counts == ThinkBlocks::Issue,
            every: every.map(|every| every.saturating_add(job.thinktime.0)),
        },
        poisson: periods
            .filter(|_| job.rate_poisson)
            .map(|periods| [0, 1].map(|i| periods[i].mean_us(units[i]))),
        forgives_pauses: job.rate_ignores_thinktime,
        counts_bytes,
        units,
    })
}
