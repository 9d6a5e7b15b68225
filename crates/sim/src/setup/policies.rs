//! A run's policies: a policy set, and the machine's kernel where the set says nothing.

use std::borrow::Cow;
use std::fmt;

use wakepath_hardware::machine::{
    Cluster, EXIT_NOT_KNOWN, Figure, LatencyRequest, MachineError, MachineIdleState, Origin,
};
use wakepath_hardware::recorded::{self, RecordedSystem};
use wakepath_hardware::{IdleStates, Machine};
use wakepath_policies::apst::ApstSettings;
use wakepath_policies::apst::in_force::find_apst_in_force;
use wakepath_policies::freq::FreqPolicy;
use wakepath_policies::freq::amd_pstate::{AmdGovernor, AmdMode};
use wakepath_policies::freq::epp::{Epp, explain_preference_refusal_under_performance};
use wakepath_policies::freq::limits::FrequencyLimits;
use wakepath_policies::idle::IdlePolicy;
use wakepath_policies::idle::limit::IdleStatesLimit;
use wakepath_policies::latency::{CpuLatency, LatencyScope};
use wakepath_policies::mechanism::amd_pstate::amd_epp_number;
use wakepath_policies::mechanism::{Kind, Place, Policy};
use wakepath_policies::poll::PollPolicy;
use wakepath_policies::profile::Expanded;
use wakepath_policies::psd::PsdPolicy;
use wakepath_policies::{PolicySet, PolicySpec};
use wakepath_units::Nanoseconds;

use crate::error::SimError;

/// The policies of a run on one machine, in typed form.
pub(crate) struct Policies {
    pub(super) idle: IdlePolicy,
    pub(super) frequency: FreqPolicy,
    /// The frequency policy as users write it, for messages.
    pub(super) frequency_name: String,
    /// The range that the frequency policy may use; `None`: everything that the machine can.
    pub(super) frequency_limits: Option<FrequencyLimits>,
    /// Whether clocks above the base clock may be used.
    pub(super) has_turbo: bool,
    /// PSD lease policy by cluster; empty without leases.
    pub(super) psd: Vec<PsdPolicy>,
    /// The drive's APST settings; `None` if no policy sets APST.
    pub(super) apst: Option<ApstSettings>,
    pub(super) poll: Option<PollPolicy>,
    /// Whether a task that waits with `io_uring` counts as waiting for I/O.
    pub(super) io_uring_iowait: bool,
}

/// The set with what it does not name: what a recorded system's kernel ran, on other machines `menu`
/// and `schedutil`; and for a drive with power states the `apst` that was captured, or else the kernel's. In the order of [`Kind`].
///
/// ```
/// use wakepath_hardware::Machine;
/// use wakepath_sim::policies_in_force;
///
/// let machine = Machine::find("rk3399")?;
/// let set = policies_in_force(&machine, &"psd".parse()?)?;
/// assert_eq!(set.to_string(), "menu@6.12 + schedutil + psd");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The kernel of a recorded system ran what there is no policy of.
pub fn policies_in_force(machine: &Machine, set: &PolicySet) -> Result<PolicySet, SimError> {
    let own = policies_of_kernel(machine)?;
    let all = expand_profile_for_machine(machine, set)?
        .set
        .completed_from(&own)
        .sorted_by_kind();
    refuse_preference_under_performance(&all, &cpufreq_driver(machine, &own))?;
    Ok(match machine.kernel {
        Some(kernel) => all.with_kernel_for_bare_names(kernel),
        None => all,
    })
}

/// As the kernel, whose drivers answer `EBUSY` (`intel_pstate_set_energy_pref_index()`, `drivers/cpufreq/intel_pstate.c`, and
/// `store_energy_performance_preference()`, `drivers/cpufreq/amd-pstate.c`, Linux 6.12).
fn refuse_preference_under_performance(set: &PolicySet, driver: &Driver) -> Result<(), SimError> {
    let Some(spec) = set.policy_of_kind(Kind::Epp) else {
        return Ok(());
    };
    if set.epp().and_then(Epp::number) == Some(0) {
        return Ok(());
    }
    let instead = match (set.frequency(), driver) {
        (Some(FreqPolicy::AmdPstate(amd)), _) if amd.is_active_with_performance_governor() => {
            "amd-pstate[governor=powersave]"
        }
        (Some(FreqPolicy::Performance), Driver::Amd) => "amd-pstate[governor=powersave]",
        (Some(FreqPolicy::Performance), Driver::Hwp) => "intel_pstate-hwp",
        _ => return Ok(()),
    };
    Err(SimError::OnMachine {
        policy: spec.to_string(),
        why: explain_preference_refusal_under_performance(instead),
    })
}

/// The policies that the machine's kernel has by itself.
fn policies_of_kernel(machine: &Machine) -> Result<PolicySet, SimError> {
    let ran = recorded::find_recorded_system(&machine.name)
        .map(RecordedSystem::kernel_policy_or_stand_in);
    let kernel = match (&machine.runs, &ran) {
        (Some(runs), _) => runs
            .parse::<PolicySet>()?
            .completed_from(&"menu + schedutil".parse()?),
        (None, Some(ran)) => PolicySet::from_names([ran.idle.as_str(), ran.freq.as_str()])?,
        (None, None) => PolicySet::from_names(["menu", "schedutil"])?,
    };
    Ok(match find_apst_in_force(&machine.drive) {
        Some(apst) => kernel.completed_from(&PolicySet::new([apst.policy])?),
        None => kernel,
    })
}

/// The set with what its profile means on this machine, and what of the profile is left out.
///
/// # Errors
/// As [`policies_in_force`].
pub fn expand_profile_for_machine(
    machine: &Machine,
    set: &PolicySet,
) -> Result<Expanded, SimError> {
    let kernel = policies_of_kernel(machine)?;
    let own = cpufreq_driver(machine, &kernel);
    Ok(
        set.expand_profile(&kernel, |policy: &PolicySpec, so_far: &PolicySet| {
            driver_has_policy(&own, policy, so_far.completed_from(&kernel).frequency())
        })?,
    )
}

/// Whether a machine with this driver has a policy of a profile, where this frequency policy is in force.
fn driver_has_policy(driver: &Driver, policy: &PolicySpec, frequency: Option<FreqPolicy>) -> bool {
    match policy.typed_policy() {
        Policy::Frequency(FreqPolicy::Performance) => true,
        Policy::Frequency(wanted) => Driver::for_frequency_policy(*wanted) == *driver,
        Policy::Epp(_) => match frequency {
            // Under the governor `performance`, the kernel accepts only its own energy preference.
            Some(FreqPolicy::Performance) => matches!(driver, Driver::Hwp | Driver::Amd),
            Some(frequency) => matches!(
                Driver::for_frequency_policy(frequency),
                Driver::Hwp | Driver::Amd
            ),
            None => false,
        },
        _ => policy.mechanism().on.contains(&Place::Sim),
    }
}

/// The cpufreq driver of a machine whose kernel runs `own`.
fn cpufreq_driver(machine: &Machine, own: &PolicySet) -> Driver {
    let takes_hints = machine.cluster.iter().all(|c| c.hwp_ramp_ms.is_given());
    match own.frequency() {
        // The governor `performance` goes with every driver; only that of HWP gives a machine these figures.
        Some(FreqPolicy::Performance) if takes_hints => Driver::Hwp,
        Some(frequency) => Driver::for_frequency_policy(frequency),
        None => Driver::Other,
    }
}

/// What a reader of results should know of a set on a machine: what nobody knows of the machine, what of the set's profile is left
/// out, and what of its policies is assumed.
///
/// # Errors
/// As [`policies_in_force`].
pub fn notes_on_machine_and_policies(
    machine: &Machine,
    set: &PolicySet,
) -> Result<Vec<String>, SimError> {
    let mut notes = describe_unknown_facts(machine);
    notes.extend(notes_on_policies(machine, set)?);
    Ok(notes)
}

/// The notes of [`notes_on_machine_and_policies`] that are about the policies.
///
/// # Errors
/// As [`policies_in_force`].
pub fn notes_on_policies(machine: &Machine, set: &PolicySet) -> Result<Vec<String>, SimError> {
    let mut notes = expand_profile_for_machine(machine, set)?.notes;
    notes.extend(note_assumed_epp_effect(&policies_in_force(machine, set)?));
    if set.apst().is_none() {
        notes.extend(note_stand_in_for_captured_apst(machine));
    }
    Ok(notes)
}

/// Whether a guest's host keeps the exit time of a state.
fn has_unknown_exit(state: &MachineIdleState) -> bool {
    matches!(&state.true_exit_us.origin, Origin::Assumed(why) if why == EXIT_NOT_KNOWN)
}

/// Facts about a machine that nobody can know: the exit times kept by a guest's host, and power.
fn describe_unknown_facts(machine: &Machine) -> Vec<String> {
    let states: Vec<&str> = machine
        .idle_state
        .iter()
        .filter(|state| has_unknown_exit(state))
        .map(|state| state.name.as_str())
        .collect();
    let exits = (!states.is_empty())
        .then(|| format!("the exit time of {} is {EXIT_NOT_KNOWN}", states.join(", ")));
    let power =
        (machine.no_power.as_ref()).map(|why| format!("no watts for {}: {why}", machine.name));
    exits.into_iter().chain(power).collect()
}

/// Says that the kernel's own table stands in for a captured one of no known rule.
fn note_stand_in_for_captured_apst(machine: &Machine) -> Option<String> {
    let apst = find_apst_in_force(&machine.drive)?;
    apst.is_stand_in.then(|| {
        format!(
            "the captured APST table of {} follows from no keys of `apst`: the kernel's default table stands in for it",
            machine.drive.name
        )
    })
}

/// What is assumed of the energy-performance preference that is in force. The constants belong to the default, and 0 is
/// documented to be the fastest.
fn note_assumed_epp_effect(in_force: &PolicySet) -> Option<String> {
    const DEFAULT: u8 = 128;
    let epp = match frequency_policy_with_epp_and_boost(in_force).ok()? {
        FreqPolicy::IntelPstateHwp { epp, .. } => epp,
        FreqPolicy::AmdPstate(amd) if amd.mode == AmdMode::Active => match amd.governor {
            AmdGovernor::Powersave => amd.epp,
            _ => return None,
        },
        _ => return None,
    };
    let why = match epp {
        0 | DEFAULT => return None,
        1..DEFAULT => {
            "moves the lower end of the processor's own range of clocks along a straight line. This is assumed; only the \
             direction is published"
        }
        _ => {
            "lowers the upper end of the processor's own range of clocks as on an i7-8550U, to 63 % at EPP 192, and to 27 to 33 % \
             at EPP 255. That other processors do the same is assumed"
        }
    };
    Some(format!(
        "EPP {epp} {why} (docs/background/frequency.md, \"What EPP does\")"
    ))
}

/// The cpufreq driver of a machine, by what chooses the frequency.
#[derive(PartialEq, Eq)]
enum Driver {
    /// The hardware, told by `intel_pstate`.
    Hwp,
    /// `intel_pstate` itself.
    IntelPstate,
    /// The hardware, told by `amd-pstate`.
    Amd,
    /// A governor of cpufreq.
    Other,
}

impl Driver {
    /// The driver that a frequency policy belongs to.
    fn for_frequency_policy(frequency: FreqPolicy) -> Self {
        match frequency {
            FreqPolicy::IntelPstateHwp { .. } => Self::Hwp,
            FreqPolicy::IntelPstate { .. } => Self::IntelPstate,
            FreqPolicy::AmdPstate(amd) if amd.mode == AmdMode::Active => Self::Amd,
            _ => Self::Other,
        }
    }
}

/// The machine with the idle states that a set leaves on, under the latency requests of the set and with its kernel configuration.
///
/// # Errors
/// The set names an idle state or a CPU that the machine does not have, or leaves no idle state.
pub fn machine_under_policies<'a>(
    machine: &'a Machine,
    set: &PolicySet,
) -> Result<Cow<'a, Machine>, SimError> {
    let frequency = policies_in_force(machine, set)?.frequency();
    let set = &expand_profile_for_machine(machine, set)?.set;
    let mut machine = Cow::Borrowed(machine);
    if let Some(FreqPolicy::AmdPstate(_)) = frequency {
        machine
            .to_mut()
            .use_cppc_scale_as_operating_points()
            .map_err(missing_performance_scale_error)?;
    }
    if let Some(limit) = set.idle_states() {
        disable_idle_states_beyond(machine.to_mut(), limit)
            .map_err(|why| impossible_policy_error(set, Kind::IdleStates, why))?;
    }
    if let Some(config) = set.kernel_config() {
        let machine = machine.to_mut();
        if let Some(hz) = config.hz {
            machine.hz = figure_from_policy_set("kernel-config", f64::from(hz.hz()));
        }
        if let Some(counts) = config.irq_time {
            machine.irq_time_accounting =
                figure_from_policy_set("kernel-config", f64::from(u8::from(counts)));
        }
    }
    if let Some(kib) = set.read_ahead_kib() {
        machine.to_mut().drive.read_ahead_kb = figure_from_policy_set("read-ahead", kib as f64);
    }
    if let Some(cpus) = set.irq_affinity() {
        move_completion_interrupts(machine.to_mut(), cpus)
            .map_err(|why| impossible_policy_error(set, Kind::IrqAffinity, why))?;
    }
    match set.c1_demotion() {
        None => {}
        Some(false) => machine.to_mut().c1_demotion = None,
        Some(true) if machine.c1_demotion.is_some() => {}
        Some(true) => {
            let why = "the machine has no [c1_demotion], which says when its firmware demotes";
            return Err(impossible_policy_error(
                set,
                Kind::C1Demotion,
                why.to_owned(),
            ));
        }
    }
    if let Some(latency) = set.cpu_latency() {
        add_latency_requests(machine.to_mut(), latency)
            .map_err(|why| impossible_policy_error(set, Kind::CpuLatency, why))?;
    }
    Ok(machine)
}

/// Lets drives interrupt the first of these CPUs. With several CPUs to choose from, interrupt controllers of arm64 take the first
/// (`gic_set_affinity()`, `drivers/irqchip/irq-gic-v3.c`, Linux 6.12).
fn move_completion_interrupts(machine: &mut Machine, cpus: &[usize]) -> Result<(), String> {
    let count = machine.cpus();
    if let Some(cpu) = cpus.iter().find(|cpu| **cpu >= count) {
        let last = count.saturating_sub(1);
        return Err(format!("there is no CPU {cpu} here; the last is {last}"));
    }
    let completion = &mut machine.io_path.completion;
    if completion.cpu.is_none() && completion.queues != Some(1) {
        return Err(
            "the machine's drive has several queues, whose interrupts the kernel manages, and lets nobody move".to_owned(),
        );
    }
    completion.cpu = cpus.first().copied();
    Ok(())
}

/// A machine's figure with a value from a policy set.
fn figure_from_policy_set(policy: &str, value: f64) -> Figure {
    Figure {
        value,
        origin: Origin::Source(format!("{policy} of the policy set")),
    }
}

/// Makes the error that a machine cannot have a policy of a set.
fn impossible_policy_error(set: &PolicySet, kind: Kind, why: String) -> SimError {
    SimError::OnMachine {
        policy: set
            .policy_of_kind(kind)
            .map(ToString::to_string)
            .unwrap_or_default(),
        why,
    }
}

/// Makes the error that a cluster lacks a figure that amd-pstate needs.
fn missing_performance_scale_error((cluster, what): (String, &str)) -> SimError {
    SimError::NoClock {
        cluster,
        policy: "amd-pstate".to_owned(),
        what: what.to_owned(),
    }
}

fn disable_idle_states_beyond(
    machine: &mut Machine,
    limit: &IdleStatesLimit,
) -> Result<(), String> {
    let off: Vec<(String, Vec<String>)> = (machine.cluster.iter())
        .map(|cluster| {
            Ok((
                cluster.name.clone(),
                names_of_states_switched_off(machine, cluster, limit)?,
            ))
        })
        .collect::<Result<_, String>>()?;
    for (cluster, own) in &off {
        let names = own.iter().map(String::as_str);
        let (everywhere, here): (Vec<&str>, Vec<&str>) =
            names.partition(|name| off.iter().all(|(_, own)| own.iter().any(|n| n == name)));
        machine
            .disable_idle_states_everywhere(&everywhere)
            .and_then(|()| machine.disable_idle_states_on_cluster(cluster, &here))
            .map_err(|e: MachineError| e.to_string())?;
    }
    Ok(())
}

/// Names of a cluster's idle states that a limit switches off. A ceiling goes by the latencies of each CPU's own states.
fn names_of_states_switched_off(
    machine: &Machine,
    cluster: &Cluster,
    limit: &IdleStatesLimit,
) -> Result<Vec<String>, String> {
    let states = (machine.declared_idle_states_on_cluster(cluster)).map_err(|e| e.to_string())?;
    let off = limit
        .states_to_switch_off(&states)
        .map_err(|e| e.to_string())?;
    Ok(off.iter().map(|i| states[*i].name.clone()).collect())
}

fn add_latency_requests(machine: &mut Machine, latency: &CpuLatency) -> Result<(), String> {
    let cpus = machine.cpus();
    let each = match &latency.scope {
        // A system-wide limit is one more request; requests made before stay in force.
        LatencyScope::System => {
            let states = machine
                .common_declared_idle_states()
                .map_err(|e| e.to_string())?;
            let request = latency_limit_in_us(latency, &states)?.map(LatencyRequest::system_wide);
            machine.latency_requests.extend(request);
            return Ok(());
        }
        LatencyScope::EachCpu => (0..cpus).collect(),
        LatencyScope::Cpus(cpus) => cpus.clone(),
    };
    if let Some(cpu) = each.iter().find(|cpu| **cpu >= cpus) {
        return Err(format!(
            "there is no CPU {cpu} here; the last is {}",
            cpus.saturating_sub(1)
        ));
    }
    // CPUs with the same limit share a latency request.
    let mut requests: Vec<(Option<u64>, Vec<usize>)> = Vec::new();
    for cpu in each {
        // An idle state's exit latency is looked up in the CPU's own cluster.
        let cluster = machine
            .cluster_of(cpu)
            .map(|cluster| machine.declared_idle_states_on_cluster(cluster));
        if let Some(states) = cluster {
            let limit = latency_limit_in_us(latency, &states.map_err(|e| e.to_string())?)?;
            match requests.iter_mut().find(|(other, _)| *other == limit) {
                Some((_, cpus)) => cpus.push(cpu),
                None => requests.push((limit, vec![cpu])),
            }
        }
    }
    for (limit, cpus) in requests {
        machine.replace_latency_request_of_cpus(&cpus, limit);
    }
    Ok(())
}

fn latency_limit_in_us(latency: &CpuLatency, states: &IdleStates) -> Result<Option<u64>, String> {
    let states = states.iter().map(|s| (s.name.as_str(), s.exit_latency));
    let limit = latency
        .limit
        .resolve_for_states(states)
        .map_err(|e| e.to_string())?;
    Ok(limit.map(Nanoseconds::as_micros))
}

impl Policies {
    /// The policies of a set that names an idle and a frequency policy ([`policies_in_force`]).
    pub(crate) fn new(
        machine: &Machine,
        states: &[IdleStates],
        set: &PolicySet,
    ) -> Result<Self, SimError> {
        for policy in set.policies() {
            if !policy.mechanism().on.contains(&Place::Sim) {
                return Err(policy_not_modelled_error(
                    policy,
                    explain_why_not_simulated(policy.mechanism().on),
                ));
            }
        }
        let Some(idle) = set.idle() else {
            return Err(policy_not_modelled_error(
                set,
                "a machine without an idle governor",
            ));
        };
        let poll = set.policy_of_kind(Kind::Poll);
        if let Some(poll) = poll
            && !states
                .iter()
                .flat_map(|s| s.iter())
                .any(|s| s.polling && !s.disabled)
        {
            return Err(policy_not_modelled_error(
                poll,
                "it on a machine without a polling idle state",
            ));
        }
        let psd = (set.psd().into_iter())
            .flat_map(|psd| {
                states
                    .iter()
                    .map(move |states| psd.resolve_for_states(states))
            })
            .collect::<Result<_, _>>()
            .map_err(|why| impossible_policy_error(set, Kind::Psd, why.to_string()))?;
        let frequency = set.policy_of_kind(Kind::Frequency);
        Ok(Self {
            idle,
            frequency: frequency_policy_with_epp_and_boost(set)?,
            frequency_name: frequency.map(ToString::to_string).unwrap_or_default(),
            frequency_limits: set.frequency_limits(),
            has_turbo: set.turbo().unwrap_or(true),
            psd,
            apst: apst_settings_with_drive_latency(machine, set)?,
            poll: set.poll(),
            io_uring_iowait: set.io_uring_iowait().unwrap_or(true),
        })
    }
}

fn policy_not_modelled_error(policy: &dyn fmt::Display, what: &str) -> SimError {
    SimError::Policy {
        policy: policy.to_string(),
        what: what.to_owned(),
    }
}

/// Explains, for a message, why a mechanism is not simulated.
fn explain_why_not_simulated(on: &[Place]) -> &'static str {
    if on.contains(&Place::Replay) {
        "it: how long a CPU stays idle follows from what is decided here, so it cannot be known before. \
         'wakepath replay' sets other governors against it"
    } else {
        "it; it acts on real machines only"
    }
}

/// The set's frequency policy, with the settings of its policies `epp` and `hwp-boost`.
fn frequency_policy_with_epp_and_boost(set: &PolicySet) -> Result<FreqPolicy, SimError> {
    let Some(policy) = set.frequency() else {
        return Err(policy_not_modelled_error(
            set,
            "a machine without a frequency policy",
        ));
    };
    if let FreqPolicy::AmdPstate(mut settings) = policy
        && settings.takes_preference()
        && let Some(epp) = set.epp()
        && set.hwp_boost().is_none()
    {
        settings.epp = amd_epp_number(epp).ok_or_else(firmware_epp_error)?;
        return Ok(FreqPolicy::AmdPstate(settings));
    }
    // The governor `performance` implies an energy preference of 0 anyway.
    let says_the_same = matches!(set.epp().map(Epp::number), Some(Some(0)))
        && match policy {
            FreqPolicy::Performance => true,
            FreqPolicy::AmdPstate(amd) => amd.is_active_with_performance_governor(),
            _ => false,
        };
    if says_the_same && set.hwp_boost().is_none() {
        return Ok(policy);
    }
    let FreqPolicy::IntelPstateHwp { dynamic_boost, epp } = policy else {
        return match set
            .policy_of_kind(Kind::Epp)
            .or_else(|| set.policy_of_kind(Kind::HwpBoost))
        {
            Some(of_hwp) => Err(policy_not_modelled_error(
                of_hwp,
                "it without intel_pstate-hwp; add intel_pstate-hwp to the set, or for an EPP amd-pstate",
            )),
            None => Ok(policy),
        };
    };
    let epp = match set.epp().map(Epp::number) {
        None => epp,
        Some(Some(number)) => number,
        Some(None) => return Err(firmware_epp_error()),
    };
    Ok(FreqPolicy::IntelPstateHwp {
        dynamic_boost: set.hwp_boost().unwrap_or(dynamic_boost),
        epp,
    })
}

fn firmware_epp_error() -> SimError {
    policy_not_modelled_error(
        &"epp[value=default]",
        "what the firmware set; give a name or a number",
    )
}

/// The set's APST settings, with the limit of its policy `drive-latency`; `None` if it has neither.
fn apst_settings_with_drive_latency(
    machine: &Machine,
    set: &PolicySet,
) -> Result<Option<ApstSettings>, SimError> {
    if set.apst().is_none() && set.drive_latency().is_none() {
        return Ok(None);
    }
    if machine.drive.power.is_none() {
        return Err(SimError::NoPowerStates(machine.drive.name.clone()));
    }
    Ok(Some(set.apst_settings_with_drive_latency()))
}
