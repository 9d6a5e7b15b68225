//! Latency distributions, percentiles, parts, and power against latency.

use std::collections::{BTreeMap, BTreeSet};

use wakepath_compare::Better;
use wakepath_compare::results::are_on_pareto_front;
use wakepath_results::ResultsError;
use wakepath_results::rows::PARTS;

use super::super::view::{Curve, PageParts, PageSpread, Percentiles, Tradeoff, View};
use super::comparison::Series;
use super::place::{PlacedResult, rows_with_known_cells};

/// Percentiles of requests, and of wake-ups where there are no requests: label on the page and metric.
const PERCENTILES: [(&str, &[(&str, &str)]); 2] = [
    (
        "latency",
        &[
            ("p50", "p50_us"),
            ("p90", "p90_us"),
            ("p99", "p99_us"),
            ("p99.9", "p999_us"),
        ],
    ),
    (
        "wake-up latency",
        &[("mean", "wake_mean_us"), ("p99", "wake_p99_us")],
    ),
];

/// Names of latency metrics that the page sets against power.
const LATENCIES: [&str; 5] = ["mean_us", "p99_us", "wake_mean_us", "wake_p99_us", "wall_s"];
/// Names of power metrics, the preferred first.
const POWERS: [&str; 3] = ["mean_mw", "package_mw", "drive_mw"];

pub(super) fn add_distributions(
    view: &mut View,
    places: &[PlacedResult<'_>],
    series: &Series,
) -> Result<(), ResultsError> {
    for place in places {
        add_curves(view, place)?;
        add_parts(view, place)?;
    }
    for index in 0..view.workloads.len() {
        add_percentiles(view, index, series);
        add_tradeoff(view, index, series);
    }
    Ok(())
}

fn add_curves(view: &mut View, place: &PlacedResult<'_>) -> Result<(), ResultsError> {
    // Request counts by upper bound of the bucket, all runs together.
    let mut buckets: BTreeMap<(usize, usize), BTreeMap<u64, u64>> = BTreeMap::new();
    let table = ("latency.parquet", "latency distribution");
    let rows = rows_with_known_cells(
        view,
        place,
        table,
        place.reader.read_latency_rows(),
        |row| [&row.machine, &row.workload, &row.policy],
    )?;
    for (key, row) in rows.into_iter().filter(|(_, row)| row.count > 0) {
        let bucket = buckets.entry(key).or_default();
        let requests = bucket.entry(row.high_ns).or_default();
        *requests = requests.saturating_add(row.count);
    }
    for ((workload, policy), buckets) in buckets {
        let requests = buckets.values().copied().fold(0, u64::saturating_add);
        let mut below = 0_u64;
        let points = buckets.into_iter().map(|(high, count)| {
            below = below.saturating_add(count);
            (high as f64 / 1e3, below as f64 / requests as f64)
        });
        view.workloads[workload].curves.push(Curve {
            policy,
            requests,
            points: points.collect(),
        });
    }
    Ok(())
}

fn add_parts(view: &mut View, place: &PlacedResult<'_>) -> Result<(), ResultsError> {
    // Sum of a part in ns, and number of runs, by workload, policy, percentile and part.
    let mut sums: BTreeMap<(usize, usize, String, String), (f64, u32)> = BTreeMap::new();
    let table = ("attribution.parquet", "attribution");
    let rows = rows_with_known_cells(
        view,
        place,
        table,
        place.reader.read_attribution_rows(),
        |row| [&row.machine, &row.workload, &row.policy],
    )?;
    for ((workload, policy), row) in rows {
        let sum = sums
            .entry((workload, policy, row.at, row.part))
            .or_default();
        sum.0 += row.ns;
        sum.1 += 1;
    }
    for ((workload, policy, at, part), (ns, runs)) in sums {
        let us = ns / f64::from(runs) / 1e3;
        let all = &mut view.workloads[workload].parts;
        match all.iter_mut().find(|p| p.policy == policy && p.at == at) {
            Some(latency) => latency.parts.push((part, us)),
            None => all.push(PageParts {
                policy,
                at,
                parts: vec![(part, us)],
            }),
        }
    }
    for workload in &mut view.workloads {
        // The mean first, then up the percentiles: the alphabet has the same order.
        workload
            .parts
            .sort_by(|a, b| (a.policy, &a.at).cmp(&(b.policy, &b.at)));
        for latency in &mut workload.parts {
            latency
                .parts
                .sort_by_key(|(part, _)| position_on_request_way(part));
        }
    }
    Ok(())
}

/// The position of a part of the latency on a request's way; unknown parts come last.
fn position_on_request_way(part: &str) -> usize {
    let position = PARTS.iter().position(|known| *known == part);
    position.unwrap_or(PARTS.len())
}

/// Mean, lowest and highest finite value of a policy's runs.
fn spread_over_runs(
    series: &Series,
    workload: usize,
    metric: &str,
    policy: usize,
) -> Option<PageSpread> {
    let runs = series.get(&(workload, metric.to_owned(), policy))?;
    let values: Vec<f64> = runs.iter().copied().filter(|v| v.is_finite()).collect();
    if values.is_empty() {
        return None;
    }
    Some(PageSpread {
        mean: values.iter().sum::<f64>() / values.len() as f64,
        low: values.iter().copied().fold(f64::INFINITY, f64::min),
        high: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    })
}

fn add_percentiles(view: &mut View, index: usize, series: &Series) {
    let policies = view.policies.len();
    let workload = &mut view.workloads[index];
    for (latency, metrics) in PERCENTILES {
        for policy in 0..policies {
            let values: Vec<(String, PageSpread)> = metrics
                .iter()
                .filter_map(|(name, metric)| {
                    Some((
                        (*name).to_owned(),
                        spread_over_runs(series, index, metric, policy)?,
                    ))
                })
                .collect();
            if !values.is_empty() {
                workload.percentiles.push(Percentiles { policy, values });
            }
        }
        if !workload.percentiles.is_empty() {
            latency.clone_into(&mut workload.latency_of);
            return;
        }
    }
}

fn add_tradeoff(view: &mut View, index: usize, series: &Series) {
    let metric_index = |name: &str| view.metrics.iter().position(|m| m.name == name);
    let measured: BTreeSet<&str> = series
        .keys()
        .filter(|(workload, ..)| *workload == index)
        .map(|(_, metric, _)| metric.as_str())
        .collect();
    let mut powers = POWERS.iter().filter(|power| measured.contains(*power));
    let Some((power, power_metric)) = powers.find_map(|power| Some((power, metric_index(power)?)))
    else {
        return;
    };
    let mut tradeoffs: Vec<Tradeoff> = Vec::new();
    for latency in LATENCIES
        .iter()
        .filter(|latency| measured.contains(*latency))
    {
        let Some(latency_metric) = metric_index(latency) else {
            continue;
        };
        let points = (0..view.policies.len()).filter_map(|policy| {
            Some(Tradeoff {
                policy,
                latency_metric,
                power_metric,
                latency: spread_over_runs(series, index, latency, policy)?,
                power: spread_over_runs(series, index, power, policy)?,
                front: false,
            })
        });
        let from = tradeoffs.len();
        tradeoffs.extend(points);
        mark_pareto_front(&mut tradeoffs[from..]);
    }
    view.workloads[index].tradeoff = tradeoffs;
}

/// Marks the points that no other point beats.
fn mark_pareto_front(points: &mut [Tradeoff]) {
    let means: Vec<[f64; 2]> = points
        .iter()
        .map(|point| [point.latency.mean, point.power.mean])
        .collect();
    let front = are_on_pareto_front(&means, &[Better::Lower, Better::Lower]);
    for (point, on_front) in points.iter_mut().zip(front) {
        point.front = on_front;
    }
}
