//! Finds the baseline that each policy is compared with.

use super::error::CompareError;
use super::source::{Source, name_beside_sources};
use crate::differences::number_machines;

/// Finds each policy's baseline, as an index in `policies`: the names of all sources' policies. A
/// baseline has its own index.
pub(super) fn find_baselines(
    sources: &[Source],
    wanted: Option<&str>,
    policies: &[String],
) -> Result<Vec<usize>, CompareError> {
    if let Some(index) = wanted.and_then(|name| policy_index(policies, name)) {
        return Ok(vec![index; policies.len()]);
    }
    let machines = number_machines(sources);
    let mut by_policy: Vec<Option<usize>> = vec![None; policies.len()];
    let mut first = None;
    for (number, machine) in machines.iter().enumerate() {
        if machines[..number].contains(machine) {
            continue;
        }
        let on_machine: Vec<&Source> = sources
            .iter()
            .zip(&machines)
            .filter_map(|(source, other)| (other == machine).then_some(source))
            .collect();
        let found = match wanted {
            // A baseline's name without a source means a policy of this name on each machine.
            Some(name) => on_machine
                .iter()
                .filter(|source| source.document.policies.iter().any(|p| p.name == name))
                .find_map(|source| policy_index_of_source(policies, sources, source, name)),
            None => policy_index_of_source(
                policies,
                sources,
                &sources[number],
                &sources[number].document.baseline,
            ),
        };
        let machine_policies: Vec<usize> = on_machine
            .iter()
            .flat_map(|source| {
                source
                    .document
                    .policies
                    .iter()
                    .map(move |p| (source, &p.name))
            })
            .filter_map(|(source, name)| policy_index_of_source(policies, sources, source, name))
            .collect();
        // A machine without another policy is compared with the first machine.
        let alone = found.is_none_or(|found| machine_policies.iter().all(|p| *p == found));
        let name = wanted.unwrap_or(&sources[number].document.baseline);
        let baseline = if alone { first.or(found) } else { found }
            .ok_or_else(|| unknown_policy_error(name, policies))?;
        first = first.or(Some(baseline));
        for policy in machine_policies {
            by_policy[policy] = Some(baseline);
        }
    }
    // Policies that only rows name, and no document, get the first baseline.
    let default = first.unwrap_or(0);
    let baselines = by_policy.into_iter().map(|own| own.unwrap_or(default));
    Ok(baselines.collect())
}

/// Index of a source's policy among the names of all sources' policies.
fn policy_index_of_source(
    policies: &[String],
    sources: &[Source],
    source: &Source,
    name: &str,
) -> Option<usize> {
    policy_index(policies, &name_beside_sources(sources, source, name))
}

fn policy_index(policies: &[String], name: &str) -> Option<usize> {
    policies.iter().position(|policy| policy == name)
}

fn unknown_policy_error(name: &str, policies: &[String]) -> CompareError {
    CompareError::Unknown {
        what: "policy",
        name: name.to_owned(),
        known: policies.join(", "),
    }
}
