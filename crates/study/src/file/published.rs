//! `[[published]]`, `[[expect]]` and `[[fitted]]`: a study as a reproducible experiment.

use serde::Deserialize;
use toml::Spanned;

use super::error::StudyError;
use super::names::Names;
use super::text::StudyText;

/// A selection of table cells: cells with any of the given names; all without names.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// Workloads.
    pub workload: Option<Spanned<Names>>,
    /// Machines.
    pub machine: Option<Spanned<Names>>,
    /// Drives.
    pub drive: Option<Spanned<Names>>,
    /// Policies, or pairs.
    pub policy: Option<Spanned<Names>>,
}

/// A published value.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "toml::Value")]
pub enum Printed {
    /// A number.
    Number(f64),
    /// Values of several runs; the median counts.
    Runs(Vec<f64>),
    /// A policy's decision, in words.
    Text(String),
}

impl TryFrom<toml::Value> for Printed {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Self, String> {
        match &value {
            toml::Value::String(text) => Ok(Self::Text(text.clone())),
            toml::Value::Array(runs) if !runs.is_empty() => {
                let runs = runs.iter().map(require_finite_number);
                Ok(Self::Runs(runs.collect::<Result<_, _>>()?))
            }
            number => require_finite_number(number).map(Self::Number),
        }
    }
}

fn require_finite_number(value: &toml::Value) -> Result<f64, String> {
    match value {
        toml::Value::Integer(number) => Ok(*number as f64),
        toml::Value::Float(number) if number.is_finite() => Ok(*number),
        other => Err(format!(
            "expected a number, a list of numbers or a text, not {other}"
        )),
    }
}

/// An entry `[[published]]`: a table with published values beside the study's own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedEntry {
    /// Name for `[[expect]]`.
    pub name: Spanned<String>,
    /// The table's heading; absent: the table is not shown.
    pub title: Option<String>,
    /// Metric of the values; `rate` means operations, or requests without operations, and `time` the inverse.
    pub metric: Option<Spanned<String>>,
    /// Metric that the values are divided by.
    pub per: Option<Spanned<String>>,
    /// Unit of the values; absent: the metric's.
    pub unit: Option<Spanned<String>>,
    /// The policy's decision that the cells show, in place of a metric.
    pub decision: Option<Spanned<Decision>>,
    /// How a value is shown beside its base.
    #[serde(default)]
    pub show: Show,
    /// Policy pairs.
    #[serde(default)]
    pub compare: Vec<Spanned<CompareEntry>>,
    /// Name of the workload that every other workload is compared with.
    pub over_workload: Option<Spanned<String>>,
    /// How several workloads are combined into one value.
    pub across: Option<Across>,
    /// How the runs of a cell are combined.
    #[serde(default)]
    pub runs: Aggregate,
    /// Name of another table, with the published values that this table compares.
    pub values_of: Option<Spanned<String>>,
    /// Cells to include.
    #[serde(default)]
    pub cells: Selection,
    /// Names of workloads that the table leaves out.
    pub except: Option<Spanned<Names>>,
    /// Metrics for both policies in a pair, shown as further columns.
    #[serde(default)]
    pub columns: Vec<Spanned<String>>,
    /// Whether each workload has a column of its own, in a table of simulated values alone.
    pub wide: Option<Spanned<bool>>,
    /// Heading for the column with the rows' notes.
    pub note: Option<String>,
    /// Published rows.
    #[serde(default)]
    pub row: Vec<Spanned<RowEntry>>,
}

/// A row in `[[published]]`: published values for the cells that the row names.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowEntry {
    /// As in [`Selection`].
    pub workload: Option<Spanned<Names>>,
    /// As in [`Selection`].
    pub machine: Option<Spanned<Names>>,
    /// As in [`Selection`].
    pub drive: Option<Spanned<Names>>,
    /// As in [`Selection`].
    pub policy: Option<Spanned<Names>>,
    /// The value.
    pub value: Option<Spanned<Printed>>,
    /// Published value for the base cell, in the table's unit.
    pub base: Option<Spanned<f64>>,
    /// Published bounds, in place of a value: between two numbers, above or below one.
    pub between: Option<Spanned<[f64; 2]>>,
    /// Lower bound.
    pub above: Option<Spanned<f64>>,
    /// Upper bound.
    pub below: Option<Spanned<f64>>,
    /// Whether a figure in a model was chosen with this value in view.
    #[serde(default)]
    pub fitted: bool,
    /// Another remark in the publication about the value.
    pub note: Option<String>,
    /// For a polling limit: target residencies of the states behind the polling state, in us.
    pub residencies_us: Option<Spanned<Vec<u64>>>,
}

/// How a table shows a value beside its base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Show {
    /// The value alone.
    #[default]
    Value,
    /// The value's ratio to the base.
    Ratio,
    /// The change from the base in percent.
    Percent,
}

/// A pair of policies to compare.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompareEntry {
    /// Name of the pair; absent: both policies' names.
    pub name: Option<String>,
    /// The policy.
    pub policy: Spanned<String>,
    /// Base policy.
    pub over: Spanned<String>,
}

/// How a table combines several workloads into one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Across {
    /// Geometric mean.
    GeometricMean,
    /// In each row, the value of the workload that is farthest in the published value's direction.
    Extreme,
}

/// How a table combines the runs of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aggregate {
    /// Median.
    #[default]
    Median,
    /// Sum.
    Sum,
}

/// A decision that a policy makes without a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// Sleep states that a drive uses, and the idle time before each.
    ApstTable,
    /// How long a CPU polls, in us, with 250 ticks a second.
    PollLimit,
}

/// An entry `[[expect]]`: a requirement on tables' cells, by exactly one key.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectEntry {
    /// In words.
    pub text: Spanned<String>,
    /// The tables.
    #[serde(rename = "of")]
    pub tables: Spanned<Names>,
    /// The cells that have to meet the requirement.
    #[serde(default)]
    pub cells: Selection,
    /// A condition that cells have to meet before they count: `mean_mhz > 449`.
    #[serde(rename = "where")]
    pub condition: Option<Spanned<String>>,
    /// A condition that the bases of cells have to meet before they count.
    pub where_base: Option<Spanned<String>>,
    /// Whether the outcome is only reported, and not counted among the expectations.
    #[serde(default)]
    pub observation: bool,
    /// Fewest cells that have to meet the requirement; absent: all.
    pub at_least: Option<Spanned<usize>>,
    /// Requires that relative errors are at most so many percent.
    pub within_percent: Option<Spanned<f64>>,
    /// Requires that texts and bounds are as published.
    pub as_published: Option<Spanned<bool>>,
    /// Requires that the values are in the published order.
    pub same_order: Option<Spanned<bool>>,
    /// Requires that changes have the published direction; changes below so many percent have none.
    pub same_direction: Option<Spanned<f64>>,
    /// Requires that changes are near the published changes.
    pub change_within: Option<Spanned<ChangeWithin>>,
    /// Requires values between two bounds.
    pub between: Option<Spanned<[f64; 2]>>,
    /// Requires values above a bound.
    pub above: Option<Spanned<f64>>,
    /// Requires values below a bound.
    pub below: Option<Spanned<f64>>,
    /// Which of the values have to be within the range: each, the lowest or the highest.
    #[serde(default)]
    pub take: Take,
    /// Requires that the highest value is less than a share of another cell's.
    pub less_than: Option<Spanned<LessThan>>,
    /// Requires that at most so many figures and cells are fitted. At least one cell has to be unfitted.
    pub fitted_at_most: Option<Spanned<FittedAtMost>>,
}

/// Largest distance between a simulated and the published change: the larger of two limits counts.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeWithin {
    /// Limit in percent, relative to the published change.
    pub percent: f64,
    /// Percentage points.
    pub points: f64,
}

/// Which values have to be within a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Take {
    /// Every value.
    #[default]
    Each,
    /// The lowest.
    Lowest,
    /// The highest.
    Highest,
}

/// A limit as a share of other cells' highest value.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LessThan {
    /// The share of the other cells' highest value: 0.5 means half.
    pub times: f64,
    /// The other cells, in the same tables.
    pub cells: Selection,
}

/// How much a study may be fitted at most.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedAtMost {
    /// Model figures.
    pub figures: Option<usize>,
    /// Most cells that were in view when figures were chosen.
    pub cells: Option<usize>,
}

/// An entry `[[fitted]]`: work in an rt-app file that was chosen with published values in view.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedEntry {
    /// Name of the workload with the rt-app file.
    pub workload: Spanned<String>,
    /// Names for the file's `run` events, beginning with the first.
    #[serde(default)]
    pub figures: Vec<String>,
    /// Name for the mean of the events, in place of single names.
    pub mean: Option<String>,
    /// What the work was fitted to, in words.
    pub to: String,
}

impl RowEntry {
    /// The cells that are selected by name.
    pub fn cell_selection(&self) -> Selection {
        Selection {
            workload: self.workload.clone(),
            machine: self.machine.clone(),
            drive: self.drive.clone(),
            policy: self.policy.clone(),
        }
    }

    /// Bounds, if any.
    pub fn value_bounds(&self) -> Option<[Option<f64>; 2]> {
        bounds_between(
            self.between.as_ref(),
            self.above.as_ref(),
            self.below.as_ref(),
        )
    }
}

/// Lower and upper bound from `between`, `above` or `below`; `None` if none is given.
fn bounds_between(
    between: Option<&Spanned<[f64; 2]>>,
    above: Option<&Spanned<f64>>,
    below: Option<&Spanned<f64>>,
) -> Option<[Option<f64>; 2]> {
    match between {
        Some(both) => Some(both.get_ref().map(Some)),
        None if above.is_some() || below.is_some() => {
            Some([above, below].map(|bound| bound.map(|b| *b.get_ref())))
        }
        None => None,
    }
}

impl ExpectEntry {
    /// The bounds that values are expected within; `None` if the requirement is no range.
    pub fn range_bounds(&self) -> Option<[Option<f64>; 2]> {
        bounds_between(
            self.between.as_ref(),
            self.above.as_ref(),
            self.below.as_ref(),
        )
    }

    pub(super) fn check(&self, source: StudyText<'_>) -> Result<(), StudyError> {
        let kinds = [
            self.within_percent.is_some(),
            self.as_published.is_some(),
            self.same_order.is_some(),
            self.same_direction.is_some(),
            self.change_within.is_some(),
            self.range_bounds().is_some(),
            self.less_than.is_some(),
            self.fitted_at_most.is_some(),
        ];
        if kinds.iter().filter(|kind| **kind).count() != 1 {
            let message = "an expectation has one of `within_percent`, `as_published`, `same_order`, \
                           `same_direction`, `change_within`, a range (`between`, `above`, `below`), \
                           `less_than` and `fitted_at_most`";
            return Err(source.error_at_value(&self.text, message));
        }
        check_bounds(
            self.between.as_ref(),
            self.above.as_ref(),
            self.below.as_ref(),
            source,
        )?;
        for number in [&self.within_percent, &self.same_direction]
            .into_iter()
            .flatten()
        {
            check_share(number, *number.get_ref(), source)?;
        }
        if let Some(within) = &self.change_within {
            check_share(within, within.get_ref().percent, source)?;
            check_share(within, within.get_ref().points, source)?;
        }
        if let Some(other) = &self.less_than {
            check_share(other, other.get_ref().times, source)?;
        }
        for flag in [&self.as_published, &self.same_order].into_iter().flatten() {
            if !flag.get_ref() {
                return Err(source.error_at_value(flag, "this is `true`, or left out"));
            }
        }
        Ok(())
    }
}

fn check_share<T>(at: &Spanned<T>, number: f64, source: StudyText<'_>) -> Result<(), StudyError> {
    if number.is_finite() && number >= 0.0 {
        return Ok(());
    }
    Err(source.error_at_value(at, format!("this is {number}, and may be 0 or more")))
}

fn check_bounds(
    between: Option<&Spanned<[f64; 2]>>,
    above: Option<&Spanned<f64>>,
    below: Option<&Spanned<f64>>,
    source: StudyText<'_>,
) -> Result<(), StudyError> {
    for bound in [above, below].into_iter().flatten() {
        if !bound.get_ref().is_finite() {
            return Err(source.error_at_value(bound, "a bound is a number"));
        }
        if let Some(between) = between {
            let message = "`between` has both bounds: leave out `above` and `below`";
            return Err(source.error_at_value(between, message));
        }
    }
    match between {
        Some(at) if !matches!(at.get_ref(), [from, to] if from <= to && from.is_finite() && to.is_finite()) => {
            Err(source.error_at_value(at, "`between` has two numbers, the lower one first"))
        }
        _ => Ok(()),
    }
}

impl RowEntry {
    pub(super) fn check(
        &self,
        at: &Spanned<Self>,
        source: StudyText<'_>,
    ) -> Result<(), StudyError> {
        check_bounds(
            self.between.as_ref(),
            self.above.as_ref(),
            self.below.as_ref(),
            source,
        )?;
        if let Some(base) = &self.base {
            let number = *base.get_ref();
            if !number.is_finite() || number == 0.0 {
                return Err(source.error_at_value(
                    base,
                    format!("`base` is {number}, and nothing can be compared with that"),
                ));
            }
            if !matches!(
                self.value.as_ref().map(Spanned::get_ref),
                Some(Printed::Number(_) | Printed::Runs(_))
            ) {
                return Err(source.error_at_value(base, "`base` goes with a `value` in numbers"));
            }
        }
        if self.value.is_some() && self.base.is_none() && self.value_bounds().is_some() {
            return Err(source.error_at_value(at, "a row has either a `value` or bounds"));
        }
        Ok(())
    }
}
