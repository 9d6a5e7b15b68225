//! What waking a CPU from each idle state takes.
//!
//! A pinned waker, kept busy, wakes a pinned sleeper after pauses that are log-uniform from twice the target residency to
//! 10 ms. As root, one state at a time is allowed on the sleeping CPU, through journalled settings. A sample counts only if
//! the kernel's counters say that the CPU was in the state, and that the hardware did not refuse. States have no figure if
//! the hardware's counters say that the core stayed shallower.
//!
//! The exit latency is the median less the median from the polling state, or else from the shallowest, after pauses of the
//! same length: caches, drives and hosts cool down in long pauses, whatever the state. Where the hardware counts the states
//! that cores and packages reach, the shares stand beside; elsewhere a state is requested, not verified.
//!
//! Wake-ups right after a CPU fell asleep give the cost of the entry. Wake-ups by a timer while all CPUs rest show what the
//! package's sleep costs.

mod at_rest;
mod bands;
mod beside;
mod clocks;
mod counters;
mod deeper;
mod demotion;
mod drive_rests;
mod entry;
mod figures;
mod plan;
mod sampler;
mod tally;
mod waker;

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use wakepath_settings::Hold;
use wakepath_system::capture::runs_under_hypervisor;
use wakepath_system::setting::find_setting;
use wakepath_system::{At, CPUS, SettingKey, System};
use wakepath_units::Nanoseconds;

use self::at_rest::describe_shares;
use self::bands::{GROWS, LEAST_GROWTH_NS, WakeSample, describe_growth, split_by_gap};
use self::beside::{find_entry_costs, find_package_wakes};
use self::clocks::{ExitAtClock, describe_differences};
use self::counters::{CpuCounters, SampleVerdict};
use self::deeper::find_deeper_sleep;
use self::demotion::describe_demotion;
use self::drive_rests::find_slower_reads_by_cpu;
use self::plan::{ROUNDS, WakeMoment, WakeStep};
use self::tally::{FEWEST_COUNTED, Tally};
use self::waker::note_wakers_on_same_core;
use crate::background::parse_ipi_count;
use crate::conditions::{StolenTime, read_stolen_ticks};
use crate::shallow::reserve_for_repeated_changes;
use crate::summary::{Estimate, LatencySummary};
use crate::test_file::{TestFile, TestTarget};
use crate::{Conditions, ExperimentControl, MeasureError};

pub use self::at_rest::{PackageWake, ReachedDepth};
pub use self::bands::GapBand;
pub use self::beside::EntryCost;
pub use self::deeper::DeeperSleep;
pub use self::drive_rests::SlowerReads;
pub use self::entry::{EntryTime, WokenWithinEntry};
pub(crate) use self::plan::{ClockLimits, choose_governor, find_limits, state_key};
pub use self::plan::{CpuGroup, HeldClock, WakePlan, WakeSource};
pub(crate) use self::sampler::LiveSampler;
pub use self::sampler::WakeSampler;

/// Note of a measurement that could not allow one state at a time.
const COARSE: &str =
    "coarse: the governor picked the states, because allowing one at a time needs root";

/// Samples of a step in a round, at most.
const MAX_SAMPLES: usize = 400;
/// A machine busier than this, in per cent, hardly lets a CPU sleep.
const MUCH_WORK: f64 = 50.0;
/// Least number of wake-ups tried in a step of a round, however long they take.
const FEWEST_TRIES: usize = 12;
/// The same of early wake-ups, of which few come within the entry; each takes some 2 ms.
const FEWEST_EARLY_TRIES: usize = 50;

/// A task's wake-ups with fewer inter-processor interrupts each came by stores, and with more by interrupts. Other work on the
/// machine brings some of its own.
const MOSTLY_STORES: f64 = 0.25;
const MOSTLY_IPIS: f64 = 0.75;

/// Wake-ups from an idle state by a source.
#[derive(Clone, Debug, Serialize)]
pub struct WakeLatency {
    /// The CPU that slept.
    pub cpu: usize,
    /// CPUs with the same core type and idle states.
    pub cpus_alike: Vec<usize>,
    /// Name of the state; absent: as the governor picked.
    pub state: Option<String>,
    /// Declared exit latency of the state.
    pub declared_exit: Option<Nanoseconds>,
    /// What woke the CPU.
    pub source: WakeSource,
    /// From the cause to the woken thread's first instruction, of the samples that count; absent without any.
    pub latency: Option<LatencySummary>,
    /// The same by the length of the pause before, shortest first; empty with few samples.
    pub by_gap: Vec<GapBand>,
    /// Exit latency: the median less the median from `relative_to` after equal pauses; absent for the reference state, and
    /// beside a problem.
    pub exit: Option<Estimate>,
    /// How the exit grows in long pauses; absent: it does not, or the state is the reference.
    pub deeper: Option<DeeperSleep>,
    /// The state that the exit latency is relative to.
    pub relative_to: Option<String>,
    /// States that the CPU's core reached meanwhile, deepest first; absent: the hardware shows none.
    pub reached: Option<Vec<ReachedDepth>>,
    /// Samples that do not count, because the CPU was in another state or in none.
    pub missed: u64,
    /// Samples that do not count, because hardware or firmware refused the state.
    pub rejected: u64,
    /// Counted samples during which a virtual machine's host kept the CPU waiting (stolen time).
    pub disturbed_by_host: u64,
    /// Inter-processor interrupts of the CPU for each wake-up by a task: near 0 where a store to memory that the state
    /// monitors wakes it, and 1 where an interrupt does. Absent: other sources, or the kernel shows no counts.
    pub ipis_per_wake_up: Option<f64>,
    /// Reason for a missing or weak figure.
    pub problem: Option<String>,
}

/// Result of an experiment on wake-ups.
#[derive(Clone, Debug, Serialize)]
pub struct WakeMeasurement {
    /// Day, kernel and other work of the experiment.
    pub conditions: Conditions,
    /// Clocks that the measured CPUs were held at, in kHz; empty: as their governor picked.
    pub held_khz: Vec<u64>,
    /// Whether one state at a time was allowed. If not, the figures are coarse.
    pub forced: bool,
    /// By CPU, state and source.
    pub wakes: Vec<WakeLatency>,
    /// Costs of entries, by CPU and state; empty where states cannot be forced.
    pub entries: Vec<EntryCost>,
    /// Pauses from which on reads take longer, whatever the CPU does; empty without wake-ups by drive and task.
    pub slower_reads: Vec<SlowerReads>,
    /// What the sleep of packages costs, by measured CPU; empty where states cannot be forced.
    pub packages: Vec<PackageWake>,
    /// Measurements at other clocks, which give no figure; empty for a single clock.
    pub at_other_clocks: Vec<Self>,
    /// Whether all steps of the experiment were done; a signal ends it early.
    pub complete: bool,
    /// Notes on the results for their reader: doubts, refusals, other work.
    pub notes: Vec<String>,
}

/// Measures this machine. `file` serves wake-ups by a drive.
///
/// # Errors
/// As [`measure_with`]; the file cannot serve.
pub fn measure(
    system: &System,
    plan: &WakePlan,
    file: Option<&Path>,
    control: ExperimentControl<'_>,
) -> Result<WakeMeasurement, MeasureError> {
    let file = file
        .map(|path| {
            let target = TestTarget::Read(path.to_owned());
            TestFile::open(&target, system, control)
        })
        .transpose()?;
    let sampler = LiveSampler::new(system, file.map(Arc::new));
    // The waker is pinned to a CPU, and programs that its thread started later would be, too.
    let waker = thread::Builder::new().name("waker".to_owned());
    thread::scope(|scope| {
        let started = waker.spawn_scoped(scope, || measure_with(system, plan, sampler, control));
        let joined = started.map(thread::ScopedJoinHandle::join);
        match joined {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => Err(MeasureError::Impossible(
                "the waking thread could not be run".to_owned(),
            )),
        }
    })
}

/// Carries the plan out with a sampler. All settings are put back at the end. A failure at another clock is
/// a note.
///
/// # Errors
/// Another wakepath changes settings, a setting cannot be changed, a CPU went away, or a signal came before the first
/// sample.
pub fn measure_with(
    system: &System,
    plan: &WakePlan,
    mut sampler: impl WakeSampler,
    control: ExperimentControl<'_>,
) -> Result<WakeMeasurement, MeasureError> {
    let mut result = measure_at_clock(system, plan, &mut sampler, control)?;
    for again in &plan.at_other_clocks {
        match measure_at_clock(system, again, &mut sampler, control) {
            Ok(measured) => result.at_other_clocks.push(measured),
            Err(MeasureError::Cancelled) => result.complete = false,
            Err(why) => result.notes.push(format!(
                "wake-ups at another clock were not measured: {why}"
            )),
        }
    }
    let others = result.at_other_clocks.iter();
    result.complete &= others.clone().all(|other| other.complete);
    let exits = others.flat_map(WakeMeasurement::exits_at_clock);
    let all: Vec<ExitAtClock> = result.exits_at_clock().chain(exits).collect();
    result.notes.extend(describe_differences(&all));
    Ok(result)
}

/// Carries out a plan's steps at the first clock.
fn measure_at_clock(
    system: &System,
    plan: &WakePlan,
    sampler: &mut impl WakeSampler,
    control: ExperimentControl<'_>,
) -> Result<WakeMeasurement, MeasureError> {
    let hold = if plan.forced {
        Some(reserve_settings(system, plan)?)
    } else {
        None
    };
    let mut conditions = Conditions::observe(system, control);
    let stolen = StolenTime::watch(system);
    let is_guest = runs_under_hypervisor(system.root());
    let mut experiment = WakeExperiment {
        system,
        plan,
        hold: hold.as_ref(),
        control,
        sampler,
        is_guest,
        random: Pcg64Mcg::seed_from_u64(4),
        tallies: vec![Tally::default(); plan.steps.len()],
    };
    let outcome = experiment.run();
    let tallies = experiment.tallies;
    let released = hold.map_or(Ok(None), Hold::put_back_and_release);
    let released = released.map_err(MeasureError::from);
    let restored = MeasureError::combine_with_release(outcome, released)?;
    let note = stolen.finish(system, &mut conditions);
    let mut result = WakeMeasurement::new(plan, &tallies, conditions, !control.is_cancelled());
    result.notes.extend(note);
    result.notes.extend(note_wakers_on_same_core(system, plan));
    if is_guest {
        result.notes.push(describe_guest(plan.forced));
    }
    let growing = result.wakes.iter().filter_map(|wake| {
        let state = wake.state.as_deref().unwrap_or("any state");
        let who = format!("{state} woken by {}", wake.source.name());
        describe_growth(&who, &wake.by_gap)
    });
    let growing: Vec<String> = growing.collect();
    result.notes.extend(growing);
    match restored {
        Ok(Some((_, restored))) => {
            result.notes.extend(restored.notes);
            result.notes.extend(restored.away);
        }
        Ok(None) => {}
        Err(error) => result.notes.push(error.to_string()),
    }
    if result.wakes.iter().all(|wake| wake.latency.is_none()) && control.is_cancelled() {
        return Err(MeasureError::Cancelled);
    }
    Ok(result)
}

/// What exit latencies are in a guest.
fn describe_guest(forced: bool) -> String {
    let halt = "leaving a halt is the way to the host and back, with what the host's CPU sleeps and what the host polls";
    let polling = if forced {
        ", without the polling of the governor haltpoll before a halt"
    } else {
        ""
    };
    format!("this is a virtual machine: {halt}{polling}")
}

/// Journals old values before any setting changes.
fn reserve_settings(system: &System, plan: &WakePlan) -> Result<Hold, MeasureError> {
    let hold = reserve_for_repeated_changes(system, plan.settings())?;
    let governor = find_setting("idle-governor")
        .and_then(|setting| SettingKey::for_matching_scope(setting, At::System));
    if let Some((key, name)) = governor.zip(plan.governor) {
        hold.write_or_put_back(&key, Some(name))?;
    }
    for limits in &plan.clocks {
        for key in &limits.keys {
            hold.write_or_put_back(key, Some(&limits.khz.to_string()))?;
        }
    }
    Ok(hold)
}

/// An experiment on wake-ups while it runs: what all of its steps share.
struct WakeExperiment<'a, S> {
    system: &'a System,
    plan: &'a WakePlan,
    hold: Option<&'a Hold>,
    control: ExperimentControl<'a>,
    sampler: &'a mut S,
    /// Whether a host may keep the CPUs waiting.
    is_guest: bool,
    random: Pcg64Mcg,
    tallies: Vec<Tally>,
}

impl<S: WakeSampler> WakeExperiment<'_, S> {
    fn run(&mut self) -> Result<(), MeasureError> {
        let plan = self.plan;
        for _ in 0..ROUNDS {
            for (index, step) in plan.steps.iter().enumerate() {
                if self.control.is_cancelled() {
                    return Ok(());
                }
                if !self.tallies[index].is_hopeless() {
                    self.allow_only_state_of(step)?;
                    self.run_step(index, step)?;
                }
                self.control.finish_step();
            }
        }
        Ok(())
    }

    /// Switches the step's state on, then the CPU's other states off.
    fn allow_only_state_of(&self, step: &WakeStep) -> Result<(), MeasureError> {
        let Some((hold, wanted)) = self.hold.zip(step.state) else {
            return Ok(());
        };
        let kind = &self.plan.kinds[step.kind];
        let others = kind.states.iter().map(|state| state.index);
        let others = others
            .filter(|index| *index != wanted)
            .map(|index| (index, "1"));
        // First on, then off: a CPU is never without a state.
        for (index, value) in std::iter::once((wanted, "0")).chain(others) {
            if let Some(key) = state_key(kind.cpu, index) {
                hold.write_or_put_back(&key, Some(value))?;
            }
        }
        Ok(())
    }

    fn run_step(&mut self, index: usize, step: &WakeStep) -> Result<(), MeasureError> {
        let cpu = self.plan.kinds[step.kind].cpu;
        let before = self.sampler.read_reached(cpu);
        let ipis_before = self.read_ipi_count(step, cpu);
        let tried = self.take_samples(index, step)?;
        let ipis_after = self.read_ipi_count(step, cpu);
        let after = self.sampler.read_reached(cpu);
        let tally = &mut self.tallies[index];
        tally.reached.add(&before, &after);
        tally.ipis.add(ipis_before, ipis_after, tried);
        Ok(())
    }

    /// Inter-processor interrupts that a CPU has taken so far; `None` where tasks do not wake it.
    fn read_ipi_count(&self, step: &WakeStep, cpu: usize) -> Option<u64> {
        if step.source != WakeSource::Task {
            return None;
        }
        let text = self
            .system
            .root()
            .read_text_if_readable("proc/interrupts")?;
        parse_ipi_count(&text, cpu)
    }

    /// Takes samples of a step; returns the number of wake-ups.
    fn take_samples(&mut self, index: usize, step: &WakeStep) -> Result<u64, MeasureError> {
        let kind = &self.plan.kinds[step.kind];
        let gaps = self.plan.gaps(step);
        let began = Instant::now();
        let end = began + self.plan.step_time;
        let first = self.read_counters(kind)?;
        let mut before = first.clone();
        let mut stolen_before = self.read_stolen_ticks(kind.cpu);
        let mut counted = 0;
        let mut tried = 0;
        let fewest = match step.moment {
            WakeMoment::Settled | WakeMoment::AtRest => FEWEST_TRIES,
            WakeMoment::Entering => FEWEST_EARLY_TRIES,
        };
        while counted < MAX_SAMPLES && (Instant::now() < end || tried < fewest) {
            if self.control.is_cancelled() {
                break;
            }
            let gap = log_uniform(&mut self.random, gaps);
            let latency = match step.moment {
                WakeMoment::Settled => self.sampler.sample(kind.cpu, step.source, gap),
                WakeMoment::Entering => self.sampler.sample_again_after(kind.cpu, gap),
                WakeMoment::AtRest => self.sampler.sample_at_rest(kind.cpu, gap),
            }?;
            let after = self.read_counters(kind)?;
            let stolen_after = self.read_stolen_ticks(kind.cpu);
            // The first sample's idle period began in another state.
            if tried > 0 {
                let tally = &mut self.tallies[index];
                let verdict = if step.moment == WakeMoment::Entering {
                    after.judge_two_wakes(&before, step.state)
                } else {
                    after.judge(&before, step.state)
                };
                match verdict {
                    SampleVerdict::Counted => {
                        tally.samples.push(WakeSample {
                            gap,
                            latency_ns: latency.0,
                        });
                        tally.disturbed_by_host += u64::from(stolen_after != stolen_before);
                        counted += 1;
                    }
                    SampleVerdict::Missed => {
                        tally.missed += 1;
                        tally.missed_after.push(gap);
                    }
                    SampleVerdict::Rejected => tally.rejected += 1,
                }
            }
            tried += 1;
            before = after;
            stolen_before = stolen_after;
        }
        if let Some(state) = step.state {
            let in_state = before.time_in_state_since(&first, state);
            self.tallies[index].requested.add(in_state, began.elapsed());
        }
        Ok(tried as u64)
    }

    /// Stolen time of a CPU so far; `None` outside virtual machines.
    fn read_stolen_ticks(&self, cpu: usize) -> Option<u64> {
        let root = self.system.root();
        self.is_guest
            .then(|| read_stolen_ticks(root, cpu))
            .flatten()
    }

    fn read_counters(&self, kind: &CpuGroup) -> Result<CpuCounters, MeasureError> {
        let root = self.system.root();
        let online = root.read_text_if_readable(&format!("{CPUS}/cpu{}/online", kind.cpu));
        let counters = CpuCounters::read(root, kind.cpu, kind.states.len());
        counters
            .filter(|_| online.as_deref() != Some("0"))
            .ok_or_else(|| {
                MeasureError::Impossible(format!(
                    "CPU {} has gone away; put it online again and repeat the measurement",
                    kind.cpu
                ))
            })
    }
}

/// A pause whose logarithm is uniform.
fn log_uniform(random: &mut Pcg64Mcg, [from, to]: [Nanoseconds; 2]) -> Nanoseconds {
    let [low, high] = [from, to].map(|gap| (gap.0.max(1) as f64).ln());
    Nanoseconds((low + (high - low) * random.random::<f64>()).exp() as u64)
}

impl WakeMeasurement {
    fn new(plan: &WakePlan, tallies: &[Tally], conditions: Conditions, complete: bool) -> Self {
        let mut wakes: Vec<WakeLatency> = Vec::new();
        let steps = plan.steps.iter().zip(tallies);
        let settled: Vec<(&WakeStep, &Tally)> = steps
            .filter(|(step, _)| step.moment == WakeMoment::Settled)
            .collect();
        for (step, tally) in &settled {
            let latency = tally.latencies_after(Nanoseconds::ZERO);
            let kind = &plan.kinds[step.kind];
            let state = plan.state_of_step(step);
            let problem = describe_problem(tally, conditions.busy_percent)
                .or_else(|| describe_demotion(plan, state?, tally));
            let mut wake = WakeLatency {
                cpu: kind.cpu,
                cpus_alike: kind.cpus.clone(),
                state: state.map(|state| state.name.clone()),
                declared_exit: state.map(wakepath_system::StateInfo::exit_latency),
                source: step.source,
                exit: None,
                deeper: None,
                relative_to: None,
                reached: tally.reached.shares(false),
                missed: tally.missed,
                rejected: tally.rejected,
                disturbed_by_host: tally.disturbed_by_host,
                ipis_per_wake_up: tally.ipis.per_wake_up(),
                problem,
                by_gap: split_by_gap(&tally.samples),
                latency,
            };
            let reference_row = wakes.iter().position(|other| other.is_reference_of(&wake));
            if let Some(position) = reference_row.filter(|_| wake.problem.is_none()) {
                let shortest = plan.gaps(step)[0];
                let reference = settled[position].1;
                wake.set_exit(&wakes[position], reference.latencies_after(shortest));
                wake.deeper = find_deeper_sleep(
                    &tally.samples,
                    &reference.samples,
                    (GROWS - 1.0, LEAST_GROWTH_NS),
                );
            }
            wakes.push(wake);
        }
        let entries = find_entry_costs(plan, tallies);
        let packages = find_package_wakes(plan, tallies);
        let slower_reads = find_slower_reads_by_cpu(plan, &settled);
        let mut notes: Vec<String> = conditions.note_on_load().into_iter().collect();
        if plan.forced {
            notes.push(describe_verification(&wakes));
            notes.extend(plan.note_on_several_kinds());
        } else {
            notes.push(COARSE.to_owned());
        }
        notes.extend(packages.iter().filter_map(PackageWake::describe));
        notes.extend(slower_reads.iter().map(SlowerReads::describe));
        Self {
            conditions,
            held_khz: plan.clocks.iter().map(|limits| limits.khz).collect(),
            forced: plan.forced,
            wakes,
            entries,
            slower_reads,
            packages,
            at_other_clocks: Vec::new(),
            complete,
            notes,
        }
    }

    /// Exit latencies without a problem, each with the clock.
    fn exits_at_clock(&self) -> impl Iterator<Item = ExitAtClock> {
        let sound = self.wakes.iter().filter(|wake| wake.problem.is_none());
        sound.filter_map(|wake| {
            let state = wake.state.as_deref()?;
            Some(ExitAtClock {
                who: format!("{state} by {}, CPU {}", wake.source.name(), wake.cpu),
                khz: self.held_khz.first().copied(),
                exit: wake.exit?,
            })
        })
    }
}

impl WakeLatency {
    /// How a task's wake-up reached the CPU, by the counts of interrupts; `None` where these do not tell.
    pub fn describe_way_of_task(&self) -> Option<&'static str> {
        match self.ipis_per_wake_up? {
            few if few < MOSTLY_STORES => Some("by a store"),
            many if many > MOSTLY_IPIS => Some("by an IPI"),
            _ => None,
        }
    }

    /// What the hardware says about the state, for the origin of a figure.
    fn describe_verification(&self) -> String {
        match &self.reached {
            Some(reached) => format!("the core reached {}", describe_shares(reached)),
            None => "requested, not verified".to_owned(),
        }
    }

    /// Whether exits from another state are relative to this one: the first of the same CPU and source without a problem.
    fn is_reference_of(&self, other: &Self) -> bool {
        self.cpu == other.cpu && self.source == other.source && self.problem.is_none()
    }

    /// Sets the exit latency relative to another state, of which `latency` has the samples after equal pauses; too few
    /// leave all of its samples as the reference.
    fn set_exit(&mut self, reference: &Self, latency: Option<LatencySummary>) {
        let comparable = latency.filter(|latency| latency.n >= FEWEST_COUNTED);
        let shallow = comparable.as_ref().or(reference.latency.as_ref());
        self.exit = shallow
            .zip(self.latency.as_ref())
            .map(|(shallow, own)| own.median.minus(shallow.median));
        self.relative_to = self.exit.and(reference.state.clone());
    }
}

/// Why a step has no figure to rely on.
fn describe_problem(tally: &Tally, busy_percent: Option<f64>) -> Option<String> {
    let counted = tally.samples.len() as u64;
    let Tally {
        missed, rejected, ..
    } = tally;
    match counted {
        0 if *rejected > 0 => Some(format!(
            "hardware or firmware refused the state each time ({rejected} times)"
        )),
        0 if busy_percent.is_some_and(|busy| busy > MUCH_WORK) => Some(format!(
            "the state never engaged in {missed} wake-ups: other work kept the CPU busy"
        )),
        0 if *missed > 0 => Some(format!(
            "the state never engaged: in {missed} wake-ups the CPU was in another state or in none"
        )),
        0 => Some("no sample was taken".to_owned()),
        n if n < FEWEST_COUNTED => Some(format!("only {n} samples count")),
        _ => None,
    }
}

/// A note on what is known of the states that the hardware reached.
fn describe_verification(wakes: &[WakeLatency]) -> String {
    if wakes.iter().any(|wake| wake.reached.is_some()) {
        "`reached` has the states that the hardware's counters saw the core in; waking it takes time in which it is in none"
    } else {
        "states are requested, not verified: this machine shows no residency counters (perf's cstate_core)"
    }
    .to_owned()
}
