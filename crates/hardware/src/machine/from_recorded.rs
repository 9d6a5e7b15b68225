//! Turns a recorded system into a machine. Unrecorded figures come from a similar built-in machine, and are marked as
//! assumed.

use wakepath_units::{KernelVersion, Kilohertz};

use super::figure::{Figure, Origin};
use super::{
    Cluster, CoreKind, EFFICIENCY_CAPACITY, EFFICIENCY_CAPACITY_WHY, Machine, MachineError,
    MachineIdleState, Opp, Platform, PowerLimit, PowerScope, Scope, TurboLimit, Uncore,
};
use crate::idle::IdleState;
use crate::nearest::Lender;
use crate::processor::Processor;
use crate::recorded::{RecordedIdle, RecordedPolicy, RecordedSystem};

/// Built-in machines with a battery: their power at rest stands for others of their segment.
const PORTABLE: [&str; 4] = ["laptop", "hybrid-i7-1260p", "ryzen-8840u", "apple-m1-pro"];
/// Bus clock on x86 processors: the step between operating points.
const STEP_KHZ: usize = 100_000;
/// A system with more CPUs than this is a server.
const MAX_CLIENT_CPUS: usize = 24;
/// C1 stops the clock only; nobody declares more for it.
const C1_EXIT_US: f64 = 2.0;
/// CPUID family and model for Sapphire Rapids and for Emerald Rapids, with the same core generation.
const SAPPHIRE_RAPIDS: [&str; 2] = ["6/143", "6/207"];
/// What leaving C6 takes there: the medians are 97 us at 2.0 GHz, 100.5 at 1.4 and 104 at 0.8.
const SAPPHIRE_RAPIDS_C6_US: f64 = 100.5;
/// Servers with package C6 (`intel_idle` of Linux 6.12): CPUID family and models, and two exit latencies of C6 in us.
/// The kernel declares the first if the package goes down with it, else the second.
const PACKAGE_C6_US: [(&[&str], f64, f64); 3] = [
    (&["6/85"], 133.0, 92.0),
    (&["6/106", "6/108"], 170.0, 128.0),
    (&SAPPHIRE_RAPIDS, 290.0, 190.0),
];
/// Default power limits for Intel processors without recorded registers: PL1 and PL2 for clients and for servers.
/// Each is a multiple of thermal design power, and seconds.
const CLIENT_LIMITS: [(f64, f64); 2] = [(1.0, 28.0), (1.25, 0.01)];
const CLIENT_LIMITS_WHY: [&str; 2] = [
    "thermal design power over 28 s: the default of PL1, and the window for mobile use (MSR 610h), by the data sheet of the 4th \
     generation Core. turbostat shows 28 s of a Tiger Lake laptop (github.com/horshack-dpreview/setPL, issue 1)",
    "1.25 times the thermal design power, exceeded for at most 10 ms: the default of PL2 (data sheet of the 4th generation Core, MSR 610h)",
];
const SERVER_LIMITS: [(f64, f64); 2] = [(1.0, 1.0), (1.2, 0.011_718_75)];
const SERVER_LIMITS_WHY: [&str; 2] = [
    "thermal design power over 1 s, as recorded of emr0, gnr0 and spr1",
    "1.2 times PL1 over 11.7 ms, as recorded of emr0, gnr0 and spr1",
];
/// How often an AMD processor looks at frequency requests, and what a change takes from then on.
const AMD_SLOT_US: f64 = 1000.0;
const AMD_SLOT_WHY: &str = "as measured on an EPYC 7502: changes are uniform within 1 ms";
const SLOTTED_TRANSITION_US: f64 = 371.0;
const SLOTTED_TRANSITION_WHY: &str =
    "as measured on an EPYC 7502: 871 us in the median, less half a slot of 1 ms";
/// Declared exit latencies with a higher ratio belong to different states.
const FAR_APART: f64 = 10.0;
/// An additional MHz in the name of the highest frequency: acpi-cpufreq's way to offer turbo.
const TURBO_MARK_KHZ: u32 = 1000;

/// Name of a recorded system's drive.
const ASSUMED_DRIVE: &str = "NVMe SSD (assumed)";

impl Machine {
    /// A recorded system as a machine.
    ///
    /// Idle states, frequency range, base frequency and transition latency are recorded. Sockets, cores, threads,
    /// turbo limits and the uncore's range come from the system's [`Processor`]. All else is assumed. Exit times are
    /// half of the declared latency; on servers, without the package's part. C6 on Sapphire and Emerald Rapids, and
    /// AMD's states, use measurements from similar processors. Other figures come from a similar built-in machine,
    /// per socket. Hybrid processors get a cluster for each core type, told apart by the highest frequency of their
    /// policies ([`Machine::split_by_kind`]).
    ///
    /// # Errors
    /// The record lacks the idle states or the frequencies.
    pub fn from_recorded(system: &RecordedSystem) -> Result<Self, MachineError> {
        let idle = recorded_idle(system)?;
        let kind = Kind::for_system(system, idle);
        Self::from_record(system, kind, kind.template())
    }

    /// A captured machine: as [`Machine::from_recorded`], with the figures that another machine lends.
    ///
    /// # Errors
    /// As [`Machine::from_recorded`].
    pub fn from_captured(
        system: &RecordedSystem,
        captured: &Captured<'_>,
    ) -> Result<Self, MachineError> {
        let lender = captured.lender;
        let mut machine = Self::from_record(system, Kind::of_lender(lender), lender.machine)?;
        let template = Self::find(lender.machine)?.borrowed()?;
        let like = cluster_with_core(&template, captured.cores.first());
        take_power(&mut machine.cluster[0], like);
        if let Some(core) = captured.cores.first() {
            machine.cluster[0].core.clone_from(core);
        }
        package_of_sockets(&mut machine, captured.sockets);
        let sockets = captured.sockets.max(1);
        machine.platform = Platform::for_server(&system.family_model, &system.cpu_model, sockets)
            .or_else(|| {
                template
                    .platform
                    .clone()
                    .filter(|_| PORTABLE.contains(&lender.machine))
            })
            .filter(|_| lender.power);
        if !lender.power {
            machine.remove_power(&lender.why);
        }
        Ok(machine)
    }

    /// Gives each cluster its first CPU's core name and the lender's powers for such a core. `cores`: core names by
    /// CPU.
    ///
    /// # Errors
    /// The lender is no built-in machine.
    pub fn take_cores(&mut self, cores: &[String], lender: &Lender) -> Result<(), MachineError> {
        let template = Self::find(lender.machine)?.borrowed()?;
        let mut first = 0;
        for cluster in &mut self.cluster {
            let core = cores.get(first);
            first += cluster.cpus;
            let Some(core) = core else { continue };
            cluster.core.clone_from(core);
            let lends = template.cluster.iter().find(|like| like.core == *core);
            if let Some(like) = lends.filter(|_| lender.power) {
                take_power(cluster, like);
                for state in &mut cluster.idle_state {
                    (state.power_mw, state.transition_mw) = <(Figure, Figure)>::default();
                }
            }
        }
        Ok(())
    }

    /// `lender`: the built-in machine with figures for unrecorded ones.
    fn from_record(
        system: &RecordedSystem,
        kind: Kind,
        lender: &str,
    ) -> Result<Self, MachineError> {
        let idle = recorded_idle(system)?;
        let fastest = system.frequency.iter().rev().max_by_key(|p| p.max);
        let policy = fastest.ok_or_else(|| missing(system, "frequencies"))?;
        let template = Self::find(lender)?.borrowed()?;
        let cluster = clusters(system, idle, policy, kind, &template);
        let mut scheduler = template.scheduler.clone();
        let home = &mut scheduler.home;
        home.assumed = match cluster.len() {
            1 => "there is only one".to_owned(),
            _ => "the sockets are alike; a task starts on the first".to_owned(),
        };
        home.cluster.clone_from(&cluster[0].name);
        let package_exit = (kind == Kind::Server).then(|| package_exit(system, idle));
        let package_us = package_exit.as_ref().map_or(0.0, |exit| exit.value);
        let mut machine = Self {
            schema: template.schema,
            name: system.name.clone(),
            title: format!(
                "{} as recorded under Linux {}; what its hardware really takes is assumed",
                system.cpu_model, system.kernel
            ),
            // `None` if the policies of this kernel are unknown.
            kernel: KernelVersion::of_release(&system.kernel).ok(),
            kernel_from: Some(format!("the record: Linux {}", system.kernel)),
            runs: None,
            no_power: None,
            prediction: None,
            hz: tick_rate(&system.kernel),
            irq_time_accounting: irq_time_accounting(&system.kernel),
            cluster,
            idle_state: idle
                .states
                .iter()
                .enumerate()
                .map(|(index, state)| {
                    let deepest = index + 1 == idle.states.len();
                    let of_package = if deepest { package_us } else { 0.0 };
                    idle_state(state, of_package, system, kind, &template)
                })
                .collect(),
            scheduler,
            ..template.clone()
        };
        // Drop the lender's demotions for states missing here.
        machine.c1_demotion = machine.c1_demotion.take().filter(|demotion| {
            let mut named = demotion.states.iter().chain([&demotion.to]);
            named.all(|name| {
                machine
                    .idle_state
                    .iter()
                    .any(|s| s.name == *name && !s.polling)
            })
        });
        // The record names none, and the other machine's has a name of its own.
        ASSUMED_DRIVE.clone_into(&mut machine.drive.name);
        scale_package(&mut machine, &template);
        if let (Some(package), Some(exit)) = (&mut machine.package, package_exit) {
            package.exit_us = exit;
        }
        if let (Some(uncore), Some(processor)) = (&mut machine.uncore, &system.processor) {
            limit_uncore(uncore, processor);
        }
        measured_package(&mut machine, system);
        machine.platform = platform(system, machine.cluster.len(), kind, &template);
        let processor = system.processor.as_ref().filter(|_| kind != Kind::Amd);
        machine.power_limit = processor.and_then(|p| power_limit(p, kind));
        if let Some(kinds) = core_kinds(system) {
            // The lender's power is per thread.
            let (first, like) = (&mut machine.cluster[0], &template.cluster[0]);
            first.threads_per_core = like.threads_per_core;
            first.smt_speedup.clone_from(&like.smt_speedup);
            first.smt_poll_loss.clone_from(&like.smt_poll_loss);
            machine.split_by_kind(&kinds)?;
        }
        super::validate::check(&machine).map_err(|(key, message)| MachineError::Invalid {
            origin: system.name.clone(),
            key,
            message,
        })?;
        Ok(machine)
    }
}

fn recorded_idle(system: &RecordedSystem) -> Result<&RecordedIdle, MachineError> {
    let idle = system.idle.as_ref();
    idle.ok_or_else(|| missing(system, "idle states"))
}

fn missing(system: &RecordedSystem, what: &'static str) -> MachineError {
    MachineError::OnlyRecorded {
        name: system.name.clone(),
        missing: what,
    }
}

/// Facts about a captured machine beyond a record.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// The machine that lends missing figures.
    pub lender: &'a Lender,
    /// Arm's cores by CPU; empty elsewhere.
    pub cores: &'a [String],
    /// Processors.
    pub sockets: usize,
}

/// The cluster with this core, else the first cluster.
fn cluster_with_core<'a>(machine: &'a Machine, core: Option<&String>) -> &'a Cluster {
    let mut clusters = machine.cluster.iter();
    let same = core.and_then(|core| clusters.find(|cluster| cluster.core == *core));
    same.unwrap_or(&machine.cluster[0])
}

/// Copies powers and voltages from another cluster.
fn take_power(cluster: &mut Cluster, like: &Cluster) {
    cluster.dynamic_power_uw_per_mhz_v2 = like.dynamic_power_uw_per_mhz_v2.clone();
    cluster.static_mw = like.static_mw.clone();
    cluster.cluster_on_mw = like.cluster_on_mw.clone();
    cluster.cluster_off_mw = like.cluster_off_mw.clone();
    let of_point = |point: Option<&Opp>, told: &Figure| match point {
        Some(point) if !told.is_given() && point.uv > 0 => {
            let why = format!("as the {} of the machine that lends its powers", like.core);
            Figure::assumed(f64::from(point.uv), why)
        }
        _ => told.clone(),
    };
    let lowest = of_point(like.opps.first(), &like.lowest_uv);
    let highest = of_point(like.opps.last(), &like.highest_uv);
    if lowest.is_given() && highest.is_given() {
        (cluster.lowest_uv, cluster.highest_uv) = (lowest, highest);
    }
}

/// A captured machine is one cluster whatever the number of sockets, so the package stands for all sockets.
fn package_of_sockets(machine: &mut Machine, sockets: usize) {
    let Some(package) = machine.package.as_mut().filter(|_| sockets > 1) else {
        return;
    };
    for figure in [&mut package.idle_mw, &mut package.active_mw] {
        if let Origin::Assumed(why) = &figure.origin {
            let why = format!("of {sockets} sockets; {why}");
            *figure = Figure::assumed(figure.value * sockets as f64, why);
        }
    }
}

/// Power of a socket of Sapphire Rapids, by its energy counters: 2 x Xeon Platinum 8480+, all cores in C6 or in C1E at 0.8 and
/// 1.4 GHz (github.com/marenz2569/2025-sapphire-rapids-ee at 8f28a6e, read from vector figures).
const SAPPHIRE_RAPIDS_PACKAGE_MW: [(f64, &str); 2] = [
    (
        68_900.0,
        "of each socket, 68.9 to 70.5 W by RAPL with all cores of 2 x Xeon Platinum 8480+ in C6 \
         (marenz2569/2025-sapphire-rapids-ee), less what its CPUs draw in it",
    ),
    (
        39_500.0,
        "of each socket, 38.0 to 39.5 W by RAPL more with all cores of 2 x Xeon Platinum 8480+ in C1E than in C6 \
         (marenz2569/2025-sapphire-rapids-ee): what a first core in C1E costs at most; less the mesh at its lowest clock",
    ),
];

/// Package power for a processor family measured by package counters: without fans, memory and losses.
fn measured_package(machine: &mut Machine, system: &RecordedSystem) {
    if !SAPPHIRE_RAPIDS.contains(&&*system.family_model) {
        return;
    }
    let sockets = machine.cluster.len() as f64;
    let cpus = machine.cpus() as f64;
    let resting = machine.idle_state.last().map_or(0.0, |s| s.power_mw.value) * cpus;
    let lowest = machine
        .uncore
        .as_ref()
        .map_or(0, |u| u.power(u.clock(Kilohertz(0))).0);
    let mesh = lowest as f64 / 1e3 * sockets;
    let [(idle, idle_why), (step, step_why)] = SAPPHIRE_RAPIDS_PACKAGE_MW;
    if let Some(package) = &mut machine.package {
        package.scope = PowerScope::Package;
        package.idle_mw = Figure::assumed((idle * sockets - resting).max(0.0), idle_why);
        package.active_mw = Figure::assumed((step * sockets - mesh).max(0.0), step_why);
    }
}

/// Power of the whole machine at rest. Servers of an unknown family have no figure: families differ by a factor of five for each socket.
fn platform(
    system: &RecordedSystem,
    clusters: usize,
    kind: Kind,
    template: &Machine,
) -> Option<Platform> {
    let sockets = system.processor.as_ref().map_or(clusters, |p| p.sockets);
    let published = Platform::for_server(&system.family_model, &system.cpu_model, sockets);
    let name = system.cpu_model.to_lowercase();
    // Recorded Atoms are parts of servers and network devices.
    let is_portable = kind == Kind::Client && !name.contains("xeon") && !name.contains("atom");
    published.or_else(|| template.platform.clone().filter(|_| is_portable))
}

/// Power besides the CPUs: the lender's, scaled by sockets.
fn scale_package(machine: &mut Machine, template: &Machine) {
    let (sockets, lender_sockets) = (machine.cluster.len(), template.cluster.len());
    let package = machine.package.as_mut();
    let Some(package) = package.filter(|_| sockets != lender_sockets) else {
        return;
    };
    for figure in [&mut package.idle_mw, &mut package.active_mw] {
        if let Origin::Assumed(why) = &figure.origin {
            let why = format!(
                "{sockets} socket(s), each with its share of the {lender_sockets} there; {why}"
            );
            *figure = Figure::assumed(figure.value * sockets as f64 / lender_sockets as f64, why);
        }
    }
}

/// Time for a server's package to power up: the part of the deepest state's declared exit latency caused by the
/// package.
fn package_exit(system: &RecordedSystem, idle: &RecordedIdle) -> Figure {
    let declared = |state: &IdleState| state.exit_latency.0 as f64 / 1e3;
    let [.., core, deepest] = idle.states.as_slice() else {
        return Figure::default();
    };
    let (name, whole) = (&deepest.name, declared(deepest));
    if name.strip_suffix('P') == Some(&core.name) {
        let why = format!(
            "what the kernel declares for {name} ({whole} us) more than for {} ({} us)",
            core.name,
            declared(core)
        );
        return Figure::assumed((whole - declared(core)).max(0.0), why);
    }
    let known = PACKAGE_C6_US.iter().find(|(models, with, _)| {
        models.contains(&&*system.family_model) && (with - whole).abs() < 0.5
    });
    match known {
        Some((_, with, without)) => Figure::assumed(
            with - without,
            format!(
                "the kernel declares {with} us for {name} where the package goes down with it, and {without} us where it does not"
            ),
        ),
        None => Figure::assumed(0.0, format!("the exit time of {name} contains it")),
    }
}

/// Limits the uncore's clock to the recorded range.
fn limit_uncore(uncore: &mut Uncore, processor: &Processor) {
    let Some((lowest, highest)) = processor.uncore_mhz else {
        return;
    };
    let known = |mhz: u32| Figure::sourced(f64::from(mhz), processor.source.clone());
    (uncore.min_mhz, uncore.max_mhz) = (known(lowest), known(highest));
}

/// Power limits of an Intel processor: from the register, or else usual multiples of thermal design power.
fn power_limit(processor: &Processor, kind: Kind) -> Option<PowerLimit> {
    let limits = |[pl1, pl2]: [(Figure, Figure); 2]| PowerLimit {
        pl1_mw: pl1.0,
        pl1_window_ms: pl1.1,
        pl2_mw: pl2.0,
        pl2_window_ms: pl2.1,
        clusters: 1,
        source: processor.source.clone(),
    };
    if let Some(recorded) = processor.power_limits {
        let plain = |value: f64| Figure::plain(value * 1e3);
        return Some(limits(recorded.map(|(w, s)| (plain(w), plain(s)))));
    }
    if !processor.tdp_w.is_given() {
        return None;
    }
    let (rule, why) = match kind {
        Kind::Client | Kind::Other => (CLIENT_LIMITS, CLIENT_LIMITS_WHY),
        Kind::Server | Kind::Amd => (SERVER_LIMITS, SERVER_LIMITS_WHY),
    };
    let mut figures = [0, 1].map(|index| {
        let (times, seconds) = rule[index];
        let milliwatts = processor.tdp_w.value * times * 1e3;
        (
            Figure::assumed(milliwatts, why[index]),
            Figure::assumed(seconds * 1e3, why[index]),
        )
    });
    // The rating may have a source, but not the claim that the system uses the rating as limit.
    let rating = &processor.max_turbo_w;
    if let (true, Origin::Assumed(why) | Origin::Source(why)) = (rating.is_given(), &rating.origin)
    {
        let why = format!("the rated maximum turbo power as PL2: {why}");
        figures[1].0 = Figure::assumed(rating.value * 1e3, why);
    }
    Some(limits(figures))
}

/// Kind of system, which decides where missing figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Amd,
    Client,
    Server,
    /// Not x86, or without a machine that is near.
    Other,
}

impl Kind {
    /// The kind of machine that lends figures.
    fn of_lender(lender: &Lender) -> Self {
        match lender.machine {
            "epyc-7502" | "ryzen-8840u" => Self::Amd,
            "skylake-2s-server" | "xeon-6741p" | "intel-tbench-80t" => Self::Server,
            "laptop" | "hybrid-i7-1260p" | "xeon-e3-1240v5" => Self::Client,
            _ => Self::Other,
        }
    }

    fn for_system(system: &RecordedSystem, idle: &RecordedIdle) -> Self {
        // CPUID families from 15 on are taken for AMD's: Intel's Core, Xeon and Atom up to 2025 are family 6. Intel's
        // Pentium 4 (15) and newer families 18 and 19 are not told apart.
        let written = system.family_model.split('/').next();
        let family = written.and_then(|f| f.parse().ok()).unwrap_or(6_u32);
        if family >= 15 {
            Self::Amd
        } else if cpus(system, idle) > MAX_CLIENT_CPUS {
            Self::Server
        } else {
            Self::Client
        }
    }

    const fn template(self) -> &'static str {
        match self {
            Self::Amd => "epyc-7502",
            Self::Client => "laptop",
            Self::Server => "skylake-2s-server",
            Self::Other => "rk3399",
        }
    }
}

/// Number of CPUs in the system.
fn cpus(system: &RecordedSystem, idle: &RecordedIdle) -> usize {
    let known = system.processor.as_ref().map(Processor::cpus);
    known.unwrap_or(idle.recorded_cpus)
}

fn tick_rate(kernel: &str) -> Figure {
    if kernel.contains(".fc") {
        Figure::assumed(1000.0, "CONFIG_HZ of Fedora's kernels")
    } else {
        Figure::assumed(250.0, "CONFIG_HZ of most distributions")
    }
}

fn irq_time_accounting(kernel: &str) -> Figure {
    if kernel.contains(".fc") || kernel.contains(".el") {
        Figure::assumed(1.0, "CONFIG_IRQ_TIME_ACCOUNTING of Fedora's kernels")
    } else {
        Figure::assumed(0.0, "CONFIG_IRQ_TIME_ACCOUNTING of Debian's kernels")
    }
}

/// Core types of a hybrid processor. A record leaves out repeated policies, so a new highest frequency marks the next
/// core type. `None`: one type only, or a record that does not fit the processor.
fn core_kinds(system: &RecordedSystem) -> Option<Vec<CoreKind>> {
    let processor = system.processor.as_ref().filter(|p| p.is_hybrid())?;
    let mut firsts = system.frequency.clone();
    firsts.sort_by_key(|policy| policy.policy);
    firsts.dedup_by_key(|policy| policy.max);
    let next_firsts = firsts.iter().skip(1).map(|policy| policy.policy);
    let ends = next_firsts.chain([processor.cpus()]);
    let fastest = firsts.iter().max_by_key(|policy| policy.max)?;
    let capacity =
        |policy: &RecordedPolicy| match (policy.highest_performance, fastest.highest_performance) {
            _ if policy.max == fastest.max => (1024, None),
            (Some(own), Some(biggest)) if biggest > 0 => (1024 * own / biggest, None),
            _ => (
                EFFICIENCY_CAPACITY,
                Some(EFFICIENCY_CAPACITY_WHY.to_owned()),
            ),
        };
    let kind = |(policy, end): (&RecordedPolicy, usize)| {
        let (points, points_assumed) = frequencies(policy, None);
        let (capacity, capacity_assumed) = capacity(policy);
        Some(CoreKind {
            cpus: end.checked_sub(policy.policy)?,
            threads_per_core: if policy.max == fastest.max {
                processor.threads_per_core
            } else {
                1
            },
            capacity,
            capacity_assumed,
            points,
            points_assumed,
            base: policy.base,
        })
    };
    let kinds: Option<Vec<CoreKind>> = firsts.iter().zip(ends).map(kind).collect();
    let biggest = processor.cpus() - processor.efficiency_cores;
    kinds.filter(|kinds| kinds.len() > 1 && kinds[0].cpus == biggest)
}

/// One cluster for each socket, all alike.
fn clusters(
    system: &RecordedSystem,
    idle: &RecordedIdle,
    policy: &RecordedPolicy,
    kind: Kind,
    template: &Machine,
) -> Vec<Cluster> {
    let sockets = system.processor.as_ref().map_or(1, |p| p.sockets);
    let first = cluster(system, cpus(system, idle) / sockets, policy, kind, template);
    let named = |name: String| Cluster {
        name,
        ..first.clone()
    };
    match sockets {
        1 => vec![named("package".to_owned())],
        _ => (0..sockets).map(|n| named(format!("socket{n}"))).collect(),
    }
}

/// The figure, or none.
fn only(given: bool, figure: &Figure) -> Figure {
    if given {
        figure.clone()
    } else {
        Figure::default()
    }
}

fn cluster(
    system: &RecordedSystem,
    cpus: usize,
    policy: &RecordedPolicy,
    kind: Kind,
    template: &Machine,
) -> Cluster {
    let like = &template.cluster[0];
    let threads = match &system.processor {
        // A cluster needs equal thread counts.
        Some(processor) if processor.is_hybrid() => 1,
        Some(processor) => processor.threads_per_core,
        None if cpus.is_multiple_of(like.threads_per_core) => like.threads_per_core,
        None => 1,
    };
    let (frequencies, opps_assumed) = frequencies(policy, system.processor.as_ref());
    let declared = policy.transition_latency.0 as f64 / 1e3;
    let hwp = policy.driver == "intel_pstate" && policy.epp.is_some();
    // All Intel processors accept frequency requests alike.
    let intel = Machine::find("xeon-e3-1240v5")
        .and_then(|m| m.borrowed())
        .ok()
        .filter(|_| matches!(kind, Kind::Client | Kind::Server));
    let clock = &intel.as_ref().unwrap_or(template).cluster[0];
    let cppc = system.processor.as_ref().and_then(|p| p.cppc.as_ref());
    let base = policy.base.map(|b| Figure::plain(f64::from(b.0) / 1e3));
    // Its range of clocks hangs on the base clock.
    let hwp = hwp && base.is_some();
    Cluster {
        name: String::new(),
        core: system.cpu_model.clone(),
        cpus,
        threads_per_core: threads,
        smt_speedup: only(threads > 1, &like.smt_speedup),
        smt_poll_loss: only(threads > 1, &like.smt_poll_loss),
        // Servers have a clock per core, clients and Arm's clusters one for all.
        clock_cpus: matches!(kind, Kind::Amd | Kind::Server).then_some(threads),
        capacity: 1024,
        capacity_assumed: None,
        transition_latency_us: if cppc.is_some() {
            Figure::assumed(SLOTTED_TRANSITION_US, SLOTTED_TRANSITION_WHY)
        } else if declared > 0.0 {
            Figure::plain(declared)
        } else {
            like.transition_latency_us.clone()
        },
        fixed_speed: false,
        clock_slot_us: match cppc {
            Some(_) => Figure::assumed(AMD_SLOT_US, AMD_SLOT_WHY),
            None => clock.clock_slot_us.clone(),
        },
        clock_stall_us: clock.clock_stall_us.clone(),
        base_mhz: base.unwrap_or_default(),
        turbo: turbo(system.processor.as_ref()),
        turbo_assumed: None,
        hwp_ramp_ms: only(hwp, &clock.hwp_ramp_ms),
        hwp_full_at_percent: only(hwp, &clock.hwp_full_at_percent),
        cppc: cppc.cloned(),
        opps: frequencies
            .into_iter()
            .map(|f| Opp { khz: f.0, uv: 0 })
            .collect(),
        opps_assumed,
        lowest_uv: Figure::assumed(650_000.0, "no published curve"),
        highest_uv: Figure::assumed(1_100_000.0, "no published curve"),
        dynamic_power_uw_per_mhz_v2: like.dynamic_power_uw_per_mhz_v2.clone(),
        static_mw: like.static_mw.clone(),
        cluster_on_mw: like.cluster_on_mw.clone(),
        cluster_off_mw: like.cluster_off_mw.clone(),
        idle_state: Vec::new(),
        source: format!("recorded {}: {}", system.name, system.source),
    }
}

/// Turbo limits by active cores of a socket.
fn turbo(processor: Option<&Processor>) -> Vec<TurboLimit> {
    let limits = processor.map_or(&[][..], |p| &p.turbo).iter();
    limits
        .map(|(cores, mhz)| TurboLimit {
            active_cores: *cores,
            khz: mhz * 1000,
        })
        .collect()
}

/// The operating points: those recorded, or else every step of the recorded range. With turbo the
/// highest frequency is not in the list, or stands there as 1 MHz more than the one before.
fn frequencies(
    policy: &RecordedPolicy,
    processor: Option<&Processor>,
) -> (Vec<Kilohertz>, Option<String>) {
    let (mut points, why) = if policy.available.is_empty() {
        let range = (policy.min.0..=policy.max.0).step_by(STEP_KHZ);
        let why = "the recorded range in steps of 100 MHz".to_owned();
        (range.map(Kilohertz).collect(), Some(why))
    } else {
        (policy.available.clone(), None)
    };
    let turbo = processor.and_then(|p| p.turbo.first());
    let marked = Kilohertz(policy.max.0.saturating_sub(TURBO_MARK_KHZ));
    match turbo {
        Some((_, mhz)) if policy.available.contains(&marked) => {
            points.retain(|point| *point != policy.max);
            points.push(Kilohertz(mhz * 1000));
        }
        _ => points.push(policy.max),
    }
    points.sort_unstable();
    points.dedup();
    (points, why)
}

/// `of_package`: the part of the declared exit latency that is the package's, in us.
fn idle_state(
    state: &IdleState,
    of_package: f64,
    system: &RecordedSystem,
    kind: Kind,
    template: &Machine,
) -> MachineIdleState {
    let declared = state.exit_latency.0 as f64 / 1e3;
    let like = most_similar(state, declared, template);
    let of_lender = kind == Kind::Other || (kind == Kind::Amd && template.name != kind.template());
    let (true_exit_us, exit_spread) = if of_lender && !state.polling {
        exit_of_lender(declared, like)
    } else {
        true_exit(state, (declared, of_package), system, kind, like)
    };
    MachineIdleState {
        name: state.name.clone(),
        scope: Scope::Cpu,
        polling: state.polling,
        mwait: like.mwait,
        disabled: state.disabled,
        exit_latency_us: Figure::plain(declared),
        target_residency_us: Figure::plain(state.target_residency.0 as f64 / 1e3),
        true_entry_us: Figure::assumed(0.0, "inside the exit time"),
        true_exit_us,
        exit_spread,
        cold_start_kcycles: like.cold_start_kcycles.clone(),
        power_mw: only(like.polling == state.polling, &like.power_mw),
        transition_mw: only(like.polling == state.polling, &like.transition_mw),
        source: format!("recorded {}: {}", system.name, system.source),
    }
}

/// The lender's state with the same name, or else with the nearest exit latency.
fn most_similar<'a>(state: &IdleState, declared: f64, lender: &'a Machine) -> &'a MachineIdleState {
    let apart = |other: &MachineIdleState| (other.exit_latency_us.value - declared).abs();
    let states = lender.idle_state.iter();
    let mut candidates = states.filter(|s| s.polling == state.polling);
    // A state with the same name may be another state: C2 on an EPYC is C3 on a laptop. Very different exit latencies
    // tell.
    let far = |other: &MachineIdleState| {
        let other = other.exit_latency_us.value;
        declared.max(other) > FAR_APART * declared.min(other).max(1.0)
    };
    let by_name = candidates.clone().find(|s| s.name == state.name && !far(s));
    by_name
        .or_else(|| {
            candidates
                .clone()
                .min_by(|a, b| apart(a).total_cmp(&apart(b)))
        })
        .or_else(|| candidates.next())
        .unwrap_or(&lender.idle_state[0])
}

/// Exit time and spread, where the lender has more than the rule of thumb.
fn exit_of_lender(declared: f64, like: &MachineIdleState) -> (Figure, Figure) {
    // Up to a factor of 2 between declared latencies, the state is the same.
    let ratio = declared / like.exit_latency_us.value.max(1e-9);
    if (0.5..=2.0).contains(&ratio) {
        return (like.true_exit_us.clone(), like.exit_spread.clone());
    }
    let why = "half of the declared time: nothing is published for this state";
    (Figure::assumed(declared / 2.0, why), Figure::default())
}

/// True exit time and spread. `declared`: the declared latency, and the package's part, in us.
fn true_exit(
    state: &IdleState,
    (declared, of_package): (f64, f64),
    system: &RecordedSystem,
    kind: Kind,
    like: &MachineIdleState,
) -> (Figure, Figure) {
    if state.polling {
        let why = "the CPU never left its clock";
        return (Figure::assumed(0.0, why), Figure::default());
    }
    if kind == Kind::Amd {
        let why = format!(
            "as measured for {} of an EPYC 7502 (arXiv 2108.00808)",
            like.name
        );
        let spread = match like.exit_spread.value {
            0.0 => Figure::default(),
            value => Figure::assumed(value, why.clone()),
        };
        return (Figure::assumed(like.true_exit_us.value, why), spread);
    }
    if declared <= C1_EXIT_US {
        let why = "about 1 us on newer servers (intel/pepc docs/misc-c1e-cpu-freq.md)";
        return (Figure::assumed(declared.min(1.0), why), Figure::default());
    }
    if state.name == "C6" && SAPPHIRE_RAPIDS.contains(&system.family_model.as_str()) {
        let why = "median of 2 x Xeon Platinum 8480+, the same core generation: 97 us at 2.0 GHz to 104 us at 0.8 GHz (marenz2569/2025-sapphire-rapids-ee)";
        let spread = Figure::assumed(0.04, "half of the wake-ups within 97.5 and 103.4 us there");
        return (Figure::assumed(SAPPHIRE_RAPIDS_C6_US, why), spread);
    }
    let half =
        "half of the declared time, as measured for C6 of Sapphire Rapids (97 to 104 of 190 us)";
    let (own, why) = if of_package > 0.0 && of_package < declared {
        let why = format!("without the {of_package} us of the package, {half}");
        (declared - of_package, why)
    } else {
        (declared, half.to_owned())
    };
    let spread = Figure::assumed(0.04, "as measured for C6 of Sapphire Rapids");
    (Figure::assumed(own / 2.0, why), spread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded;

    #[test]
    fn every_system_with_recorded_idle_states_is_a_machine() {
        for system in recorded::systems() {
            let machine = Machine::from_recorded(system);
            let Some(idle) = &system.idle else {
                let message = machine.unwrap_err().to_string();
                assert!(
                    message.contains("idle states were not recorded"),
                    "{message}"
                );
                continue;
            };
            let machine = machine.unwrap_or_else(|e| panic!("{}: {e}", system.name));
            let processor = system.processor.as_ref().unwrap();
            assert_eq!(machine.cpus(), processor.cpus());
            if !processor.is_hybrid() {
                assert_eq!(machine.cluster.len(), processor.sockets);
            }
            // Governors see the recorded states.
            assert_eq!(machine.declared_idle_states().unwrap(), idle.states);
            let fastest = system.frequency.iter().map(|p| p.max).max();
            let turbo = processor
                .turbo
                .first()
                .map(|(_, mhz)| Kilohertz(mhz * 1000));
            let highest = Some(machine.cluster[0].max_frequency());
            assert!(highest == fastest || highest == turbo, "{}", system.name);
        }
    }

    #[test]
    fn a_recorded_system_runs_the_kernel_that_it_was_recorded_under() {
        for (name, kernel) in [
            ("rome0", "6.16.10"),
            ("spr1", "6.18.8"),
            ("lnl0", "6.19.0"),
            ("adl0", "7.0.0"),
        ] {
            let machine = Machine::find(name).unwrap();
            let runs = machine.kernel.map(|kernel| kernel.to_string());
            assert_eq!(runs.as_deref(), Some(kernel), "{name}");
        }
    }

    #[test]
    fn what_the_record_does_not_tell_says_that_it_is_assumed() {
        let machine = Machine::find("spr1").unwrap();
        let c6 = machine.idle_state.iter().find(|s| s.name == "C6").unwrap();
        assert_eq!(c6.exit_latency_us.origin, Origin::Table);
        for figure in [&c6.true_exit_us, &c6.exit_spread, &c6.power_mw] {
            assert!(matches!(figure.origin, Origin::Assumed(_)), "{figure:?}");
        }
        assert!(machine.cluster[0].source.contains("spr1"));
    }

    #[test]
    fn a_hybrid_processor_has_a_cluster_for_each_kind_of_core() {
        // CPUs, threads per core, highest MHz and capacity, as `scaling_max_freq` and `acpi_cppc/highest_perf` were recorded.
        for (name, kinds) in [
            ("adl0", &[(8, 2, 4700, 1024), (8, 1, 3400, 580)][..]),
            ("rpl0", &[(8, 2, 4600, 1024), (8, 1, 3400, 590)]),
            ("lnl0", &[(4, 1, 4500, 1024), (4, 1, 3500, 689)]),
            (
                "mtl-m-2",
                &[(4, 2, 4800, 1024), (8, 1, 3800, 648), (2, 1, 2100, 358)],
            ),
            (
                "arl-h-1",
                &[(4, 1, 4500, 1024), (8, 1, 3900, 782), (2, 1, 2500, 355)],
            ),
            ("ptl-h-4", &[(2, 1, 3200, 1024), (8, 1, 2400, 682)]),
        ] {
            let machine = Machine::find(name).unwrap();
            let clusters = machine.cluster.iter();
            let found: Vec<_> = clusters
                .map(|c| {
                    let mhz = c.max_frequency().0 / 1000;
                    (c.cpus, c.threads_per_core, mhz, c.capacity)
                })
                .collect();
            assert_eq!(found, kinds, "{name}");
            assert_eq!(machine.scheduler.home.cluster, "performance");
            assert_eq!(machine.power_limit.unwrap().clusters, kinds.len());
        }
    }

    #[test]
    fn only_figures_of_the_system_itself_have_a_source() {
        for system in recorded::systems().iter().filter(|s| s.idle.is_some()) {
            let machine = Machine::from_recorded(system).unwrap();
            let record = format!("emul-data/{}", system.name);
            for figure in machine.figures() {
                let what = format!("{} {}: {}", system.name, figure.key, figure.reason());
                assert_eq!(figure.figure.fitted_to(), None, "{what}");
                let has_source = matches!(figure.figure.origin, Origin::Table | Origin::Source(_));
                assert!(!has_source || figure.reason().contains(&record), "{what}");
            }
        }
    }

    #[test]
    fn sapphire_and_emerald_rapids_leave_c6_as_fast_as_measured() {
        for name in ["spr1", "spr-nomwait", "emr0", "emr9"] {
            let machine = Machine::find(name).unwrap();
            let c6 = machine.idle_state.iter().find(|s| s.name == "C6").unwrap();
            assert!((97.0..=104.0).contains(&c6.true_exit_us.value), "{name}");
        }
        // The published figure holds for this core only.
        let other = Machine::find("clx4s0").unwrap();
        let c6 = other.idle_state.iter().find(|s| s.name == "C6").unwrap();
        assert!((c6.true_exit_us.value * 2.0 + 41.0 - c6.exit_latency_us.value).abs() < 1e-9);
    }

    #[test]
    fn each_socket_has_its_cores_its_turbo_limits_and_its_share_of_package_power() {
        let four = Machine::find("spr1").unwrap();
        assert_eq!(four.cluster.len(), 4);
        for cluster in &four.cluster {
            assert_eq!((cluster.cpus, cluster.threads_per_core), (80, 2));
            let last = cluster.turbo.last().unwrap();
            assert_eq!((last.active_cores, last.khz), (40, 3_100_000));
        }
        let package = |name: &str| Machine::find(name).unwrap().package.unwrap();
        let two = package("skylake-2s-server");
        let ice = package("icx2s0");
        assert!((ice.idle_mw.value - two.idle_mw.value).abs() < 1e-6);
        assert_eq!((ice.scope, two.scope), (PowerScope::Wall, PowerScope::Wall));
        // Figures for the family from package counters, minus the power of CPUs in C6 and of the mesh.
        for (name, sockets) in [("spr1", 4.0), ("spr-nomwait", 1.0), ("emr0", 2.0)] {
            let machine = Machine::find(name).unwrap();
            let package = machine.package.as_ref().unwrap();
            assert_eq!(package.scope, PowerScope::Package);
            let resting = machine.idle_state.last().unwrap().power_mw.value * machine.cpus() as f64;
            let socket = (package.idle_mw.value + resting) / sockets;
            assert!((socket - 68_900.0).abs() < 1.0, "{name}: {socket}");
            let uncore = machine.uncore.as_ref().unwrap();
            let mesh = uncore.power(uncore.clock(Kilohertz(0))).0 as f64 / 1e3;
            let step = package.active_mw.value / sockets + mesh;
            assert!((step - 39_500.0).abs() < 1.0, "{name}: {step}");
            let Origin::Assumed(why) = &package.idle_mw.origin else {
                panic!("{:?}", package.idle_mw)
            };
            assert!(why.contains("68.9 to 70.5 W by RAPL"), "{why}");
        }
        let uncore = four.uncore.unwrap();
        assert!((uncore.min_mhz.value - 800.0).abs() < 1e-9);
    }

    #[test]
    fn processors_may_draw_what_their_register_says_or_what_is_usual() {
        const W: u64 = 1_000_000;
        const MS: u64 = 1_000_000;
        fn limits_and_origin(name: &str) -> Option<(Vec<(u64, u64)>, Origin)> {
            let limit = Machine::find(name).unwrap().power_limit?;
            let all: Vec<(u64, u64)> = limit.limits().map(|(p, w)| (p.0, w.0)).collect();
            Some((all, limit.pl1_mw.origin))
        }
        for (name, pl1, window, pl2) in [
            ("spr1", 330, 1000 * MS, (396 * W, 11_718_750)),
            ("hswex0", 165, 12_000 * MS, (198 * W, 7_812_500)),
        ] {
            let (limits, origin) = limits_and_origin(name).unwrap();
            assert_eq!(limits, [(pl1 * W, window), pl2], "{name}");
            assert_eq!(origin, Origin::Table, "{name}");
        }
        // The rest is assumed: a laptop with a rating for its turbo power, one without, and a server.
        for (name, pl1, window, pl2) in [
            ("adl0", 28, 28_000 * MS, (64 * W, 10 * MS)),
            ("dell-9360-kbl", 15, 28_000 * MS, (18_750_000, 10 * MS)),
            ("clx2s0", 165, 1000 * MS, (198 * W, 11_718_750)),
        ] {
            let (limits, origin) = limits_and_origin(name).unwrap();
            assert_eq!(limits, [(pl1 * W, window), pl2], "{name}");
            assert!(matches!(origin, Origin::Assumed(_)), "{name}");
        }
        // Not AMD's, and not where the thermal design power is not known.
        assert!(limits_and_origin("rome0").is_none() && limits_and_origin("snr0").is_none());
    }

    /// A processor holds the base clock within thermal design power. This bounds the error of borrowed powers.
    #[test]
    fn borrowed_powers_come_near_the_limit_at_the_base_clock() {
        for system in recorded::systems().iter().filter(|s| s.idle.is_some()) {
            let machine = Machine::from_recorded(system).unwrap();
            let Some(limit) = &machine.power_limit else {
                continue;
            };
            let at_base = |cluster: &Cluster| {
                let base = (cluster.base_mhz.value * 1e3) as u32;
                let opp = cluster.opps.iter().rfind(|opp| opp.khz <= base)?;
                Some((base, cluster.cpus as u64 * cluster.active_power(opp).0))
            };
            let Some((base, _)) = at_base(&machine.cluster[0]) else {
                continue;
            };
            // Per socket, or for all core types.
            let of_one = &machine.cluster[..limit.clusters];
            let cpus: u64 = of_one
                .iter()
                .filter_map(at_base)
                .map(|(_, power)| power)
                .sum();
            let sockets = (machine.cluster.len() / limit.clusters) as u64;
            let package = machine.package.as_ref().map_or(0, |p| p.active_power().0) / sockets;
            let uncore =
                (machine.uncore.as_ref()).map_or(0, |u| u.power(u.clock(Kilohertz(base))).0);
            let busy = cpus + package + uncore;
            let share = busy as f64 / limit.limits().next().unwrap().0.0 as f64;
            assert!((0.55..1.2).contains(&share), "{}: {share}", system.name);
        }
    }

    #[test]
    fn a_frequency_that_only_stands_for_turbo_becomes_the_real_one() {
        let machine = Machine::find("dnv0").unwrap();
        let points = machine.cluster[0].frequencies();
        assert_eq!(points.last(), Some(&Kilohertz(2_400_000)));
        assert!(!points.contains(&Kilohertz(2_101_000)));
    }

    #[test]
    fn the_package_of_a_server_comes_up_in_what_is_declared_for_it() {
        for (name, package, core) in [
            ("spr1", 100.0, SAPPHIRE_RAPIDS_C6_US),
            ("gnr0", 40.0, 85.0),
            ("rome0", 0.0, 21.6),
        ] {
            let machine = Machine::find(name).unwrap();
            let exit = &machine.package.as_ref().unwrap().exit_us;
            assert!((exit.value - package).abs() < 1e-9, "{name} {exit:?}");
            assert!(matches!(exit.origin, Origin::Assumed(_)), "{exit:?}");
            let own = &machine.idle_state.last().unwrap().true_exit_us;
            assert!((own.value - core).abs() < 1e-9, "{name} {own:?}");
        }
    }

    #[test]
    fn amd_leaves_its_deep_state_as_fast_as_measured() {
        let machine = Machine::find("rome0").unwrap();
        let c2 = machine.idle_state.iter().find(|s| s.name == "C2").unwrap();
        assert!(
            c2.exit_latency_us.value > 100.0 && c2.true_exit_us.value < 30.0,
            "{c2:?}"
        );
    }

    #[test]
    fn a_range_that_ends_between_two_steps_keeps_its_end() {
        let mut policy = recorded::systems()[0].frequency[0].clone();
        policy.available.clear();
        (policy.min, policy.max) = (Kilohertz(800_000), Kilohertz(1_050_000));
        let (steps, _) = frequencies(&policy, None);
        assert_eq!(
            steps,
            [800_000, 900_000, 1_000_000, 1_050_000].map(Kilohertz)
        );
        policy.available = [900_000, 800_000].map(Kilohertz).to_vec();
        let turbo = [800_000, 900_000, 1_050_000].map(Kilohertz).to_vec();
        assert_eq!(frequencies(&policy, None), (turbo, None));
    }
}
