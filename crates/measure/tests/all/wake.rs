//! Wake-ups on a captured machine, whose counters a sampler moves: what counts, and that everything is put back.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Figure, Origin};
use wakepath_measure::wake::{
    HeldClock, WakeMeasurement, WakePlan, WakeSampler, WakeSource, WokenWithinEntry, measure_with,
};
use wakepath_measure::{ExperimentControl, MeasureError};
use wakepath_record::ReachedTicks;
use wakepath_settings::{Session, SettingsError};
use wakepath_system::{CPUS, Root, System};
use wakepath_units::Nanoseconds;

use crate::captured::{content, copy_of_laptop, different};

/// Files below the captured machine's CPU 1.
const CPU: &str = "sys/devices/system/cpu/cpu1";
/// Latency of a wake-up from each state of the laptop, in ns.
const LATENCIES: [u64; 5] = [2_000, 6_000, 80_000, 150_000, 300_000];
/// From the end of work to the begin of a state's entry, and the entry's length for each state deeper, in ns.
const ENTRY_BEGINS: u64 = 2_000;
const ENTRY_BY_DEPTH: u64 = 10_000;
/// What a wake-up takes longer while the package sleeps, in ns.
const PACKAGE_EXIT: u64 = 70_000;

/// A pause after which a host sleeps deeper, and what that adds to a wake-up in ns.
const HOST_SLEEPS_AFTER: Nanoseconds = Nanoseconds::from_millis(2);
const HOST_EXIT: u64 = 120_000;

/// What the machine does at a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    /// The CPU enters the only state that is allowed.
    Obedient,
    /// The CPU stays awake.
    Awake,
    /// Firmware refuses every state.
    Refusing,
    /// The CPU goes offline at the tenth sample.
    GoingAway,
    /// A signal comes at the tenth sample.
    Interrupted,
    /// Caches cool down: a wake-up after a longer pause takes longer, whatever the state.
    CoolingDown,
    /// Wake-ups take twice as long while the clock is held at its lowest.
    SlowAtLowClock,
    /// A host keeps the CPU waiting in every second sample.
    Robbed,
    /// The hardware counts what it reached: the core C6, and at rest the package C6, too.
    Counting,
    /// The hardware counts C1 where C6 or deeper is asked for.
    Demoting,
    /// A host sleeps deeper once a pause has lasted for 2 ms.
    HostSleeping,
    /// The kernel counts inter-processor interrupts: POLL is left by a store, all other states by an interrupt.
    CountingIpis,
    /// CPU 0 is a performance core and CPU 1 an efficiency core, which takes twice as long for a wake-up. Both have one idle
    /// table.
    Hybrid,
    /// Every state is allowed, and the governor picks a deeper one for a longer pause.
    Governed,
}

struct FakeSampler<'a> {
    machine: PathBuf,
    behaviour: Behaviour,
    /// The CPU that sleeps.
    cpu: usize,
    samples: usize,
    /// Inter-processor interrupts of CPU 1 so far.
    ipis: u64,
    /// Ticks so far: of the core in C6, of the package in C6, of the core in C1, and all.
    reached: [u64; 4],
    cancelled: &'a AtomicBool,
}

impl<'a> FakeSampler<'a> {
    /// A sampler on a copied machine, before its first sample.
    fn new(machine: &Path, behaviour: Behaviour, cancelled: &'a AtomicBool) -> Self {
        Self {
            machine: machine.to_owned(),
            behaviour,
            cpu: 1,
            samples: 0,
            ipis: 0,
            reached: [0; 4],
            cancelled,
        }
    }
}

impl FakeSampler<'_> {
    fn path(&self, state: usize, file: &str) -> PathBuf {
        let cpu = self.cpu;
        self.machine
            .join(format!("{CPUS}/cpu{cpu}/cpuidle/state{state}/{file}"))
    }

    fn number(&self, state: usize, file: &str) -> u64 {
        let text = fs::read_to_string(self.path(state, file)).unwrap();
        text.trim().parse().unwrap()
    }

    fn add(&self, state: usize, file: &str, more: u64) {
        let sum = self.number(state, file) + more;
        fs::write(self.path(state, file), format!("{sum}\n")).unwrap();
    }
}

impl FakeSampler<'_> {
    fn is_held_at_lowest_clock(&self) -> bool {
        let policy = self.machine.join("sys/devices/system/cpu/cpufreq/policy1");
        let read = |file: &str| fs::read_to_string(policy.join(file)).unwrap();
        read("scaling_max_freq") == read("cpuinfo_min_freq")
    }

    /// A pause that the core spends in C6 but for a tenth, or else in C1.
    fn count_core(&mut self, gap: Nanoseconds) {
        let percents = match self.behaviour {
            Behaviour::Demoting => [2, 88],
            _ => [90, 0],
        };
        self.reached[0] += gap.0 * percents[0] / 100;
        self.reached[2] += gap.0 * percents[1] / 100;
        self.reached[3] += gap.0;
    }
}

impl WakeSampler for FakeSampler<'_> {
    fn sample(
        &mut self,
        cpu: usize,
        source: WakeSource,
        gap: Nanoseconds,
    ) -> Result<Nanoseconds, MeasureError> {
        assert!(cpu == 1 || self.behaviour == Behaviour::Hybrid);
        self.cpu = cpu;
        self.samples += 1;
        let allowed: Vec<usize> = (0..5).filter(|s| self.number(*s, "disable") == 0).collect();
        let state = match allowed[..] {
            [state] => state,
            [_, _, _, _, _] if self.behaviour == Behaviour::Governed => {
                let limits = [100_000, 300_000, 1_000_000, 3_000_000];
                limits.iter().filter(|limit| gap.0 > **limit).count()
            }
            _ => panic!("not one state is allowed, but {allowed:?}"),
        };
        match (self.behaviour, self.samples) {
            (Behaviour::Awake, _) => return Ok(Nanoseconds(500)),
            (Behaviour::Refusing, _) => {
                self.add(state, "rejected", 1);
                return Ok(Nanoseconds(500));
            }
            (Behaviour::GoingAway, 10) => {
                fs::remove_dir_all(self.machine.join(CPU)).unwrap();
                return Ok(Nanoseconds(500));
            }
            (Behaviour::Robbed, count) => {
                let stat = format!("cpu  9 0 0 9 0 0 0 0\ncpu1 9 0 0 9 0 0 0 {}\n", count / 2);
                fs::write(self.machine.join("proc/stat"), stat).unwrap();
            }
            (Behaviour::Interrupted, 10) => self.cancelled.store(true, Ordering::Relaxed),
            _ => {}
        }
        if self.behaviour == Behaviour::CountingIpis && source == WakeSource::Task {
            self.ipis += u64::from(state > 0);
            let line = format!("CPU0 CPU1\nRES: 7 {} Rescheduling interrupts\n", self.ipis);
            fs::write(self.machine.join("proc/interrupts"), line).unwrap();
        }
        self.add(state, "usage", 1);
        self.add(state, "time", gap.as_micros().max(1));
        let timer = u64::from(source == WakeSource::Timer) * 500;
        let drive = u64::from(source == WakeSource::Drive) * (50_000 + state as u64 * 1_000);
        let cold = match self.behaviour {
            Behaviour::CoolingDown => gap.0 / 100,
            Behaviour::HostSleeping if state > 0 && gap >= HOST_SLEEPS_AFTER => HOST_EXIT,
            _ => 0,
        };
        self.count_core(gap);
        let slower = match self.behaviour {
            Behaviour::SlowAtLowClock if self.is_held_at_lowest_clock() => 2,
            Behaviour::Hybrid if cpu == 1 => 2,
            _ => 1,
        };
        Ok(Nanoseconds(
            slower * LATENCIES[state] + timer + drive + cold + self.samples as u64 % 7,
        ))
    }

    fn sample_again_after(
        &mut self,
        cpu: usize,
        gap: Nanoseconds,
    ) -> Result<Nanoseconds, MeasureError> {
        self.sample(cpu, WakeSource::Task, Nanoseconds::from_millis(1))?;
        if gap.0 < ENTRY_BEGINS {
            return Ok(Nanoseconds(500));
        }
        let settled = self.sample(cpu, WakeSource::Task, gap)?;
        let state = LATENCIES.iter().rposition(|latency| *latency <= settled.0);
        let ends = ENTRY_BEGINS + state.unwrap_or(0) as u64 * ENTRY_BY_DEPTH;
        Ok(Nanoseconds(settled.0 + ends.saturating_sub(gap.0)))
    }

    fn sample_at_rest(
        &mut self,
        cpu: usize,
        gap: Nanoseconds,
    ) -> Result<Nanoseconds, MeasureError> {
        let busy = self.sample(cpu, WakeSource::Timer, gap)?;
        self.reached[1] += gap.0 / 2;
        Ok(Nanoseconds(busy.0 + PACKAGE_EXIT))
    }

    fn read_reached(&mut self, cpu: usize) -> Vec<ReachedTicks> {
        if ![Behaviour::Counting, Behaviour::Demoting].contains(&self.behaviour) {
            return Vec::new();
        }
        let [core, package, shallow, all_ticks] = self.reached;
        let units = [(false, 6, core), (true, 6, package), (false, 1, shallow)];
        units
            .map(|(package, depth, ticks)| ReachedTicks {
                package,
                depth,
                cpu,
                ticks,
                all_ticks,
            })
            .to_vec()
    }
}

/// Runs the experiment on a copy of the laptop; its result, and the settings that are not as before.
fn run(
    behaviour: Behaviour,
) -> (
    tempfile::TempDir,
    Result<WakeMeasurement, MeasureError>,
    Vec<String>,
) {
    run_with(behaviour, &[WakeSource::Task, WakeSource::Timer])
}

fn run_with(
    behaviour: Behaviour,
    sources: &[WakeSource],
) -> (
    tempfile::TempDir,
    Result<WakeMeasurement, MeasureError>,
    Vec<String>,
) {
    run_on(copy_of_laptop(), behaviour, sources)
}

fn run_on(
    machine: tempfile::TempDir,
    behaviour: Behaviour,
    sources: &[WakeSource],
) -> (
    tempfile::TempDir,
    Result<WakeMeasurement, MeasureError>,
    Vec<String>,
) {
    if behaviour == Behaviour::Robbed {
        let kind = machine.path().join("sys/hypervisor");
        fs::create_dir_all(&kind).unwrap();
        fs::write(kind.join("type"), "xen\n").unwrap();
        fs::write(machine.path().join("proc/stat"), "").unwrap();
    }
    if behaviour == Behaviour::CountingIpis {
        let none = "CPU0 CPU1\nRES: 7 0 Rescheduling interrupts\n";
        fs::write(machine.path().join("proc/interrupts"), none).unwrap();
    }
    if behaviour == Behaviour::Hybrid {
        for (kind, cpus) in [("cpu_core", "0\n"), ("cpu_atom", "1\n")] {
            let device = machine.path().join("sys/devices").join(kind);
            fs::create_dir_all(&device).unwrap();
            fs::write(device.join("cpus"), cpus).unwrap();
        }
    }
    let before = settings(machine.path());
    let system = System::new(Root::at_directory(machine.path()));
    // Enough for the most samples of a step; what goes by single pauses takes many.
    let seconds = if behaviour == Behaviour::CoolingDown {
        30
    } else {
        2
    };
    let time = Duration::from_secs(seconds);
    let plan = WakePlan::new(&system, sources, true, Some(time)).unwrap();
    let (steps, cancelled) = (AtomicUsize::new(0), AtomicBool::new(false));
    let finished = |done: usize| {
        steps.fetch_add(done, Ordering::Relaxed);
    };
    let sampler = FakeSampler::new(machine.path(), behaviour, &cancelled);
    let control = ExperimentControl::new(&finished, &cancelled);
    let result = measure_with(&system, &plan, sampler, control);
    if result.as_ref().is_ok_and(|result| result.complete) {
        assert_eq!(steps.into_inner(), plan.steps());
    }
    let after = settings(machine.path());
    let changed = different(&after, &before).into_iter().collect();
    (machine, result, changed)
}

/// Files of a machine but for its counters.
fn settings(machine: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = content(machine);
    all.retain(|path, _| {
        let name = path.rsplit('/').next().unwrap_or_default();
        !["usage", "time", "rejected", "stat", "interrupts"].contains(&name)
    });
    all
}

#[test]
fn exit_latencies_are_differences_to_polling_and_everything_is_put_back() {
    let (_machine, result, changed) = run(Behaviour::Obedient);
    let result = result.unwrap();
    assert_eq!(changed, Vec::<String>::new());
    assert!(result.complete && result.forced);
    let tasks = result
        .wakes
        .iter()
        .filter(|wake| wake.source == WakeSource::Task);
    let exits: Vec<(String, Option<u64>)> = tasks
        .map(|wake| {
            assert!(wake.problem.is_none(), "{wake:?}");
            let exit = wake.exit.map(|exit| (exit.ns / 1e3).round() as u64);
            (wake.state.clone().unwrap(), exit)
        })
        .collect();
    let expected = [
        ("POLL", None),
        ("C1E", Some(4)),
        ("C6", Some(78)),
        ("C8", Some(148)),
        ("C10", Some(298)),
    ];
    assert_eq!(exits, expected.map(|(name, exit)| (name.to_owned(), exit)));
}

#[test]
fn without_root_nothing_is_changed_and_the_figures_are_coarse() {
    let machine = copy_of_laptop();
    let before = settings(machine.path());
    let system = System::new(Root::at_directory(machine.path()));
    let sources = [WakeSource::Task, WakeSource::Timer];
    let plan = WakePlan::new(&system, &sources, false, Some(Duration::from_secs(1))).unwrap();
    let described = plan.describe().join("\n");
    assert!(
        described.contains("changes nothing: the governor picks the states"),
        "{described}"
    );
    let cancelled = AtomicBool::new(false);
    let changed = Mutex::new(Vec::new());
    let steps = AtomicUsize::new(0);
    let finished = |done: usize| {
        steps.fetch_add(done, Ordering::Relaxed);
        let now = settings(machine.path());
        changed.lock().unwrap().extend(different(&now, &before));
    };
    let sampler = FakeSampler::new(machine.path(), Behaviour::Governed, &cancelled);
    let control = ExperimentControl::new(&finished, &cancelled);
    let result = measure_with(&system, &plan, sampler, control).unwrap();
    assert!(result.complete && !result.forced);
    assert_eq!(steps.into_inner(), plan.steps());
    // Neither a setting nor a journal, at the end of any step.
    assert_eq!(changed.into_inner().unwrap(), Vec::<String>::new());

    assert_eq!(result.wakes.len(), sources.len());
    for wake in &result.wakes {
        assert_eq!((&wake.state, wake.exit), (&None, None), "{wake:?}");
        assert_eq!(wake.problem, None);
        // Pauses of 30 us to 10 ms meet shallow and deep states.
        let median = wake.latency.as_ref().unwrap().median.ns;
        assert!((6_000.0..300_000.0).contains(&median), "{median}");
    }
    assert!(result.entries.is_empty() && result.packages.is_empty());
    let notes = result.notes.join("\n");
    assert!(
        notes.contains("coarse: the governor picked the states") && notes.contains("needs root"),
        "{notes}"
    );
    let text = result.to_toml();
    assert!(text.starts_with("# coarse: the governor picked"), "{text}");
    assert!(
        text.contains("# CPU 1 woken by task from any state: "),
        "{text}"
    );
    // A latency of no state is no figure of a machine.
    assert!(text.parse::<toml::Table>().unwrap().is_empty(), "{text}");
    let mut laptop = Machine::find("laptop").unwrap();
    let as_found = laptop.to_toml().unwrap();
    assert_eq!(result.apply_to(&mut laptop), Vec::<String>::new());
    assert_eq!(laptop.to_toml().unwrap(), as_found);
}

#[test]
fn counts_of_interrupts_tell_how_a_task_wakes_a_cpu() {
    let (_machine, result, _) = run(Behaviour::CountingIpis);
    for wake in &result.unwrap().wakes {
        let expected = match (wake.source, wake.state.as_deref()) {
            (WakeSource::Task, Some("POLL")) => Some("by a store"),
            (WakeSource::Task, _) => Some("by an IPI"),
            _ => None,
        };
        assert_eq!(wake.describe_way_of_task(), expected, "{wake:?}");
    }
    let (_machine, without_counts, _) = run(Behaviour::Obedient);
    let wakes = without_counts.unwrap().wakes;
    assert!(wakes.iter().all(|wake| wake.ipis_per_wake_up.is_none()));
}

#[test]
fn samples_that_a_host_disturbed_are_counted() {
    let (_machine, result, changed) = run(Behaviour::Robbed);
    let result = result.unwrap();
    assert_eq!(changed, Vec::<String>::new());
    for wake in &result.wakes {
        let n = wake.latency.as_ref().unwrap().n;
        let half = n as f64 / 2.0;
        assert!(
            (wake.disturbed_by_host as f64 - half).abs() <= 6.0,
            "{} of {n}",
            wake.disturbed_by_host
        );
    }
    let (_machine, undisturbed, _) = run(Behaviour::Obedient);
    let wakes = undisturbed.unwrap().wakes;
    assert!(wakes.iter().all(|wake| wake.disturbed_by_host == 0));
}

#[test]
fn exits_are_compared_after_equal_pauses() {
    let (_machine, result, _) = run(Behaviour::CoolingDown);
    let result = result.unwrap();
    let deepest = result
        .wakes
        .iter()
        .find(|wake| wake.source == WakeSource::Task && wake.state.as_deref() == Some("C10"));
    let exit = deepest.unwrap().exit.unwrap();
    // Pauses before C10 are far longer than most before POLL; compared with all of these, the exit would seem 30 us longer.
    assert!((exit.ns - 298_000.0).abs() < 15_000.0, "{exit:?}");
    assert!(exit.covers(298_000.0), "{exit:?}");
}

#[test]
fn entries_are_what_early_wake_ups_wait_longer() {
    let (_machine, result, _) = run(Behaviour::Obedient);
    let result = result.unwrap();
    let names: Vec<&str> = result
        .entries
        .iter()
        .map(|cost| cost.state.as_str())
        .collect();
    assert_eq!(names, ["C1E", "C6", "C8", "C10"]);
    for (cost, depth) in result.entries.iter().zip(1..) {
        let entry = cost.entry.unwrap();
        assert_eq!(entry.woken_within, WokenWithinEntry::CompletesAndLeaves);
        let length = (depth * ENTRY_BY_DEPTH) as f64;
        assert!(
            (entry.cost.ns - length).abs() < 0.05 * length + 500.0,
            "{cost:?}"
        );
    }
    let mut machine = Machine::find("laptop").unwrap();
    result.apply_to(&mut machine);
    let states = machine.idle_state.iter();
    let measured = states.filter(|state| matches!(state.true_entry_us.origin, Origin::Measured(_)));
    assert!(measured.count() >= 2);
    assert!(
        result
            .to_toml()
            .contains("completes the entry and then leaves the state")
    );
}

#[test]
fn a_sleeping_package_costs_a_timer_more_and_the_hardware_says_which() {
    for (behaviour, says) in [
        (
            Behaviour::Counting,
            "package states reached: C6 for 50 % of the time",
        ),
        (Behaviour::Obedient, "this machine shows no package states"),
    ] {
        let (_machine, result, changed) = run(behaviour);
        assert_eq!(changed, Vec::<String>::new());
        let result = result.unwrap();
        let [package] = &result.packages[..] else {
            panic!("{:?}", result.packages);
        };
        let beyond = package.beyond.unwrap();
        assert!(
            (beyond.ns - PACKAGE_EXIT as f64).abs() < 100.0,
            "{beyond:?}"
        );
        let notes = result.notes.join("\n");
        assert!(notes.contains("C10 with all other CPUs at rest"), "{notes}");
        assert!(notes.contains(says), "{notes}");
        let verified = result
            .to_toml()
            .contains("the core reached C6 for 90 % of the time");
        assert_eq!(verified, behaviour == Behaviour::Counting);
    }
}

#[test]
fn what_an_io_pays_for_becomes_the_figure() {
    let (_machine, result, _) = run_with(
        Behaviour::Obedient,
        &[WakeSource::Task, WakeSource::Timer, WakeSource::Drive],
    );
    let result = result.unwrap();
    let mut machine = Machine::find("laptop").unwrap();
    result.apply_to(&mut machine);
    let exit_us = |name: &str| {
        let mut states = machine.idle_state.iter();
        let state = states.find(|state| state.name == name).unwrap();
        state.true_exit_us.value
    };
    // A read from C1E takes 1 us more than a wake-up by a task.
    assert!((exit_us("C1E") - 5.0).abs() < 0.1, "{}", exit_us("C1E"));
    assert!((exit_us("C10") - 302.0).abs() < 0.1, "{}", exit_us("C10"));
    assert!(
        result
            .to_toml()
            .contains("median read from the drive less that from POLL")
    );
}

#[test]
fn measured_exits_become_figures_of_a_machine() {
    let (_machine, result, _) = run(Behaviour::Obedient);
    let mut machine = Machine::find("laptop").unwrap();
    let result = result.unwrap();
    result.apply_to(&mut machine);
    let text = machine.to_toml().unwrap();
    let again = Machine::parse(&text, "measured").unwrap();
    let names: Vec<&str> = again.idle_state.iter().map(|s| s.name.as_str()).collect();
    let measured = text.matches("measured = {").count();
    assert!(measured >= 2, "{measured} of {names:?}");
    assert_eq!(again.to_toml().unwrap(), text);
    let fragment: toml::Table = result.to_toml().parse().unwrap();
    let states = fragment["idle_state"].as_array().unwrap();
    // Polling is what the others are relative to.
    let names: Vec<&str> = states.iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["C1E", "C6", "C8", "C10"]);
    for state in states {
        assert!(state["true_exit_us"]["measured"]["n"].as_integer().unwrap() > 20);
    }
}

#[test]
fn core_types_with_one_idle_table_are_measured_apart() {
    let (machine, result, changed) = run_with(Behaviour::Hybrid, &[WakeSource::Task]);
    let result = result.unwrap();
    assert_eq!(changed, Vec::<String>::new());
    let system = System::new(Root::at_directory(machine.path()));
    let plan = WakePlan::new(&system, &[WakeSource::Task], true, None).unwrap();
    let described = plan.describe().join("\n");
    assert!(
        described.contains("wakes CPU 0 from") && described.contains("wakes CPU 1 from"),
        "{described}"
    );
    for (cpu, exit_of_c6) in [(0, 78_000.0), (1, 156_000.0)] {
        let mut wakes = result.wakes.iter();
        let wake = wakes.find(|wake| wake.cpu == cpu && wake.state.as_deref() == Some("C6"));
        let wake = wake.unwrap();
        assert_eq!(wake.cpus_alike, [cpu]);
        assert!(
            (wake.exit.unwrap().ns - exit_of_c6).abs() < 100.0,
            "{wake:?}"
        );
    }
    // A machine with one cluster has no place for two kinds.
    let mut alike = Machine::find("laptop").unwrap();
    let before = alike.to_toml().unwrap();
    let refused = result.apply_to(&mut alike).join("\n");
    assert_eq!(alike.to_toml().unwrap(), before);
    assert!(refused.contains("2 CPUs, and the machine has"), "{refused}");
    alike.cluster[0].cpus = 2;
    let mixed = result.apply_to(&mut alike).join("\n");
    assert!(mixed.contains("its CPUs are of several kinds"), "{mixed}");
    let fragment: toml::Table = result.to_toml().parse().unwrap();
    let tables = fragment["cluster"]["idle_state"].as_array().unwrap();
    // Four states of either kind; polling is what they are relative to.
    assert_eq!(tables.len(), 8);
    let notes = result.notes.join("\n");
    assert!(notes.contains("CPUs 0-1 stand for"), "{notes}");

    let (_machine, one_kind, _) = run(Behaviour::Obedient);
    let notes = one_kind.unwrap().notes.join("\n");
    assert!(!notes.contains("kinds of CPUs"), "{notes}");
}

#[test]
fn each_kind_of_core_gets_its_exits_in_its_cluster() {
    let (_machine, result, _) = run_with(Behaviour::Hybrid, &[WakeSource::Task]);
    let result = result.unwrap();
    let mut machine = Machine::find("hybrid-i7-1260p").unwrap();
    for cluster in &mut machine.cluster {
        cluster.cpus = 1;
        cluster.threads_per_core = 1;
        cluster.clock_cpus = None;
        cluster.smt_speedup = Figure::default();
        cluster.smt_poll_loss = Figure::default();
        cluster.turbo.clear();
    }
    let common = machine.idle_state.clone();
    assert_eq!(result.apply_to(&mut machine), Vec::<String>::new());
    let text = machine.to_toml().unwrap();
    let read_again = Machine::parse(&text, "measured").unwrap();
    assert_eq!(read_again.to_toml().unwrap(), text);
    for (cluster, exit_of_c6) in [(0, 78.0), (1, 156.0)] {
        let states = read_again.idle_states_on_cluster(&read_again.cluster[cluster]);
        let state = states.iter().find(|state| state.name == "C6").unwrap();
        assert!(
            (state.true_exit_us.value - exit_of_c6).abs() < 0.1,
            "{state:?}"
        );
        let Origin::Measured(measurement) = &state.true_exit_us.origin else {
            panic!("{state:?}");
        };
        assert!(measurement.n > 20 && measurement.interval().is_some());
        assert!(!measurement.date.is_empty() && !measurement.kernel.is_empty());
        assert!(
            measurement.what.contains(&format!("CPU {cluster}")),
            "{}",
            measurement.what
        );
        assert!(
            matches!(state.true_entry_us.origin, Origin::Measured(_)),
            "{state:?}"
        );
    }
    for (state, before) in machine.idle_state.iter().zip(&common) {
        assert_eq!(state.true_exit_us, before.true_exit_us);
    }
}

#[test]
fn a_host_that_sleeps_deeper_in_long_pauses_becomes_figures() {
    let (_machine, result, _) = run(Behaviour::HostSleeping);
    let mut machine = Machine::find("laptop").unwrap();
    result.unwrap().apply_to(&mut machine);
    for (name, before_us) in [("C1E", 4.0), ("C6", 78.0)] {
        let mut states = machine.idle_state.iter();
        let state = states.find(|state| state.name == name).unwrap();
        let figures = [
            &state.true_exit_us,
            &state.deeper_after_us,
            &state.deeper_exit_us,
        ];
        let [before, after, deeper] = figures.map(|figure| figure.value);
        assert!((before - before_us).abs() < 0.1, "{name}: {before}");
        // How near the found pause comes to 2 ms depends on how many pauses fit into the time.
        let Origin::Measured(when) = &state.deeper_after_us.origin else {
            panic!("{name}");
        };
        let (low, high) = when.interval().unwrap();
        assert!((low..=high).contains(&2_000.0), "{name}: {when:?}");
        assert!(after < 5_000.0, "{name}: {after}");
        assert!((deeper - before_us - 120.0).abs() < 0.1, "{name}: {deeper}");
        assert!(
            figures
                .iter()
                .all(|figure| matches!(figure.origin, Origin::Measured(_)))
        );
    }
    let text = machine.to_toml().unwrap();
    assert_eq!(
        Machine::parse(&text, "measured")
            .unwrap()
            .to_toml()
            .unwrap(),
        text
    );
    // A later measurement without the host's sleep takes the figures away.
    let (_machine, without, _) = run(Behaviour::Obedient);
    without.unwrap().apply_to(&mut machine);
    assert!(!machine.to_toml().unwrap().contains("deeper"));
}

#[test]
fn states_that_never_engage_have_no_figure() {
    for (behaviour, says) in [
        (Behaviour::Awake, "never engaged"),
        (Behaviour::Refusing, "refused"),
    ] {
        let (_machine, result, changed) = run(behaviour);
        assert_eq!(changed, Vec::<String>::new());
        for wake in result.unwrap().wakes {
            assert!(wake.latency.is_none() && wake.exit.is_none());
            let problem = wake.problem.unwrap();
            assert!(problem.contains(says), "{problem}");
        }
    }
}

#[test]
fn states_that_the_hardware_demotes_have_no_figure() {
    let (_machine, result, changed) = run_with(Behaviour::Demoting, &[WakeSource::Task]);
    let result = result.unwrap();
    assert_eq!(changed, Vec::<String>::new());
    for wake in &result.wakes {
        let state = wake.state.as_deref().unwrap();
        if ["POLL", "C1E"].contains(&state) {
            assert_eq!(wake.problem, None, "{state}");
            continue;
        }
        let problem = wake.problem.as_deref().unwrap();
        assert_eq!(
            problem,
            "the hardware demoted it: the core reached C6 for 2 % of the time, C1 for 88 %"
        );
        assert!(wake.exit.is_none() && wake.latency.is_some(), "{wake:?}");
        let mut entries = result.entries.iter();
        let entry = entries.find(|cost| cost.state == state).unwrap();
        assert!(entry.entry.is_none() && entry.problem.as_deref() == Some(problem));
    }
    let toml = result.to_toml();
    assert!(toml.contains("C1E") && !toml.contains("\"C6\""), "{toml}");

    // The same counts under a driver whose C6 is whatever the firmware has, and hardware that obeys.
    let by_firmware = copy_of_laptop();
    let driver = "sys/devices/system/cpu/cpuidle/current_driver";
    fs::write(by_firmware.path().join(driver), "acpi_idle\n").unwrap();
    for (machine, behaviour) in [
        (by_firmware, Behaviour::Demoting),
        (copy_of_laptop(), Behaviour::Counting),
    ] {
        let (_machine, result, _) = run_on(machine, behaviour, &[WakeSource::Task]);
        let wakes = result.unwrap().wakes;
        let mut deep = wakes
            .iter()
            .filter(|wake| wake.state.as_deref() == Some("C10"));
        let deepest = deep.next().unwrap();
        assert!(
            deepest.problem.is_none() && deepest.exit.is_some(),
            "{behaviour:?}: {deepest:?}"
        );
    }
}

#[test]
fn a_waker_on_the_sleepers_core_is_noted() {
    let (_machine, result, _) = run_with(Behaviour::Obedient, &[WakeSource::Task]);
    let notes = result.unwrap().notes.join("\n");
    assert!(notes.contains("CPU 0, which wakes CPU 1,"), "{notes}");

    let machine = copy_of_laptop();
    for (cpu, list) in ["0\n", "1\n"].into_iter().enumerate() {
        let siblings = format!("{CPUS}/cpu{cpu}/topology/core_cpus_list");
        fs::write(machine.path().join(siblings), list).unwrap();
    }
    let (_machine, result, _) = run_on(machine, Behaviour::Obedient, &[WakeSource::Task]);
    let notes = result.unwrap().notes.join("\n");
    assert!(!notes.contains("which wakes CPU 1"), "{notes}");
}

#[test]
fn a_cpu_that_goes_away_ends_the_experiment_and_leaves_the_journal() {
    let (machine, result, _) = run(Behaviour::GoingAway);
    let error = result.unwrap_err().to_string();
    assert!(error.contains("CPU 1 has gone away"), "{error}");
    // CPU 0 was not touched, and what CPU 1 had waits for it.
    let journal = machine.path().join("var/lib/wakepath/journal.json");
    let text = fs::read_to_string(journal).unwrap();
    assert!(text.contains("cpu1/state2"), "{text}");
    let original = copy_of_laptop();
    let copied = fs::create_dir_all(machine.path().join(CPU).join("cpuidle"));
    copied.unwrap();
    for (path, bytes) in content(&original.path().join(CPU)) {
        let path = machine.path().join(CPU).join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let disable = machine.path().join(CPU).join("cpuidle/state2/disable");
    fs::write(&disable, "1\n").unwrap();
    let system = System::new(Root::at_directory(machine.path()));
    Session::open_and_recover(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    assert_eq!(fs::read_to_string(disable).unwrap(), "0\n");
}

#[test]
fn a_signal_ends_the_experiment_with_what_there_is() {
    let (_machine, result, changed) = run(Behaviour::Interrupted);
    assert_eq!(changed, Vec::<String>::new());
    let result = result.unwrap();
    assert!(!result.complete);
    assert!(result.wakes[0].latency.is_some() && result.wakes[2].latency.is_none());
    // Nine samples are too few for a figure.
    assert!(result.wakes[0].problem.is_some() && result.to_toml().is_empty());
}

#[test]
fn a_clock_is_held_and_put_back() {
    let machine = copy_of_laptop();
    let before = settings(machine.path());
    let system = System::new(Root::at_directory(machine.path()));
    for (clock, file) in [
        (HeldClock::Lowest, "cpuinfo_min_freq"),
        (HeldClock::Highest, "cpuinfo_max_freq"),
    ] {
        let policy = machine
            .path()
            .join("sys/devices/system/cpu/cpufreq/policy1");
        let read = |name: &str| fs::read_to_string(policy.join(name)).unwrap();
        let plan = WakePlan::new(&system, &[WakeSource::Task], true, Some(Duration::ZERO)).unwrap();
        let plan = plan.with_clock(&system, clock).unwrap();
        assert!(plan.describe().join("\n").contains("holds policy1 at"));
        let cancelled = AtomicBool::new(false);
        let seen = AtomicUsize::new(0);
        let finished = |_: usize| {
            assert_eq!(
                [read("scaling_min_freq"), read("scaling_max_freq")],
                [read(file), read(file)]
            );
            seen.fetch_add(1, Ordering::Relaxed);
        };
        let sampler = FakeSampler::new(machine.path(), Behaviour::Obedient, &cancelled);
        let control = ExperimentControl::new(&finished, &cancelled);
        let result = measure_with(&system, &plan, sampler, control).unwrap();
        assert_eq!(result.held_khz.len(), 1);
        assert!(seen.into_inner() > 0);
        assert!(result.to_toml().contains(" MHz, requested"));
        assert!(different(&settings(machine.path()), &before).is_empty());
    }
    fs::remove_dir_all(machine.path().join("sys/devices/system/cpu/cpufreq")).unwrap();
    let plan = WakePlan::new(&system, &[WakeSource::Task], true, None).unwrap();
    let error = plan.with_clock(&system, HeldClock::Lowest).unwrap_err();
    assert!(error.to_string().contains("no frequency policy"), "{error}");
}

#[test]
fn wake_ups_are_measured_at_each_clock_in_turn() {
    let machine = copy_of_laptop();
    let before = settings(machine.path());
    let system = System::new(Root::at_directory(machine.path()));
    let sources = [WakeSource::Task];
    let time = Duration::from_secs(3);
    let plan = WakePlan::with_both_clocks_beside(&system, &sources, true, time).unwrap();
    let alone = WakePlan::new(&system, &sources, true, None).unwrap();
    assert_eq!(plan.steps(), 3 * alone.steps());
    assert!((plan.duration().as_secs_f64() - 3.0).abs() < 0.1);
    let described = plan.describe().join("\n");
    assert!(
        described.contains("the same with policy1 held"),
        "{described}"
    );
    let limit = machine
        .path()
        .join("sys/devices/system/cpu/cpufreq/policy1/scaling_max_freq");
    let seen = Mutex::new(Vec::new());
    let cancelled = AtomicBool::new(false);
    let finished = |_: usize| seen.lock().unwrap().push(fs::read(&limit).unwrap());
    let sampler = FakeSampler::new(machine.path(), Behaviour::SlowAtLowClock, &cancelled);
    let control = ExperimentControl::new(&finished, &cancelled);
    let result = measure_with(&system, &plan, sampler, control).unwrap();
    assert!(result.complete && result.held_khz.is_empty());
    let clocks = result.at_other_clocks.iter().map(|other| other.held_khz[0]);
    let clocks: Vec<u64> = clocks.collect();
    assert!(clocks.len() == 2 && clocks[0] < clocks[1], "{clocks:?}");
    let mut limits = seen.into_inner().unwrap();
    assert_eq!(limits.len(), plan.steps());
    limits.dedup();
    assert!(limits.len() >= 2, "{limits:?}");
    assert!(different(&settings(machine.path()), &before).is_empty());
    // At the lowest clock each exit takes twice as long; figures are those of the governor's clock.
    let notes = result.notes.join("\n");
    let lowest = format!(
        "298.0 us at the governor's clock, 596.0 us at {} MHz",
        clocks[0] / 1000
    );
    assert!(notes.contains(&lowest), "{notes}");
    assert!(!result.to_toml().contains(" MHz, requested"));

    fs::remove_dir_all(machine.path().join("sys/devices/system/cpu/cpufreq")).unwrap();
    let plan = WakePlan::with_both_clocks_beside(&system, &sources, true, time).unwrap();
    assert_eq!(plan.steps(), alone.steps());
    assert!((plan.duration().as_secs_f64() - 3.0).abs() < 0.1);
}

#[test]
fn a_second_experiment_is_refused() {
    let machine = copy_of_laptop();
    let before = content(machine.path());
    let system = System::new(Root::at_directory(machine.path()));
    let plan = WakePlan::new(&system, &[WakeSource::Task], true, None).unwrap();
    let session = Session::open_and_recover(&system).unwrap();
    let cancelled = AtomicBool::new(false);
    let sampler = FakeSampler::new(machine.path(), Behaviour::Obedient, &cancelled);
    let error = measure_with(
        &system,
        &plan,
        sampler,
        ExperimentControl::new(&|_| {}, &cancelled),
    );
    let error = error.unwrap_err();
    assert!(
        matches!(error, MeasureError::Settings(SettingsError::Locked { .. })),
        "{error}"
    );
    drop(session);
    assert!(different(&content(machine.path()), &before).is_empty());
}

#[test]
fn machines_without_what_it_takes_are_refused() {
    let machine = copy_of_laptop();
    let system = System::new(Root::at_directory(machine.path()));
    let plan = |forced| WakePlan::new(&system, &[WakeSource::Task], forced, None);
    let governors = machine.path().join("sys/devices/system/cpu/cpuidle");
    fs::write(governors.join("current_governor"), "ladder\n").unwrap();
    let described = plan(true).unwrap().describe().join("\n");
    assert!(described.contains("governor menu meanwhile"), "{described}");
    fs::write(governors.join("available_governors"), "ladder teo\n").unwrap();
    let described = plan(true).unwrap().describe().join("\n");
    assert!(described.contains("governor teo meanwhile"), "{described}");
    fs::write(governors.join("available_governors"), "ladder haltpoll\n").unwrap();
    let error = plan(true).unwrap_err().to_string();
    assert!(error.contains("neither menu nor teo"), "{error}");
    // Without root nothing has to be forced.
    assert_eq!(plan(false).unwrap().steps(), 10);
    fs::write(machine.path().join("sys/devices/system/cpu/online"), "0\n").unwrap();
    let error = plan(false).unwrap_err().to_string();
    assert!(error.contains("two CPUs"), "{error}");
    let empty = tempfile::tempdir().unwrap();
    let nothing = System::new(Root::at_directory(empty.path()));
    let error = WakePlan::new(&nothing, &[WakeSource::Task], true, None).unwrap_err();
    assert!(error.to_string().contains("no idle states"), "{error}");
}
