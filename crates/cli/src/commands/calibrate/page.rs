//! The page of a calibration: every measurement as a picture, what is still assumed, and the error of predictions.

use wakepath_calibrate::{CalibratedMachine, JobFigures, JobPrediction};
use wakepath_hardware::machine::{MachineFigure, Origin};
use wakepath_report::html::measurements::{
    AssumedFigure, MeasuredInterval, MeasuredPicture, MeasuredSection, MeasurementPage,
};

use crate::commands::measure::page::{MADE_BY, page_head};
use crate::commands::measure::{background, drive, path, power, wake};

/// What the page takes from the command's own output.
pub(super) struct PageText {
    /// The command that measures again.
    pub(super) command: String,
    /// Sentences about the prediction error.
    pub(super) answers: Vec<String>,
    /// Column titles of the table of jobs.
    pub(super) head: Vec<String>,
    /// Rows of the table of jobs.
    pub(super) rows: Vec<Vec<String>>,
}

/// Puts the page together.
pub(super) fn compose_page(calibration: &CalibratedMachine, text: PageText) -> MeasurementPage {
    let machine = &calibration.machine;
    let mut sections = Vec::new();
    if !calibration.jobs.is_empty() {
        sections.extend(prediction_sections(&calibration.jobs, text.head, text.rows));
    }
    let surroundings = &calibration.surroundings;
    sections.extend(calibration.wake.iter().flat_map(wake::sections));
    sections.extend(drive::sections(&calibration.drive));
    sections.extend(surroundings.path.iter().flat_map(path::sections));
    sections.extend(
        surroundings
            .background
            .iter()
            .flat_map(background::sections),
    );
    sections.extend(surroundings.power.iter().flat_map(power::sections));
    let figures = machine.figures();
    sections.push(measured_section(&figures));
    let mut facts = drive::facts(&calibration.drive);
    facts.insert(0, calibration.drive.file.clone());
    MeasurementPage {
        subject: String::new(),
        title: machine.title.clone(),
        facts,
        cautions: calibration.notes.clone(),
        answers: text.answers,
        sections,
        assumed: assumed_figures(&figures),
        commands: vec![text.command],
        made_by: MADE_BY.to_owned(),
        ..MeasurementPage::default()
    }
}

/// Jobs on the machine and simulated: mean latency, and the errors of all metrics.
fn prediction_sections(
    jobs: &[JobPrediction],
    head: Vec<String>,
    rows: Vec<Vec<String>>,
) -> Vec<MeasuredSection> {
    let means = jobs.iter().filter_map(mean_interval).collect();
    let errors = jobs.iter().flat_map(error_lines).collect();
    vec![
        MeasuredSection {
            title: "Jobs: mean latency on the machine, us".to_owned(),
            note: "The bar goes from the lowest to the highest run on the machine. The upright line is the simulation with the \
                   calibrated machine."
                .to_owned(),
            picture: Some(MeasuredPicture::Intervals(means)),
            head,
            rows,
        },
        MeasuredSection {
            title: "Error of simulations, per cent".to_owned(),
            note: "Left of 0 the simulation is too low. The upright line is the error before the calibration; the bar is as long as \
                   the machine differs from itself between runs."
                .to_owned(),
            picture: Some(MeasuredPicture::Intervals(errors)),
            ..MeasuredSection::default()
        },
    ]
}

fn name_job(job: &JobPrediction) -> String {
    format!("{}, {}", job.job, job.policy)
}

fn mean_interval(job: &JobPrediction) -> Option<MeasuredInterval> {
    let runs = || job.rounds.iter().flat_map(|round| &round.live);
    let mean = |figures: &JobFigures| figures.mean_us;
    Some(MeasuredInterval {
        name: name_job(job),
        value: job.median_on_machine()?.mean_us,
        low: runs().map(mean).reduce(f64::min)?,
        high: runs().map(mean).reduce(f64::max)?,
        reference: Some(job.median_simulated()?.mean_us),
    })
}

/// A line for the error of each metric, power among them where it is known.
fn error_lines(job: &JobPrediction) -> Vec<MeasuredInterval> {
    let (Some(errors), Some(before)) = (job.errors(), job.uncalibrated_errors()) else {
        return Vec::new();
    };
    let itself = job.differences_from_itself().unwrap_or_default();
    let metrics = ["mean", "p99", "IOPS"].into_iter().enumerate();
    let lines = metrics.map(|(index, metric)| MeasuredInterval {
        name: format!("{metric}: {}", name_job(job)),
        value: errors[index],
        low: errors[index] - itself[index] / 2.0,
        high: errors[index] + itself[index] / 2.0,
        reference: Some(before[index]),
    });
    let power = job.package_power().map(|power| {
        let half = power.itself_percent.unwrap_or_default() / 2.0;
        MeasuredInterval {
            name: format!("package power: {}", name_job(job)),
            value: power.error_percent,
            low: power.error_percent - half,
            high: power.error_percent + half,
            reference: power.uncalibrated_percent,
        }
    });
    lines.chain(power).collect()
}

/// Figures of the machine file that were measured or fitted, with their intervals.
fn measured_section(figures: &[MachineFigure]) -> MeasuredSection {
    let found = figures.iter().filter_map(|figure| {
        let (n, interval) = match &figure.figure.origin {
            Origin::Measured(measurement) => (
                measurement.n.to_string(),
                measurement
                    .interval()
                    .map_or_else(String::new, |(low, high)| format!("{low} to {high}")),
            ),
            Origin::Fitted(_) => (String::new(), String::new()),
            _ => return None,
        };
        Some(vec![
            figure.key.clone(),
            figure.figure.value.to_string(),
            n,
            interval,
            figure.figure.origin.origin_kind_name().to_owned(),
            figure.origin_in_words(),
        ])
    });
    MeasuredSection {
        title: "Figures of the machine file that were measured".to_owned(),
        note: "Simulations of this machine take these.".to_owned(),
        picture: None,
        head: page_head(["figure", "value", "n", "95 % interval", "origin", "from"]),
        rows: found.collect(),
    }
}

/// Figures of the machine file that nobody measured here.
fn assumed_figures(figures: &[MachineFigure]) -> Vec<AssumedFigure> {
    let left = figures.iter().filter(|figure| {
        !matches!(
            figure.figure.origin,
            Origin::Measured(_) | Origin::Fitted(_) | Origin::Default
        )
    });
    left.map(|figure| AssumedFigure {
        key: figure.key.clone(),
        value: figure.figure.value.to_string(),
        origin: figure.figure.origin.origin_kind_name().to_owned(),
        why: figure.origin_in_words(),
    })
    .collect()
}
