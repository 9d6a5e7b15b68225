//! Readings of metrics from a command's output.

use std::borrow::Cow;

use regex::Regex;
use wakepath_results::Metric;

use crate::file::{MetricEntry, StudyError, StudyText};

/// How a metric is read from a command's output.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Metric to fill.
    pub metric: Metric,
    /// Where the number is in the output.
    pub from: Extract,
}

/// Where a number is in a command's output.
#[derive(Clone, Debug)]
pub enum Extract {
    /// In the first group of the expression's last match.
    Pattern(Regex),
    /// A JSON pointer.
    Json(String),
}

pub(super) fn plan_metric_reading(
    entry: &MetricEntry,
    source: StudyText<'_>,
) -> Result<Reading, StudyError> {
    let from = match (&entry.pattern, &entry.json) {
        (Some(pattern), _) => {
            let regex = Regex::new(pattern.get_ref())
                .map_err(|e| source.error_at_value(pattern, e.to_string().replace('\n', " ")))?;
            if regex.captures_len() < 2 {
                let message = "the pattern has no group: put parentheses around the number";
                return Err(source.error_at_value(pattern, message));
            }
            Extract::Pattern(regex)
        }
        (None, Some(pointer)) => {
            let text = pointer.get_ref();
            if !text.is_empty() && !text.starts_with('/') {
                let message = "a JSON pointer begins with `/`, such as /results/0/mean";
                return Err(source.error_at_value(pointer, message));
            }
            Extract::Json(text.clone())
        }
        (None, None) => {
            return Err(source.error_at_value(&entry.name, "neither pattern nor pointer"));
        }
    };
    let name = entry.name.get_ref();
    let known = Metric::find(name);
    let better = match (entry.better, known) {
        (Some(better), _) => better,
        (None, Some(known)) => known.better,
        (None, None) => {
            let message = format!(
                "`{name}` is no metric of the dictionary: say whether `better` \
                 is \"higher\" or \"lower\""
            );
            return Err(source.error_at_value(&entry.name, message));
        }
    };
    let known_text = |text: fn(&Metric) -> &str| known.map(text);
    let metric = Metric {
        name: Cow::Owned(name.clone()),
        title: given_or_known_text_or_default(
            entry.title.as_deref(),
            known_text(|m| &m.title),
            name,
        ),
        meaning: given_or_known_text_or_default(
            entry.meaning.as_deref(),
            known_text(|m| &m.meaning),
            "what the command prints",
        ),
        unit: given_or_known_text_or_default(entry.unit.as_deref(), known_text(|m| &m.unit), ""),
        better,
        mean: better.mean_kind(),
        headline: true,
    };
    Ok(Reading { metric, from })
}

/// A text about a metric: the given text, else the dictionary's, else `otherwise`.
fn given_or_known_text_or_default(
    given: Option<&str>,
    known: Option<&str>,
    otherwise: &str,
) -> Cow<'static, str> {
    let text = given.or(known).unwrap_or(otherwise);
    Cow::Owned(text.to_owned())
}

impl Reading {
    /// Reads the metric's number from a command's output.
    ///
    /// # Errors
    /// Says what the output lacks.
    pub fn read_number(&self, output: &str) -> Result<f64, String> {
        let name = &self.metric.name;
        match &self.from {
            Extract::Pattern(regex) => {
                let found = output
                    .lines()
                    .rev()
                    .find_map(|line| regex.captures(line))
                    .as_ref()
                    .and_then(|c| c.get(1));
                match found {
                    Some(group) => self.parse_finite_number(group.as_str()),
                    None => Err(format!("{name}: no line of the output matches `{regex}`")),
                }
            }
            Extract::Json(pointer) => {
                let json: serde_json::Value = serde_json::from_str(output)
                    .map_err(|e| format!("{name}: the output is no JSON: {e}"))?;
                match json.pointer(pointer) {
                    Some(serde_json::Value::Number(n)) => self.parse_finite_number(&n.to_string()),
                    Some(serde_json::Value::String(text)) => self.parse_finite_number(text),
                    Some(_) => Err(format!("{name}: at {pointer} is no number")),
                    None => Err(format!("{name}: the output has nothing at {pointer}")),
                }
            }
        }
    }

    /// Parses a finite number from a part of the output.
    fn parse_finite_number(&self, text: &str) -> Result<f64, String> {
        let name = &self.metric.name;
        match text.trim().replace(',', "").parse::<f64>() {
            Ok(n) if n.is_finite() => Ok(n),
            Ok(n) => Err(format!("{name} is {n}, which is no result")),
            Err(_) => Err(format!("{name}: `{}` is no number", text.trim())),
        }
    }
}
