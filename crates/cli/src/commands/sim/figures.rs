//! Medians of runs with the digits that the runs' spread deserves.

use wakepath_compare::figure::Unit;
use wakepath_compare::standard_deviation;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::Origin;
use wakepath_sim::{PolicyComparison, PolicyResult, Run};

/// The unit of the mean power of all policy sets.
pub(super) fn power(machine: &Machine, comparison: &PolicyComparison) -> Unit {
    let all = comparison.results.iter().filter_map(|r| r.mean_mw);
    digits_of(machine, Unit::for_values("mW", all))
}

/// A unit of power or energy with the digits that the machine's figures deserve.
pub(super) fn digits_of(machine: &Machine, unit: Unit) -> Unit {
    // Power of the whole machine at rest is no part of what is simulated.
    let is_power = |key: &str| {
        !key.starts_with("platform.") && (key.contains("power") || key.ends_with("_mw"))
    };
    let figures = machine.figures().into_iter();
    let mut power = figures.filter(|(key, _)| is_power(key));
    if power.any(|(_, figure)| matches!(figure.origin, Origin::Assumed(_))) {
        unit.assumed()
    } else {
        unit
    }
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

/// A median, with `value` that of a run; nothing where there is none.
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
