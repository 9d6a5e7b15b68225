//! A machine file with measured figures, and how far predictions with it are off.
//!
//! [`calibrate`] captures a machine, measures its drive and its wake-ups, and puts these figures in the place of declared
//! and assumed ones. The CPU's work per request is fitted. Then jobs that no figure was fitted to run on the machine and in
//! the simulator; their differences are the [prediction error](wakepath_hardware::machine::PredictionError).

mod error;
mod figures;
mod folder;
mod identity;
mod job_list;
mod plan;
mod prediction;
mod study;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use wakepath_hardware::Machine;
use wakepath_measure::drive::{self, DriveMeasurement};
use wakepath_measure::wake::{self, WakeMeasurement, WakePlan};
use wakepath_measure::{ExperimentControl, MeasureError, ShallowHold, write_random_file};
use wakepath_study::file::StudyError;
use wakepath_system::System;
use wakepath_system::capture::machine::describe;

use self::folder::Folder;
use self::job_list::{CalibrationJob, FITTING_JOBS};

pub use error::CalibrateError;
pub use figures::put_in_place;
pub use identity::{StaleFigure, describe_calibrated, find_stale_figures};
pub use plan::{CalibrationPlan, CalibrationRequest, MOST_ROUNDS};
pub use prediction::{JobFigures, JobPrediction, PredictionRound, prediction_error};

/// Comparisons are void on CPUs busier with other work than this, in per cent.
const BUSY: f64 = 20.0;

/// A calibrated machine.
#[derive(Clone, Debug, Serialize)]
pub struct CalibratedMachine {
    /// The machine with the figures of the last round.
    #[serde(skip)]
    pub machine: Machine,
    /// What the drive takes, in the last round.
    pub drive: DriveMeasurement,
    /// What wake-ups take, in the last round; absent where the machine has nothing to measure.
    pub wake: Option<WakeMeasurement>,
    /// Jobs as run and as simulated; empty without fio.
    pub jobs: Vec<JobPrediction>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// Calibrates a machine. `finished` gets the number of steps done since its last call.
///
/// # Errors
/// The machine cannot be described, or the drive cannot be measured. What was changed is put back. Later failures are notes.
pub fn calibrate(
    system: &System,
    plan: &CalibrationPlan,
    finished: &(dyn Fn(usize) + Sync),
    cancelled: &AtomicBool,
) -> Result<CalibratedMachine, CalibrateError> {
    let control = ExperimentControl::new(finished, cancelled);
    // A second measurement is refused before anything is written.
    ShallowHold::take(system)?.release()?;
    let folder = Folder::make(&plan.request.folder)?;
    write_random_file(&folder.data_file(), plan.request.file_bytes, control)?;
    let (captured, mut notes) = describe(system, &plan.request.name)?;
    let calibration = Calibration {
        system,
        plan,
        control,
        cancelled,
        folder,
        captured,
    };
    let (mut machine, drive, wake) = calibration.measure(&mut notes)?;
    let mut result = CalibratedMachine {
        jobs: calibration.predict(&machine, &drive, &mut notes),
        machine: machine.clone(),
        drive,
        wake,
        notes,
    };
    for _ in 1..plan.rounds() {
        if cancelled.load(Ordering::Relaxed) {
            break;
        }
        // A later round may fail; what was measured before stands.
        let mut later_notes = Vec::new();
        match calibration.measure(&mut later_notes) {
            Ok((later, drive, wake)) => {
                machine = later;
                let predicted = calibration.predict(&machine, &drive, &mut later_notes);
                add_round(&mut result.jobs, predicted);
                (result.drive, result.wake) = (drive, wake);
            }
            Err(CalibrateError::Measure(MeasureError::Cancelled)) => {}
            Err(error) => later_notes.push(format!("a round failed: {error}")),
        }
        later_notes.retain(|note| !result.notes.contains(note));
        result.notes.extend(later_notes);
    }
    if cancelled.load(Ordering::Relaxed) {
        let early = "ended early: figures not yet measured stay as captured";
        result.notes.push(early.to_owned());
    }
    match result
        .drive
        .conditions
        .busy_percent
        .filter(|busy| *busy > BUSY)
    {
        Some(busy) => result.notes.push(format!(
            "the CPUs were {busy:.0} % busy with other work, so the file keeps no prediction error"
        )),
        None => machine.prediction = prediction_error(&result.jobs, &result.drive.conditions),
    }
    result.machine = machine;
    Ok(result)
}

/// Adds a round to earlier predictions.
fn add_round(all: &mut Vec<JobPrediction>, round: Vec<JobPrediction>) {
    for prediction in round {
        let mut known = all.iter_mut();
        let same = known
            .find(|other| (&other.job, &other.policy) == (&prediction.job, &prediction.policy));
        match same {
            Some(same) => same.rounds.extend(prediction.rounds),
            None => all.push(prediction),
        }
    }
}

/// Shared by all rounds.
struct Calibration<'a> {
    system: &'a System,
    plan: &'a CalibrationPlan,
    control: ExperimentControl<'a>,
    cancelled: &'a AtomicBool,
    folder: Folder,
    captured: Machine,
}

impl Calibration<'_> {
    /// Measures drive and wake-ups, and puts their figures into the captured machine.
    fn measure(
        &self,
        notes: &mut Vec<String>,
    ) -> Result<(Machine, DriveMeasurement, Option<WakeMeasurement>), CalibrateError> {
        let drive = drive::measure(self.system, &self.plan.drive, self.control)?;
        notes.extend(drive.notes.iter().cloned());
        let wake = self.measure_wakes(notes);
        let mut captured = self.captured.clone();
        notes.extend(figures::choose_measured_drive(
            &mut captured,
            self.system,
            drive.device.as_ref(),
        ));
        let mut machine = captured.clone();
        notes.extend(put_in_place(&mut machine, &drive, wake.as_ref()));
        figures::take_timer_slack(&mut machine, self.system);
        if let Err(why) = self.fit_jobs(&mut machine) {
            notes.push(format!(
                "io_path.program_kcycles and asynchronous_kcycles stay as captured: {why}"
            ));
        }
        let device = drive.device.as_ref();
        machine.calibrated_on = Some(describe_calibrated(self.system, device, &drive.conditions));
        if let Err(error) = machine.check() {
            notes.push(format!(
                "the measured figures make no valid machine, so the file has the captured one: {error}"
            ));
            machine = captured;
        }
        Ok((machine, drive, wake))
    }

    /// Measures wake-ups; `None` if a signal came first, or if they cannot be measured.
    fn measure_wakes(&self, notes: &mut Vec<String>) -> Option<WakeMeasurement> {
        let file = self.folder.data_file();
        let measured = match &self.plan.wake {
            Ok(_) if self.cancelled.load(Ordering::Relaxed) => Ok(None),
            Ok(wake) => measure_wakes(self.system, wake, &file, self.control),
            Err(why) => Err(why.clone()),
        };
        let wake = measured.unwrap_or_else(|why| {
            notes.push(format!("no wake-ups were measured: {why}"));
            None
        });
        notes.extend(wake.iter().flat_map(|wake| wake.notes.iter().cloned()));
        wake
    }

    /// Fits the work by fio and its asynchronous engine to separate jobs, while CPUs are held shallow.
    fn fit_jobs(&self, machine: &mut Machine) -> Result<(), String> {
        if !self.plan.fits_jobs() {
            return Err("holding CPUs shallow needs root".to_owned());
        }
        let hold = ShallowHold::take(self.system).map_err(|error| error.to_string())?;
        if let Some(why) = hold.refusal() {
            return Err(why.to_owned());
        }
        let jobs = CalibrationJob::reads(&FITTING_JOBS);
        let study = self.plan.fitting_study(&self.folder, &jobs);
        let measured = study.measure(self.control, self.cancelled);
        hold.release().map_err(|error| error.to_string())?;
        let runs = measured.map_err(|error| error.to_string())?;
        let figures = runs.iter().flatten();
        let figures: Vec<JobFigures> = figures
            .filter_map(|runs| JobFigures::median_of_runs(runs))
            .collect();
        match figures[..] {
            [synchronous, asynchronous] => {
                figures::fit_engine_work(machine, &synchronous, &asynchronous)
            }
            _ => Err("fio told no latency".to_owned()),
        }
    }

    /// Runs the jobs and simulates them, with the machine as captured and as calibrated; empty with a note after a failure.
    fn predict(
        &self,
        machine: &Machine,
        drive: &DriveMeasurement,
        notes: &mut Vec<String>,
    ) -> Vec<JobPrediction> {
        let mut captured = self.captured.clone();
        figures::choose_measured_drive(&mut captured, self.system, drive.device.as_ref());
        match self.compare([&captured, machine]) {
            Ok(jobs) => jobs,
            Err(CalibrateError::Study(StudyError::Interrupted)) => Vec::new(),
            Err(error) => {
                notes.push(format!("there is no prediction error: {error}"));
                Vec::new()
            }
        }
    }

    fn compare(
        &self,
        [captured, calibrated]: [&Machine; 2],
    ) -> Result<Vec<JobPrediction>, CalibrateError> {
        let study = self.plan.job_study(&self.folder);
        let live = study.measure(self.control, self.cancelled)?;
        let before = study.simulate(captured, self.cancelled)?;
        let after = study.simulate(calibrated, self.cancelled)?;
        let mut predictions = Vec::new();
        for (job, sets) in self
            .plan
            .jobs
            .iter()
            .zip(live.iter().zip(before.iter().zip(&after)))
        {
            let (live, (before, after)) = sets;
            for (index, set) in self.plan.sets().iter().enumerate() {
                let runs = live[index].iter().map(JobFigures::from_run);
                let figures = [&after[index], &before[index]];
                let simulated = figures.map(|runs| JobFigures::median_of_runs(runs));
                if let (Some(live), [Some(simulated), Some(uncalibrated)]) =
                    (runs.collect::<Option<Vec<_>>>(), simulated)
                {
                    predictions.push(JobPrediction {
                        job: job.name.clone(),
                        policy: (*set).to_owned(),
                        rounds: vec![PredictionRound {
                            live,
                            simulated,
                            uncalibrated,
                        }],
                    });
                }
            }
        }
        Ok(predictions)
    }
}

/// Measures wake-ups; `None` if a signal came first, and the reason if they cannot be measured.
fn measure_wakes(
    system: &System,
    plan: &WakePlan,
    file: &Path,
    control: ExperimentControl<'_>,
) -> Result<Option<WakeMeasurement>, String> {
    match wake::measure(system, plan, Some(file), control) {
        Ok(wake) => Ok(Some(wake)),
        Err(MeasureError::Cancelled) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}
