//! What watts of several machines count: those of packages, of boards and of whole systems are not comparable.

use std::collections::BTreeMap;

use crate::results::Source;

/// Metrics of the power that a machine's file gives a scope.
const SCOPED: [&str; 2] = ["mean_mw", "per_io_uj"];

/// Whether values of a metric count what the machine's scope says.
pub(crate) fn has_scope(metric: &str) -> bool {
    SCOPED.contains(&metric)
}

/// What a reader is to know if power of these machines counts several things; none if it counts one.
pub fn mixed_scopes(sources: &[Source], machines: &[String]) -> Option<String> {
    let mut by_scope: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let documents = sources.iter().map(|source| &source.document);
    for machine in documents.flat_map(|document| &document.machines) {
        if machine.power_scope.is_empty() || !machines.contains(&machine.name) {
            continue;
        }
        let names = by_scope.entry(&machine.power_scope).or_default();
        if !names.contains(&machine.name.as_str()) {
            names.push(&machine.name);
        }
    }
    if by_scope.len() < 2 {
        return None;
    }
    let parts = by_scope.iter().map(|(scope, names)| {
        let whose = names.join(", ");
        match *scope {
            "wall" => format!("at the wall on {whose}"),
            scope => format!("of the {scope} on {whose}"),
        }
    });
    let parts: Vec<String> = parts.collect();
    Some(format!(
        "power and energy count different things ({}): compare policies on one machine, not the watts of these machines; \
         there is no mean over them",
        parts.join("; ")
    ))
}
