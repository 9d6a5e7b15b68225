//! Medians of runs with the digits that the runs' spread deserves.

use wakepath_compare::figure::Unit;
use wakepath_compare::{assumes_power, standard_deviation};
use wakepath_hardware::Machine;
use wakepath_sim::{PolicyComparison, PolicyResult, Run};

/// The unit of the mean power of all policy sets.
pub(super) fn power(machine: &Machine, comparison: &PolicyComparison) -> Unit {
    let all = comparison.results.iter().filter_map(|r| r.mean_mw);
    digits_of(machine, Unit::of_all("mW", all))
}

/// A unit of power or energy with the digits that the machine's figures deserve.
pub(super) fn digits_of(machine: &Machine, unit: Unit) -> Unit {
    // A study's results keep the same file, so that `compare` gives the same digits.
    if machine.to_toml().map_or(true, |file| assumes_power(&file)) {
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

/// The unit of the energy per I/O or operation of all policy sets.
pub(super) fn energy_unit(machine: &Machine, comparison: &PolicyComparison) -> Unit {
    let all = comparison.results.iter().filter_map(|r| r.per_io_uj);
    digits_of(machine, Unit::of_all("uJ", all))
}

/// A policy set's energy per I/O or operation.
pub(super) fn energy(result: &PolicyResult, unit: &Unit) -> String {
    median_in(unit, result, result.per_io_uj, |run| {
        run.energy.as_ref()?.per_io_uj
    })
}

/// A median, with `value` that of a run; nothing where there is none.
pub(super) fn median(
    result: &PolicyResult,
    median: Option<f64>,
    value: impl Fn(&Run) -> Option<f64>,
) -> String {
    median_in(&Unit::of("", 0.0), result, median, value)
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
