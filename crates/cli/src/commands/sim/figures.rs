//! Medians over runs as texts, with digits that match the spread.

use wakepath_compare::figure::Unit;
use wakepath_compare::{assumes_power, standard_deviation};
use wakepath_hardware::Machine;
use wakepath_results::Idle;
use wakepath_study::run::sim::{SimComparison, SimulatedPolicy};
use wakepath_units::median;

/// Unit for the mean power under all policy sets.
pub(super) fn unit_for_all_mean_powers(machine: &Machine, comparison: &SimComparison) -> Unit {
    let results = comparison.results.iter();
    let medians = results.filter_map(|result| median(result.metric_values("mean_mw")?));
    fewer_digits_if_power_assumed(machine, Unit::for_values("mW", medians))
}

/// A power or energy unit, with fewer digits if the machine's power figures are assumed.
pub(super) fn fewer_digits_if_power_assumed(machine: &Machine, unit: Unit) -> Unit {
    // Results of a study keep the same machine file, so that `compare` prints the same digits.
    if machine.to_toml().map_or(true, |file| assumes_power(&file)) {
        unit.for_assumed_power()
    } else {
        unit
    }
}

/// Mean power under a policy set: the median over its runs.
pub(super) fn median_mean_power_text(result: &SimulatedPolicy, unit: &Unit) -> String {
    format_median_or_empty(unit, result.metric_values("mean_mw"))
}

/// Unit for the energy per I/O or operation under all policy sets.
pub(super) fn unit_for_all_energies_per_io(machine: &Machine, comparison: &SimComparison) -> Unit {
    let results = comparison.results.iter();
    let medians = results.filter_map(|result| median(result.metric_values("per_io_uj")?));
    fewer_digits_if_power_assumed(machine, Unit::for_values("uJ", medians))
}

/// Energy per I/O or operation under a policy set: the median over its runs.
pub(super) fn median_energy_per_io_text(result: &SimulatedPolicy, unit: &Unit) -> String {
    format_median_or_empty(unit, result.metric_values("per_io_uj"))
}

/// Median of a metric over the runs; empty if a run lacks the metric.
pub(super) fn median_metric_or_empty(result: &SimulatedPolicy, name: &str) -> String {
    format_median_or_empty(&Unit::for_value("", 0.0), result.metric_values(name))
}

/// Median over the runs of a count, summed over all idle states.
pub(super) fn median_idle_count_text(result: &SimulatedPolicy, count: fn(&Idle) -> u64) -> String {
    let counts = result.sum_idle_count_in_each_run(count).into_iter();
    let median = median(counts.map(|count| count as f64));
    median.map_or_else(String::new, |median| format!("{median:.0}"))
}

/// Median of the runs' values; empty without values.
pub(super) fn format_median_or_empty(unit: &Unit, runs: Option<Vec<f64>>) -> String {
    let Some(values) = runs else {
        return String::new();
    };
    let deviation = standard_deviation(&values);
    median(values).map_or_else(String::new, |median| unit.format_figure(median, deviation))
}
