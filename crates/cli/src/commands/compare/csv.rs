//! Writing a comparison as CSV.

use wakepath_compare::results::Comparison;

use super::cells::{machine_and_workload_cells, machine_and_workload_columns};
use crate::output::{self, Screen};

pub(super) fn write_comparison_as_csv(
    out: &mut Screen,
    comparison: &Comparison,
) -> anyhow::Result<()> {
    let mut header = vec!["metric", "unit"];
    header.extend(machine_and_workload_columns(comparison));
    let rest = [
        "policy",
        "baseline",
        "runs",
        "mean",
        "deviation",
        "gain_percent",
        "low_percent",
        "high_percent",
        "p",
        "corrected_p",
        "effect",
        "significant",
        "verdict",
        "warnings",
    ];
    header.extend(rest);
    let rows = comparison.rows.iter().map(|row| {
        let gain = row.gain.as_ref();
        let [percent, low, high, p_value] = [
            gain.map(|g| g.percent),
            gain.map(|g| g.interval[0]),
            gain.map(|g| g.interval[1]),
            gain.map(|g| g.p_value),
        ]
        .map(|value| value.map_or_else(String::new, |value| value.to_string()));
        let metric = comparison.metrics.iter().find(|m| m.name == row.metric);
        let unit = metric.map_or_else(String::new, |m| m.unit.to_string());
        let mut line = vec![row.metric.clone(), unit];
        line.extend(machine_and_workload_cells(comparison, &row.load));
        line.extend([
            row.policy.clone(),
            row.baseline.as_ref().unwrap_or(&row.policy).clone(),
            row.runs.to_string(),
            row.mean.to_string(),
            row.deviation.map_or_else(String::new, |d| d.to_string()),
            percent,
            low,
            high,
            p_value,
            row.corrected_p.map_or_else(String::new, |p| p.to_string()),
            row.gain
                .and_then(|g| g.effect)
                .map_or_else(String::new, |g| g.to_string()),
            row.significant.to_string(),
            row.sentence.clone(),
            row.warnings.join("; "),
        ]);
        line
    });
    output::write_csv(out, header, rows)
}
