//! A machine file with measured figures, and how far predictions with it are off.
//!
//! [`calibrate`] captures a machine, measures its drive and its wake-ups, and puts these figures in the place of declared
//! and assumed ones. The CPU's work per request is fitted. Then jobs that no figure was fitted to run on the machine and in
//! the simulator; their differences are the [prediction error](wakepath_hardware::machine::PredictionError).

mod error;
mod figures;
mod folder;
mod job_list;
mod jobs;
mod plan;

use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use wakepath_hardware::Machine;
use wakepath_measure::drive::{self, DriveMeasurement};
use wakepath_measure::wake::{self, WakeMeasurement, WakePlan};
use wakepath_measure::{ExperimentControl, MeasureError};
use wakepath_study::file::StudyError;
use wakepath_system::System;
use wakepath_system::capture::machine::describe;

use self::folder::Folder;

pub use error::CalibrateError;
pub use figures::put_in_place;
pub use jobs::{JobFigures, JobPrediction, prediction_error};
pub use plan::{CalibrationPlan, CalibrationRequest};

/// Comparisons are void on CPUs busier with other work than this, in per cent.
const BUSY: f64 = 20.0;

/// A calibrated machine.
#[derive(Clone, Debug, Serialize)]
pub struct CalibratedMachine {
    /// The machine with its measured figures.
    #[serde(skip)]
    pub machine: Machine,
    /// What the drive takes.
    pub drive: DriveMeasurement,
    /// What wake-ups take; absent where the machine has nothing to measure.
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
    let (mut captured, mut notes) = describe(system, &plan.request.name)?;
    let drive = drive::measure(system, &plan.drive, control)?;
    notes.extend(drive.notes.iter().cloned());
    notes.extend(figures::choose_measured_drive(
        &mut captured,
        system,
        drive.device.as_ref(),
    ));
    // What was measured so far is kept, whatever fails from here on.
    let wake = match &plan.wake {
        Ok(_) if cancelled.load(Ordering::Relaxed) => Ok(None),
        Ok(wake) => measure_wakes(system, wake, control),
        Err(why) => Err(why.clone()),
    };
    let wake = wake.unwrap_or_else(|why| {
        notes.push(format!("no wake-ups were measured: {why}"));
        None
    });
    notes.extend(wake.iter().flat_map(|wake| wake.notes.iter().cloned()));
    let mut machine = captured.clone();
    notes.extend(put_in_place(&mut machine, &drive, wake.as_ref()));
    if let Err(error) = machine.check() {
        notes.push(format!(
            "the measured figures make no valid machine, so the file has the captured one: {error}"
        ));
        machine = captured.clone();
    }
    let compared = Folder::make(&plan.request.folder).and_then(|folder| {
        jobs::compare([&captured, &machine], &folder, plan, (finished, cancelled))
    });
    let jobs = match compared {
        Err(CalibrateError::Study(StudyError::Interrupted)) => Vec::new(),
        Err(error) => {
            notes.push(format!("there is no prediction error: {error}"));
            Vec::new()
        }
        Ok(jobs) => jobs,
    };
    if cancelled.load(Ordering::Relaxed) {
        notes.push("ended early: figures not yet measured stay as captured".to_owned());
    }
    match drive.conditions.busy_percent.filter(|busy| *busy > BUSY) {
        Some(busy) => notes.push(format!(
            "the CPUs were {busy:.0} % busy with other work, so the file keeps no prediction error"
        )),
        None => machine.prediction = prediction_error(&jobs, &drive.conditions),
    }
    Ok(CalibratedMachine {
        machine,
        drive,
        wake,
        jobs,
        notes,
    })
}

/// Measures wake-ups; `None` if a signal came first, and the reason if they cannot be measured.
fn measure_wakes(
    system: &System,
    plan: &WakePlan,
    control: ExperimentControl<'_>,
) -> Result<Option<WakeMeasurement>, String> {
    match wake::measure(system, plan, None, control) {
        Ok(wake) => Ok(Some(wake)),
        Err(MeasureError::Cancelled) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}
