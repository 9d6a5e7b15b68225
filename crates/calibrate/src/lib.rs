//! A machine file with measured figures, and how far predictions with it are off.
//!
//! [`calibrate`] captures a machine, measures its drive and its wake-ups, and puts these figures in the place of declared
//! and assumed ones. The CPU's work per request is fitted. Then jobs that no figure was fitted to run on the machine and in
//! the simulator; their differences are the [prediction error](wakepath_hardware::machine::PredictionError).

mod figures;
mod jobs;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::MachineError;
use wakepath_measure::drive::{self, DriveMeasurement, DrivePlan, TestTarget};
use wakepath_measure::wake::{self, WakeMeasurement, WakePlan, WakeSource};
use wakepath_measure::{ExperimentControl, MeasureError};
use wakepath_study::file::StudyError;
use wakepath_system::System;
use wakepath_system::capture::machine::describe;

pub use figures::put_in_place;
pub use jobs::{JobFigures, JobPrediction, prediction_error};

/// Shares of the budget.
const DRIVE_SHARE: f64 = 0.45;
const WAKE_SHARE: f64 = 0.15;
/// Shortest run of a job in seconds: fio counts in milliseconds, and begins slowly.
const SHORTEST_JOB: f64 = 3.0;
/// Comparisons are void on CPUs busier with other work than this, in per cent.
const BUSY: f64 = 20.0;
/// Runs of each job.
pub(crate) const REPEATS: u32 = 2;

/// Why a machine could not be calibrated.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// An experiment.
    #[error(transparent)]
    Measure(#[from] MeasureError),
    /// The machine cannot be described.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A job cannot be run or simulated.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// The folder for test files.
    #[error("{}: {action}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// A folder whose name cannot stand in a job file.
    #[error(
        "{}: expected a path in UTF-8 without colons, semicolons, '#', '$', control characters and blanks at its ends, \
         which fio job files cannot name; name another --folder",
        .0.display()
    )]
    FolderName(PathBuf),
}

/// What is calibrated, and how.
#[derive(Clone, Debug)]
pub struct CalibrationRequest {
    /// Machine name for the file.
    pub name: String,
    /// A folder on the drive; test files are made there and removed.
    pub folder: PathBuf,
    /// Size of the test files in bytes.
    pub file_bytes: u64,
    /// Time of all experiments and jobs together.
    pub budget: Duration,
    /// Whether idle states are allowed one at a time; needs root.
    pub forced: bool,
}

/// What a calibration does.
#[derive(Clone, Debug)]
pub struct CalibrationPlan {
    request: CalibrationRequest,
    drive: DrivePlan,
    wake: Result<WakePlan, String>,
    job_seconds: f64,
}

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

impl CalibrationPlan {
    /// Plans a calibration. Nothing is written.
    ///
    /// # Errors
    /// The folder cannot take the test files.
    pub fn new(system: &System, request: CalibrationRequest) -> Result<Self, CalibrateError> {
        let folder = &request.folder;
        if !fits_job_file(folder) {
            return Err(CalibrateError::FolderName(folder.clone()));
        }
        let target = TestTarget::Write {
            path: folder.join(".wakepath-calibrate.drive"),
            bytes: request.file_bytes,
        };
        target.check()?;
        let sources = [WakeSource::Task, WakeSource::Timer];
        let wake_time = request.budget.mul_f64(WAKE_SHARE);
        let wake = WakePlan::new(system, &sources, request.forced, Some(wake_time));
        let drive = DrivePlan::new(target, Some(request.budget.mul_f64(DRIVE_SHARE)));
        let left = request
            .budget
            .saturating_sub(drive.duration())
            .saturating_sub(wake_time);
        let runs = jobs::JOBS.len() as f64 * f64::from(REPEATS);
        Ok(Self {
            drive,
            wake: wake.map_err(|error| error.to_string()),
            job_seconds: (left.as_secs_f64() / runs).floor().max(SHORTEST_JOB),
            request,
        })
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        let wake = self.wake.as_ref().map_or(0, WakePlan::steps);
        self.drive.steps() + wake + jobs::JOBS.len() * REPEATS as usize
    }

    /// Time of all steps, without the time to fill test files.
    pub fn duration(&self) -> Duration {
        let wake = self
            .wake
            .as_ref()
            .map_or(Duration::ZERO, WakePlan::duration);
        let runs = jobs::JOBS.len() as f64 * f64::from(REPEATS);
        self.drive.duration() + wake + Duration::from_secs_f64(self.job_seconds * runs)
    }

    /// Bytes written to fill test files.
    pub const fn fill_bytes(&self) -> u64 {
        self.drive.fill_bytes().saturating_mul(2)
    }

    /// Upper bound for bytes written after filling.
    pub fn most_bytes_written(&self) -> u64 {
        self.drive.most_bytes_written()
    }

    /// What is done, for people.
    pub fn describe(&self) -> Vec<String> {
        let mut lines = self.drive.describe();
        match &self.wake {
            Ok(wake) => lines.extend(wake.describe()),
            Err(why) => lines.push(format!("measures no wake-ups: {why}")),
        }
        let names: Vec<&str> = jobs::JOBS.iter().map(|(name, _)| *name).collect();
        lines.push(format!(
            "then runs fio {REPEATS} times for {} s each on a file of {} MiB, and simulates the same: {}",
            self.job_seconds,
            self.request.file_bytes >> 20,
            names.join("; ")
        ));
        lines
    }
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

/// Whether fio reads a folder's path from a job file as it stands: `;` and `#` begin comments, `$` a variable, and `:`
/// separates files.
fn fits_job_file(folder: &Path) -> bool {
    folder.to_str().is_some_and(|path| {
        path.trim() == path
            && !path.contains([':', ';', '#', '$'])
            && !path.contains(char::is_control)
    })
}

/// A folder for test files, removed with them.
struct Folder(tempfile::TempDir);

impl Folder {
    fn make(parent: &Path) -> Result<Self, CalibrateError> {
        let made = tempfile::Builder::new()
            .prefix(".wakepath-calibrate-")
            .tempdir_in(parent);
        made.map(Self).map_err(|source| CalibrateError::Folder {
            path: parent.to_owned(),
            action: "making a folder for test files",
            source,
        })
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn folders_that_a_job_file_cannot_name_are_refused() {
        for path in ["/var/tmp", ".", "/mnt/a b/c", "/mnt/\u{e9}"] {
            assert!(fits_job_file(Path::new(path)), "{path}");
        }
        for path in [
            "/a;b", "/a#b", "/$HOME", "/a:b", "/a\nb", "/a\tb", " a", "/a ",
        ] {
            assert!(!fits_job_file(Path::new(path)), "{path}");
        }
        assert!(!fits_job_file(Path::new(OsStr::from_bytes(b"/\xff"))));
    }
}
