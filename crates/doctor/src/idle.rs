//! Findings about idle states: switched off, too deep, too shallow, never reached.

use std::iter;

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{MachineIdleState, Origin};
use wakepath_policies::mechanism::{Kind, Policy};
use wakepath_policies::profile::{PROFILES, Profile};
use wakepath_policies::{PolicySet, PolicySpec};
use wakepath_system::counters::RefusedState;
use wakepath_system::journal::{Journal, read_boot_id};
use wakepath_units::Nanoseconds;

use crate::calibration::describe_exit;
use crate::case::Case;
use crate::counters::{self, Counted};
use crate::finding::Finding;
use crate::model::{QUIET, READS, simulate_load};

/// Number of entries below which the kernel's counters say little.
const ENOUGH: u64 = 1000;
/// Share of wrong decisions that is worth a finding: a governor is wrong a few percent of the time at best.
const WRONG_SHARE: f64 = 0.1;
/// Share of latency that justifies a finding; other simulation seeds differ by less.
const MATTERS: f64 = 0.02;
/// A governor with this share of a limit's gain is the better fix.
const GOVERNOR_SUFFICES: f64 = 0.5;
/// Share of entries and of time below which an idle state counts as not reached.
const NEVER: f64 = 0.001;

/// Finds everything that keeps all CPUs out of deep states permanently.
pub(crate) fn find_permanent_limits_on_deep_states(case: &mut Case<'_>) -> Vec<Finding> {
    let states = counters::sum_idle_counters_by_state(case.system);
    let mut obstacles = Obstacles::default();
    obstacles.add_disabled_states(&states);
    obstacles.add_latency_limits_on_all_cpus(&case.model.machine, &states);
    obstacles.add_boot_words_against_deep_states(case, states.len());
    let Obstacles {
        evidence,
        lifted,
        mut fixes,
    } = obstacles;
    if evidence.is_empty() {
        return Vec::new();
    }
    let mut finding = Finding::new(
        "deep-states-off",
        "deep idle states are off for the whole machine, which costs power all the time",
    );
    finding.evidence = evidence;
    let Ok(set) = PolicySet::from_names(lifted) else {
        return vec![finding];
    };
    // States hidden at boot are unknown, and only disabled states can be simulated.
    let (mut free, now) = case.model.machine_and_policies_after_applying(&set);
    free.latency_requests.retain(|r| !r.cpus.is_empty());
    if !set.is_empty() {
        fixes.insert(0, case.command_line_to_apply(&set));
        finding.set = Some(set);
    }
    finding.fix = Some(fixes.join("; "));
    if finding.set.is_none() && free.latency_requests == case.model.machine.latency_requests {
        return vec![finding];
    }
    let simulated = case
        .model
        .simulate_cost_compared_to(&free, &now, QUIET, "no limit");
    match case.result_or_note_without_cost("deep-states-off", simulated) {
        Some(difference) => vec![finding.with_costs(&difference)],
        None => vec![finding],
    }
}

/// What keeps all CPUs out of deep idle states.
#[derive(Default)]
struct Obstacles {
    evidence: Vec<String>,
    /// Policies that remove the obstacles.
    lifted: Vec<&'static str>,
    /// What a person has to do about the other obstacles.
    fixes: Vec<String>,
}

impl Obstacles {
    fn add_disabled_states(&mut self, states: &[Counted]) {
        let names: Vec<&str> = states
            .iter()
            .filter(|c| c.off_everywhere && !c.sum.state.off_by_default)
            .map(|c| c.sum.state.name.as_str())
            .collect();
        if !names.is_empty() {
            self.evidence
                .push(format!("switched off on every CPU: {}", names.join(", ")));
            self.lifted.push("idle-states[ceiling=none]");
        }
    }

    fn add_latency_limits_on_all_cpus(&mut self, machine: &Machine, states: &[Counted]) {
        if let Some(us) = lowest_system_wide_latency_request_us(machine) {
            let mut request = format!("/dev/cpu_dma_latency is held at {us} us by some process");
            let mut fix = "end the process that holds it: fuser -v /dev/cpu_dma_latency".to_owned();
            if let Some(profile) = profile_that_sets_latency_limit_us(states, us) {
                request = format!("{request}, which is the limit of {profile}");
                fix = format!(
                    "{fix}; if it is {}, choose another profile",
                    profile.tool.title
                );
            }
            self.evidence.push(request);
            self.fixes.push(fix);
        }
        if let Some(us) = highest_limit_us_if_all_cpus_have_one(machine) {
            self.evidence.push(format!(
                "every CPU has a latency limit (pm_qos_resume_latency_us), the highest is {us} us"
            ));
            self.lifted.push("cpu-latency[limit=none,cpus=all]");
        }
    }

    fn add_boot_words_against_deep_states(&mut self, case: &Case<'_>, states: usize) {
        let boot = case.system.root().read_text_if_readable("proc/cmdline");
        let command_line = boot.unwrap_or_default();
        let forced = case.system.polling_word_on_command_line();
        let words: Vec<&str> = command_line
            .split_whitespace()
            .filter(|word| is_boot_word_against_deep(word, states) || forced == Some(word))
            .collect();
        if !words.is_empty() {
            self.evidence
                .push(format!("on the kernel's command line: {}", words.join(" ")));
            self.fixes
                .push("take it off the command line and restart".to_owned());
        }
    }
}

/// The system-wide latency request, set through `/dev/cpu_dma_latency`, if any.
fn lowest_system_wide_latency_request_us(machine: &Machine) -> Option<u64> {
    let requests = machine.latency_requests.iter();
    requests.filter(|r| r.cpus.is_empty()).map(|r| r.us).min()
}

/// The first profile of another tool that sets the same system-wide limit.
fn profile_that_sets_latency_limit_us(states: &[Counted], us: u64) -> Option<&'static Profile> {
    let mut profiles = PROFILES.iter();
    profiles.find(|profile| {
        let mut policies = profile.alternatives_per_setting().flatten();
        policies.any(|policy| {
            latency_limit_of_policy(states, &policy) == Some(Nanoseconds::from_micros(us))
        })
    })
}

/// The latency limit that a policy sets on a machine with these states.
fn latency_limit_of_policy(states: &[Counted], policy: &PolicySpec) -> Option<Nanoseconds> {
    let Policy::CpuLatency(latency) = policy.typed_policy() else {
        return None;
    };
    let states = states.iter().map(|c| &c.sum.state);
    let limit = latency
        .limit
        .resolve_for_states(states.map(|s| (s.name.as_str(), s.exit_latency())));
    limit.ok().flatten()
}

/// The highest latency limit of the CPUs, if every CPU has one.
fn highest_limit_us_if_all_cpus_have_one(machine: &Machine) -> Option<u64> {
    let limits = (0..machine.cpus()).map(|cpu| {
        let requests = machine.latency_requests.iter();
        let own = requests.filter(|request| request.cpus.contains(&cpu));
        own.map(|request| request.us).min()
    });
    limits.collect::<Option<Vec<u64>>>()?.into_iter().max()
}

/// Whether a word on the kernel's command line keeps a machine with so many idle states from deeper ones.
fn is_boot_word_against_deep(word: &str, states: usize) -> bool {
    match word.split_once('=') {
        // The value `nomwait` only chooses how idle states are entered.
        Some(("idle", how)) => matches!(how, "poll" | "halt"),
        Some(("cpuidle.off", on)) => on == "1",
        // A value of 0 means another driver or none; N leaves N states and the polling one. With fewer states the limit
        // is beyond them.
        Some(("intel_idle.max_cstate" | "processor.max_cstate", most)) => {
            most.parse().is_ok_and(|most: usize| states > most)
        }
        _ => false,
    }
}

/// A latency limit that leaves each core type its shallow states. A single value serves all CPUs, so that no type
/// spins when idle; some types may keep a state more.
fn latency_limit_us_that_leaves_shallow_states(case: &Case<'_>) -> Option<u64> {
    let tables = case.model.idle_states_of_each_core_type();
    let ceilings =
        tables.filter_map(|states| wakepath_system::latency_just_above_c1(states.iter()));
    ceilings.max().map(Nanoseconds::as_micros)
}

/// The policy set with a latency limit on every CPU, which needs no running process.
fn policy_set_that_limits_every_cpu(ceiling_us: u64) -> Option<PolicySet> {
    let text = format!("cpu-latency[limit={ceiling_us}us,cpus=all]");
    text.parse().ok()
}

/// The policy set with a latency limit on every CPU that leaves the shallow states, if the machine has some.
pub(crate) fn policy_set_that_leaves_shallow_states(case: &Case<'_>) -> Option<PolicySet> {
    policy_set_that_limits_every_cpu(latency_limit_us_that_leaves_shallow_states(case)?)
}

/// Finds what deep states cost each I/O, whatever the counters say.
pub(crate) fn find_cost_of_deep_states(case: &mut Case<'_>) -> Option<Finding> {
    let ceiling = latency_limit_us_that_leaves_shallow_states(case)?;
    let states = case.model.idle_states_of_each_core_type().flatten();
    let mut deeper: Vec<(u64, String)> = states
        .filter(|state| state.latency_us > ceiling && !state.disabled)
        .map(|state| (state.latency_us, state.name.clone()))
        .collect();
    // Core types with equal idle states are listed once.
    deeper.sort();
    deeper.dedup();
    let deepest_us = deeper.last()?.0;
    let what = format!("no state above {ceiling} us");
    let priced = case.price_policy_set_at_work_and_rest(
        "deep-states",
        policy_set_that_limits_every_cpu(ceiling)?,
        &what,
    )?;
    if priced.difference.weight < MATTERS || priced.difference.us_per_io <= 0.0 {
        return None;
    }
    let governor = case.model.text_of_present_policy(Kind::Idle);
    Some(
        Finding::new(
            "deep-states",
            format!(
                "CPUs that wait for I/O sleep in states that take up to {deepest_us} us to leave"
            ),
        )
        .with_evidence(format!(
            "enabled above {ceiling} us: {}; governor {governor}",
            deeper
                .iter()
                .map(|(us, name)| describe_exit(name, *us, &case.model.machine))
                .collect::<Vec<_>>()
                .join(", ")
        ))
        .fixed_by_priced_set(case, priced),
    )
}

/// Adds up a counter of all states; a damaged capture may have impossible counts.
fn add_up(states: &[Counted], count: impl Fn(&Counted) -> u64) -> u64 {
    states.iter().map(count).fold(0, u64::saturating_add)
}

/// Lists states with a count, each beside the number of entries.
fn list_states_with_nonzero_count(states: &[Counted], count: fn(&Counted) -> u64) -> String {
    let counted = states.iter().filter(|state| count(state) > 0);
    let parts: Vec<String> = counted
        .map(|c| format!("{} {} of {}", c.sum.state.name, count(c), c.sum.usage))
        .collect();
    parts.join(", ")
}

/// Finds a governor that often picks the wrong state, by the kernel's own counters.
pub(crate) fn find_mispredictions(case: &mut Case<'_>) -> Vec<Finding> {
    let states = counters::sum_idle_counters_by_state(case.system);
    let usage = add_up(&states, |c| c.sum.usage);
    if usage < ENOUGH {
        case.notes.push(format!(
            "only {usage} idle entries were counted; the governor is not judged by them"
        ));
        return Vec::new();
    }
    let wrong = add_up(&states, |c| c.sum.above.saturating_add(c.sum.below));
    if wrong > usage {
        case.notes.push(format!(
            "`above` and `below` of the idle states count {wrong} wrong choices of {usage}, which is impossible: they do not judge \
             the governor"
        ));
        return Vec::new();
    }
    if let Some(before) = find_replaced_governor(case) {
        case.notes.push(format!(
            "the counters are since the start of the machine, mostly under the idle governor {before}: they do not judge the \
             governor that wakepath has set since"
        ));
        return Vec::new();
    }
    let findings: Vec<Finding> = [
        find_too_deep_choices(case, &states, usage),
        find_too_shallow_choices(case, &states, usage),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !findings.is_empty() {
        case.notes.extend(explain_gain_from_missing_teo(case));
    }
    findings
}

/// The idle governor of before, if wakepath has set another one since the machine was started.
fn find_replaced_governor(case: &Case<'_>) -> Option<String> {
    let root = case.system.root();
    let journal = Journal::read_without_lock(root)?;
    if journal.boot != read_boot_id(root) {
        return None;
    }
    let entries = journal.entries_with_oldest_values().into_iter();
    let present = case.model.now.policy_of_kind(Kind::Idle)?.mechanism().name;
    entries
        .filter(|entry| entry.key.setting.name == "idle-governor" && entry.old != present)
        .map(|entry| entry.old)
        .next()
}

/// Finds a governor that often picks too deep a state.
fn find_too_deep_choices(case: &mut Case<'_>, states: &[Counted], usage: u64) -> Option<Finding> {
    let above = add_up(states, |c| c.sum.above);
    let share = above as f64 / usage as f64;
    if share < WRONG_SHARE {
        return None;
    }
    let exit_us = mean_exit_us_of_each_modelled_state(&case.model.machine, states.len());
    // The extra time of leaving the state, compared to the next shallower state.
    let lost_us: f64 = (1..states.len())
        .map(|i| states[i].sum.above as f64 * (exit_us[i] - exit_us[i - 1]).max(0.0))
        .sum();
    let governor = case.model.text_of_present_policy(Kind::Idle);
    let mut finding = Finding::new(
        "too-deep",
        format!(
            "the idle governor {governor} picks too deep a state in {:.0} % of the cases",
            100.0 * share
        ),
    )
    .with_evidence(format!(
        "`above`: {}",
        list_states_with_nonzero_count(states, |c| c.sum.above)
    ));
    finding.costs_us_per_io = Some(lost_us / usage as f64);
    finding.computed = Some(format!(
        "the kernel's `above` times the difference of {}exit latencies, over all wake-ups; an I/O wakes a CPU once",
        if has_measured_exits(case) {
            "measured "
        } else {
            ""
        }
    ));
    finding.weight = as_share_of_simulated_read_latency(case, lost_us / usage as f64);
    let Some(set) = choose_set_against_deep_choices(case) else {
        return Some(finding);
    };
    let priced = case.price_policy_set("too-deep", set.clone(), QUIET, &set.to_string());
    if let Some(mw) = priced.and_then(|priced| priced.difference.mw) {
        finding.costs_mw = Some(mw);
        let computed = finding.computed.take().unwrap_or_default();
        finding.computed = Some(format!("{computed}; power: simulated, {QUIET}"));
    }
    Some(finding.fixed_by_set(case, set))
}

/// The fastest governor that this kernel offers, or a latency limit where governors gain less than half as much, by a difference that
/// matters: a limit keeps CPUs out of deep states at rest, too.
fn choose_set_against_deep_choices(case: &Case<'_>) -> Option<PolicySet> {
    let limit = policy_set_that_leaves_shallow_states(case);
    let Some((governor, latency)) = fastest_other_governor(case) else {
        return limit;
    };
    let now = simulate_read_latency_us(case, &PolicySet::default())?;
    let gain = now - latency;
    let limited = limit
        .as_ref()
        .and_then(|set| simulate_read_latency_us(case, set));
    let gain_of_limit = limited.map_or(0.0, |limited| now - limited);
    let suffices =
        gain >= gain_of_limit * GOVERNOR_SUFFICES || gain_of_limit - gain < now * MATTERS;
    if gain > 0.0 && suffices {
        Some(governor)
    } else {
        limit
    }
}

/// Whether exit latencies of the machine were measured on it.
fn has_measured_exits(case: &Case<'_>) -> bool {
    let machine = &case.model.machine;
    machine.cluster.iter().any(|cluster| {
        let states = machine.idle_states_on_cluster(cluster);
        let mut exits = states.iter().map(|state| &state.true_exit_us.origin);
        exits.any(|origin| matches!(origin, Origin::Measured(_)))
    })
}

/// Finds a governor that often picks too shallow a state.
fn find_too_shallow_choices(
    case: &mut Case<'_>,
    states: &[Counted],
    usage: u64,
) -> Option<Finding> {
    let below = add_up(states, |c| c.sum.below);
    let share = below as f64 / usage as f64;
    // The counters blame the governor even where the deeper states are refused.
    if share < WRONG_SHARE || !case.system.find_mostly_refused_states().is_empty() {
        return None;
    }
    let governor = case.model.text_of_present_policy(Kind::Idle);
    let mut finding = Finding::new(
        "too-shallow",
        format!(
            "the idle governor {governor} picks too shallow a state in {:.0} % of the cases",
            100.0 * share
        ),
    )
    .with_evidence(format!(
        "`below`: {}",
        list_states_with_nonzero_count(states, |c| c.sum.below)
    ));
    let seconds = counters::read_uptime_s(case.system).filter(|s| *s > 0.0);
    if let Some(seconds) = seconds.filter(|_| case.model.machine.has_cpu_or_package_power()) {
        let power_mw =
            figure_of_each_modelled_state(case, states.len(), |state| state.power_mw.value);
        // During the idle periods in question the CPU drew the power of the shallower state.
        let wasted_mw_us: f64 = (0..states.len().saturating_sub(1))
            .filter(|i| states[*i].sum.usage > 0)
            .map(|i| {
                let mean_stay = states[i].sum.time_us as f64 / states[i].sum.usage as f64;
                states[i].sum.below as f64 * mean_stay * (power_mw[i] - power_mw[i + 1]).max(0.0)
            })
            .sum();
        let mw = wasted_mw_us / (seconds * 1e6);
        finding.costs_mw = Some(mw);
        finding.computed = Some(
            "the kernel's `below` times the mean residency and the difference of power, over the time since the start"
                .to_owned(),
        );
        finding.weight = as_share_of_simulated_idle_power(case, mw);
    }
    Some(match policy_set_with_clearly_fastest_governor(case) {
        Some(set) => finding.fixed_by_set(case, set),
        None => finding,
    })
}

/// The exit time of each counted state in us: the mean over the simulated machine's CPUs, whose kinds may differ. States that
/// the machine lacks cost nothing.
fn mean_exit_us_of_each_modelled_state(machine: &Machine, states: usize) -> Vec<f64> {
    let mut means = vec![0.0; states];
    for cluster in &machine.cluster {
        let share = cluster.cpus as f64 / machine.cpus() as f64;
        let own = machine.idle_states_on_cluster(cluster);
        for (mean, state) in means.iter_mut().zip(own.iter()) {
            *mean += share * state.true_exit_us.value;
        }
    }
    means
}

/// A figure of the simulated machine for each counted state. States that it lacks cost nothing.
fn figure_of_each_modelled_state(
    case: &Case<'_>,
    states: usize,
    figure: impl Fn(&MachineIdleState) -> f64,
) -> Vec<f64> {
    let known = case.model.machine.idle_state.iter().map(figure);
    known.chain(iter::repeat(0.0)).take(states).collect()
}

/// A time per I/O as a share of the latency that is simulated with the present settings.
fn as_share_of_simulated_read_latency(case: &Case<'_>, us: f64) -> f64 {
    let now = simulate_load(&case.model.machine, &case.model.now, READS);
    now.map_or(0.0, |r| us / r.mean_us.max(1e-9))
}

/// A power as a share of the simulated power of the idle machine.
fn as_share_of_simulated_idle_power(case: &Case<'_>, mw: f64) -> f64 {
    let now = simulate_load(&case.model.machine, &case.model.now, QUIET);
    now.ok()
        .and_then(|r| r.mean_mw)
        .map_or(0.0, |all| mw / all.max(1e-9))
}

/// Reads which idle governors this kernel offers.
fn read_offered_governors(case: &Case<'_>) -> Option<String> {
    let path = "sys/devices/system/cpu/cpuidle/available_governors";
    case.system.root().read_text_if_readable(path)
}

/// Simulated latency of single reads under a set, in us.
fn simulate_read_latency_us(case: &Case<'_>, set: &PolicySet) -> Option<f64> {
    let (machine, policies) = case.model.machine_and_policies_after_applying(set);
    Some(simulate_load(&machine, &policies, READS).ok()?.mean_us)
}

/// Says what teo would gain, if it is faster than the present governor and missing in this kernel.
fn explain_gain_from_missing_teo(case: &Case<'_>) -> Option<String> {
    let offered = read_offered_governors(case)?;
    if offered.split_whitespace().any(|name| name == "teo") {
        return None;
    }
    let set: PolicySet = format!("teo@{}", case.system.nearest_kernel_version())
        .parse()
        .ok()?;
    let now = simulate_read_latency_us(case, &PolicySet::default())?;
    let teo = simulate_read_latency_us(case, &set)?;
    (teo < now * (1.0 - MATTERS)).then(|| {
        format!(
            "with the idle governor teo a read would take {teo:.1} us in place of {now:.1} us (simulated). This kernel is built \
             without it (CONFIG_CPU_IDLE_GOV_TEO), as Debian's amd64 kernels are"
        )
    })
}

/// The policy set with the fastest governor that this kernel offers, by simulation, if it is clearly faster than the present one.
fn policy_set_with_clearly_fastest_governor(case: &Case<'_>) -> Option<PolicySet> {
    let now = simulate_read_latency_us(case, &PolicySet::default())?;
    let (set, latency) = fastest_other_governor(case)?;
    (latency < now * (1.0 - MATTERS)).then_some(set)
}

/// The fastest governor that this kernel offers besides the present one, with its simulated latency of single reads in us.
fn fastest_other_governor(case: &Case<'_>) -> Option<(PolicySet, f64)> {
    let offered = read_offered_governors(case)?;
    let running = case.model.now.policy_of_kind(Kind::Idle)?.mechanism().name;
    let version = case.system.nearest_kernel_version();
    offered
        .split_whitespace()
        .filter(|name| *name != running)
        .filter_map(|name| {
            let set: PolicySet = format!("{name}@{version}").parse().ok()?;
            let latency = simulate_read_latency_us(case, &set)?;
            Some((set, latency))
        })
        .min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Finds states that the governor asks for and the firmware refuses.
pub(crate) fn find_refused_states(case: &Case<'_>) -> Option<Finding> {
    let refused = case.system.find_mostly_refused_states();
    let never = refused.iter().all(|state| state.usage == 0);
    let least = refused
        .iter()
        .map(RefusedState::refused_share)
        .reduce(f64::min)?;
    let names: Vec<&str> = refused.iter().map(|state| state.name.as_str()).collect();
    let what = if never {
        "and never entered"
    } else {
        "and seldom entered"
    };
    let evidence = refused.iter().map(|state| {
        format!(
            "{}: rejected {}, usage {}",
            state.name, state.rejected, state.usage
        )
    });
    let mut finding = Finding::new(
        "refused-states",
        format!(
            "{} refused in {:.0} % of the attempts {what}: the firmware is at fault, and the governor keeps asking",
            match &names[..] {
                [only] => format!("the idle state {only} is"),
                [first @ .., last] =>
                    format!("the idle states {} and {last} are", first.join(", ")),
                [] => return None,
            },
            // 99.97 % is not 100 %.
            (1e2 * least).floor()
        ),
    );
    finding.evidence = evidence.collect();
    let finding = finding.with_evidence(
        "a CPU whose attempt is refused does not sleep at all until it asks again; nobody waits for a state that is not entered",
    );
    let update = "update the firmware (PSCI, ACPI or hypervisor), which refuses them";
    match deepest_accepted_state(case, &names)
        .and_then(|ceiling| format!("idle-states[ceiling={ceiling}]").parse().ok())
    {
        Some(set) => {
            let until = format!(
                "{update}; until then, so that the governor does not ask: {}",
                case.command_line_to_apply(&set)
            );
            Some(Finding {
                set: Some(set),
                ..finding.with_fix(until)
            })
        }
        None => Some(finding.with_fix(update)),
    }
}

/// The deepest state that is accepted, if every refused state is deeper.
fn deepest_accepted_state(case: &Case<'_>, refused: &[&str]) -> Option<String> {
    let states = case.system.read_idle_states(*case.system.cpus().first()?);
    let is_refused: Vec<bool> = states
        .iter()
        .map(|state| refused.contains(&state.name.as_str()))
        .collect();
    let first = is_refused.iter().position(|refused| *refused)?;
    let (above, _) = states.split_at(first);
    let ceiling = above
        .last()
        .filter(|_| is_refused[first..].iter().all(|refused| *refused))?;
    Some(ceiling.name.clone())
}

/// Finds deep states that no load reaches.
pub(crate) fn find_unreached_states(case: &Case<'_>) -> Option<Finding> {
    let states = counters::sum_idle_counters_by_state(case.system);
    let usage = add_up(&states, |c| c.sum.usage);
    let time = add_up(&states, |c| c.sum.time_us);
    if usage < ENOUGH {
        return None;
    }
    let refused = case.system.find_mostly_refused_states();
    let names: Vec<String> = states
        .iter()
        .filter(|c| {
            !c.sum.state.polling
                && !refused.iter().any(|state| state.name == c.sum.state.name)
                && !c.off_everywhere
                && (c.sum.usage as f64) < NEVER * usage as f64
                && (c.sum.time_us as f64) < NEVER * time as f64
        })
        .map(|c| format!("{} ({} entries)", c.sum.state.name, c.sum.usage))
        .collect();
    (!names.is_empty()).then(|| {
        Finding::new(
            "unreached-states",
            "idle states that are enabled are hardly ever entered: they neither save nor cost anything here",
        )
        .with_evidence(format!("{} of {usage} entries", names.join(", ")))
    })
}
