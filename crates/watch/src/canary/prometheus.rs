//! Prometheus' answer to `query_range`: <https://prometheus.io/docs/prometheus/latest/querying/api/>.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{Deserializer, Visitor};
use wakepath_units::printable::escape_for_one_line;

use super::CanaryError;
use super::counters::CounterKey;
use super::metric::MetricKind;
use super::samples::{
    SampleKey, SampleStore, content_error, refuse_percentile_series, seconds_to_ms,
};

#[derive(Deserialize)]
struct QueryAnswer<'a> {
    status: Cow<'a, str>,
    #[serde(default)]
    error: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    data: Option<QueryData<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueryData<'a> {
    result_type: Cow<'a, str>,
    result: Vec<QuerySeries>,
}

#[derive(Deserialize)]
struct QuerySeries {
    #[serde(default)]
    metric: BTreeMap<String, String>,
    #[serde(default)]
    values: Vec<(f64, SampleValue)>,
}

/// A sample, written as text by Prometheus; NaN for other text than a number.
#[derive(Clone, Copy)]
struct SampleValue(f64);

impl<'de> Deserialize<'de> for SampleValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(SampleVisitor)
    }
}

struct SampleVisitor;

impl Visitor<'_> for SampleVisitor {
    type Value = SampleValue;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a sample's value as text")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<SampleValue, E> {
        Ok(SampleValue(parse_sample(text).unwrap_or(f64::NAN)))
    }
}

/// Adds the series of a file.
pub(super) fn add_query_range(
    collector: &mut SampleStore,
    path: &Path,
    text: &str,
) -> Result<(), CanaryError> {
    let answer: QueryAnswer<'_> = serde_json::from_str(text).map_err(|error| {
        content_error(
            path,
            format!("no answer of Prometheus to query_range: {error}"),
        )
    })?;
    if answer.status != "success" {
        let why = answer.error.unwrap_or(answer.status);
        return Err(content_error(
            path,
            format!("Prometheus has answered: {}", escape_for_one_line(&why)),
        ));
    }
    let Some(data) = answer.data else {
        return Err(content_error(path, "has no `data`"));
    };
    if data.result_type != "matrix" {
        return Err(content_error(
            path,
            format!(
                "has a {}, and series are needed: ask query_range, not query",
                escape_for_one_line(&data.result_type)
            ),
        ));
    }
    for series in data.result {
        add_series(collector, path, series)?;
    }
    Ok(())
}

fn add_series(
    collector: &mut SampleStore,
    path: &Path,
    series: QuerySeries,
) -> Result<(), CanaryError> {
    let mut labels = series.metric;
    let name = labels.remove("__name__");
    let Some(machine) = labels.remove(collector.machine_label()) else {
        let known: Vec<&str> = labels.keys().map(String::as_str).collect();
        return Err(content_error(
            path,
            format!(
                "a series has no label `{}` that names its machine; its labels: {}; give --label",
                collector.machine_label(),
                escape_for_one_line(&known.join(", "))
            ),
        ));
    };
    if labels.contains_key("quantile") {
        return Err(content_error(
            path,
            refuse_percentile_series(collector.metric().name()),
        ));
    }
    let Some(bound) = labels.remove("le") else {
        return add_gauge(collector, path, &machine, &labels, &series.values);
    };
    let high_ns = parse_sample(&bound).and_then(|bound| collector.unit().bound_to_ns(bound));
    let Some(high_ns) = high_ns else {
        return Err(content_error(
            path,
            format!(
                "le=\"{}\" is no bound of a bucket",
                escape_for_one_line(&bound)
            ),
        ));
    };
    // Functions such as rate() and increase() drop the name.
    let is_rate = name.is_none();
    if is_rate {
        collector.add_note(
            "buckets without a metric's name are taken as increases or rates, as rate() and increase() give them"
                .to_owned(),
        );
    }
    let key = CounterKey {
        machine,
        labels: join_labels(&labels),
        high_ns,
    };
    for (seconds, value) in &series.values {
        let time_ms = time_of_sample(path, *seconds)?;
        collector.add_counter_sample(&key, is_rate, time_ms, value.0);
    }
    Ok(())
}

fn add_gauge(
    collector: &mut SampleStore,
    path: &Path,
    machine: &str,
    labels: &BTreeMap<String, String>,
    values: &[(f64, SampleValue)],
) -> Result<(), CanaryError> {
    if matches!(collector.metric().kind(), MetricKind::Percentile(_)) {
        return Err(content_error(
            path,
            refuse_percentile_series(collector.metric().name()),
        ));
    }
    let joined = join_labels(labels);
    for (seconds, value) in values {
        let key = SampleKey {
            machine: machine.to_owned(),
            time_ms: time_of_sample(path, *seconds)?,
            labels: joined.clone(),
        };
        collector.add_gauge_sample(key, value.0);
    }
    Ok(())
}

fn time_of_sample(path: &Path, seconds: f64) -> Result<i64, CanaryError> {
    seconds_to_ms(seconds)
        .ok_or_else(|| content_error(path, format!("{seconds} is no time in seconds since 1970")))
}

/// Parses a number as Prometheus prints it, with `+Inf` and `NaN`.
fn parse_sample(text: &str) -> Option<f64> {
    match text {
        "+Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        number => number.parse().ok(),
    }
}

/// Labels as one text, to tell a machine's series apart.
fn join_labels(labels: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = labels
        .iter()
        .map(|(label, value)| format!("{label}={value:?}"))
        .collect();
    pairs.join(",")
}
