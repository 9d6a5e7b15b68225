//! Power by component in the first run.

use wakepath_compare::figure::{Unit, fixed};
use wakepath_hardware::Machine;
use wakepath_sim::Energy;
use wakepath_study::run::sim::{SimComparison, SimulatedPolicy};

use super::columns::{policy_header, policy_row};
use super::figures;
use crate::output::{self, Screen};

/// What each kind of component drew; nothing if the machine's description has no power figures. All have as many digits
/// after the point as the largest deserves.
pub(super) fn write_power(
    out: &mut Screen,
    machine: &Machine,
    comparison: &SimComparison,
) -> anyhow::Result<()> {
    let all: Vec<(&SimulatedPolicy, Components)> = (comparison.results.iter())
        .filter_map(|result| {
            let run = result.runs.first()?;
            Some((result, power_components(run.energy.as_ref()?, run.seconds)))
        })
        .collect();
    if all.is_empty() {
        return Ok(());
    }
    let powers = all.iter().flat_map(|(_, c)| c.milliwatts).flatten();
    let unit = figures::fit_digits(machine, Unit::for_values("mW", powers.clone()));
    let decimals = unit.decimals(powers.fold(0.0, f64::max), None).min(1);
    let rows = all.iter().map(|(result, parts)| {
        let [cpus, clusters, uncore, package, drives, rest] = parts
            .milliwatts
            .map(|mw| mw.map_or_else(String::new, |mw| fixed(mw * unit.factor, decimals)));
        let clock = parts
            .uncore_mhz
            .map_or_else(String::new, |mhz| format!("{mhz:.0}"));
        policy_row(
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
    output::table(out, policy_header(&columns), rows)
}

/// A run's power by component.
struct Components {
    /// CPUs, clusters, uncore, package, drives, the whole machine at rest; none where there is no such part.
    milliwatts: [Option<f64>; 6],
    uncore_mhz: Option<f64>,
}

fn power_components(energy: &Energy, seconds: f64) -> Components {
    let package = energy.package_mj / seconds.max(1e-9);
    Components {
        milliwatts: [
            mean_power(&energy.cpus_mj, seconds),
            mean_power(&energy.clusters_mj, seconds),
            mean_power(&energy.uncores_mj, seconds),
            Some(package),
            mean_power(&energy.drives_mj, seconds),
            Some(energy.idle_mw),
        ],
        uncore_mhz: energy.uncore_mhz,
    }
}

/// All parts' mean power in mW; `None` without parts.
fn mean_power(millijoules: &[f64], seconds: f64) -> Option<f64> {
    let sum: f64 = millijoules.iter().sum();
    (!millijoules.is_empty()).then(|| sum / seconds.max(1e-9))
}
