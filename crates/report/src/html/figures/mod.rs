//! The pictures: each with a title, an alternative text, the table behind it and the data that `charts.js` draws.

mod frequency;
mod gains;
mod idle;
mod latency;
mod parts;
mod timeline;
mod tradeoff;

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use super::number::short;
use super::view::{PageWorkload, View};

pub(crate) use gains::gains;

/// A picture of the page.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    /// Unique on the page; links lead to it.
    pub(crate) id: String,
    /// Which function of `charts.js` draws it.
    pub(crate) kind: &'static str,
    /// What it shows, with unit.
    pub(crate) title: String,
    /// How to read it.
    pub(crate) note: String,
    /// What it shows, for who cannot see it.
    pub(crate) alt: String,
    /// What the reader can choose.
    pub(crate) choices: Vec<Choice>,
    /// The numbers.
    pub(crate) table: Table,
    /// For `charts.js`.
    pub(crate) data: Value,
}

/// A choice of a picture.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Choice {
    /// Its key in `charts.js`.
    pub(crate) key: &'static str,
    /// Its label.
    pub(crate) label: &'static str,
    /// Its options: value and text.
    pub(crate) options: Vec<(String, String)>,
}

/// The table behind a picture.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Table {
    /// Column titles.
    pub(crate) head: Vec<String>,
    /// Rows, as long as the head.
    pub(crate) rows: Vec<Vec<String>>,
    /// How many columns say what the row is of.
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

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }
}

/// What stands at the place of a picture.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Slot {
    /// It.
    Figure(Box<Figure>),
    /// Why there is none.
    Missing {
        /// What it would show.
        title: &'static str,
        /// Why it does not.
        missing: &'static str,
    },
}

/// A part of a workload's section.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Group {
    /// Its heading.
    pub(crate) title: &'static str,
    /// End of the id that links lead to.
    pub(crate) id: &'static str,
    /// Its pictures.
    pub(crate) slots: Vec<Slot>,
}

/// What draws a figure from a workload, its title, and what to say where it cannot be drawn.
type Draw = (
    fn(&View, &PageWorkload) -> Option<Figure>,
    &'static str,
    &'static str,
);

/// The groups: title, end of the id, pictures.
const GROUPS: [(&str, &str, &[Draw]); 5] = [
    (
        "Latency",
        "latency",
        &[
            (
                latency::distribution,
                "Latency distribution",
                "These results have no latency histogram.",
            ),
            (
                latency::percentiles,
                "Percentiles",
                "These results have no latency percentiles.",
            ),
        ],
    ),
    (
        "Where a request's time goes",
        "parts",
        &[(
            parts::parts,
            "Parts of the latency",
            "These results do not say what latency is made of: only simulations and recorded requests can.",
        )],
    ),
    (
        "Power against latency",
        "power",
        &[(
            tradeoff::tradeoff,
            "Power against latency",
            "These results do not have both power and latency.",
        )],
    ),
    (
        "Idle states and frequencies",
        "cpus",
        &[
            (
                idle::residency,
                "Time in idle states",
                "These results have no idle-state residencies.",
            ),
            (
                idle::misfits,
                "Too deep, too shallow",
                "These results do not say which idle states were too deep or too shallow.",
            ),
            (
                frequency::frequencies,
                "Frequencies",
                "These results have no frequencies.",
            ),
        ],
    ),
    (
        "A few milliseconds",
        "timeline",
        &[(
            timeline::timeline,
            "Timelines",
            "These results have no timelines.",
        )],
    ),
];

/// The pictures of a workload. `prefix` begins their ids.
pub(crate) fn of_workload(view: &View, workload: &PageWorkload, prefix: &str) -> Vec<Group> {
    let slot = |(draw, title, missing): &Draw| {
        draw(view, workload).map_or(Slot::Missing { title, missing }, |mut figure| {
            figure.id = format!("{prefix}-{}", figure.kind);
            Slot::Figure(Box::new(figure))
        })
    };
    GROUPS
        .iter()
        .map(|(title, id, slots)| Group {
            title,
            id,
            slots: slots.iter().map(slot).collect(),
        })
        .collect()
}

/// Most policies that an alternative text goes through.
const SPOKEN: usize = 8;

/// An alternative text: what is drawn, then a clause per policy.
fn alt(what: &str, clauses: impl IntoIterator<Item = String>) -> String {
    let clauses: Vec<String> = clauses.into_iter().collect();
    let mut text = format!("{what} {}", clauses[..clauses.len().min(SPOKEN)].join("; "));
    if clauses.len() > SPOKEN {
        let _ = write!(text, "; and {} more", clauses.len() - SPOKEN);
    }
    text.push_str(". The table below has all numbers.");
    text
}

/// `name`, or what stands for one that is not there.
fn policy_name(view: &View, index: usize) -> &str {
    view.policies.get(index).map_or("?", |p| p.name.as_str())
}

fn us(value: f64) -> String {
    format!("{} us", short(value))
}

/// A workload's latency in the words of a title: its first letter large.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// The distinct values in the order in which they first come.
fn distinct<'a>(values: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    for value in values {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}
