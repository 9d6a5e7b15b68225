//! A machine description, as the simulator takes it, of a running or captured machine.
//!
//! The kernel tells idle states, frequency range, tick rate, number of CPUs and queues, and the drive with its power
//! states. True exit latencies, power and CPU work of an I/O, which no kernel tells, are assumed as on the nearest built-in machine ([`Machine::from_captured`]).

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

/// Describes the machine below a root. Notes say what was assumed that other machines tell.
///
/// # Errors
/// The files describe no valid machine.
pub fn describe(system: &System, name: &str) -> Result<(Machine, Vec<String>), MachineError> {
    let root = system.root();
    let class = MachineClass::read(root);
    let mut notes = vec![class.lender.to_string()];
    let (states, states_assumed) = idle_states(system, &mut notes);
    let (frequency, clock_assumed) = frequencies(system, &mut notes);
    let record = recorded_system(system, name, &class, states, frequency);
    let cores = core_names(system, &class);
    let captured = Captured {
        lender: &class.lender,
        cores: &cores,
        sockets: count_sockets(system),
    };
    let mut machine = Machine::from_captured(&record, &captured)?;
    machine.title = format!(
        "{}, Linux {}, as captured; what its hardware really takes is assumed",
        record.cpu_model, record.kernel
    );
    take_kernel_version(&record.kernel, &mut machine, &mut notes);
    take_kernel_config(root, &mut machine, &mut notes);
    take_threads(system, &mut machine);
    take_performance_scale(system, &cpu_flags(root), &mut machine);
    let scale = machine.cluster[0].cppc.as_ref();
    let scale_assumed = scale.and_then(|cppc| cppc.assumed.as_ref());
    notes.extend(scale_assumed.map(|why| format!("amd-pstate's scale of performances: {why}")));
    notes.extend(base_clock_note(root, &record.frequency));
    machine.power_limit = power_limit::read(root, &machine).filter(|_| machine.has_power());
    machine.isolation = super::isolation::read_isolation(system);
    machine.latency_requests = latency_requests(system);
    mark_assumed(&mut machine, clock_assumed, states_assumed);
    if let Err(why) = kinds::split(system, &mut machine, &cores) {
        notes.push(format!(
            "cores of several kinds: {why}; the machine has those of the first"
        ));
    }
    machine.take_cores(&cores, &class.lender)?;
    notes.extend(kinds::own_states(system, &mut machine));
    if class.guest.is_some() {
        notes.extend(assume_host_states(system, &mut machine));
    }
    assume_residencies(system, &mut machine, &mut notes);
    notes.extend(disable_refused(system, &mut machine));
    notes.extend(clocks::without_boost(system, &mut machine));
    notes.extend(clocks::within_limits(system, &mut machine));
    take_drives(system, &mut machine, &mut notes);
    match RunningPolicies::read(system, &machine) {
        Ok(running) => {
            machine.runs = Some(running.text());
            notes.extend(running.notes);
        }
        Err(why) => notes.push(format!("{why}; menu and schedutil stand in for what runs")),
    }
    Ok((machine, notes))
}

/// The machine as a recording would have it.
fn recorded_system(
    system: &System,
    name: &str,
    class: &MachineClass,
    states: IdleStates,
    frequency: Vec<RecordedPolicy>,
) -> RecordedSystem {
    let root = system.root();
    let driver = root.optional(&format!("{CPUS}/cpuidle/current_driver"));
    let governor = system.idle_governor();
    RecordedSystem {
        name: name.to_owned(),
        cpu_model: shown(&class.processor.name),
        family_model: class.processor.family_model(),
        kernel: root
            .optional("proc/sys/kernel/osrelease")
            .map_or_else(|| "unknown".to_owned(), |text| shown(&text)),
        idle: Some(RecordedIdle {
            driver: shown(driver.as_deref().unwrap_or("none")),
            governor: shown(governor.as_deref().unwrap_or("none")),
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
    }
}

/// Sets the kernel's version: the nearest known one, if its policies are not known.
fn take_kernel_version(release: &str, machine: &mut Machine, notes: &mut Vec<String>) {
    match KernelVersion::from_release_name(release) {
        Ok(kernel) => {
            machine.kernel = Some(kernel);
            machine.kernel_from = Some(format!("the running kernel, {release}"));
        }
        Err(error) => {
            machine.kernel = KernelVersion::nearest_supported(release);
            machine.kernel_from = machine.kernel.map(|kernel| {
                format!("{kernel} is the nearest that is known to the running {release}")
            });
            notes.push(format!("the kernel {error}"));
        }
    }
}

/// Sets what the configuration of the running kernel tells.
fn take_kernel_config(root: &Root, machine: &mut Machine, notes: &mut Vec<String>) {
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
}

/// Marks clocks and idle states that are assumed, with the reasons.
fn mark_assumed(
    machine: &mut Machine,
    clock_assumed: Option<String>,
    states_assumed: Option<String>,
) {
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
}

/// Says where the base clock is from, if not from cpufreq.
fn base_clock_note(root: &Root, policies: &[RecordedPolicy]) -> Option<String> {
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
    printable::escape_for_one_line(text).into_owned()
}

/// Arm core names by online CPU, where known.
fn core_names(system: &System, class: &MachineClass) -> Vec<String> {
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
fn count_sockets(system: &System) -> usize {
    let packages: BTreeSet<u64> = system
        .cpus()
        .into_iter()
        .filter_map(|cpu| {
            let topology = system.root().folder(format!("{CPUS}/cpu{cpu}/topology"));
            topology.number("physical_package_id")
        })
        .collect();
    packages.len().max(1)
}

/// Marks facts unknowable in a guest. The processor itself enters states by MWAIT; a halt goes to the host, which may
/// poll or sleep.
fn assume_host_states(system: &System, machine: &mut Machine) -> Option<String> {
    let first = *system.cpus().first()?;
    let mut names = Vec::new();
    for state in &mut machine.idle_state {
        if state.polling || is_entered_by_mwait(system, first, &state.name) {
            continue;
        }
        state.true_exit_us = Figure::assumed(state.exit_latency_us.value, EXIT_NOT_KNOWN);
        state.exit_spread = Figure::default();
        state.cold_start_kcycles = Figure::default();
        names.push(state.name.clone());
    }
    (!names.is_empty()).then(|| format!("{}: {EXIT_NOT_KNOWN}", names.join(", ")))
}

/// Whether the processor enters a state by MWAIT, by the driver's description.
fn is_entered_by_mwait(system: &System, cpu: usize, name: &str) -> bool {
    let states = system.idle_states(cpu);
    let state = states.iter().find(|state| state.name == name);
    state.is_some_and(|state| {
        let path = format!("{CPUS}/cpu{cpu}/cpuidle/state{}/desc", state.index);
        let description = system.root().optional(&path).unwrap_or_default();
        description.contains("MWAIT")
    })
}

/// Disables states that the firmware refuses: the machine effectively lacks them.
fn disable_refused(system: &System, machine: &mut Machine) -> Option<String> {
    let refused = system.refused_states();
    let names: BTreeSet<&str> = refused.iter().map(|state| state.name.as_str()).collect();
    let mut tried = machine.clone();
    for state in &mut tried.idle_state {
        state.disabled |= names.contains(state.name.as_str());
    }
    for cluster in &mut tried.cluster {
        for state in &mut cluster.idle_state {
            state.disabled &= !names.contains(state.name.as_str());
        }
    }
    if refused.is_empty() || tried.check().is_err() {
        return None;
    }
    *machine = tried;
    let shares: Vec<String> = refused.iter().map(describe_refused).collect();
    Some(format!(
        "states that are off here, because most attempts to enter them are refused: {}",
        shares.join(", ")
    ))
}

/// A refused state with its share: 99.97 % is not 100 %.
fn describe_refused(state: &RefusedState) -> String {
    format!("{} ({} %)", state.name, (100.0 * state.share()).floor())
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
    let cpus = system.cpus();
    let first = cpus.first().map(|cpu| system.idle_states(*cpu));
    let declared = first.unwrap_or_default();
    if let Some(word) = system.forced_polling() {
        notes.push(format!(
            "`{word}` on the kernel's command line: idle CPUs poll and enter no idle state"
        ));
        return (only_state("POLL", 0, true), None);
    }
    let missing = match IdleStates::new(declared.iter().map(declared_state).collect()) {
        Ok(states) => return (states, None),
        Err(_) if declared.is_empty() => "no cpuidle driver".to_owned(),
        Err(why) => format!("the idle states cannot be taken over ({why})"),
    };
    let why = format!("{missing}: the architecture's halt, with the least that a kernel declares");
    notes.push(why.clone());
    (only_state("HALT", 1, false), Some(why))
}

/// A state as the kernel declares it.
fn declared_state(state: &StateInfo) -> IdleState {
    IdleState {
        name: state.name.clone(),
        exit_latency: Nanoseconds::from_micros(state.latency_us),
        target_residency: Nanoseconds::from_micros(state.residency_us),
        polling: state.polling,
        disabled: state.disabled,
    }
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

/// The latency requests in force, except for those of a running wakepath: a lease of the daemon is over in a moment.
fn latency_requests(system: &System) -> Vec<LatencyRequest> {
    let key: Option<SettingKey> = "system-latency".parse().ok();
    let system_limit = key.and_then(|key| system.read(&key).ok());
    let mut requests: Vec<LatencyRequest> = system_limit
        .and_then(|us| us.parse().ok())
        .filter(|us| *us < NO_SYSTEM_LATENCY_LIMIT_US)
        .map(LatencyRequest::system)
        .into_iter()
        .collect();
    let held = match journal::holder(system.root()) {
        Some(_) => journal::held(system.root()).unwrap_or_default(),
        // Left behind by a killed process.
        None => Vec::new(),
    };
    let mut cpus_by_limit: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (place, cpu) in system.cpus().into_iter().enumerate() {
        let Ok(key) = format!("cpu-latency:cpu{cpu}").parse::<SettingKey>() else {
            continue;
        };
        let Ok(limit) = system.read(&key) else {
            continue;
        };
        let us = resume_limit_us(&limit).filter(|us| *us <= MAX_LATENCY_REQUEST_US);
        if let Some(us) = us
            && !held.contains(&(key, Some(limit)))
        {
            cpus_by_limit.entry(us).or_default().push(place);
        }
    }
    requests.extend(
        cpus_by_limit
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

/// Sets AMD's performance scale from ACPI, and the cores' ranking where different.
fn take_performance_scale(system: &System, flags: &str, machine: &mut Machine) {
    let root = system.root();
    let Some(first) = system.cpus().first().copied() else {
        return;
    };
    let policy = root.folder(format!("{CPUS}/cpufreq/policy{first}"));
    let driver = policy.optional("scaling_driver");
    if !matches!(driver.as_deref(), Some("amd-pstate" | "amd-pstate-epp")) {
        return;
    }
    let cluster = &machine.cluster[0];
    let Some(mut cppc) = told_scale(root, first, flags)
        .or_else(|| untold_scale(cluster, policy.number("amd_pstate_lowest_nonlinear_freq")))
    else {
        return;
    };
    let cores = system.cpus().into_iter().step_by(cluster.threads_per_core);
    let ranks: Option<Vec<u8>> = cores
        .map(|cpu| {
            let policy = root.folder(format!("{CPUS}/cpufreq/policy{cpu}"));
            policy.small_number("amd_pstate_prefcore_ranking")
        })
        .collect();
    if let Some(ranks) = ranks.filter(|ranks| ranks.windows(2).any(|w| w[0] != w[1])) {
        let (nominal, highest) = (cppc.nominal, cppc.highest);
        cppc.ranking = ranks
            .into_iter()
            .map(|rank| rank.clamp(nominal, highest))
            .collect();
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

/// The performance scale that firmware and driver tell for a CPU.
fn told_scale(root: &Root, cpu: usize, flags: &str) -> Option<Cppc> {
    let firmware = root.folder(format!("{CPUS}/cpu{cpu}/acpi_cppc"));
    let driver = root.folder(format!("{CPUS}/cpufreq/policy{cpu}"));
    Some(Cppc {
        // With preferred cores the firmware's is a rank.
        highest: driver
            .small_number("amd_pstate_highest_perf")
            .or_else(|| firmware.small_number("highest_perf"))?,
        nominal: firmware.small_number("nominal_perf")?,
        lowest_nonlinear: firmware.small_number("lowest_nonlinear_perf")?,
        lowest: firmware.small_number("lowest_perf")?,
        nominal_mhz: firmware.small_number("nominal_freq")?,
        lowest_mhz: firmware.small_number("lowest_freq")?,
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
}

/// A substitute scale for a known range of clocks: the built-in Ryzen's, stretched to the highest clock.
fn untold_scale(cluster: &Cluster, lowest_nonlinear_khz: Option<u64>) -> Option<Cppc> {
    const LIKE: &str = "ryzen-8840u";
    let (lowest, highest) = (cluster.opps.first()?.khz, cluster.opps.last()?.khz);
    let like = Machine::find(LIKE).ok()?.cluster.first()?.cppc.clone()?;
    let step_khz = f64::from(highest) / f64::from(like.highest);
    let steps = |khz: f64| (khz / step_khz).round().clamp(1.0, f64::from(like.nominal)) as u8;
    let lowest_nonlinear = match lowest_nonlinear_khz {
        Some(khz) => steps(khz as f64),
        None => like.lowest_nonlinear,
    };
    let lowest_performance = steps(f64::from(lowest));
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

/// Sets hardware threads per core, from the topology.
fn take_threads(system: &System, machine: &mut Machine) {
    let cluster = &mut machine.cluster[0];
    let Some(first) = system.cpus().first().copied() else {
        return;
    };
    let list = format!("{CPUS}/cpu{first}/topology/thread_siblings_list");
    let told = system.root().optional(&list);
    let threads = told
        .as_deref()
        .and_then(cpus::parse_cpu_list)
        .map_or(0, |l| l.len());
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

/// Sets the drives with their power states, and the queues of the first.
fn take_drives(system: &System, machine: &mut Machine, notes: &mut Vec<String>) {
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
    let mut drives = known.into_iter();
    if let Some(first) = drives.next() {
        machine.drive = first;
    }
    machine.other_drives = drives.collect();
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
