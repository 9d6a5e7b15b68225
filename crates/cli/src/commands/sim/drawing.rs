//! The results of `wakepath sim` as small drawings below the tables, on a terminal.

use wakepath_sim::{PolicyComparison, PolicyResult};

use crate::bars::{Canvas, on_log_scale};
use crate::output::Screen;

/// Columns per histogram and bar.
const HISTOGRAM: usize = 40;
const BAR: usize = 16;

/// Draws latencies and rate from each policy set's first run, on a wide enough terminal.
pub(super) fn write(out: &mut Screen, comparison: &PolicyComparison) -> anyhow::Result<()> {
    let Some(canvas) = Canvas::of_stdout() else {
        return Ok(());
    };
    let label = |of: &PolicyResult| of.policy.to_string();
    let width = comparison
        .results
        .iter()
        .map(|r| label(r).chars().count())
        .max()
        .unwrap_or(0);
    let buckets = |of: &PolicyResult| {
        let of_first = of
            .runs
            .first()
            .map(|run| run.details.latency.clone())
            .unwrap_or_default();
        of_first
            .into_iter()
            .map(|b| (b.low as f64, b.high as f64, b.requests as f64))
    };
    let ends = comparison.results.iter().flat_map(buckets);
    let [from, to] = ends.fold([f64::INFINITY, 0.0], |[from, to], (low, high, _)| {
        [low.max(1.0).min(from), high.max(to)]
    });
    if to <= 0.0 || width + HISTOGRAM + BAR + 14 > canvas.width {
        return Ok(());
    }
    writeln!(
        out,
        "\nLatency of the first run, {} to {} on a logarithmic scale; IOPS\n",
        time(from),
        time(to)
    )?;
    let best = comparison
        .results
        .iter()
        .map(|r| r.iops)
        .fold(0.0, f64::max);
    for result in &comparison.results {
        let sums = on_log_scale(buckets(result), [from, to], HISTOGRAM);
        let label = label(result);
        writeln!(
            out,
            "{label}{}  {}  {} {:.0}",
            " ".repeat(width - label.chars().count()),
            canvas.histogram(&sums),
            canvas.bar(result.iops / best.max(f64::MIN_POSITIVE), BAR),
            result.iops
        )?;
    }
    Ok(())
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{:.1} s", ns / 1e9),
        ns if ns >= 1e6 => format!("{:.1} ms", ns / 1e6),
        ns => format!("{:.1} us", ns / 1e3),
    }
}
