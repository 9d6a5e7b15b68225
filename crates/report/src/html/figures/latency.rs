//! Latency: the distribution, and the percentiles over the runs.

use serde_json::{Value, json};

use super::super::number::{
    format_four_significant_digits, round_to_five_digits_or_null as number,
};
use super::super::view::{Curve, PageWorkload, Percentiles, View};
use super::figure::{
    Choice, Figure, Table, build_alternative_text, capitalise, distinct,
    first_question_limits_for_chart, format_microseconds, policy_name,
};

/// Shares of requests for which the table of a distribution has the latency.
const SHARES: [f64; 12] = [
    0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999,
];

/// Smallest visible step between two points, as a share of all requests.
const LEAST_STEP: f64 = 0.004;

/// Smallest visible step in the tail, as a ratio of the shares of slower requests.
const LEAST_TAIL_STEP: f64 = 1.06;

pub(super) fn draw_distribution(view: &View, workload: &PageWorkload) -> Option<Figure> {
    let curves: Vec<&Curve> = workload
        .curves
        .iter()
        .filter(|c| !c.points.is_empty())
        .collect();
    if curves.is_empty() {
        return None;
    }
    let latency = &workload.latency_of;
    Some(Figure {
        id: String::new(),
        kind: "distribution",
        title: format!("{} distribution, us", capitalise(latency)),
        note: format!(
            "Share of requests that took at most so long; further left is better. \
             All runs together. The tail view spreads the slowest requests out: each step up is a tenth of the requests \
             before it. The table has the {latency} in us that so many percent of the requests do not exceed."
        ),
        alt: build_alternative_text(
            &format!(
                "Cumulative {latency} distribution on a logarithmic axis, one line per policy."
            ),
            curves
                .iter()
                .map(|curve| describe_median_and_p99(view, curve)),
        ),
        choices: vec![Choice {
            key: "view",
            label: "View",
            options: order_cdf_and_tail_options(view),
        }],
        table: quantile_table(view, &curves),
        data: json!({
            "of": latency,
            "limits": first_question_latency_limits(view),
            "series": curves.iter().map(|c| json!({
                "policy": c.policy,
                "points": drop_invisible_points(&c.points).iter().map(|(us, share)| {
                    // The slower share keeps its digits where the faster share is all nines.
                    json!([number(*us), number(1.0 - share)])
                }).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        }),
    })
}

/// Metrics of the page that are points of a latency distribution.
const LATENCIES: [&str; 7] = [
    "mean_us",
    "p50_us",
    "p90_us",
    "p99_us",
    "p999_us",
    "wake_mean_us",
    "wake_p99_us",
];

/// Both views of a distribution. The tail comes first if the first question is about the slowest requests.
fn order_cdf_and_tail_options(view: &View) -> Vec<(String, String)> {
    let mut options = vec![
        ("cdf".to_owned(), "All requests".to_owned()),
        ("tail".to_owned(), "Tail".to_owned()),
    ];
    let focus = view.focus.iter();
    let mut asked = focus.flat_map(|focus| {
        let limits = focus.limits.iter().map(|limit| limit.metric);
        limits.chain([focus.metric])
    });
    if asked.any(|metric| is_tail_latency(view, metric)) {
        options.reverse();
    }
    options
}

fn is_tail_latency(view: &View, metric: usize) -> bool {
    let name = view.metrics.get(metric).map(|metric| metric.name.as_str());
    matches!(name, Some("p99_us" | "p999_us" | "wake_p99_us"))
}

/// The first question's limits for latencies, for `charts.js`.
fn first_question_latency_limits(view: &View) -> Vec<Value> {
    let metrics = view.metrics.iter().enumerate();
    let latencies = metrics.filter(|(_, metric)| LATENCIES.contains(&metric.name.as_str()));
    let limits = latencies.map(|(index, _)| first_question_limits_for_chart(view, index));
    limits
        .flat_map(|limits| limits.as_array().cloned().unwrap_or_default())
        .collect()
}

fn quantile_table(view: &View, curves: &[&Curve]) -> Table {
    let mut head = vec!["policy".to_owned(), "requests".to_owned()];
    head.extend(SHARES.map(|s| format!("{} %", format_without_trailing_zeros(s * 100.0))));
    let mut table = Table::with_head(1, head);
    for curve in curves {
        let mut row = vec![
            policy_name(view, curve.policy).to_owned(),
            format_four_significant_digits(curve.requests as f64),
        ];
        row.extend(SHARES.map(|share| {
            latency_us_at_share(curve, share).map_or("–".into(), format_four_significant_digits)
        }));
        table.add_row(row);
    }
    table
}

/// Median and 99th percentile, in words.
fn describe_median_and_p99(view: &View, curve: &Curve) -> String {
    let [median, p99] = [0.5, 0.99].map(|share| {
        latency_us_at_share(curve, share).map_or("unknown".into(), format_microseconds)
    });
    format!(
        "{}: median {median}, 99th percentile {p99}",
        policy_name(view, curve.policy)
    )
}

/// The latency in us that a share of the requests does not exceed; `None` if less than one request is slower.
fn latency_us_at_share(curve: &Curve, share: f64) -> Option<f64> {
    // Too few requests: less than one is slower than this share.
    if (1.0 - share) * (curve.requests as f64) < 1.0 {
        return None;
    }
    let points = &curve.points;
    let index = points.partition_point(|(_, below)| *below < share - 1e-12);
    points.get(index).or(points.last()).map(|(us, _)| *us)
}

/// Drops points of a distribution that do not change the look of its curve.
fn drop_invisible_points(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut kept: Vec<(f64, f64)> = Vec::new();
    for (index, point) in points.iter().enumerate() {
        let differs = kept.last().is_none_or(|last| {
            let [tail, last_tail] = [point.1, last.1].map(|share| (1.0 - share).max(1e-9));
            point.1 - last.1 >= LEAST_STEP || last_tail / tail >= LEAST_TAIL_STEP
        });
        // Where the curve rises steeply, the point before it makes the corner.
        if differs && index > 0 && kept.last() != Some(&points[index - 1]) {
            kept.push(points[index - 1]);
        }
        if differs || index + 1 == points.len() {
            kept.push(*point);
        }
    }
    kept
}

/// A number with at most four digits after the point, without trailing zeros.
fn format_without_trailing_zeros(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub(super) fn draw_percentiles(view: &View, workload: &PageWorkload) -> Option<Figure> {
    let all = &workload.percentiles;
    let names = distinct(
        all.iter()
            .flat_map(|p| p.values.iter().map(|(name, _)| name.as_str())),
    );
    if names.is_empty() {
        return None;
    }
    let latency = &workload.latency_of;
    Some(Figure {
        id: String::new(),
        kind: "percentiles",
        title: format!("{} percentiles, us", capitalise(latency)),
        note: "Mean over the runs; the thin bar goes from the lowest to the highest run. Further left is better."
            .into(),
        alt: build_alternative_text(
            &format!("Percentiles of the {latency} on a logarithmic axis, one row per policy."),
            all.iter().map(|p| {
                let values: Vec<String> =
                    p.values.iter().map(|(n, s)| format!("{n} {}", format_microseconds(s.mean))).collect();
                format!("{}: {}", policy_name(view, p.policy), values.join(", "))
            }),
        ),
        choices: vec![],
        table: percentile_table(view, all, &names),
        data: json!({
            "of": latency,
            "limits": first_question_latency_limits(view),
            "names": names,
            "rows": all.iter().map(|p| json!({
                "policy": p.policy,
                "values": names.iter().map(|name| {
                    p.values.iter().find(|(n, _)| n == name).map(|(_, s)| {
                        json!(s.mean_lowest_highest().map(number))
                    })
                }).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        }),
    })
}

fn percentile_table(view: &View, all: &[Percentiles], names: &[&str]) -> Table {
    let columns = names.iter().flat_map(|name| {
        [
            format!("{name}, us"),
            "lowest run".into(),
            "highest run".into(),
        ]
    });
    let mut table = Table::with_head(1, std::iter::once("policy".to_owned()).chain(columns));
    for percentiles in all {
        let mut row = vec![policy_name(view, percentiles.policy).to_owned()];
        for name in names {
            let value = percentiles.values.iter().find(|(n, _)| n == name);
            row.extend(
                value.map_or(["–".into(), "–".into(), "–".into()], |(_, spread)| {
                    spread
                        .mean_lowest_highest()
                        .map(format_four_significant_digits)
                }),
            );
        }
        table.add_row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn curve(points: &[(f64, f64)]) -> Curve {
        Curve {
            policy: 0,
            requests: 1_000_000,
            points: points.to_vec(),
        }
    }

    #[test]
    fn a_quantile_is_the_first_latency_that_reaches_its_share() {
        let curve = curve(&[(10.0, 0.2), (20.0, 0.5), (40.0, 1.0)]);
        for (share, us) in [
            (0.1, 10.0),
            (0.2, 10.0),
            (0.5, 20.0),
            (0.51, 40.0),
            (0.999, 40.0),
        ] {
            assert_eq!(latency_us_at_share(&curve, share), Some(us));
        }
    }

    #[test]
    fn a_quantile_of_less_than_a_request_is_none() {
        let few = Curve {
            requests: 50,
            ..curve(&[(10.0, 1.0)])
        };
        assert_eq!(latency_us_at_share(&few, 0.99), None);
        assert_eq!(latency_us_at_share(&few, 0.9), Some(10.0));
    }

    proptest! {
        #[test]
        fn thinning_keeps_the_ends_and_stays_close(
            counts in prop::collection::vec(0_u32..1000, 2..800),
        ) {
            let all: f64 = counts.iter().map(|c| f64::from(*c) + 1.0).sum();
            let mut sum = 0.0;
            let points: Vec<(f64, f64)> = counts.iter().enumerate().map(|(i, count)| {
                sum += f64::from(*count) + 1.0;
                (1.03_f64.powi(i as i32), sum / all)
            }).collect();
            let thin = drop_invisible_points(&points);
            prop_assert_eq!(thin.first(), points.first());
            prop_assert_eq!(thin.last(), points.last());
            prop_assert!(thin.len() <= 1000);
            prop_assert!(thin.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1));
            // Drawn as steps, no point is visibly off.
            for (us, share) in &points {
                let before = thin.iter().rev().find(|(x, _)| x <= us).map_or(0.0, |p| p.1);
                prop_assert!(share - before <= LEAST_STEP + 1e-9);
            }
        }
    }
}
