//! What `wakepath sim` prints of an rt-app workload.

use std::io::Write;

use wakepath_hardware::Machine;
use wakepath_sim::{PolicyComparison, PolicyResult, Run, TaskRun};

use super::{figures, header, row, write_states};
use crate::output;

/// Each task of a run.
fn tasks(run: &Run) -> &[TaskRun] {
    run.threads.as_ref().map_or(&[], |t| &t.tasks)
}

/// One line per run and task.
pub(super) fn write_csv(out: &mut impl Write, comparison: &PolicyComparison) -> anyhow::Result<()> {
    let columns = [
        "seed",
        "operations_per_second",
        "task",
        "threads",
        "loops",
        "loops_per_second",
        "loop_mean_us",
        "loop_p50_us",
        "loop_p99_us",
        "wake_ups",
        "wake_mean_us",
        "wake_p50_us",
        "wake_p99_us",
        "mean_mhz",
        "mean_mw",
    ];
    let rows = comparison.results.iter().flat_map(|result| {
        result.runs.iter().flat_map(move |run| {
            let operations = run.threads.as_ref().map(|t| t.operations_per_second);
            let energy = run.energy.as_ref().map(|e| e.mean_mw.to_string());
            tasks(run).iter().map(move |task| {
                row(
                    result,
                    [
                        run.seed.to_string(),
                        operations.unwrap_or_default().to_string(),
                        task.name.clone(),
                        task.threads.to_string(),
                        task.loops.to_string(),
                        task.loops_per_second.to_string(),
                        task.loop_us.mean.to_string(),
                        task.loop_us.p50.to_string(),
                        task.loop_us.p99.to_string(),
                        task.wake_ups.to_string(),
                        task.wake_us.mean.to_string(),
                        task.wake_us.p50.to_string(),
                        task.wake_us.p99.to_string(),
                        run.mean_mhz.to_string(),
                        energy.clone().unwrap_or_default(),
                    ],
                )
            })
        })
    });
    output::csv(out, header(&columns), rows)
}

pub(super) fn write_tables(
    out: &mut impl Write,
    machine: &Machine,
    comparison: &PolicyComparison,
) -> anyhow::Result<()> {
    let runs = comparison.results.first().map_or(0, |r| r.runs.len());
    writeln!(out, "{}: median of {runs} run(s)\n", machine.title)?;
    let power = figures::power(comparison);
    output::table(
        out,
        header(&[
            "operations/s",
            "MHz",
            &power.name,
            "uJ per operation",
            "too deep",
            "too shallow",
        ]),
        comparison.results.iter().map(|r| {
            row(
                r,
                [
                    figures::median(r, r.operations_per_second, |run| {
                        Some(run.threads.as_ref()?.operations_per_second)
                    }),
                    figures::median(r, Some(r.mean_mhz), |run| Some(run.mean_mhz)),
                    figures::mean_power(r, &power),
                    figures::energy(r),
                    format!("{:.0}", r.too_deep),
                    format!("{:.0}", r.too_shallow),
                ],
            )
        }),
    )?;
    writeln!(
        out,
        "\nTasks: loops, and us from a wake-up's cause until the thread runs, first run\n"
    )?;
    let columns = [
        "task",
        "threads",
        "loops/s",
        "loop us",
        "p50",
        "p99",
        "wake-ups",
        "wake us",
        "p50",
        "p99",
        "slack",
        "ipi",
        "idle exit",
        "wait",
    ];
    output::table(
        out,
        header(&columns),
        comparison.results.iter().flat_map(task_rows),
    )?;
    write_states(out, machine, comparison)
}

fn task_rows(result: &PolicyResult) -> Vec<Vec<String>> {
    let Some(run) = result.runs.first() else {
        return Vec::new();
    };
    tasks(run)
        .iter()
        .map(|task| {
            let us = |us: f64| format!("{us:.1}");
            row(
                result,
                [
                    task.name.clone(),
                    task.threads.to_string(),
                    format!("{:.0}", task.loops_per_second),
                    us(task.loop_us.mean),
                    us(task.loop_us.p50),
                    us(task.loop_us.p99),
                    task.wake_ups.to_string(),
                    us(task.wake_us.mean),
                    us(task.wake_us.p50),
                    us(task.wake_us.p99),
                    us(task.wake_parts.timer_slack),
                    us(task.wake_parts.interrupt_delivery),
                    us(task.wake_parts.idle_exit),
                    us(task.wake_parts.waiting_to_run),
                ],
            )
        })
        .collect()
}
