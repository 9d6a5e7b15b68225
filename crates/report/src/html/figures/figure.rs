//! A picture with its choices and table, and texts that all pictures share.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use super::super::number::short_number;
use super::super::view::View;

/// A picture on the page.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    /// Unique on the page; a target for links.
    pub(crate) id: String,
    /// Drawing function in `charts.js`.
    pub(crate) kind: &'static str,
    /// Title with unit.
    pub(crate) title: String,
    /// Hints for the reader.
    pub(crate) note: String,
    /// Alternative text for readers who do not see the picture.
    pub(crate) alt: String,
    /// Choices for the reader.
    pub(crate) choices: Vec<Choice>,
    /// The numbers behind the picture.
    pub(crate) table: Table,
    /// Data for `charts.js`.
    pub(crate) data: Value,
}

/// A choice that changes a picture.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Choice {
    /// Key in `charts.js`.
    pub(crate) key: &'static str,
    /// Label on the page.
    pub(crate) label: &'static str,
    /// Options: value and text.
    pub(crate) options: Vec<(String, String)>,
}

/// The table behind a picture.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Table {
    /// Column titles.
    pub(crate) head: Vec<String>,
    /// Rows, as long as the head.
    pub(crate) rows: Vec<Vec<String>>,
    /// Number of leading columns that name the row.
    pub(crate) keys: usize,
}

impl Table {
    pub(crate) fn new(keys: usize, head: impl IntoIterator<Item = impl Into<String>>) -> Self {
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
    /// Heading.
    pub(crate) title: &'static str,
    /// End of the id for links.
    pub(crate) id: &'static str,
    /// Pictures.
    pub(crate) slots: Vec<Slot>,
}

/// Most policies in an alternative text.
const SPOKEN: usize = 8;

/// An alternative text: a description, then a clause per policy.
pub(super) fn alt_text(what: &str, clauses: impl IntoIterator<Item = String>) -> String {
    let clauses: Vec<String> = clauses.into_iter().collect();
    let mut text = format!("{what} {}", clauses[..clauses.len().min(SPOKEN)].join("; "));
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

pub(super) fn format_us(value: f64) -> String {
    format!("{} us", short_number(value))
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
