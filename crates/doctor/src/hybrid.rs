//! Findings about hybrid processors: settings that differ between core types, and interrupts on smaller cores.

use std::collections::BTreeSet;

use wakepath_policies::PolicySet;
use wakepath_policies::mechanism::Kind as PolicyKind;
use wakepath_system::{Root, StateInfo};
use wakepath_units::cpus;

use crate::case::{Case, Priced};
use crate::finding::Finding;
use crate::model::{
    Difference, QUIET, READS, WORK, simulate_load, simulate_work_on, subtract_latency_and_power,
};

/// The CPUs with the same core type.
struct Kind {
    name: String,
    cpus: Vec<usize>,
    capacity: u32,
}

/// Lists the core types, biggest first; empty with a single type.
fn list_core_kinds_if_capacities_differ(case: &Case<'_>) -> Vec<Kind> {
    let mut online = case.system.cpus().into_iter();
    let clusters = case.model.machine.cluster.iter();
    let mut kinds: Vec<Kind> = clusters
        .map(|cluster| Kind {
            name: cluster.name.clone(),
            cpus: online.by_ref().take(cluster.cpus).collect(),
            capacity: cluster.capacity,
        })
        .collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.capacity));
    match kinds[..] {
        [ref biggest, .., ref smallest] if biggest.capacity != smallest.capacity => kinds,
        _ => Vec::new(),
    }
}

/// All findings about hybrid processors.
pub(crate) fn find_faults_of_hybrid_cores(case: &mut Case<'_>) -> Vec<Finding> {
    let kinds = list_core_kinds_if_capacities_differ(case);
    if kinds.is_empty() {
        return Vec::new();
    }
    let found = [
        find_misplaced_interrupts(case, &kinds),
        find_differing_preferences(case, &kinds),
        find_states_off_on_one_kind(case, &kinds),
    ];
    found.into_iter().flatten().collect()
}

/// Finds a drive that interrupts a smaller core for requests from big cores.
fn find_misplaced_interrupts(case: &mut Case<'_>, kinds: &[Kind]) -> Option<Finding> {
    let disk = case.system.drive_block_devices().into_iter().next()?;
    let (biggest, smaller) = kinds.split_first()?;
    let served =
        find_queues_that_interrupt_smaller_cores(case.system.root(), &disk, biggest, smaller)?;
    let online = case.system.cpus();
    let small_cpu = served.iter().map(|queue| queue.cpu).min()?;
    let small = online.iter().position(|cpu| *cpu == small_cpu)?;
    let mut now = case.model.machine.clone();
    now.io_path.completion.cpu = Some(small);
    let mut then = now.clone();
    let big_cpu = *biggest.cpus.first()?;
    then.io_path.completion.cpu = online.iter().position(|cpu| *cpu == big_cpu);
    let simulated = simulate_load(&now, &case.model.now, READS).and_then(|now| {
        let how =
            format!("simulated, {READS}: the interrupt on CPU {small_cpu} against CPU {big_cpu}");
        let then = simulate_load(&then, &case.model.now, READS)?;
        Ok(subtract_latency_and_power(&now, &then, how))
    });
    let small_cpus: Vec<u32> = smaller
        .iter()
        .flat_map(|kind| &kind.cpus)
        .map(|cpu| *cpu as u32)
        .collect();
    let mut finding = Finding::new(
        "interrupts-on-small-cores",
        format!(
            "{disk} interrupts smaller cores for what {} cores asked of it",
            biggest.name
        ),
    )
    .with_fix(format!(
        "put isolcpus=managed_irq,{} on the kernel command line: it keeps interrupts of drives on the other CPUs of a queue",
        cpus::format_cpu_list(&small_cpus)
    ));
    finding.evidence = served.into_iter().map(|queue| queue.evidence).collect();
    match case.result_or_note_without_cost("interrupts-on-small-cores", simulated) {
        Some(difference) => Some(finding.with_costs(&difference)),
        None => Some(finding),
    }
}

/// A queue of a drive that serves big cores and interrupts a small one.
struct MisplacedQueue {
    /// The CPU of a small core that the queue interrupts.
    cpu: usize,
    evidence: String,
}

/// Finds queues of a drive that serve CPUs of the biggest type and interrupt a smaller core; `None` without a list of
/// interrupts.
fn find_queues_that_interrupt_smaller_cores(
    root: &Root,
    disk: &str,
    biggest: &Kind,
    smaller: &[Kind],
) -> Option<Vec<MisplacedQueue>> {
    // A disk such as `nvme0n1` is a namespace of `nvme0`, whose queues are numbered from 1; queue 0 is for
    // administration.
    let controller = disk.rsplit_once('n').map_or(disk, |(name, _)| name);
    let table = root.read_text_if_readable("proc/interrupts")?;
    let queues = table.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let irq = words.next()?.trim_end_matches(':');
        let name = words.next_back()?;
        let number = name.strip_prefix(controller)?.strip_prefix('q')?;
        let queue = number.parse::<usize>().ok()?.checked_sub(1)?;
        let asking = read_cpu_list(root, &format!("sys/block/{disk}/mq/{queue}/cpu_list"))?;
        let interrupted = read_cpu_list(root, &format!("proc/irq/{irq}/effective_affinity_list"))?;
        let big = asking
            .iter()
            .filter(|cpu| biggest.cpus.contains(cpu))
            .count();
        let cpu = *interrupted
            .iter()
            .find(|cpu| smaller.iter().any(|kind| kind.cpus.contains(cpu)))?;
        (big > 0).then(|| MisplacedQueue {
            cpu,
            evidence: format!(
                "{name} serves {big} {} CPU(s) and interrupts CPU {cpu} (/proc/irq/{irq}/effective_affinity_list)",
                biggest.name
            ),
        })
    });
    Some(queues.collect())
}

/// Reads a list of CPUs from a file.
fn read_cpu_list(root: &Root, path: &str) -> Option<Vec<usize>> {
    let text = root.read_text_if_readable(path)?;
    // The kernel's list of a queue's CPUs has a space after each comma.
    cpus::parse_cpu_list(&text.replace(' ', ""))
}

/// Finds core types with different preferences or governors.
fn find_differing_preferences(case: &mut Case<'_>, kinds: &[Kind]) -> Option<Finding> {
    let mut evidence = Vec::new();
    let mut differ = Vec::new();
    for file in ["scaling_governor", "energy_performance_preference"] {
        let values: Vec<BTreeSet<String>> = kinds
            .iter()
            .map(|kind| read_cpufreq_values(case, kind, file))
            .collect();
        let known = values.iter().all(|values| !values.is_empty());
        if !known || values.windows(2).all(|two| two[0] == two[1]) {
            continue;
        }
        let told = kinds.iter().zip(&values).map(|(kind, values)| {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            format!("{} {}", kind.name, values.join(" and "))
        });
        let told: Vec<String> = told.collect();
        evidence.push(format!("{file}: {}", told.join(", ")));
        differ.push((file, values));
    }
    if evidence.is_empty() {
        return None;
    }
    let simulated = case.model.text_of_present_policy(PolicyKind::Frequency);
    evidence.push(format!(
        "other findings are simulated with {simulated} on all of them"
    ));
    let finding = Finding {
        evidence,
        ..Finding::new(
            "kinds-differ",
            "the kinds of cores choose their clocks by different settings: a task's speed depends on where it runs beyond what the cores differ",
        )
    };
    let Some(set) = policy_set_with_settings_of_biggest_kind(case, kinds, &differ) else {
        return Some(finding);
    };
    Some(
        match costliest_difference_among_smaller_kinds(case, kinds, &set) {
            Some(difference) => finding.fixed_by_priced_set(case, Priced { set, difference }),
            None => finding.fixed_by_set(case, set),
        },
    )
}

/// The policy set that gives all core types the biggest type's settings, with the differing files and values. `None` if
/// the biggest CPUs differ among themselves, or no set names their governor.
fn policy_set_with_settings_of_biggest_kind(
    case: &Case<'_>,
    kinds: &[Kind],
    differ: &[(&str, Vec<BTreeSet<String>>)],
) -> Option<PolicySet> {
    let mut set = None;
    for (file, values) in differ {
        let (value, 1) = (values[0].first()?, values[0].len()) else {
            return None;
        };
        if *file == "scaling_governor" {
            let named = ["performance", "powersave", "ondemand", "schedutil"];
            let first = first_cpufreq_policy_of_core_kind(case, &kinds[0])
                .filter(|_| named.contains(&&**value))?;
            let model = case
                .model
                .with_frequency_policy_of_cpufreq_policy(case.system, first)
                .ok()?;
            let frequency = model.now.policy_of_kind(PolicyKind::Frequency)?.clone();
            return PolicySet::new([frequency]).ok();
        }
        set = format!("epp[value={value}]").parse().ok();
    }
    set
}

/// Reads the values of a cpufreq file in the policies of a core type.
fn read_cpufreq_values(case: &Case<'_>, kind: &Kind, file: &str) -> BTreeSet<String> {
    let policies = case.system.active_cpufreq_policies().into_iter();
    let own = policies.filter(|first| kind.cpus.contains(first));
    own.filter_map(|first| {
        let path = format!("sys/devices/system/cpu/cpufreq/policy{first}/{file}");
        case.system.root().read_text_if_readable(&path)
    })
    .collect()
}

/// The first cpufreq policy of a core type.
fn first_cpufreq_policy_of_core_kind(case: &Case<'_>, kind: &Kind) -> Option<usize> {
    let mut policies = case.system.active_cpufreq_policies().into_iter();
    policies.find(|first| kind.cpus.contains(first))
}

/// What a smaller core type's own settings cost more than a policy set, for the type with the highest weight.
fn costliest_difference_among_smaller_kinds(
    case: &mut Case<'_>,
    kinds: &[Kind],
    set: &PolicySet,
) -> Option<Difference> {
    let of_the_biggest = first_cpufreq_policy_of_core_kind(case, &kinds[0])?;
    let of_the_biggest = case
        .model
        .with_frequency_policy_of_cpufreq_policy(case.system, of_the_biggest)
        .ok()?;
    let mut dearest: Option<Difference> = None;
    for kind in &kinds[1..] {
        let policy = first_cpufreq_policy_of_core_kind(case, kind)?;
        let own = case
            .model
            .with_frequency_policy_of_cpufreq_policy(case.system, policy)
            .ok()?;
        if own.now == of_the_biggest.now {
            continue;
        }
        let (machine, then) = own.machine_and_policies_after_applying(set);
        let all = case.system.cpus();
        let cpu = all.iter().position(|cpu| kind.cpus.first() == Some(cpu))?;
        let simulated = simulate_work_on(&own.machine, &own.now, cpu).and_then(|now| {
            let how = format!(
                "simulated, {WORK} on CPU {} ({}): {} against {set}",
                all[cpu],
                kind.name,
                own.text_of_present_policy(PolicyKind::Frequency)
            );
            let then = simulate_work_on(&machine, &then, cpu)?;
            Ok(subtract_latency_and_power(&now, &then, how))
        });
        let difference = case.result_or_note_without_cost("kinds-differ", simulated)?;
        if dearest
            .as_ref()
            .is_none_or(|d| d.weight < difference.weight)
        {
            dearest = Some(difference);
        }
    }
    dearest
}

/// Whether the user disabled a state on every CPU with the state; `None` without such a CPU.
fn is_disabled_by_user_on_every_cpu(tables: &[Vec<StateInfo>], name: &str) -> Option<bool> {
    let states = tables.iter().flatten().filter(|s| s.name == name);
    let off: Vec<bool> = states.map(|s| s.disabled && !s.off_by_default).collect();
    (!off.is_empty()).then(|| off.iter().all(|off| *off))
}

/// Finds idle states disabled on a single core type.
fn find_states_off_on_one_kind(case: &mut Case<'_>, kinds: &[Kind]) -> Option<Finding> {
    let tables: Vec<Vec<Vec<StateInfo>>> = kinds
        .iter()
        .map(|kind| {
            let tables = kind
                .cpus
                .iter()
                .map(|cpu| case.system.read_idle_states(*cpu));
            tables.collect()
        })
        .collect();
    let mut evidence = Vec::new();
    for (kind, of_kind) in kinds.iter().zip(&tables) {
        let first = of_kind.first().map(Vec::as_slice).unwrap_or_default();
        let names = first.iter().filter(|state| {
            let mut others = tables.iter().filter(|other| !std::ptr::eq(*other, of_kind));
            is_disabled_by_user_on_every_cpu(of_kind, &state.name) == Some(true)
                && others.any(|other| {
                    is_disabled_by_user_on_every_cpu(other, &state.name) == Some(false)
                })
        });
        let names: Vec<&str> = names.map(|state| &*state.name).collect();
        if !names.is_empty() {
            evidence.push(format!(
                "switched off on every {} CPU: {}",
                kind.name,
                names.join(", ")
            ));
        }
    }
    if evidence.is_empty() {
        return None;
    }
    let set = "idle-states[ceiling=none]".parse().ok()?;
    let finding = Finding {
        evidence,
        ..Finding::new(
            "states-off-on-a-kind",
            "idle states are off on one kind of core and on on another",
        )
    };
    match case.price_policy_set("states-off-on-a-kind", set, QUIET, "no state off") {
        Some(priced) => Some(finding.fixed_by_priced_set(case, priced)),
        None => Some(finding),
    }
}
