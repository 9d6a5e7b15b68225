//! Medians over runs, with digits to match the spread.

use wakepath_compare::figure::Unit;
use wakepath_compare::{assumes_power, standard_deviation};
use wakepath_hardware::Machine;
use wakepath_results::Idle;
use wakepath_study::run::sim::{SimComparison, SimulatedPolicy};
use wakepath_units::median;

/// Unit for mean power in all policy sets.
pub(super) fn power_unit(machine: &Machine, comparison: &SimComparison) -> Unit {
    let results = comparison.results.iter();
    let medians = results.filter_map(|result| median(result.metric("mean_mw")?));
    fit_digits(machine, Unit::for_values("mW", medians))
}

/// A power or energy unit with digits to match the machine's figures.
pub(super) fn fit_digits(machine: &Machine, unit: Unit) -> Unit {
    // A study's results keep the same file, so that `compare` gives the same digits.
    if machine.to_toml().map_or(true, |file| assumes_power(&file)) {
        unit.for_assumed_power()
    } else {
        unit
    }
}

/// A policy set's mean power.
pub(super) fn mean_power(result: &SimulatedPolicy, unit: &Unit) -> String {
    figure_text(unit, result.metric("mean_mw"))
}

/// The unit of the energy per I/O or operation of all policy sets.
pub(super) fn energy_unit(machine: &Machine, comparison: &SimComparison) -> Unit {
    let results = comparison.results.iter();
    let medians = results.filter_map(|result| median(result.metric("per_io_uj")?));
    fit_digits(machine, Unit::for_values("uJ", medians))
}

/// A policy set's energy per I/O or operation.
pub(super) fn energy_text(result: &SimulatedPolicy, unit: &Unit) -> String {
    figure_text(unit, result.metric("per_io_uj"))
}

/// A metric's median; empty without the metric.
pub(super) fn metric_text(result: &SimulatedPolicy, name: &str) -> String {
    figure_text(&Unit::for_value("", 0.0), result.metric(name))
}

/// The median of a count over all idle states.
pub(super) fn idle_count(result: &SimulatedPolicy, count: fn(&Idle) -> u64) -> String {
    let counts = result.idle_count(count).into_iter();
    let median = median(counts.map(|count| count as f64));
    median.map_or_else(String::new, |median| format!("{median:.0}"))
}

/// The median of the runs' values, if all have one.
pub(super) fn figure_text(unit: &Unit, runs: Option<Vec<f64>>) -> String {
    let Some(values) = runs else {
        return String::new();
    };
    let deviation = standard_deviation(&values);
    median(values).map_or_else(String::new, |median| unit.format_figure(median, deviation))
}
