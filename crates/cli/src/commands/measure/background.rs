//! `wakepath measure background`: what wakes the CPUs of a machine at rest.

use std::time::Duration;

use wakepath_measure::background::{
    BackgroundMeasurement, BackgroundPlan, CauseKind, CauseRate, measure,
};
use wakepath_report::html::measurements::{MeasuredInterval, MeasuredPicture, MeasuredSection};
use wakepath_system::System;

use super::experiment::{PlanReport, print_notes};
use super::page::{PageArgs, describe_conditions, page_head, page_rows};
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
    #[command(flatten)]
    page: PageArgs,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    args.page.check()?;
    let plan = BackgroundPlan::new(args.time);
    let report = PlanReport::new(plan.steps(), plan.duration(), plan.describe());
    if args.dry_run {
        return report.print_plan(args.format, out);
    }
    let system = System::live();
    let result = report.announce_and_measure("", |control| measure(&system, &plan, control))?;
    print_notes(&result.notes);
    match args.format {
        Format::Json => output::write_json(out, &result),
        Format::Csv => output::write_csv(out, CSV_HEADER, csv_rows_by_cause_and_cpu(&result)),
        Format::Table => print_tables(&result, out),
    }?;
    // What was measured is shown even where it cannot be written any more.
    output::print_result(out)?;
    args.page.write(
        "The machine at rest",
        describe_conditions(&result.conditions),
        &result.notes,
        || sections(&result),
    )
}

/// Most causes in a picture; the table has all.
const DRAWN_CAUSES: usize = 20;

/// What wakes the CPUs of a machine at rest, by cause.
pub(in crate::commands) fn sections(result: &BackgroundMeasurement) -> Vec<MeasuredSection> {
    let mut causes: Vec<&CauseRate> = result
        .causes
        .iter()
        .filter(|c| c.per_second > 0.0)
        .collect();
    causes.sort_by(|a, b| b.per_second.total_cmp(&a.per_second));
    let lines = causes
        .iter()
        .take(DRAWN_CAUSES)
        .map(|cause| MeasuredInterval {
            name: format!("{} ({})", cause.name, name_cause_kind(cause.kind)),
            value: cause.per_second,
            low: cause.per_second,
            high: cause.per_second,
            reference: None,
        });
    vec![MeasuredSection {
        title: "The machine at rest: times per second, all CPUs".to_owned(),
        note: format!(
            "Watched for {:.0} s. The {} most frequent causes of {} are drawn.",
            result.seconds,
            causes.len().min(DRAWN_CAUSES),
            causes.len()
        ),
        picture: Some(MeasuredPicture::Intervals(lines.collect())),
        head: page_head(HEADER),
        rows: page_rows(rows_by_cause(result)),
    }]
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
