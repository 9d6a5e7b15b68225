//! Cells that several tables of a comparison share.

use wakepath_compare::figure::{Unit, doubt_about_mean, format_fixed};
use wakepath_compare::results::{Comparison, Load, Row};

/// A sentence on the baseline and the method: what verdicts compare with, and how chance was considered.
pub(super) fn describe_baseline_and_method(comparison: &Comparison) -> String {
    let mut baselines: Vec<&str> = Vec::new();
    for name in comparison.rows.iter().filter_map(|r| r.baseline.as_deref()) {
        if !baselines.contains(&name) {
            baselines.push(name);
        }
    }
    let with = match baselines[..] {
        [] => &comparison.baseline,
        [only] => only,
        _ => "the baseline of its machine",
    };
    let families: Vec<String> = comparison
        .families
        .iter()
        .filter(|f| f.comparisons > 0)
        .map(|f| format!("{} of {}", f.comparisons, f.metric))
        .collect();
    let corrected = if families.is_empty() {
        String::new()
    } else {
        format!(
            ", p-values corrected for each metric by itself ({}): {}",
            comparison.correction,
            families.join(", ")
        )
    };
    format!(
        "Compared with {with}: intervals of {} %, margin {} %{corrected}",
        comparison.level * 100.0,
        comparison.margin_percent
    )
}

/// The mean in a comparison's row, with meaningful digits.
pub(super) fn mean_cell(row: &Row, unit: &Unit) -> String {
    unit.format_figure(row.mean, doubt_about_mean(row.interval, row.deviation))
}

/// The mean in a comparison's row, with the standard deviation if there are several runs.
pub(super) fn mean_and_deviation_cell(row: &Row, unit: &Unit) -> String {
    let mean = mean_cell(row, unit);
    let Some(deviation) = row.deviation else {
        return mean;
    };
    let decimals = mean.split_once('.').map_or(0, |(_, after)| after.len());
    let deviation = format_fixed(deviation * unit.factor, decimals);
    // A deviation that rounds to zero is not shown.
    if deviation.bytes().all(|b| b == b'0' || b == b'.') {
        mean
    } else {
        format!("{mean} ± {deviation}")
    }
}

/// Headings of the columns that name a load: machine, if machines are known, and workload.
pub(super) fn machine_and_workload_columns(comparison: &Comparison) -> Vec<&'static str> {
    let machine = (!comparison.machines.is_empty()).then_some("machine");
    machine.into_iter().chain(["workload"]).collect()
}

/// Cells that name a load: machine, if machines are known, and workload.
pub(super) fn machine_and_workload_cells(comparison: &Comparison, load: &Load) -> Vec<String> {
    let machine = (!comparison.machines.is_empty()).then(|| load.machine.clone());
    machine.into_iter().chain([load.workload.clone()]).collect()
}
