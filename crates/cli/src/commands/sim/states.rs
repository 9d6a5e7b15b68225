//! CPU time by idle state.

use wakepath_hardware::Machine;
use wakepath_sim::{PolicyComparison, PolicyResult};

use super::columns::{header, percent, row};
use super::power;
use crate::output::{self, Screen};

/// Writes CPU time by idle state, and power.
pub(super) fn write_states(
    out: &mut Screen,
    machine: &Machine,
    comparison: &PolicyComparison,
) -> anyhow::Result<()> {
    writeln!(
        out,
        "\nShare of CPU time, all {} CPUs, first run\n",
        machine.cpus()
    )?;
    output::table(
        out,
        header(&[
            "state",
            "time %",
            "usage",
            "above",
            "below",
            "too deep",
            "too shallow",
        ]),
        comparison.results.iter().flat_map(state_rows),
    )?;
    power::write(out, machine, comparison)
}

/// Rows for the first run's idle states, and for busy time.
pub(super) fn state_rows(result: &PolicyResult) -> Vec<Vec<String>> {
    let Some(run) = result.runs.first() else {
        return Vec::new();
    };
    let all = run.seconds * run.cpus.len() as f64;
    let busy: f64 = run.cpus.iter().map(|c| c.busy_seconds).sum();
    let mut rows: Vec<Vec<String>> = run
        .idle_states
        .iter()
        .map(|s| {
            row(
                result,
                [
                    s.name.clone(),
                    percent(s.seconds, all),
                    s.entries.to_string(),
                    s.above.to_string(),
                    s.below.to_string(),
                    s.too_deep.to_string(),
                    s.too_shallow.to_string(),
                ],
            )
        })
        .collect();
    let none = String::new;
    rows.push(row(
        result,
        [
            "(busy)".into(),
            percent(busy, all),
            none(),
            none(),
            none(),
            none(),
            none(),
        ],
    ));
    rows
}
