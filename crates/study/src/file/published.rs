//! `[[published]]`, `[[expect]]` and `[[fitted]]`: what makes a study an experiment that can be reproduced.

use serde::Deserialize;
use toml::Spanned;

use super::error::StudyError;
use super::names::Names;
use super::text::StudyText;

/// Which cells of a study: those with any of the given names; all where nothing is given.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// Workloads.
    pub workload: Option<Spanned<Names>>,
    /// Machines.
    pub machine: Option<Spanned<Names>>,
    /// Drives.
    pub drive: Option<Spanned<Names>>,
    /// Policies, or comparisons of two.
    pub policy: Option<Spanned<Names>>,
}

/// What a published value says.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "toml::Value")]
pub enum Printed {
    /// A number.
    Number(f64),
    /// Runs of which the median counts.
    Runs(Vec<f64>),
    /// What a policy decides, in words.
    Text(String),
}

impl TryFrom<toml::Value> for Printed {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Self, String> {
        let number = |value: &toml::Value| match value {
            toml::Value::Integer(number) => Ok(*number as f64),
            toml::Value::Float(number) if number.is_finite() => Ok(*number),
            other => Err(format!(
                "expected a number, a list of numbers or a text, not {other}"
            )),
        };
        match &value {
            toml::Value::String(text) => Ok(Self::Text(text.clone())),
            toml::Value::Array(runs) if !runs.is_empty() => {
                let runs = runs.iter().map(number);
                Ok(Self::Runs(runs.collect::<Result<_, _>>()?))
            }
            one => number(one).map(Self::Number),
        }
    }
}

/// `[[published]]`: a table of published values, each beside what the study gives.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedEntry {
    /// What `[[expect]]` calls it.
    pub name: Spanned<String>,
    /// Its heading; absent: it is not shown.
    pub title: Option<String>,
    /// The metric; `rate` and `time` are operations, or requests where there are none, and their inverse.
    pub metric: Option<Spanned<String>>,
    /// The metric that it is divided by.
    pub per: Option<Spanned<String>>,
    /// The unit of the values; absent: the metric's.
    pub unit: Option<Spanned<String>>,
    /// What a policy decides, in place of a metric.
    pub decision: Option<Spanned<Decision>>,
    /// What is shown of a value and the one that it is compared with.
    #[serde(default)]
    pub show: Show,
    /// Pairs of policies.
    #[serde(default)]
    pub compare: Vec<Spanned<CompareEntry>>,
    /// Every workload is compared with this one.
    pub over_workload: Option<Spanned<String>>,
    /// How the values of all workloads become one.
    pub across: Option<Across>,
    /// How the values of several runs become one.
    #[serde(default)]
    pub runs: Aggregate,
    /// The table whose published values are compared in this one.
    pub values_of: Option<Spanned<String>>,
    /// Which cells it has.
    #[serde(default)]
    pub cells: Selection,
    /// Workloads that it leaves out.
    pub except: Option<Spanned<Names>>,
    /// Metrics of both policies that are compared, as further columns.
    #[serde(default)]
    pub columns: Vec<Spanned<String>>,
    /// A column for each workload, for a table of simulated values alone.
    pub wide: Option<Spanned<bool>>,
    /// The heading of the rows' notes.
    pub note: Option<String>,
    /// What was published.
    #[serde(default)]
    pub row: Vec<Spanned<RowEntry>>,
}

/// A row of `[[published]]`: what was published of the cells that it names.
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
    /// What was published of the cell that this one is compared with, in the same unit.
    pub base: Option<Spanned<f64>>,
    /// Instead of a value: its bounds.
    pub between: Option<Spanned<[f64; 2]>>,
    /// Its lower bound.
    pub above: Option<Spanned<f64>>,
    /// Its upper bound.
    pub below: Option<Spanned<f64>>,
    /// Whether a figure of a model was chosen with it in view.
    #[serde(default)]
    pub fitted: bool,
    /// What else was said.
    pub note: Option<String>,
    /// Of a polling limit: target residencies behind the polling state in us.
    pub residencies_us: Option<Spanned<Vec<u64>>>,
}

/// What is shown of a value and the one that it is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Show {
    /// The value alone.
    #[default]
    Value,
    /// Their ratio.
    Ratio,
    /// The change in percent.
    Percent,
}

/// A pair of policies.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompareEntry {
    /// What it is called; absent: by both names.
    pub name: Option<String>,
    /// The policy.
    pub policy: Spanned<String>,
    /// The one that it is compared with.
    pub over: Spanned<String>,
}

/// How the values of all workloads become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Across {
    /// Their geometric mean.
    GeometricMean,
    /// Of each row the one that is farthest in the direction of the published value.
    Extreme,
}

/// How the values of several runs become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aggregate {
    /// Their median.
    #[default]
    Median,
    /// Their sum.
    Sum,
}

/// What a policy decides without a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// Sleep states of the drive and the idle time before each.
    ApstTable,
    /// How long a CPU polls, in us, with 250 ticks a second.
    PollLimit,
}

/// `[[expect]]`: what has to hold of the cells of tables. It has one of the keys that say what.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectEntry {
    /// In words.
    pub text: Spanned<String>,
    /// The tables.
    pub of: Spanned<Names>,
    /// Which of their cells.
    #[serde(default)]
    pub cells: Selection,
    /// Only cells that keep this condition: `mean_mhz > 449`.
    #[serde(rename = "where")]
    pub condition: Option<Spanned<String>>,
    /// Only cells that are compared with one that keeps it.
    pub where_base: Option<Spanned<String>>,
    /// Reported beside the expectations, and not counted with them.
    #[serde(default)]
    pub observation: bool,
    /// How many cells it has to hold of; absent: all.
    pub at_least: Option<Spanned<usize>>,
    /// The largest relative error.
    pub within_percent: Option<Spanned<f64>>,
    /// Texts and bounds are as published.
    pub as_published: Option<Spanned<bool>>,
    /// The values come in the order of the published ones.
    pub same_order: Option<Spanned<bool>>,
    /// Changes have the published direction; less than so many percent have none.
    pub same_direction: Option<Spanned<f64>>,
    /// How far a change may be from the published one.
    pub change_within: Option<Spanned<ChangeWithin>>,
    /// The range of the values.
    pub between: Option<Spanned<[f64; 2]>>,
    /// What they are at least.
    pub above: Option<Spanned<f64>>,
    /// What they are at most.
    pub below: Option<Spanned<f64>>,
    /// Which of the values that is asked of.
    #[serde(default)]
    pub take: Take,
    /// The highest value is less than a share of another.
    pub less_than: Option<Spanned<LessThan>>,
    /// How much was fitted at most, and that a cell is left that was not.
    pub fitted_at_most: Option<Spanned<FittedAtMost>>,
}

/// How far a change may be from the published one: by the larger of both.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeWithin {
    /// Percent of the published change.
    pub percent: f64,
    /// Percentage points.
    pub points: f64,
}

/// Which values a range is asked of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Take {
    /// Each of them.
    #[default]
    Each,
    /// The lowest.
    Lowest,
    /// The highest.
    Highest,
}

/// A share of the highest value of other cells.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LessThan {
    /// The share: 0.5 is half of it.
    pub times: f64,
    /// The other cells of the same tables.
    pub cells: Selection,
}

/// How much was fitted at most.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedAtMost {
    /// Figures of the models.
    pub figures: Option<usize>,
    /// Cells with which in view they were chosen.
    pub cells: Option<usize>,
}

/// `[[fitted]]`: work of an rt-app file that was chosen with published values in view.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedEntry {
    /// The workload that runs it.
    pub workload: Spanned<String>,
    /// What its `run` events are called, from the first one on.
    #[serde(default)]
    pub figures: Vec<String>,
    /// Instead: what their mean is called.
    pub mean: Option<String>,
    /// What they were fitted to.
    pub to: String,
}

impl RowEntry {
    /// Which cells it is about.
    pub fn cells(&self) -> Selection {
        Selection {
            workload: self.workload.clone(),
            machine: self.machine.clone(),
            drive: self.drive.clone(),
            policy: self.policy.clone(),
        }
    }

    /// Its bounds, if it has any.
    pub fn bounds(&self) -> Option<[Option<f64>; 2]> {
        bounds(
            self.between.as_ref(),
            self.above.as_ref(),
            self.below.as_ref(),
        )
    }
}

/// Lower and upper bound, if there is any.
fn bounds(
    between: Option<&Spanned<[f64; 2]>>,
    above: Option<&Spanned<f64>>,
    below: Option<&Spanned<f64>>,
) -> Option<[Option<f64>; 2]> {
    let one = |bound: Option<&Spanned<f64>>| bound.map(|b| *b.get_ref());
    match between {
        Some(both) => Some(both.get_ref().map(Some)),
        None if above.is_some() || below.is_some() => Some([one(above), one(below)]),
        None => None,
    }
}

impl ExpectEntry {
    /// The range of the values, if that is what is expected.
    pub fn bounds(&self) -> Option<[Option<f64>; 2]> {
        bounds(
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
