//! `wakepath measure path`: what the CPU does for a read, and what system calls, context switches and ticks take.

use std::path::PathBuf;
use std::time::Duration;

use wakepath_measure::ExperimentControl;
use wakepath_measure::path::{CompletionLine, PathLoad, PathMeasurement, PathPlan, measure};
use wakepath_measure::summary::Estimate;
use wakepath_system::System;

use super::experiment::{PlanReport, print_notes};
use crate::output::{self, Format, Screen};
use crate::until;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo wakepath measure path --file /var/lib/data.img
  sudo wakepath measure path --file /var/lib/data.img --time 30s --format json")]
pub(super) struct Args {
    /// A file that is there, or a drive's device: it is read, and nothing is written.
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// How long to measure.
    #[arg(long, value_name = "TIME", default_value = "14s", value_parser = until::parse_duration_or_seconds)]
    time: Duration,
    /// Say what would be done and how long that takes, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let plan = PathPlan::new(&args.file, args.time);
    plan.check()?;
    let report = PlanReport::new(plan.steps(), plan.duration(), plan.describe());
    if args.dry_run {
        return report.print_plan(args.format, out);
    }
    let system = System::live();
    let result = report.announce_and_carry_out("", |finished, cancelled| {
        let control = ExperimentControl::new(finished, cancelled);
        Ok(measure(&system, &plan, control)?)
    })?;
    print_notes(&result.notes);
    match args.format {
        Format::Json => output::write_json(out, &result),
        Format::Csv => output::write_csv(out, HEADER, result.loads.iter().map(row_for_load)),
        Format::Table => print_tables(&result, out),
    }
}

const HEADER: [&str; 8] = [
    "depth",
    "reads",
    "mean us",
    "median",
    "p99",
    "task on CPU us",
    "ready, not running us",
    "interrupts per read",
];

fn row_for_load(load: &PathLoad) -> [String; 8] {
    let us = |ns: Option<f64>| ns.map_or_else(String::new, |ns| format!("{:.2}", ns / 1e3));
    let interrupts: f64 = load.completions.iter().map(|line| line.per_read).sum();
    let latency = &load.latency;
    [
        load.depth.to_string(),
        load.reads.to_string(),
        us(Some(latency.mean.ns)),
        us(Some(latency.median.ns)),
        us(Some(latency.p99.0 as f64)),
        us(load.task_ns),
        us(load.waiting_ns),
        format!("{interrupts:.2}"),
    ]
}

fn print_tables(result: &PathMeasurement, out: &mut Screen) -> anyhow::Result<()> {
    out.write_folded(
        &format!(
            "{}: 4 KiB direct random reads, {}, Linux {}",
            result.file, result.conditions.date, result.conditions.kernel
        ),
        2,
    )?;
    output::write_table(out, HEADER, result.loads.iter().map(row_for_load))?;
    writeln!(out)?;
    for line in figures_in_sentences(result) {
        out.write_folded(&line, 2)?;
    }
    Ok(())
}

/// Sentences on what the measured figures mean.
fn figures_in_sentences(result: &PathMeasurement) -> Vec<String> {
    let mut lines = Vec::new();
    let single = result.loads.iter().find(|load| load.depth == 1);
    let completions = single.map_or(&[][..], |load| &load.completions);
    lines.extend(completions.iter().map(completions_in_words));
    if single.is_some() && completions.is_empty() {
        lines.push("completions: no interrupt came with the reads, so the driver polls or the device hides it".to_owned());
    }
    let time = |what: &str, estimate: Option<Estimate>| {
        estimate.map(|estimate| {
            let [value, low, high] = [estimate.ns, estimate.low, estimate.high].map(|ns| ns / 1e3);
            format!("{what}: {value:.3} us ({low:.3} to {high:.3})")
        })
    };
    lines.extend(time("system call", result.system_call));
    lines.extend(time(
        "context switch, with the wake-up before it",
        result.context_switch,
    ));
    lines.extend(result.interruptions.map(|found| {
        format!(
            "a spinning thread: interrupted {:.0} times per s, for {:.2} us in the median (ticks, and others' work)",
            found.per_second,
            found.median_ns / 1e3
        )
    }));
    lines
}

fn completions_in_words(line: &CompletionLine) -> String {
    let shares: Vec<String> = line
        .shares
        .iter()
        .map(|(cpu, share)| format!("{:.0} % on CPU {cpu}", share * 100.0))
        .collect();
    format!(
        "completions: {}, {:.2} interrupts per read: {}",
        line.name,
        line.per_read,
        shares.join(", ")
    )
}
