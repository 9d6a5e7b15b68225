//! Tables by `wakepath sim` for rt-app workloads.

use std::path::Path;

use wakepath_hardware::Machine;
use wakepath_sim::{Run, TaskRun};
use wakepath_study::run::sim::{SimComparison, SimulatedPolicy};
use wakepath_workloads::Workload;

use super::columns::{metric_cell, policy_header, policy_row, write_heading};
use super::figures;
use super::states::write_states;
use crate::messages::{self, MessageKind};
use crate::output::{self, Screen};

/// A run's tasks.
fn count_tasks(run: &Run) -> &[TaskRun] {
    run.threads.as_ref().map_or(&[], |t| &t.tasks)
}

/// Notes outcomes unlike the file's apparent intention.
pub(super) fn tell_thread_notes(job: &Path, workload: &Workload, comparison: &SimComparison) {
    let Workload::RtApp(file) = workload else {
        return;
    };
    let job = job.display().to_string();
    for task in &file.tasks {
        if let Some(message) = never_ran(&task.name, comparison) {
            let place = format!("{job}:{}", task.line);
            messages::add_message(MessageKind::Warning, Some(&place), message);
        }
    }
    let mut runs = comparison.results.iter().flat_map(|result| &result.runs);
    let mut threads = runs.clone().filter_map(|run| run.threads.as_ref());
    if let Some(halted) = threads.find_map(|threads| threads.halted.as_ref()) {
        let text = format!(
            "after {:.3} s every thread that has not ended waits for another one: {}",
            halted.after_seconds, halted.waits
        );
        messages::add_message(MessageKind::Note, Some(&job), text);
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
        messages::add_message(MessageKind::Note, Some(&job), text);
    }
}

/// The reason why a task did nothing.
fn never_ran(task: &str, comparison: &SimComparison) -> Option<String> {
    let found: Vec<(String, String)> = comparison
        .results
        .iter()
        .filter_map(|result| {
            let tasks = result.runs.iter().flat_map(count_tasks);
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

/// One line per run and task.
pub(super) fn write_csv(out: &mut Screen, comparison: &SimComparison) -> anyhow::Result<()> {
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
            let [operations, mhz, power] =
                ["ops_per_s", "mean_mhz", "mean_mw"].map(|name| metric_cell(record, name));
            count_tasks(run).iter().map(move |task| {
                policy_row(
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
    output::csv(out, policy_header(&columns), rows)
}

pub(super) fn write_tables(
    out: &mut Screen,
    machine: &Machine,
    comparison: &SimComparison,
) -> anyhow::Result<()> {
    write_heading(out, &machine.title, comparison)?;
    let power = figures::power_unit(machine, comparison);
    let energy = figures::energy_unit(machine, comparison);
    output::table(
        out,
        policy_header(&[
            "operations/s",
            "MHz",
            &power.name,
            &format!("{} per operation", energy.name),
            "too deep",
            "too shallow",
        ]),
        comparison.results.iter().map(|r| {
            policy_row(
                r,
                [
                    figures::metric_text(r, "ops_per_s"),
                    figures::metric_text(r, "mean_mhz"),
                    figures::mean_power(r, &power),
                    figures::energy_text(r, &energy),
                    figures::idle_count(r, |idle| idle.too_deep),
                    figures::idle_count(r, |idle| idle.too_shallow),
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
        policy_header(&columns),
        comparison.results.iter().flat_map(task_rows),
    )?;
    write_states(out, machine, comparison)
}

fn task_rows(result: &SimulatedPolicy) -> Vec<Vec<String>> {
    let Some(run) = result.runs.first() else {
        return Vec::new();
    };
    count_tasks(run)
        .iter()
        .map(|task| {
            policy_row(
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
