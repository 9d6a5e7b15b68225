//! What differs between results besides their policies.

use std::fmt::Write as _;

use wakepath_results::{MachineInfo, RunOrigin};

use crate::results::Source;

/// Workloads of one name that are not the same, and machines that are not, each in a sentence: a gain between such results
/// need not be a policy's. Results are called as given here. Of those of other tools nothing is known.
pub fn differences(sources: &[(&str, &Source)]) -> Vec<String> {
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
        let texts = known.iter().filter_map(|(of, source)| {
            let workloads = &source.document.workloads;
            let workload = workloads.iter().find(|w| w.name == name)?;
            let text = source.files.get(&workload.source);
            Some((*of, *source, text.unwrap_or(&workload.source).as_str()))
        });
        let texts: Vec<_> = texts.collect();
        shared |= texts.len() > 1;
        let kinds = kinds(&texts);
        if kinds.len() > 1 {
            let places: Vec<String> = kinds.iter().map(|kind| listed(kind)).collect();
            notes.push(format!(
                "workload `{name}` is one thing in {}: what differs need not be the policies' doing",
                places.join(" and another in ")
            ));
        }
    }
    if shared {
        notes.extend(machines(&known));
    }
    notes
}

/// Which machine each source's results are of, as a number; what other tools have measured counts as of the first.
pub(crate) fn machine_kinds(sources: &[Source]) -> Vec<usize> {
    let mut known: Vec<Option<String>> = Vec::new();
    let simulated = sources
        .iter()
        .all(|source| source.document.backend == RunOrigin::Sim);
    let hosts = tell_hosts(sources.iter());
    let of = |source: &Source| {
        let described = described(source, simulated, hosts);
        (source.document.backend != RunOrigin::Import).then_some(described)
    };
    let mut kind = |text: Option<String>| match (&text, known.iter().position(|k| *k == text)) {
        (None, _) => 0,
        (_, Some(kind)) => kind,
        (_, None) => {
            known.push(text);
            known.len() - 1
        }
    };
    sources.iter().map(|source| kind(of(source))).collect()
}

/// Whether all results tell their hosts, as those of older versions do not.
fn tell_hosts<'a>(mut sources: impl Iterator<Item = &'a Source>) -> bool {
    sources.all(|source| source.document.machines.iter().all(|m| m.host.is_some()))
}

/// What a source says of its machines. Of a measured one the kernel may have changed, and what it is remains.
fn described(source: &Source, simulated: bool, hosts: bool) -> String {
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

/// Whether the machines differ.
fn machines(sources: &[(&str, &Source)]) -> Option<String> {
    let simulated = sources
        .iter()
        .all(|(_, s)| s.document.backend == RunOrigin::Sim);
    let hosts = tell_hosts(sources.iter().map(|(_, source)| *source));
    let described = sources
        .iter()
        .map(|(of, source)| (*of, *source, described(source, simulated, hosts)));
    let described: Vec<(&str, &Source, String)> = described.collect();
    let texts: Vec<_> = described
        .iter()
        .map(|(o, s, t)| (*o, *s, t.as_str()))
        .collect();
    let kinds = kinds(&texts);
    if kinds.len() < 2 {
        return None;
    }
    let differ = |of: Label| {
        let first = of(kinds[0][0].1);
        kinds.iter().any(|kind| of(kind[0].1) != first)
    };
    let each = |of: Label| {
        let each = kinds
            .iter()
            .map(|kind| format!("{} in {}", of(kind[0].1), listed(kind)));
        each.collect::<Vec<_>>().join(", ")
    };
    let name: Label = |s| listed_of(s, |machine| &machine.name);
    let drive: Label = |s| listed_of(s, |machine| &machine.drive);
    let what = if differ(name) {
        format!("the machines differ ({})", each(name))
    } else if differ(drive) {
        format!("the drives differ ({})", each(drive))
    } else {
        let places: Vec<String> = kinds.iter().map(|kind| listed(kind)).collect();
        let machine = name(kinds[0][0].1);
        format!(
            "machine `{machine}` is one thing in {}",
            places.join(" and another in ")
        )
    };
    Some(format!(
        "{what}: what differs need not be the policies' doing"
    ))
}

/// What to call machines or drives.
type Label = fn(&Source) -> String;

fn listed_of(source: &Source, of: fn(&MachineInfo) -> &str) -> String {
    let machines = source.document.machines.iter();
    machines.map(of).collect::<Vec<_>>().join(", ")
}

/// A result, and what it says of something.
type Said<'a> = (&'a str, &'a Source, &'a str);

/// Those that say the same, in the order of the first of each.
fn kinds<'a>(said: &[Said<'a>]) -> Vec<Vec<Said<'a>>> {
    let mut kinds: Vec<Vec<Said<'a>>> = Vec::new();
    for this in said {
        match kinds.iter_mut().find(|kind| kind[0].2 == this.2) {
            Some(kind) => kind.push(*this),
            None => kinds.push(vec![*this]),
        }
    }
    kinds
}

fn listed(kind: &[Said<'_>]) -> String {
    let names: Vec<&str> = kind.iter().map(|(of, ..)| *of).collect();
    names.join(", ")
}
