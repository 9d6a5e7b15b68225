//! The results of `wakepath sim` as small drawings below the tables, on a terminal.

use wakepath_study::run::sim::{SimComparison, SimulatedPolicy};
use wakepath_units::median;

use crate::bars::{Canvas, sum_buckets_on_log_scale};
use crate::output::Screen;

/// Width of each histogram and bar, in columns.
const HISTOGRAM: usize = 40;
const BAR: usize = 16;

/// Draws latencies and rate from each policy set's first run, on a wide enough terminal.
pub(super) fn draw_first_runs_if_terminal(
    out: &mut Screen,
    comparison: &SimComparison,
) -> anyhow::Result<()> {
    let Some(canvas) = Canvas::for_stdout_if_terminal() else {
        return Ok(());
    };
    let width = comparison
        .results
        .iter()
        .map(|r| r.policy.to_string().chars().count())
        .max()
        .unwrap_or(0);
    let ends = comparison
        .results
        .iter()
        .flat_map(first_run_latency_buckets_ns);
    let [from, to] = ends.fold([f64::INFINITY, 0.0], |[from, to], (low, high, _)| {
        [low.max(1.0).min(from), high.max(to)]
    });
    if to <= 0.0 || width + HISTOGRAM + BAR + 14 > canvas.width {
        return Ok(());
    }
    writeln!(
        out,
        "\nLatency of the first run, {} to {} on a logarithmic scale; IOPS\n",
        format_latency(from),
        format_latency(to)
    )?;
    let best = comparison
        .results
        .iter()
        .map(median_iops_or_zero)
        .fold(0.0, f64::max);
    for result in &comparison.results {
        let sums =
            sum_buckets_on_log_scale(first_run_latency_buckets_ns(result), [from, to], HISTOGRAM);
        let label = result.policy.to_string();
        writeln!(
            out,
            "{label}{}  {}  {} {:.0}",
            " ".repeat(width - label.chars().count()),
            canvas.draw_histogram_line(&sums),
            canvas.draw_bar_for_share(
                median_iops_or_zero(result) / best.max(f64::MIN_POSITIVE),
                BAR
            ),
            median_iops_or_zero(result)
        )?;
    }
    Ok(())
}

/// Latency buckets `(low, high, count)` of the first run under a policy set.
fn first_run_latency_buckets_ns(result: &SimulatedPolicy) -> impl Iterator<Item = (f64, f64, f64)> {
    let latency = result.rows.first().map(|run| &run.latency);
    latency.into_iter().flatten().map(|bucket| {
        (
            bucket.low_ns as f64,
            bucket.high_ns as f64,
            bucket.count as f64,
        )
    })
}

/// Finished requests per second: the median over all runs.
fn median_iops_or_zero(result: &SimulatedPolicy) -> f64 {
    result.metric_values("iops").and_then(median).unwrap_or(0.0)
}

fn format_latency(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{:.1} s", ns / 1e9),
        ns if ns >= 1e6 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.1} us", ns / 1e3),
    }
}
