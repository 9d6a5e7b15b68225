//! CSV with times: samples, request counts, or a list of results.
//!
//! The header names the columns. `time` and `machine` are always there. Then comes one of: a column with the metric's
//! name or `value`; `low_us`, `high_us` and `count`; or `file`, which names fio's JSON or a result directory beside the
//! table.

use std::path::{Component, Path, PathBuf};

use wakepath_results::import::open_results;
use wakepath_results::{RunRecord, WorkloadInfo};
use wakepath_units::causes::with_causes;
use wakepath_units::printable::escape_for_one_line;

use super::CanaryError;
use super::metric::{MetricKind, parse_percentile_name};
use super::samples::{
    BucketUnit, SampleKey, SampleStore, content_error, parse_time_to_ms, refuse_percentile_series,
};

/// Most characters of a header in a message.
const MOST_QUOTED: usize = 200;

/// What the columns behind time and machine hold.
enum ValueColumns {
    Sample(usize),
    Bucket {
        low: usize,
        high: usize,
        count: usize,
    },
    File(usize),
}

/// Where the columns of a table are.
struct Columns {
    time: usize,
    machine: usize,
    values: ValueColumns,
}

/// Adds the rows of a table.
pub(super) fn add_csv(
    collector: &mut SampleStore,
    path: &Path,
    text: &str,
) -> Result<(), CanaryError> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let header: Vec<String> = reader
        .headers()
        .map_err(|error| content_error(path, error.to_string()))?
        .iter()
        .map(str::to_owned)
        .collect();
    let columns =
        find_columns(&header, collector).map_err(|message| content_error(path, message))?;
    for record in reader.records() {
        let row = record.map_err(|error| content_error(path, error.to_string()))?;
        let line = row.position().map_or(0, csv::Position::line);
        add_row(collector, path, &columns, &row).map_err(|error| match error {
            RowError::Row(message) => content_error(path, format!("line {line}: {message}")),
            RowError::Canary(error) => error,
        })?;
    }
    Ok(())
}

/// Why a row cannot be taken.
enum RowError {
    Row(String),
    Canary(CanaryError),
}

impl From<String> for RowError {
    fn from(message: String) -> Self {
        Self::Row(message)
    }
}

/// The begin of a header, for a message.
fn shorten_header(header: &str) -> String {
    let begin: String = header.chars().take(MOST_QUOTED).collect();
    let rest = if begin.len() < header.len() {
        " ..."
    } else {
        ""
    };
    format!("{}{rest}", escape_for_one_line(&begin))
}

fn find_columns(header: &[String], collector: &SampleStore) -> Result<Columns, String> {
    let metric = collector.metric();
    let expected = format!(
        "expected a header with time, machine, and {}, or low_us, high_us and count, or file; found: {}",
        metric.name(),
        shorten_header(&header.join(", "))
    );
    let (Some(time), Some(machine)) = (find_column(header, "time"), find_column(header, "machine"))
    else {
        return Err(expected);
    };
    let bucket = ["low_us", "high_us", "count"].map(|name| find_column(header, name));
    let values = if let [Some(low), Some(high), Some(count)] = bucket {
        ValueColumns::Bucket { low, high, count }
    } else if let Some(file) = find_column(header, "file") {
        ValueColumns::File(file)
    } else if let Some(sample) =
        find_column(header, metric.name()).or_else(|| find_column(header, "value"))
    {
        if matches!(metric.kind(), MetricKind::Percentile(_)) {
            return Err(refuse_percentile_series(metric.name()));
        }
        ValueColumns::Sample(sample)
    } else if header
        .iter()
        .any(|name| parse_percentile_name(name).is_some())
    {
        return Err(refuse_percentile_series(metric.name()));
    } else {
        return Err(expected);
    };
    Ok(Columns {
        time,
        machine,
        values,
    })
}

fn find_column(header: &[String], name: &str) -> Option<usize> {
    header.iter().position(|column| column == name)
}

fn add_row(
    collector: &mut SampleStore,
    path: &Path,
    columns: &Columns,
    row: &csv::StringRecord,
) -> Result<(), RowError> {
    let machine = &row[columns.machine];
    if machine.is_empty() {
        return Err(RowError::Row("has no machine".to_owned()));
    }
    let key = SampleKey {
        machine: machine.to_owned(),
        time_ms: parse_time_to_ms(&row[columns.time])?,
        labels: String::new(),
    };
    match columns.values {
        ValueColumns::Sample(column) => {
            collector.add_gauge_sample(key, parse_number_or_gap(&row[column])?);
        }
        ValueColumns::Bucket { low, high, count } => {
            let (low_ns, high_ns) = (parse_us_to_ns(&row[low])?, parse_us_to_ns(&row[high])?);
            let requests = parse_number_or_gap(&row[count])?;
            if low_ns > high_ns || requests < 0.0 {
                return Err(RowError::Row(
                    "expected low_us up to high_us, and a count of 0 or more".to_owned(),
                ));
            }
            let bucket_key = SampleKey {
                labels: format!("{low_ns}-{high_ns}"),
                ..key
            };
            if requests.is_finite() {
                collector.add_requests(bucket_key, vec![(low_ns, high_ns, requests)]);
            } else {
                collector.add_missing_requests(bucket_key);
            }
        }
        ValueColumns::File(column) => {
            let name = &row[column];
            if name.is_empty() {
                collector.add_gap();
                return Ok(());
            }
            let file = resolve_beside(path, name)?;
            let runs = read_whole_runs(&file).map_err(RowError::Row)?;
            let run_key = SampleKey {
                labels: name.to_owned(),
                ..key
            };
            add_runs(collector, &run_key, &runs)?;
        }
    }
    Ok(())
}

/// Parses a cell with a measured value; NaN for a gap, which is an empty cell or NaN.
fn parse_number_or_gap(text: &str) -> Result<f64, String> {
    if text.is_empty() || text.eq_ignore_ascii_case("nan") {
        return Ok(f64::NAN);
    }
    parse_number(text)
}

fn parse_number(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|number| !number.is_nan())
        .ok_or_else(|| format!("`{}` is no number", escape_for_one_line(text)))
}

fn parse_us_to_ns(text: &str) -> Result<u64, String> {
    BucketUnit::Microseconds
        .bound_to_ns(parse_number(text)?)
        .ok_or_else(|| format!("`{}` is no latency", escape_for_one_line(text)))
}

/// The path of a file named in a table. Tables may come from strangers, so nothing outside the table's folder is opened.
fn resolve_beside(table: &Path, name: &str) -> Result<PathBuf, RowError> {
    let is_inside = Path::new(name)
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if name.is_empty() || !is_inside {
        return Err(outside_error(name));
    }
    let folder = match table.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let joined = folder.join(name);
    if path_without_links(&joined)?.starts_with(path_without_links(folder)?) {
        Ok(joined)
    } else {
        Err(outside_error(name))
    }
}

fn outside_error(name: &str) -> RowError {
    RowError::Row(format!(
        "`{}` is not below the table's own folder; give a relative path without `..`",
        escape_for_one_line(name)
    ))
}

fn path_without_links(path: &Path) -> Result<PathBuf, RowError> {
    std::fs::canonicalize(path).map_err(|source| {
        RowError::Canary(CanaryError::Read {
            path: path.to_owned(),
            source,
        })
    })
}

/// The runs in a result. Workloads with only a part of another workload's requests are left out.
fn read_whole_runs(path: &PathBuf) -> Result<Vec<RunRecord>, String> {
    let opened = open_results(std::slice::from_ref(path)).map_err(|e| with_causes(&e))?;
    let mut whole = Vec::new();
    for result in &opened {
        let parts: Vec<&WorkloadInfo> = result
            .results
            .document()
            .workloads
            .iter()
            .filter(|workload| workload.subset.is_some())
            .collect();
        let runs = result.results.read_runs().map_err(|e| with_causes(&e))?;
        whole.extend(
            runs.into_iter()
                .filter(|run| parts.iter().all(|part| part.name != run.key.workload)),
        );
    }
    Ok(whole)
}

fn add_runs(
    collector: &mut SampleStore,
    key: &SampleKey,
    runs: &[RunRecord],
) -> Result<(), String> {
    let metric = collector.metric().clone();
    let shown = escape_for_one_line(&key.labels).into_owned();
    if metric.kind() == MetricKind::Gauge {
        let values: Vec<f64> = runs
            .iter()
            .flat_map(|run| &run.metrics)
            .filter(|(name, _)| name == metric.name())
            .map(|(_, value)| *value)
            .collect();
        if values.is_empty() {
            return Err(format!("`{shown}` has no {}", metric.name()));
        }
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        collector.add_gauge_sample(key.clone(), mean);
        return Ok(());
    }
    let buckets: Vec<(u64, u64, f64)> = runs
        .iter()
        .flat_map(|run| &run.latency)
        .map(|bucket| (bucket.low_ns, bucket.high_ns, bucket.count as f64))
        .collect();
    if buckets.is_empty() {
        return Err(format!(
            "`{shown}` has no histogram of latencies; fio writes one with --output-format=json+"
        ));
    }
    collector.add_requests(key.clone(), buckets);
    Ok(())
}
