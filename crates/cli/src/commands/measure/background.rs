//! `wakepath measure background`: what wakes the CPUs of a machine at rest.

use std::time::Duration;

use wakepath_measure::ExperimentControl;
use wakepath_measure::background::{
    BackgroundMeasurement, BackgroundPlan, CauseKind, CauseRate, measure,
};
use wakepath_system::System;

use super::experiment::{PlanReport, print_notes};
use crate::output::{self, Format, Screen};
use crate::until;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  wakepath measure background
  wakepath measure background --time 10s --format csv")]
pub(super) struct Args {
    /// How long to watch.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = until::parse_duration_or_seconds)]
    time: Duration,
    /// Say what would be done and how long that takes, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let plan = BackgroundPlan::new(args.time);
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
        Format::Csv => output::write_csv(out, CSV_HEADER, csv_rows_by_cause_and_cpu(&result)),
        Format::Table => print_tables(&result, out),
    }
}

const HEADER: [&str; 5] = ["cause", "per s", "busiest CPU", "per s there", "kind"];
const CSV_HEADER: [&str; 4] = ["kind", "cause", "CPU", "per s"];

const fn name_cause_kind(kind: CauseKind) -> &'static str {
    match kind {
        CauseKind::Interrupt => "interrupt",
        CauseKind::SoftInterrupt => "soft interrupt",
        CauseKind::IdleState => "idle periods",
    }
}

/// A table row for each cause of wake-ups.
fn rows_by_cause(result: &BackgroundMeasurement) -> Vec<[String; 5]> {
    let row = |cause: &CauseRate| {
        let by_cpu = cause.by_cpu.iter().zip(&result.cpus);
        let busiest = by_cpu.max_by(|a, b| a.0.total_cmp(b.0));
        [
            cause.name.clone(),
            format!("{:.1}", cause.per_second),
            busiest.map_or_else(String::new, |(_, cpu)| cpu.to_string()),
            busiest.map_or_else(String::new, |(rate, _)| format!("{rate:.1}")),
            name_cause_kind(cause.kind).to_owned(),
        ]
    };
    result.causes.iter().map(row).collect()
}

/// A CSV row for each cause of wake-ups and each CPU.
fn csv_rows_by_cause_and_cpu(result: &BackgroundMeasurement) -> impl Iterator<Item = [String; 4]> {
    result.causes.iter().flat_map(|cause| {
        let by_cpu = cause.by_cpu.iter().zip(&result.cpus);
        by_cpu.map(|(rate, cpu)| {
            [
                name_cause_kind(cause.kind).to_owned(),
                cause.name.clone(),
                cpu.to_string(),
                format!("{rate:.3}"),
            ]
        })
    })
}

fn print_tables(result: &BackgroundMeasurement, out: &mut Screen) -> anyhow::Result<()> {
    let known = |value: Option<f64>, unit: &str| {
        value.map_or_else(
            || "not known".to_owned(),
            |value| format!("{value:.1}{unit}"),
        )
    };
    out.write_folded(
        &format!(
            "watched for {:.0} s, {}, Linux {}: context switches {}, CPUs busy {}",
            result.seconds,
            result.conditions.date,
            result.conditions.kernel,
            known(result.context_switches, " per s"),
            known(result.busy_percent, " %")
        ),
        2,
    )?;
    output::write_table(out, HEADER, rows_by_cause(result))
}
