//! `[[published]]`, `[[expect]]` and `[[fitted]]`: a study as a reproducible experiment.

use serde::Deserialize;
use toml::Spanned;

use super::error::StudyError;
use super::names::Names;
use super::text::StudyText;

/// Cells to choose: cells with any given name; all without names.
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
    /// Runs; the median counts.
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
                let runs = runs.iter().map(finite_number);
                Ok(Self::Runs(runs.collect::<Result<_, _>>()?))
            }
            number => finite_number(number).map(Self::Number),
        }
    }
}

fn finite_number(value: &toml::Value) -> Result<f64, String> {
    match value {
        toml::Value::Integer(number) => Ok(*number as f64),
        toml::Value::Float(number) if number.is_finite() => Ok(*number),
        other => Err(format!(
            "expected a number, a list of numbers or a text, not {other}"
        )),
    }
}

/// `[[published]]`: a table with published values beside the study's own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedEntry {
    /// Name for `[[expect]]`.
    pub name: Spanned<String>,
    /// Heading; absent: the table is not shown.
    pub title: Option<String>,
    /// Metric; `rate` means operations, or requests without operations, and `time` the inverse.
    pub metric: Option<Spanned<String>>,
    /// Metric to divide by.
    pub per: Option<Spanned<String>>,
    /// Unit; absent: the metric's.
    pub unit: Option<Spanned<String>>,
    /// A policy's decision, in place of a metric.
    pub decision: Option<Spanned<Decision>>,
    /// How to show a value beside its base.
    #[serde(default)]
    pub show: Show,
    /// Policy pairs.
    #[serde(default)]
    pub compare: Vec<Spanned<CompareEntry>>,
    /// Workload that every other workload is compared with.
    pub over_workload: Option<Spanned<String>>,
    /// How to combine workloads.
    pub across: Option<Across>,
    /// How to combine runs.
    #[serde(default)]
    pub runs: Aggregate,
    /// Table with the published values to compare here.
    pub values_of: Option<Spanned<String>>,
    /// Cells to include.
    #[serde(default)]
    pub cells: Selection,
    /// Workloads to leave out.
    pub except: Option<Spanned<Names>>,
    /// Metrics for both policies in a pair, as further columns.
    #[serde(default)]
    pub columns: Vec<Spanned<String>>,
    /// A column for each workload, for a table of simulated values alone.
    pub wide: Option<Spanned<bool>>,
    /// Heading for the rows' notes.
    pub note: Option<String>,
    /// Published rows.
    #[serde(default)]
    pub row: Vec<Spanned<RowEntry>>,
}

/// A row in `[[published]]`: published values for the named cells.
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
    /// Published value for the base cell, in the same unit.
    pub base: Option<Spanned<f64>>,
    /// Bounds, in place of a value.
    pub between: Option<Spanned<[f64; 2]>>,
    /// Lower bound.
    pub above: Option<Spanned<f64>>,
    /// Upper bound.
    pub below: Option<Spanned<f64>>,
    /// Whether a model's figure was chosen with this value in view.
    #[serde(default)]
    pub fitted: bool,
    /// Other remarks in the publication.
    pub note: Option<String>,
    /// Of a polling limit: target residencies behind the polling state in us.
    pub residencies_us: Option<Spanned<Vec<u64>>>,
}

/// How to show a value beside its base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Show {
    /// The value alone.
    #[default]
    Value,
    /// Ratio to the base.
    Ratio,
    /// The change in percent.
    Percent,
}

/// Two policies to compare.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompareEntry {
    /// Name; absent: both policies' names.
    pub name: Option<String>,
    /// The policy.
    pub policy: Spanned<String>,
    /// Base policy.
    pub over: Spanned<String>,
}

/// How to combine workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Across {
    /// Geometric mean.
    GeometricMean,
    /// In each row, the workload farthest in the published value's direction.
    Extreme,
}

/// How to combine runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aggregate {
    /// Median.
    #[default]
    Median,
    /// Sum.
    Sum,
}

/// A policy's decision without a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// Sleep states of the drive and the idle time before each.
    ApstTable,
    /// How long a CPU polls, in us, with 250 ticks a second.
    PollLimit,
}

/// `[[expect]]`: a requirement on tables' cells, by exactly one key.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectEntry {
    /// In words.
    pub text: Spanned<String>,
    /// The tables.
    #[serde(rename = "of")]
    pub tables: Spanned<Names>,
    /// Cells to hold to it.
    #[serde(default)]
    pub cells: Selection,
    /// Cells that keep this condition only: `mean_mhz > 449`.
    #[serde(rename = "where")]
    pub condition: Option<Spanned<String>>,
    /// Cells only whose base keeps this condition.
    pub where_base: Option<Spanned<String>>,
    /// Reported beside the expectations, and not counted.
    #[serde(default)]
    pub observation: bool,
    /// Fewest cells; absent: all.
    pub at_least: Option<Spanned<usize>>,
    /// The largest relative error.
    pub within_percent: Option<Spanned<f64>>,
    /// Texts and bounds are as published.
    pub as_published: Option<Spanned<bool>>,
    /// Values are in the published order.
    pub same_order: Option<Spanned<bool>>,
    /// Changes have the published direction; less than so many percent have none.
    pub same_direction: Option<Spanned<f64>>,
    /// How far a change may be from the published one.
    pub change_within: Option<Spanned<ChangeWithin>>,
    /// Range for the values.
    pub between: Option<Spanned<[f64; 2]>>,
    /// Lower bound for the values.
    pub above: Option<Spanned<f64>>,
    /// Upper bound for the values.
    pub below: Option<Spanned<f64>>,
    /// Values to hold to the range.
    #[serde(default)]
    pub take: Take,
    /// The highest value is less than a share of another.
    pub less_than: Option<Spanned<LessThan>>,
    /// Most fitted figures and cells. At least one cell has to be unfitted.
    pub fitted_at_most: Option<Spanned<FittedAtMost>>,
}

/// Largest distance between a change and the published change: the larger limit counts.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeWithin {
    /// Percent, relative to the published change.
    pub percent: f64,
    /// Percentage points.
    pub points: f64,
}

/// Values to hold to a range.
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

/// A share relative to other cells' highest value.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LessThan {
    /// The share: 0.5 means half.
    pub times: f64,
    /// Other cells in the same tables.
    pub cells: Selection,
}

/// How much was fitted at most.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedAtMost {
    /// Model figures.
    pub figures: Option<usize>,
    /// Cells in view when figures were chosen.
    pub cells: Option<usize>,
}

/// `[[fitted]]`: work in an rt-app file, chosen with published values in view.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedEntry {
    /// Workload with the file.
    pub workload: Spanned<String>,
    /// Names for its `run` events, beginning with the first.
    #[serde(default)]
    pub figures: Vec<String>,
    /// Name for their mean, in place of single names.
    pub mean: Option<String>,
    /// Target of the fit.
    pub to: String,
}

impl RowEntry {
    /// Cells to hold to it.
    pub fn cells(&self) -> Selection {
        Selection {
            workload: self.workload.clone(),
            machine: self.machine.clone(),
            drive: self.drive.clone(),
            policy: self.policy.clone(),
        }
    }

    /// Bounds, if any.
    pub fn bounds(&self) -> Option<[Option<f64>; 2]> {
        bounds_between(
            self.between.as_ref(),
            self.above.as_ref(),
            self.below.as_ref(),
        )
    }
}

/// Lower and upper bound, if any.
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
    /// Expected range, if the expectation is a range.
    pub fn bounds(&self) -> Option<[Option<f64>; 2]> {
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
            self.bounds().is_some(),
            self.less_than.is_some(),
            self.fitted_at_most.is_some(),
        ];
        if kinds.iter().filter(|kind| **kind).count() != 1 {
            let message = "an expectation has one of `within_percent`, `as_published`, `same_order`, \
                           `same_direction`, `change_within`, a range (`between`, `above`, `below`), \
                           `less_than` and `fitted_at_most`";
            return Err(source.error(&self.text, message));
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
                return Err(source.error(flag, "this is `true`, or left out"));
            }
        }
        Ok(())
    }
}

fn check_share<T>(at: &Spanned<T>, number: f64, source: StudyText<'_>) -> Result<(), StudyError> {
    if number.is_finite() && number >= 0.0 {
        return Ok(());
    }
    Err(source.error(at, format!("this is {number}, and may be 0 or more")))
}

fn check_bounds(
    between: Option<&Spanned<[f64; 2]>>,
    above: Option<&Spanned<f64>>,
    below: Option<&Spanned<f64>>,
    source: StudyText<'_>,
) -> Result<(), StudyError> {
    for bound in [above, below].into_iter().flatten() {
        if !bound.get_ref().is_finite() {
            return Err(source.error(bound, "a bound is a number"));
        }
        if let Some(between) = between {
            let message = "`between` has both bounds: leave out `above` and `below`";
            return Err(source.error(between, message));
        }
    }
    match between {
        Some(at) if !matches!(at.get_ref(), [from, to] if from <= to && from.is_finite() && to.is_finite()) => {
            Err(source.error(at, "`between` has two numbers, the lower one first"))
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
                return Err(source.error(
                    base,
                    format!("`base` is {number}, and nothing can be compared with that"),
                ));
            }
            if !matches!(
                self.value.as_ref().map(Spanned::get_ref),
                Some(Printed::Number(_) | Printed::Runs(_))
            ) {
                return Err(source.error(base, "`base` goes with a `value` in numbers"));
            }
        }
        if self.value.is_some() && self.base.is_none() && self.bounds().is_some() {
            return Err(source.error(at, "a row has either a `value` or bounds"));
        }
        Ok(())
    }
}
