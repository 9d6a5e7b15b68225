//! Power by component, of the first run.

use std::io::Write;

use wakepath_sim::{Comparison, Energy};

use super::{header, row};
use crate::output;

/// What each kind of component drew; nothing if the machine's description has no power figures.
pub(super) fn write(out: &mut impl Write, comparison: &Comparison) -> anyhow::Result<()> {
    let rows: Vec<Vec<String>> = (comparison.results.iter())
        .filter_map(|result| {
            let run = result.runs.first()?;
            let energy = run.energy.as_ref()?;
            Some(row(result, components(energy, run.seconds)))
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nMean power by component in mW, first run\n")?;
    let columns = [
        "CPUs",
        "clusters",
        "uncore",
        "uncore MHz",
        "package",
        "drives",
        "at rest",
    ];
    output::table(out, header(comparison, &columns), rows)
}

fn components(energy: &Energy, seconds: f64) -> [String; 7] {
    let power = |millijoules: f64| format!("{:.0}", millijoules / seconds.max(1e-9));
    let sum = |parts: &[f64]| match parts {
        [] => String::new(),
        parts => power(parts.iter().sum()),
    };
    [
        sum(&energy.cpus_mj),
        sum(&energy.clusters_mj),
        sum(&energy.uncores_mj),
        energy
            .uncore_mhz
            .map_or_else(String::new, |mhz| format!("{mhz:.0}")),
        power(energy.package_mj),
        sum(&energy.drives_mj),
        format!("{:.0}", energy.idle_mw),
    ]
}
