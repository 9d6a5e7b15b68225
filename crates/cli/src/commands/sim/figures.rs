//! Medians over runs, with digits to match the spread.

use wakepath_compare::figure::Unit;
use wakepath_compare::{assumes_power, standard_deviation};
use wakepath_hardware::Machine;
use wakepath_sim::{PolicyComparison, PolicyResult, Run};

/// Unit for mean power in all policy sets.
pub(super) fn power(machine: &Machine, comparison: &PolicyComparison) -> Unit {
    let all = comparison.results.iter().filter_map(|r| r.mean_mw);
    digits_of(machine, Unit::for_values("mW", all))
}

/// A power or energy unit with digits to match the machine's figures.
pub(super) fn digits_of(machine: &Machine, unit: Unit) -> Unit {
    // A study's results keep the same file, so that `compare` gives the same digits.
    if machine.to_toml().map_or(true, |file| assumes_power(&file)) {
        unit.assumed()
    } else {
        unit
    }
}

/// Whether a figure is about simulated power, which excludes the whole machine at rest.
fn is_power(key: &str) -> bool {
    !key.starts_with("platform.") && (key.contains("power") || key.ends_with("_mw"))
}

/// A policy set's mean power.
pub(super) fn mean_power(result: &PolicyResult, unit: &Unit) -> String {
    median_in(unit, result, result.mean_mw, |run| {
        Some(run.energy.as_ref()?.mean_mw)
    })
}

/// Energy per I/O or operation in uJ.
pub(super) fn energy(machine: &Machine, result: &PolicyResult) -> String {
    let unit = digits_of(machine, Unit::for_value("uJ", 0.0));
    median_in(&unit, result, result.per_io_uj, |run| {
        run.energy.as_ref()?.per_io_uj
    })
}

/// A median's text; `value` gives a run's value. Empty without a median.
pub(super) fn median(
    result: &PolicyResult,
    median: Option<f64>,
    value: impl Fn(&Run) -> Option<f64>,
) -> String {
    median_in(&Unit::for_value("", 0.0), result, median, value)
}

/// The same in a unit.
pub(super) fn median_in(
    unit: &Unit,
    result: &PolicyResult,
    median: Option<f64>,
    value: impl Fn(&Run) -> Option<f64>,
) -> String {
    let runs: Vec<f64> = result.runs.iter().filter_map(value).collect();
    median.map_or_else(String::new, |median| {
        unit.figure(median, standard_deviation(&runs))
    })
}
