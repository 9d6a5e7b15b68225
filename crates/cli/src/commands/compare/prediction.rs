//! A simulation beside the same study's measurement: prediction, measurement, and error.

use wakepath_compare::Metric;
use wakepath_compare::figure::format_percent;
use wakepath_compare::results::{Comparison, Load, Row, Source, name_beside_sources};
use wakepath_results::RunOrigin;
use wakepath_units::median;

use super::cells::{machine_and_workload_cells, machine_and_workload_columns, mean_cell};
use super::style::Style;
use crate::output::Screen;

/// The simulation and the measurement, if a comparison has these two results and no other.
pub(super) fn find_simulation_and_measurement_pair(sources: &[Source]) -> Option<[&Source; 2]> {
    let [a, b] = sources else { return None };
    if a.document.study.name != b.document.study.name {
        return None;
    }
    match (a.document.backend, b.document.backend) {
        (RunOrigin::Sim, RunOrigin::Live) => Some([a, b]),
        (RunOrigin::Live, RunOrigin::Sim) => Some([b, a]),
        _ => None,
    }
}

/// A metric of a workload under a policy, simulated and measured.
struct PredictedCell<'a> {
    load: &'a Load,
    policy: &'a str,
    predicted: &'a Row,
    measured: &'a Row,
}

impl PredictedCell<'_> {
    /// By how many percent the simulated value is above the measured.
    fn prediction_error_percent(&self) -> Option<f64> {
        let error = (self.predicted.mean / self.measured.mean - 1.0) * 100.0;
        error.is_finite().then_some(error)
    }
}

/// Writes all cells with prediction and measurement, and each metric's error. Returns whether any cell is in both
/// results.
pub(super) fn write_prediction_if_any_cell(
    out: &mut Screen,
    comparison: &Comparison,
    sources: &[Source],
    [simulated, measured]: [&Source; 2],
    style: &dyn Style,
) -> anyhow::Result<bool> {
    let mut rows = Vec::new();
    let mut errors = Vec::new();
    for metric in &comparison.metrics {
        let cells = list_cells_in_both_results(comparison, sources, [simulated, measured], metric);
        let unit = comparison.unit_for_metric(metric);
        let mut of_metric = Vec::new();
        for cell in &cells {
            let error = cell.prediction_error_percent();
            of_metric.extend(error.map(f64::abs));
            let mut row = vec![unit.title_with_unit(&metric.title)];
            row.extend(machine_and_workload_cells(comparison, cell.load));
            row.extend([
                cell.policy.to_owned(),
                mean_cell(cell.predicted, &unit),
                mean_cell(cell.measured, &unit),
                error.map_or_else(String::new, |error| format_percent(error, 1)),
            ]);
            rows.push(row);
        }
        if let Some(middle) = median(of_metric.iter().copied()) {
            let worst = of_metric.iter().copied().fold(0.0, f64::max);
            errors.push(format!(
                "{} {middle:.0} % (at most {worst:.0} %)",
                metric.title
            ));
        }
    }
    if rows.is_empty() {
        return Ok(false);
    }
    let heading = format!(
        "Prediction ({}) beside measurement ({})",
        simulated.name, measured.name
    );
    style.write_heading(out, &heading)?;
    let columns = ["metric"]
        .into_iter()
        .chain(machine_and_workload_columns(comparison))
        .chain(["policy", "predicted", "measured", "error %"]);
    let header = columns.map(str::to_owned).collect();
    style.write_header_and_rows(out, [vec![header], rows].concat())?;
    writeln!(out)?;
    let sentence = format!("The median prediction is off by: {}.", errors.join(", "));
    style.write_sentence(out, &sentence)?;
    let sentence = format!(
        "What each of both says of the policies: wakepath compare {0}, wakepath compare {1}, or wakepath compare {0} {1} --metric \
         all.",
        simulated.name, measured.name
    );
    style.write_sentence(out, &sentence)?;
    Ok(true)
}

fn list_cells_in_both_results<'a>(
    comparison: &'a Comparison,
    sources: &[Source],
    [simulated, measured]: [&'a Source; 2],
    metric: &Metric,
) -> Vec<PredictedCell<'a>> {
    let mut cells = Vec::new();
    for load in &comparison.loads {
        for policy in &simulated.document.policies {
            let both = [simulated, measured].map(|source| {
                let name = name_beside_sources(sources, source, &policy.name);
                comparison.rows.iter().find(|row| {
                    row.metric == metric.name && row.load == *load && row.policy == name
                })
            });
            if let [Some(predicted), Some(measured)] = both {
                cells.push(PredictedCell {
                    load,
                    policy: &policy.name,
                    predicted,
                    measured,
                });
            }
        }
    }
    cells
}
