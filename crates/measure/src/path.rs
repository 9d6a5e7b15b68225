//! What the CPU does for an I/O: work of the waiting task by depth, where completions arrive, and what a system call, a
//! context switch, an interrupt of another CPU and a tick take.
//!
//! Times are from the scheduler's account of each thread (`/proc/thread-self/schedstat`), and from the clock. CPUs are
//! held in their first idle state meanwhile, where the user may do that.

mod cpu_account;
mod cycles;
mod engines;
mod interruptions;
mod ipi;
mod parts;
mod speed;
mod transitions;

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use wakepath_system::{Root, System};

use self::cpu_account::read_cpu_account_ns;
use self::cycles::{CycleCounter, ThreadCycles};
use self::engines::{ENGINES, FioRuns, SHORTEST_RUN};
use self::interruptions::watch_interruptions;
use self::ipi::time_ipis;
use self::parts::measure_parts;
use self::speed::{measure_ramp, measure_speeds};
use self::transitions::time_transitions;
use crate::background::cpus_in_both;
use crate::conditions::StolenTime;
use crate::drive::random_block;
use crate::summary::{Estimate, LatencySummary, SampledTime};
use crate::test_file::{ALIGNMENT, AlignedBuffer, TestFile, TestTarget};
use crate::{Conditions, ExperimentControl, MeasureError, ShallowHold, pin};

pub use self::engines::{EngineCost, EngineParts, FioEngine, FollowedReads, ReadFollower};
pub use self::interruptions::{CpuThefts, Interruptions};
pub use self::parts::ReadParts;
pub use self::speed::{ClockRamp, SpeedByActive};
pub use self::transitions::ClockTransitions;

/// Requests in flight, each in a thread.
const DEPTHS: [usize; 4] = [1, 2, 4, 8];
/// Steps besides loads and engines: interrupts without reads, parts of a read, system call, context switch, IPI, ticks,
/// speeds, ramps, changes of the clock.
const OTHER_STEPS: usize = 9;
/// An interrupt line has completions if it came at least this often for each request.
const COMPLETIONS_PER_REQUEST: f64 = 0.1;
/// Calls between two looks at the clock.
const CALLS: u32 = 1000;

/// What to measure of the I/O path, and for how long.
#[derive(Clone, Debug)]
pub struct PathPlan {
    target: TestTarget,
    step: Duration,
}

/// CPU work for reads at a depth.
#[derive(Clone, Debug, Serialize)]
pub struct PathLoad {
    /// Reads in flight, each in a thread.
    pub depth: usize,
    /// 4 KiB direct random reads that were made.
    pub reads: u64,
    /// Latency as the program sees it.
    pub latency: LatencySummary,
    /// CPU time of the reading thread for each read in ns: from the call to the sleep, and from the wake-up to the return. Absent:
    /// the kernel keeps no account.
    pub task_ns: Option<f64>,
    /// Cycles of the reading thread for each read, in user space and in the kernel. Absent: the processor's counter is not to be
    /// had, as in most guests.
    pub cycles: Option<f64>,
    /// Those of them in user space; absent as above. The rest are the kernel's submission and resume.
    pub user_cycles: Option<f64>,
    /// Time for each read that the thread was ready to run and did not, in ns; absent as above.
    pub waiting_ns: Option<f64>,
    /// Interrupt lines that came with the reads, most frequent first.
    pub completions: Vec<CompletionLine>,
}

/// An interrupt line that came with reads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompletionLine {
    /// Its line of `/proc/interrupts`: number and device.
    pub name: String,
    /// Interrupts for each read; below 1 where one interrupt completes several.
    pub per_read: f64,
    /// Share of its interrupts by CPU, where any came.
    pub shares: Vec<(usize, f64)>,
}

/// Result of an experiment on the I/O path.
#[derive(Clone, Debug, Serialize)]
pub struct PathMeasurement {
    /// File or device.
    pub file: String,
    /// Day, kernel and other work of the experiment.
    pub conditions: Conditions,
    /// Whether CPUs were held in their first idle state. If not, idle exits are in the latencies.
    pub held_shallow: bool,
    /// Reads by depth.
    pub loads: Vec<PathLoad>,
    /// Where the CPU's time for a read goes at depth 1; absent: interrupts do not come to the CPU that submits, or there is no
    /// io_uring.
    pub parts: Option<ReadParts>,
    /// A short system call (`getppid`).
    pub system_call: Option<Estimate>,
    /// A hand-over from one thread to another on one CPU: wake-up and context switch.
    pub context_switch: Option<SampledTime>,
    /// An inter-processor interrupt between two running CPUs, from its sending to the answer.
    pub ipi: Option<SampledTime>,
    /// What interrupts a thread that spins.
    pub interruptions: Option<Interruptions>,
    /// How a virtual machine's host takes the CPU of such a thread; absent: it took nothing, or does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thefts: Option<CpuThefts>,
    /// The same reads by I/O engine, as fio makes them; empty without fio.
    pub engines: Vec<EngineCost>,
    /// Parts of these reads, where [`follow_engines_of_fio`] found them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub engine_parts: Vec<EngineParts>,
    /// Speed of CPUs by how many of them work; empty where it is not known.
    pub speeds: Vec<SpeedByActive>,
    /// How the clock comes up after a pause.
    pub ramp: Option<ClockRamp>,
    /// How long the clock takes to follow its limits.
    pub transitions: Option<ClockTransitions>,
    /// Whether all steps of the experiment were done; a signal ends it early.
    pub complete: bool,
    /// Notes on the results for their reader: doubts, refusals, other work.
    pub notes: Vec<String>,
}

impl PathPlan {
    /// Plans the experiment over a file that is there; `time` is for all steps together.
    pub fn new(file: impl Into<std::path::PathBuf>, time: Duration) -> Self {
        let steps = (DEPTHS.len() + ENGINES.len() + OTHER_STEPS) as u32;
        Self {
            target: TestTarget::Read(file.into()),
            step: (time / steps).max(Duration::from_millis(20)),
        }
    }

    /// The same experiment over another file that is there.
    #[must_use]
    pub fn with_file(self, file: impl Into<std::path::PathBuf>) -> Self {
        Self {
            target: TestTarget::Read(file.into()),
            ..self
        }
    }

    /// Number of steps.
    pub const fn steps(&self) -> usize {
        DEPTHS.len() + ENGINES.len() + OTHER_STEPS
    }

    /// Planned time of all steps of the experiment.
    pub fn duration(&self) -> Duration {
        self.step * (DEPTHS.len() + OTHER_STEPS) as u32 + self.duration_of_engines()
    }

    /// Number of further steps of [`follow_engines_of_fio`].
    pub const fn steps_to_follow_engines(&self) -> usize {
        ENGINES.len()
    }

    /// Planned time of these steps, as of those that measure the engines.
    pub fn duration_of_engines(&self) -> Duration {
        self.step.max(SHORTEST_RUN) * ENGINES.len() as u32
    }

    /// Checks the file.
    ///
    /// # Errors
    /// As [`TestTarget::check`].
    pub fn check(&self) -> Result<(), MeasureError> {
        self.target.check()
    }

    /// What the experiment will do, a sentence each, for people to read before.
    pub fn describe(&self) -> Vec<String> {
        vec![
            format!(
                "reads {} past the page cache, with 1 to 8 reads in flight; nothing is written",
                self.target.path().display()
            ),
            "holds /dev/cpu_dma_latency at 0 meanwhile, so that CPUs stay in their first idle state (needs root)".to_owned(),
            "reads through io_uring, too, while the thread spins and sees when it is interrupted".to_owned(),
            "counts interrupts during a step without reads first, which are no completions".to_owned(),
            "has fio read it with psync, libaio, io_uring, and polled where the disk has queues for that".to_owned(),
            "times system calls, context switches, interrupts of another CPU and the interruptions of a spinning thread".to_owned(),
            "spins on one to all CPUs, and on one after pauses, for the speed of their clocks".to_owned(),
            "moves one CPU between its lowest and highest clock, by both frequency limits (needs root and a cpufreq driver)".to_owned(),
        ]
    }
}

/// Carries the plan out. CPUs may sleep again when it returns, whatever happened.
///
/// # Errors
/// The file cannot serve, a read fails, another wakepath changes settings, or a signal came before the first result.
pub fn measure(
    system: &System,
    plan: &PathPlan,
    control: ExperimentControl<'_>,
) -> Result<PathMeasurement, MeasureError> {
    let hold = ShallowHold::take(system)?;
    let conditions = Conditions::observe(system, control);
    let stolen = StolenTime::watch(system);
    let file = TestFile::open(&plan.target, system, control)?;
    let mut result = PathMeasurement {
        file: plan.target.path().display().to_string(),
        held_shallow: hold.refusal().is_none(),
        loads: Vec::new(),
        parts: None,
        system_call: None,
        context_switch: None,
        ipi: None,
        interruptions: None,
        thefts: None,
        engines: Vec::new(),
        engine_parts: Vec::new(),
        speeds: Vec::new(),
        ramp: None,
        transitions: None,
        complete: false,
        notes: conditions.note_on_load().into_iter().collect(),
        conditions,
    };
    result.notes.extend(hold.refusal().map(|why| {
        format!("CPUs may have slept meanwhile, and their idle exits are in the latencies: {why}")
    }));
    let outcome = run_steps(system, plan, &file, &mut result, control);
    if let Err(why) = CycleCounter::start() {
        result.notes.push(format!(
            "cycles are not counted, and CPU time stands for them: {why}"
        ));
    }
    if let Err(unrestored) = MeasureError::combine_with_release(outcome, hold.release())? {
        result.notes.push(unrestored.to_string());
    }
    // The limits are held by themselves: one hold at a time has the lock.
    measure_transitions(system, plan.step, &mut result, control);
    let note = stolen.finish(system, &mut result.conditions);
    result.notes.extend(note);
    result.complete = !control.is_cancelled();
    if result.loads.is_empty() {
        return Err(MeasureError::Cancelled);
    }
    Ok(result)
}

/// Has fio read the plan's file again with each engine that has figures, and its reads followed: apart from [`measure`], since that costs CPU time.
/// CPUs may sleep again when it returns, whatever happened.
///
/// # Errors
/// The file cannot serve, or another wakepath changes settings.
pub fn follow_engines_of_fio(
    system: &System,
    plan: &PathPlan,
    result: &mut PathMeasurement,
    follower: &mut dyn ReadFollower,
    control: ExperimentControl<'_>,
) -> Result<(), MeasureError> {
    let hold = ShallowHold::take(system)?;
    let file = TestFile::open(&plan.target, system, control)?;
    match file.device().map(|device| device.disk.as_str()) {
        Some(disk) => {
            let runs = FioRuns {
                root: system.root(),
                disk: Some(disk),
                file: plan.target.path(),
                time: plan.step,
                control,
            };
            let (parts, refused) = runs.follow_engines(disk, &result.engines, follower);
            result.engine_parts = parts;
            result.notes.extend(refused);
        }
        None => result
            .notes
            .push("parts by engine: the disk below the file is not known".to_owned()),
    }
    result.complete &= !control.is_cancelled();
    hold.release()
}

fn run_steps(
    system: &System,
    plan: &PathPlan,
    file: &TestFile,
    result: &mut PathMeasurement,
    control: ExperimentControl<'_>,
) -> Result<(), MeasureError> {
    let background = InterruptCount::count_during(system.root(), || control.sleep(plan.step));
    control.finish_step();
    for depth in DEPTHS {
        if control.is_cancelled() {
            return Ok(());
        }
        let load = measure_load(system.root(), file, depth, plan.step, control, &background)
            .map_err(|error| file.error("reading it", error))?;
        result.loads.extend(load);
        control.finish_step();
    }
    let alone = result.loads.iter().find(|load| load.depth == 1);
    let task_ns = alone.and_then(|load| load.task_ns);
    match measure_parts(system, file, task_ns, plan.step, control) {
        Ok(parts) => result.parts = Some(parts),
        Err(why) => result.notes.push(format!(
            "submission, interrupt and resume are not told apart: {why}"
        )),
    }
    control.finish_step();
    result.system_call = time_system_calls(plan.step, control);
    control.finish_step();
    let cpu = system.cpus().last().copied().unwrap_or(0);
    result.context_switch = time_context_switches(cpu, plan.step, control)?;
    control.finish_step();
    measure_ipi(&system.cpus(), plan, result, control);
    control.finish_step();
    let watched = watch_interruptions(system, cpu, plan.step, control)?;
    result.interruptions = watched.interruptions;
    match watched.thefts {
        Ok(thefts) => result.thefts = thefts,
        Err(why) => result
            .notes
            .push(format!("time that the host takes: not measured: {why}")),
    }
    control.finish_step();
    result.speeds = measure_speeds(&system.cpus(), plan.step, control);
    control.finish_step();
    result.ramp = measure_ramp(cpu, control);
    control.finish_step();
    compare_engines(system.root(), plan, file, result, control);
    Ok(())
}

/// Times interrupts from the last CPU to the first; a refusal becomes a note.
fn measure_ipi(
    cpus: &[usize],
    plan: &PathPlan,
    result: &mut PathMeasurement,
    control: ExperimentControl<'_>,
) {
    let [first, .., last] = *cpus else { return };
    match time_ipis([last, first], plan.step, control) {
        Ok(ipi) => result.ipi = ipi,
        Err(why) => result
            .notes
            .push(format!("interrupts of another CPU: not measured: {why}")),
    }
}

/// Times changes of the last CPU's clock; a refusal becomes a note.
fn measure_transitions(
    system: &System,
    time: Duration,
    result: &mut PathMeasurement,
    control: ExperimentControl<'_>,
) {
    if control.is_cancelled() {
        return;
    }
    match time_transitions(system, &system.cpus(), time, control) {
        Ok(found) => result.transitions = Some(found),
        Err(why) => result
            .notes
            .push(format!("changes of the clock: not measured: {why}")),
    }
    control.finish_step();
}

/// Reads the file by each I/O engine of fio; an engine that fails becomes a note.
fn compare_engines(
    root: &Root,
    plan: &PathPlan,
    file: &TestFile,
    result: &mut PathMeasurement,
    control: ExperimentControl<'_>,
) {
    let runs = FioRuns {
        root,
        disk: file.device().map(|device| device.disk.as_str()),
        file: plan.target.path(),
        time: plan.step,
        control,
    };
    for engine in ENGINES {
        if control.is_cancelled() {
            return;
        }
        match runs.measure_cost(engine) {
            Ok(cost) => result.engines.extend(cost),
            Err(why) => result.notes.push(format!(
                "engine {}, depth {}: not measured: {why}",
                engine.name, engine.depth
            )),
        }
        control.finish_step();
    }
}

/// Reads of one thread of a load, with the CPU time that they took.
#[derive(Default)]
struct ThreadWork {
    latencies: Vec<u64>,
    /// Time of the thread on a CPU, and ready to run but waiting for one, in ns; absent: the kernel keeps no account.
    account: Option<[u64; 2]>,
    cycles: Option<ThreadCycles>,
}

fn measure_load(
    root: &Root,
    file: &TestFile,
    depth: usize,
    time: Duration,
    control: ExperimentControl<'_>,
    background: &InterruptCount,
) -> io::Result<Option<PathLoad>> {
    let done: Mutex<Vec<io::Result<ThreadWork>>> = Mutex::new(Vec::new());
    let interrupts = InterruptCount::count_during(root, || {
        std::thread::scope(|scope| {
            for thread in 0..depth {
                let done = &done;
                scope.spawn(move || {
                    let work = read_blocks_for(file, seed_for_thread(depth, thread), time, control);
                    done.lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner)
                        .push(work);
                });
            }
        });
    });
    let works: io::Result<Vec<ThreadWork>> = done
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .into_iter()
        .collect();
    let works = works?;
    let latencies: Vec<u64> = works
        .iter()
        .flat_map(|work| work.latencies.iter().copied())
        .collect();
    let Some(latency) = LatencySummary::new(&latencies) else {
        return Ok(None);
    };
    let accounts: Option<Vec<[u64; 2]>> = works.iter().map(|work| work.account).collect();
    let per_read = |part: usize| {
        let total: u64 = accounts.as_ref()?.iter().map(|account| account[part]).sum();
        Some(total as f64 / latency.n as f64)
    };
    let cycles: Option<Vec<ThreadCycles>> = works.iter().map(|work| work.cycles).collect();
    let parts: [fn(&ThreadCycles) -> u64; 2] = [|cycles| cycles.all, |cycles| cycles.user];
    let [all_cycles, user_cycles] = parts.map(|part| {
        let total: u64 = cycles.as_ref()?.iter().map(part).sum();
        Some(total as f64 / latency.n as f64)
    });
    Ok(Some(PathLoad {
        depth,
        reads: latency.n,
        cycles: all_cycles,
        user_cycles,
        task_ns: per_read(0),
        waiting_ns: per_read(1),
        completions: find_completions(&interrupts, background, latency.n),
        latency,
    }))
}

/// A seed of its own for each thread of each depth: blocks that an earlier load read could be in the drive's cache.
const fn seed_for_thread(depth: usize, thread: usize) -> u64 {
    ((depth as u64) << 32) | thread as u64
}

fn read_blocks_for(
    file: &TestFile,
    seed: u64,
    time: Duration,
    control: ExperimentControl<'_>,
) -> io::Result<ThreadWork> {
    let mut buffer = AlignedBuffer::new(ALIGNMENT);
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut latencies = Vec::new();
    let mut cycles = CycleCounter::start().ok();
    let account = read_cpu_account_ns();
    let end = Instant::now() + time;
    while Instant::now() < end && !control.is_cancelled() {
        let offset = random_block(&mut random, file.bytes());
        let began = Instant::now();
        let read = rustix::io::pread(file.file(), buffer.bytes_mut(), offset)?;
        if read != ALIGNMENT {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        latencies.push(began.elapsed().as_nanos() as u64);
    }
    let spent = account.zip(read_cpu_account_ns());
    Ok(ThreadWork {
        cycles: cycles.as_mut().and_then(CycleCounter::read),
        latencies,
        account: spent.map(|(then, now)| [0, 1].map(|part| now[part].saturating_sub(then[part]))),
    })
}

/// Counts of numbered interrupts by line and CPU.
type InterruptCounts = BTreeMap<String, BTreeMap<usize, u64>>;

fn read_interrupts(root: &Root) -> InterruptCounts {
    let text = root
        .read_text_if_readable("proc/interrupts")
        .unwrap_or_default();
    crate::background::parse_numbered_interrupts(&text)
}

/// Interrupts of devices that came during some work, and how long that took.
struct InterruptCount {
    counts: InterruptCounts,
    seconds: f64,
}

impl InterruptCount {
    fn count_during(root: &Root, work: impl FnOnce()) -> Self {
        let before = read_interrupts(root);
        let began = Instant::now();
        work();
        let seconds = began.elapsed().as_secs_f64();
        Self {
            counts: subtract_counts(&read_interrupts(root), &before),
            seconds,
        }
    }

    /// How many interrupts of a line would have come on a CPU in so many seconds, at the same rate.
    fn expected_count(&self, name: &str, cpu: usize, seconds: f64) -> f64 {
        let by_cpu = self.counts.get(name);
        let count = by_cpu.and_then(|by_cpu| by_cpu.get(&cpu)).copied();
        count.unwrap_or(0) as f64 * seconds / self.seconds.max(1e-9)
    }
}

/// Interrupts between two readings of the counters, on CPUs that are in both.
fn subtract_counts(after: &InterruptCounts, before: &InterruptCounts) -> InterruptCounts {
    let cpus = cpus_in_both(after.values(), before.values());
    let mut came = InterruptCounts::new();
    for (name, now) in after {
        let then = before.get(name);
        let by_cpu = cpus.iter().filter_map(|cpu| {
            let past = then.and_then(|then| then.get(cpu)).copied().unwrap_or(0);
            Some((*cpu, now.get(cpu)?.saturating_sub(past)))
        });
        came.insert(name.clone(), by_cpu.collect());
    }
    came
}

/// Lines that came often enough to be the completions of reads, less what comes without reads.
fn find_completions(
    interrupts: &InterruptCount,
    background: &InterruptCount,
    reads: u64,
) -> Vec<CompletionLine> {
    let mut lines: Vec<CompletionLine> = Vec::new();
    for (name, by_cpu) in &interrupts.counts {
        let came: Vec<(usize, f64)> = by_cpu
            .iter()
            .map(|(cpu, count)| {
                let expected = background.expected_count(name, *cpu, interrupts.seconds);
                (*cpu, (*count as f64 - expected).max(0.0))
            })
            .collect();
        let total: f64 = came.iter().map(|(_, count)| count).sum();
        let per_read = total / reads.max(1) as f64;
        if per_read >= COMPLETIONS_PER_REQUEST {
            let shares = came.iter().filter(|(_, count)| *count > 0.0);
            lines.push(CompletionLine {
                name: name.clone(),
                per_read,
                shares: shares.map(|(cpu, count)| (*cpu, *count / total)).collect(),
            });
        }
    }
    lines.sort_by(|a, b| b.per_read.total_cmp(&a.per_read));
    lines
}

/// Time of a system call, from the means of many.
fn time_system_calls(time: Duration, control: ExperimentControl<'_>) -> Option<Estimate> {
    let end = Instant::now() + time;
    let mut samples = Vec::new();
    while Instant::now() < end && !control.is_cancelled() {
        let began = Instant::now();
        for _ in 0..CALLS {
            std::hint::black_box(rustix::process::getppid());
        }
        // A thousandth of the time of a thousand calls, in thousandths of ns.
        samples.push(began.elapsed().as_nanos() as u64);
    }
    let summary = LatencySummary::new(&samples)?;
    Some(summary.median.divided_by(f64::from(CALLS)))
}

/// Time of a hand-over between two threads of one CPU, from rounds of two.
fn time_context_switches(
    cpu: usize,
    time: Duration,
    control: ExperimentControl<'_>,
) -> Result<Option<SampledTime>, MeasureError> {
    let shared_turn = AtomicUsize::new(0);
    let turn = &shared_turn;
    let end = Instant::now() + time;
    let mut samples = Vec::new();
    let failed = std::thread::scope(|scope| {
        let main = std::thread::Builder::new().name("first".to_owned());
        let first = main.spawn_scoped(scope, || -> Result<Vec<u64>, MeasureError> {
            pin::pin_to(cpu)?;
            let own = std::thread::current();
            let partner = std::thread::Builder::new()
                .name("second".to_owned())
                .spawn_scoped(scope, move || answer_turns(cpu, turn, &own))
                .map_err(|e| MeasureError::Impossible(format!("no thread can be started: {e}")))?;
            let mut rounds = Vec::new();
            while Instant::now() < end && !control.is_cancelled() {
                let began = Instant::now();
                turn.store(1, Ordering::Release);
                partner.thread().unpark();
                while turn.load(Ordering::Acquire) == 1 {
                    std::thread::park_timeout(Duration::from_millis(100));
                }
                rounds.push(began.elapsed().as_nanos() as u64);
            }
            turn.store(2, Ordering::Release);
            partner.thread().unpark();
            Ok(rounds)
        });
        match first.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(Ok(rounds))) => {
                samples = rounds;
                None
            }
            Ok(Ok(Err(error))) => Some(error),
            Ok(Err(_)) | Err(_) => Some(MeasureError::Impossible(
                "the threads that switch could not be run".to_owned(),
            )),
        }
    });
    if let Some(error) = failed {
        return Err(error);
    }
    Ok(LatencySummary::new(&samples).map(|rounds| SampledTime {
        n: rounds.n,
        estimate: rounds.median.divided_by(2.0),
    }))
}

/// The second of two threads that switch: it hands each turn back until the first ends it.
fn answer_turns(cpu: usize, turn: &AtomicUsize, partner: &std::thread::Thread) {
    // On another CPU the hand-over would be measured all the same, with an interrupt; the first thread is pinned.
    let _ = pin::pin_to(cpu);
    loop {
        match turn.load(Ordering::Acquire) {
            1 => {
                turn.store(0, Ordering::Release);
                partner.unpark();
            }
            2 => return,
            _ => std::thread::park_timeout(Duration::from_millis(100)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> InterruptCounts {
        crate::background::parse_numbered_interrupts(text)
    }

    #[test]
    fn completions_are_the_lines_that_came_with_reads() {
        let before = counts(
            " CPU0 CPU1\n 24: 1 0 PCI-MSIX 0-edge nvme0q1\n 25: 5 5 PCI-MSIX 1-edge eth0\n LOC: 1 1 timers\n",
        );
        let after = counts(
            " CPU0 CPU1\n 24: 26 75 PCI-MSIX 0-edge nvme0q1\n 25: 6 6 PCI-MSIX 1-edge eth0\n LOC: 99 99 timers\n",
        );
        let during = |before: &InterruptCounts, after: &InterruptCounts| InterruptCount {
            counts: subtract_counts(after, before),
            seconds: 1.0,
        };
        let quiet = during(&before, &before);
        let found = find_completions(&during(&before, &after), &quiet, 200);
        assert_eq!(
            found,
            [CompletionLine {
                name: "nvme0q1 (interrupt 24)".to_owned(),
                per_read: 0.5,
                shares: vec![(0, 0.25), (1, 0.75)],
            }]
        );
        // What comes as often without reads completes none.
        let same = during(&before, &after);
        assert_eq!(find_completions(&same, &during(&before, &after), 200), []);
    }
}
