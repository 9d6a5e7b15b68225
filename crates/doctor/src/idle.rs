//! Idle states: switched off, too deep, too shallow, never reached.

use std::iter;

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{MachineIdleState, Origin};
use wakepath_policies::mechanism::{Kind, Policy};
use wakepath_policies::profile::{PROFILES, Profile};
use wakepath_policies::{PolicySet, PolicySpec};
use wakepath_system::counters::RefusedState;
use wakepath_units::Nanoseconds;

use crate::calibration::describe_exit;
use crate::case::Case;
use crate::counters::{self, Counted};
use crate::finding::Finding;
use crate::model::{QUIET, READS, simulate};

/// With fewer entries the counters say little.
const ENOUGH: u64 = 1000;
/// Share of wrong decisions that is worth a finding: a governor is wrong a few percent of the time at best.
const WRONG_SHARE: f64 = 0.1;
/// Share of latency that justifies a finding; other simulation seeds differ by less.
const MATTERS: f64 = 0.02;
/// A state with a smaller share of entries and of time is not reached.
const NEVER: f64 = 0.001;

/// Everything that keeps all CPUs out of deep states permanently.
pub(crate) fn limits(case: &mut Case<'_>) -> Vec<Finding> {
    let states = counters::idle_states(case.system);
    let mut obstacles = Obstacles::default();
    obstacles.add_disabled_states(&states);
    obstacles.add_requests(&case.model.machine, &states);
    obstacles.add_boot_words(case, states.len());
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
    let Ok(set) = PolicySet::named(lifted) else {
        return vec![finding];
    };
    // States hidden at boot are unknown; disabled states can be simulated.
    let (mut free, now) = case.model.applied(&set);
    free.latency_requests.retain(|r| !r.cpus.is_empty());
    if !set.is_empty() {
        fixes.insert(0, case.apply(&set));
        finding.set = Some(set);
    }
    finding.fix = Some(fixes.join("; "));
    if finding.set.is_none() && free.latency_requests == case.model.machine.latency_requests {
        return vec![finding];
    }
    let simulated = case.model.against(&free, &now, QUIET, "no limit");
    match case.or_note("deep-states-off", simulated) {
        Some(difference) => vec![finding.costs(&difference)],
        None => vec![finding],
    }
}

/// Obstacles to deep states on all CPUs.
#[derive(Default)]
struct Obstacles {
    evidence: Vec<String>,
    /// Policies that lift them.
    lifted: Vec<&'static str>,
    /// What a person has to do about the others.
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

    fn add_requests(&mut self, machine: &Machine, states: &[Counted]) {
        if let Some(us) = request(machine) {
            let mut request = format!("/dev/cpu_dma_latency is held at {us} us by some process");
            let mut fix = "end the process that holds it: fuser -v /dev/cpu_dma_latency".to_owned();
            if let Some(profile) = profile_of_request(states, us) {
                request = format!("{request}, which is the limit of {profile}");
                fix = format!(
                    "{fix}; if it is {}, choose another profile",
                    profile.tool.title
                );
            }
            self.evidence.push(request);
            self.fixes.push(fix);
        }
        if let Some(us) = every_cpu(machine) {
            self.evidence.push(format!(
                "every CPU has a latency limit (pm_qos_resume_latency_us), the highest is {us} us"
            ));
            self.lifted.push("cpu-latency[limit=none,cpus=all]");
        }
    }

    fn add_boot_words(&mut self, case: &Case<'_>, states: usize) {
        let boot = case.system.root().optional("proc/cmdline");
        let command_line = boot.unwrap_or_default();
        let forced = case.system.forced_polling();
        let words: Vec<&str> = command_line
            .split_whitespace()
            .filter(|word| keeps_shallow(word, states) || forced == Some(word))
            .collect();
        if !words.is_empty() {
            self.evidence
                .push(format!("on the kernel's command line: {}", words.join(" ")));
            self.fixes
                .push("take it off the command line and restart".to_owned());
        }
    }
}

/// The system-wide request, set through `/dev/cpu_dma_latency`, if any.
fn request(machine: &Machine) -> Option<u64> {
    let requests = machine.latency_requests.iter();
    requests.filter(|r| r.cpus.is_empty()).map(|r| r.us).min()
}

/// The first profile by another tool with the same system-wide limit.
fn profile_of_request(states: &[Counted], us: u64) -> Option<&'static Profile> {
    let mut profiles = PROFILES.iter();
    profiles.find(|profile| {
        let mut policies = profile.choices().flatten();
        policies.any(|policy| latency_limit(states, &policy) == Some(Nanoseconds::from_micros(us)))
    })
}

/// The latency limit that a policy sets on a machine with these states.
fn latency_limit(states: &[Counted], policy: &PolicySpec) -> Option<Nanoseconds> {
    let Policy::CpuLatency(latency) = policy.policy() else {
        return None;
    };
    let states = states.iter().map(|c| &c.sum.state);
    let limit = latency
        .limit
        .on(states.map(|s| (s.name.as_str(), s.latency())));
    limit.ok().flatten()
}

/// The highest latency limit, if every CPU has one.
fn every_cpu(machine: &Machine) -> Option<u64> {
    let limits = (0..machine.cpus()).map(|cpu| {
        let requests = machine.latency_requests.iter();
        let own = requests.filter(|request| request.cpus.contains(&cpu));
        own.map(|request| request.us).min()
    });
    limits.collect::<Option<Vec<u64>>>()?.into_iter().max()
}

/// Whether a word of the kernel's command line keeps a machine that shows so many idle states from deeper ones.
fn keeps_shallow(word: &str, states: usize) -> bool {
    match word.split_once('=') {
        // `nomwait` only chooses how to enter them.
        Some(("idle", how)) => matches!(how, "poll" | "halt"),
        Some(("cpuidle.off", on)) => on == "1",
        // 0 is another driver or none; N leaves N states and the polling one. With fewer the limit is beyond what there is.
        Some(("intel_idle.max_cstate" | "processor.max_cstate", most)) => {
            most.parse().is_ok_and(|most: usize| states > most)
        }
        _ => false,
    }
}

/// A latency limit that leaves each core type its shallow states. A single value serves all CPUs, so that no type
/// spins when idle; some types may keep a state more.
fn shallow_ceiling(case: &Case<'_>) -> Option<u64> {
    let tables = case.model.tables();
    let ceilings = tables.filter_map(|states| wakepath_system::shallow_ceiling(states.iter()));
    ceilings.max().map(Nanoseconds::as_micros)
}

/// A latency limit on every CPU, which needs no running process.
fn limit_of_cpus(ceiling_us: u64) -> Option<PolicySet> {
    let text = format!("cpu-latency[limit={ceiling_us}us,cpus=all]");
    text.parse().ok()
}

/// A latency limit of every CPU that leaves the shallow states, if the machine has some.
pub(crate) fn shallow_only(case: &Case<'_>) -> Option<PolicySet> {
    limit_of_cpus(shallow_ceiling(case)?)
}

/// What deep states cost I/O, whatever the counters say.
pub(crate) fn depth(case: &mut Case<'_>) -> Option<Finding> {
    let ceiling = shallow_ceiling(case)?;
    let states = case.model.tables().flatten();
    let mut deeper: Vec<(u64, String)> = states
        .filter(|state| state.latency_us > ceiling && !state.disabled)
        .map(|state| (state.latency_us, state.name.clone()))
        .collect();
    // Core types with equal states count once.
    deeper.sort();
    deeper.dedup();
    let deepest_us = deeper.last()?.0;
    let what = format!("no state above {ceiling} us");
    let priced = case.price("deep-states", limit_of_cpus(ceiling)?, READS, &what)?;
    if priced.difference.weight < MATTERS || priced.difference.us_per_io <= 0.0 {
        return None;
    }
    let governor = case.model.name_of(Kind::Idle);
    Some(
        Finding::new(
            "deep-states",
            format!(
                "CPUs that wait for I/O sleep in states that take up to {deepest_us} us to leave"
            ),
        )
        .evidence(format!(
            "enabled above {ceiling} us: {}; governor {governor}",
            deeper
                .iter()
                .map(|(us, name)| describe_exit(name, *us, &case.model.machine.idle_state))
                .collect::<Vec<_>>()
                .join(", ")
        ))
        .priced(case, priced),
    )
}

/// States with a count, each beside the number of entries.
fn list_counts(states: &[Counted], count: fn(&Counted) -> u64) -> String {
    let counted = states.iter().filter(|state| count(state) > 0);
    let parts: Vec<String> = counted
        .map(|c| format!("{} {} of {}", c.sum.state.name, count(c), c.sum.usage))
        .collect();
    parts.join(", ")
}

/// A governor that often picks the wrong state, by the kernel's own count.
pub(crate) fn mispredictions(case: &mut Case<'_>) -> Vec<Finding> {
    let states = counters::idle_states(case.system);
    let usage: u64 = states.iter().map(|c| c.sum.usage).sum();
    if usage < ENOUGH {
        case.notes.push(format!(
            "only {usage} idle entries were counted; the governor is not judged by them"
        ));
        return Vec::new();
    }
    let findings: Vec<Finding> = [
        too_deep(case, &states, usage),
        too_shallow(case, &states, usage),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !findings.is_empty() {
        case.notes.extend(teo_is_missing(case));
    }
    findings
}

/// A governor that often picks too deep a state.
fn too_deep(case: &mut Case<'_>, states: &[Counted], usage: u64) -> Option<Finding> {
    let above: u64 = states.iter().map(|c| c.sum.above).sum();
    let share = above as f64 / usage as f64;
    if share < WRONG_SHARE {
        return None;
    }
    let exit_us = model_figures(case, states.len(), |state| state.true_exit_us.value);
    // Time that leaving the state took beyond leaving the next shallower state.
    let lost_us: f64 = (1..states.len())
        .map(|i| states[i].sum.above as f64 * (exit_us[i] - exit_us[i - 1]).max(0.0))
        .sum();
    let governor = case.model.name_of(Kind::Idle);
    let mut finding = Finding::new(
        "too-deep",
        format!(
            "the idle governor {governor} picks too deep a state in {:.0} % of the cases",
            100.0 * share
        ),
    )
    .evidence(format!("`above`: {}", list_counts(states, |c| c.sum.above)));
    finding.costs_us_per_io = Some(lost_us / usage as f64);
    finding.computed = Some(format!(
        "the kernel's `above` times the difference of {}exit latencies, over all wake-ups; an I/O wakes a CPU once",
        if has_measured_exits(case) {
            "measured "
        } else {
            ""
        }
    ));
    finding.weight = relative(case, lost_us / usage as f64);
    let set = better_governor(case).or_else(|| limit_of_cpus(shallow_ceiling(case)?));
    Some(match set {
        Some(set) => finding.applies(case, set),
        None => finding,
    })
}

/// Whether exit latencies of the machine were measured on it.
fn has_measured_exits(case: &Case<'_>) -> bool {
    let mut states = case.model.machine.idle_state.iter();
    states.any(|state| matches!(state.true_exit_us.origin, Origin::Measured(_)))
}

/// A governor that often picks too shallow a state.
fn too_shallow(case: &mut Case<'_>, states: &[Counted], usage: u64) -> Option<Finding> {
    let below: u64 = states.iter().map(|c| c.sum.below).sum();
    let share = below as f64 / usage as f64;
    // Deeper states would have been right where they are refused, too.
    if share < WRONG_SHARE || !case.system.refused_states().is_empty() {
        return None;
    }
    let governor = case.model.name_of(Kind::Idle);
    let mut finding = Finding::new(
        "too-shallow",
        format!(
            "the idle governor {governor} picks too shallow a state in {:.0} % of the cases",
            100.0 * share
        ),
    )
    .evidence(format!("`below`: {}", list_counts(states, |c| c.sum.below)));
    let seconds = counters::uptime(case.system).filter(|s| *s > 0.0);
    if let Some(seconds) = seconds.filter(|_| case.model.machine.has_power()) {
        let power_mw = model_figures(case, states.len(), |state| state.power_mw.value);
        // The idle periods in question drew the power of the shallower state.
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
        finding.weight = relative_power(case, mw);
    }
    Some(match better_governor(case) {
        Some(set) => finding.applies(case, set),
        None => finding,
    })
}

/// A figure of the model for each counted state. States that the model lacks cost nothing.
fn model_figures(
    case: &Case<'_>,
    states: usize,
    figure: impl Fn(&MachineIdleState) -> f64,
) -> Vec<f64> {
    let known = case.model.machine.idle_state.iter().map(figure);
    known.chain(iter::repeat(0.0)).take(states).collect()
}

/// A time per I/O as a share of the simulated latency now.
fn relative(case: &Case<'_>, us: f64) -> f64 {
    let now = simulate(&case.model.machine, &case.model.now, READS);
    now.map_or(0.0, |r| us / r.mean_us.max(1e-9))
}

/// A power relative to the idle machine's.
fn relative_power(case: &Case<'_>, mw: f64) -> f64 {
    let now = simulate(&case.model.machine, &case.model.now, QUIET);
    now.ok()
        .and_then(|r| r.mean_mw)
        .map_or(0.0, |all| mw / all.max(1e-9))
}

/// Idle governors offered by this kernel.
fn offered_governors(case: &Case<'_>) -> Option<String> {
    let path = "sys/devices/system/cpu/cpuidle/available_governors";
    case.system.root().optional(path)
}

/// Simulated latency of single reads under a set, in us.
fn latency(case: &Case<'_>, set: &PolicySet) -> Option<f64> {
    let (machine, policies) = case.model.applied(set);
    Some(simulate(&machine, &policies, READS).ok()?.mean_us)
}

/// The gain from teo, if faster than the present governor and missing in this kernel.
fn teo_is_missing(case: &Case<'_>) -> Option<String> {
    let offered = offered_governors(case)?;
    if offered.split_whitespace().any(|name| name == "teo") {
        return None;
    }
    let set: PolicySet = format!("teo@{}", case.system.kernel_version())
        .parse()
        .ok()?;
    let now = latency(case, &PolicySet::default())?;
    let teo = latency(case, &set)?;
    (teo < now * (1.0 - MATTERS)).then(|| {
        format!(
            "with the idle governor teo a read would take {teo:.1} us in place of {now:.1} us (simulated). This kernel is built \
             without it (CONFIG_CPU_IDLE_GOV_TEO), as Debian's amd64 kernels are"
        )
    })
}

/// The fastest governor offered by this kernel in simulation, if different from the present one.
fn better_governor(case: &Case<'_>) -> Option<PolicySet> {
    let offered = offered_governors(case)?;
    let now = latency(case, &PolicySet::default())?;
    let running = case.model.now.get(Kind::Idle)?.mechanism().name;
    let version = case.system.kernel_version();
    let (set, best) = offered
        .split_whitespace()
        .filter(|name| *name != running)
        .filter_map(|name| {
            let set: PolicySet = format!("{name}@{version}").parse().ok()?;
            let latency = latency(case, &set)?;
            Some((set, latency))
        })
        .min_by(|a, b| a.1.total_cmp(&b.1))?;
    (best < now * (1.0 - MATTERS)).then_some(set)
}

/// States that the governor asks for and the firmware refuses.
pub(crate) fn refused(case: &Case<'_>) -> Option<Finding> {
    let refused = case.system.refused_states();
    let never = refused.iter().all(|state| state.usage == 0);
    let least = refused.iter().map(RefusedState::share).reduce(f64::min)?;
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
    let finding = finding.evidence(
        "a CPU whose attempt is refused does not sleep at all until it asks again; nobody waits for a state that is not entered",
    );
    let update = "update the firmware (PSCI, ACPI or hypervisor), which refuses them";
    match deepest_below(case, &names)
        .and_then(|ceiling| format!("idle-states[ceiling={ceiling}]").parse().ok())
    {
        Some(set) => {
            let until = format!(
                "{update}; until then, so that the governor does not ask: {}",
                case.apply(&set)
            );
            Some(Finding {
                set: Some(set),
                ..finding.fix(until)
            })
        }
        None => Some(finding.fix(update)),
    }
}

/// The deepest accepted state, if every refused state is deeper.
fn deepest_below(case: &Case<'_>, refused: &[&str]) -> Option<String> {
    let states = case.system.idle_states(*case.system.cpus().first()?);
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
pub(crate) fn unreached(case: &Case<'_>) -> Option<Finding> {
    let states = counters::idle_states(case.system);
    let usage: u64 = states.iter().map(|c| c.sum.usage).sum();
    let time: u64 = states.iter().map(|c| c.sum.time_us).sum();
    if usage < ENOUGH {
        return None;
    }
    let refused = case.system.refused_states();
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
        .evidence(format!("{} of {usage} entries", names.join(", ")))
    })
}
