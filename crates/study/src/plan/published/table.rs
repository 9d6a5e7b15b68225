//! Planning a published table: its cells, and the published value for each.

use toml::Spanned;

use super::study::{PublishedStudy, indices_of_cell};
use super::tables::{CellNames, Pair, PublishedCell, Quantity, Table, ValueRecipe};
use super::value::Published;
use crate::file::{
    Across, CompareEntry, Decision, PublishedEntry, RowEntry, Show, StudyError,
    unknown_name_message,
};
use crate::plan::cell::Cell;
use crate::plan::names::find_name;

const NO_CELL: &str = "the table has no cell that this row is about";

/// A table's column headings, and its labelled cells.
type Columns = (Vec<String>, Vec<PublishedCell>);

/// A policy to show, its base, and the name for the pair.
struct PolicyPair {
    policy: usize,
    base: Option<usize>,
    name: String,
}

impl PublishedStudy<'_> {
    /// Index of the label that becomes columns, if the entry asks for a wide table.
    fn find_label_that_becomes_columns(
        &self,
        entry: &PublishedEntry,
        columns: &[String],
    ) -> Result<Option<usize>, StudyError> {
        let Some(wide) = entry.wide.as_ref().filter(|wide| *wide.get_ref()) else {
            return Ok(None);
        };
        let workload = columns.iter().position(|column| column == "workload");
        let message =
            if !entry.row.is_empty() || entry.values_of.is_some() || !entry.columns.is_empty() {
                "a wide table has simulated values only: no `row`, `values_of` or `columns`"
            } else if workload.is_none() {
                "a wide table has a column for each workload, and this one has a single workload"
            } else {
                return Ok(workload);
            };
        Err(self.source.error_at_value(wide, message))
    }

    /// Plans the table that an entry describes; its published values may come from a table in `before`.
    pub(super) fn plan_table(
        &self,
        entry: &PublishedEntry,
        before: &[Table],
    ) -> Result<Table, StudyError> {
        let recipe = self.plan_recipe(entry)?;
        let pairs = self.list_policy_pairs(entry)?;
        let names: Vec<String> = pairs.iter().map(|pair| pair.name.clone()).collect();
        self.check_cell_names(&entry.cells, &names)?;
        let (mut columns, mut cells) = match entry.decision.as_ref().map(Spanned::get_ref) {
            Some(Decision::PollLimit) => self.column_and_cells_of_polling_limits(entry)?,
            Some(Decision::ApstTable) => {
                label_cells_by_differing_names(entry, self.cells_of_apst_decisions(entry)?)
            }
            None => {
                let all = self.list_pairs_of_runs_with_names(entry, &pairs)?;
                label_cells_by_differing_names(
                    entry,
                    self.make_cells_and_combine_workloads(entry, all)?,
                )
            }
        };
        if cells.is_empty() {
            return Err(self
                .source
                .error_at_value(&entry.name, "the table has no cells"));
        }
        let (mut changes, mut notes) = (Vec::new(), Vec::new());
        for (index, cell) in cells.iter_mut().enumerate() {
            let row = if makes_cell_from_each_row(entry) {
                entry.row.get(index).map(Spanned::get_ref)
            } else {
                self.find_only_row_about_cell(entry, cell)?
            };
            notes.push(row.and_then(|row| row.note.clone()).unwrap_or_default());
            changes.push(self.set_published_value_and_format_change(entry, cell, row, before)?);
        }
        self.check_rows_have_cells(entry, &names, &cells)?;
        if changes.iter().any(|text| !text.is_empty()) {
            columns.push("measured change".to_owned());
            append_label_to_each_cell(&mut cells, changes);
        }
        if let Some(heading) = &entry.note {
            columns.push(heading.clone());
            append_label_to_each_cell(&mut cells, notes);
        }
        for metric in &entry.columns {
            columns.extend(["from", "to"].map(|end| format!("{} {end}", metric.get_ref())));
        }
        Ok(Table {
            name: entry.name.get_ref().clone(),
            title: entry.title.clone(),
            line: self.source.line_of_value(&entry.name),
            wide: self.find_label_that_becomes_columns(entry, &columns)?,
            columns,
            cells,
            recipe,
        })
    }

    /// Checks that every row of the entry is about some cell.
    fn check_rows_have_cells(
        &self,
        entry: &PublishedEntry,
        policies: &[String],
        cells: &[PublishedCell],
    ) -> Result<(), StudyError> {
        for row in &entry.row {
            let selection = row.get_ref().cell_selection();
            self.check_cell_names(&selection, policies)?;
            let is_used = makes_cell_from_each_row(entry)
                || cells
                    .iter()
                    .any(|cell| cell.names.are_selected_by(&selection));
            if !is_used {
                return Err(self.source.error_at_value(row, NO_CELL));
            }
        }
        Ok(())
    }

    /// The recipe that makes a table's values from runs.
    fn plan_recipe(&self, entry: &PublishedEntry) -> Result<ValueRecipe, StudyError> {
        let (metric, divisor) = match (&entry.metric, &entry.decision) {
            (Some(metric), None) => self.find_metric_and_divisor(metric, entry.unit.as_ref())?,
            (None, Some(_)) => (Quantity::Rate, 1.0),
            _ => {
                let message = "a table has either a `metric` or a `decision`";
                return Err(self.source.error_at_value(&entry.name, message));
            }
        };
        if let Some(column) = entry.columns.first().filter(|_| entry.show == Show::Value) {
            let message = "`columns` are of both policies of a pair: they go with `compare`";
            return Err(self.source.error_at_value(column, message));
        }
        let columns = entry.columns.iter();
        let beside: Result<_, StudyError> = columns
            .map(|name| self.find_metric_in_own_unit(name))
            .collect();
        Ok(ValueRecipe {
            metric,
            per: entry
                .per
                .as_ref()
                .map(|name| self.find_metric_in_own_unit(name))
                .transpose()?,
            divisor,
            runs: entry.runs,
            show: entry.show,
            across: entry.across,
            beside: beside?,
        })
    }

    /// Finds a metric by name, to be shown in its own unit.
    fn find_metric_in_own_unit(&self, name: &Spanned<String>) -> Result<Quantity, StudyError> {
        Ok(self.find_metric_and_divisor(name, None)?.0)
    }

    /// Finds a metric by name, with the divisor that converts it to `unit`.
    fn find_metric_and_divisor(
        &self,
        name: &Spanned<String>,
        unit: Option<&Spanned<String>>,
    ) -> Result<(Quantity, f64), StudyError> {
        let text = name.get_ref();
        let (quantity, own_unit) = match self.plan.metrics.iter().find(|m| m.name == *text) {
            Some(metric) => (Quantity::Metric(text.clone()), &*metric.unit),
            None => (self.find_quantity(name, text)?, ""),
        };
        let Some(unit) = unit.filter(|unit| unit.get_ref() != own_unit) else {
            return Ok((quantity, 1.0));
        };
        match (
            kind_and_factor_of_unit(own_unit),
            kind_and_factor_of_unit(unit.get_ref()),
        ) {
            (Some((kind, from)), Some((wanted, to))) if kind == wanted => Ok((quantity, to / from)),
            _ => {
                let own_unit = match own_unit {
                    "" => "no unit",
                    unit => unit,
                };
                let message = format!(
                    "`{text}` is in {own_unit}, which cannot be shown in {}",
                    unit.get_ref()
                );
                Err(self.source.error_at_value(unit, message))
            }
        }
    }

    /// Finds a metric, or `rate` or `time`, by name; an unknown name is an error at `at`.
    pub(super) fn find_quantity<T>(
        &self,
        at: &Spanned<T>,
        name: &str,
    ) -> Result<Quantity, StudyError> {
        match name {
            "rate" => Ok(Quantity::Rate),
            "time" => Ok(Quantity::Time),
            name if self.plan.metrics.iter().any(|m| m.name == name) => {
                Ok(Quantity::Metric(name.to_owned()))
            }
            wrong => {
                let metrics = self.plan.metrics.iter().map(|m| &*m.name);
                let known: Vec<&str> = metrics.chain(["rate", "time"]).collect();
                Err(self
                    .source
                    .error_at_value(at, unknown_name_message("metric", wrong, &known)))
            }
        }
    }

    /// The policy pairs that a table has: each policy, its base if any, and a name.
    fn list_policy_pairs(&self, entry: &PublishedEntry) -> Result<Vec<PolicyPair>, StudyError> {
        let known: Vec<&str> = self.plan.policies.iter().map(|p| p.name.as_str()).collect();
        let pairs = !entry.compare.is_empty() || entry.over_workload.is_some();
        if pairs != (entry.show != Show::Value) {
            let message =
                "`show = \"ratio\"` and `show = \"percent\"` go with `compare` or `over_workload`";
            return Err(self.source.error_at_value(&entry.name, message));
        }
        if entry.compare.is_empty() {
            let alone = known.iter().enumerate();
            return Ok(alone
                .map(|(policy, name)| PolicyPair {
                    policy,
                    base: None,
                    name: (*name).to_owned(),
                })
                .collect());
        }
        entry
            .compare
            .iter()
            .map(|pair| self.plan_policy_pair(pair.get_ref(), &known))
            .collect()
    }

    fn plan_policy_pair(
        &self,
        pair: &CompareEntry,
        known: &[&str],
    ) -> Result<PolicyPair, StudyError> {
        let both = || format!("{} over {}", pair.policy.get_ref(), pair.over.get_ref());
        Ok(PolicyPair {
            policy: find_name(self.source, "policy", &pair.policy, known)?,
            base: Some(find_name(self.source, "policy", &pair.over, known)?),
            name: pair.name.clone().unwrap_or_else(both),
        })
    }

    /// The cells with simulated values before workloads are combined, each with its names.
    fn list_pairs_of_runs_with_names(
        &self,
        entry: &PublishedEntry,
        policies: &[PolicyPair],
    ) -> Result<Vec<(Pair, CellNames)>, StudyError> {
        let workloads: Vec<&str> = self
            .plan
            .workloads
            .iter()
            .map(|w| w.name.as_str())
            .collect();
        let over_workload = entry
            .over_workload
            .as_ref()
            .map(|name| find_name(self.source, "workload", name, &workloads))
            .transpose()?;
        let left_out = entry.except.as_ref().map(Spanned::get_ref);
        let cells = self.plan.cells_of_first_repeat();
        let mut all = Vec::new();
        for (index, pair) in policies.iter().enumerate() {
            for &at in cells.iter().filter(|cell| cell.policy == pair.policy) {
                let names = self.name_cell(at, &pair.name);
                if left_out.is_some_and(|w| w.include_name_or_its_group(&names.workload))
                    || !names.are_selected_by(&entry.cells)
                {
                    continue;
                }
                let base = Cell {
                    policy: pair.base.unwrap_or(at.policy),
                    workload: over_workload.unwrap_or(at.workload),
                    ..at
                };
                let base = (entry.show != Show::Value).then_some(base);
                if let Some(missing) =
                    base.filter(|base| !self.runs.contains(&indices_of_cell(base)))
                {
                    let missing = self.name_cell(missing, "");
                    let message = format!(
                        "there are no runs of `{}` under `{}` to compare with",
                        missing.workload, missing.first
                    );
                    return Err(self.source.error_at_value(&entry.name, message));
                }
                if base != Some(at) {
                    all.push((index, Pair { at, base }, names));
                }
            }
        }
        all.sort_by_key(|(index, pair, _)| (self.sort_key_in_tables(pair.at), *index));
        Ok(all
            .into_iter()
            .map(|(_, pair, names)| (pair, names))
            .collect())
    }

    /// Makes the table's cells; combines workloads into one cell if the entry asks for it.
    fn make_cells_and_combine_workloads(
        &self,
        entry: &PublishedEntry,
        all: Vec<(Pair, CellNames)>,
    ) -> Result<Vec<PublishedCell>, StudyError> {
        let mut cells: Vec<PublishedCell> = Vec::new();
        match entry.across {
            None => cells.extend(
                all.into_iter()
                    .map(|(pair, names)| PublishedCell::new(vec![pair], names)),
            ),
            Some(Across::GeometricMean) => {
                for (pair, mut names) in all {
                    names.workload.clear();
                    match cells.iter_mut().find(|cell| cell.names == names) {
                        Some(cell) => cell.pairs.push(pair),
                        None => cells.push(PublishedCell::new(vec![pair], names)),
                    }
                }
            }
            Some(Across::Extreme) => {
                for row in &entry.row {
                    let selection = row.get_ref().cell_selection();
                    let mut chosen = all
                        .iter()
                        .filter(|(_, names)| names.are_selected_by(&selection));
                    let Some((first, names)) = chosen.next() else {
                        return Err(self.source.error_at_value(row, NO_CELL));
                    };
                    let pairs = std::iter::once(*first).chain(chosen.map(|(pair, _)| *pair));
                    let mut names = names.clone();
                    names.workload.clear();
                    cells.push(PublishedCell::new(pairs.collect(), names));
                }
            }
        }
        Ok(cells)
    }

    /// The only row about a cell; `None` without a row, an error with two.
    fn find_only_row_about_cell<'a>(
        &self,
        entry: &'a PublishedEntry,
        wanted: &PublishedCell,
    ) -> Result<Option<&'a RowEntry>, StudyError> {
        let mut rows = entry.row.iter().filter(|row| {
            wanted
                .names
                .are_selected_by(&row.get_ref().cell_selection())
        });
        let first = rows.next();
        match rows.next() {
            Some(second) => {
                let message = format!("a second row about {}", wanted.labels.join(" / "));
                Err(self.source.error_at_value(second, message))
            }
            None => Ok(first.map(Spanned::get_ref)),
        }
    }

    /// Sets the published value of a cell. Returns the published change in percent, empty if the table shows no percentages.
    fn set_published_value_and_format_change(
        &self,
        entry: &PublishedEntry,
        wanted: &mut PublishedCell,
        row: Option<&RowEntry>,
        before: &[Table],
    ) -> Result<String, StudyError> {
        let value = row
            .and_then(|row| row.value.as_ref())
            .map(|v| Published::from(v.get_ref()));
        let base = row
            .and_then(|row| row.base.as_ref())
            .map(|base| *base.get_ref());
        let both = match (&value, base, &entry.values_of) {
            (Some(value), Some(base), _) => value.number_or_median().map(|value| (value, base)),
            (None, None, Some(name)) => {
                let known: Vec<&str> = before.iter().map(|t| t.name.as_str()).collect();
                let table = find_name(self.source, "[[published]] before this one", name, &known)?;
                wanted.pairs.first().and_then(|pair| {
                    let value = published_number_of_lone_cell(&before[table], pair.at)?;
                    Some((
                        value,
                        published_number_of_lone_cell(&before[table], pair.base?)?,
                    ))
                })
            }
            _ => None,
        };
        let bounds = row.and_then(RowEntry::value_bounds);
        wanted.fitted = row.is_some_and(|row| row.fitted);
        wanted.published = match (bounds, both, value) {
            (Some([from, to]), _, _) => Published::Between { from, to },
            (None, Some((value, base)), _) if entry.show == Show::Ratio => {
                Published::Number(value / base)
            }
            (None, None, Some(value)) => value,
            _ => Published::Nothing,
        };
        // A relative error means nothing for values near zero.
        let change = both
            .filter(|_| entry.show == Show::Percent)
            .map(|(value, base)| format!("{:+.2}", (value / base - 1.0) * 100.0));
        Ok(change.unwrap_or_default())
    }
}

/// The published number for a cell that stands alone in a table.
fn published_number_of_lone_cell(table: &Table, cell: Cell) -> Option<f64> {
    let found = table
        .cells
        .iter()
        .find(|c| matches!(c.pairs[..], [Pair { at, .. }] if at == cell));
    found?.published.number_or_median()
}

/// Whether each row of the entry makes a cell, in place of cells finding their rows.
fn makes_cell_from_each_row(entry: &PublishedEntry) -> bool {
    let decision = entry.decision.as_ref().map(Spanned::get_ref);
    entry.across == Some(Across::Extreme) || decision == Some(&Decision::PollLimit)
}

/// Adds a label to each cell, in order.
fn append_label_to_each_cell(cells: &mut [PublishedCell], labels: Vec<String>) {
    for (cell, label) in cells.iter_mut().zip(labels) {
        cell.labels.push(label);
    }
}

/// The number of different names among the cells, for one kind of name.
fn count_distinct_names(cells: &[PublishedCell], name: fn(&CellNames) -> (&str, &str)) -> usize {
    let mut names: Vec<_> = cells.iter().map(|cell| name(&cell.names)).collect();
    names.sort_unstable();
    names.dedup();
    names.len()
}

/// The names among four whose headings are shown.
fn keep_names_with_shown_heading(names: [String; 4], shown: [(&str, bool); 4]) -> Vec<String> {
    let names = names.into_iter().zip(shown);
    names
        .filter(|(_, (_, shown))| *shown)
        .map(|(name, _)| name)
        .collect()
}

/// Labels cells with the names in which they differ; returns the headings and cells.
fn label_cells_by_differing_names(
    entry: &PublishedEntry,
    mut cells: Vec<PublishedCell>,
) -> Columns {
    let machines = count_distinct_names(&cells, |n| (&n.machine, ""));
    let policy = if entry.compare.is_empty() {
        "policy"
    } else {
        "compared"
    };
    let mut shown = [
        (
            "drive",
            count_distinct_names(&cells, |n| (&n.machine, &n.drive)) > machines,
        ),
        (
            "workload",
            count_distinct_names(&cells, |n| (&n.workload, "")) > 1
                || entry.across == Some(Across::Extreme),
        ),
        ("machine", machines > 1),
        (
            policy,
            count_distinct_names(&cells, |n| (&n.policy, "")) > 1,
        ),
    ];
    if shown.iter().all(|(_, shown)| !shown) {
        shown[3].1 = true;
    }
    for cell in &mut cells {
        let CellNames {
            drive,
            workload,
            machine,
            policy,
            ..
        } = cell.names.clone();
        cell.labels = keep_names_with_shown_heading([drive, workload, machine, policy], shown);
    }
    let headings = shown.map(|(heading, _)| heading.to_owned());
    (keep_names_with_shown_heading(headings, shown), cells)
}

impl PublishedCell {
    pub(super) fn new(pairs: Vec<Pair>, names: CellNames) -> Self {
        Self {
            labels: Vec::new(),
            pairs,
            decided: None,
            published: Published::Nothing,
            fitted: false,
            names,
        }
    }
}

/// The quantity that a unit measures, and the unit's size in the smallest unit.
fn kind_and_factor_of_unit(unit: &str) -> Option<(&'static str, f64)> {
    Some(match unit {
        "ns" => ("time", 1.0),
        "us" => ("time", 1e3),
        "ms" => ("time", 1e6),
        "s" => ("time", 1e9),
        "mW" => ("power", 1.0),
        "W" => ("power", 1e3),
        "uJ" => ("energy", 1.0),
        "mJ" => ("energy", 1e3),
        "J" => ("energy", 1e6),
        "kB/s" => ("bandwidth", 1.0),
        "MB/s" => ("bandwidth", 1e3),
        "GB/s" => ("bandwidth", 1e6),
        _ => return None,
    })
}
