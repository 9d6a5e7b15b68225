//! Hybrid processors: settings that differ between core types, and interrupts on smaller cores.

use std::collections::BTreeSet;

use wakepath_policies::PolicySet;
use wakepath_policies::mechanism::Kind as PolicyKind;
use wakepath_system::{Root, StateInfo};
use wakepath_units::cpus;

use crate::case::{Case, Priced};
use crate::finding::Finding;
use crate::model::{Difference, QUIET, READS, WORK, difference, simulate, simulate_work_on};

/// CPUs with the same core type.
struct Kind {
    name: String,
    cpus: Vec<usize>,
    capacity: u32,
}

/// Core types, biggest first; empty with a single type.
fn kinds(case: &Case<'_>) -> Vec<Kind> {
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
pub(crate) fn all(case: &mut Case<'_>) -> Vec<Finding> {
    let kinds = kinds(case);
    if kinds.is_empty() {
        return Vec::new();
    }
    let found = [
        interrupts(case, &kinds),
        preference(case, &kinds),
        states(case, &kinds),
    ];
    found.into_iter().flatten().collect()
}

/// Finds a drive that interrupts a smaller core for requests from big cores.
fn interrupts(case: &mut Case<'_>, kinds: &[Kind]) -> Option<Finding> {
    let disk = case.system.disks().into_iter().next()?;
    let (biggest, smaller) = kinds.split_first()?;
    let served = served_by_small_cores(case.system.root(), &disk, biggest, smaller)?;
    let online = case.system.cpus();
    let small_cpu = served.iter().map(|queue| queue.cpu).min()?;
    let small = online.iter().position(|cpu| *cpu == small_cpu)?;
    let mut now = case.model.machine.clone();
    now.io_path.completion.cpu = Some(small);
    let mut then = now.clone();
    let big_cpu = *biggest.cpus.first()?;
    then.io_path.completion.cpu = online.iter().position(|cpu| *cpu == big_cpu);
    let simulated = simulate(&now, &case.model.now, READS).and_then(|now| {
        let how =
            format!("simulated, {READS}: the interrupt on CPU {small_cpu} against CPU {big_cpu}");
        let then = simulate(&then, &case.model.now, READS)?;
        Ok(difference(&now, &then, how))
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
    .fix(format!(
        "put isolcpus=managed_irq,{} on the kernel command line: it keeps interrupts of drives on the other CPUs of a queue",
        cpus::format_cpu_list(&small_cpus)
    ));
    finding.evidence = served.into_iter().map(|queue| queue.evidence).collect();
    match case.or_note("interrupts-on-small-cores", simulated) {
        Some(difference) => Some(finding.costs(&difference)),
        None => Some(finding),
    }
}

/// A queue of a drive that serves big cores and interrupts a small one.
struct MisplacedQueue {
    /// The small core's CPU.
    cpu: usize,
    evidence: String,
}

/// Queues of a drive that serve CPUs of the biggest type and interrupt a smaller core; `None` without a list of
/// interrupts.
fn served_by_small_cores(
    root: &Root,
    disk: &str,
    biggest: &Kind,
    smaller: &[Kind],
) -> Option<Vec<MisplacedQueue>> {
    // `nvme0n1` is a namespace of `nvme0`, whose queues are numbered from 1; 0 is for administration.
    let controller = disk.rsplit_once('n').map_or(disk, |(name, _)| name);
    let table = root.optional("proc/interrupts")?;
    let queues = table.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let irq = words.next()?.trim_end_matches(':');
        let name = words.next_back()?;
        let number = name.strip_prefix(controller)?.strip_prefix('q')?;
        let queue = number.parse::<usize>().ok()?.checked_sub(1)?;
        let asking = cpu_list(root, &format!("sys/block/{disk}/mq/{queue}/cpu_list"))?;
        let interrupted = cpu_list(root, &format!("proc/irq/{irq}/effective_affinity_list"))?;
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

/// A list of CPUs in a file.
fn cpu_list(root: &Root, path: &str) -> Option<Vec<usize>> {
    let text = root.optional(path)?;
    // With a space after each comma.
    cpus::parse_cpu_list(&text.replace(' ', ""))
}

/// The kinds have other preferences or governors.
fn preference(case: &mut Case<'_>, kinds: &[Kind]) -> Option<Finding> {
    let mut evidence = Vec::new();
    let mut differ = Vec::new();
    for file in ["scaling_governor", "energy_performance_preference"] {
        let values: Vec<BTreeSet<String>> = kinds
            .iter()
            .map(|kind| cpufreq_values(case, kind, file))
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
    let simulated = case.model.name_of(PolicyKind::Frequency);
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
    let Some(set) = settings_of_the_biggest(case, kinds, &differ) else {
        return Some(finding);
    };
    Some(match dearest(case, kinds, &set) {
        Some(difference) => finding.priced(case, Priced { set, difference }),
        None => finding.applies(case, set),
    })
}

/// The set that gives all core types the biggest type's settings, with the differing files and values. `None` if the
/// biggest CPUs differ among themselves, or no set names their governor.
fn settings_of_the_biggest(
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
            let first = first_policy(case, &kinds[0]).filter(|_| named.contains(&&**value))?;
            let model = case.model.with_clocks_of(case.system, first).ok()?;
            let frequency = model.now.policy_of_kind(PolicyKind::Frequency)?.clone();
            return PolicySet::new([frequency]).ok();
        }
        set = format!("epp[value={value}]").parse().ok();
    }
    set
}

/// Values of a cpufreq file in the policies of a kind.
fn cpufreq_values(case: &Case<'_>, kind: &Kind, file: &str) -> BTreeSet<String> {
    let policies = case.system.cpufreq_policies().into_iter();
    let own = policies.filter(|first| kind.cpus.contains(first));
    own.filter_map(|first| {
        let path = format!("sys/devices/system/cpu/cpufreq/policy{first}/{file}");
        case.system.root().optional(&path)
    })
    .collect()
}

/// The first cpufreq policy of a kind.
fn first_policy(case: &Case<'_>, kind: &Kind) -> Option<usize> {
    let mut policies = case.system.cpufreq_policies().into_iter();
    policies.find(|first| kind.cpus.contains(first))
}

/// Extra cost of a smaller core type's own settings over a set, for the type with the highest weight.
fn dearest(case: &mut Case<'_>, kinds: &[Kind], set: &PolicySet) -> Option<Difference> {
    let of_the_biggest = first_policy(case, &kinds[0])?;
    let of_the_biggest = case
        .model
        .with_clocks_of(case.system, of_the_biggest)
        .ok()?;
    let mut dearest: Option<Difference> = None;
    for kind in &kinds[1..] {
        let policy = first_policy(case, kind)?;
        let own = case.model.with_clocks_of(case.system, policy).ok()?;
        if own.now == of_the_biggest.now {
            continue;
        }
        let (machine, then) = own.applied(set);
        let all = case.system.cpus();
        let cpu = all.iter().position(|cpu| kind.cpus.first() == Some(cpu))?;
        let simulated = simulate_work_on(&own.machine, &own.now, cpu).and_then(|now| {
            let how = format!(
                "simulated, {WORK} on CPU {} ({}): {} against {set}",
                all[cpu],
                kind.name,
                own.name_of(PolicyKind::Frequency)
            );
            let then = simulate_work_on(&machine, &then, cpu)?;
            Ok(difference(&now, &then, how))
        });
        let difference = case.or_note("kinds-differ", simulated)?;
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
fn is_off(tables: &[Vec<StateInfo>], name: &str) -> Option<bool> {
    let states = tables.iter().flatten().filter(|s| s.name == name);
    let off: Vec<bool> = states.map(|s| s.disabled && !s.off_by_default).collect();
    (!off.is_empty()).then(|| off.iter().all(|off| *off))
}

/// Finds idle states disabled on a single core type.
fn states(case: &mut Case<'_>, kinds: &[Kind]) -> Option<Finding> {
    let tables: Vec<Vec<Vec<StateInfo>>> = kinds
        .iter()
        .map(|kind| {
            let tables = kind.cpus.iter().map(|cpu| case.system.idle_states(*cpu));
            tables.collect()
        })
        .collect();
    let mut evidence = Vec::new();
    for (kind, of_kind) in kinds.iter().zip(&tables) {
        let first = of_kind.first().map(Vec::as_slice).unwrap_or_default();
        let names = first.iter().filter(|state| {
            let mut others = tables.iter().filter(|other| !std::ptr::eq(*other, of_kind));
            is_off(of_kind, &state.name) == Some(true)
                && others.any(|other| is_off(other, &state.name) == Some(false))
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
    match case.price("states-off-on-a-kind", set, QUIET, "no state off") {
        Some(priced) => Some(finding.priced(case, priced)),
        None => Some(finding),
    }
}
