//! What `wakepath sim` prints of an rt-app workload.

use std::path::Path;

use wakepath_hardware::Machine;
use wakepath_sim::{PolicyComparison, PolicyResult, Run, TaskRun, ThreadsRun};
use wakepath_workloads::Workload;

use super::{figures, header, row, write_states};
use crate::messages::{self, Kind};
use crate::output::{self, Screen};

/// Each task of a run.
fn tasks(run: &Run) -> &[TaskRun] {
    run.threads.as_ref().map_or(&[], |t| &t.tasks)
}

/// Says what came out otherwise than the file leads one to expect.
pub(super) fn tell(job: &Path, workload: &Workload, comparison: &PolicyComparison) {
    let Workload::RtApp(file) = workload else {
        return;
    };
    let job = job.display().to_string();
    for task in &file.tasks {
        if let Some(message) = never_ran(&task.name, comparison) {
            let place = format!("{job}:{}", task.line);
            messages::add(Kind::Warning, Some(&place), message);
        }
    }
    let runs = || comparison.results.iter().flat_map(|result| &result.runs);
    let threads = || runs().filter_map(|run| run.threads.as_ref());
    if let Some(halted) = threads().find_map(|threads| threads.halted.as_ref()) {
        let text = format!(
            "after {:.3} s every thread that has not ended waits for another one: {}",
            halted.after_seconds, halted.waits
        );
        messages::add(Kind::Note, Some(&job), text);
    }
    let capped = |run: &&Run| run.threads.as_ref().is_some_and(|t| t.time_capped);
    if let Some(run) = runs().find(capped) {
        let asked = match file.duration {
            Some(duration) => format!("of its {} s", duration.as_secs_f64()),
            None => "of its threads, which have not ended,".to_owned(),
        };
        let text = format!(
            "{asked} {} s were simulated; --seconds N simulates more or less",
            run.seconds
        );
        messages::add(Kind::Note, Some(&job), text);
    }
}

/// What to say of a task that did nothing.
fn never_ran(task: &str, comparison: &PolicyComparison) -> Option<String> {
    let why = |threads: &ThreadsRun| {
        let found = threads.tasks.iter().find(|t| t.name == task);
        found.and_then(|t| t.never_ran.clone())
    };
    let in_result = |result: &PolicyResult| {
        let mut runs = result.runs.iter().filter_map(|run| run.threads.as_ref());
        Some((result.policy.to_string(), runs.find_map(why)?))
    };
    let found: Vec<(String, String)> = comparison.results.iter().filter_map(in_result).collect();
    let (first, why) = found.first()?;
    let under = match found.len() {
        all if all == comparison.results.len() => String::new(),
        1 => format!(" under {first}"),
        some => format!(" under {first} and {} more", some - 1),
    };
    Some(format!("task `{task}` never ran{under}: {why}"))
}

/// One line per run and task.
pub(super) fn write_csv(out: &mut Screen, comparison: &PolicyComparison) -> anyhow::Result<()> {
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
    out: &mut Screen,
    machine: &Machine,
    comparison: &PolicyComparison,
) -> anyhow::Result<()> {
    let runs = comparison.results.first().map_or(0, |r| r.runs.len());
    out.prose(&format!("{}: median of {runs} run(s)", machine.title), 2)?;
    writeln!(out)?;
    let power = figures::power(machine, comparison);
    let energy = figures::energy_unit(machine, comparison);
    output::table(
        out,
        header(&[
            "operations/s",
            "MHz",
            &power.name,
            &format!("{} per operation", energy.name),
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
                    figures::energy(r, &energy),
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
