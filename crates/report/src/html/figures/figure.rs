//! A picture with its choices and table, and texts that all pictures share.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};

use super::super::number::{format_four_significant_digits, round_to_five_digits_or_null};
use super::super::view::View;

/// A picture on the report's page, with the table of its numbers.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    /// Id of the picture, unique on the page: a target for links.
    pub(crate) id: String,
    /// Name of the function in `charts.js` that draws the picture.
    pub(crate) kind: &'static str,
    /// Title of the picture with its unit.
    pub(crate) title: String,
    /// Sentences below the picture that say how to read it.
    pub(crate) note: String,
    /// Alternative text for readers who do not see the picture.
    pub(crate) alt: String,
    /// Menus above the picture, such as that of the metric.
    pub(crate) choices: Vec<Choice>,
    /// The numbers behind the picture.
    pub(crate) table: Table,
    /// The picture's data for its function in `charts.js`.
    pub(crate) data: Value,
}

/// A menu above a picture that changes what the picture shows.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Choice {
    /// The menu's key for the function in `charts.js`.
    pub(crate) key: &'static str,
    /// The menu's label on the page.
    pub(crate) label: &'static str,
    /// The menu's options, the first chosen at first: value and text.
    pub(crate) options: Vec<(String, String)>,
}

/// The table behind a picture.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Table {
    /// Titles of the table's columns.
    pub(crate) head: Vec<String>,
    /// Rows of the table, as long as its head.
    pub(crate) rows: Vec<Vec<String>>,
    /// Number of leading columns that name a row instead of having its figures.
    pub(crate) keys: usize,
}

impl Table {
    pub(crate) fn with_head(
        keys: usize,
        head: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            head: head.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
            keys,
        }
    }

    pub(crate) fn add_row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

/// A picture, or a sentence in its place.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Slot {
    /// The picture.
    Figure(Box<Figure>),
    /// No picture.
    Missing {
        /// Title of the missing picture.
        title: &'static str,
        /// Reason why the picture is missing.
        missing: &'static str,
    },
}

/// A part of a workload's section.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Group {
    /// The heading of the group.
    pub(crate) title: &'static str,
    /// End of the group's id for links.
    pub(crate) id: &'static str,
    /// Pictures of the group, or sentences in their place.
    pub(crate) slots: Vec<Slot>,
}

/// Most policies that an alternative text of a picture names.
const SPOKEN: usize = 8;

/// A picture's alternative text: a description, then a clause per policy.
pub(super) fn build_alternative_text(
    description: &str,
    clauses: impl IntoIterator<Item = String>,
) -> String {
    let clauses: Vec<String> = clauses.into_iter().collect();
    let mut text = format!(
        "{description} {}",
        clauses[..clauses.len().min(SPOKEN)].join("; ")
    );
    if clauses.len() > SPOKEN {
        let _ = write!(text, "; and {} more", clauses.len() - SPOKEN);
    }
    text.push_str(". The table below has all numbers.");
    text
}

/// A policy's name; "?" without such a policy.
pub(super) fn policy_name(view: &View, index: usize) -> &str {
    view.policies.get(index).map_or("?", |p| p.name.as_str())
}

/// The first question's limits for a metric, for `charts.js`: value, side of the allowed values, and words.
pub(super) fn first_question_limits_for_chart(view: &View, metric: usize) -> Value {
    let limits = view.first_question_limits_on_metric(metric).map(|limit| {
        let about = view.metrics.get(metric);
        let (title, unit) = about.map_or(("", ""), |m| (m.title.as_str(), m.unit.as_str()));
        let bound = if limit.is_upper {
            "at most"
        } else {
            "at least"
        };
        let value = round_to_five_digits_or_null(limit.value);
        json!({
            "value": value,
            "upper": limit.is_upper,
            "text": format!("{title} {bound} {value} {unit}").trim_end(),
        })
    });
    limits.collect()
}

pub(super) fn format_microseconds(value: f64) -> String {
    format!("{} us", format_four_significant_digits(value))
}

/// A text with a capital letter at the start.
pub(super) fn capitalise(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// Distinct values in the order of first occurrence.
pub(super) fn distinct<'a>(values: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut distinct: Vec<&str> = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}
