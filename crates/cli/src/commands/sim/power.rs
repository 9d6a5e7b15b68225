//! Table by `wakepath sim` with the power of each component in the first run.

use wakepath_compare::figure::{Unit, format_fixed};
use wakepath_hardware::Machine;
use wakepath_sim::Energy;
use wakepath_study::run::sim::{SimComparison, SimulatedPolicy};

use super::columns::{header_with_policy, row_with_policy};
use super::figures;
use crate::output::{self, Screen};

/// Writes what each kind of component drew in the first run; nothing if the machine's description has no power figures.
/// All numbers have as many digits after the point as the largest deserves.
pub(super) fn write_first_run_component_power(
    out: &mut Screen,
    machine: &Machine,
    comparison: &SimComparison,
) -> anyhow::Result<()> {
    let all: Vec<(&SimulatedPolicy, Components)> = (comparison.results.iter())
        .filter_map(|result| {
            let run = result.runs.first()?;
            Some((
                result,
                mean_component_power_mw(run.energy.as_ref()?, run.seconds),
            ))
        })
        .collect();
    if all.is_empty() {
        return Ok(());
    }
    let powers = all.iter().flat_map(|(_, c)| c.milliwatts).flatten();
    let unit =
        figures::fewer_digits_if_power_assumed(machine, Unit::for_values("mW", powers.clone()));
    let decimals = unit
        .decimals_of_figure(powers.fold(0.0, f64::max), None)
        .min(1);
    let rows = all.iter().map(|(result, parts)| {
        let [cpus, clusters, uncore, package, drives, rest] = parts
            .milliwatts
            .map(|mw| mw.map_or_else(String::new, |mw| format_fixed(mw * unit.factor, decimals)));
        let clock = parts
            .uncore_mhz
            .map_or_else(String::new, |mhz| format!("{mhz:.0}"));
        row_with_policy(
            result,
            [cpus, clusters, uncore, clock, package, drives, rest],
        )
    });
    let mut runs = comparison.results.iter().flat_map(|result| &result.runs);
    let scope = runs.find_map(|run| run.energy.as_ref()?.scope);
    let counts = scope.map_or_else(String::new, |scope| format!(" ({})", scope.description()));
    writeln!(
        out,
        "\nMean power by component in {}{counts}, first run\n",
        unit.name
    )?;
    let columns = [
        "CPUs",
        "clusters",
        "uncore",
        "uncore MHz",
        "package",
        "drives",
        "at rest",
    ];
    output::write_table(out, header_with_policy(&columns), rows)
}

/// Mean power in a run by component.
struct Components {
    /// CPUs, clusters, uncore, package, drives, the whole machine at rest; `None` where there is no such part.
    milliwatts: [Option<f64>; 6],
    uncore_mhz: Option<f64>,
}

fn mean_component_power_mw(energy: &Energy, seconds: f64) -> Components {
    let package = energy.package_mj / seconds.max(1e-9);
    Components {
        milliwatts: [
            total_mean_milliwatts(&energy.cpus_mj, seconds),
            total_mean_milliwatts(&energy.clusters_mj, seconds),
            total_mean_milliwatts(&energy.uncores_mj, seconds),
            Some(package),
            total_mean_milliwatts(&energy.drives_mj, seconds),
            Some(energy.idle_mw),
        ],
        uncore_mhz: energy.uncore_mhz,
    }
}

/// Mean power in mW of all parts together, from their energies in mJ; `None` without parts.
fn total_mean_milliwatts(millijoules: &[f64], seconds: f64) -> Option<f64> {
    let sum: f64 = millijoules.iter().sum();
    (!millijoules.is_empty()).then(|| sum / seconds.max(1e-9))
}
