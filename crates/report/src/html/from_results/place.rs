//! Where the rows of results go in the view.

use std::collections::BTreeMap;

use wakepath_compare::results::Load;
use wakepath_results::{Document, ResultReader, ResultsError, WorkloadInfo};

use super::super::view::{PagePolicy, PageWorkload, View};

/// Where a result's workloads and policies are in the view: their indices.
pub(super) struct PlacedResult<'a> {
    pub(super) reader: &'a ResultReader,
    /// Index of the workload in the view, by names of machine and workload.
    pub(super) workloads: BTreeMap<(&'a str, &'a str), usize>,
    /// Index of the policy in the view, by its name in the result.
    pub(super) policies: BTreeMap<&'a str, usize>,
    /// Lines in the pictures of the whole workload: index of the policy by workload that is a subset, and policy.
    subsets: BTreeMap<(&'a str, &'a str), usize>,
}

impl<'a> PlacedResult<'a> {
    /// Adds a result's workloads and policies to the view.
    pub(super) fn add_workloads_and_policies(
        view: &mut View,
        reader: &'a ResultReader,
        suffix: &str,
    ) -> Self {
        let document = reader.document();
        let mut workloads = BTreeMap::new();
        for (machine, workload) in document.planned_machine_workload_pairs() {
            // A subset's pictures are those of its whole.
            if name_whole_workload_and_requests_of_subset(document, workload).is_some() {
                continue;
            }
            let name = Load::new(document, &machine.name, &workload.name).to_string();
            let known = view.workloads.iter().position(|w| w.name == name);
            let index = known.unwrap_or_else(|| {
                let about = match workload.kind.as_str() {
                    "" => workload.source.clone(),
                    kind => format!("{kind}: {}", workload.source),
                };
                view.workloads.push(PageWorkload {
                    name,
                    about,
                    latency_of: "latency".into(),
                    ..PageWorkload::default()
                });
                view.workloads.len() - 1
            });
            workloads.insert((machine.name.as_str(), workload.name.as_str()), index);
        }
        let mut policies = BTreeMap::new();
        for policy in &document.policies {
            policies.insert(policy.name.as_str(), view.policies.len());
            view.policies.push(PagePolicy {
                name: format!("{}{suffix}", policy.name),
                settings: policy.settings.clone().into_iter().collect(),
                baseline: false,
                is_subset: false,
                notes: policy.notes.clone(),
            });
        }
        let mut place = Self {
            reader,
            workloads,
            policies,
            subsets: BTreeMap::new(),
        };
        place.add_policy_line_per_subset(view, suffix);
        place
    }

    /// Adds a line for each subset of a workload, with one name for the same requests of different workloads.
    fn add_policy_line_per_subset(&mut self, view: &mut View, suffix: &str) {
        let document = self.reader.document();
        let mut lines: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (machine, workload) in document.planned_machine_workload_pairs() {
            let Some((whole, requests)) =
                name_whole_workload_and_requests_of_subset(document, workload)
            else {
                continue;
            };
            let key = |name| (machine.name.as_str(), name);
            let Some(index) = self.workloads.get(&key(whole)).copied() else {
                continue;
            };
            self.workloads.insert(key(&workload.name), index);
            for policy in &document.policies {
                let line = lines.entry((&policy.name, requests)).or_insert_with(|| {
                    view.policies.push(PagePolicy {
                        name: format!("{}, {requests}{suffix}", policy.name),
                        settings: Vec::new(),
                        baseline: false,
                        is_subset: true,
                        notes: Vec::new(),
                    });
                    view.policies.len() - 1
                });
                self.subsets.insert((&workload.name, &policy.name), *line);
            }
        }
    }

    /// Indices of a row's workload and policy; `None` if the document does not name them.
    pub(super) fn find_workload_and_policy_indices(
        &self,
        [machine, workload, policy]: [&str; 3],
    ) -> Option<(usize, usize)> {
        let index = self.workloads.get(&(machine, workload))?;
        let line = self.subsets.get(&(workload, policy));
        Some((*index, *line.or_else(|| self.policies.get(policy))?))
    }
}

/// The whole of a workload that is a subset, and its requests in words; `None` for whole workloads, and where the document
/// has no such whole.
fn name_whole_workload_and_requests_of_subset<'a>(
    document: &'a Document,
    workload: &'a WorkloadInfo,
) -> Option<(&'a str, &'a str)> {
    let subset = workload.subset.as_ref()?;
    let mut wholes = document.workloads.iter().filter(|w| w.subset.is_none());
    wholes.find(|whole| whole.name == subset.workload)?;
    Some((&subset.workload, &subset.requests))
}

/// The rows of a result's table. A missing file counts as an empty table and adds a caution to the view.
pub(super) fn rows_or_caution_if_missing<R>(
    view: &mut View,
    contents: &str,
    read: Result<Vec<R>, ResultsError>,
) -> Result<Vec<R>, ResultsError> {
    match read {
        Err(ResultsError::Io { path, source }) if source.kind() == std::io::ErrorKind::NotFound => {
            view.cautions.push(format!(
                "{} is missing: there is no {contents}.",
                path.display()
            ));
            Ok(Vec::new())
        }
        other => other,
    }
}

/// A row of a table, preceded by the indices of its workload and policy in the view.
type Placed<R> = ((usize, usize), R);

/// The rows of a table whose workloads and policies the view has. A caution says how many rows are left out.
pub(super) fn rows_with_known_cells<R>(
    view: &mut View,
    place: &PlacedResult<'_>,
    (file, contents): (&str, &str),
    read: Result<Vec<R>, ResultsError>,
    names: impl Fn(&R) -> [&str; 3],
) -> Result<Vec<Placed<R>>, ResultsError> {
    let rows = rows_or_caution_if_missing(view, contents, read)?;
    let count = rows.len();
    let placed: Vec<Placed<R>> = rows
        .into_iter()
        .filter_map(|row| Some((place.find_workload_and_policy_indices(names(&row))?, row)))
        .collect();
    add_caution_if_rows_left_out(view, file, count - placed.len());
    Ok(placed)
}

/// Adds a caution of rows whose machine, workload or policy `result.json` does not name.
pub(super) fn add_caution_if_rows_left_out(view: &mut View, file: &str, count: usize) {
    if count > 0 {
        view.cautions.push(format!(
            "{count} row(s) of {file} belong to machines, workloads or policies that result.json does not name; they are left out."
        ));
    }
}
