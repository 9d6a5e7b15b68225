//! `wakepath calibrate`: a machine file with measured figures, and how far predictions with it are off.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use rustix::process::geteuid;
use serde::Serialize;
use wakepath_calibrate::{
    CalibratedMachine, CalibrationPlan, CalibrationRequest, JobPrediction, calibrate,
};
use wakepath_hardware::machine::{Origin, PredictionError};
use wakepath_system::System;

use super::measure::experiment::{
    PlanReport, announce, check_new, parse_size, print_notes, write_text,
};
use crate::messages::tell;
use crate::output::{self, Format, Screen};
use crate::{until, waiting};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo wakepath calibrate --folder /var/tmp --dry-run
  sudo wakepath calibrate --folder /var/tmp --budget 10m -o machine.toml
  wakepath sim job.fio --machine machine.toml")]
pub(crate) struct Args {
    /// A folder on the drive to measure; test files are made there, and removed.
    #[arg(long, value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Size of the test files: 256m, 4g; larger than the drive's cache is best.
    #[arg(long, value_name = "SIZE", default_value = "1g", value_parser = parse_size)]
    size: u64,
    /// How long all of it takes, without the time to fill the test files.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = until::duration)]
    budget: Duration,
    /// Name of the machine in its file.
    #[arg(long, default_value = "here")]
    name: String,
    /// The machine file to write.
    #[arg(short, long, value_name = "FILE", default_value = "machine.toml")]
    output: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
    /// Say what would be done and how long that takes, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What JSON has.
#[derive(Serialize)]
struct Report<'a> {
    machine: String,
    #[serde(flatten)]
    calibration: &'a CalibratedMachine,
    prediction: Option<&'a PredictionError>,
    measured: usize,
    assumed: usize,
}

pub(super) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    if !args.dry_run {
        check_new(&args.output, args.force)?;
    }
    let system = System::live();
    let request = CalibrationRequest {
        name: args.name.clone(),
        folder: args.folder.clone(),
        file_bytes: args.size,
        budget: args.budget,
        forced: geteuid().is_root(),
    };
    let plan = CalibrationPlan::new(&system, request)?;
    let report = PlanReport::new(plan.steps(), plan.duration(), plan.describe())
        .with_bytes(plan.fill_bytes(), plan.most_bytes_written());
    if args.dry_run {
        return report.print(args.format, out);
    }
    let beyond = ", and the time to fill the test files";
    tell!("{}", announce(&report.does, plan.duration(), beyond));
    let calibration = waiting::counting(
        waiting::Jobs::one(),
        plan.steps(),
        "steps",
        |finished, cancelled| Ok(calibrate(&system, &plan, finished, cancelled)?),
    )?;
    print_notes(&calibration.notes);
    print(args, &calibration, out)?;
    // What was measured is shown even where it cannot be written any more.
    out.print()?;
    let text = calibration.machine.to_toml()?;
    write_text(&args.output, args.force, &text).with_context(|| args.output.display().to_string())
}

fn print(args: &Args, calibration: &CalibratedMachine, out: &mut Screen) -> anyhow::Result<()> {
    let figures = calibration.machine.figures();
    let count = |is_such: fn(&Origin) -> bool| {
        let origins = figures.iter().map(|figure| &figure.figure.origin);
        origins.filter(|origin| is_such(origin)).count()
    };
    let measured = count(|origin| matches!(origin, Origin::Measured(_)));
    let assumed = count(|origin| matches!(origin, Origin::Assumed(_)));
    let prediction = calibration.machine.prediction.as_ref();
    let machine = args.output.display().to_string();
    match args.format {
        Format::Json => output::json(
            out,
            &Report {
                machine,
                calibration,
                prediction,
                measured,
                assumed,
            },
        ),
        Format::Csv => output::csv(out, HEADER, calibration.jobs.iter().flat_map(rows)),
        Format::Table => {
            output::table(out, HEADER, calibration.jobs.iter().flat_map(rows))?;
            writeln!(out)?;
            if let Some(error) = prediction {
                out.prose(&format!("predictions on this machine: {error}"), 2)?;
            }
            let counts = format!("{measured} figures measured, {assumed} still assumed");
            out.prose(
                &format!("{machine}: {counts}; `wakepath machine show {machine}` lists them"),
                2,
            )?;
            Ok(())
        }
    }
}

const HEADER: [&str; 6] = [
    "job",
    "metric",
    "live",
    "simulated",
    "error %",
    "uncalibrated error %",
];

/// A row for each metric of a job.
fn rows(job: &JobPrediction) -> [[String; 6]; 3] {
    let errors = job.simulated.percent_above(&job.live);
    let before = job.before.percent_above(&job.live);
    let (live, simulated) = (job.live, job.simulated);
    let values = [
        ("mean us", live.mean_us, simulated.mean_us),
        ("p99 us", live.p99_us, simulated.p99_us),
        ("IOPS", live.iops, simulated.iops),
    ];
    std::array::from_fn(|index| {
        let (metric, live, simulated) = values[index];
        [
            job.job.clone(),
            metric.to_owned(),
            format!("{live:.1}"),
            format!("{simulated:.1}"),
            format!("{:+.1}", errors[index]),
            format!("{:+.1}", before[index]),
        ]
    })
}
