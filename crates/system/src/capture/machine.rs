//! A machine description, as the simulator takes it, of a running or captured machine.
//!
//! What the kernel tells is taken from it: idle states, frequency range, tick rate, number of CPUs and queues,
//! the drive with its power states. What no kernel tells (true exit latencies, power, CPU work of an I/O) is assumed as
//! on the nearest built-in machine ([`Machine::from_captured`]).

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

use wakepath_hardware::idle::{IdleState, IdleStates};
use wakepath_hardware::machine::{
    Captured, Cluster, Cppc, DriveInForce, DriveModel, EXIT_NOT_KNOWN, Figure, LatencyRequest,
    MAX_LATENCY_REQUEST_US, Transition,
};
use wakepath_hardware::recorded::{RecordedIdle, RecordedPolicy, RecordedSystem};
use wakepath_hardware::{Machine, machine::MachineError};
use wakepath_units::{KernelVersion, Nanoseconds, cpus, printable};

use super::class::MachineClass;
use super::cpufreq::frequencies;
use super::running::RunningPolicies;
use super::{clocks, irq_time_accounting, kinds, power_limit, tick_rate};
use crate::counters::RefusedState;
use crate::nvme::ApstFeature;
use crate::setting::{NO_SYSTEM_LATENCY_LIMIT_US, resume_limit_us};
use crate::topology::{CPUS, StateInfo};
use crate::{Root, SettingKey, System, journal, nvme};

/// The machine below a root, and what had to be assumed that other machines tell.
///
/// # Errors
/// The files describe no valid machine.
pub fn describe(system: &System, name: &str) -> Result<(Machine, Vec<String>), MachineError> {
    let root = system.root();
    let class = MachineClass::read(root);
    let mut notes = vec![class.lender.to_string()];
    let (states, states_assumed) = idle_states(system, &mut notes);
    let (frequency, clock_assumed) = frequencies(system, &mut notes);
    let none = || "none".to_owned();
    let driver = root.optional(&format!("{CPUS}/cpuidle/current_driver"));
    let record = RecordedSystem {
        name: name.to_owned(),
        cpu_model: shown(&class.processor.name),
        family_model: class.processor.family_model(),
        kernel: root
            .optional("proc/sys/kernel/osrelease")
            .map_or_else(|| "unknown".to_owned(), |text| shown(&text)),
        idle: Some(RecordedIdle {
            driver: driver.map_or_else(none, |text| shown(&text)),
            governor: system
                .idle_governor()
                .map_or_else(none, |text| shown(&text)),
            recorded_cpus: system.cpus().len().max(1),
            states,
        }),
        frequency,
        hwp_dynamic_boost: root
            .number(&format!("{CPUS}/intel_pstate/hwp_dynamic_boost"))
            .map(|n| n != 0),
        intel_pstate_status: root.optional(&format!("{CPUS}/intel_pstate/status")),
        processor: None,
        source: "wakepath machine capture".to_owned(),
    };
    let cores = cores(system, &class);
    let captured = Captured {
        lender: &class.lender,
        cores: &cores,
        sockets: sockets(system),
    };
    let mut machine = Machine::from_captured(&record, &captured)?;
    machine.title = format!(
        "{}, Linux {}, as captured; what its hardware really takes is assumed",
        record.cpu_model, record.kernel
    );
    match KernelVersion::of_release(&record.kernel) {
        Ok(kernel) => {
            machine.kernel = Some(kernel);
            machine.kernel_from = Some(format!("the running kernel, {}", record.kernel));
        }
        Err(error) => {
            machine.kernel = KernelVersion::nearest(&record.kernel);
            machine.kernel_from = machine.kernel.map(|kernel| {
                format!(
                    "{kernel} is the nearest that is known to the running {}",
                    record.kernel
                )
            });
            notes.push(format!("the kernel {error}"));
        }
    }
    match tick_rate(root) {
        Some(hz) => machine.hz = Figure::sourced(hz as f64, "CONFIG_HZ of the running kernel"),
        None => notes.push(format!(
            "the kernel's configuration cannot be read; HZ is assumed to be {}",
            machine.hz.value
        )),
    }
    if let Some(counts) = irq_time_accounting(root) {
        machine.irq_time_accounting = Figure::sourced(
            f64::from(u8::from(counts)),
            "CONFIG_IRQ_TIME_ACCOUNTING of the running kernel",
        );
    }
    threads(system, &mut machine);
    performance_scale(system, &cpu_flags(root), &mut machine);
    let scale = machine.cluster[0].cppc.as_ref();
    let scale_assumed = scale.and_then(|cppc| cppc.assumed.as_ref());
    notes.extend(scale_assumed.map(|why| format!("amd-pstate's scale of performances: {why}")));
    notes.extend(base_told_elsewhere(root, &record.frequency));
    machine.power_limit = power_limit::read(root, &machine).filter(|_| machine.has_power());
    machine.isolation = super::isolation::isolation(system);
    machine.latency_requests = latency_requests(system);
    if let Some(why) = clock_assumed {
        let cluster = &mut machine.cluster[0];
        cluster.opps_assumed = Some(why);
        cluster.base_mhz = Figure::default();
    }
    if let Some(why) = states_assumed {
        for state in machine.idle_state.iter_mut().filter(|s| !s.polling) {
            state.exit_latency_us = Figure::assumed(state.exit_latency_us.value, &why);
            state.target_residency_us = Figure::assumed(state.target_residency_us.value, &why);
        }
    }
    let kinds = kinds::split(system, &mut machine, &cores);
    notes.extend(
        kinds
            .map_err(|why| {
                format!("cores of several kinds: {why}; the machine has those of the first")
            })
            .err(),
    );
    machine.take_cores(&cores, &class.lender)?;
    notes.extend(kinds::own_states(system, &mut machine));
    if class.guest.is_some() {
        notes.extend(keep_what_the_host_keeps(system, &mut machine));
    }
    assume_residencies(system, &mut machine, &mut notes);
    notes.extend(without_refused(system, &mut machine));
    notes.extend(clocks::without_boost(system, &mut machine));
    notes.extend(clocks::within_limits(system, &mut machine));
    drive(system, &mut machine, &mut notes);
    match RunningPolicies::read(system, &machine) {
        Ok(running) => {
            machine.runs = Some(running.text());
            notes.extend(running.notes);
        }
        Err(why) => notes.push(format!("{why}; menu and schedutil stand in for what runs")),
    }
    Ok((machine, notes))
}

/// Where the base clock is from, if not from cpufreq.
fn base_told_elsewhere(root: &Root, policies: &[RecordedPolicy]) -> Option<String> {
    let first = policies.first()?;
    let path = format!("{CPUS}/cpufreq/policy{}/base_frequency", first.policy);
    let base = first.base.filter(|_| !root.exists(&path))?;
    Some(format!(
        "no base_frequency: the base clock is {} MHz, as ACPI or the processor's name tells it",
        base.0 / 1000
    ))
}

/// Text from firmware or hypervisor, with control characters escaped.
fn shown(text: &str) -> String {
    printable::one_line(text).into_owned()
}

/// Arm core names by online CPU, where known.
fn cores(system: &System, class: &MachineClass) -> Vec<String> {
    let cores = &class.processor.cores;
    let online = system.cpus();
    // `/proc/cpuinfo` lists online CPUs in sequence.
    if cores.len() == online.len() {
        return cores.iter().map(ToString::to_string).collect();
    }
    match cores.first() {
        Some(core) if cores.iter().all(|other| other == core) => {
            vec![core.to_string(); online.len()]
        }
        _ => Vec::new(),
    }
}

/// Number of processors, from the topology of online CPUs.
fn sockets(system: &System) -> usize {
    let package = |cpu: usize| {
        let path = format!("{CPUS}/cpu{cpu}/topology/physical_package_id");
        system.root().number(&path)
    };
    let packages: BTreeSet<u64> = system.cpus().into_iter().filter_map(package).collect();
    packages.len().max(1)
}

/// Marks facts unknowable in a guest. The processor itself enters states by MWAIT; a halt goes to the host, which may
/// poll or sleep.
fn keep_what_the_host_keeps(system: &System, machine: &mut Machine) -> Option<String> {
    let cpus = system.cpus();
    let first = *cpus.first()?;
    let is_own = |name: &str| {
        let states = system.idle_states(first);
        let state = states.iter().find(|state| state.name == name);
        state.is_some_and(|state| {
            let path = format!("{CPUS}/cpu{first}/cpuidle/state{}/desc", state.index);
            let told = system.root().optional(&path).unwrap_or_default();
            told.contains("MWAIT")
        })
    };
    let mut names = Vec::new();
    for state in &mut machine.idle_state {
        if state.polling || is_own(&state.name) {
            continue;
        }
        state.true_exit_us = Figure::assumed(state.exit_latency_us.value, EXIT_NOT_KNOWN);
        state.exit_spread = Figure::default();
        state.cold_start_kcycles = Figure::default();
        names.push(state.name.clone());
    }
    (!names.is_empty()).then(|| format!("{}: {EXIT_NOT_KNOWN}", names.join(", ")))
}

/// Disables states that the firmware refuses: the machine effectively lacks them.
fn without_refused(system: &System, machine: &mut Machine) -> Option<String> {
    let refused = system.refused_states();
    let is_refused = |name: &str| refused.iter().any(|state| state.name == name);
    let mut tried = machine.clone();
    for state in tried.idle_state.iter_mut().filter(|s| is_refused(&s.name)) {
        state.disabled = true;
    }
    for cluster in &mut tried.cluster {
        for state in cluster
            .idle_state
            .iter_mut()
            .filter(|s| is_refused(&s.name))
        {
            state.disabled = false;
        }
    }
    if refused.is_empty() || tried.check().is_err() {
        return None;
    }
    *machine = tried;
    // 99.97 % is not 100 %.
    let percent = |state: &RefusedState| (100.0 * state.share()).floor();
    let named = |state: &RefusedState| format!("{} ({} %)", state.name, percent(state));
    let named: Vec<String> = refused.iter().map(named).collect();
    Some(format!(
        "states that are off here, because most attempts to enter them are refused: {}",
        named.join(", ")
    ))
}

/// Marks the residencies that the kernel does not tell.
fn assume_residencies(system: &System, machine: &mut Machine, notes: &mut Vec<String>) {
    const WHY: &str = "twice the exit latency, as acpi_idle takes it: this kernel tells none";
    let states = system.cpus().first().map(|cpu| system.idle_states(*cpu));
    let mut assumed = states
        .into_iter()
        .flatten()
        .filter(|s| s.residency_assumed)
        .peekable();
    if assumed.peek().is_some() {
        notes.push(format!("target residencies are {WHY}"));
    }
    for told in assumed {
        for state in machine
            .idle_state
            .iter_mut()
            .filter(|s| s.name == told.name)
        {
            state.target_residency_us = Figure::assumed(state.target_residency_us.value, WHY);
        }
    }
}

/// Idle states of the first CPU, with the reason if assumed.
fn idle_states(system: &System, notes: &mut Vec<String>) -> (IdleStates, Option<String>) {
    let of = |cpu: &usize| system.idle_states(*cpu);
    let cpus = system.cpus();
    let first = cpus.first().map(of).unwrap_or_default();
    let state = |s: &StateInfo| IdleState {
        name: s.name.clone(),
        exit_latency: Nanoseconds::from_micros(s.latency_us),
        target_residency: Nanoseconds::from_micros(s.residency_us),
        polling: s.polling,
        disabled: s.disabled,
    };
    if let Some(word) = system.forced_polling() {
        notes.push(format!(
            "`{word}` on the kernel's command line: idle CPUs poll and enter no idle state"
        ));
        return (only_state("POLL", 0, true), None);
    }
    let missing = match IdleStates::new(first.iter().map(state).collect()) {
        Ok(states) => return (states, None),
        Err(_) if first.is_empty() => "no cpuidle driver".to_owned(),
        Err(why) => format!("the idle states cannot be taken over ({why})"),
    };
    let why = format!("{missing}: the architecture's halt, with the least that a kernel declares");
    notes.push(why.clone());
    (only_state("HALT", 1, false), Some(why))
}

/// A table with a single state; `us`: exit latency and target residency.
fn only_state(name: &str, us: u64, polling: bool) -> IdleStates {
    let state = IdleState {
        name: name.to_owned(),
        exit_latency: Nanoseconds::from_micros(us),
        target_residency: Nanoseconds::from_micros(us),
        polling,
        disabled: false,
    };
    #[expect(clippy::expect_used, reason = "one state is a table")]
    IdleStates::new(vec![state]).expect("one state")
}

/// The latency requests in force, but for those that a running wakepath holds: a lease of the daemon is over in a
/// moment.
fn latency_requests(system: &System) -> Vec<LatencyRequest> {
    let read = |key: &SettingKey| system.read(key).ok();
    let of_system = "system-latency".parse().ok().and_then(|key| read(&key));
    let of_system = of_system.and_then(|us| us.parse().ok());
    let mut requests: Vec<LatencyRequest> = of_system
        .filter(|us| *us < NO_SYSTEM_LATENCY_LIMIT_US)
        .map(LatencyRequest::system)
        .into_iter()
        .collect();
    let held = match journal::holder(system.root()) {
        Some(_) => journal::held(system.root()).unwrap_or_default(),
        // Left behind by a killed process.
        None => Vec::new(),
    };
    let mut of_cpus: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (place, cpu) in system.cpus().into_iter().enumerate() {
        let Ok(key) = format!("cpu-latency:cpu{cpu}").parse::<SettingKey>() else {
            continue;
        };
        let Some(limit) = read(&key) else { continue };
        let is_held = |(of, value): &(SettingKey, Option<String>)| {
            *of == key && value.as_ref() == Some(&limit)
        };
        let us = resume_limit_us(&limit).filter(|us| *us <= MAX_LATENCY_REQUEST_US);
        if let Some(us) = us
            && !held.iter().any(is_held)
        {
            of_cpus.entry(us).or_default().push(place);
        }
    }
    requests.extend(
        of_cpus
            .into_iter()
            .map(|(us, cpus)| LatencyRequest { us, cpus }),
    );
    requests
}

/// Flags of the first CPU.
fn cpu_flags(root: &Root) -> String {
    let text = root.optional("proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "flags").then(|| value.to_owned())
    });
    flags.unwrap_or_default()
}

/// Whether amd-pstate prefers cores: `enabled` or `disabled`, from Linux 6.9 on.
const PREFCORE: &str = "sys/devices/system/cpu/amd_pstate/prefcore";

/// AMD's performance scale from ACPI, and the cores' ranking where different.
fn performance_scale(system: &System, flags: &str, machine: &mut Machine) {
    let root = system.root();
    let Some(first) = system.cpus().first().copied() else {
        return;
    };
    let drivers = ["amd-pstate", "amd-pstate-epp"];
    let driver = root.optional(&format!("{CPUS}/cpufreq/policy{first}/scaling_driver"));
    if !driver.is_some_and(|driver| drivers.contains(&driver.as_str())) {
        return;
    }
    let of_firmware = |file: &str| root.number(&format!("{CPUS}/cpu{first}/acpi_cppc/{file}"));
    let of_driver = |cpu: usize, file: &str| {
        let path = format!("{CPUS}/cpufreq/policy{cpu}/amd_pstate_{file}");
        root.number(&path).and_then(|n| u8::try_from(n).ok())
    };
    let of_driver_khz = |file: &str| {
        let path = format!("{CPUS}/cpufreq/policy{first}/amd_pstate_{file}");
        root.number(&path)
    };
    let performance = |file: &str| u8::try_from(of_firmware(file)?).ok();
    let mhz = |file: &str| u32::try_from(of_firmware(file)?).ok();
    let scale = || {
        Some(Cppc {
            // With preferred cores the firmware's is a rank.
            highest: of_driver(first, "highest_perf").or_else(|| performance("highest_perf"))?,
            nominal: performance("nominal_perf")?,
            lowest_nonlinear: performance("lowest_nonlinear_perf")?,
            lowest: performance("lowest_perf")?,
            nominal_mhz: mhz("nominal_freq")?,
            lowest_mhz: mhz("lowest_freq")?,
            registers: flags.split_whitespace().any(|flag| flag == "cppc"),
            ranking: Vec::new(),
            preferred_cores: root.optional(PREFCORE).as_deref() != Some("disabled"),
            assumed: None,
            ramp_ms: Figure::assumed(
                2.0,
                "Zen 3 mobile (Cezanne) reached 3.7 GHz in a couple of ms (chipsandcheese.com, 15 September 2022, Windows)",
            ),
            full_at_percent: Figure::assumed(50.0, "half of the scale, as for Intel's HWP"),
        })
    };
    let untold = || untold_scale(&machine.cluster[0], of_driver_khz("lowest_nonlinear_freq"));
    let Some(mut cppc) = scale().or_else(untold) else {
        return;
    };
    let cluster = &mut machine.cluster[0];
    let cores = system.cpus().into_iter().step_by(cluster.threads_per_core);
    let ranks: Option<Vec<u8>> = cores
        .map(|cpu| of_driver(cpu, "prefcore_ranking"))
        .collect();
    if let Some(ranks) = ranks.filter(|ranks| ranks.windows(2).any(|w| w[0] != w[1])) {
        let within = |rank: u8| rank.clamp(cppc.nominal, cppc.highest);
        cppc.ranking = ranks.into_iter().map(within).collect();
    }
    let mut tried = machine.clone();
    tried.cluster[0].cppc = Some(cppc);
    tried.cluster[0].clock_slot_us = Figure::assumed(
        1000.0,
        "as measured on an EPYC 7502: changes are uniform within 1 ms",
    );
    tried.cluster[0].transition_latency_us = Figure::assumed(
        371.0,
        "as measured on an EPYC 7502: 871 us in the median, less half a slot of 1 ms",
    );
    // Firmware may report impossible values.
    if tried.check().is_ok() {
        *machine = tried;
    }
}

/// A substitute scale for a known range of clocks: the built-in Ryzen's, stretched to the highest clock.
fn untold_scale(cluster: &Cluster, lowest_nonlinear_khz: Option<u64>) -> Option<Cppc> {
    const LIKE: &str = "ryzen-8840u";
    let (lowest, highest) = (cluster.opps.first()?.khz, cluster.opps.last()?.khz);
    let like = Machine::find(LIKE).ok()?.cluster.first()?.cppc.clone()?;
    let step_khz = f64::from(highest) / f64::from(like.highest);
    let performance = |khz: f64| (khz / step_khz).round().clamp(1.0, f64::from(like.nominal)) as u8;
    let lowest_nonlinear = match lowest_nonlinear_khz {
        Some(khz) => performance(khz as f64),
        None => like.lowest_nonlinear,
    };
    let lowest_performance = performance(f64::from(lowest));
    Some(Cppc {
        lowest: lowest_performance,
        // Older drivers load only where the lowest clock is below this one.
        lowest_nonlinear: lowest_nonlinear.max((lowest_performance + 1).min(like.nominal)),
        nominal_mhz: (step_khz * f64::from(like.nominal) / 1e3) as u32,
        lowest_mhz: lowest / 1000,
        ranking: Vec::new(),
        assumed: Some(format!(
            "acpi_cppc is not there: as on {LIKE}, up to the highest clock"
        )),
        ..like
    })
}

/// Hardware threads per core, from the topology.
fn threads(system: &System, machine: &mut Machine) {
    let cluster = &mut machine.cluster[0];
    let Some(first) = system.cpus().first().copied() else {
        return;
    };
    let list = format!("{CPUS}/cpu{first}/topology/thread_siblings_list");
    let told = system.root().optional(&list);
    let threads = told.as_deref().and_then(cpus::parse).map_or(0, |l| l.len());
    if threads == 0 || !cluster.cpus.is_multiple_of(threads) {
        return;
    }
    let before = std::mem::replace(&mut cluster.threads_per_core, threads);
    // A clock drives whole cores.
    if cluster.clock_cpus == Some(before) {
        cluster.clock_cpus = Some(threads);
    }
    if threads != before {
        cluster.smt_speedup = Figure::default();
        cluster.smt_poll_loss = Figure::default();
    }
}

/// Gives a machine's I/O path the hardware queues of a disk, if the block layer tells their number.
pub fn describe_queues(system: &System, disk: &str, machine: &mut Machine) {
    let queues = system
        .root()
        .numbered(&format!("sys/block/{disk}/mq"), "")
        .len();
    if (1..65_536).contains(&queues) {
        machine.io_path.completion.queues = Some(queues);
        machine.io_path.completion.assumed = format!(
            "{queues} hardware queue(s), as the block layer says; each completes on its own CPUs"
        );
    }
}

/// The first drive, its queues, and power states where available.
fn drive(system: &System, machine: &mut Machine, notes: &mut Vec<String>) {
    let root = system.root();
    if let Some(disk) = system.disks().into_iter().next() {
        describe_queues(system, &disk, machine);
    }
    let names = system.drives();
    if names.is_empty() {
        notes.push("no NVMe controller; a typical drive stands in its place".to_owned());
    }
    let mut known = Vec::new();
    for name in names {
        match nvme::identify(root, &name) {
            Ok(drive) => known.push(DriveModel {
                source: format!("Identify Controller of {name}"),
                in_force: Some(in_force(root, &name)),
                device: Some(name),
                ..DriveModel::declared(&drive)
            }),
            Err(e) if e.kind() == ErrorKind::NotFound => notes.push(format!(
                "{name} cannot be identified: there is no {} (only root can read what goes there)",
                nvme::identify_file(&name)
            )),
            Err(e) => notes.push(format!("{name} cannot be identified: {e}")),
        }
    }
    if known.is_empty() && !system.drives().is_empty() {
        notes.push("a typical drive stands in for the one that cannot be identified".to_owned());
    }
    let mut known = known.into_iter();
    if let Some(first) = known.next() {
        machine.drive = first;
    }
    machine.other_drives = known.collect();
}

/// Present power-management settings of a drive.
fn in_force(root: &Root, name: &str) -> DriveInForce {
    let feature = ApstFeature::get(&*nvme::admin(root, name)).ok();
    let transitions = feature.iter().flat_map(|feature| feature.table.entries());
    DriveInForce {
        latency_tolerance_us: nvme::latency_tolerance(root, name),
        apst: feature.map(|feature| feature.enabled),
        table: transitions
            .filter(|entry| entry.timeout_ms > 0)
            .map(|entry| Transition {
                from: entry.state,
                to: entry.target,
                idle_ms: entry.timeout_ms,
            })
            .collect(),
    }
}

impl System {
    /// The word of the kernel's command line that makes idle CPUs poll and ignore cpuidle: `idle=poll` on x86, `nohlt`
    /// elsewhere (`idle_setup` in Linux 6.12 arch/x86/kernel/process.c, `cpu_idle_poll_setup` in kernel/sched/idle.c).
    pub fn forced_polling(&self) -> Option<&'static str> {
        let root = self.root();
        let text = root.optional("proc/cmdline").unwrap_or_default();
        let words: Vec<&str> = text.split_whitespace().collect();
        let processors = root.optional("proc/cpuinfo").unwrap_or_default();
        let is_x86 = processors
            .lines()
            .any(|line| line.starts_with("cpu family"));
        // Captures without this file may be of either kind.
        if (is_x86 || processors.is_empty()) && words.contains(&"idle=poll") {
            return Some("idle=poll");
        }
        let last = words.iter().rfind(|word| ["nohlt", "hlt"].contains(word));
        (last == Some(&"nohlt") && !is_x86).then_some("nohlt")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::Root;

    #[test]
    fn words_that_force_polling_depend_on_the_processor() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir(tree.path().join("proc")).unwrap();
        let system = System::new(Root::at(tree.path()));
        for (cpuinfo, words, expected) in [
            ("cpu family\t: 6\n", "quiet idle=poll", Some("idle=poll")),
            ("cpu family\t: 6\n", "nohlt", None),
            ("CPU implementer\t: 0x41\n", "idle=poll", None),
            (
                "CPU implementer\t: 0x41\n",
                "idle=poll nohlt",
                Some("nohlt"),
            ),
            ("CPU implementer\t: 0x41\n", "nohlt hlt", None),
        ] {
            fs::write(tree.path().join("proc/cpuinfo"), cpuinfo).unwrap();
            fs::write(tree.path().join("proc/cmdline"), words).unwrap();
            assert_eq!(system.forced_polling(), expected, "{cpuinfo}{words}");
        }
    }
}
