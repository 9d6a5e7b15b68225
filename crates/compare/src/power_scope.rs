//! Checks what the watts of several machines count: packages, boards and whole systems are not
//! comparable.

use std::collections::{BTreeMap, BTreeSet};

use crate::results::{Load, Source, name_beside_sources};

/// Power metrics whose scope a machine's file declares.
const SCOPED: [&str; 2] = ["mean_mw", "per_io_uj"];

/// Whether a metric counts power in the scope that the machine's file declares.
pub(crate) fn is_scoped_power_metric(metric: &str) -> bool {
    SCOPED.contains(&metric)
}

/// Scope that power counts, by policy and by [`crate::results::Load::machine`].
#[derive(Clone, Debug, Default)]
pub(crate) struct PowerCounts(BTreeMap<(String, String), PowerCount>);

#[derive(Clone, Debug)]
struct PowerCount {
    /// Scope of the power: `package`, `board` or `wall`.
    scope: String,
    /// Machine name.
    machine: String,
}

impl PowerCounts {
    /// Scopes of power under all policies, by policy name. Machines without a known scope are left
    /// out.
    pub(crate) fn from_sources(sources: &[Source]) -> Self {
        let mut all = BTreeMap::new();
        for source in sources {
            let document = &source.document;
            for machine in &document.machines {
                if machine.power_scope.is_empty() {
                    continue;
                }
                let count = PowerCount {
                    scope: machine.power_scope.clone(),
                    machine: machine.name.clone(),
                };
                for policy in &document.policies {
                    let name = name_beside_sources(sources, source, &policy.name);
                    let load = Load::new(document, &machine.name, "");
                    all.insert((name, load.machine), count.clone());
                }
            }
        }
        Self(all)
    }

    /// Sentence for the reader if power under some policies, on some machines, has several scopes.
    pub(crate) fn describe_mixed_scopes<'a>(
        &self,
        pairs: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Option<String> {
        let counts = pairs.filter_map(|(policy, machine)| {
            let count = self.0.get(&(policy.to_owned(), machine.to_owned()))?;
            Some((count.scope.as_str(), count.machine.as_str()))
        });
        list_if_several_scopes(counts)
    }
}

/// Sentence for the reader if power on some machines has several scopes.
pub fn describe_mixed_scopes_of_machines(
    sources: &[Source],
    machines: &[String],
) -> Option<String> {
    let documents = sources.iter().map(|source| &source.document);
    let known = documents
        .flat_map(|document| &document.machines)
        .filter(|machine| !machine.power_scope.is_empty() && machines.contains(&machine.name));
    list_if_several_scopes(
        known.map(|machine| (machine.power_scope.as_str(), machine.name.as_str())),
    )
}

/// Lists the scopes of power with their machines in words, if there are several scopes.
fn list_if_several_scopes<'a>(counts: impl Iterator<Item = (&'a str, &'a str)>) -> Option<String> {
    let mut by_scope: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (scope, machine) in counts {
        by_scope.entry(scope).or_default().insert(machine);
    }
    if by_scope.len() < 2 {
        return None;
    }
    let parts = by_scope.into_iter().map(|(scope, machines)| {
        let whose = Vec::from_iter(machines).join(", ");
        match scope {
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
