//! Latency distributions, percentiles, what latency is made of, and power against latency.

use std::collections::BTreeMap;

use wakepath_compare::Better;
use wakepath_compare::results::front_of;
use wakepath_results::ResultsError;
use wakepath_results::rows::PARTS;

use super::super::view::{Curve, PageParts, PageSpread, Percentiles, Tradeoff, View};
use super::comparison::Series;
use super::{Place, placed};

/// Percentiles with the metrics that have them: of requests, of wake-ups.
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

/// What power can be set against, and the power.
const LATENCIES: [&str; 5] = ["mean_us", "p99_us", "wake_mean_us", "wake_p99_us", "wall_s"];
const POWERS: [&str; 3] = ["mean_mw", "package_mw", "drive_mw"];

pub(super) fn add(
    view: &mut View,
    places: &[Place<'_>],
    series: &Series,
) -> Result<(), ResultsError> {
    for place in places {
        curves(view, place)?;
        parts(view, place)?;
    }
    for index in 0..view.workloads.len() {
        percentiles(view, index, series);
        tradeoff(view, index, series);
    }
    Ok(())
}

fn curves(view: &mut View, place: &Place<'_>) -> Result<(), ResultsError> {
    // Requests by the upper bound of their bucket; all runs together.
    let mut buckets: BTreeMap<(usize, usize), BTreeMap<u64, u64>> = BTreeMap::new();
    let table = ("latency.parquet", "latency distribution");
    let rows = placed(view, place, table, place.reader.latency(), |row| {
        [&row.machine, &row.workload, &row.policy]
    })?;
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

fn parts(view: &mut View, place: &Place<'_>) -> Result<(), ResultsError> {
    // Sum and number of runs by workload, policy, requests and part.
    let mut sums: BTreeMap<(usize, usize, String, String), (f64, u32)> = BTreeMap::new();
    let table = ("attribution.parquet", "attribution");
    let rows = placed(view, place, table, place.reader.attribution(), |row| {
        [&row.machine, &row.workload, &row.policy]
    })?;
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
            Some(of) => of.parts.push((part, us)),
            None => all.push(PageParts {
                policy,
                at,
                parts: vec![(part, us)],
            }),
        }
    }
    let order = |part: &str| PARTS.iter().position(|p| *p == part).unwrap_or(PARTS.len());
    for workload in &mut view.workloads {
        // The mean first, then up the percentiles; that is also the order of the alphabet.
        workload
            .parts
            .sort_by(|a, b| (a.policy, &a.at).cmp(&(b.policy, &b.at)));
        for of in &mut workload.parts {
            of.parts.sort_by_key(|(part, _)| order(part));
        }
    }
    Ok(())
}

/// The values of a policy's runs, if they are numbers.
fn spread(series: &Series, workload: usize, metric: &str, policy: usize) -> Option<PageSpread> {
    let values = series.get(&(workload, metric.to_owned(), policy))?;
    let values: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    if values.is_empty() {
        return None;
    }
    Some(PageSpread {
        mean: values.iter().sum::<f64>() / values.len() as f64,
        low: values.iter().copied().fold(f64::INFINITY, f64::min),
        high: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    })
}

fn percentiles(view: &mut View, index: usize, series: &Series) {
    let policies = view.policies.len();
    let workload = &mut view.workloads[index];
    for (of, metrics) in PERCENTILES {
        for policy in 0..policies {
            let values: Vec<(String, PageSpread)> = metrics
                .iter()
                .filter_map(|(name, metric)| {
                    Some(((*name).to_owned(), spread(series, index, metric, policy)?))
                })
                .collect();
            if !values.is_empty() {
                workload.percentiles.push(Percentiles { policy, values });
            }
        }
        if !workload.percentiles.is_empty() {
            of.clone_into(&mut workload.latency_of);
            return;
        }
    }
}

fn tradeoff(view: &mut View, index: usize, series: &Series) {
    let metric = |name: &str| view.metrics.iter().position(|m| m.name == name);
    let has = |name: &&str| {
        series
            .keys()
            .any(|(workload, metric, _)| *workload == index && metric == name)
    };
    let Some(power) = POWERS.iter().find(|p| has(p) && metric(p).is_some()) else {
        return;
    };
    let mut found: Vec<Tradeoff> = Vec::new();
    for latency in LATENCIES.iter().filter(|l| has(l)) {
        let from = found.len();
        for policy in 0..view.policies.len() {
            let of = |name: &str| spread(series, index, name, policy);
            if let (Some(l), Some(p), Some(latency_metric), Some(power_metric)) =
                (of(latency), of(power), metric(latency), metric(power))
            {
                found.push(Tradeoff {
                    policy,
                    latency_metric,
                    power_metric,
                    latency: l,
                    power: p,
                    front: false,
                });
            }
        }
        let of_latency = &mut found[from..];
        let both = |t: &Tradeoff| [t.latency.mean, t.power.mean];
        let both: Vec<[f64; 2]> = of_latency.iter().map(both).collect();
        let front = front_of(&both, &[Better::Lower, Better::Lower]);
        for (tradeoff, front) in of_latency.iter_mut().zip(front) {
            tradeoff.front = front;
        }
    }
    view.workloads[index].tradeoff = found;
}
