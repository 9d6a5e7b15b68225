//! A table's cells and their published values.

use toml::Spanned;

use super::study::{Study, place};
use super::tables::{CellNames, How, Pair, Quantity, Table, Wanted};
use super::value::Published;
use crate::file::{
    Across, CompareEntry, Decision, PublishedEntry, RowEntry, Show, StudyError, unknown,
};
use crate::plan::cell::Cell;
use crate::plan::names::position;

const NO_CELL: &str = "the table has no cell that this row is about";

/// Label headings, and cells.
type Columns = (Vec<String>, Vec<Wanted>);

impl Study<'_> {
    /// Column in a wide table whose labels become columns.
    fn wide(
        &self,
        entry: &PublishedEntry,
        columns: &[String],
    ) -> Result<Option<usize>, StudyError> {
        let Some(wide) = entry.wide.as_ref().filter(|wide| *wide.get_ref()) else {
            return Ok(None);
        };
        let refused = |message: &str| Err(self.source.error(wide, message));
        if !entry.row.is_empty() || entry.values_of.is_some() || !entry.columns.is_empty() {
            return refused(
                "a wide table has simulated values only: no `row`, `values_of` or `columns`",
            );
        }
        match columns.iter().position(|column| column == "workload") {
            Some(column) => Ok(Some(column)),
            None => refused(
                "a wide table has a column for each workload, and this one has a single workload",
            ),
        }
    }

    /// An entry's table; its published values may come from a table in `before`.
    pub(super) fn table(
        &self,
        entry: &PublishedEntry,
        before: &[Table],
    ) -> Result<Table, StudyError> {
        let how = self.how(entry)?;
        let pairs = self.policies(entry)?;
        let names: Vec<String> = pairs.iter().map(|pair| pair.2.clone()).collect();
        self.check_names(&entry.cells, &names)?;
        let (mut columns, mut cells) = match entry.decision.as_ref().map(Spanned::get_ref) {
            Some(Decision::PollLimit) => self.poll_limits(entry)?,
            Some(Decision::ApstTable) => labelled(entry, self.apst_tables(entry)?),
            None => {
                let all = self.simulated(entry, &pairs)?;
                labelled(entry, self.across(entry, all)?)
            }
        };
        if cells.is_empty() {
            return Err(self.source.error(&entry.name, "the table has no cells"));
        }
        let (mut changes, mut notes) = (Vec::new(), Vec::new());
        // Every row makes a cell from these.
        let by_rows = entry.across == Some(Across::Extreme)
            || entry
                .decision
                .as_ref()
                .is_some_and(|d| *d.get_ref() == Decision::PollLimit);
        for (index, wanted) in cells.iter_mut().enumerate() {
            let row = if by_rows {
                entry.row.get(index).map(Spanned::get_ref)
            } else {
                self.row_of(entry, wanted)?
            };
            notes.push(row.and_then(|row| row.note.clone()).unwrap_or_default());
            changes.push(self.attach(entry, wanted, row, before)?);
        }
        for row in &entry.row {
            let selection = row.get_ref().cells();
            self.check_names(&selection, &names)?;
            if !by_rows && !cells.iter().any(|cell| cell.names.are_in(&selection)) {
                return Err(self.source.error(row, NO_CELL));
            }
        }
        let mut add = |heading: &str, labels: Vec<String>| {
            columns.push(heading.to_owned());
            for (wanted, label) in cells.iter_mut().zip(labels) {
                wanted.labels.push(label);
            }
        };
        if changes.iter().any(|text| !text.is_empty()) {
            add("measured change", changes);
        }
        if let Some(heading) = &entry.note {
            add(heading, notes);
        }
        for metric in &entry.columns {
            columns.extend(["from", "to"].map(|end| format!("{} {end}", metric.get_ref())));
        }
        Ok(Table {
            name: entry.name.get_ref().clone(),
            title: entry.title.clone(),
            line: self.source.line(&entry.name),
            wide: self.wide(entry, &columns)?,
            columns,
            cells,
            how,
        })
    }

    /// Recipe for a table's values.
    fn how(&self, entry: &PublishedEntry) -> Result<How, StudyError> {
        let (metric, divisor) = match (&entry.metric, &entry.decision) {
            (Some(metric), None) => self.metric(metric, entry.unit.as_ref())?,
            (None, Some(_)) => (Quantity::Rate, 1.0),
            _ => {
                let message = "a table has either a `metric` or a `decision`";
                return Err(self.source.error(&entry.name, message));
            }
        };
        if let Some(column) = entry.columns.first().filter(|_| entry.show == Show::Value) {
            let message = "`columns` are of both policies of a pair: they go with `compare`";
            return Err(self.source.error(column, message));
        }
        let one = |name: &Spanned<String>| Ok(self.metric(name, None)?.0);
        let beside: Result<_, StudyError> = entry.columns.iter().map(one).collect();
        Ok(How {
            metric,
            per: entry.per.as_ref().map(one).transpose()?,
            divisor,
            runs: entry.runs,
            show: entry.show,
            across: entry.across,
            beside: beside?,
        })
    }

    /// A metric by name, and the divisor for a unit.
    fn metric(
        &self,
        name: &Spanned<String>,
        unit: Option<&Spanned<String>>,
    ) -> Result<(Quantity, f64), StudyError> {
        let text = name.get_ref();
        let (quantity, of) = match self.plan.metrics.iter().find(|m| m.name == *text) {
            Some(metric) => (Quantity::Metric(text.clone()), &*metric.unit),
            None => (self.quantity(name, text)?, ""),
        };
        let Some(unit) = unit.filter(|unit| unit.get_ref() != of) else {
            return Ok((quantity, 1.0));
        };
        match (scale(of), scale(unit.get_ref())) {
            (Some((kind, from)), Some((wanted, to))) if kind == wanted => Ok((quantity, to / from)),
            _ => {
                let of = if of.is_empty() { "no unit" } else { of };
                let message = format!(
                    "`{text}` is in {of}, which cannot be shown in {}",
                    unit.get_ref()
                );
                Err(self.source.error(unit, message))
            }
        }
    }

    /// A metric by name.
    pub(super) fn quantity<T>(&self, at: &Spanned<T>, name: &str) -> Result<Quantity, StudyError> {
        match name {
            "rate" => Ok(Quantity::Rate),
            "time" => Ok(Quantity::Time),
            name if self.plan.metrics.iter().any(|m| m.name == name) => {
                Ok(Quantity::Metric(name.to_owned()))
            }
            wrong => {
                let metrics = self.plan.metrics.iter().map(|m| &*m.name);
                let known: Vec<&str> = metrics.chain(["rate", "time"]).collect();
                Err(self.source.error(at, unknown("metric", wrong, &known)))
            }
        }
    }

    /// A table's policies, their bases, and names for the pairs.
    fn policies(
        &self,
        entry: &PublishedEntry,
    ) -> Result<Vec<(usize, Option<usize>, String)>, StudyError> {
        let known: Vec<&str> = self.plan.policies.iter().map(|p| p.name.as_str()).collect();
        let pairs = !entry.compare.is_empty() || entry.over_workload.is_some();
        if pairs != (entry.show != Show::Value) {
            let message =
                "`show = \"ratio\"` and `show = \"percent\"` go with `compare` or `over_workload`";
            return Err(self.source.error(&entry.name, message));
        }
        if entry.compare.is_empty() {
            let alone = known.iter().enumerate();
            return Ok(alone
                .map(|(index, name)| (index, None, (*name).to_owned()))
                .collect());
        }
        entry
            .compare
            .iter()
            .map(|pair: &Spanned<CompareEntry>| {
                let of = pair.get_ref();
                let at = |name| position(self.source, "policy", name, &known);
                let name = of.name.clone().unwrap_or_else(|| {
                    format!("{} over {}", of.policy.get_ref(), of.over.get_ref())
                });
                Ok((at(&of.policy)?, Some(at(&of.over)?), name))
            })
            .collect()
    }

    /// Cells with simulated values, one by one.
    fn simulated(
        &self,
        entry: &PublishedEntry,
        policies: &[(usize, Option<usize>, String)],
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
            .map(|name| position(self.source, "workload", name, &workloads));
        let over_workload = over_workload.transpose()?;
        let left_out = entry.except.as_ref().map(Spanned::get_ref);
        let cells = self.plan.cells();
        let mut all = Vec::new();
        for (index, (policy, over, name)) in policies.iter().enumerate() {
            for &at in cells.iter().filter(|cell| cell.policy == *policy) {
                let names = self.names(at, name);
                if left_out.is_some_and(|w| w.has(&names.workload)) || !names.are_in(&entry.cells) {
                    continue;
                }
                let base = Cell {
                    policy: over.unwrap_or(at.policy),
                    workload: over_workload.unwrap_or(at.workload),
                    ..at
                };
                let base = (entry.show != Show::Value).then_some(base);
                if let Some(missing) = base.filter(|base| !self.runs.contains(&place(base))) {
                    let of = self.names(missing, "");
                    let message = format!(
                        "there are no runs of `{}` under `{}` to compare with",
                        of.workload, of.first
                    );
                    return Err(self.source.error(&entry.name, message));
                }
                if base != Some(at) {
                    all.push((index, Pair { at, base }, names));
                }
            }
        }
        all.sort_by_key(|(index, pair, _)| (self.order(pair.at), *index));
        Ok(all
            .into_iter()
            .map(|(_, pair, names)| (pair, names))
            .collect())
    }

    /// Cells in which workloads are put together, if the table does so.
    fn across(
        &self,
        entry: &PublishedEntry,
        all: Vec<(Pair, CellNames)>,
    ) -> Result<Vec<Wanted>, StudyError> {
        let mut cells: Vec<Wanted> = Vec::new();
        match entry.across {
            None => cells.extend(
                all.into_iter()
                    .map(|(pair, names)| Wanted::new(vec![pair], names)),
            ),
            Some(Across::GeometricMean) => {
                for (pair, mut names) in all {
                    names.workload.clear();
                    match cells.iter_mut().find(|cell| cell.names == names) {
                        Some(cell) => cell.pairs.push(pair),
                        None => cells.push(Wanted::new(vec![pair], names)),
                    }
                }
            }
            Some(Across::Extreme) => {
                for row in &entry.row {
                    let selection = row.get_ref().cells();
                    let mut of = all.iter().filter(|(_, names)| names.are_in(&selection));
                    let Some((first, names)) = of.next() else {
                        return Err(self.source.error(row, NO_CELL));
                    };
                    let pairs = std::iter::once(*first).chain(of.map(|(pair, _)| *pair));
                    let mut names = names.clone();
                    names.workload.clear();
                    cells.push(Wanted::new(pairs.collect(), names));
                }
            }
        }
        Ok(cells)
    }

    /// The row about a cell.
    fn row_of<'a>(
        &self,
        entry: &'a PublishedEntry,
        wanted: &Wanted,
    ) -> Result<Option<&'a RowEntry>, StudyError> {
        let mut rows = entry
            .row
            .iter()
            .filter(|row: &&Spanned<RowEntry>| wanted.names.are_in(&row.get_ref().cells()));
        let first = rows.next();
        match rows.next() {
            Some(second) => {
                let message = format!("a second row about {}", wanted.labels.join(" / "));
                Err(self.source.error(second, message))
            }
            None => Ok(first.map(Spanned::get_ref)),
        }
    }

    /// Puts what was published beside a cell. Returns the published change where only the range of the value is expected.
    fn attach(
        &self,
        entry: &PublishedEntry,
        wanted: &mut Wanted,
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
            (Some(value), Some(base), _) => value.number().map(|value| (value, base)),
            (None, None, Some(name)) => {
                let known: Vec<&str> = before.iter().map(|t| t.name.as_str()).collect();
                let of = position(self.source, "[[published]] before this one", name, &known)?;
                let of = |cell: Cell| {
                    before[of]
                        .cells
                        .iter()
                        .find(|c: &&Wanted| matches!(c.pairs[..], [Pair { at, .. }] if at == cell))?
                        .published
                        .number()
                };
                wanted
                    .pairs
                    .first()
                    .and_then(|pair| Some((of(pair.at)?, of(pair.base?)?)))
            }
            _ => None,
        };
        let bounds = row.and_then(RowEntry::bounds);
        wanted.fitted = row.is_some_and(|row| row.fitted);
        wanted.published = match (bounds, both, value) {
            (Some([from, to]), _, _) => Published::Between { from, to },
            (None, Some((value, base)), _) if entry.show == Show::Ratio => {
                Published::Number(value / base)
            }
            (None, None, Some(value)) => value,
            _ => Published::Nothing,
        };
        // Small differences have meaningless relative errors.
        let change = both
            .filter(|_| entry.show == Show::Percent)
            .map(|(value, base)| format!("{:+.2}", (value / base - 1.0) * 100.0));
        Ok(change.unwrap_or_default())
    }
}

/// Cells with labels: their differing names.
fn labelled(entry: &PublishedEntry, mut cells: Vec<Wanted>) -> Columns {
    let several = |name: fn(&CellNames) -> (&str, &str)| {
        let mut names: Vec<_> = cells.iter().map(|cell| name(&cell.names)).collect();
        names.sort_unstable();
        names.dedup();
        names.len()
    };
    let machines = several(|n| (&n.machine, ""));
    let policy = if entry.compare.is_empty() {
        "policy"
    } else {
        "compared"
    };
    let mut shown = [
        ("drive", several(|n| (&n.machine, &n.drive)) > machines),
        (
            "workload",
            several(|n| (&n.workload, "")) > 1 || entry.across == Some(Across::Extreme),
        ),
        ("machine", machines > 1),
        (policy, several(|n| (&n.policy, "")) > 1),
    ];
    if shown.iter().all(|(_, shown)| !shown) {
        shown[3].1 = true;
    }
    let keep = |all: [String; 4]| -> Vec<String> {
        let all = all.into_iter().zip(shown);
        all.filter(|(_, (_, shown))| *shown)
            .map(|(name, _)| name)
            .collect()
    };
    for cell in &mut cells {
        let CellNames {
            drive,
            workload,
            machine,
            policy,
            ..
        } = cell.names.clone();
        cell.labels = keep([drive, workload, machine, policy]);
    }
    (keep(shown.map(|(heading, _)| heading.to_owned())), cells)
}

impl Wanted {
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

/// A unit's quantity, and its size in the smallest unit.
fn scale(unit: &str) -> Option<(&'static str, f64)> {
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
