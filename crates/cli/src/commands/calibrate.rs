//! `wakepath calibrate`: a machine file with measured figures, and how far predictions with it are off.

mod page;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use rustix::process::geteuid;
use serde::Serialize;
use wakepath_calibrate::{
    CalibratedMachine, CalibrationPhase, CalibrationPlan, CalibrationRequest, JobPrediction,
    MOST_ROUNDS, TEST_FILES, calibrate,
};
use wakepath_hardware::machine::{Origin, PredictionError, SYSTEM_FILE, calibration_path_to_write};
use wakepath_system::System;

use super::measure::experiment::{
    PlanReport, check_result_file, choose_size, parse_mebibytes, print_notes, write_result_file,
};
use super::measure::page::{page_head, page_rows, write_page};
use crate::messages::warning;
use crate::output::{self, Format, Screen};
use crate::until;
use page::PageText;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo wakepath calibrate --folder /var/tmp --dry-run
  sudo wakepath calibrate --folder /var/tmp --budget 10m
  sudo wakepath calibrate --folder /var/tmp --rounds 5 --job mine.fio -o machine.toml
  sudo wakepath calibrate --folder /var/tmp --budget 3m --phases wake,jobs
  wakepath sim job.fio --machine here")]
pub(crate) struct Args {
    /// A folder on the drive to measure; test files are made there, and removed.
    #[arg(long, value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Size of the two test files: 256m, 4g; larger than the drive's cache is best [default: a sixteenth of the free space, 1 to
    /// 2 GiB, both together at most half of what is free].
    #[arg(long, value_name = "SIZE", value_parser = parse_mebibytes)]
    size: Option<u64>,
    /// How long all of it takes, without the time to fill the test files.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = until::parse_duration_or_seconds)]
    budget: Duration,
    /// How often to calibrate, predict and measure in turn, within the budget; each round is compared with the others.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MOST_ROUNDS as u64))]
    rounds: u64,
    /// A fio job to compare on the machine and in the simulator, in place of the usual four; give it again for more. It may
    /// write into files, and not to devices.
    #[arg(long, value_name = "FILE")]
    job: Vec<PathBuf>,
    /// What to do beside measuring the drive, with commas between; figures of other parts stay as captured [default: all].
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    phases: Vec<Phase>,
    /// Name of the machine in its file.
    #[arg(long, default_value = "here")]
    name: String,
    /// The machine file to write [default: /var/lib/wakepath-machine/machine.toml for root, else
    /// ~/.local/share/wakepath/machine.toml: the machine `here`; an earlier calibration there is replaced].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The page with every measurement as a picture [default: beside the machine file, with the ending html].
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Replace the files of --output and --page if they exist.
    #[arg(long)]
    force: bool,
    /// Say what would be done and how long that takes, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// A part of a calibration.
#[derive(Clone, Copy, ValueEnum)]
enum Phase {
    /// What wakes the machine at rest: background work.
    Background,
    /// The path of reads: parts of an I/O's work, interrupts between CPUs, ticks.
    Path,
    /// Watts of idle states and busy CPUs.
    Power,
    /// Wake-ups from idle states.
    Wake,
    /// Jobs on the machine and simulated: the prediction error.
    Jobs,
}

impl Phase {
    /// The part by its own name.
    const fn part(self) -> CalibrationPhase {
        match self {
            Self::Background => CalibrationPhase::Background,
            Self::Path => CalibrationPhase::Path,
            Self::Power => CalibrationPhase::Power,
            Self::Wake => CalibrationPhase::Wake,
            Self::Jobs => CalibrationPhase::Jobs,
        }
    }
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
    let file = if args.dry_run {
        None
    } else {
        let chosen = MachineOutput::choose_output(args)?;
        chosen.check_output_may_be_written()?;
        check_result_file(&chosen.page_path(), chosen.page_replaces())?;
        Some(chosen)
    };
    let system = System::live();
    let (file_bytes, size_reason) = choose_size(args.size, &args.folder, TEST_FILES)?;
    let request = CalibrationRequest {
        name: args.name.clone(),
        folder: args.folder.clone(),
        file_bytes,
        budget: args.budget,
        forced: geteuid().is_root(),
        rounds: args.rounds as usize,
        jobs: args.job.clone(),
        phases: if args.phases.is_empty() {
            CalibrationPhase::ALL.to_vec()
        } else {
            args.phases.iter().map(|phase| phase.part()).collect()
        },
    };
    let plan = CalibrationPlan::new(&system, request)?;
    let mut does = plan.describe();
    does.extend(size_reason);
    let report = PlanReport::new(plan.steps(), plan.duration(), does)
        .with_bytes_written(plan.fill_bytes(), plan.most_bytes_written());
    let Some(file) = file else {
        return report.print_plan(args.format, out);
    };
    let beyond = ", and the time to fill the test files";
    let calibration = report.announce_and_carry_out(beyond, |finished, cancelled| {
        Ok(calibrate(&system, &plan, finished, cancelled)?)
    })?;
    print_notes(&calibration.notes);
    let (written, warning) = file.beside_earlier_if_flawed(calibration.flaw.as_deref());
    print_calibration(args.format, &written.path, &calibration, out)?;
    // Figures are printed even if the machine file cannot be written any more.
    output::print_result(out)?;
    let text = calibration.machine.to_toml()?;
    written
        .write(&text)
        .with_context(|| written.path.display().to_string())?;
    let rows = calibration
        .jobs
        .iter()
        .filter_map(prediction_rows)
        .flatten();
    let prediction = calibration.machine.prediction.iter();
    let page_text = PageText {
        command: describe_command(args),
        answers: prediction.flat_map(describe_prediction_error).collect(),
        head: page_head(HEADER),
        rows: page_rows(rows),
    };
    let page = page::compose_page(&calibration, page_text);
    write_page(&written.page_path(), written.page_replaces(), &page)?;
    if written.is_for_all_users() {
        fs::set_permissions(written.page_path(), Permissions::from_mode(0o644))?;
    }
    if let Some(text) = warning {
        warning!("{text}");
    }
    Ok(())
}

/// The command that measures again.
fn describe_command(args: &Args) -> String {
    format!(
        "sudo wakepath calibrate --folder {} --budget {}s --rounds {}",
        args.folder.display(),
        args.budget.as_secs(),
        args.rounds
    )
}

/// Where the calibrated machine's file and its page go.
struct MachineOutput {
    path: PathBuf,
    /// Whether a machine file that exists is replaced.
    replaces: bool,
    /// Whether the folder is wakepath's own, and is made if missing.
    is_usual: bool,
    /// The page, if named.
    page: Option<PathBuf>,
    /// Whether a named page that is there is replaced.
    replaces_page: bool,
}

impl MachineOutput {
    fn choose_output(args: &Args) -> anyhow::Result<Self> {
        if let Some(path) = &args.output {
            return Ok(Self {
                path: path.clone(),
                replaces: args.force,
                is_usual: false,
                page: args.page.clone(),
                replaces_page: args.force,
            });
        }
        let usual = calibration_path_to_write(geteuid().is_root());
        let path = usual.context("WAKEPATH_HERE is empty, or there is no home folder; name the machine file with --output")?;
        Ok(Self {
            path,
            replaces: true,
            is_usual: true,
            page: args.page.clone(),
            replaces_page: args.force,
        })
    }

    /// The page as named, or beside the machine file.
    fn page_path(&self) -> PathBuf {
        let named = self.page.clone();
        named.unwrap_or_else(|| self.path.with_extension("html"))
    }

    /// Whether a page that is there is replaced: one that was not named goes with its machine file.
    const fn page_replaces(&self) -> bool {
        if self.page.is_some() {
            self.replaces_page
        } else {
            self.replaces
        }
    }

    /// Checks before the measurement that the machine file can be written.
    fn check_output_may_be_written(&self) -> anyhow::Result<()> {
        if let Some(folder) = self.path.parent().filter(|_| self.is_usual) {
            self.make_folder(folder)
                .with_context(|| folder.display().to_string())?;
        }
        check_result_file(&self.path, self.replaces)
    }

    fn make_folder(&self, folder: &Path) -> std::io::Result<()> {
        let is_new = !folder.exists();
        fs::create_dir_all(folder)?;
        if is_new && self.is_for_all_users() {
            fs::set_permissions(folder, Permissions::from_mode(0o755))?;
        }
        Ok(())
    }

    /// Whether all users read this machine file, so that it must be readable whatever root's umask is.
    fn is_for_all_users(&self) -> bool {
        self.is_usual && self.path == Path::new(SYSTEM_FILE)
    }

    /// Where the machine file goes: if the calibration has a flaw, beside an earlier file, with a warning.
    fn beside_earlier_if_flawed(self, flaw: Option<&str>) -> (Self, Option<String>) {
        let Some(flaw) = flaw.filter(|_| self.path.exists()) else {
            return (self, None);
        };
        let partial = self.path.with_extension("partial.toml");
        let warning = format!(
            "{flaw}: {} stays as it was, and {} has what was measured; calibrate again",
            self.path.display(),
            partial.display()
        );
        let beside = Self {
            path: partial,
            replaces: true,
            is_usual: false,
            page: self.page,
            replaces_page: self.replaces_page,
        };
        (beside, Some(warning))
    }

    fn write(&self, text: &str) -> anyhow::Result<()> {
        write_result_file(&self.path, self.replaces, text)?;
        if self.is_for_all_users() {
            fs::set_permissions(&self.path, Permissions::from_mode(0o644))?;
        }
        Ok(())
    }
}

fn print_calibration(
    format: Format,
    file: &Path,
    calibration: &CalibratedMachine,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let figures = calibration.machine.figures();
    let count = |is_such: fn(&Origin) -> bool| {
        let origins = figures.iter().map(|figure| &figure.figure.origin);
        origins.filter(|origin| is_such(origin)).count()
    };
    let measured = count(|origin| matches!(origin, Origin::Measured(_)));
    let assumed = count(|origin| matches!(origin, Origin::Assumed(_)));
    let prediction = calibration.machine.prediction.as_ref();
    let machine = file.display().to_string();
    let rows = calibration
        .jobs
        .iter()
        .filter_map(prediction_rows)
        .flatten();
    match format {
        Format::Json => output::write_json(
            out,
            &Report {
                machine,
                calibration,
                prediction,
                measured,
                assumed,
            },
        ),
        Format::Csv => output::write_csv(out, HEADER, rows),
        Format::Table => {
            output::write_table(out, HEADER, rows)?;
            writeln!(out)?;
            for line in prediction
                .iter()
                .flat_map(|error| describe_prediction_error(error))
            {
                out.write_folded(&line, 2)?;
            }
            let counts = format!("{measured} figures measured, {assumed} still assumed");
            out.write_folded(
                &format!("{machine}: {counts}; `wakepath machine show {machine}` lists them"),
                2,
            )?;
            Ok(())
        }
    }
}

/// Sentences about the prediction error, beside the spread that it is judged by.
fn describe_prediction_error(error: &PredictionError) -> Vec<String> {
    let mut lines = vec![format!("predictions on this machine: {error}")];
    if let Some(itself) = error.itself {
        lines.push(format!(
            "the machine against itself, between runs: {itself}"
        ));
    }
    if let Some(uncalibrated) = error.uncalibrated {
        lines.push(format!("before the calibration: {uncalibrated}"));
    }
    lines
}

const HEADER: [&str; 8] = [
    "job",
    "policy",
    "metric",
    "live",
    "simulated",
    "error %",
    "against itself %",
    "uncalibrated error %",
];

/// A table row for each metric of a job, with medians over rounds; `None` without runs. Power has one where it is known.
fn prediction_rows(job: &JobPrediction) -> Option<Vec<[String; 8]>> {
    let (live, simulated) = (job.median_on_machine()?, job.median_simulated()?);
    let (errors, before) = (job.errors()?, job.uncalibrated_errors()?);
    let itself = job.differences_from_itself();
    let values = [
        ("mean us", live.mean_us, simulated.mean_us),
        ("p99 us", live.p99_us, simulated.p99_us),
        ("IOPS", live.iops, simulated.iops),
    ];
    let latency_rows = values.into_iter().enumerate().map(|(index, values)| {
        let itself = itself.map(|itself| itself[index]);
        prediction_row(
            job,
            values,
            [Some(errors[index]), Some(before[index])],
            itself,
        )
    });
    let power_row = job.package_power().map(|power| {
        let values = ("package mW", power.live_mw, power.simulated_mw);
        let errors = [Some(power.error_percent), power.uncalibrated_percent];
        prediction_row(job, values, errors, power.itself_percent)
    });
    Some(latency_rows.chain(power_row).collect())
}

/// The row of a metric. `errors`: after and before the calibration.
fn prediction_row(
    job: &JobPrediction,
    (metric, live, simulated): (&str, f64, f64),
    errors: [Option<f64>; 2],
    itself: Option<f64>,
) -> [String; 8] {
    let [error, before] =
        errors.map(|error| error.map_or_else(String::new, |error| format!("{error:+.1}")));
    [
        job.job.clone(),
        job.policy.clone(),
        metric.to_owned(),
        format!("{live:.1}"),
        format!("{simulated:.1}"),
        error,
        itself.map_or_else(String::new, |itself| format!("{itself:.1}")),
        before,
    ]
}

#[cfg(test)]
mod tests {
    use wakepath_calibrate::{JobFigures, PredictionRound};

    use super::*;

    fn figures(package_mw: Option<f64>) -> JobFigures {
        JobFigures {
            mean_us: 100.0,
            p99_us: 200.0,
            iops: 10_000.0,
            package_mw,
        }
    }

    /// Rows of a job with these powers in mW: of two runs on the machine, and simulated as calibrated and as captured.
    fn rows_with_power(powers: [Option<f64>; 4]) -> Vec<[String; 8]> {
        let [first, second, simulated, captured] = powers.map(figures);
        let round = PredictionRound {
            live: vec![first, second],
            simulated,
            uncalibrated: captured,
        };
        let job = JobPrediction {
            job: "reads".to_owned(),
            policy: "unchanged".to_owned(),
            rounds: vec![round],
        };
        prediction_rows(&job).unwrap()
    }

    #[test]
    fn power_has_a_row_where_it_is_known() {
        let [live, simulated, captured] = [4_000.0, 4_400.0, 6_000.0].map(Some);
        let uncounted = rows_with_power([None, None, simulated, captured]);
        let metrics: Vec<&str> = uncounted.iter().map(|row| row[2].as_str()).collect();
        assert_eq!(metrics, ["mean us", "p99 us", "IOPS"]);
        let known = rows_with_power([live, live, simulated, captured]);
        assert_eq!(known.len(), metrics.len() + 1);
        let power = &known[3];
        assert_eq!(power[2..6], ["package mW", "4000.0", "4400.0", "+10.0"]);
        assert_eq!(power[6..], ["0.0", "+50.0"]);
        // A machine that was captured without figures of power.
        let calibrated = rows_with_power([live, live, simulated, None]);
        assert_eq!(calibrated[3][7], "");
    }

    #[test]
    fn a_calibration_with_a_flaw_spares_an_earlier_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machine.toml");
        let choose = |flaw: Option<&str>| {
            let chosen = MachineOutput {
                path: path.clone(),
                replaces: true,
                is_usual: true,
                page: None,
                replaces_page: false,
            };
            chosen.beside_earlier_if_flawed(flaw)
        };
        let (first, warning) = choose(Some("a signal ended it early"));
        assert_eq!((&first.path, warning), (&path, None));
        fs::write(&path, "earlier").unwrap();
        let (complete, warning) = choose(None);
        assert_eq!((&complete.path, warning), (&path, None));
        let (beside, warning) = choose(Some("a signal ended it early"));
        beside.write("part").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "earlier");
        let partial = folder.path().join("machine.partial.toml");
        assert_eq!(fs::read_to_string(&partial).unwrap(), "part");
        let text = warning.unwrap();
        assert!(text.starts_with("a signal ended it early: "), "{text}");
    }
}
