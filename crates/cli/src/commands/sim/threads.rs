//! Tables by `wakepath sim` for rt-app workloads.

use std::path::Path;

use wakepath_hardware::Machine;
use wakepath_sim::{Run, TaskRun};
use wakepath_study::run::sim::{SimComparison, SimulatedPolicy};
use wakepath_workloads::Workload;

use super::columns::{
    header_with_policy, metric_digits_or_empty, row_with_policy, write_heading_with_run_count,
};
use super::figures;
use super::states::write_idle_state_shares_and_power;
use crate::messages::{self, MessageKind};
use crate::output::{self, Screen};

/// A run's tasks.
fn tasks_in_run_or_none(run: &Run) -> &[TaskRun] {
    run.threads.as_ref().map_or(&[], |t| &t.tasks)
}

/// Warns of outcomes that an rt-app file's author hardly intended, such as a task that never ran.
pub(super) fn warn_of_unexpected_rt_app_outcomes(
    job: &Path,
    workload: &Workload,
    comparison: &SimComparison,
) {
    let Workload::RtApp(file) = workload else {
        return;
    };
    let job = job.display().to_string();
    for task in &file.tasks {
        if let Some(message) = sentence_if_never_ran(&task.name, comparison) {
            let place = format!("{job}:{}", task.line);
            messages::hold_message_until_result(MessageKind::Warning, Some(&place), message);
        }
    }
    let mut runs = comparison.results.iter().flat_map(|result| &result.runs);
    let mut threads = runs.clone().filter_map(|run| run.threads.as_ref());
    if let Some(halted) = threads.find_map(|threads| threads.halted.as_ref()) {
        let text = format!(
            "after {:.3} s every thread that has not ended waits for another one: {}",
            halted.after_seconds, halted.waits
        );
        messages::hold_message_until_result(MessageKind::Note, Some(&job), text);
    }
    if let Some(run) = runs.find(|run| run.threads.as_ref().is_some_and(|t| t.time_capped)) {
        let asked = match file.duration {
            Some(duration) => format!("of its {} s", duration.as_secs_f64()),
            None => "of its threads, which have not ended,".to_owned(),
        };
        let text = format!(
            "{asked} {} s were simulated; --seconds N simulates more or less",
            run.seconds
        );
        messages::hold_message_until_result(MessageKind::Note, Some(&job), text);
    }
}

/// A sentence on why a task never ran, and under which policies; `None` if it ran.
fn sentence_if_never_ran(task: &str, comparison: &SimComparison) -> Option<String> {
    let found: Vec<(String, String)> = comparison
        .results
        .iter()
        .filter_map(|result| {
            let tasks = result.runs.iter().flat_map(tasks_in_run_or_none);
            let reason = tasks
                .filter(|t| t.name == task)
                .find_map(|t| t.never_ran.clone());
            Some((result.policy.to_string(), reason?))
        })
        .collect();
    let (first, why) = found.first()?;
    let under = match found.len() {
        all if all == comparison.results.len() => String::new(),
        1 => format!(" under {first}"),
        some => format!(" under {first} and {} more", some - 1),
    };
    Some(format!("task `{task}` never ran{under}: {why}"))
}

/// Writes a CSV line per run and task.
pub(super) fn write_tasks_as_csv(
    out: &mut Screen,
    comparison: &SimComparison,
) -> anyhow::Result<()> {
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
        let runs = result.rows.iter().zip(&result.runs);
        runs.flat_map(move |(record, run)| {
            let [operations, mhz, power] = ["ops_per_s", "mean_mhz", "mean_mw"]
                .map(|name| metric_digits_or_empty(record, name));
            tasks_in_run_or_none(run).iter().map(move |task| {
                row_with_policy(
                    result,
                    [
                        run.seed.to_string(),
                        operations.clone(),
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
                        mhz.clone(),
                        power.clone(),
                    ],
                )
            })
        })
    });
    output::write_csv(out, header_with_policy(&columns), rows)
}

pub(super) fn write_rt_app_tables(
    out: &mut Screen,
    machine: &Machine,
    comparison: &SimComparison,
) -> anyhow::Result<()> {
    write_heading_with_run_count(out, &machine.title, comparison)?;
    let power = figures::unit_for_all_mean_powers(machine, comparison);
    let energy = figures::unit_for_all_energies_per_io(machine, comparison);
    output::write_table(
        out,
        header_with_policy(&[
            "operations/s",
            "MHz",
            &power.name,
            &format!("{} per operation", energy.name),
            "too deep",
            "too shallow",
        ]),
        comparison.results.iter().map(|r| {
            row_with_policy(
                r,
                [
                    figures::median_metric_or_empty(r, "ops_per_s"),
                    figures::median_metric_or_empty(r, "mean_mhz"),
                    figures::median_mean_power_text(r, &power),
                    figures::median_energy_per_io_text(r, &energy),
                    figures::median_idle_count_text(r, |idle| idle.too_deep),
                    figures::median_idle_count_text(r, |idle| idle.too_shallow),
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
    output::write_table(
        out,
        header_with_policy(&columns),
        comparison.results.iter().flat_map(first_run_task_rows),
    )?;
    write_idle_state_shares_and_power(out, machine, comparison)
}

fn first_run_task_rows(result: &SimulatedPolicy) -> Vec<Vec<String>> {
    let Some(run) = result.runs.first() else {
        return Vec::new();
    };
    tasks_in_run_or_none(run)
        .iter()
        .map(|task| {
            row_with_policy(
                result,
                [
                    task.name.clone(),
                    task.threads.to_string(),
                    format!("{:.0}", task.loops_per_second),
                    format!("{:.1}", task.loop_us.mean),
                    format!("{:.1}", task.loop_us.p50),
                    format!("{:.1}", task.loop_us.p99),
                    task.wake_ups.to_string(),
                    format!("{:.1}", task.wake_us.mean),
                    format!("{:.1}", task.wake_us.p50),
                    format!("{:.1}", task.wake_us.p99),
                    format!("{:.1}", task.wake_parts.timer_slack),
                    format!("{:.1}", task.wake_parts.interrupt_delivery),
                    format!("{:.1}", task.wake_parts.idle_exit),
                    format!("{:.1}", task.wake_parts.waiting_to_run),
                ],
            )
        })
        .collect()
}
