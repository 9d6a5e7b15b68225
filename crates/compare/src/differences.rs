//! Differences between results besides their policies: workloads and machines.

use std::fmt::Write as _;

use wakepath_results::{MachineInfo, RunOrigin};

use crate::results::Source;

/// Finds workloads with one name and different contents, and different machines, each in a
/// sentence: a gain between such results need not come from a policy. Results carry the given
/// names. Results imported from other tools are left out.
pub fn describe_differences(sources: &[(&str, &Source)]) -> Vec<String> {
    let known: Vec<(&str, &Source)> = sources
        .iter()
        .copied()
        .filter(|(_, source)| source.document.backend != RunOrigin::Import)
        .collect();
    let mut names: Vec<&str> = Vec::new();
    for workload in known.iter().flat_map(|(_, s)| &s.document.workloads) {
        if !names.contains(&workload.name.as_str()) {
            names.push(&workload.name);
        }
    }
    let mut notes = Vec::new();
    let mut shared = false;
    for name in names {
        let statements: Vec<Statement<'_>> = known
            .iter()
            .filter_map(|(result, source)| {
                let workloads = &source.document.workloads;
                let workload = workloads.iter().find(|w| w.name == name)?;
                let text = source.files.get(&workload.source);
                Some(Statement {
                    result,
                    source,
                    text: text.unwrap_or(&workload.source).clone(),
                })
            })
            .collect();
        shared |= statements.len() > 1;
        let kinds = group_by_text(&statements);
        if kinds.len() > 1 {
            let places: Vec<String> = kinds.iter().map(|kind| join_result_names(kind)).collect();
            notes.push(format!(
                "workload `{name}` is one thing in {}: what differs need not be the policies' doing",
                places.join(" and another in ")
            ));
        }
    }
    if shared {
        notes.extend(describe_machine_difference(&known));
    }
    notes
}

/// Numbers the machines: the same number for each source with the same machine. Results imported
/// from other tools count as measured on the first machine.
pub(crate) fn number_machines(sources: &[Source]) -> Vec<usize> {
    let mut known: Vec<String> = Vec::new();
    let simulated = sources
        .iter()
        .all(|source| source.document.backend == RunOrigin::Sim);
    let hosts = all_name_hosts(sources.iter());
    let mut kinds = Vec::with_capacity(sources.len());
    for source in sources {
        if source.document.backend == RunOrigin::Import {
            kinds.push(0);
            continue;
        }
        let description = describe_machines(source, simulated, hosts);
        let kind = known.iter().position(|other| *other == description);
        kinds.push(kind.unwrap_or(known.len()));
        if kind.is_none() {
            known.push(description);
        }
    }
    kinds
}

/// Whether all results name the hosts that they were measured on; older versions did not.
fn all_name_hosts<'a>(mut sources: impl Iterator<Item = &'a Source>) -> bool {
    sources.all(|source| source.document.machines.iter().all(|m| m.host.is_some()))
}

/// Describes a result's machines in words. The kernel of a measured machine may change; name, drive
/// and CPUs may not.
fn describe_machines(source: &Source, simulated: bool, hosts: bool) -> String {
    let mut text = String::new();
    for machine in &source.document.machines {
        let MachineInfo {
            name,
            drive,
            cpu_kinds,
            ..
        } = machine;
        _ = write!(text, "{name} {drive} {cpu_kinds:?}");
        if hosts {
            text.extend(machine.host.as_deref());
        }
        if simulated {
            text.extend(source.files.get(&machine.source).map(String::as_str));
        }
    }
    text
}

/// Sentence on how the machines of several results differ; `None` if they do not.
fn describe_machine_difference(sources: &[(&str, &Source)]) -> Option<String> {
    let simulated = sources
        .iter()
        .all(|(_, s)| s.document.backend == RunOrigin::Sim);
    let hosts = all_name_hosts(sources.iter().map(|(_, source)| *source));
    let statements: Vec<Statement<'_>> = sources
        .iter()
        .map(|(result, source)| Statement {
            result,
            source,
            text: describe_machines(source, simulated, hosts),
        })
        .collect();
    let kinds = group_by_text(&statements);
    if kinds.len() < 2 {
        return None;
    }
    let machines = machine_labels(&kinds, |machine| &machine.name);
    let drives = machine_labels(&kinds, |machine| &machine.drive);
    let difference = if labels_differ(&machines) {
        format!(
            "the machines differ ({})",
            join_labels_with_results(&machines, &kinds)
        )
    } else if labels_differ(&drives) {
        format!(
            "the drives differ ({})",
            join_labels_with_results(&drives, &kinds)
        )
    } else {
        let places: Vec<String> = kinds.iter().map(|kind| join_result_names(kind)).collect();
        format!(
            "machine `{}` is one thing in {}",
            machines[0],
            places.join(" and another in ")
        )
    };
    Some(format!(
        "{difference}: what differs need not be the policies' doing"
    ))
}

/// Names of the machines, or of their drives, in each kind of result.
fn machine_labels(kinds: &[Vec<&Statement<'_>>], label: fn(&MachineInfo) -> &str) -> Vec<String> {
    let sources = kinds.iter().map(|kind| kind[0].source);
    let labels = sources.map(|source| {
        let machines = source.document.machines.iter();
        machines.map(label).collect::<Vec<_>>().join(", ")
    });
    labels.collect()
}

fn labels_differ(labels: &[String]) -> bool {
    labels.iter().any(|label| *label != labels[0])
}

/// Labels of machines or drives, each followed by the results that have it.
fn join_labels_with_results(labels: &[String], kinds: &[Vec<&Statement<'_>>]) -> String {
    let pairs = labels.iter().zip(kinds);
    let places = pairs.map(|(label, kind)| format!("{label} in {}", join_result_names(kind)));
    places.collect::<Vec<_>>().join(", ")
}

/// What a result says about a workload or a machine, as text to compare.
struct Statement<'a> {
    result: &'a str,
    source: &'a Source,
    text: String,
}

/// Groups statements with the same text, in the order of their first occurrence.
fn group_by_text<'s, 'a>(statements: &'s [Statement<'a>]) -> Vec<Vec<&'s Statement<'a>>> {
    let mut groups: Vec<Vec<&Statement<'a>>> = Vec::new();
    for statement in statements {
        let group = groups
            .iter_mut()
            .find(|group| group[0].text == statement.text);
        match group {
            Some(group) => group.push(statement),
            None => groups.push(vec![statement]),
        }
    }
    groups
}

fn join_result_names(kind: &[&Statement<'_>]) -> String {
    let names: Vec<&str> = kind.iter().map(|statement| statement.result).collect();
    names.join(", ")
}
