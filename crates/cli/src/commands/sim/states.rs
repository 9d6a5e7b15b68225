//! Table by `wakepath sim` with CPU time by idle state.

use wakepath_hardware::Machine;
use wakepath_results::Idle;
use wakepath_results::rows::BUSY;
use wakepath_study::run::sim::{SimComparison, SimulatedPolicy};

use super::columns::{header_with_policy, percent_of_time, row_with_policy};
use super::power;
use crate::output::{self, Screen};

const COLUMNS: [&str; 7] = [
    "state",
    "time %",
    "usage",
    "above",
    "below",
    "too deep",
    "too shallow",
];

/// Writes tables of CPU time by idle state, and of power.
pub(super) fn write_idle_state_shares_and_power(
    out: &mut Screen,
    machine: &Machine,
    comparison: &SimComparison,
) -> anyhow::Result<()> {
    writeln!(
        out,
        "\nShare of CPU time, all {} CPUs, first run\n",
        machine.cpus()
    )?;
    output::write_table(
        out,
        header_with_policy(&COLUMNS),
        comparison
            .results
            .iter()
            .flat_map(|result| first_run_state_rows(result, machine.cpus())),
    )?;
    power::write_first_run_component_power(out, machine, comparison)
}

/// Rows for the idle states of the first run, and for busy time.
pub(super) fn first_run_state_rows(result: &SimulatedPolicy, cpus: usize) -> Vec<Vec<String>> {
    let Some(run) = result.rows.first() else {
        return Vec::new();
    };
    let all = run.duration_ns as f64 * cpus as f64;
    let mut names: Vec<&str> = Vec::new();
    for idle in run.idle.iter().filter(|idle| idle.state != BUSY) {
        if !names.contains(&idle.state.as_str()) {
            names.push(&idle.state);
        }
    }
    let mut rows: Vec<Vec<String>> = names
        .into_iter()
        .map(|name| {
            let sum = |count: fn(&Idle) -> u64| -> u64 {
                let kinds = run.idle.iter().filter(|idle| idle.state == name);
                kinds.map(count).sum()
            };
            row_with_policy(
                result,
                [
                    name.to_owned(),
                    percent_of_time(sum(|idle| idle.time_ns) as f64, all),
                    sum(|idle| idle.entries).to_string(),
                    sum(|idle| idle.above.unwrap_or(0)).to_string(),
                    sum(|idle| idle.below.unwrap_or(0)).to_string(),
                    sum(|idle| idle.too_deep).to_string(),
                    sum(|idle| idle.too_shallow).to_string(),
                ],
            )
        })
        .collect();
    let busy = run.idle.iter().filter(|idle| idle.state == BUSY);
    let busy: u64 = busy.map(|idle| idle.time_ns).sum();
    let mut last = vec![result.policy.to_string(), BUSY.to_owned()];
    last.push(percent_of_time(busy as f64, all));
    last.resize(COLUMNS.len() + 1, String::new());
    rows.push(last);
    rows
}
