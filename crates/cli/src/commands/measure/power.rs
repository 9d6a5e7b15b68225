//! `wakepath measure power`: what the machine draws at rest, with busy CPUs, and in each idle state.

use std::time::Duration;

use rustix::process::geteuid;
use wakepath_measure::power::{PowerEstimate, PowerFigure, PowerMeasurement, PowerPlan, measure};
use wakepath_report::html::measurements::{MeasuredInterval, MeasuredPicture, MeasuredSection};

use super::experiment::{PlanReport, print_notes};
use super::page::{PageArgs, describe_conditions, page_head, page_rows};
use crate::commands::live::RootArgs;
use crate::output::{self, Format, Screen};
use crate::until;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo wakepath measure power --dry-run
  sudo wakepath measure power --time 2m")]
pub(super) struct Args {
    /// How long to measure [default: 8 s for each condition].
    #[arg(long, value_name = "TIME", value_parser = until::parse_duration_or_seconds)]
    time: Option<Duration>,
    /// Say what would be done and how long that takes, and do nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    root: RootArgs,
    #[command(flatten)]
    page: PageArgs,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let system = args.root.open_system()?;
    let captured = args.root.directory().is_some();
    anyhow::ensure!(
        args.dry_run || !captured,
        "--root: a captured machine cannot be measured; --dry-run says what would be done there"
    );
    args.page.check()?;
    let forced = captured || geteuid().is_root();
    let plan = PowerPlan::new(&system, forced, args.time)?;
    let report = PlanReport::new(plan.steps(), plan.duration(), plan.describe());
    if args.dry_run {
        return report.print_plan(args.format, out);
    }
    let result = report.announce_and_measure("", |control| measure(&system, &plan, control))?;
    print_notes(&result.notes);
    match args.format {
        Format::Json => output::write_json(out, &result),
        Format::Csv => output::write_csv(out, HEADER, rows_by_figure(&result)),
        Format::Table => output::write_table(out, HEADER, rows_by_figure(&result)),
    }?;
    // What was measured is shown even where it cannot be written any more.
    output::print_result(out)?;
    args.page.write(
        "Power",
        describe_conditions(&result.conditions),
        &result.notes,
        || sections(&result),
    )
}

/// What each source of power draws under each condition.
pub(in crate::commands) fn sections(result: &PowerMeasurement) -> Vec<MeasuredSection> {
    let lines = result.figures.iter().map(|figure| MeasuredInterval {
        name: format!("{}: {}", figure.source, figure.condition.describe()),
        value: figure.power.mw,
        low: figure.power.low,
        high: figure.power.high,
        reference: None,
    });
    vec![MeasuredSection {
        title: "Power, mW".to_owned(),
        note: "Means with 95 % intervals. Sources overlap, and are never added.".to_owned(),
        picture: Some(MeasuredPicture::Intervals(lines.collect())),
        head: page_head(HEADER),
        rows: page_rows(rows_by_figure(result)),
    }]
}

const HEADER: [&str; 12] = [
    "source",
    "condition",
    "n",
    "mW",
    "from",
    "to",
    "above rest mW",
    "from",
    "to",
    "each CPU above deepest mW",
    "from",
    "to",
];

fn rows_by_figure(result: &PowerMeasurement) -> Vec<[String; 12]> {
    result.figures.iter().map(row_for_figure).collect()
}

fn row_for_figure(figure: &PowerFigure) -> [String; 12] {
    let [mw, low, high] = value_and_interval_cells(Some(figure.power));
    let [beyond, beyond_low, beyond_high] = value_and_interval_cells(figure.above_rest);
    let [above, above_low, above_high] = value_and_interval_cells(figure.each_cpu_above_deepest);
    [
        figure.source.clone(),
        figure.condition.describe(),
        figure.n.to_string(),
        mw,
        low,
        high,
        beyond,
        beyond_low,
        beyond_high,
        above,
        above_low,
        above_high,
    ]
}

/// Cells for an estimate's value and interval; empty if there is no estimate.
fn value_and_interval_cells(estimate: Option<PowerEstimate>) -> [String; 3] {
    let parts = estimate.map(|estimate| [estimate.mw, estimate.low, estimate.high]);
    std::array::from_fn(|part| {
        parts.map_or_else(String::new, |parts| format!("{:.0}", parts[part]))
    })
}
