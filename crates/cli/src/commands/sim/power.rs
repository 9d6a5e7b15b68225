//! Power by component, of the first run.

use wakepath_compare::figure::{Unit, fixed};
use wakepath_hardware::Machine;
use wakepath_sim::{Energy, PolicyComparison, PolicyResult};

use super::{figures, header, row};
use crate::output::{self, Screen};

/// What each kind of component drew; nothing if the machine's description has no power figures. All have as many digits
/// after the point as the largest deserves.
pub(super) fn write(
    out: &mut Screen,
    machine: &Machine,
    comparison: &PolicyComparison,
) -> anyhow::Result<()> {
    let drew = |result: &PolicyResult| {
        let run = result.runs.first()?;
        Some(components(run.energy.as_ref()?, run.seconds))
    };
    let all: Vec<_> = (comparison.results.iter())
        .filter_map(|result| Some((result, drew(result)?)))
        .collect();
    if all.is_empty() {
        return Ok(());
    }
    let powers = || all.iter().flat_map(|(_, c)| c.milliwatts).flatten();
    let unit = figures::digits_of(machine, Unit::for_values("mW", powers()));
    let decimals = unit.decimals(powers().fold(0.0, f64::max), None).min(1);
    let rows = all.iter().map(|(result, of)| {
        let [cpus, clusters, uncore, package, drives, rest] = of
            .milliwatts
            .map(|mw| mw.map_or_else(String::new, |mw| fixed(mw * unit.factor, decimals)));
        let clock = of
            .uncore_mhz
            .map_or_else(String::new, |mhz| format!("{mhz:.0}"));
        row(
            result,
            [cpus, clusters, uncore, clock, package, drives, rest],
        )
    });
    let mut runs = comparison.results.iter().flat_map(|result| &result.runs);
    let scope = runs.find_map(|run| run.energy.as_ref()?.scope);
    let counts = scope.map_or_else(String::new, |scope| format!(" ({})", scope.name()));
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
    output::table(out, header(&columns), rows)
}

/// What a run's components drew.
struct Components {
    /// CPUs, clusters, uncore, package, drives, the whole machine at rest; none where there is no such part.
    milliwatts: [Option<f64>; 6],
    uncore_mhz: Option<f64>,
}

fn components(energy: &Energy, seconds: f64) -> Components {
    let power = |millijoules: f64| millijoules / seconds.max(1e-9);
    let sum = |parts: &[f64]| (!parts.is_empty()).then(|| power(parts.iter().sum()));
    Components {
        milliwatts: [
            sum(&energy.cpus_mj),
            sum(&energy.clusters_mj),
            sum(&energy.uncores_mj),
            Some(power(energy.package_mj)),
            sum(&energy.drives_mj),
            Some(energy.idle_mw),
        ],
        uncore_mhz: energy.uncore_mhz,
    }
}
