//! A machine description, as the simulator takes it, of a running or captured machine.
//!
//! The kernel tells idle states, frequency range, tick rate, number of CPUs and queues, and the drive with its power
//! states. True exit latencies, power and CPU work of an I/O, which no kernel tells, are assumed as on the nearest built-in machine ([`Machine::from_captured`]).

use std::collections::{BTreeMap, BTreeSet};

use wakepath_hardware::idle::{IdleState, IdleStates};
use wakepath_hardware::machine::{
    Captured, Cluster, Cppc, EXIT_NOT_KNOWN, Figure, LatencyRequest, MAX_LATENCY_REQUEST_US,
};
use wakepath_hardware::recorded::{RecordedIdle, RecordedPolicy, RecordedSystem};
use wakepath_hardware::{Machine, machine::MachineError};
use wakepath_units::{KernelVersion, Nanoseconds, cpus, printable};

use super::class::MachineClass;
use super::cpufreq::read_or_assume_frequency_policies;
use super::drives::set_drives_and_queues;
use super::running::RunningPolicies;
use super::{clocks, has_irq_time_accounting, kinds, power_limit, read_configured_tick_rate_hz};
use crate::counters::RefusedState;
use crate::setting::{NO_SYSTEM_LATENCY_LIMIT_US, parse_resume_limit_us};
use crate::topology::{CPUS, StateInfo};
use crate::{Root, SettingKey, System, journal};

/// Describes the machine below a root for the simulator. Notes say which figures are assumed that other machines tell.
///
/// # Errors
/// The files describe no valid machine.
pub fn describe_machine(
    system: &System,
    machine_name: &str,
) -> Result<(Machine, Vec<String>), MachineError> {
    let root = system.root();
    let class = MachineClass::read(root);
    let mut notes = vec![class.lender.to_string()];
    refuse_unreadable_residencies(system)?;
    let idle = read_or_assume_first_cpu_states(system, &mut notes);
    let frequency = read_or_assume_frequency_policies(system, &mut notes);
    let record = build_recorded_system(
        system,
        machine_name,
        &class,
        idle.states,
        frequency.policies,
    );
    let cores = kinds::list_arm_core_names(system, &class);
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
    set_kernel_version_or_nearest(&record.kernel, &mut machine, &mut notes);
    set_tick_rate_and_irq_accounting(root, &mut machine, &mut notes);
    set_threads_per_core(system, &mut machine);
    set_amd_performance_scale(system, &read_first_cpu_flags(root), &mut machine);
    let scale = machine.cluster[0].cppc.as_ref();
    let scale_assumed = scale.and_then(|cppc| cppc.assumed.as_ref());
    notes.extend(scale_assumed.map(|why| format!("amd-pstate's scale of performances: {why}")));
    notes.extend(note_base_clock_not_from_cpufreq(root, &record.frequency));
    machine.power_limit = power_limit::read_power_limit(root, &machine)
        .filter(|_| machine.has_cpu_or_package_power());
    machine.isolation = super::isolation::read_cpu_isolation(system);
    machine.latency_requests = read_latency_requests_except_own(system);
    mark_assumed_clocks_and_states(
        &mut machine,
        frequency.assumed_because,
        idle.assumed_because,
    );
    if let Err(why) = kinds::split_cluster_by_core_type(system, &mut machine, &cores) {
        notes.push(format!(
            "cores of several kinds: {why}; the machine has those of the first"
        ));
    }
    machine.take_core_names_and_lent_powers(&cores, &class.lender)?;
    notes.extend(kinds::set_differing_cluster_idle_states(
        system,
        &mut machine,
    ));
    if class.guest.is_some() {
        notes.extend(mark_halt_states_of_guest_as_assumed(system, &mut machine));
    }
    mark_untold_residencies_as_assumed(system, &mut machine, &mut notes);
    notes.extend(disable_refused_states(system, &mut machine));
    notes.extend(clocks::remove_boost_clocks_if_off(system, &mut machine));
    notes.extend(clocks::remove_clocks_above_limits(system, &mut machine));
    set_drives_and_queues(system, &mut machine, &mut notes);
    machine.idle_governors =
        read_offered_governors(root, &format!("{CPUS}/cpuidle/available_governors"));
    machine.frequency_governors =
        (system.active_cpufreq_policies().first()).map_or_else(Vec::new, |policy| {
            let path = format!("{CPUS}/cpufreq/policy{policy}/scaling_available_governors");
            read_offered_governors(root, &path)
        });
    match RunningPolicies::read(system, &machine) {
        Ok(running) => {
            machine.runs = Some(running.to_machine_file_text());
            notes.extend(running.notes);
        }
        Err(why) => notes.push(format!("{why}; menu and schedutil stand in for what runs")),
    }
    Ok((machine, notes))
}

/// Governors that a file of the kernel lists, apart from words that cannot be a governor's name. Empty: the file does not tell.
fn read_offered_governors(root: &Root, path: &str) -> Vec<String> {
    /// Most governors in a file, and most letters of a governor's name: the kernel has about ten, with up to 15 letters.
    const MOST: usize = 32;
    let text = root.read_text_if_readable(path).unwrap_or_default();
    let is_name_letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.split_whitespace()
        .filter(|name| name.len() <= MOST && name.chars().all(is_name_letter))
        .take(MOST)
        .map(str::to_owned)
        .collect()
}

/// The captured machine in the form of a recorded system.
fn build_recorded_system(
    system: &System,
    machine_name: &str,
    class: &MachineClass,
    states: IdleStates,
    frequency: Vec<RecordedPolicy>,
) -> RecordedSystem {
    let root = system.root();
    let driver = root.read_text_if_readable(&format!("{CPUS}/cpuidle/current_driver"));
    let governor = system.read_idle_governor();
    RecordedSystem {
        name: machine_name.to_owned(),
        cpu_model: escape_control_characters(&class.processor.name),
        family_model: class.processor.family_slash_model(),
        kernel: root
            .read_text_if_readable("proc/sys/kernel/osrelease")
            .map_or_else(
                || "unknown".to_owned(),
                |text| escape_control_characters(&text),
            ),
        idle: Some(RecordedIdle {
            driver: escape_control_characters(driver.as_deref().unwrap_or("none")),
            governor: escape_control_characters(governor.as_deref().unwrap_or("none")),
            recorded_cpus: system.cpus().len().max(1),
            states,
        }),
        frequency,
        hwp_dynamic_boost: root
            .read_number_if_readable(&format!("{CPUS}/intel_pstate/hwp_dynamic_boost"))
            .map(|n| n != 0),
        intel_pstate_status: root.read_text_if_readable(&format!("{CPUS}/intel_pstate/status")),
        processor: None,
        source: "wakepath machine capture".to_owned(),
    }
}

/// Sets the machine's kernel version: the nearest known one, if the running kernel's policies are not known.
fn set_kernel_version_or_nearest(release: &str, machine: &mut Machine, notes: &mut Vec<String>) {
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

/// Sets what the running kernel's configuration tells: tick rate and accounting of interrupt time.
fn set_tick_rate_and_irq_accounting(root: &Root, machine: &mut Machine, notes: &mut Vec<String>) {
    match read_configured_tick_rate_hz(root) {
        Some(hz) => {
            machine.hz = Figure::with_own_source(hz as f64, "CONFIG_HZ of the running kernel");
        }
        None => notes.push(format!(
            "the kernel's configuration cannot be read; HZ is assumed to be {}",
            machine.hz.value
        )),
    }
    if let Some(counts) = has_irq_time_accounting(root) {
        machine.irq_time_accounting = Figure::with_own_source(
            f64::from(u8::from(counts)),
            "CONFIG_IRQ_TIME_ACCOUNTING of the running kernel",
        );
    }
}

/// Marks clocks and idle states that are assumed, with the reasons.
fn mark_assumed_clocks_and_states(
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

/// A note that says where the base clock is from, if not from cpufreq.
fn note_base_clock_not_from_cpufreq(root: &Root, policies: &[RecordedPolicy]) -> Option<String> {
    let first = policies.first()?;
    let path = format!("{CPUS}/cpufreq/policy{}/base_frequency", first.policy);
    let base = first.base.filter(|_| !root.exists(&path))?;
    Some(format!(
        "no base_frequency: the base clock is {} MHz, as ACPI or the processor's name tells it",
        base.0 / 1000
    ))
}

/// Text from firmware or hypervisor, with control characters escaped.
fn escape_control_characters(text: &str) -> String {
    printable::escape_for_one_line(text).into_owned()
}

/// Number of processor packages, from the topology of online CPUs.
fn count_sockets(system: &System) -> usize {
    let packages: BTreeSet<u64> = system
        .cpus()
        .into_iter()
        .filter_map(|cpu| {
            let topology = system.root().folder(format!("{CPUS}/cpu{cpu}/topology"));
            topology.read_number_if_readable("physical_package_id")
        })
        .collect();
    packages.len().max(1)
}

/// Marks what a guest cannot know about its idle states. The processor itself enters states by MWAIT; a halt goes to
/// the host, which may poll or sleep. Returns a note.
fn mark_halt_states_of_guest_as_assumed(system: &System, machine: &mut Machine) -> Option<String> {
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

/// Refuses a file of a target residency that has no number; one that is missing, as in old kernels, is assumed.
fn refuse_unreadable_residencies(system: &System) -> Result<(), MachineError> {
    let Some(cpu) = system.cpus().first().copied() else {
        return Ok(());
    };
    for state in system.read_idle_states(cpu) {
        let path = format!("{CPUS}/cpu{cpu}/cpuidle/state{}/residency", state.index);
        if let Some(text) = system.root().read_text_if_readable(&path)
            && text.parse::<u64>().is_err()
        {
            return Err(MachineError::Invalid {
                origin: path,
                key: format!(
                    "target residency of {}",
                    printable::escape_for_one_line(&state.name)
                ),
                message: format!(
                    "`{}` is no number of us that a kernel prints; correct the file, or remove it: then twice the exit latency is \
                     assumed",
                    printable::escape_for_one_line(text.trim())
                ),
            });
        }
    }
    Ok(())
}

/// Whether the processor enters a state by MWAIT, by the driver's description.
fn is_entered_by_mwait(system: &System, cpu: usize, state_name: &str) -> bool {
    let states = system.read_idle_states(cpu);
    let state = states.iter().find(|state| state.name == state_name);
    state.is_some_and(|state| {
        let path = format!("{CPUS}/cpu{cpu}/cpuidle/state{}/desc", state.index);
        let description = system
            .root()
            .read_text_if_readable(&path)
            .unwrap_or_default();
        description.contains("MWAIT")
    })
}

/// Disables idle states that the firmware refuses: the machine effectively lacks them. Returns a note.
fn disable_refused_states(system: &System, machine: &mut Machine) -> Option<String> {
    let refused = system.find_mostly_refused_states();
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
    let shares: Vec<String> = refused
        .iter()
        .map(format_refused_state_and_percent)
        .collect();
    Some(format!(
        "states that are off here, because most attempts to enter them are refused: {}",
        shares.join(", ")
    ))
}

/// Name of a refused idle state with its share in percent, rounded down: 99.97 % is not 100 %.
fn format_refused_state_and_percent(state: &RefusedState) -> String {
    format!(
        "{} ({} %)",
        state.name,
        (100.0 * state.refused_share()).floor()
    )
}

/// Marks target residencies that the kernel does not tell as assumed.
fn mark_untold_residencies_as_assumed(
    system: &System,
    machine: &mut Machine,
    notes: &mut Vec<String>,
) {
    const WHY: &str = "twice the exit latency, as acpi_idle takes it: this kernel tells none";
    let states = system
        .cpus()
        .first()
        .map(|cpu| system.read_idle_states(*cpu));
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

/// Idle states of a captured machine's first CPU.
struct ReadOrAssumedStates {
    states: IdleStates,
    /// Why the only state is assumed; `None` for states that the kernel tells.
    assumed_because: Option<String>,
}

/// Reads the idle states of the first CPU; without cpuidle, assumes the architecture's halt.
fn read_or_assume_first_cpu_states(
    system: &System,
    notes: &mut Vec<String>,
) -> ReadOrAssumedStates {
    let cpus = system.cpus();
    let first = cpus.first().map(|cpu| system.read_idle_states(*cpu));
    let declared = first.unwrap_or_default();
    if let Some(word) = system.polling_word_on_command_line() {
        notes.push(format!(
            "`{word}` on the kernel's command line: idle CPUs poll and enter no idle state"
        ));
        return ReadOrAssumedStates {
            states: table_of_single_state("POLL", 0, true),
            assumed_because: None,
        };
    }
    let missing = match IdleStates::new(declared.iter().map(to_declared_state).collect()) {
        Ok(states) => {
            return ReadOrAssumedStates {
                states,
                assumed_because: None,
            };
        }
        Err(_) if declared.is_empty() => "no cpuidle driver".to_owned(),
        Err(why) => format!("the idle states cannot be taken over ({why})"),
    };
    let why = format!("{missing}: the architecture's halt, with the least that a kernel declares");
    notes.push(why.clone());
    ReadOrAssumedStates {
        states: table_of_single_state("HALT", 1, false),
        assumed_because: Some(why),
    }
}

/// An idle state as the kernel declares it to governors.
fn to_declared_state(state: &StateInfo) -> IdleState {
    IdleState {
        name: state.name.clone(),
        exit_latency: Nanoseconds::from_micros(state.latency_us),
        target_residency: Nanoseconds::from_micros(state.residency_us),
        polling: state.polling,
        disabled: state.disabled,
    }
}

/// A table with a single idle state.
fn table_of_single_state(
    state_name: &str,
    exit_and_residency_us: u64,
    polling: bool,
) -> IdleStates {
    let state = IdleState {
        name: state_name.to_owned(),
        exit_latency: Nanoseconds::from_micros(exit_and_residency_us),
        target_residency: Nanoseconds::from_micros(exit_and_residency_us),
        polling,
        disabled: false,
    };
    #[expect(clippy::expect_used, reason = "one state is a table")]
    IdleStates::new(vec![state]).expect("one state")
}

/// The latency requests in force, except for those of a running wakepath: a lease of the daemon is over in a moment.
fn read_latency_requests_except_own(system: &System) -> Vec<LatencyRequest> {
    let key: Option<SettingKey> = "system-latency".parse().ok();
    let system_limit = key.and_then(|key| system.read_setting(&key).ok());
    let mut requests: Vec<LatencyRequest> = system_limit
        .and_then(|us| us.parse().ok())
        .filter(|us| *us < NO_SYSTEM_LATENCY_LIMIT_US)
        .map(LatencyRequest::system_wide)
        .into_iter()
        .collect();
    let held = match journal::lock_holder_pid(system.root()) {
        Some(_) => journal::list_held_settings_and_new_values(system.root()).unwrap_or_default(),
        // Without a holder of the lock, requests in the journal are left behind by a killed process, and count.
        None => Vec::new(),
    };
    let mut cpus_by_limit: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (place, cpu) in system.cpus().into_iter().enumerate() {
        let Ok(key) = format!("cpu-latency:cpu{cpu}").parse::<SettingKey>() else {
            continue;
        };
        let Ok(limit) = system.read_setting(&key) else {
            continue;
        };
        let us = parse_resume_limit_us(&limit).filter(|us| *us <= MAX_LATENCY_REQUEST_US);
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

/// The flags of the first CPU in `/proc/cpuinfo`.
fn read_first_cpu_flags(root: &Root) -> String {
    let text = root
        .read_text_if_readable("proc/cpuinfo")
        .unwrap_or_default();
    let flags = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "flags").then(|| value.to_owned())
    });
    flags.unwrap_or_default()
}

/// Whether amd-pstate prefers cores: `enabled` or `disabled`, from Linux 6.9 on.
const PREFCORE: &str = "sys/devices/system/cpu/amd_pstate/prefcore";

/// Sets AMD's performance scale from ACPI, and the cores' ranking where different.
fn set_amd_performance_scale(system: &System, flags: &str, machine: &mut Machine) {
    let root = system.root();
    let Some(first) = system.cpus().first().copied() else {
        return;
    };
    let policy = root.folder(format!("{CPUS}/cpufreq/policy{first}"));
    let driver = policy.read_text_if_readable("scaling_driver");
    if !matches!(driver.as_deref(), Some("amd-pstate" | "amd-pstate-epp")) {
        return;
    }
    let cluster = &machine.cluster[0];
    let Some(mut cppc) = read_cppc_performance_scale(root, first, flags).or_else(|| {
        stretch_builtin_performance_scale(
            cluster,
            policy.read_number_if_readable("amd_pstate_lowest_nonlinear_freq"),
        )
    }) else {
        return;
    };
    let cores = system.cpus().into_iter().step_by(cluster.threads_per_core);
    let ranks: Option<Vec<u8>> = cores
        .map(|cpu| {
            let policy = root.folder(format!("{CPUS}/cpufreq/policy{cpu}"));
            policy.read_small_number("amd_pstate_prefcore_ranking")
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
    // Firmware may report an impossible performance scale.
    if tried.check().is_ok() {
        *machine = tried;
    }
}

/// Reads a CPU's performance scale from firmware and driver; `None` if they tell none.
fn read_cppc_performance_scale(root: &Root, cpu: usize, flags: &str) -> Option<Cppc> {
    let firmware = root.folder(format!("{CPUS}/cpu{cpu}/acpi_cppc"));
    let driver = root.folder(format!("{CPUS}/cpufreq/policy{cpu}"));
    Some(Cppc {
        // With preferred cores, the firmware's highest performance is a rank.
        highest: driver
            .read_small_number("amd_pstate_highest_perf")
            .or_else(|| firmware.read_small_number("highest_perf"))?,
        nominal: firmware.read_small_number("nominal_perf")?,
        lowest_nonlinear: firmware.read_small_number("lowest_nonlinear_perf")?,
        lowest: firmware.read_small_number("lowest_perf")?,
        nominal_mhz: firmware.read_small_number("nominal_freq")?,
        lowest_mhz: firmware.read_small_number("lowest_freq")?,
        registers: flags.split_whitespace().any(|flag| flag == "cppc"),
        ranking: Vec::new(),
        preferred_cores: root.read_text_if_readable(PREFCORE).as_deref() != Some("disabled"),
        assumed: None,
        ramp_ms: Figure::assumed(
            2.0,
            "Zen 3 mobile (Cezanne) reached 3.7 GHz in a couple of ms (chipsandcheese.com, 15 September 2022, Windows)",
        ),
        full_at_percent: Figure::assumed(50.0, "half of the scale, as for Intel's HWP"),
    })
}

/// A substitute performance scale for a known range of clocks: the built-in Ryzen's, stretched to the highest clock.
fn stretch_builtin_performance_scale(
    cluster: &Cluster,
    lowest_nonlinear_khz: Option<u64>,
) -> Option<Cppc> {
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
        // Older amd-pstate drivers load only where the lowest clock is below the lowest non-linear clock.
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

/// Sets the machine's hardware threads per core, from the topology.
fn set_threads_per_core(system: &System, machine: &mut Machine) {
    let cluster = &mut machine.cluster[0];
    let Some(first) = system.cpus().first().copied() else {
        return;
    };
    let list = format!("{CPUS}/cpu{first}/topology/thread_siblings_list");
    let told = system.root().read_text_if_readable(&list);
    let threads = told
        .as_deref()
        .and_then(cpus::parse_cpu_list)
        .map_or(0, |l| l.len());
    if threads == 0 || !cluster.cpus.is_multiple_of(threads) {
        return;
    }
    let before = std::mem::replace(&mut cluster.threads_per_core, threads);
    // A shared clock drives whole cores.
    if cluster.clock_cpus == Some(before) {
        cluster.clock_cpus = Some(threads);
    }
    if threads != before {
        cluster.smt_speedup = Figure::default();
        cluster.smt_poll_loss = Figure::default();
    }
}

impl System {
    /// The word of the kernel's command line that makes idle CPUs poll and ignore cpuidle: `idle=poll` on x86, `nohlt`
    /// elsewhere (`idle_setup` in Linux 6.12 arch/x86/kernel/process.c, `cpu_idle_poll_setup` in kernel/sched/idle.c).
    pub fn polling_word_on_command_line(&self) -> Option<&'static str> {
        let root = self.root();
        let text = root
            .read_text_if_readable("proc/cmdline")
            .unwrap_or_default();
        let words: Vec<&str> = text.split_whitespace().collect();
        let processors = root
            .read_text_if_readable("proc/cpuinfo")
            .unwrap_or_default();
        let is_x86 = processors
            .lines()
            .any(|line| line.starts_with("cpu family"));
        // Captures without the file of boot words may be of either kind.
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
        let system = System::new(Root::at_directory(tree.path()));
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
            assert_eq!(
                system.polling_word_on_command_line(),
                expected,
                "{cpuinfo}{words}"
            );
        }
    }

    #[test]
    fn a_residency_that_is_no_number_is_refused_with_its_file() {
        let tree = tempfile::tempdir().unwrap();
        let folder = tree
            .path()
            .join("sys/devices/system/cpu/cpu0/cpuidle/state0");
        fs::create_dir_all(&folder).unwrap();
        fs::write(tree.path().join("sys/devices/system/cpu/online"), "0\n").unwrap();
        for (file, text) in [("name", "C6\n"), ("latency", "170\n")] {
            fs::write(folder.join(file), text).unwrap();
        }
        let system = System::new(Root::at_directory(tree.path()));
        let check = || refuse_unreadable_residencies(&system).map_err(|error| error.to_string());
        assert_eq!(check(), Ok(()));
        fs::write(folder.join("residency"), "600\n").unwrap();
        assert_eq!(check(), Ok(()));
        fs::write(folder.join("residency"), "99999999999999999999\n").unwrap();
        assert_eq!(
            check().unwrap_err(),
            "sys/devices/system/cpu/cpu0/cpuidle/state0/residency: target residency of C6: `99999999999999999999` is no number \
             of us that a kernel prints; correct the file, or remove it: then twice the exit latency is assumed"
        );
    }
}
