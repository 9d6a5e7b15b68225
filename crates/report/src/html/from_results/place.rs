//! Where the rows of results go in the view.

use std::collections::BTreeMap;

use wakepath_compare::results::Load;
use wakepath_results::{ResultReader, ResultsError};

use super::super::view::{PagePolicy, PageWorkload, View};

/// The place of a result's workloads and policies in the view.
pub(super) struct Place<'a> {
    pub(super) reader: &'a ResultReader,
    /// Index in the view by machine and workload.
    pub(super) workloads: BTreeMap<(&'a str, &'a str), usize>,
    /// Index in the view by policy.
    pub(super) policies: BTreeMap<&'a str, usize>,
}

impl<'a> Place<'a> {
    /// Adds a result's workloads and policies to the view.
    pub(super) fn add_result(view: &mut View, reader: &'a ResultReader, suffix: &str) -> Self {
        let document = reader.document();
        let mut workloads = BTreeMap::new();
        for (machine, workload) in document.loads() {
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
            });
        }
        Self {
            reader,
            workloads,
            policies,
        }
    }

    /// Indices of a row's workload and policy; `None` if the document does not name them.
    pub(super) fn find_cell(
        &self,
        [machine, workload, policy]: [&str; 3],
    ) -> Option<(usize, usize)> {
        let workload = self.workloads.get(&(machine, workload))?;
        Some((*workload, *self.policies.get(policy)?))
    }
}

/// A table's rows. A missing table counts as empty, and the report says so.
pub(super) fn read_rows<R>(
    view: &mut View,
    what: &str,
    read: Result<Vec<R>, ResultsError>,
) -> Result<Vec<R>, ResultsError> {
    match read {
        Err(ResultsError::Io { path, source }) if source.kind() == std::io::ErrorKind::NotFound => {
            view.cautions.push(format!(
                "{} is missing: there is no {what}.",
                path.display()
            ));
            Ok(Vec::new())
        }
        other => other,
    }
}

/// A row, preceded by the indices of workload and policy in the view.
type Placed<R> = ((usize, usize), R);

/// A table's rows for workloads and policies in the view. The report says how many rows are left out.
pub(super) fn read_placed_rows<R>(
    view: &mut View,
    place: &Place<'_>,
    (file, what): (&str, &str),
    read: Result<Vec<R>, ResultsError>,
    names: impl Fn(&R) -> [&str; 3],
) -> Result<Vec<Placed<R>>, ResultsError> {
    let rows = read_rows(view, what, read)?;
    let count = rows.len();
    let placed: Vec<Placed<R>> = rows
        .into_iter()
        .filter_map(|row| Some((place.find_cell(names(&row))?, row)))
        .collect();
    warn_of_unplaced(view, file, count - placed.len());
    Ok(placed)
}

/// Says how many rows the document does not name.
pub(super) fn warn_of_unplaced(view: &mut View, what: &str, count: usize) {
    if count > 0 {
        view.cautions.push(format!(
            "{count} row(s) of {what} belong to machines, workloads or policies that result.json does not name; they are left out."
        ));
    }
}
